#include "measure/discover.h"

#define DISCOVER_TIMEOUT_S 60

static int ask(const struct prn_runtime_ops *ops, const char *ort_library, const char *program,
               struct prn_arena *arena, struct prn_found_runtime *found, struct prony_error *err)
{
    struct prn_executor_config process = {
        .program = program, .inputs_fd = -1, .timeout_s = DISCOVER_TIMEOUT_S};
    struct prn_runtime_config config = {.software = ops->software, .library = ort_library};
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
    } else {
        found->reason = prn_arena_strdup(arena, fault.text);
    }
    prn_executor_free(x);
    bool kept = found->available ? found->version && found->library : found->reason != NULL;
    return kept ? 0 : prn_fail_memory(err);
}

int prn_discover(const char *ort_library, const char *program, bool only_onnx,
                 struct prn_arena *arena, struct prn_found_runtime **ret_found, size_t *ret_n,
                 struct prony_error *err)
{
    size_t n = 0;
    while (prn_runtimes[n])
        n++;
    struct prn_found_runtime *found = PRN_ARENA_ARRAY(arena, n, struct prn_found_runtime);
    if (!found)
        return prn_fail_memory(err);
    size_t asked = 0;
    for (size_t i = 0; i < n; i++) {
        if (only_onnx && prn_runtimes[i]->python)
            continue;
        int code = ask(prn_runtimes[i], ort_library, program, arena, &found[asked++], err);
        if (code < 0)
            return code;
    }
    *ret_found = found;
    *ret_n = asked;
    return 0;
}
