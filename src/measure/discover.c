#include "measure/discover.h"

#include <stdlib.h>
#include <string.h>

#define DISCOVER_TIMEOUT_S 60

static int ask(const struct prn_runtime_ops *ops, const struct prn_backends_here *here,
               struct prn_arena *arena, struct prn_found_runtime *found, struct prony_error *err)
{
    struct prn_executor_config process = {
        .program = here->program, .inputs_fd = -1, .timeout_s = DISCOVER_TIMEOUT_S};
    struct prn_runtime_config config = {.software = ops->software,
                                        .library = prn_library_chosen_for(&here->library, ops)};
    struct prn_executor *x = NULL;
    struct prony_error fault = {0};
    int code = prn_executor_spawn(&process, &x, err);
    if (code < 0)
        return code;
    found->ops = ops;
    found->available = prn_executor_open(x, &config, NULL, NULL, &fault) == 0;
    if (found->available) {
        found->version = prn_arena_strdup(arena, prn_executor_version(x));
        found->library = prn_arena_strdup(arena, prn_executor_library(x));
        found->origin = prn_arena_strdup(arena, prn_executor_origin(x));
        found->offers = prn_arena_strdup(arena, prn_executor_offers(x));
    } else {
        found->reason = prn_arena_strdup(arena, fault.text);
    }
    prn_executor_free(x);
    bool kept = found->available
                    ? found->version && found->library && found->origin && found->offers
                    : found->reason != NULL;
    return kept ? 0 : prn_fail_memory(err);
}

/* Whether one that was asked before, with the same library, lists it. */
static bool is_listed(const struct prn_runtime_ops *ops, const struct prn_found_runtime *found,
                      size_t n)
{
    size_t len = strlen(ops->software);
    for (size_t i = 0; i < n; i++) {
        const char *at = found[i].available && found[i].ops->search == ops->search
                             ? strstr(found[i].offers, ops->software)
                             : NULL;
        if (at && (at[len] == ',' || at[len] == '\0'))
            return true;
    }
    return false;
}

int prn_discover(const struct prn_backends_here *here, bool only_onnx, struct prn_arena *arena,
                 struct prn_found_runtime **ret_found, size_t *ret_n, struct prony_error *err)
{
    size_t n = 0;
    while (prn_runtimes[n])
        n++;
    struct prn_found_runtime *found = PRN_ARENA_ARRAY(arena, n, struct prn_found_runtime);
    if (!found)
        return prn_fail_memory(err);
    size_t asked = 0;
    for (size_t i = 0; i < n; i++) {
        if (only_onnx && prn_runtimes[i]->takes_fxproto)
            continue;
        if (prn_runtimes[i]->listed_only && !is_listed(prn_runtimes[i], found, asked))
            continue;
        int code = ask(prn_runtimes[i], here, arena, &found[asked++], err);
        if (code < 0)
            return code;
    }
    *ret_found = found;
    *ret_n = asked;
    return 0;
}

/* Without a GPU the others of the same library say nothing about it. */
static bool was_asked_for(const struct prn_runtime_ops *ops,
                          const struct prn_library_choice *library)
{
    return ops->search && !ops->gpu && !ops->listed_only && !ops->named_only &&
           (prn_library_is_chosen(ops->search) || prn_library_chosen_for(library, ops));
}

int prn_discover_check(const struct prn_found_runtime *found, size_t n,
                       const struct prn_library_choice *library, struct prony_error *err)
{
    for (size_t i = 0; i < n; i++)
        if (!found[i].available && was_asked_for(found[i].ops, library))
            return prn_fail(err, PRONY_EUNAVAILABLE, "%s", found[i].reason);
    return 0;
}
