#include "model/bindings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool parse_size(const char *text, const char **ret_end, int64_t *ret_size)
{
    char *end;
    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    *ret_size = value;
    *ret_end = end;
    return errno == 0;
}

/* The name before the last '='; NULL without one, or when it is empty. */
static const char *name_of(const char *text, struct prn_arena *arena, const char **ret_value)
{
    const char *equals = strrchr(text, '=');
    if (!equals || equals == text)
        return NULL;
    *ret_value = equals + 1;
    return prn_arena_strndup(arena, text, (size_t)(equals - text));
}

static int parse_dim(const char *text, struct prn_arena *arena, struct prn_dim_binding *ret_dim,
                     struct prony_error *err)
{
    const char *value;
    const char *end;
    ret_dim->param = name_of(text, arena, &value);
    if (!ret_dim->param || !parse_size(value, &end, &ret_dim->value) || *end)
        return prn_fail(err, PRONY_EUSAGE, "--dim '%s' isn't NAME=SIZE, such as batch=8", text);
    return 0;
}

static bool parse_dims(const char *text, struct prn_shape_binding *shape)
{
    if (strcmp(text, "scalar") == 0)
        return true;
    for (;;) {
        if (shape->rank == PRN_RANK_MAX || !parse_size(text, &text, &shape->dims[shape->rank]))
            return false;
        shape->rank++;
        if (*text == '\0')
            return true;
        if (*text != 'x' && *text != ',')
            return false;
        text++;
    }
}

static int parse_shape(const char *text, struct prn_arena *arena,
                       struct prn_shape_binding *ret_shape, struct prony_error *err)
{
    const char *value;
    ret_shape->input = name_of(text, arena, &value);
    if (!ret_shape->input || !parse_dims(value, ret_shape))
        return prn_fail(err, PRONY_EUSAGE,
                        "--shape '%s' isn't INPUT=SIZES, such as image=1x3x224x224", text);
    return 0;
}

int prn_bindings_parse(const char *const *dims, size_t n_dims, const char *const *shapes,
                       size_t n_shapes, struct prn_arena *arena, struct prn_bindings *ret_bindings,
                       struct prony_error *err)
{
    struct prn_dim_binding *dim = PRN_ARENA_ARRAY(arena, n_dims, struct prn_dim_binding);
    struct prn_shape_binding *shape = PRN_ARENA_ARRAY(arena, n_shapes, struct prn_shape_binding);
    if (!dim || !shape)
        return prn_fail_memory(err);
    for (size_t i = 0; i < n_dims; i++) {
        int code = parse_dim(dims[i], arena, &dim[i], err);
        if (code < 0)
            return code;
        for (size_t j = 0; j < i; j++)
            if (strcmp(dim[i].param, dim[j].param) == 0)
                return prn_fail(err, PRONY_EUSAGE, "--dim '%s': '%s' was given before", dims[i],
                                dim[i].param);
    }
    for (size_t i = 0; i < n_shapes; i++) {
        int code = parse_shape(shapes[i], arena, &shape[i], err);
        if (code < 0)
            return code;
        for (size_t j = 0; j < i; j++)
            if (strcmp(shape[i].input, shape[j].input) == 0)
                return prn_fail(err, PRONY_EUSAGE, "--shape '%s': '%s' was given before", shapes[i],
                                shape[i].input);
    }
    *ret_bindings =
        (struct prn_bindings){.n_dims = n_dims, .n_shapes = n_shapes, .dims = dim, .shapes = shape};
    return 0;
}
