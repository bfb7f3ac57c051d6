#include "worker/hello.h"

#include "base/buffer.h"
#include "exec/sandbox.h"
#include "measure/discover.h"
#include "measure/measure.h"
#include "rpc/capability.h"
#include "spec/spec.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define OPTIONS_MAX 64

static char *keep(struct prn_arena *arena, const char *text, bool *failed)
{
    char *copy = prn_arena_strdup(arena, text);
    *failed |= !copy;
    return copy;
}

/* Options that name files of this machine aren't offered to others. */
static int fill_software(const struct prn_found_runtime *found, struct prn_arena *arena,
                         Prony__Software *software, struct prony_error *err)
{
    bool failed = false;
    prony__software__init(software);
    software->name = keep(arena, found->ops->software, &failed);
    software->version = keep(arena, found->version, &failed);
    software->options = PRN_ARENA_ARRAY(arena, OPTIONS_MAX, char *);
    failed |= !software->options;
    for (const struct prn_runtime_option *o = found->ops->options; !failed && o->key; o++)
        if (!o->local_only && software->n_options < OPTIONS_MAX)
            software->options[software->n_options++] = keep(arena, o->key, &failed);
    return failed ? prn_fail_memory(err) : 0;
}

static int find_software(struct prn_arena *arena, Prony__Hello *hello, struct prony_error *err)
{
    const struct prn_backends_here here = {0};
    struct prn_found_runtime *found;
    size_t n;
    int code = prn_discover(&here, false, arena, &found, &n, err);
    if (code < 0)
        return code;
    Prony__Software *software = PRN_ARENA_ARRAY(arena, n + 1, Prony__Software);
    hello->software = PRN_ARENA_ARRAY(arena, n + 1, Prony__Software *);
    if (!software || !hello->software)
        return prn_fail_memory(err);
    for (size_t i = 0; code == 0 && i < n; i++) {
        if (!found[i].available)
            continue;
        hello->software[hello->n_software] = &software[i];
        code = fill_software(&found[i], arena, hello->software[hello->n_software++], err);
    }
    if (code == 0 && hello->n_software == 0)
        code = prn_fail(err, PRONY_EUNAVAILABLE, "no runtime works on this machine: %s",
                        found[0].reason);
    return code;
}

static int find_machine(struct prn_arena *arena, Prony__Hello *hello, struct prony_error *err)
{
    char host[HOST_NAME_MAX + 1] = "";
    struct prn_environment environment;
    if (prn_environment_read(&environment, arena) < 0)
        return prn_fail_memory(err);
    gethostname(host, sizeof host - 1);
    bool failed = false;
    hello->host = keep(arena, host, &failed);
    hello->processor = environment.cpu ? keep(arena, environment.cpu, &failed) : NULL;
    hello->has_cores = environment.cores > 0;
    hello->cores = (uint32_t)(environment.cores > 0 ? environment.cores : 0);
    hello->has_memory_bytes = environment.memory_bytes > 0;
    hello->memory_bytes = (uint64_t)(environment.memory_bytes > 0 ? environment.memory_bytes : 0);
    return failed ? prn_fail_memory(err) : 0;
}

/* Slurm says which job this is and, since 22.05, when it will end it. */
static int find_scheduler(struct prn_arena *arena, Prony__Hello *hello, struct prony_error *err)
{
    const char *job = secure_getenv("SLURM_JOB_ID");
    const char *end = secure_getenv("SLURM_JOB_END_TIME");
    char text[64];
    if (!job || !*job)
        return 0;
    bool failed = false;
    snprintf(text, sizeof text, "slurm %s", job);
    hello->job = keep(arena, text, &failed);
    long long left = end ? strtoll(end, NULL, 10) - (long long)time(NULL) : 0;
    hello->has_seconds_left = left > 0;
    hello->seconds_left = left > 0 ? (uint64_t)left : 0;
    return failed ? prn_fail_memory(err) : 0;
}

/* What executors will be confined by. */
static int find_protections(struct prn_arena *arena, Prony__Hello *hello, struct prony_error *err)
{
    struct prn_sandbox_protection protections[PRN_SANDBOX_PROTECTIONS];
    struct prn_buffer text = PRN_BUFFER_INIT(4096);
    prn_sandbox_probe(protections);
    for (size_t i = 0; i < PRN_SANDBOX_PROTECTIONS; i++)
        prn_buffer_printf(&text, "%s%s%s", i ? ", " : "", protections[i].granted ? "" : "no ",
                          protections[i].name);
    bool failed = false;
    hello->sandbox = keep(arena, prn_buffer_text(&text), &failed);
    prn_buffer_release(&text);
    return failed ? prn_fail_memory(err) : 0;
}

static int list_capabilities(struct prn_arena *arena, Prony__Hello *hello, struct prony_error *err)
{
    static const char *const all[] = {PRN_CAPABILITY_LIMITS, PRN_CAPABILITY_MODELS,
                                      PRN_CAPABILITY_PIPELINE};
    bool failed = false;
    hello->capabilities = PRN_ARENA_ARRAY(arena, PRN_ARRAY_SIZE(all), char *);
    for (size_t i = 0; hello->capabilities && i < PRN_ARRAY_SIZE(all); i++)
        hello->capabilities[hello->n_capabilities++] = keep(arena, all[i], &failed);
    return failed || !hello->capabilities ? prn_fail_memory(err) : 0;
}

int prn_worker_hello(const struct prn_worker_options *options, const char *key,
                     struct prn_arena *arena, Prony__Hello *ret_hello, struct prony_error *err)
{
    bool failed = false;
    prony__hello__init(ret_hello);
    ret_hello->hardware = keep(arena, options->hardware, &failed);
    ret_hello->version = keep(arena, prony_version(), &failed);
    ret_hello->key = key ? keep(arena, key, &failed) : NULL;
    int code = failed ? prn_fail_memory(err) : find_machine(arena, ret_hello, err);
    if (code == 0)
        code = find_scheduler(arena, ret_hello, err);
    if (code == 0)
        code = find_protections(arena, ret_hello, err);
    if (code == 0)
        code = list_capabilities(arena, ret_hello, err);
    if (code == 0)
        code = find_software(arena, ret_hello, err);
    return code;
}
