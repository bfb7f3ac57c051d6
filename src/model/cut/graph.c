/*
 * Who reads what: the tensors of the top-level graph by number, the nodes with what they and the
 * graphs inside them read, and which nodes have weights, are computed again, or are needed at all.
 */
#include "model/cut/parts.h"

#include "base/array.h"

#include <stdlib.h>
#include <string.h>

/* ---- Tensors ---- */

static int define(struct prn_cut_graph *g, size_t id, const char *name)
{
    g->values[id].name = name;
    g->values[id].source = id;
    g->values[id].kind = PRN_VALUE_TENSOR;
    return *name && prn_map_set(&g->by_name, name, id) < 0 ? prn_fail_memory(g->err) : 0;
}

static void set_bytes(struct prn_cut_value *value, int dtype, const int64_t *dims, size_t rank)
{
    size_t bytes;
    value->passable = dtype != PRN_DTYPE_UNDEFINED;
    value->sized = prn_dtype_bytes(dtype, dims, rank, &bytes) == 0;
    if (value->sized)
        value->bytes = bytes < PRN_CUT_VALUE_MAX ? bytes : PRN_CUT_VALUE_MAX;
    value->carried = value->sized ? value->bytes : PRN_CUT_VALUE_MAX;
}

/* What inference knows of a node's output. */
static void set_inferred(struct prn_cut_value *value, const struct prn_value *known)
{
    int64_t dims[PRN_RANK_MAX];
    bool complete = known->has_shape && known->rank <= PRN_RANK_MAX;
    for (size_t i = 0; complete && i < known->rank; i++) {
        dims[i] = known->dims[i].value;
        complete = dims[i] >= 0;
    }
    value->kind = (uint8_t)known->kind;
    value->carried = PRN_CUT_VALUE_MAX;
    value->passable = known->kind == PRN_VALUE_TENSOR && known->dtype != PRN_DTYPE_UNDEFINED;
    if (value->passable && complete)
        set_bytes(value, known->dtype, dims, known->rank);
}

/* A declaration can say that a value is no tensor where inference doesn't know the operator. */
static void bar_declared(struct prn_cut_graph *g, const struct prn_value *declared, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t id = prn_map_get(&g->by_name, declared[i].name);
        if (declared[i].kind == PRN_VALUE_TENSOR || declared[i].kind == PRN_VALUE_UNKNOWN ||
            id == PRN_MAP_NONE)
            continue;
        g->values[id].kind = (uint8_t)declared[i].kind;
        g->values[id].passable = false;
    }
}

static int define_outputs(struct prn_cut_graph *g)
{
    const struct prn_graph *graph = &g->model->graph;
    size_t id = g->first_output;
    for (size_t i = 0; i < graph->n_nodes; i++) {
        g->nodes[i].outputs = id;
        for (size_t o = 0; o < graph->nodes[i].n_outputs; o++, id++) {
            if (define(g, id, graph->nodes[i].outputs[o]) < 0)
                return PRONY_ENOMEM;
            g->values[id].node = i;
            set_inferred(&g->values[id], &g->work->values[id - g->first_output]);
        }
    }
    return 0;
}

static int define_values(struct prn_cut_graph *g)
{
    const struct prn_graph *graph = &g->model->graph;
    int code = 0;
    for (size_t i = 0; i < graph->n_constants && code == 0; i++) {
        const struct prn_constant *c = &graph->constants[i];
        g->values[i] = (struct prn_cut_value){.node = PRN_CUT_NONE, .constant = true};
        code = define(g, i, c->name);
        set_bytes(&g->values[i], c->dtype, c->dims, c->rank);
    }
    for (size_t i = 0; i < g->model->n_inputs && code == 0; i++) {
        const struct prn_input *in = &g->inputs[i];
        struct prn_cut_value *value = &g->values[g->first_input + i];
        *value = (struct prn_cut_value){.node = PRN_CUT_NONE};
        code = define(g, g->first_input + i, in->name);
        set_bytes(value, in->dtype, in->dims, in->rank);
        value->derived = in->dtype == PRN_DTYPE_INT32 || in->dtype == PRN_DTYPE_INT64 ||
                         in->dtype == PRN_DTYPE_BOOL;
    }
    if (code == 0)
        code = define_outputs(g);
    if (code < 0)
        return code;
    bar_declared(g, graph->values, graph->n_values);
    bar_declared(g, graph->outputs, graph->n_outputs);
    for (size_t i = 0; i < graph->n_outputs; i++) {
        size_t id = prn_map_get(&g->by_name, graph->outputs[i].name);
        if (id != PRN_MAP_NONE)
            g->values[id].result = true;
    }
    return 0;
}

/* ---- What nodes read ---- */

/* Names of one graph inside a node; `outer` is the one around it, NULL at the top. */
struct scope {
    struct prn_map names;
    const struct scope *outer;
};

struct reader {
    struct prn_cut_graph *g;
    struct prn_cut_node *node;
    size_t *seen_by; /* by id: the last node that read it, + 1 */
    size_t index;    /* of the node */
};

static int add_read(struct reader *r, const struct scope *scope, const char *name)
{
    for (; scope; scope = scope->outer)
        if (prn_map_get(&scope->names, name) != PRN_MAP_NONE)
            return 0;
    size_t id = *name ? prn_map_get(&r->g->by_name, name) : PRN_MAP_NONE;
    if (id == PRN_MAP_NONE || r->seen_by[id] == r->index + 1)
        return 0;
    r->seen_by[id] = r->index + 1;
    size_t *reads = prn_array_grow(r->g->reads, r->g->n_reads, sizeof *reads);
    if (!reads)
        return prn_fail_memory(r->g->err);
    r->g->reads = reads;
    reads[r->g->n_reads++] = id;
    r->node->n_reads++;
    return 0;
}

/* Small constants are parameters of operators; these are weights. */
static bool is_weight(int dtype, int64_t elements)
{
    int bits = prn_dtype_bits(dtype);
    bool wide_integer = prn_dtype_is_integer(dtype) && bits > 16;
    return elements > 1 && bits > 0 && dtype != PRN_DTYPE_BOOL && !wide_integer;
}

static int name_body(struct scope *scope, const struct prn_graph *graph)
{
    int code = 0;
    for (size_t i = 0; i < graph->n_inputs && code == 0; i++)
        code = prn_map_set(&scope->names, graph->inputs[i].name, 0);
    for (size_t i = 0; i < graph->n_constants && code == 0; i++)
        code = prn_map_set(&scope->names, graph->constants[i].name, 0);
    for (size_t i = 0; i < graph->n_nodes && code == 0; i++)
        for (size_t o = 0; o < graph->nodes[i].n_outputs && code == 0; o++)
            code = prn_map_set(&scope->names, graph->nodes[i].outputs[o], 0);
    return code;
}

static void count_own(struct reader *r, const struct prn_constant *c)
{
    if (prn_constant_is_weight(c))
        r->node->own_parameters += (uint64_t)c->elements;
    r->node->own_bytes += c->bytes;
}

static void count_body(struct reader *r, const struct prn_graph *graph)
{
    for (size_t i = 0; i < graph->n_constants; i++) {
        const struct prn_constant *c = &graph->constants[i];
        count_own(r, c);
        r->node->weighted = r->node->weighted || is_weight(c->dtype, c->elements);
    }
}

static int read_node(struct reader *r, const struct scope *scope, const struct prn_node *node);

/* What a graph inside a node takes from around it. Depth is limited by the model's reader. */
static int read_body(struct reader *r, const struct scope *outer, const struct prn_graph *graph)
{
    struct scope scope = {.outer = outer};
    int code = name_body(&scope, graph) < 0 ? prn_fail_memory(r->g->err) : 0;
    if (code == 0)
        count_body(r, graph);
    for (size_t i = 0; i < graph->n_nodes && code == 0; i++)
        code = read_node(r, &scope, &graph->nodes[i]);
    for (size_t i = 0; i < graph->n_outputs && code == 0; i++)
        code = add_read(r, &scope, graph->outputs[i].name);
    prn_map_release(&scope.names);
    return code;
}

static int read_node(struct reader *r, const struct scope *scope, const struct prn_node *node)
{
    int code = 0;
    const struct prn_constant *constant = prn_node_constant(node);
    if (constant) {
        count_own(r, constant);
        r->node->weighted =
            r->node->weighted || (scope && is_weight(constant->dtype, constant->elements));
    }
    for (size_t i = 0; i < node->n_inputs && code == 0; i++)
        code = add_read(r, scope, node->inputs[i]);
    for (size_t a = 0; a < node->n_attributes && code == 0; a++)
        for (size_t k = 0; node->attributes[a].graphs && k < node->attributes[a].n && code == 0;
             k++)
            code = read_body(r, scope, node->attributes[a].graphs[k]);
    return code;
}

/* ---- What nodes are ---- */

/* Operators that add, scale, normalise or move what they are given: a constant among that doesn't
 * make them the matrix, the convolution or the table that a layer is built around. Sorted. */
static const char *const passive_operators[] = {
    "Add",
    "And",
    "BatchNormalization",
    "BiasAdd",
    "BiasGelu",
    "Clip",
    "Concat",
    "Constant",
    "DequantizeLinear",
    "Div",
    "Expand",
    "FastGelu",
    "GroupNorm",
    "GroupNormalization",
    "Identity",
    "InstanceNormalization",
    "LayerNormalization",
    "Max",
    "Mean",
    "Min",
    "Mod",
    "Mul",
    "PRelu",
    "Pad",
    "Pow",
    "QuantizeLinear",
    "RMSNormalization",
    "Reshape",
    "Resize",
    "RotaryEmbedding",
    "SimplifiedLayerNormalization",
    "SkipLayerNormalization",
    "SkipSimplifiedLayerNormalization",
    "Slice",
    "Split",
    "Squeeze",
    "Sub",
    "Sum",
    "Tile",
    "Transpose",
    "Unsqueeze",
    "Upsample",
    "Where",
};

static int by_text(const void *key, const void *item)
{
    return strcmp(key, *(const char *const *)item);
}

static bool is_passive(const struct prn_node *node)
{
    return bsearch(node->op_type, passive_operators, PRN_ARRAY_SIZE(passive_operators),
                   sizeof passive_operators[0], by_text) != NULL;
}

/* Whether a node may run several times, in several layers, with the same result. */
static bool is_repeatable(const struct prn_node *node)
{
    if (*node->domain || strncmp(node->op_type, "Random", 6) == 0 ||
        strcmp(node->op_type, "Bernoulli") == 0 || strcmp(node->op_type, "Multinomial") == 0 ||
        strcmp(node->op_type, "Dropout") == 0)
        return false;
    for (size_t i = 0; i < node->n_attributes; i++)
        if (node->attributes[i].graphs)
            return false;
    return true;
}

static bool reads_weight(const struct prn_cut_graph *g, size_t id)
{
    const struct prn_graph *graph = &g->model->graph;
    if (!g->values[id].constant)
        return false;
    if (id < graph->n_constants)
        return is_weight(graph->constants[id].dtype, graph->constants[id].elements);
    const struct prn_value *known = &g->work->values[id - g->first_output];
    return is_weight(known->dtype, g->values[id].sized && g->values[id].bytes <= 8 ? 1 : 2);
}

/* Of the tensors that a node reads: whether all are constant, all derived, and how many bytes must
 * pass a cut for all of them to be had behind it. */
struct sum {
    bool constant, derived;
    uint64_t carried;
    size_t n_data; /* that aren't constant */
    size_t data;   /* the first of those */
};

static struct sum sum_reads(struct prn_cut_graph *g, struct prn_cut_node *node, bool passive)
{
    struct sum sum = {.constant = true, .derived = true, .data = PRN_CUT_NONE};
    for (size_t i = 0; i < node->n_reads; i++) {
        size_t id = g->reads[node->reads + i];
        const struct prn_cut_value *value = &g->values[id];
        node->weighted = node->weighted || (!passive && reads_weight(g, id));
        if (value->constant)
            continue;
        sum.constant = false;
        sum.derived = sum.derived && value->derived;
        sum.carried += value->carried;
        if (sum.n_data++ == 0)
            sum.data = id;
    }
    return sum;
}

/* The shape of an input is derived from nothing but its size. */
static bool takes_shape(const struct prn_cut_graph *g, const struct prn_node *node, size_t data)
{
    return (strcmp(node->op_type, "Shape") == 0 || strcmp(node->op_type, "Size") == 0) &&
           !*node->domain && data != PRN_CUT_NONE && g->values[data].node == PRN_CUT_NONE;
}

static void classify(struct prn_cut_graph *g, size_t index)
{
    const struct prn_node *node = &g->model->graph.nodes[index];
    struct prn_cut_node *own = &g->nodes[index];
    struct sum sum = sum_reads(g, own, is_passive(node));
    own->source = sum.data == PRN_CUT_NONE ? PRN_CUT_NONE : g->values[sum.data].source;
    bool repeatable = is_repeatable(node);
    bool constant = sum.constant && repeatable;
    /* Nothing is a weight to a node that reads nothing else. */
    own->weighted = own->weighted && !constant;
    bool derived = sum.derived && repeatable && !own->weighted;
    uint64_t made = 0;
    bool sized = true;
    bool result = false;
    for (size_t o = 0; o < node->n_outputs; o++) {
        const struct prn_cut_value *value = &g->values[own->outputs + o];
        made += value->bytes;
        sized = sized && (value->sized || !*value->name);
        result = result || value->result;
    }
    own->recomputed = !result && (constant || (derived && sized && sum.carried < made));
    for (size_t o = 0; o < node->n_outputs; o++) {
        struct prn_cut_value *value = &g->values[own->outputs + o];
        value->constant = constant && own->recomputed;
        value->derived = derived || takes_shape(g, node, sum.data);
        if (own->recomputed)
            value->carried = sum.carried;
        if (!own->weighted && sum.n_data == 1)
            value->source = own->source;
    }
}

static int by_id(const void *a, const void *b)
{
    const size_t *x = a;
    const size_t *y = b;
    return *x < *y ? -1 : *x > *y;
}

static int read_nodes(struct prn_cut_graph *g)
{
    const struct prn_graph *graph = &g->model->graph;
    struct reader r = {.g = g, .seen_by = PRN_ARENA_ARRAY(g->arena, g->n_values + 1, size_t)};
    int code = r.seen_by ? 0 : prn_fail_memory(g->err);
    for (size_t i = 0; i < graph->n_nodes && code == 0; i++) {
        r.index = i;
        r.node = &g->nodes[i];
        r.node->reads = g->n_reads;
        code = read_node(&r, NULL, &graph->nodes[i]);
        if (code < 0)
            break;
        classify(g, i);
        if (r.node->n_reads > 1)
            qsort(g->reads + r.node->reads, r.node->n_reads, sizeof *g->reads, by_id);
    }
    return code;
}

/* Backwards from the model's outputs; the graph's order is topological. */
static void mark_needed(struct prn_cut_graph *g)
{
    const struct prn_graph *graph = &g->model->graph;
    for (size_t id = g->first_output; id < g->n_values; id++)
        if (g->values[id].result)
            g->nodes[g->values[id].node].needed = true;
    for (size_t i = graph->n_nodes; i-- > 0;)
        for (size_t k = 0; g->nodes[i].needed && k < g->nodes[i].n_reads; k++) {
            size_t made_by = g->values[g->reads[g->nodes[i].reads + k]].node;
            if (made_by != PRN_CUT_NONE)
                g->nodes[made_by].needed = true;
        }
}

int prn_cut_graph_build(struct prn_cut_graph *g)
{
    const struct prn_graph *graph = &g->model->graph;
    g->first_input = graph->n_constants;
    g->first_output = g->first_input + g->model->n_inputs;
    g->n_values = g->first_output + g->work->n_values;
    g->values = PRN_ARENA_ARRAY(g->arena, g->n_values + 1, struct prn_cut_value);
    g->nodes = PRN_ARENA_ARRAY(g->arena, graph->n_nodes + 1, struct prn_cut_node);
    if (!g->values || !g->nodes)
        return prn_fail_memory(g->err);
    int code = define_values(g);
    if (code == 0)
        code = read_nodes(g);
    if (code == 0)
        mark_needed(g);
    return code;
}

void prn_cut_graph_release(struct prn_cut_graph *g)
{
    prn_map_release(&g->by_name);
    free(g->reads);
}
