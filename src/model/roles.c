/*
 * Roles are found in one pass over the nodes, last first: an operator that looks up rows bounds its
 * index operand by the size of its constant table, and operators that only move or convert elements
 * hand the bound of their output on to their input. What arrives at an input is its bound.
 */
#include "model/roles.h"

#include "base/map.h"

#include <string.h>

#define MICROSOFT "com.microsoft"
/* A table is found behind at most so many conversions. */
#define CONVERSIONS_MAX 16
#define NO_BOUND INT64_MAX

/* Operators that look rows up: which operand holds indices, into which, along which axis. */
static const struct lookup {
    const char *domain, *op_type;
    size_t index, table;
    const char *axis; /* attribute; NULL: always the first */
    bool any_axis;    /* an index tuple: each part is into another axis */
} lookups[] = {
    {"", "Gather", 1, 0, "axis", false},
    {"", "GatherElements", 1, 0, "axis", false},
    {"", "GatherND", 1, 0, NULL, true},
    {"", "RotaryEmbedding", 3, 1, NULL, false},
    {MICROSOFT, "EmbedLayerNormalization", 0, 2, NULL, false},
    {MICROSOFT, "EmbedLayerNormalization", 1, 4, NULL, false},
    {MICROSOFT, "EmbedLayerNormalization", 8, 3, NULL, false},
    {MICROSOFT, "GatherBlockQuantized", 1, 0, "gather_axis", false},
    {MICROSOFT, "RotaryEmbedding", 1, 2, NULL, false},
};

/* Operators of ONNX that move or convert elements of their first operand without changing them;
 * Concat those of all its operands. */
static const char *const movers[] = {"Cast",     "Concat",    "Expand",   "Flatten",
                                     "Identity", "Reshape",   "Slice",    "Squeeze",
                                     "Tile",     "Transpose", "Unsqueeze"};

struct roles {
    const struct prn_graph *graph;
    struct prn_map constants; /* name → index of the initialiser */
    struct prn_map producers; /* name → index of the node */
    struct prn_map bounds;    /* name → bound, where there is one */
};

static bool is_mover(const struct prn_node *node)
{
    if (*node->domain)
        return false;
    for (size_t i = 0; i < PRN_ARRAY_SIZE(movers); i++)
        if (strcmp(node->op_type, movers[i]) == 0)
            return true;
    return false;
}

static int64_t bound_of(const struct roles *r, const char *name)
{
    size_t bound = *name ? prn_map_get(&r->bounds, name) : PRN_MAP_NONE;
    return bound == PRN_MAP_NONE ? NO_BOUND : (int64_t)bound;
}

static int lower_bound(struct roles *r, const char *name, int64_t bound)
{
    if (!*name || bound >= bound_of(r, name))
        return 0;
    return prn_map_set(&r->bounds, name, (size_t)bound);
}

/* ---- The table behind a name ---- */

static const struct prn_constant *constant_of(const struct roles *r, const char *name,
                                              const struct prn_node **ret_producer)
{
    size_t at = prn_map_get(&r->constants, name);
    *ret_producer = NULL;
    if (!*name)
        return NULL;
    if (at != PRN_MAP_NONE)
        return &r->graph->constants[at];
    at = prn_map_get(&r->producers, name);
    if (at == PRN_MAP_NONE)
        return NULL;
    const struct prn_node *node = &r->graph->nodes[at];
    *ret_producer = node;
    if (*node->domain || strcmp(node->op_type, "Constant") != 0)
        return NULL;
    const struct prn_attribute *value = prn_node_attribute(node, "value");
    return value && value->kind == PRN_ATTRIBUTE_TENSOR ? value->tensor : NULL;
}

/* The axis of a Transpose's input that its output has at `axis`; -1 when that can't be told. */
static int64_t before_transpose(const struct prn_node *node, int64_t axis)
{
    const struct prn_attribute *perm = prn_node_attribute(node, "perm");
    if (!perm || perm->kind != PRN_ATTRIBUTE_INTS || axis < 0 || (size_t)axis >= perm->n)
        return -1;
    return perm->ints[axis];
}

static int64_t smallest(const int64_t *dims, size_t rank)
{
    int64_t least = NO_BOUND;
    for (size_t i = 0; i < rank; i++)
        least = dims[i] < least ? dims[i] : least;
    return least;
}

/* The size along `axis` of the constant behind a name, or along its shortest axis; NO_BOUND when
 * there is none. */
static int64_t table_size(const struct roles *r, const char *name, int64_t axis, bool any_axis)
{
    for (int step = 0; step < CONVERSIONS_MAX; step++) {
        const struct prn_node *node;
        const struct prn_constant *c = constant_of(r, name, &node);
        if (c && any_axis)
            return smallest(c->dims, c->rank);
        if (c) {
            if (axis < 0)
                axis += (int64_t)c->rank;
            return axis >= 0 && (uint64_t)axis < c->rank ? c->dims[axis] : NO_BOUND;
        }
        if (!node || *node->domain || node->n_inputs == 0)
            return NO_BOUND;
        if (strcmp(node->op_type, "Transpose") == 0) {
            axis = before_transpose(node, axis);
            if (axis < 0 && !any_axis)
                return NO_BOUND;
        } else if (strcmp(node->op_type, "Identity") != 0 && strcmp(node->op_type, "Cast") != 0 &&
                   strcmp(node->op_type, "DequantizeLinear") != 0) {
            return NO_BOUND;
        }
        name = node->inputs[0];
    }
    return NO_BOUND;
}

/* ---- The pass ---- */

static int visit_lookups(struct roles *r, const struct prn_node *node)
{
    for (size_t i = 0; i < PRN_ARRAY_SIZE(lookups); i++) {
        const struct lookup *l = &lookups[i];
        if (strcmp(node->op_type, l->op_type) != 0 || strcmp(node->domain, l->domain) != 0 ||
            l->index >= node->n_inputs || l->table >= node->n_inputs)
            continue;
        int64_t axis = l->axis ? prn_node_int(node, l->axis, 0) : 0;
        int64_t size = table_size(r, node->inputs[l->table], axis, l->any_axis);
        if (lower_bound(r, node->inputs[l->index], size) < 0)
            return PRONY_ENOMEM;
    }
    return 0;
}

static int visit_mover(struct roles *r, const struct prn_node *node)
{
    if (!is_mover(node) || node->n_outputs == 0)
        return 0;
    int64_t bound = bound_of(r, node->outputs[0]);
    size_t n = strcmp(node->op_type, "Concat") == 0 ? node->n_inputs : node->n_inputs > 0;
    for (size_t i = 0; i < n; i++)
        if (lower_bound(r, node->inputs[i], bound) < 0)
            return PRONY_ENOMEM;
    return 0;
}

static int build(struct roles *r)
{
    const struct prn_graph *g = r->graph;
    for (size_t i = 0; i < g->n_constants; i++)
        if (prn_map_set(&r->constants, g->constants[i].name, i) < 0)
            return PRONY_ENOMEM;
    for (size_t i = 0; i < g->n_nodes; i++)
        for (size_t o = 0; o < g->nodes[i].n_outputs; o++)
            if (prn_map_set(&r->producers, g->nodes[i].outputs[o], i) < 0)
                return PRONY_ENOMEM;
    for (size_t i = g->n_nodes; i-- > 0;)
        if (visit_lookups(r, &g->nodes[i]) < 0 || visit_mover(r, &g->nodes[i]) < 0)
            return PRONY_ENOMEM;
    return 0;
}

int prn_model_roles(const struct prn_model *model, struct prn_input *inputs,
                    struct prony_error *err)
{
    struct roles r = {.graph = &model->graph};
    int code = build(&r);
    for (size_t i = 0; i < model->n_inputs && code == 0; i++) {
        struct prn_input *input = &inputs[i];
        int64_t bound = bound_of(&r, input->name);
        if (prn_dtype_is_integer(input->dtype) && bound > 0 && bound != NO_BOUND) {
            input->role = PRN_INPUT_ROLE_INDEX;
            input->bound = bound;
        } else if (strcasestr(input->name, "mask")) {
            input->role = PRN_INPUT_ROLE_MASK;
        }
    }
    prn_map_release(&r.constants);
    prn_map_release(&r.producers);
    prn_map_release(&r.bounds);
    return code < 0 ? prn_fail_memory(err) : 0;
}
