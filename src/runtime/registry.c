/* The list of runtimes, and what is common to all of them. */
#include "runtime/runtime.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define PRN_RUNTIME(row) extern const struct prn_runtime_ops row;
#include "runtime/rows.h"
#undef PRN_RUNTIME

const struct prn_runtime_ops *const prn_runtimes[] = {
#define PRN_RUNTIME(row) &row,
#include "runtime/rows.h"
#undef PRN_RUNTIME
    NULL,
};

const struct prn_runtime_ops *prn_runtime_find(const char *software)
{
    for (size_t i = 0; prn_runtimes[i]; i++)
        if (strcmp(prn_runtimes[i]->software, software) == 0)
            return prn_runtimes[i];
    return NULL;
}

bool prn_runtime_takes_onnx(const char *software)
{
    const struct prn_runtime_ops *ops = prn_runtime_find(software);
    return !ops || !ops->takes_fxproto;
}

size_t prn_runtime_libraries(const struct prn_library_search *ret[PRN_RUNTIME_LIBRARIES_MAX])
{
    size_t n = 0;
    for (size_t i = 0; prn_runtimes[i]; i++) {
        const struct prn_library_search *search = prn_runtimes[i]->search;
        size_t k = 0;
        while (k < n && ret[k] != search)
            k++;
        if (search && k == n) {
            assert(n < PRN_RUNTIME_LIBRARIES_MAX);
            ret[n++] = search;
        }
    }
    return n;
}

const char *prn_runtime_option_of(const struct prn_runtime_config *config, const char *key,
                                  const char *otherwise)
{
    for (size_t i = 0; i < config->n_options; i++)
        if (strcmp(config->options[i].key, key) == 0)
            return config->options[i].value;
    return otherwise;
}

bool prn_runtime_needs_devices(const struct prn_runtime_ops *ops,
                               const struct prn_runtime_config *config)
{
    const char *device = prn_runtime_option_of(config, PRN_RUNTIME_DEVICE, "cpu");
    return ops->gpu || strcmp(device, "cpu") != 0;
}

/* "threads" knows itself, "ort.*" everything that begins with "ort.". */
static bool knows(const struct prn_runtime_option *option, const char *key)
{
    size_t len = strlen(option->key);
    if (option->key[len - 1] == '*')
        return strncmp(option->key, key, len - 1) == 0 && key[len - 1] != '\0';
    return strcmp(option->key, key) == 0;
}

const struct prn_runtime_option *prn_runtime_find_option(const struct prn_runtime_ops *ops,
                                                         const char *key)
{
    for (const struct prn_runtime_option *o = ops->options; o->key; o++)
        if (knows(o, key))
            return o;
    return NULL;
}

bool prn_runtime_switch(const char *value)
{
    return !strcmp(value, "on") || !strcmp(value, "1") || value[0] == '\0';
}

/* Whether `value` is one of the words between the bars of `words`. */
static bool is_word(const char *words, const char *value)
{
    size_t len = strlen(value);
    for (const char *word = words;; word++) {
        size_t n = strcspn(word, "|");
        if (n == len && memcmp(word, value, n) == 0)
            return true;
        word += n;
        if (*word == '\0')
            return false;
    }
}

static bool fits(const struct prn_runtime_option *option, const char *value)
{
    if (strcmp(option->value, "N") == 0) {
        char *end;
        long number = strtol(value, &end, 10);
        return end != value && *end == '\0' && number >= 0 && number <= PRN_RUNTIME_COUNT_MAX;
    }
    if (strcmp(option->value, "on|off") == 0 && is_word("|1|0", value))
        return true;
    return !strchr(option->value, '|') || is_word(option->value, value);
}

static int fail_value(const struct prn_runtime_option *option, const char *software,
                      const struct prn_spec_option *given, struct prony_error *err)
{
    if (strcmp(option->value, "N") == 0)
        return prn_fail(err, PRONY_EUSAGE, "%s[%s=%s]: '%s' is not a number from 0 to %d", software,
                        given->key, given->value, given->value, PRN_RUNTIME_COUNT_MAX);
    return prn_fail(err, PRONY_EUSAGE, "%s[%s=%s]: '%s' is not one of %s", software, given->key,
                    given->value, given->value, option->value);
}

int prn_runtime_check_options(const struct prn_runtime_ops *ops,
                              const struct prn_spec_option *options, size_t n,
                              struct prony_error *err)
{
    for (size_t i = 0; i < n; i++) {
        const struct prn_runtime_option *o = prn_runtime_find_option(ops, options[i].key);
        if (o && fits(o, options[i].value))
            continue;
        if (o)
            return fail_value(o, ops->software, &options[i], err);
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

void prn_runtime_list(struct prn_buffer *out, bool only_onnx)
{
    const char *separator = "";
    for (size_t i = 0; prn_runtimes[i]; i++) {
        if ((only_onnx && prn_runtimes[i]->takes_fxproto) || prn_runtimes[i]->listed_only)
            continue;
        prn_buffer_printf(out, "%s%s", separator, prn_runtimes[i]->software);
        separator = ", ";
    }
}
