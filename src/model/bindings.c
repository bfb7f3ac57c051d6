#include "model/bindings.h"

#include <errno.h>
#include <inttypes.h>
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

/* What stands behind the last '='; NULL without one, or when nothing stands before it. */
static const char *value_of(const char *text)
{
    const char *equals = strrchr(text, '=');
    return equals && equals != text ? equals + 1 : NULL;
}

static const char *name_of(const char *text, const char *value, struct prn_arena *arena)
{
    return prn_arena_strndup(arena, text, (size_t)(value - text) - 1);
}

/* Items of a list, empty ones included; stops counting when there are too many. */
static size_t count_items(const char *text, char separator)
{
    size_t n = 1;
    for (; *text && n <= PRN_SWEEP_POINTS_MAX; text++)
        n += *text == separator;
    return n;
}

static int fail_too_many(const char *option, const char *text, struct prony_error *err)
{
    return prn_fail(err, PRONY_EUSAGE,
                    "%s '%.200s': the lists make more than %d combinations; sweep fewer values",
                    option, text, PRN_SWEEP_POINTS_MAX);
}

static int fail_dim(const char *text, struct prony_error *err)
{
    return prn_fail(err, PRONY_EUSAGE, "--dim '%s' is not NAME=SIZE, such as batch=8%s", text,
                    strpbrk(text, ",.*") ? "; lists are written 1,2,4, 1..8 or 1..64*2, without "
                                           "spaces"
                                         : "");
}

/* "8", "1..8" or "1..64*2": sizes from the first to the last, one by one or by a factor. */
struct size_range {
    int64_t first, last, factor; /* factor 1: one by one */
};

static bool parse_range(const char *text, const char **ret_end, struct size_range *ret_range)
{
    struct size_range r = {.factor = 1};
    if (!parse_size(text, &text, &r.first))
        return false;
    r.last = r.first;
    if (text[0] == '.' && text[1] == '.') {
        if (!parse_size(text + 2, &text, &r.last) || r.last < r.first)
            return false;
        if (*text == '*' &&
            (!parse_size(text + 1, &text, &r.factor) || r.factor < 2 || r.first == 0))
            return false;
    }
    *ret_end = text;
    *ret_range = r;
    return true;
}

/* The size after one of a range; beyond the last when that is it. */
static int64_t next_size(const struct size_range *r, int64_t size)
{
    if (r->factor == 1)
        return size + 1;
    return size > r->last / r->factor ? INT64_MAX : size * r->factor;
}

static int add_sizes(const char *text, const struct size_range *range, struct prn_axis *axis,
                     struct prn_dim_binding *dims, struct prony_error *err)
{
    for (int64_t size = range->first; size <= range->last; size = next_size(range, size)) {
        for (size_t k = 0; k < axis->n; k++)
            if (dims[k].value == size)
                return prn_fail(err, PRONY_EUSAGE, "--dim '%s': %" PRId64 " is there twice", text,
                                size);
        if (axis->n == PRN_SWEEP_POINTS_MAX)
            return fail_too_many("--dim", text, err);
        dims[axis->n++] = (struct prn_dim_binding){.param = axis->name, .value = size};
        if (size == INT64_MAX)
            break;
    }
    return 0;
}

static int parse_dim(const char *text, struct prn_arena *arena, struct prn_axis *axis,
                     struct prony_error *err)
{
    const char *value = value_of(text);
    if (!value)
        return fail_dim(text, err);
    struct prn_dim_binding *dims =
        PRN_ARENA_ARRAY(arena, PRN_SWEEP_POINTS_MAX, struct prn_dim_binding);
    axis->name = name_of(text, value, arena);
    if (!dims || !axis->name)
        return prn_fail_memory(err);
    axis->n = 0;
    for (bool more = true; more;) {
        struct size_range range;
        if (!parse_range(value, &value, &range) || (*value && *value != ','))
            return fail_dim(text, err);
        int code = add_sizes(text, &range, axis, dims, err);
        if (code < 0)
            return code;
        more = *value == ',';
        value++;
    }
    axis->dims = dims;
    return 0;
}

static bool parse_shape_sizes(const char *text, char separator, const char *end,
                              struct prn_shape_binding *shape)
{
    if ((size_t)(end - text) == strlen("scalar") && strncmp(text, "scalar", strlen("scalar")) == 0)
        return true;
    for (;;) {
        if (shape->rank == PRN_RANK_MAX || !parse_size(text, &text, &shape->dims[shape->rank]))
            return false;
        shape->rank++;
        if (text == end)
            return true;
        if (*text != separator)
            return false;
        text++;
    }
}

static bool same_shape(const struct prn_shape_binding *a, const struct prn_shape_binding *b)
{
    return a->rank == b->rank && memcmp(a->dims, b->dims, a->rank * sizeof *a->dims) == 0;
}

static int fail_shape(const char *text, struct prony_error *err)
{
    return prn_fail(err, PRONY_EUSAGE,
                    "--shape '%s' isn't INPUT=SIZES, such as image=1x3x224x224%s", text,
                    strpbrk(text, ",|") ? ", or INPUT=SIZES,SIZES,... without spaces" : "");
}

static int parse_shape(const char *text, struct prn_arena *arena, struct prn_axis *axis,
                       struct prony_error *err)
{
    const char *value = value_of(text);
    if (!value)
        return fail_shape(text, err);
    const char between_sizes = strchr(value, 'x') ? 'x' : ',';
    const char between_shapes = strchr(value, '|') || between_sizes == ',' ? '|' : ',';
    size_t n = count_items(value, between_shapes);
    if (n > PRN_SWEEP_POINTS_MAX)
        return fail_too_many("--shape", text, err);
    struct prn_shape_binding *shapes = PRN_ARENA_ARRAY(arena, n, struct prn_shape_binding);
    axis->name = name_of(text, value, arena);
    if (!shapes || !axis->name)
        return prn_fail_memory(err);
    for (size_t i = 0; i < n; i++) {
        const char *end = strchr(value, between_shapes);
        end = end ? end : value + strlen(value);
        shapes[i].input = axis->name;
        if (!parse_shape_sizes(value, between_sizes, end, &shapes[i]))
            return fail_shape(text, err);
        for (size_t k = 0; k < i; k++)
            if (same_shape(&shapes[k], &shapes[i]))
                return prn_fail(err, PRONY_EUSAGE, "--shape '%s': '%.*s' is there twice", text,
                                (int)(end - value), value);
        value = end + 1;
    }
    axis->shapes = shapes;
    axis->n = n;
    return 0;
}

typedef int parse_axis(const char *text, struct prn_arena *arena, struct prn_axis *axis,
                       struct prony_error *err);

/* Adds one axis for each text. */
static int parse_axes(const char *option, parse_axis *parse, const char *const *texts, size_t n,
                      struct prn_arena *arena, struct prn_sweep *sweep, struct prony_error *err)
{
    size_t first = sweep->n_axes;
    for (size_t i = 0; i < n; i++) {
        struct prn_axis *axis = &sweep->axes[sweep->n_axes];
        int code = parse(texts[i], arena, axis, err);
        if (code < 0)
            return code;
        for (size_t k = first; k < sweep->n_axes; k++)
            if (strcmp(sweep->axes[k].name, axis->name) == 0)
                return prn_fail(err, PRONY_EUSAGE, "%s '%s': '%s' was given before", option,
                                texts[i], axis->name);
        sweep->n_axes++;
        if (sweep->n_points > PRN_SWEEP_POINTS_MAX / axis->n)
            return fail_too_many(option, texts[i], err);
        sweep->n_points *= axis->n;
    }
    return 0;
}

int prn_sweep_parse(const char *const *dims, size_t n_dims, const char *const *shapes,
                    size_t n_shapes, struct prn_arena *arena, struct prn_sweep *ret_sweep,
                    struct prony_error *err)
{
    struct prn_sweep sweep = {.n_points = 1};
    sweep.axes = PRN_ARENA_ARRAY(arena, n_dims + n_shapes, struct prn_axis);
    if (!sweep.axes)
        return prn_fail_memory(err);
    int code = parse_axes("--dim", parse_dim, dims, n_dims, arena, &sweep, err);
    if (code == 0)
        code = parse_axes("--shape", parse_shape, shapes, n_shapes, arena, &sweep, err);
    if (code == 0)
        *ret_sweep = sweep;
    return code;
}

size_t prn_sweep_value(const struct prn_sweep *sweep, size_t point, size_t axis)
{
    for (size_t i = sweep->n_axes - 1; i > axis; i--)
        point /= sweep->axes[i].n;
    return point % sweep->axes[axis].n;
}

int prn_sweep_bindings(const struct prn_sweep *sweep, size_t point, struct prn_arena *arena,
                       struct prn_bindings *ret_bindings, struct prony_error *err)
{
    struct prn_dim_binding *dims = PRN_ARENA_ARRAY(arena, sweep->n_axes, struct prn_dim_binding);
    struct prn_shape_binding *shapes =
        PRN_ARENA_ARRAY(arena, sweep->n_axes, struct prn_shape_binding);
    struct prn_bindings bindings = {.dims = dims, .shapes = shapes};
    if (!dims || !shapes)
        return prn_fail_memory(err);
    for (size_t i = 0; i < sweep->n_axes; i++) {
        const struct prn_axis *axis = &sweep->axes[i];
        size_t value = prn_sweep_value(sweep, point, i);
        if (axis->dims)
            dims[bindings.n_dims++] = axis->dims[value];
        else
            shapes[bindings.n_shapes++] = axis->shapes[value];
    }
    *ret_bindings = bindings;
    return 0;
}

void prn_sweep_label(const struct prn_sweep *sweep, size_t point, struct prn_buffer *out)
{
    char text[PRN_RANK_MAX * 21 + 1];
    const char *separator = "";
    for (size_t i = 0; i < sweep->n_axes; i++) {
        const struct prn_axis *axis = &sweep->axes[i];
        size_t value = prn_sweep_value(sweep, point, i);
        if (axis->n == 1)
            continue;
        prn_buffer_printf(out, "%s%s=", separator, axis->name);
        if (axis->dims)
            prn_buffer_printf(out, "%" PRId64, axis->dims[value].value);
        else
            prn_buffer_add(out, prn_dims_text(axis->shapes[value].dims, axis->shapes[value].rank,
                                              text, sizeof text));
        separator = ", ";
    }
}

int prn_bindings_parse(const char *const *dims, size_t n_dims, const char *const *shapes,
                       size_t n_shapes, struct prn_arena *arena, struct prn_bindings *ret_bindings,
                       struct prony_error *err)
{
    struct prn_sweep sweep;
    int code = prn_sweep_parse(dims, n_dims, shapes, n_shapes, arena, &sweep, err);
    if (code < 0)
        return code;
    for (size_t i = 0; i < sweep.n_axes; i++)
        if (sweep.axes[i].n > 1)
            return prn_fail(err, PRONY_EUSAGE,
                            "%s '%s' has several values; only 'prony profile' takes lists",
                            sweep.axes[i].dims ? "--dim" : "--shape", sweep.axes[i].name);
    return prn_sweep_bindings(&sweep, 0, arena, ret_bindings, err);
}
