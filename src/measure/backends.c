#include "measure/backends.h"

#include "base/text.h"
#include "measure/discover.h"
#include "measure/measure.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int check_backend(const struct prn_spec *spec, const struct prn_backends_here *here,
                         struct prony_error *err)
{
    const char *hardware = here->hardware ? here->hardware : "local";
    if (strcmp(spec->hardware, hardware) != 0)
        return prn_fail(err, PRONY_EUNAVAILABLE, "backend '%s': this machine is '%s', not '%s'",
                        spec->name, hardware, spec->hardware);
    const struct prn_runtime_ops *ops = prn_runtime_find(spec->software);
    if (!ops) {
        struct prn_buffer list = PRN_BUFFER_INIT(400);
        const char *names[32];
        size_t n = 0;
        for (size_t i = 0; prn_runtimes[i] && n < PRN_ARRAY_SIZE(names); i++)
            names[n++] = prn_runtimes[i]->software;
        const char *meant = prn_text_nearest(spec->software, names, n);
        prn_runtime_list(&list, true);
        int code = prn_fail(err, PRONY_EUNAVAILABLE, "backend '%s': no software '%s'; %s%s%s",
                            spec->name, spec->software, meant ? "did you mean '" : "known: ",
                            meant ? meant : prn_buffer_text(&list), meant ? "'?" : "");
        prn_buffer_release(&list);
        return code;
    }
    if (ops->takes_fxproto)
        return prn_fail(err, PRONY_EUNAVAILABLE,
                        "backend '%s' runs graphs of PyTorch programs, not ONNX files", spec->name);
    return prn_runtime_check_options(ops, spec->options, spec->n_options, err);
}

static int parse_backends(const struct prn_texts *texts, const struct prn_backends_here *here,
                          struct prn_arena *arena, struct prn_spec **ret_backends, size_t *ret_n,
                          struct prony_error *err)
{
    struct prn_spec *backends = PRN_ARENA_ARRAY(arena, texts->n + 1, struct prn_spec);
    if (!backends)
        return prn_fail_memory(err);
    for (size_t i = 0; i < texts->n; i++) {
        int code = prn_spec_parse(texts->items[i], true, arena, &backends[i], err);
        if (code == 0)
            code = check_backend(&backends[i], here, err);
        if (code < 0)
            return code;
    }
    *ret_backends = backends;
    *ret_n = texts->n;
    return 0;
}

static int find_backends(const struct prn_backends_here *here, struct prn_arena *arena,
                         struct prn_spec **ret_backends, size_t *ret_n, struct prony_error *err)
{
    struct prn_found_runtime *found;
    size_t n;
    int code = prn_discover(here, true, arena, &found, &n, err);
    if (code == 0)
        code = prn_discover_check(found, n, &here->library, err);
    if (code < 0)
        return code;
    struct prn_spec *backends = PRN_ARENA_ARRAY(arena, n + 1, struct prn_spec);
    if (!backends)
        return prn_fail_memory(err);
    size_t available = 0;
    for (size_t i = 0; i < n; i++) {
        if (!found[i].available)
            continue;
        code = prn_spec_parse(found[i].ops->software, true, arena, &backends[available++], err);
        if (code < 0)
            return code;
    }
    if (available == 0)
        return prn_fail(err, PRONY_EUNAVAILABLE, "no runtime works on this machine: %s",
                        found[0].reason);
    *ret_backends = backends;
    *ret_n = available;
    return 0;
}

int prn_backends_resolve(const struct prn_texts *texts, const struct prn_backends_here *here,
                         struct prn_arena *arena, struct prn_spec **ret_backends, size_t *ret_n,
                         struct prony_error *err)
{
    return texts->n > 0 ? parse_backends(texts, here, arena, ret_backends, ret_n, err)
                        : find_backends(here, arena, ret_backends, ret_n, err);
}

static int describe(const struct prn_spec *spec, const struct prn_hardware_table *hardware,
                    struct prn_arena *arena, struct prn_result *r, struct prony_error *err)
{
    struct prn_hardware known = prn_hardware_find(hardware, spec->hardware);
    r->name = prn_arena_strdup(arena, spec->name);
    r->hardware = prn_arena_strdup(arena, spec->hardware);
    r->software = prn_arena_strdup(arena, spec->software);
    r->processor = known.processor ? prn_arena_strdup(arena, known.processor) : NULL;
    r->usd_per_hour = known.usd_per_hour;
    r->ratio = (struct prn_interval){NAN, NAN, NAN};
    bool kept = r->name && r->hardware && r->software && (!known.processor || r->processor);
    return kept ? 0 : prn_fail_memory(err);
}

int prn_backends_describe(const struct prn_spec *backends, size_t n, const char *hardware_file,
                          struct prn_profile *profile, struct prony_error *err)
{
    struct prn_hardware_table hardware = {0};
    int code = prn_hardware_load(hardware_file, &hardware, err);
    if (code < 0)
        return code;
    profile->n_results = n;
    profile->results = PRN_ARENA_ARRAY(&profile->arena, n + 1, struct prn_result);
    if (!profile->results)
        code = prn_fail_memory(err);
    for (size_t i = 0; code == 0 && i < n; i++)
        code = describe(&backends[i], &hardware, &profile->arena, &profile->results[i], err);
    prn_hardware_release(&hardware);
    return code;
}

int prn_backends_split(const struct prn_texts *given, struct prn_arena *arena,
                       struct prn_named_texts *ret_texts, struct prony_error *err)
{
    const char **texts = PRN_ARENA_ARRAY(arena, given->n + 1, const char *);
    const char **names = PRN_ARENA_ARRAY(arena, given->n + 1, const char *);
    if (!texts || !names)
        return prn_fail_memory(err);
    for (size_t i = 0; i < given->n; i++) {
        struct prn_named_spec spec;
        int code = prn_spec_split(given->items[i], arena, &spec, err);
        if (code < 0)
            return code;
        texts[i] = spec.text;
        names[i] = spec.name;
    }
    *ret_texts = (struct prn_named_texts){{texts, given->n}, names};
    return 0;
}

int prn_backends_name(const struct prn_named_texts *given, struct prn_spec *backends,
                      struct prn_profile *profile, struct prony_error *err)
{
    for (size_t i = 0; i < given->texts.n; i++) {
        struct prn_result *r = &profile->results[i];
        if (!given->names[i])
            continue;
        r->spec = r->name;
        r->name = prn_arena_strdup(&profile->arena, given->names[i]);
        if (!r->name)
            return prn_fail_memory(err);
        backends[i].name = given->names[i];
    }
    /* The same spec twice is allowed: such results get numbers. */
    for (size_t i = 0; i < given->texts.n; i++)
        for (size_t k = 0; given->names[i] && k < given->texts.n; k++)
            if (k != i && strcmp(profile->results[k].name, profile->results[i].name) == 0)
                return prn_fail(err, PRONY_EUSAGE, "two backends are called '%s'", given->names[i]);
    return 0;
}

int prn_profile_stamp(struct prn_profile *profile, struct prony_error *err)
{
    char now[32];
    time_t seconds = time(NULL);
    struct tm utc;
    gmtime_r(&seconds, &utc);
    strftime(now, sizeof now, "%Y-%m-%dT%H:%M:%SZ", &utc);
    profile->prony_version = prony_version();
    profile->created = prn_arena_strdup(&profile->arena, now);
    if (!profile->created || prn_environment_read(&profile->environment, &profile->arena) < 0)
        return prn_fail_memory(err);
    return 0;
}

int prn_model_locate(const char *path, bool external, struct prn_model_place *ret_place,
                     struct prony_error *err)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    char folder[PATH_MAX];
    ret_place->folder[0] = '\0';
    if (!external)
        return realpath(path, ret_place->path) ? 0 : prn_fail_errno(err, errno, "open", path);
    if (name - path >= PATH_MAX)
        return prn_fail_errno(err, ENAMETOOLONG, "open", path);
    snprintf(folder, sizeof folder, "%.*s", (int)(name - path), path);
    if (!realpath(slash ? folder : ".", ret_place->folder))
        return prn_fail_errno(err, errno, "open", path);
    const char *separator = ret_place->folder[1] ? "/" : "";
    if (snprintf(ret_place->path, PATH_MAX, "%s%s%s", ret_place->folder, separator, name) >=
        PATH_MAX)
        return prn_fail_errno(err, ENAMETOOLONG, "open", path);
    return 0;
}
