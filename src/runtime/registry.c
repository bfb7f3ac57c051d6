/* The list of runtimes, and what is common to all of them. */
#include "runtime/runtime.h"

#include <string.h>

extern const struct prn_runtime_ops prn_onnxrt_cpu, prn_onnxrt_cuda, prn_onnxrt_tensorrt;

const struct prn_runtime_ops *const prn_runtimes[] = {
    &prn_onnxrt_cpu,
    &prn_onnxrt_cuda,
    &prn_onnxrt_tensorrt,
    NULL,
};

const struct prn_runtime_ops *prn_runtime_find(const char *software)
{
    for (size_t i = 0; prn_runtimes[i]; i++)
        if (strcmp(prn_runtimes[i]->software, software) == 0)
            return prn_runtimes[i];
    return NULL;
}

/* "threads" knows itself, "ort.*" everything that begins with "ort.". */
static bool knows(const struct prn_runtime_option *option, const char *key)
{
    size_t len = strlen(option->key);
    if (option->key[len - 1] == '*')
        return strncmp(option->key, key, len - 1) == 0 && key[len - 1] != '\0';
    return strcmp(option->key, key) == 0;
}

int prn_runtime_check_options(const struct prn_runtime_ops *ops,
                              const struct prn_spec_option *options, size_t n,
                              struct prony_error *err)
{
    for (size_t i = 0; i < n; i++) {
        const struct prn_runtime_option *o = ops->options;
        while (o->key && !knows(o, options[i].key))
            o++;
        if (o->key)
            continue;
        struct prn_buffer list = PRN_BUFFER_INIT(512);
        for (o = ops->options; o->key; o++)
            prn_buffer_printf(&list, "%s%s=%s", o == ops->options ? "" : ", ", o->key, o->value);
        int code = prn_fail(err, PRONY_EUSAGE, "%s has no option '%s'; it has: %s", ops->software,
                            options[i].key, prn_buffer_text(&list));
        prn_buffer_release(&list);
        return code;
    }
    return 0;
}

void prn_runtime_list(struct prn_buffer *out)
{
    for (size_t i = 0; prn_runtimes[i]; i++)
        prn_buffer_printf(out, "%s%s", i ? ", " : "", prn_runtimes[i]->software);
}
