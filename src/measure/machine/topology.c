#include "measure/machine/topology.h"

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The first line of a file below the folder of a processor. */
static bool read_line(char line[256], int cpu, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static bool read_line(char line[256], int cpu, const char *format, ...)
{
    char path[256];
    va_list args;
    int n = snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/", cpu);
    va_start(args, format);
    vsnprintf(path + n, sizeof path - (size_t)n, format, args);
    va_end(args);
    FILE *file = fopen(path, "re");
    bool read = file && fgets(line, 256, file);
    if (file)
        fclose(file);
    if (read)
        line[strcspn(line, "\n")] = '\0';
    return read;
}

/* "0-3,8": the processors in a list. */
static cpu_set_t parse_list(const char *text)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    while (*text >= '0' && *text <= '9') {
        char *end;
        long first = strtol(text, &end, 10);
        long last = *end == '-' ? strtol(end + 1, &end, 10) : first;
        for (long i = first; i <= last && i < CPU_SETSIZE; i++)
            CPU_SET((size_t)i, &set);
        text = end + (*end == ',');
    }
    return set;
}

static int first_of(const cpu_set_t *set)
{
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET((size_t)i, set))
            return i;
    return -1;
}

/* Whether a processor is the second thread of a core that has an earlier one among those allowed.
 */
static bool is_second(int cpu, const cpu_set_t *allowed)
{
    char line[256];
    if (!read_line(line, cpu, "topology/thread_siblings_list"))
        return false;
    cpu_set_t both = parse_list(line);
    CPU_AND(&both, &both, allowed);
    int first = first_of(&both);
    return first >= 0 && first < cpu;
}

/* "32K", "1024K", "32M" */
static int64_t parse_size(const char *text)
{
    char *end;
    int64_t size = strtoll(text, &end, 10);
    return *end == 'K' ? size << 10 : *end == 'M' ? size << 20 : size;
}

static void read_caches(struct prn_core *core)
{
    char line[256];
    for (int i = 0; read_line(line, core->cpu, "cache/index%d/level", i); i++) {
        long level = strtol(line, NULL, 10);
        if (level < 1 || level > PRN_CACHE_LEVELS_MAX ||
            !read_line(line, core->cpu, "cache/index%d/type", i) ||
            strcmp(line, "Instruction") == 0)
            continue;
        struct prn_cache *cache = &core->caches[level - 1];
        if (read_line(line, core->cpu, "cache/index%d/size", i))
            cache->bytes = parse_size(line);
        cache->instance = core->cpu;
        if (read_line(line, core->cpu, "cache/index%d/shared_cpu_list", i)) {
            cpu_set_t sharing = parse_list(line);
            cache->instance = first_of(&sharing);
        }
    }
}

bool prn_topology_read(struct prn_topology *t, struct prn_arena *arena)
{
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) < 0) {
        CPU_ZERO(&allowed);
        CPU_SET(0, &allowed);
    }
    struct prn_core *cores = PRN_ARENA_ARRAY(arena, (size_t)CPU_COUNT(&allowed), struct prn_core);
    if (!cores)
        return false;
    *t = (struct prn_topology){.cores = cores};
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET((size_t)i, &allowed) && !is_second(i, &allowed)) {
            cores[t->n_cores].cpu = i;
            read_caches(&cores[t->n_cores++]);
        }
    while (t->n_levels < PRN_CACHE_LEVELS_MAX && cores[0].caches[t->n_levels].bytes > 0)
        t->n_levels++;
    return true;
}

/* How many of the first `threads` cores share the cache of core `i`, from the first one on. */
static size_t sharing(const struct prn_topology *t, size_t level, size_t threads, size_t i)
{
    size_t n = 0;
    for (size_t k = 0; k < threads; k++)
        n += t->cores[k].caches[level].instance == t->cores[i].caches[level].instance;
    return n;
}

int64_t prn_topology_capacity(const struct prn_topology *t, size_t level, size_t threads)
{
    int64_t sum = 0;
    for (size_t i = 0; i < threads; i++)
        if (sharing(t, level, i, i) == 0)
            sum += t->cores[i].caches[level].bytes;
    return sum;
}

int64_t prn_topology_share(const struct prn_topology *t, size_t level, size_t threads)
{
    int64_t least = INT64_MAX;
    for (size_t i = 0; i < threads; i++) {
        int64_t share = t->cores[i].caches[level].bytes / (int64_t)sharing(t, level, threads, i);
        if (share < least)
            least = share;
    }
    return least;
}
