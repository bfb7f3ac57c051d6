#include "measure/memory/live.h"

#include "base/map.h"

#include <stdlib.h>
#include <string.h>

#define ARENA_BYTES ((size_t)1 << 30)
#define NONE PRN_MAP_NONE

struct value {
    const char *name;
    int64_t bytes; /* 0: not known, or a view */
    size_t maker;
    size_t root; /* what a view looks at; itself otherwise */
    bool output; /* of the model */
};

struct node {
    const char *name;
    size_t n_inputs;
    size_t *inputs; /* values that nodes make */
};

struct prn_live {
    struct prn_arena arena;
    struct prn_map by_name; /* → value */
    struct value *values;
    struct node *nodes;
    size_t n_values, n_nodes;
    uint64_t weight_bytes;
};

static bool is_view(const char *op)
{
    static const char *const views[] = {"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity"};
    for (size_t i = 0; i < PRN_ARRAY_SIZE(views); i++)
        if (strcmp(views[i], op) == 0)
            return true;
    return false;
}

static int64_t size_of(const struct prn_value *v)
{
    int64_t dims[PRN_RANK_MAX];
    size_t bytes = 0;
    if (v->kind != PRN_VALUE_TENSOR || !v->has_shape || v->rank > PRN_RANK_MAX)
        return 0;
    for (size_t i = 0; i < v->rank; i++) {
        if (v->dims[i].value < 0)
            return 0;
        dims[i] = v->dims[i].value;
    }
    return prn_dtype_bytes(v->dtype, dims, v->rank, &bytes) < 0 || bytes > INT64_MAX
               ? 0
               : (int64_t)bytes;
}

static int add_value(struct prn_live *live, const struct prn_node *from, size_t maker,
                     const struct prn_value *value)
{
    size_t index = live->n_values;
    struct value *v = &live->values[live->n_values++];
    size_t source = is_view(from->op_type) && from->n_inputs > 0
                        ? prn_map_get(&live->by_name, from->inputs[0])
                        : NONE;
    *v = (struct value){.name = prn_arena_strdup(&live->arena, value->name),
                        .maker = maker,
                        .bytes = size_of(value),
                        .root = source != NONE ? live->values[source].root : index};
    if (source != NONE || strcmp(from->op_type, "Constant") == 0)
        v->bytes = 0;
    return !v->name          ? PRONY_ENOMEM
           : v->name[0] == 0 ? 0
                             : prn_map_set(&live->by_name, v->name, index);
}

static int live_add_node(struct prn_live *live, const struct prn_node *from, size_t index,
                         const struct prn_value *values)
{
    struct node *node = &live->nodes[index];
    node->name = prn_arena_strdup(&live->arena, from->name[0] ? from->name : from->op_type);
    node->inputs = PRN_ARENA_ARRAY(&live->arena, from->n_inputs + 1, size_t);
    int code = node->name && node->inputs ? 0 : PRONY_ENOMEM;
    for (size_t i = 0; code == 0 && i < from->n_inputs; i++) {
        size_t value = prn_map_get(&live->by_name, from->inputs[i]);
        if (value != NONE)
            node->inputs[node->n_inputs++] = value;
    }
    for (size_t i = 0; code == 0 && i < from->n_outputs; i++)
        code = add_value(live, from, index, &values[i]);
    return code;
}

int prn_live_new(const struct prn_model *model, const struct prn_work *work,
                 struct prn_live **ret_live, struct prony_error *err)
{
    struct prn_live *live = calloc(1, sizeof *live);
    if (!live)
        return prn_fail_memory(err);
    live->arena = PRN_ARENA_INIT(ARENA_BYTES);
    live->by_name = PRN_MAP_INIT;
    live->n_nodes = work->n_nodes;
    live->weight_bytes = model->parameter_bytes;
    live->nodes = PRN_ARENA_ARRAY(&live->arena, work->n_nodes + 1, struct node);
    live->values = PRN_ARENA_ARRAY(&live->arena, work->n_values + 1, struct value);
    int code = live->nodes && live->values ? 0 : PRONY_ENOMEM;
    for (size_t i = 0, at = 0; code == 0 && i < work->n_nodes; i++) {
        const struct prn_node *node = work->nodes[i].node;
        code = live_add_node(live, node, i, &work->values[at]);
        at += node->n_outputs;
    }
    for (size_t i = 0; code == 0 && i < model->graph.n_outputs; i++) {
        size_t value = prn_map_get(&live->by_name, model->graph.outputs[i].name);
        if (value != NONE)
            live->values[live->values[value].root].output = true;
    }
    if (code < 0) {
        prn_live_free(live);
        return prn_fail_memory(err);
    }
    *ret_live = live;
    return 0;
}

void prn_live_free(struct prn_live *live)
{
    if (!live)
        return;
    prn_map_release(&live->by_name);
    prn_arena_release(&live->arena);
    free(live);
}

size_t prn_live_nodes(const struct prn_live *live)
{
    return live->n_nodes;
}

uint64_t prn_live_weight_bytes(const struct prn_live *live)
{
    return live->weight_bytes;
}

/* Nodes stand behind those that they need, so one pass is enough. */
static void fill_when(const struct prn_live *live, int64_t *when)
{
    for (size_t i = 0; i < live->n_nodes; i++) {
        const struct node *node = &live->nodes[i];
        bool ran = when[i] >= 0;
        for (size_t k = 0; !ran && k < node->n_inputs; k++) {
            int64_t made = when[live->values[node->inputs[k]].maker];
            when[i] = made > when[i] ? made : when[i];
        }
    }
}

static int by_size(const void *a, const void *b)
{
    const struct prn_memory_tensor *x = a;
    const struct prn_memory_tensor *y = b;
    return x->bytes != y->bytes ? (x->bytes < y->bytes) - (x->bytes > y->bytes)
                                : strcmp(x->name, y->name);
}

int prn_live_at(const struct prn_live *live, int64_t *when, int64_t at, struct prn_arena *arena,
                struct prn_memory_tensor **ret_tensors, size_t *ret_n, struct prony_error *err)
{
    struct prn_memory_tensor *tensors =
        PRN_ARENA_ARRAY(arena, live->n_values + 1, struct prn_memory_tensor);
    size_t *last = calloc(live->n_values + 1, sizeof *last); /* 1 + the node that reads it last */
    size_t n = 0;
    bool kept = tensors && last;
    if (kept)
        fill_when(live, when);
    for (size_t i = 0; kept && i < live->n_nodes; i++)
        for (size_t k = 0; k < live->nodes[i].n_inputs; k++) {
            size_t root = live->values[live->nodes[i].inputs[k]].root;
            if (last[root] == 0 || when[i] >= when[last[root] - 1])
                last[root] = i + 1;
        }
    for (size_t i = 0; kept && i < live->n_values; i++) {
        const struct value *v = &live->values[i];
        int64_t made = when[v->maker];
        int64_t read = v->output ? INT64_MAX : last[i] ? when[last[i] - 1] : -1;
        if (v->bytes == 0 || made < 0 || made > at || read < at || read == made)
            continue;
        struct prn_memory_tensor *t = &tensors[n++];
        t->bytes = v->bytes;
        t->name = prn_arena_strdup(arena, v->name);
        t->made_by = prn_arena_strdup(arena, live->nodes[v->maker].name);
        t->last_read_by = v->output ? NULL : prn_arena_strdup(arena, live->nodes[last[i] - 1].name);
        kept = t->name && t->made_by && (v->output || t->last_read_by);
    }
    free(last);
    if (!kept)
        return prn_fail_memory(err);
    qsort(tensors, n, sizeof *tensors, by_size);
    *ret_tensors = tensors;
    *ret_n = n;
    return 0;
}
