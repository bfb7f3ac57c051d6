#include "runtime/strings.h"

#include <stdlib.h>
#include <string.h>

int prn_runtime_strings(const struct prn_runtime_tensor *tensor, const char ***ret_texts,
                        size_t *ret_n, struct prony_error *err)
{
    int64_t elements;
    if (prn_dims_elements(tensor->dims, tensor->rank, &elements) < 0)
        return prn_fail(err, PRONY_ELIMIT, "input '%s' is too large", tensor->name);
    size_t n = (size_t)elements;
    if (n > SIZE_MAX / sizeof(uint64_t) / 4 || tensor->bytes < (n + 1) * sizeof(uint64_t))
        return prn_fail(err, PRONY_EFORMAT, "input '%s' has too little data", tensor->name);
    const uint64_t *offsets = tensor->data;
    const char *characters = (const char *)(offsets + n + 1);
    size_t room = tensor->bytes - (n + 1) * sizeof(uint64_t);
    for (size_t i = 0; i < n; i++)
        if (offsets[i] > offsets[i + 1] || offsets[i + 1] > room)
            return prn_fail(err, PRONY_EFORMAT, "input '%s' has bad strings", tensor->name);
    /* The pointers, and behind them the characters, each text with its NUL. */
    const char **texts = malloc((n + 1) * sizeof *texts + room + n);
    if (!texts)
        return prn_fail_memory(err);
    char *to = (char *)(texts + n + 1);
    for (size_t i = 0; i < n; i++) {
        size_t len = offsets[i + 1] - offsets[i];
        texts[i] = to;
        memcpy(to, characters + offsets[i], len);
        to[len] = '\0';
        to += len + 1;
    }
    *ret_texts = texts;
    *ret_n = n;
    return 0;
}
