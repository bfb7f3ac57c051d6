/*
 * Binding: the model's inputs with every dimension a number. A dimension's name means the same
 * number wherever it occurs, whether --dim gave it or the --shape of one input.
 */
#include "model/roles.h"

#include "base/buffer.h"
#include "base/map.h"
#include "base/text.h"

#include <inttypes.h>
#include <string.h>

struct binder {
    const struct prn_model *model;
    const struct prn_bindings *bindings;
    struct prn_map params; /* name of a dimension → index into `sizes` */
    int64_t *sizes;
    struct prony_error *err;
};

#define NO_SIZE (-1)

/* The names of open dimensions, or of the inputs, for the error about one that isn't there. */
static void list_names(const struct prn_model *model, bool dims, struct prn_buffer *out)
{
    struct prn_map seen = PRN_MAP_INIT;
    for (size_t i = 0; i < model->n_inputs; i++) {
        const struct prn_value *input = model->inputs[i];
        for (size_t d = 0; d < (dims ? input->rank : 1); d++) {
            const char *name = dims ? input->dims[d].param : input->name;
            if (!name || prn_map_get(&seen, name) != PRN_MAP_NONE)
                continue;
            prn_buffer_printf(out, "%s'%s'", out->len ? ", " : "", name);
            if (prn_map_set(&seen, name, 0) < 0)
                out->error = PRONY_ENOMEM;
        }
    }
    if (out->len == 0)
        prn_buffer_add(out, "none");
    prn_map_release(&seen);
}

#define NAMES_TRIED 256

/* The dimension or input that `name` was probably meant to be; NULL: none. */
static const char *find_meant(const struct prn_model *model, bool dims, const char *name)
{
    const char *names[NAMES_TRIED];
    size_t n = 0;
    for (size_t i = 0; i < model->n_inputs; i++) {
        const struct prn_value *input = model->inputs[i];
        for (size_t d = 0; d < (dims ? input->rank : 1) && n < NAMES_TRIED; d++)
            names[n++] = dims ? input->dims[d].param : input->name;
    }
    return prn_text_nearest(name, names, n);
}

static int fail_unknown(const struct binder *b, bool dim, const char *name)
{
    const char *meant = find_meant(b->model, dim, name);
    if (meant)
        return prn_fail(b->err, PRONY_EUSAGE,
                        "--%s '%s': the inputs have no such %s; did you mean "
                        "'%s'?",
                        dim ? "dim" : "shape", name, dim ? "dimension" : "name", meant);
    struct prn_buffer known = PRN_BUFFER_INIT((size_t)1 << 20);
    list_names(b->model, dim, &known);
    int code = prn_fail(b->err, PRONY_EUSAGE,
                        dim ? "--dim '%s': no input has a dimension of that name; known: %s"
                            : "--shape '%s': the model has no input of that name; known: %s",
                        name, prn_buffer_text(&known));
    prn_buffer_release(&known);
    return code;
}

/* Gives each named dimension of the inputs a place in `sizes`. */
static int collect_params(struct binder *b, struct prn_arena *arena)
{
    size_t most = 0;
    for (size_t i = 0; i < b->model->n_inputs; i++)
        most += b->model->inputs[i]->rank;
    b->sizes = PRN_ARENA_ARRAY(arena, most, int64_t);
    if (!b->sizes)
        return prn_fail_memory(b->err);
    for (size_t i = 0; i < b->model->n_inputs; i++) {
        const struct prn_value *input = b->model->inputs[i];
        for (size_t d = 0; d < input->rank; d++) {
            const char *param = input->dims[d].param;
            if (!param || prn_map_get(&b->params, param) != PRN_MAP_NONE)
                continue;
            b->sizes[b->params.count] = NO_SIZE;
            if (prn_map_set(&b->params, param, b->params.count) < 0)
                return prn_fail_memory(b->err);
        }
    }
    return 0;
}

static int bind_dims(struct binder *b)
{
    for (size_t i = 0; i < b->bindings->n_dims; i++) {
        const struct prn_dim_binding *dim = &b->bindings->dims[i];
        size_t at = prn_map_get(&b->params, dim->param);
        if (at == PRN_MAP_NONE)
            return fail_unknown(b, true, dim->param);
        b->sizes[at] = dim->value;
    }
    return 0;
}

/* Checks a --shape against the input's declaration, and takes the sizes of its named dimensions. */
static int bind_shape(struct binder *b, const struct prn_shape_binding *shape,
                      const struct prn_value *input)
{
    if (!input->has_shape)
        return 0;
    if (shape->rank != input->rank)
        return prn_fail(b->err, PRONY_EUSAGE,
                        "--shape '%s' has %zu dimensions, the model's has %zu", input->name,
                        shape->rank, input->rank);
    for (size_t d = 0; d < input->rank; d++) {
        const struct prn_dim *declared = &input->dims[d];
        if (declared->value >= 0 && declared->value != shape->dims[d])
            return prn_fail(b->err, PRONY_EUSAGE,
                            "--shape '%s': dimension %zu is fixed to %" PRId64 " by the model",
                            input->name, d, declared->value);
        if (declared->value >= 0 || !declared->param)
            continue;
        int64_t *size = &b->sizes[prn_map_get(&b->params, declared->param)];
        if (*size != NO_SIZE && *size != shape->dims[d])
            return prn_fail(b->err, PRONY_EUSAGE,
                            "--shape '%s': dimension '%s' can't be %" PRId64 " and %" PRId64,
                            input->name, declared->param, shape->dims[d], *size);
        *size = shape->dims[d];
    }
    return 0;
}

static int bind_shapes(struct binder *b, const struct prn_shape_binding **by_input)
{
    struct prn_map inputs = PRN_MAP_INIT;
    int code = 0;
    for (size_t i = 0; i < b->model->n_inputs && code == 0; i++)
        if (prn_map_set(&inputs, b->model->inputs[i]->name, i) < 0)
            code = prn_fail_memory(b->err);
    for (size_t i = 0; i < b->bindings->n_shapes && code == 0; i++) {
        const struct prn_shape_binding *shape = &b->bindings->shapes[i];
        size_t at = prn_map_get(&inputs, shape->input);
        if (at == PRN_MAP_NONE) {
            code = fail_unknown(b, false, shape->input);
        } else {
            by_input[at] = shape;
            code = bind_shape(b, shape, b->model->inputs[at]);
        }
    }
    prn_map_release(&inputs);
    return code;
}

static int check_kind(const struct binder *b, const struct prn_value *input)
{
    if (input->kind != PRN_VALUE_TENSOR)
        return prn_fail(b->err, PRONY_EUNSUPPORTED,
                        "input '%s' of '%s' is a %s; prony feeds tensors only", input->name,
                        b->model->path, prn_value_kind_name(input->kind));
    if (input->dtype != PRN_DTYPE_STRING && prn_dtype_bits(input->dtype) == 0)
        return prn_fail(b->err, PRONY_EUNSUPPORTED,
                        "input '%s' of '%s' has elements of unknown type %d", input->name,
                        b->model->path, input->dtype);
    return 0;
}

/* NO_SIZE when it was left open. */
static int64_t size_of(const struct binder *b, const struct prn_dim *dim)
{
    if (dim->value >= 0)
        return dim->value;
    return dim->param ? b->sizes[prn_map_get(&b->params, dim->param)] : NO_SIZE;
}

static int resolve(const struct binder *b, const struct prn_value *declared,
                   const struct prn_shape_binding *shape, struct prn_input *input)
{
    int code = check_kind(b, declared);
    if (code < 0)
        return code;
    input->name = declared->name;
    input->dtype = declared->dtype;
    if (!declared->has_shape && !shape)
        return prn_fail(b->err, PRONY_EUSAGE,
                        "input '%s' of '%s' has no declared shape; give one with --shape '%s=...'",
                        declared->name, b->model->path, declared->name);
    input->rank = shape ? shape->rank : declared->rank;
    for (size_t d = 0; d < input->rank; d++) {
        int64_t size = shape ? shape->dims[d] : size_of(b, &declared->dims[d]);
        input->assumed[d] = size == NO_SIZE;
        input->dims[d] = size == NO_SIZE ? 1 : size;
    }
    int64_t elements;
    size_t bytes;
    if (prn_dims_elements(input->dims, input->rank, &elements) < 0 ||
        prn_dtype_bytes(input->dtype, input->dims, input->rank, &bytes) == PRONY_ELIMIT) {
        char text[PRN_RANK_MAX * 21 + 1];
        return prn_fail(b->err, PRONY_ELIMIT, "input '%s' of '%s' is too large: %s", input->name,
                        b->model->path, prn_dims_text(input->dims, input->rank, text, sizeof text));
    }
    return 0;
}

int prn_model_bind(const struct prn_model *model, const struct prn_bindings *bindings,
                   struct prn_arena *arena, struct prn_input **ret_inputs, struct prony_error *err)
{
    struct binder b = {.model = model, .bindings = bindings, .err = err};
    struct prn_input *inputs = PRN_ARENA_ARRAY(arena, model->n_inputs, struct prn_input);
    const struct prn_shape_binding **shapes =
        PRN_ARENA_ARRAY(arena, model->n_inputs, const struct prn_shape_binding *);
    int code = inputs && shapes ? collect_params(&b, arena) : prn_fail_memory(err);
    if (code == 0)
        code = bind_dims(&b);
    if (code == 0)
        code = bind_shapes(&b, shapes);
    for (size_t i = 0; i < model->n_inputs && code == 0; i++)
        code = resolve(&b, model->inputs[i], shapes[i], &inputs[i]);
    if (code == 0)
        code = prn_model_roles(model, inputs, err);
    prn_map_release(&b.params);
    if (code == 0)
        *ret_inputs = inputs;
    return code;
}

/* ---- What was left open ---- */

static bool is_open(const struct prn_input *input, size_t d)
{
    return input->assumed[d] && input->dims[d] == 1;
}

static const char *param_of(const struct prn_value *declared, size_t d)
{
    return d < declared->rank ? declared->dims[d].param : NULL;
}

/* An option with its value, in quotes where a shell would take it apart. */
static void add_option(struct prn_buffer *out, const char *option, const char *value)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.,:/=+-@%";
    const char *quote = value[strspn(value, plain)] ? "'" : "";
    prn_buffer_printf(out, "%s--%s %s", out->len ? " " : "", option, quote);
    prn_text_clean(out, value);
    prn_buffer_add(out, quote);
}

/* "x=Nx3xN" for an input that leaves a dimension without a name open. */
static void add_shape(const struct prn_input *input, struct prn_buffer *out)
{
    struct prn_buffer value = PRN_BUFFER_INIT((size_t)1 << 16);
    prn_buffer_printf(&value, "%s=", input->name);
    for (size_t d = 0; d < input->rank; d++) {
        prn_buffer_add(&value, d ? "x" : "");
        if (is_open(input, d))
            prn_buffer_add(&value, "N");
        else
            prn_buffer_printf(&value, "%" PRId64, input->dims[d]);
    }
    add_option(out, "shape", prn_buffer_text(&value));
    prn_buffer_release(&value);
}

static bool has_nameless(const struct prn_value *declared, const struct prn_input *input)
{
    bool any = false;
    for (size_t d = 0; d < input->rank; d++)
        any = any || (is_open(input, d) && !param_of(declared, d));
    return any;
}

void prn_open_dims(const struct prn_model *model, const struct prn_input *inputs,
                   struct prn_buffer *out)
{
    struct prn_map seen = PRN_MAP_INIT;
    struct prn_buffer options = PRN_BUFFER_INIT((size_t)1 << 20);
    for (size_t i = 0; i < model->n_inputs; i++) {
        const struct prn_value *declared = model->inputs[i];
        bool by_shape = has_nameless(declared, &inputs[i]);
        if (by_shape)
            add_shape(&inputs[i], &options);
        for (size_t d = 0; d < inputs[i].rank; d++) {
            const char *param = is_open(&inputs[i], d) ? param_of(declared, d) : NULL;
            if (!param || prn_map_get(&seen, param) != PRN_MAP_NONE)
                continue;
            if (prn_map_set(&seen, param, 0) < 0)
                out->error = PRONY_ENOMEM;
            struct prn_buffer value = PRN_BUFFER_INIT((size_t)1 << 16);
            prn_buffer_printf(&value, "%s=N", param);
            if (!by_shape)
                add_option(&options, "dim", prn_buffer_text(&value));
            prn_buffer_release(&value);
        }
    }
    prn_buffer_add(out, prn_buffer_text(&options));
    prn_buffer_release(&options);
    prn_map_release(&seen);
}

int prn_open_dims_fail(const struct prn_model *model, const struct prn_input *inputs, int code,
                       struct prony_error *err)
{
    if (code != PRONY_ERUNTIME)
        return code;
    struct prn_buffer options = PRN_BUFFER_INIT((size_t)1 << 20);
    prn_open_dims(model, inputs, &options);
    if (options.len > 0)
        code = prn_fail_in(err, code, PRN_OPEN_DIMS_FAILURE, prn_buffer_text(&options));
    prn_buffer_release(&options);
    return code;
}
