/* What is known about the machine that measures. */
#include "measure/measure.h"

#include <fcntl.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

/* The first line of a small file that begins with `key`; what follows `separator`, trimmed. */
static bool file_value(const char *path, const char *key, char separator, char *value, size_t size)
{
    bool found = false;
    char line[1024];
    FILE *file = fopen(path, "re");
    while (file && !found && fgets(line, sizeof line, file)) {
        if (strncmp(line, key, strlen(key)) != 0)
            continue;
        const char *text = strchr(line, separator);
        if (!text)
            continue;
        text += 1 + strspn(text + 1, " \t\"");
        snprintf(value, size, "%.*s", (int)strcspn(text, "\"\n"), text);
        found = true;
    }
    if (file)
        fclose(file);
    return found;
}

int prn_environment_read(struct prn_environment *e, struct prn_arena *arena)
{
    char text[256];
    struct utsname system;
    cpu_set_t cpus;
    *e = (struct prn_environment){
        .mhz = NAN, .memory_bytes = -1, .load_before = NAN, .load_after = NAN};
    e->cpu = prn_arena_strdup(
        arena,
        file_value("/proc/cpuinfo", "model name", ':', text, sizeof text) ? text : "unknown");
    if (file_value("/proc/cpuinfo", "cpu MHz", ':', text, sizeof text))
        e->mhz = strtod(text, NULL);
    e->cores = sched_getaffinity(0, sizeof cpus, &cpus) == 0 ? CPU_COUNT(&cpus)
                                                             : sysconf(_SC_NPROCESSORS_ONLN);
    e->kernel = prn_arena_strdup(arena, uname(&system) == 0 ? system.release : "unknown");
    e->os = prn_arena_strdup(
        arena,
        file_value("/etc/os-release", "PRETTY_NAME", '=', text, sizeof text) ? text : "Linux");
    if (file_value("/proc/meminfo", "MemTotal", ':', text, sizeof text))
        e->memory_bytes = strtoll(text, NULL, 10) * 1024;
    if (getloadavg(&e->load_before, 1) != 1)
        e->load_before = NAN;
    e->sandbox = "";
    return e->cpu && e->kernel && e->os ? 0 : PRONY_ENOMEM;
}

int64_t prn_memory_available(void)
{
    char text[64];
    return file_value("/proc/meminfo", "MemAvailable", ':', text, sizeof text)
               ? strtoll(text, NULL, 10) * 1024
               : -1;
}
