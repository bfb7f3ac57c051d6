/*
 * What passes a cut: types and shapes. Inference works with numbers, so a dimension that the model
 * leaves open has become one. Which ones depend on open dimensions of the inputs is found by
 * inferring all shapes again with other sizes: what ever differs is open, and has the name of the
 * dimension whose sizes it always had.
 *
 * One other size isn't enough. A stride rounds, so a size that differs by one often gives the same;
 * and tables of positions end somewhere, so a much larger one may not fit. Several are tried, and
 * those that the model doesn't bear are left out.
 */
#include "model/cut/parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Open dimensions with a name that are told apart. */
#define PARAMS_MAX 32

#define TRIALS 4

struct param {
    const char *name;
    int64_t size;
    size_t index;
};

struct prn_cut_shapes {
    const struct prn_cut_graph *g;
    size_t n_open;
    struct prn_work *trials[TRIALS]; /* with other sizes; NULL: the model doesn't bear them */
    struct param params[PARAMS_MAX];
    size_t n_params;
    const struct prn_cut_tensor **tensors; /* by id, once made */
};

/* The size of an open dimension in a trial, another for each index. */
static int64_t other_size(size_t trial, int64_t size, size_t index)
{
    int64_t step = (int64_t)index + 1;
    switch (trial) {
    case 0: /* what nearly every model bears */
        return size > step ? size - step : size + step;
    case 1: /* half, for strides */
        return size / 2 > step ? size / 2 - step : size + 2 * step;
    case 2: /* larger, and divisible by most strides if the size is */
        return size + 64 * step;
    default:
        return size + 1024 * step;
    }
}

/* Dimensions of one name are one. */
static size_t index_of(struct prn_cut_shapes *s, const char *name, int64_t size, size_t index)
{
    for (size_t i = 0; name && i < s->n_params; i++)
        if (strcmp(s->params[i].name, name) == 0)
            return s->params[i].index;
    if (name && s->n_params < PARAMS_MAX)
        s->params[s->n_params++] = (struct param){name, size, index};
    return index;
}

/* The inputs with other sizes where they are open. */
static void change_inputs(struct prn_cut_shapes *s, size_t trial, struct prn_input *inputs)
{
    const struct prn_model *model = s->g->model;
    s->n_open = 0;
    for (size_t i = 0; i < model->n_inputs; i++) {
        const struct prn_value *declared = model->inputs[i];
        inputs[i] = s->g->inputs[i];
        for (size_t d = 0; d < inputs[i].rank; d++) {
            bool known = declared->has_shape && d < declared->rank;
            if (known && declared->dims[d].value >= 0)
                continue;
            const char *name = known ? declared->dims[d].param : NULL;
            size_t index = index_of(s, name, inputs[i].dims[d], s->n_open % PARAMS_MAX);
            inputs[i].dims[d] = other_size(trial, inputs[i].dims[d], index);
            s->n_open++;
        }
    }
}

static int try_sizes(struct prn_cut_shapes *s, struct prn_input *inputs)
{
    const struct prn_cut_graph *g = s->g;
    for (size_t trial = 0; trial < TRIALS; trial++) {
        struct prony_error fault;
        change_inputs(s, trial, inputs);
        if (s->n_open == 0)
            return 0;
        int code = prn_model_analyse(g->model, inputs, &s->trials[trial], &fault);
        if (code == PRONY_ENOMEM)
            return prn_fail_memory(g->err);
    }
    return 0;
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
    if (code == 0)
        code = try_sizes(s, inputs);
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
    for (size_t trial = 0; trial < TRIALS; trial++)
        prn_work_free(s->trials[trial]);
    free(s);
}

/* A dimension of a node's output in a trial; -1: not known. */
static int64_t tried(const struct prn_cut_shapes *s, size_t trial, size_t index, size_t d)
{
    const struct prn_work *work = s->trials[trial];
    const struct prn_value *value = work ? &work->values[index] : NULL;
    return value && value->has_shape && d < value->rank ? value->dims[d].value : -1;
}

/* Whether a dimension of a node's output has the size of a named one in every trial that knows it.
 */
static bool has_sizes_of(const struct prn_cut_shapes *s, const struct param *param, size_t index,
                         const struct prn_value *known, size_t d)
{
    size_t same = 0;
    if (known->dims[d].value != param->size)
        return false;
    for (size_t trial = 0; trial < TRIALS; trial++) {
        int64_t size = tried(s, trial, index, d);
        if (size >= 0 && size != other_size(trial, param->size, param->index))
            return false;
        same += size >= 0;
    }
    return same > 0;
}

/* A dimension of a node's output, from its size and what it became in the trials. */
static struct prn_dim open_dim(const struct prn_cut_shapes *s, size_t index,
                               const struct prn_value *known, size_t d)
{
    struct prn_dim dim = {.value = known->dims[d].value};
    size_t same = 0;
    if (s->n_open == 0)
        return dim;
    for (size_t trial = 0; trial < TRIALS; trial++) {
        int64_t size = tried(s, trial, index, d);
        same += size >= 0 && size == known->dims[d].value;
        if (size >= 0 && size != known->dims[d].value)
            dim.value = -1;
    }
    if (same == 0)
        dim.value = -1;
    for (size_t i = 0; dim.value < 0 && !dim.param && i < s->n_params; i++)
        if (has_sizes_of(s, &s->params[i], index, known, d))
            dim.param = s->params[i].name;
    return dim;
}

/* Whether a node's output has the same rank in every trial that knows it, and one does, where
 * dimensions are open at all. */
static bool is_ranked(const struct prn_cut_shapes *s, size_t index, const struct prn_value *known)
{
    size_t same = 0;
    for (size_t trial = 0; trial < TRIALS; trial++) {
        const struct prn_work *work = s->trials[trial];
        if (!work || !work->values[index].has_shape)
            continue;
        if (work->values[index].rank != known->rank)
            return false;
        same++;
    }
    return s->n_open == 0 || same > 0;
}

static bool set_output(const struct prn_cut_shapes *s, size_t id, struct prn_cut_tensor *t,
                       struct prn_dim *open, int64_t *dims)
{
    size_t index = id - s->g->first_output;
    const struct prn_value *known = &s->g->work->values[index];
    t->value.kind = (enum prn_value_kind)s->g->values[id].kind;
    t->value.dtype = known->dtype;
    bool ranked = known->has_shape;
    /* Sizes of 1 often can't work; then what a trial has is declared. */
    for (size_t trial = 0; !known->has_shape && trial < TRIALS; trial++)
        if (s->trials[trial])
            known = &s->trials[trial]->values[index];
    t->value.has_shape = known->has_shape && is_ranked(s, index, known);
    for (size_t i = 0; known->has_shape && i < known->rank; i++) {
        dims[i] = ranked ? known->dims[i].value : -1;
        if (t->value.has_shape)
            open[i] = open_dim(s, index, known, i);
    }
    t->value.rank = known->rank;
    return ranked;
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

static void cut_shape_measure(struct prn_cut_tensor *t)
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
    cut_shape_measure(t);
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
