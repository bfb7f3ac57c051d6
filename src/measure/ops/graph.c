#include "measure/ops/graph.h"

#include "base/map.h"
#include "measure/machine/machine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ARENA_BYTES ((size_t)1 << 30)
/* Nodes from a fused node's last to its main one: normalisation, scale, shift, activation. */
#define CHAIN_MAX 8
#define NONE PRN_MAP_NONE

struct node {
    const char *name, *op;
    double flops, bytes, weight_bytes;
    const char *precision;
    size_t source; /* the node that gives its only input that isn't constant; NONE: no such */
};

struct prn_ops_graph {
    struct prn_arena arena;
    struct node *nodes;
    size_t n;
    /* Nodes by the number that a runtime gives to those without a name: constants have none. */
    size_t *numbered;
    size_t n_numbered;
    struct prn_map by_name;  /* → node, or `n` when several have that name */
    struct prn_map by_value; /* → the node that gives it */
};

/* What optimisers call the node that they make of one, or of the one that gives a value. */
static const struct form {
    const char *prefix, *suffix;
    bool of_value;
    bool same_work; /* it does that node's work once, and little besides */
} forms[] = {
    {"fused ", "", false, true},
    {"", "/MatMulAddFusion", false, true},
    {"", "/MatMulScaleFusion/", false, true},
    {"", "/GatherSliceToSplitFusion", false, false},
    {"", "_new_reshape", false, false},
    {"", "_nchwc", true, true},
};

/* What runtimes call operators of ONNX. */
static const struct {
    const char *runtime, *onnx;
} meanings[] = {
    {"FullyConnected", "MatMul"}, {"FullyConnected", "Gemm"},         {"Convolution", "Conv"},
    {"GroupConvolution", "Conv"}, {"Deconvolution", "ConvTranspose"},
};

static bool means(const char *op, const char *onnx_op)
{
    bool same = strcmp(op, onnx_op) == 0;
    for (size_t i = 0; !same && i < PRN_ARRAY_SIZE(meanings); i++)
        same = strcmp(meanings[i].runtime, op) == 0 && strcmp(meanings[i].onnx, onnx_op) == 0;
    return same;
}

const char *prn_ops_onnx_operator(const char *op)
{
    const char *found = NULL;
    for (size_t i = 0; i < PRN_ARRAY_SIZE(meanings); i++) {
        if (strcmp(meanings[i].runtime, op) != 0)
            continue;
        if (found)
            return op;
        found = meanings[i].onnx;
    }
    return found ? found : op;
}

/* ---- Making ---- */

static bool is_constant(const struct prn_node *node)
{
    return strcmp(node->op_type, "Constant") == 0;
}

static int add_node(struct prn_ops_graph *g, const struct prn_node_work *work, size_t index)
{
    const struct prn_node *from = work->node;
    struct node *node = &g->nodes[index];
    node->name = prn_arena_strdup(&g->arena, from->name);
    node->op = prn_arena_strdup(&g->arena, from->op_type);
    node->flops = work->counted ? work->flops : NAN;
    node->bytes = work->counted ? work->bytes : NAN;
    node->source = NONE;
    if (!node->name || !node->op)
        return PRONY_ENOMEM;
    if (!is_constant(from))
        g->numbered[g->n_numbered++] = index;
    int code = 0;
    if (node->name[0]) {
        bool taken = prn_map_get(&g->by_name, node->name) != NONE;
        code = prn_map_set(&g->by_name, node->name, taken ? g->n : index);
    }
    for (size_t i = 0; code == 0 && i < from->n_outputs; i++) {
        const char *value = prn_arena_strdup(&g->arena, from->outputs[i]);
        code = value ? prn_map_set(&g->by_value, value, index) : PRONY_ENOMEM;
    }
    return code;
}

/* Operators on integers are named for it. */
static const char *precision_of(const struct prn_node *node, const struct prn_value *output)
{
    if (strstr(node->op_type, "Integer") || strncmp(node->op_type, "QLinear", 7) == 0)
        return PRN_MACHINE_INT8;
    if (!output || output->kind != PRN_VALUE_TENSOR)
        return NULL;
    return output->dtype == PRONY_DTYPE_FLOAT      ? PRN_MACHINE_FLOAT32
           : output->dtype == PRONY_DTYPE_BFLOAT16 ? PRN_MACHINE_BFLOAT16
                                                   : NULL;
}

static void find_source(struct prn_ops_graph *g, const struct prn_model *model,
                        const struct prn_node *from, const struct prn_map *constants,
                        struct node *node)
{
    size_t varying = 0;
    for (size_t i = 0; i < from->n_inputs; i++) {
        const char *input = from->inputs[i];
        size_t giver = prn_map_get(&g->by_value, input);
        size_t weight = prn_map_get(constants, input);
        if (giver == NONE && weight != NONE)
            node->weight_bytes += (double)model->graph.constants[weight].bytes;
        bool constant =
            giver == NONE ? weight != NONE : strcmp(g->nodes[giver].op, "Constant") == 0;
        if (input[0] == '\0' || constant)
            continue;
        varying++;
        node->source = giver;
    }
    if (varying != 1)
        node->source = NONE;
}

static int fill(struct prn_ops_graph *g, const struct prn_model *model, const struct prn_work *work)
{
    g->n = work->n_nodes;
    g->nodes = PRN_ARENA_ARRAY(&g->arena, g->n + 1, struct node);
    g->numbered = PRN_ARENA_ARRAY(&g->arena, g->n + 1, size_t);
    int code = g->nodes && g->numbered ? 0 : PRONY_ENOMEM;
    for (size_t i = 0; code == 0 && i < g->n; i++)
        code = add_node(g, &work->nodes[i], i);
    struct prn_map constants = PRN_MAP_INIT;
    for (size_t i = 0; code == 0 && i < model->graph.n_constants; i++)
        code = prn_map_set(&constants, model->graph.constants[i].name, i);
    size_t value = 0;
    for (size_t i = 0; code == 0 && i < g->n; i++) {
        const struct prn_node *from = work->nodes[i].node;
        const struct prn_value *output = value < work->n_values ? &work->values[value] : NULL;
        g->nodes[i].precision = precision_of(from, from->n_outputs > 0 ? output : NULL);
        value += from->n_outputs;
        find_source(g, model, from, &constants, &g->nodes[i]);
    }
    prn_map_release(&constants);
    return code;
}

int prn_ops_graph_new(const struct prn_model *model, const struct prn_work *work,
                      struct prn_ops_graph **ret_graph, struct prony_error *err)
{
    struct prn_ops_graph *g = calloc(1, sizeof *g);
    if (!g)
        return prn_fail_memory(err);
    g->arena = PRN_ARENA_INIT(ARENA_BYTES);
    if (fill(g, model, work) < 0) {
        prn_ops_graph_free(g);
        return prn_fail_memory(err);
    }
    *ret_graph = g;
    return 0;
}

void prn_ops_graph_free(struct prn_ops_graph *g)
{
    if (!g)
        return;
    prn_map_release(&g->by_name);
    prn_map_release(&g->by_value);
    prn_arena_release(&g->arena);
    free(g);
}

/* ---- Describing ---- */

/* Bytes of a value; -1 when its type or a size isn't known. */
static int64_t value_bytes(const struct prn_value *value)
{
    int64_t dims[PRN_RANK_MAX];
    size_t bytes;
    if (value->kind != PRN_VALUE_TENSOR || !value->has_shape || value->rank > PRN_RANK_MAX)
        return -1;
    for (size_t i = 0; i < value->rank; i++)
        dims[i] = value->dims[i].value;
    return prn_dtype_bytes(value->dtype, dims, value->rank, &bytes) == 0 ? (int64_t)bytes : -1;
}

static int describe_node(const struct prn_model *model, const struct prn_node *from,
                         const struct prn_map *givers, const struct prn_map *constants,
                         struct prn_arena *arena, struct prn_profile_node *node)
{
    node->name = prn_arena_strdup(arena, from->name);
    node->op = prn_arena_strdup(arena, from->op_type);
    node->inputs = PRN_ARENA_ARRAY(arena, from->n_inputs, int64_t);
    if (!node->name || !node->op || !node->inputs)
        return PRONY_ENOMEM;
    for (size_t i = 0; i < from->n_inputs; i++) {
        size_t giver = prn_map_get(givers, from->inputs[i]);
        size_t constant = prn_map_get(constants, from->inputs[i]);
        size_t known = 0;
        if (giver == NONE && constant != NONE)
            node->weight_bytes += (int64_t)model->graph.constants[constant].bytes;
        while (giver != NONE && known < node->n_inputs && node->inputs[known] != (int64_t)giver)
            known++;
        if (giver != NONE && known == node->n_inputs)
            node->inputs[node->n_inputs++] = (int64_t)giver;
    }
    return 0;
}

static int describe(const struct prn_model *model, const struct prn_work *work,
                    struct prn_arena *arena, struct prn_profile_node *nodes)
{
    struct prn_map givers = PRN_MAP_INIT;
    struct prn_map constants = PRN_MAP_INIT;
    size_t value = 0;
    int code = 0;
    for (size_t i = 0; code == 0 && i < model->graph.n_constants; i++)
        code = prn_map_set(&constants, model->graph.constants[i].name, i);
    for (size_t i = 0; code == 0 && i < work->n_nodes; i++) {
        const struct prn_node *from = work->nodes[i].node;
        code = describe_node(model, from, &givers, &constants, arena, &nodes[i]);
        for (size_t k = 0; code == 0 && k < from->n_outputs; k++, value++) {
            int64_t bytes = value < work->n_values ? value_bytes(&work->values[value]) : -1;
            bool unknown = bytes < 0 || nodes[i].value_bytes < 0;
            nodes[i].value_bytes = unknown ? -1 : nodes[i].value_bytes + bytes;
            if (from->outputs[k][0])
                code = prn_map_set(&givers, from->outputs[k], i);
        }
    }
    prn_map_release(&givers);
    prn_map_release(&constants);
    return code;
}

int prn_ops_graph_describe(const struct prn_model *model, const struct prn_work *work,
                           struct prn_arena *arena, struct prn_profile_model *described,
                           struct prony_error *err)
{
    if (work->n_nodes == 0 || work->n_nodes > PRN_GRAPH_NODES_MAX)
        return 0;
    struct prn_profile_node *nodes = PRN_ARENA_ARRAY(arena, work->n_nodes, struct prn_profile_node);
    if (!nodes || describe(model, work, arena, nodes) < 0)
        return prn_fail_memory(err);
    described->graph = nodes;
    described->n_graph = work->n_nodes;
    return 0;
}

/* ---- Finding ---- */

/* The node of that name, if only one has it. */
static size_t named(const struct prn_ops_graph *g, const char *name, size_t len)
{
    size_t index = prn_map_get_n(&g->by_name, name, len);
    return index < g->n ? index : NONE;
}

/* "Conv_12": a Conv that is number 12 and has no name of its own. */
static size_t numbered(const struct prn_ops_graph *g, const char *name, const char *op)
{
    size_t len = strlen(op);
    const char *digits = name + len + 1;
    if (strncmp(name, op, len) != 0 || name[len] != '_' || digits[0] == '\0' ||
        digits[strspn(digits, "0123456789")] != '\0')
        return NONE;
    unsigned long long number = strtoull(digits, NULL, 10);
    if (number >= g->n_numbered)
        return NONE;
    size_t index = g->numbered[number];
    const struct node *node = &g->nodes[index];
    return node->name[0] == '\0' && strcmp(node->op, op) == 0 ? index : NONE;
}

/* A node of operator `op`: the given one, or one before it in a chain. */
static size_t of_chain(const struct prn_ops_graph *g, size_t index, const char *op)
{
    for (int step = 0; index != NONE && step < CHAIN_MAX; step++) {
        if (means(op, g->nodes[index].op))
            return index;
        index = g->nodes[index].source;
    }
    return NONE;
}

/* The node of operator `op` whose result becomes a value. */
static size_t giving(const struct prn_ops_graph *g, const char *value, size_t len, const char *op)
{
    return of_chain(g, prn_map_get_n(&g->by_value, value, len), op);
}

static size_t of_form(const struct prn_ops_graph *g, const struct form *form, const char *name,
                      const char *op)
{
    size_t len = strlen(name);
    size_t before = strlen(form->prefix);
    size_t behind = strlen(form->suffix);
    if (len < before + behind || strncmp(name, form->prefix, before) != 0 ||
        strcmp(name + len - behind, form->suffix) != 0)
        return NONE;
    len -= before + behind;
    return form->of_value ? giving(g, name + before, len, op) : named(g, name + before, len);
}

bool prn_ops_graph_find(const struct prn_ops_graph *g, const char *name, const char *op,
                        struct prn_ops_origin *ret_origin)
{
    size_t kept_name = named(g, name, strlen(name));
    /* A fused node may go by the name of the last one. */
    size_t index = of_chain(g, kept_name, op);
    bool same_work = true;
    /* One that kept its name but changed its operator may do anything. */
    if (index == NONE && kept_name != NONE) {
        index = kept_name;
        same_work = false;
    }
    if (index == NONE)
        index = numbered(g, name, op);
    if (index == NONE)
        index = giving(g, name, strlen(name), op);
    for (size_t i = 0; index == NONE && i < PRN_ARRAY_SIZE(forms); i++) {
        index = of_form(g, &forms[i], name, op);
        same_work = forms[i].same_work;
    }
    if (index == NONE)
        return false;
    const struct node *node = &g->nodes[index];
    *ret_origin = (struct prn_ops_origin){.node = (int64_t)index,
                                          .name = node->name,
                                          .op = node->op,
                                          .flops = same_work ? node->flops : NAN,
                                          .bytes = same_work ? node->bytes : NAN,
                                          .weight_bytes = node->weight_bytes,
                                          .precision = node->precision};
    return true;
}
