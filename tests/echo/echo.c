/*
 * A runtime that gives its first input back. It stands for one that prony doesn't know: this folder
 * and the line in runtime/rows.h are all that adds it (tests/e2e/test_runtime_row.py).
 */
#include "runtime/library.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Any library that is there will do. */
static const struct prn_library_search echo_search = {
    .title = "Echo",
    .option = "echo-lib",
    .help = "Echo library to load (libecho.so)",
    .variable = "PRONY_ECHO_LIB",
    .names = {"libm.so.6"},
    .folder = "echo",
    .site = {"echo", "libecho.so"},
    .how_to_get = "shout",
};

struct prn_runtime {
    struct prn_library library;
    struct prn_runtime_tensor heard;
};

static int echo_open(const struct prn_runtime_config *config, struct prn_runtime **ret_runtime,
                     struct prony_error *err)
{
    struct prn_runtime *r = calloc(1, sizeof *r);
    if (!r)
        return prn_fail_memory(err);
    int code = prn_library_load(&echo_search, config, &r->library, err);
    if (code == 0)
        *ret_runtime = r;
    else
        free(r);
    return code;
}

static const char *echo_version(const struct prn_runtime *r)
{
    (void)r;
    return "Echo 1";
}

static const char *echo_library(const struct prn_runtime *r)
{
    return r->library.path;
}

static const char *echo_origin(const struct prn_runtime *r)
{
    return r->library.origin;
}

static int echo_load(struct prn_runtime *r, const char *model_path, struct prony_error *err)
{
    (void)r;
    return access(model_path, R_OK) < 0 ? prn_fail(err, PRONY_ERUNTIME, "no '%s'", model_path) : 0;
}

static int echo_bind(struct prn_runtime *r, const struct prn_runtime_tensor *inputs,
                     size_t n_inputs, struct prony_error *err)
{
    if (n_inputs == 0)
        return prn_fail(err, PRONY_ERUNTIME, "nothing was said");
    r->heard = inputs[0];
    return 0;
}

static int echo_run(struct prn_runtime *r, struct prony_error *err)
{
    return r->heard.data ? 0 : prn_fail(err, PRONY_ERUNTIME, "nothing was heard");
}

static size_t echo_output_count(const struct prn_runtime *r)
{
    (void)r;
    return 1;
}

static int echo_output(struct prn_runtime *r, size_t index, struct prn_runtime_tensor *ret_tensor,
                       struct prony_error *err)
{
    (void)index;
    (void)err;
    *ret_tensor = r->heard;
    return 0;
}

static void echo_close(struct prn_runtime *r)
{
    free(r);
}

static const struct prn_runtime_option echo_options[] = {
    {"loud", "on|off", "shouts (default off)", false},
    {0},
};

extern const struct prn_runtime_ops prn_echo_cpu;

const struct prn_runtime_ops prn_echo_cpu = {
    .software = "echo-cpu",
    .title = "Echo, CPU",
    .in_default = true,
    .search = &echo_search,
    .options = echo_options,
    .open = echo_open,
    .version = echo_version,
    .library = echo_library,
    .origin = echo_origin,
    .load = echo_load,
    .bind = echo_bind,
    .run = echo_run,
    .output_count = echo_output_count,
    .output = echo_output,
    .close = echo_close,
};
