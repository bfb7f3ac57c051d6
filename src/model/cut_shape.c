/*
 * What passes a cut: types and shapes. Inference works with numbers, so a dimension that the model
 * leaves open has become one. Which ones depend on open dimensions of the inputs is found by
 * inferring all shapes a second time with other sizes: what differs is open, and has the name of
 * the dimension whose two sizes it had.
 */
#include "model/cut_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Open dimensions with a name that are told apart. */
#define PARAMS_MAX 32

struct param {
    const char *name;
    int64_t size, other;
};

struct prn_cut_shapes {
    const struct prn_cut_graph *g;
    struct prn_work *other; /* NULL: no dimension is open */
    struct param params[PARAMS_MAX];
    size_t n_params;
    const struct prn_cut_tensor **tensors; /* by id, once made */
};

/* Another size that a model is likely to bear: smaller, since tables of positions end somewhere. */
static int64_t other_size(int64_t size, size_t index)
{
    int64_t step = (int64_t)index + 1;
    return size > step ? size - step : size + step;
}

static int64_t other_size_of(struct prn_cut_shapes *s, const char *name, int64_t size, size_t index)
{
    for (size_t i = 0; name && i < s->n_params; i++)
        if (strcmp(s->params[i].name, name) == 0)
            return s->params[i].other;
    int64_t other = other_size(size, index);
    if (name && s->n_params < PARAMS_MAX)
        s->params[s->n_params++] = (struct param){name, size, other};
    return other;
}

/* The inputs with other sizes where they are open; says whether any is. */
static bool change_inputs(struct prn_cut_shapes *s, struct prn_input *inputs)
{
    const struct prn_model *model = s->g->model;
    size_t n_open = 0;
    for (size_t i = 0; i < model->n_inputs; i++) {
        const struct prn_value *declared = model->inputs[i];
        inputs[i] = s->g->inputs[i];
        for (size_t d = 0; d < inputs[i].rank; d++) {
            bool known = declared->has_shape && d < declared->rank;
            if (known && declared->dims[d].value >= 0)
                continue;
            const char *name = known ? declared->dims[d].param : NULL;
            inputs[i].dims[d] = other_size_of(s, name, inputs[i].dims[d], n_open % PARAMS_MAX);
            n_open++;
        }
    }
    return n_open > 0;
}

int prn_cut_shapes_new(const struct prn_cut_graph *g, struct prn_cut_shapes **ret_shapes)
{
    struct prn_cut_shapes *s = calloc(1, sizeof *s);
    if (!s)
        return prn_fail_memory(g->err);
    s->g = g;
    s->tensors = PRN_ARENA_ARRAY(g->arena, g->n_values + 1, const struct prn_cut_tensor *);
    struct prn_input *inputs = PRN_ARENA_ARRAY(g->arena, g->model->n_inputs + 1, struct prn_input);
    int code = s->tensors && inputs ? 0 : prn_fail_memory(g->err);
    if (code == 0 && change_inputs(s, inputs))
        code = prn_model_analyse(g->model, inputs, &s->other, g->err);
    if (code < 0)
        prn_cut_shapes_free(s);
    else
        *ret_shapes = s;
    return code;
}

void prn_cut_shapes_free(struct prn_cut_shapes *s)
{
    if (!s)
        return;
    prn_work_free(s->other);
    free(s);
}

/* A dimension of a node's output, from its size and what it became in the other inference. */
static struct prn_dim open_dim(const struct prn_cut_shapes *s, int64_t size, int64_t other)
{
    struct prn_dim dim = {.value = size};
    if (size >= 0 && size == other)
        return dim;
    dim.value = -1;
    for (size_t i = 0; i < s->n_params; i++)
        if (size == s->params[i].size && other == s->params[i].other) {
            dim.param = s->params[i].name;
            break;
        }
    return dim;
}

static bool set_output(const struct prn_cut_shapes *s, size_t id, struct prn_cut_tensor *t,
                       struct prn_dim *open, int64_t *dims)
{
    size_t index = id - s->g->first_output;
    const struct prn_value *known = &s->g->work->values[index];
    const struct prn_value *other = s->other ? &s->other->values[index] : known;
    t->value.kind = (enum prn_value_kind)s->g->values[id].kind;
    t->value.dtype = known->dtype;
    t->value.has_shape = other->has_shape && other->rank == known->rank;
    for (size_t i = 0; known->has_shape && i < known->rank; i++) {
        dims[i] = known->dims[i].value;
        if (t->value.has_shape)
            open[i] = open_dim(s, dims[i], other->dims[i].value);
    }
    t->value.rank = known->rank;
    return known->has_shape;
}

/* Fills type and shape; says whether there is a shape. `open` and `dims` have room for any rank. */
static bool set_shape(const struct prn_cut_shapes *s, size_t id, struct prn_cut_tensor *t,
                      struct prn_dim *open, int64_t *dims)
{
    const struct prn_cut_graph *g = s->g;
    if (id >= g->first_output)
        return set_output(s, id, t, open, dims);
    if (id >= g->first_input) {
        const struct prn_input *in = &g->inputs[id - g->first_input];
        const struct prn_value *declared = g->model->inputs[id - g->first_input];
        t->value = *declared;
        for (size_t i = 0; i < in->rank; i++) {
            dims[i] = in->dims[i];
            if (declared->has_shape && declared->rank == in->rank)
                open[i] = declared->dims[i];
        }
        t->value.rank = in->rank;
        return true;
    }
    const struct prn_constant *c = &g->model->graph.constants[id];
    t->value.dtype = c->dtype;
    t->value.has_shape = true;
    t->value.rank = c->rank;
    for (size_t i = 0; i < c->rank; i++) {
        dims[i] = c->dims[i];
        open[i] = (struct prn_dim){.value = c->dims[i]};
    }
    return true;
}

static void measure(struct prn_cut_tensor *t)
{
    int64_t elements;
    size_t bytes;
    t->elements = NAN;
    t->bytes = NAN;
    if (!t->dims || prn_dims_elements(t->dims, t->value.rank, &elements) < 0)
        return;
    t->elements = (double)elements;
    if (prn_dtype_bytes(t->value.dtype, t->dims, t->value.rank, &bytes) == 0)
        t->bytes = (double)bytes;
}

static int make_tensor(const struct prn_cut_shapes *s, size_t id, struct prn_arena *arena,
                       const struct prn_cut_tensor **ret_tensor)
{
    struct prn_dim open[PRN_RANK_MAX] = {0};
    int64_t dims[PRN_RANK_MAX] = {0};
    struct prn_cut_tensor *t = PRN_ARENA_NEW(arena, struct prn_cut_tensor);
    if (!t)
        return prn_fail_memory(s->g->err);
    bool ranked = set_shape(s, id, t, open, dims);
    size_t rank = t->value.rank;
    struct prn_dim *own_open = PRN_ARENA_ARRAY(arena, rank + 1, struct prn_dim);
    int64_t *own_dims = PRN_ARENA_ARRAY(arena, rank + 1, int64_t);
    if (!own_open || !own_dims)
        return prn_fail_memory(s->g->err);
    memcpy(own_open, open, rank * sizeof *open);
    memcpy(own_dims, dims, rank * sizeof *dims);
    t->value.name = s->g->values[id].name;
    t->value.dims = own_open;
    t->dims = ranked ? own_dims : NULL;
    measure(t);
    *ret_tensor = t;
    return 0;
}

int prn_cut_shapes_tensor(struct prn_cut_shapes *s, size_t id, struct prn_arena *arena,
                          const struct prn_cut_tensor **ret_tensor)
{
    int code = s->tensors[id] ? 0 : make_tensor(s, id, arena, &s->tensors[id]);
    if (code == 0)
        *ret_tensor = s->tensors[id];
    return code;
}
