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

/* ---- Lengths ---- */

static bool ends_with(const char *text, const char *end)
{
    size_t len = strlen(text);
    size_t own = strlen(end);
    return len >= own && strcasecmp(text + len - own, end) == 0;
}

/* "x_lengths", "input_len", but not "max_length". */
static bool is_length_name(const char *name)
{
    return !strcasestr(name, "max") && !strcasestr(name, "min") &&
           (ends_with(name, "length") || ends_with(name, "lengths") || ends_with(name, "_len") ||
            ends_with(name, "_lens"));
}

/* Whose length it is: the input whose name it begins with, or the first that has one. */
static size_t measured_input(const struct prn_model *model, const struct prn_input *inputs,
                             const char *name)
{
    size_t found = model->n_inputs;
    size_t longest = 0;
    for (size_t i = 0; i < model->n_inputs; i++) {
        size_t len = strlen(inputs[i].name);
        if (inputs[i].rank < 2)
            continue;
        if (found == model->n_inputs)
            found = i;
        if (len > longest && strncmp(inputs[i].name, name, len) == 0) {
            found = i;
            longest = len;
        }
    }
    return found;
}

/* The dimension that a length measures: the last open one after the batch, or the second. */
static size_t measured_dim(const struct prn_value *value)
{
    size_t dim = 1;
    for (size_t i = 1; value->has_shape && i < value->rank; i++)
        if (value->dims[i].value < 0)
            dim = i;
    return dim;
}

static void find_length(const struct prn_model *model, struct prn_input *inputs, size_t index)
{
    struct prn_input *input = &inputs[index];
    if (!prn_dtype_is_integer(input->dtype) || input->rank > 1 || !is_length_name(input->name))
        return;
    size_t of = measured_input(model, inputs, input->name);
    if (of == model->n_inputs)
        return;
    size_t dim = measured_dim(model->inputs[of]);
    input->role = PRN_INPUT_ROLE_LENGTH;
    input->length_of = of;
    input->length_dim = dim < inputs[of].rank ? dim : inputs[of].rank - 1;
    input->bound = inputs[of].dims[input->length_dim];
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
        } else {
            find_length(model, inputs, i);
        }
    }
    prn_map_release(&r.constants);
    prn_map_release(&r.producers);
    prn_map_release(&r.bounds);
    return code < 0 ? prn_fail_memory(err) : 0;
}

/* ---- The batch ---- */

/* What a dimension's name says of being the batch. */
enum batch_name { BATCH_NAME_NO, BATCH_NAME_SILENT, BATCH_NAME_YES };

/* Names that exporters make up where they know none: "s0", "unk__7", "x_dim_0",
 * "p2o.DynamicDimension.0", "dynamic_axes_1". */
static bool is_made_up(const char *name)
{
    size_t letters = strcspn(name, "0123456789");
    size_t digits = strspn(name + letters, "0123456789");
    bool numbered = letters == 1 && digits > 0 && !name[letters + digits];
    return numbered || strncmp(name, "unk", 3) == 0 || strcasestr(name, "dim_") ||
           strcasestr(name, "dynamic");
}

static enum batch_name batch_name_of(const struct prn_dim *dim)
{
    static const char *const short_names[] = {"n", "b", "bs", "bsz"};
    if (dim->value >= 0 || !dim->param)
        return BATCH_NAME_SILENT;
    if (strcasestr(dim->param, "batch"))
        return BATCH_NAME_YES;
    for (size_t i = 0; i < PRN_ARRAY_SIZE(short_names); i++)
        if (strcasecmp(dim->param, short_names[i]) == 0)
            return BATCH_NAME_YES;
    return is_made_up(dim->param) ? BATCH_NAME_SILENT : BATCH_NAME_NO;
}

/* Whether the declared dimension can be the one of the first input, which has this size. */
static bool may_equal(const struct prn_dim *dim, const struct prn_dim *first, int64_t size)
{
    if (dim->value >= 0)
        return dim->value == size;
    return !dim->param || !first->param || is_made_up(dim->param) || is_made_up(first->param) ||
           strcmp(dim->param, first->param) == 0;
}

/* Scalars, and single values that stand for all items, have no share in a batch. */
static bool is_apart(const struct prn_input *input)
{
    int64_t elements = 1;
    for (size_t i = 0; i < input->rank; i++)
        elements *= input->dims[i] == 1;
    return elements == 1;
}

int64_t prn_model_batch(const struct prn_model *model, const struct prn_input *inputs)
{
    const struct prn_graph *graph = &model->graph;
    if (model->n_inputs == 0 || inputs[0].rank == 0 || !model->inputs[0]->has_shape ||
        model->inputs[0]->rank != inputs[0].rank)
        return 1;
    const struct prn_dim *first = &model->inputs[0]->dims[0];
    const int64_t size = inputs[0].dims[0];
    const enum batch_name says = batch_name_of(first);
    /* A vector is a batch only by name. */
    if (says == BATCH_NAME_NO || (says == BATCH_NAME_SILENT && inputs[0].rank < 2))
        return 1;
    for (size_t i = 1; i < model->n_inputs; i++)
        if (!is_apart(&inputs[i]) && inputs[i].dims[0] != size)
            return 1;
    for (size_t i = 0; i < graph->n_outputs; i++) {
        const struct prn_value *output = &graph->outputs[i];
        if (output->has_shape && (output->rank == 0 || !may_equal(&output->dims[0], first, size)))
            return 1;
    }
    return size;
}

/* ---- Precision ---- */

bool prn_model_quantised(const struct prn_model *model)
{
    static const char *const words[] = {"Quantize", "QLinear",    "Integer",
                                        "QGemm",    "QAttention", "NBits"};
    const struct prn_graph *graph = &model->graph;
    for (size_t i = 0; i < graph->n_nodes; i++)
        for (size_t k = 0; k < PRN_ARRAY_SIZE(words); k++)
            if (strstr(graph->nodes[i].op_type, words[k]))
                return true;
    return false;
}
