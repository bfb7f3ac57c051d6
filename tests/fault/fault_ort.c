/*
 * An ONNX Runtime with faults: stands in front of the real library and misbehaves in the run call.
 * What it does comes from the name it is loaded under, so that one process can compare a good and a
 * bad one: fault-abort.so, fault-hang.so, fault-exit.so, fault-deaf.so (closes every descriptor and
 * hangs), fault-shrink.so (empties every file it has open), fault-slow.so (2 % slower),
 * fault-sleep.so (0.4 s a run), fault-stall.so (is stuck for 0.2 s whenever it wasn't for 0.7 s),
 * fault-old.so (says it is 1.14), fault-none.so (changes nothing), fault-escape.so (tries to leave
 * the sandbox in the way that PRONY_ESCAPE names, with PRONY_ESCAPE_TARGET, and ends).
 * In the profiler: fault-untraced.so (writes no trace), fault-empty.so (an empty one),
 * fault-garbled.so (nonsense), fault-packed.so (gzip), fault-endless.so (as much as it may),
 * fault-unended.so (crashes while it ends profiling), fault-stray.so (tries to write beside its
 * folder, and crashes if it could). PRONY_FAULT_REAL names the real library, PRONY_FAULT_RUN the
 * run at which the fault happens (default 20).
 */
#include "escape.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SLOTS 425 /* of ONNX Runtime 1.30 */
#define SLOT_RUN 9
#define SLOT_ENABLE_PROFILING 14
#define SLOT_END_PROFILING 110
#define TRACE_END ((off_t)1 << 30)
#define SLOWER 0.02

struct base {
    const void *const *(*get_api)(uint32_t version);
    const char *(*get_version)(void);
};

typedef void *(*run_function)(void *session, const void *options, const void *input_names,
                              const void *inputs, size_t n_inputs, const void *output_names,
                              size_t n_outputs, void *outputs);

typedef void *(*enable_profiling_function)(void *options, const char *prefix);
typedef void *(*end_profiling_function)(void *session, void *allocator, char **name);

static const struct base *real;
static const void *table[SLOTS];
static run_function real_run;
static enable_profiling_function real_enable_profiling;
static end_profiling_function real_end_profiling;
static int trace_fd = -1;      /* of a trace of our own */
static char trace_beside[512]; /* the folder that its folder is in */
static char fault[64];
static long fault_run = 20;

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_RAW, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* By time, not by run: how often a model ran in its warm-up depends on the machine. */
static void stall(void)
{
    static int64_t last_ns;
    if (last_ns == 0)
        last_ns = now_ns();
    if (now_ns() - last_ns < 700000000)
        return;
    usleep(200000);
    last_ns = now_ns();
}

static void *run(void *session, const void *options, const void *input_names, const void *inputs,
                 size_t n_inputs, const void *output_names, size_t n_outputs, void *outputs)
{
    static long runs;
    int64_t start = now_ns();
    void *status =
        real_run(session, options, input_names, inputs, n_inputs, output_names, n_outputs, outputs);
    if (strcmp(fault, "slow") == 0) {
        int64_t end = now_ns();
        while ((double)(now_ns() - end) < SLOWER * (double)(end - start))
            ;
    }
    if (strcmp(fault, "sleep") == 0)
        usleep(400000);
    if (strcmp(fault, "stall") == 0)
        stall();
    if (++runs != fault_run)
        return status;
    if (strcmp(fault, "abort") == 0) {
        fprintf(stderr, "fault injected\n");
        abort();
    }
    if (strcmp(fault, "exit") == 0)
        _exit(3);
    if (strcmp(fault, "escape") == 0)
        _exit(escape_try(getenv("PRONY_ESCAPE"), getenv("PRONY_ESCAPE_TARGET")));
    for (int fd = 0; fd < 100 && strcmp(fault, "shrink") == 0; fd++)
        if (syscall(SYS_ftruncate, fd, 0) == 0)
            fprintf(stderr, "emptied %d\n", fd);
    for (int fd = 0; fd < 100 && strcmp(fault, "deaf") == 0; fd++)
        close(fd);
    while (strcmp(fault, "hang") == 0 || strcmp(fault, "deaf") == 0)
        sleep(1);
    return status;
}

static int open_new(const char *folder)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/own.json", folder);
    return open(path, O_WRONLY | O_CREAT, 0600);
}

static int is_fault(const char *name)
{
    return strcmp(fault, name) == 0;
}

static void *enable_profiling(void *options, const char *prefix)
{
    if (is_fault("untraced"))
        return NULL;
    if (!is_fault("empty") && !is_fault("garbled") && !is_fault("endless") && !is_fault("packed") &&
        !is_fault("stray"))
        return real_enable_profiling(options, prefix);
    snprintf(trace_beside, sizeof trace_beside, "%s", prefix);
    *strrchr(trace_beside, '/') = '\0';
    trace_fd = open_new(trace_beside);
    *strrchr(trace_beside, '/') = '\0';
    return NULL;
}

static void *end_profiling(void *session, void *allocator, char **name)
{
    void *status = real_end_profiling(session, allocator, name);
    if (is_fault("unended"))
        abort();
    if (is_fault("endless") && pwrite(trace_fd, "]", 1, TRACE_END - 1) < 0)
        abort();
    if (is_fault("stray") && open_new(trace_beside) >= 0)
        abort();
    if (is_fault("garbled") || is_fault("stray"))
        dprintf(trace_fd, "]}{ \x01 nonsense \"\\");
    if (is_fault("packed"))
        dprintf(trace_fd, "\x1f\x8b\x08 and more");
    return status;
}

static const char *version(void)
{
    return strcmp(fault, "old") == 0 ? "1.14.1" : real->get_version();
}

static const void *const *get_api(uint32_t number)
{
    const void *const *from = real->get_api(number);
    if (!from)
        return NULL;
    memcpy(table, from, sizeof table);
    memcpy(&real_run, &from[SLOT_RUN], sizeof real_run);
    memcpy(&real_enable_profiling, &from[SLOT_ENABLE_PROFILING], sizeof real_enable_profiling);
    memcpy(&real_end_profiling, &from[SLOT_END_PROFILING], sizeof real_end_profiling);
    run_function ours = run;
    enable_profiling_function our_enable_profiling = enable_profiling;
    end_profiling_function our_end_profiling = end_profiling;
    memcpy(&table[SLOT_RUN], &ours, sizeof ours);
    memcpy(&table[SLOT_ENABLE_PROFILING], &our_enable_profiling, sizeof our_enable_profiling);
    memcpy(&table[SLOT_END_PROFILING], &our_end_profiling, sizeof our_end_profiling);
    return table;
}

const struct base *OrtGetApiBase(void);

const struct base *OrtGetApiBase(void)
{
    static const struct base ours = {get_api, version};
    Dl_info self;
    const char *path = getenv("PRONY_FAULT_REAL");
    const char *run_number = getenv("PRONY_FAULT_RUN");
    const struct base *(*real_base)(void) = NULL;
    void *library = path ? dlopen(path, RTLD_NOW) : NULL;
    void *symbol = library ? dlsym(library, "OrtGetApiBase") : NULL;
    if (!symbol || !dladdr((void *)(uintptr_t)OrtGetApiBase, &self))
        return NULL;
    memcpy(&real_base, &symbol, sizeof real_base);
    real = real_base();
    const char *name = strrchr(self.dli_fname, '/');
    sscanf(name ? name : self.dli_fname, "/fault-%63[a-z]", fault);
    if (run_number)
        fault_run = strtol(run_number, NULL, 10);
    return &ours;
}
