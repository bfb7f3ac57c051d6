/* What a user says of layers: where to cut, and how large the batch is. */
#include "model/cut/cut.h"

#include "base/map.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool is_number(const char *text)
{
    size_t len = strspn(text, "0123456789");
    return len > 0 && text[len] == '\0';
}

static int add_pattern(struct prn_arena *arena, const char ***patterns, size_t *n, const char *text,
                       size_t len, struct prony_error *err)
{
    const char *pattern = prn_arena_strndup(arena, text, len);
    if (!pattern)
        return prn_fail_memory(err);
    if (len == 0)
        return prn_fail(err, PRONY_EUSAGE, "--cuts: a name between commas is empty");
    (*patterns)[(*n)++] = pattern;
    return 0;
}

int prn_cut_options_parse(const char *text, size_t max_tensors, struct prn_arena *arena,
                          struct prn_cut_options *ret_options, struct prony_error *err)
{
    struct prn_cut_options cuts = {.max_tensors = max_tensors};
    text = text ? text : "auto";
    const char **patterns = PRN_ARENA_ARRAY(arena, strlen(text) + 1, const char *);
    int code = patterns ? 0 : prn_fail_memory(err);
    if (code == 0 && is_number(text)) {
        errno = 0;
        unsigned long long n = strtoull(text, NULL, 10);
        cuts.n_layers = (size_t)n;
        if (errno || n < 1 || n > PRN_CUT_LAYERS_MAX)
            code = prn_fail(err, PRONY_EUSAGE, "--cuts: '%s' isn't from 1 to %d", text,
                            PRN_CUT_LAYERS_MAX);
    } else if (code == 0 && strcmp(text, "auto") != 0) {
        for (const char *at = text; code == 0; at += strcspn(at, ",") + 1) {
            size_t len = strcspn(at, ",");
            code = add_pattern(arena, &patterns, &cuts.n_patterns, at, len, err);
            if (at[len] == '\0')
                break;
        }
        cuts.patterns = patterns;
    }
    if (code == 0)
        *ret_options = cuts;
    return code;
}

int prn_cut_bind_batch(const struct prn_model *model, int64_t batch, struct prn_input *inputs,
                       struct prony_error *err)
{
    struct prn_map names = PRN_MAP_INIT;
    bool bound = batch == 0;
    int code = 0;
    int64_t size = batch ? batch : PRN_CUT_BATCH_DEFAULT;
    for (size_t i = 0; i < model->n_inputs && code == 0; i++) {
        const struct prn_value *declared = model->inputs[i];
        bool open = inputs[i].rank > 0 && inputs[i].assumed[0];
        bound = bound || open || (inputs[i].rank > 0 && inputs[i].dims[0] == batch);
        if (open)
            inputs[i].dims[0] = size;
        if (open && declared->has_shape && declared->dims[0].param)
            code = prn_map_set(&names, declared->dims[0].param, 0);
    }
    for (size_t i = 0; i < model->n_inputs && code == 0; i++)
        for (size_t d = 0; d < inputs[i].rank; d++) {
            const struct prn_value *declared = model->inputs[i];
            const char *name = declared->has_shape ? declared->dims[d].param : NULL;
            if (inputs[i].assumed[d] && name && prn_map_get(&names, name) != PRN_MAP_NONE)
                inputs[i].dims[d] = size;
        }
    prn_map_release(&names);
    if (code < 0)
        return prn_fail_memory(err);
    if (!bound)
        return prn_fail(err, PRONY_EUSAGE,
                        "-b %lld: no input of '%s' leaves its outer dimension open",
                        (long long)batch, model->path);
    return 0;
}
