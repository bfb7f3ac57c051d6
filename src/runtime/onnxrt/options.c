/* The options of a backend, as ONNX Runtime's session takes them. */
#include "base/buffer.h"
#include "runtime/onnxrt/parts.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static int set_threads(struct prn_runtime *r, const char *value, struct prony_error *err)
{
    int n = (int)strtol(value, NULL, 10);
    return ort_check(r, r->library.api.SetIntraOpNumThreads(r->options, n), PRONY_EUSAGE, err);
}

static int set_inter_threads(struct prn_runtime *r, const char *value, struct prony_error *err)
{
    const struct ort_api *api = &r->library.api;
    int n = (int)strtol(value, NULL, 10);
    int code = ort_check(r, api->SetInterOpNumThreads(r->options, n), PRONY_EUSAGE, err);
    /* Threads between operators are used by the parallel executor only. */
    if (code == 0 && n != 1)
        code = ort_check(r, api->SetSessionExecutionMode(r->options, ORT_EXECUTION_PARALLEL),
                         PRONY_EUSAGE, err);
    return code;
}

static int set_opt(struct prn_runtime *r, const char *value, struct prony_error *err)
{
    static const struct {
        const char *name;
        int level;
    } levels[] = {{"off", 0}, {"basic", 1}, {"extended", 2}, {"all", 99}};
    size_t i = 0;
    while (strcmp(levels[i].name, value) != 0)
        i++;
    return ort_check(r,
                     r->library.api.SetSessionGraphOptimizationLevel(r->options, levels[i].level),
                     PRONY_EUSAGE, err);
}

static int set_arena(struct prn_runtime *r, const char *value, struct prony_error *err)
{
    return ort_check(r,
                     prn_runtime_switch(value) ? r->library.api.EnableCpuMemArena(r->options)
                                               : r->library.api.DisableCpuMemArena(r->options),
                     PRONY_EUSAGE, err);
}

static int set_mem_pattern(struct prn_runtime *r, const char *value, struct prony_error *err)
{
    return ort_check(r,
                     prn_runtime_switch(value) ? r->library.api.EnableMemPattern(r->options)
                                               : r->library.api.DisableMemPattern(r->options),
                     PRONY_EUSAGE, err);
}

static int set_config(struct prn_runtime *r, const char *key, const char *value,
                      struct prony_error *err)
{
    return ort_check(r, r->library.api.AddSessionConfigEntry(r->options, key, value), PRONY_EUSAGE,
                     err);
}

static int set_spin(struct prn_runtime *r, const char *value, struct prony_error *err)
{
    const char *on = prn_runtime_switch(value) ? "1" : "0";
    int code = set_config(r, "session.intra_op.allow_spinning", on, err);
    return code < 0 ? code : set_config(r, "session.inter_op.allow_spinning", on, err);
}

static int set_denormals(struct prn_runtime *r, const char *value, struct prony_error *err)
{
    return set_config(r, "session.set_denormal_as_zero", strcmp(value, "zero") == 0 ? "1" : "0",
                      err);
}

/* Adds "2" or "2-4" as ONNX Runtime counts, from 1. Where it ends, or NULL: it isn't such, or names
 * a CPU that this process may not use. */
static const char *add_cpus(const cpu_set_t *allowed, const char *text, struct prn_buffer *out)
{
    char *end;
    long low = isdigit((unsigned char)*text) ? strtol(text, &end, 10) : -1;
    long high = low;
    if (low >= 0 && *end == '-')
        high = isdigit((unsigned char)end[1]) ? strtol(end + 1, &end, 10) : -1;
    if (low < 0 || high < low || high >= CPU_SETSIZE)
        return NULL;
    for (long cpu = low; cpu <= high; cpu++) {
        if (!CPU_ISSET((size_t)cpu, allowed))
            return NULL;
        prn_buffer_printf(out, "%s%ld", cpu == low ? "" : ",", cpu + 1);
    }
    return end;
}

/* "1;2-3+5": CPUs of each thread but the first, which is the caller's. A ',' would end the option,
 * hence the '+'; ONNX Runtime would only log what it doesn't like. */
static int set_affinity(struct prn_runtime *r, const char *value, struct prony_error *err)
{
    cpu_set_t allowed;
    struct prn_buffer cpus = PRN_BUFFER_INIT((size_t)1 << 20);
    const char *at = value;
    if (sched_getaffinity(0, sizeof allowed, &allowed) < 0)
        return prn_fail_errno(err, errno, "read", "the CPUs of this process");
    while (at && (at = add_cpus(&allowed, at, &cpus)) && *at) {
        if (*at != ';' && *at != '+') {
            at = NULL;
            break;
        }
        prn_buffer_add_char(&cpus, *at++ == ';' ? ';' : ',');
    }
    int code = at ? prn_buffer_error(&cpus, err)
                  : prn_fail(err, PRONY_EUSAGE,
                             "affinity=%s: not CPUs of this machine, one entry for each thread but "
                             "the first, such as 1;2-3",
                             value);
    if (code == 0)
        code = set_config(r, "session.intra_op_thread_affinities", prn_buffer_text(&cpus), err);
    prn_buffer_release(&cpus);
    return code;
}

static int set_io_binding(struct prn_runtime *r, const char *value, struct prony_error *err)
{
    (void)err;
    r->io_binding = prn_runtime_switch(value);
    return 0;
}

static int set_custom_ops(struct prn_runtime *r, const char *value, struct prony_error *err)
{
    char path[PATH_MAX]; /* without a folder in it the loader would search for the file */
    if (!realpath(value, path))
        return prn_fail_errno(err, errno, "load custom operators from", value);
    int code = ort_check(r, r->library.api.RegisterCustomOpsLibrary_V2(r->options, path),
                         PRONY_EUNAVAILABLE, err);
    return code < 0 ? prn_fail_in(err, code, "cannot load custom operators from '%s'", value) : 0;
}

/* The sandbox lets it write no file, so it gets memory, which prony makes a file of. */
static int set_save_optimised(struct prn_runtime *r, const char *value, struct prony_error *err)
{
    char path[64];
    if (!value[0])
        return prn_fail(err, PRONY_EUSAGE, "save_optimised= needs the name of a file");
    r->optimised_fd = memfd_create("optimised", MFD_CLOEXEC);
    if (r->optimised_fd < 0)
        return prn_fail_errno(err, errno, "make memory for", value);
    snprintf(path, sizeof path, "/proc/self/fd/%d", r->optimised_fd);
    return ort_check(r, r->library.api.SetOptimizedModelFilePath(r->options, path), PRONY_ERUNTIME,
                     err);
}

int ort_set_option(struct prn_runtime *r, const struct prn_spec_option *o, struct prony_error *err)
{
    static const struct {
        const char *key;
        int (*set)(struct prn_runtime *, const char *, struct prony_error *);
    } setters[] = {{"threads", set_threads},
                   {"inter_threads", set_inter_threads},
                   {"opt", set_opt},
                   {"arena", set_arena},
                   {"mem_pattern", set_mem_pattern},
                   {"spin", set_spin},
                   {"denormals", set_denormals},
                   {"affinity", set_affinity},
                   {"io_binding", set_io_binding},
                   {"custom_ops", set_custom_ops},
                   {"save_optimised", set_save_optimised}};
    for (size_t i = 0; i < PRN_ARRAY_SIZE(setters); i++)
        if (strcmp(setters[i].key, o->key) == 0)
            return setters[i].set(r, o->value, err);
    if (strncmp(o->key, "ort.", 4) == 0)
        return set_config(r, o->key + 4, o->value, err);
    return 0; /* lib and device are used elsewhere */
}
