/*
 * The driver of prn_model_analyse(): walks graphs in order, asks each node's row of the operator
 * table for shapes, contents and work, and sums up.
 *
 * Names live in scopes, one per graph; a subgraph's scope sees those around it, a function's
 * doesn't. Every node leaves an entry in the journal, which is why a body can be multiplied, voided
 * or dropped after it was looked at. Time and memory are linear in the file: bodies that run more
 * than once through here (functions, loops that don't settle) and folding have budgets.
 */
#include "model/infer/infer.h"

#include "base/buffer.h"

#include <stdlib.h>
#include <string.h>

/* Bodies inside bodies, calls included. */
#define DEPTH_MAX 64
/* Nodes, names and attributes that all bodies together may have. Top-level ones come on top. */
#define BODY_BUDGET ((size_t)1 << 21)
/* Elements that folding may make. */
#define FOLD_BUDGET ((size_t)1 << 23)
#define SCRATCH_MAX ((size_t)1 << 31)
#define WORK_MAX ((size_t)1 << 30)

static const char *const reason_texts[PRN_REASON_COUNT] = {
    [PRN_REASON_NONE] = "",
    [PRN_REASON_INPUT] = "input shape unknown",
    [PRN_REASON_OUTPUT] = "output shape unknown",
    [PRN_REASON_OPERATOR] = "operator not known",
    [PRN_REASON_MALFORMED] = "inputs or attributes don't fit the operator",
    [PRN_REASON_SIZE] = "size overflows",
    [PRN_REASON_DTYPE] = "element size unknown",
    [PRN_REASON_TRIPS] = "trip count not constant",
    [PRN_REASON_DATA] = "work depends on the data",
    [PRN_REASON_BRANCH] = "only the heavier branch is counted",
    [PRN_REASON_NESTING] = "too much nesting to expand",
};

struct prn_scope {
    const struct prn_scope *parent;
    const struct prn_graph *graph;
    const struct prn_infer_call *caller; /* the innermost function call around, for attributes */
    struct prn_map names;                /* to indices of prn_infer.values */
    struct prn_map declared;             /* value_info, made when first needed */
    bool has_declared;
};

/* What is summed up per operator type. */
struct row {
    const char *op_type, *domain;
    const struct prn_operator *op;       /* NULL: not in the table */
    const struct prn_function *function; /* of the model */
    uint64_t nodes, counted;
    uint64_t uncounted[PRN_REASON_COUNT];
    struct prn_cost cost;
};

struct entry {
    uint32_t row;
    uint8_t reason;
    bool is_remark;
    struct prn_cost cost;
};

struct prn_infer {
    const struct prn_model *model;
    struct prn_arena arena;
    struct prn_known **values;
    size_t n_values, values_capacity;
    struct row *rows;
    size_t n_rows, rows_capacity;
    struct entry *journal;
    size_t n_journal, journal_capacity;
    struct prn_map row_of;      /* operator key → row */
    struct prn_map operator_of; /* operator key → table */
    struct prn_map function_of; /* operator key → model function */
    struct prn_buffer key;
    size_t depth, body_budget, fold_budget;
    bool out_of_memory;
};

struct prn_arena *prn_infer_arena(struct prn_infer *infer)
{
    return &infer->arena;
}

void *prn_infer_array(struct prn_infer *infer, size_t count, size_t size)
{
    void *array = prn_arena_array(&infer->arena, count + 1, size);
    infer->out_of_memory = infer->out_of_memory || !array;
    return array;
}

static bool spend(size_t *budget, size_t cost)
{
    if (cost > *budget)
        return false;
    *budget -= cost;
    return true;
}

bool prn_infer_fold_budget(struct prn_infer *infer, size_t cost)
{
    return spend(&infer->fold_budget, cost + 1);
}

/* Makes room for one more; 0 or PRONY_ENOMEM. */
static int reserve(void **array, size_t n, size_t *capacity, size_t size)
{
    if (n < *capacity)
        return 0;
    size_t more = *capacity ? *capacity * 2 : 64;
    void *larger = more > SIZE_MAX / size ? NULL : realloc(*array, more * size);
    if (!larger)
        return PRONY_ENOMEM;
    *array = larger;
    *capacity = more;
    return 0;
}

/* ---- Journal ---- */

size_t prn_journal_mark(const struct prn_infer *infer)
{
    return infer->n_journal;
}

struct prn_cost prn_journal_sum(const struct prn_infer *infer, size_t from, size_t to)
{
    struct prn_cost sum = {0};
    for (size_t i = from; i < to; i++) {
        sum.flops += infer->journal[i].cost.flops;
        sum.bytes += infer->journal[i].cost.bytes;
    }
    return sum;
}

void prn_journal_scale(struct prn_infer *infer, size_t from, double times)
{
    for (size_t i = from; i < infer->n_journal; i++) {
        infer->journal[i].cost.flops *= times;
        infer->journal[i].cost.bytes *= times;
    }
}

void prn_journal_void(struct prn_infer *infer, size_t from, enum prn_reason reason)
{
    for (size_t i = from; i < infer->n_journal; i++) {
        struct entry *e = &infer->journal[i];
        e->cost = (struct prn_cost){0};
        if (!e->reason)
            e->reason = (uint8_t)reason;
    }
}

void prn_journal_drop(struct prn_infer *infer, size_t from, size_t to)
{
    memmove(infer->journal + from, infer->journal + to,
            (infer->n_journal - to) * sizeof *infer->journal);
    infer->n_journal -= to - from;
}

static int journal_add(struct prn_infer *infer, size_t row, enum prn_reason reason, bool is_remark)
{
    void *array = infer->journal;
    if (reserve(&array, infer->n_journal, &infer->journal_capacity, sizeof *infer->journal) < 0)
        return PRONY_ENOMEM;
    infer->journal = array;
    infer->journal[infer->n_journal++] =
        (struct entry){.row = (uint32_t)row, .reason = (uint8_t)reason, .is_remark = is_remark};
    return 0;
}

/* ---- Rows: one per operator type that occurs ---- */

static const char *operator_key(struct prn_buffer *buffer, const char *domain, const char *op_type)
{
    prn_buffer_clear(buffer);
    if (*domain && strcmp(domain, "ai.onnx") != 0) {
        prn_buffer_add(buffer, domain);
        prn_buffer_add_char(buffer, ':');
    }
    prn_buffer_add(buffer, op_type);
    return prn_buffer_text(buffer);
}

static int add_row(struct prn_infer *infer, const struct prn_node *node, const char *key)
{
    size_t count;
    const struct prn_operator *operators = prn_operators(&count);
    void *array = infer->rows;
    char *own_key = prn_arena_strdup(&infer->arena, key);
    if (!own_key || infer->n_rows == UINT32_MAX ||
        reserve(&array, infer->n_rows, &infer->rows_capacity, sizeof *infer->rows) < 0)
        return PRONY_ENOMEM;
    infer->rows = array;
    size_t function = prn_map_get(&infer->function_of, key);
    size_t known = prn_map_get(&infer->operator_of, key);
    infer->rows[infer->n_rows] = (struct row){
        .op_type = node->op_type,
        .domain = node->domain,
        .op = known == PRN_MAP_NONE ? NULL : &operators[known],
        .function = function == PRN_MAP_NONE ? NULL : &infer->model->functions[function],
    };
    return prn_map_set(&infer->row_of, own_key, infer->n_rows++);
}

static int find_row(struct prn_infer *infer, const struct prn_node *node, size_t *ret_row)
{
    const char *key = operator_key(&infer->key, node->domain, node->op_type);
    if (infer->key.error)
        return PRONY_ENOMEM;
    size_t row = prn_map_get(&infer->row_of, key);
    if (row == PRN_MAP_NONE) {
        int r = add_row(infer, node, key);
        if (r < 0)
            return r;
        row = infer->n_rows - 1;
    }
    *ret_row = row;
    return 0;
}

int prn_journal_remark(struct prn_infer_call *c, enum prn_reason reason)
{
    size_t row;
    int r = find_row(c->infer, c->node, &row);
    return r < 0 ? r : journal_add(c->infer, row, reason, true);
}

/* ---- Scopes and values ---- */

static int define(struct prn_infer *infer, struct prn_scope *scope, const char *name,
                  struct prn_known *t)
{
    void *array = infer->values;
    if (!*name)
        return 0;
    if (reserve(&array, infer->n_values, &infer->values_capacity, sizeof *infer->values) < 0)
        return PRONY_ENOMEM;
    infer->values = array;
    infer->values[infer->n_values] = t;
    return prn_map_set(&scope->names, name, infer->n_values++);
}

static struct prn_known *new_tensor(struct prn_infer *infer)
{
    struct prn_known *t = PRN_ARENA_NEW(&infer->arena, struct prn_known);
    if (t)
        t->rank = -1;
    return t;
}

/* Dimensions from the outside; such that aren't acceptable leave the rank unknown. */
static void set_dims(struct prn_known *t, const int64_t *dims, size_t rank)
{
    static const int64_t no_dims;
    int64_t elements;
    if (rank > PRN_RANK_MAX || prn_dims_elements(dims, rank, &elements) < 0)
        return;
    for (size_t i = 0; i < rank; i++)
        if (dims[i] > PRN_DIM_MAX)
            return;
    t->rank = (int)rank;
    t->dims = rank ? dims : &no_dims;
}

/* The tensor of a name; NULL in `ret` for an optional value that was left out. */
static int look_up(struct prn_infer *infer, const struct prn_scope *scope, const char *name,
                   struct prn_known **ret)
{
    *ret = NULL;
    if (!*name)
        return 0;
    for (; scope; scope = scope->parent) {
        size_t index = prn_map_get(&scope->names, name);
        if (index != PRN_MAP_NONE) {
            *ret = infer->values[index];
            return 0;
        }
    }
    *ret = new_tensor(infer);
    return *ret ? 0 : PRONY_ENOMEM;
}

static int define_constants(struct prn_infer *infer, struct prn_scope *scope)
{
    for (size_t i = 0; i < scope->graph->n_constants; i++) {
        const struct prn_constant *constant = &scope->graph->constants[i];
        struct prn_known *t = new_tensor(infer);
        if (!t)
            return PRONY_ENOMEM;
        t->dtype = constant->dtype;
        t->constant = constant;
        set_dims(t, constant->dims, constant->rank);
        if (define(infer, scope, constant->name, t) < 0)
            return PRONY_ENOMEM;
    }
    return 0;
}

static bool is_numeric(const struct prn_value *v)
{
    if (v->kind != PRN_VALUE_TENSOR || !v->has_shape || v->rank > PRN_RANK_MAX)
        return false;
    for (size_t i = 0; i < v->rank; i++)
        if (v->dims[i].value < 0)
            return false;
    return true;
}

/* Fills what inference left open from a declaration that has numbers for everything. */
static int adopt(struct prn_infer *infer, struct prn_known *t, const struct prn_value *v)
{
    if (v->kind == PRN_VALUE_TENSOR && !t->dtype)
        t->dtype = v->dtype;
    if (!is_numeric(v) || t->kind != PRN_VALUE_TENSOR || prn_known_elements(t) >= 0 ||
        (t->rank >= 0 && (size_t)t->rank != v->rank))
        return 0;
    int64_t *dims = PRN_ARENA_ARRAY(&infer->arena, v->rank + 1, int64_t);
    if (!dims)
        return PRONY_ENOMEM;
    for (size_t i = 0; i < v->rank; i++)
        dims[i] = t->rank >= 0 && t->dims[i] >= 0 ? t->dims[i] : v->dims[i].value;
    set_dims(t, dims, v->rank);
    return 0;
}

static int index_declared(struct prn_scope *scope)
{
    const struct prn_graph *g = scope->graph;
    int r = 0;
    for (size_t i = 0; r == 0 && i < g->n_values; i++)
        r = prn_map_set(&scope->declared, g->values[i].name, i);
    for (size_t i = 0; r == 0 && i < g->n_outputs; i++)
        r = prn_map_set(&scope->declared, g->outputs[i].name, g->n_values + i);
    scope->has_declared = r == 0;
    return r;
}

static int adopt_declared(struct prn_infer *infer, struct prn_scope *scope, const char *name,
                          struct prn_known *t)
{
    if (!*name || (t->dtype && prn_known_elements(t) >= 0) || t->kind != PRN_VALUE_TENSOR)
        return 0;
    if (!scope->has_declared && index_declared(scope) < 0)
        return PRONY_ENOMEM;
    size_t i = prn_map_get(&scope->declared, name);
    const struct prn_graph *g = scope->graph;
    if (i == PRN_MAP_NONE)
        return 0;
    return adopt(infer, t, i < g->n_values ? &g->values[i] : &g->outputs[i - g->n_values]);
}

const struct prn_attribute *prn_attr(const struct prn_infer_call *c, const char *name)
{
    const struct prn_attribute *a = prn_node_attribute(c->node, name);
    while (a && a->kind == PRN_ATTRIBUTE_OTHER && a->refers_to) {
        c = c->scope->caller;
        if (!c)
            return NULL;
        a = prn_node_attribute(c->node, a->refers_to);
    }
    return a;
}

/* ---- Nodes ---- */

/* What the node takes by itself, bodies apart. */
static enum prn_reason node_cost(const struct prn_infer_call *c, struct prn_cost *ret)
{
    struct prn_cost cost;
    int r = c->op->flops(c, &cost.flops);
    if (r == 0)
        r = c->op->bytes(c, &cost.bytes);
    if (r == 0)
        *ret = cost;
    return (enum prn_reason)r;
}

static int call_function(struct prn_infer_call *c, const struct prn_function *function)
{
    struct prn_known *out = PRN_ARENA_ARRAY(&c->infer->arena, c->n_out + 1, struct prn_known);
    if (!out)
        return PRONY_ENOMEM;
    int r = prn_infer_body(c, &function->body, c->in, c->n_in, out, c->n_out, true);
    for (size_t i = 0; r == 0 && i < c->n_out; i++)
        *c->out[i] = out[i];
    return r;
}

/* Shapes and contents of the outputs, then the node's own work. 0, a reason, or an error. */
static int infer_node(struct prn_infer_call *c, struct prn_scope *scope, const struct row *row,
                      struct prn_cost *ret_cost)
{
    const struct prn_function *function = row->function;
    int r = PRN_REASON_OPERATOR;
    c->op = row->op;
    if (function) {
        r = call_function(c, function);
    } else if (c->op) {
        if (c->n_out)
            c->out[0]->dtype = prn_row_dtype(c);
        r = c->op->shape(c);
        if (r == 0 && c->op->fold)
            c->op->fold(c);
        if (c->infer->out_of_memory)
            return PRONY_ENOMEM;
    }
    for (size_t i = 0; r >= 0 && i < c->n_out; i++) {
        int failed = adopt_declared(c->infer, scope, c->node->outputs[i], c->out[i]);
        r = failed ? failed : r;
    }
    if (r < 0 || function || !c->op || r == PRN_REASON_NESTING || r == PRN_REASON_TRIPS)
        return r;
    /* A declared shape can stand in for one that couldn't be inferred; a malformed node can't. */
    enum prn_reason cost_reason = node_cost(c, ret_cost);
    if (c->infer->out_of_memory)
        return PRONY_ENOMEM;
    return r == PRN_REASON_MALFORMED || r == PRN_REASON_SIZE ? r
           : cost_reason && r                                ? r
                                                             : (int)cost_reason;
}

static int make_call(struct prn_infer *infer, const struct prn_scope *scope,
                     const struct prn_node *node, struct prn_infer_call *ret)
{
    struct prn_infer_call c = {.infer = infer,
                               .scope = scope,
                               .node = node,
                               .n_in = node->n_inputs,
                               .n_out = node->n_outputs};
    c.in = PRN_ARENA_ARRAY(&infer->arena, c.n_in + 1, struct prn_known *);
    c.out = PRN_ARENA_ARRAY(&infer->arena, c.n_out + 1, struct prn_known *);
    if (!c.in || !c.out)
        return PRONY_ENOMEM;
    for (size_t i = 0; i < c.n_in; i++)
        if (look_up(infer, scope, node->inputs[i], &c.in[i]) < 0)
            return PRONY_ENOMEM;
    for (size_t i = 0; i < c.n_out; i++)
        if (!(c.out[i] = new_tensor(infer)))
            return PRONY_ENOMEM;
    *ret = c;
    return 0;
}

static int visit_node(struct prn_infer *infer, struct prn_scope *scope, const struct prn_node *node)
{
    struct prn_infer_call c;
    struct prn_cost cost = {0};
    size_t row;
    size_t entry = infer->n_journal;
    int r = find_row(infer, node, &row);
    if (r == 0)
        r = journal_add(infer, row, PRN_REASON_NONE, false);
    if (r == 0)
        r = make_call(infer, scope, node, &c);
    if (r < 0)
        return r;
    /* Rows move when a body adds some. */
    struct row own = infer->rows[row];
    r = infer_node(&c, scope, &own, &cost);
    if (r < 0)
        return r;
    infer->journal[entry].reason = (uint8_t)r;
    infer->journal[entry].cost = cost;
    for (size_t i = 0; i < c.n_out; i++)
        if (define(infer, scope, node->outputs[i], c.out[i]) < 0)
            return PRONY_ENOMEM;
    return 0;
}

static int visit_nodes(struct prn_infer *infer, struct prn_scope *scope)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < scope->graph->n_nodes; i++)
        r = visit_node(infer, scope, &scope->graph->nodes[i]);
    return r;
}

static void scope_release(struct prn_scope *scope)
{
    prn_map_release(&scope->names);
    prn_map_release(&scope->declared);
}

/* Names are hashed and compared, so long ones cost more. */
static bool spend_on_names(struct prn_infer *infer, const char *const *names, size_t n)
{
    bool ok = spend(&infer->body_budget, n);
    for (size_t i = 0; ok && i < n; i++)
        ok = spend(&infer->body_budget, strlen(names[i]) / 64);
    return ok;
}

/* What going through a body costs, in proportion to the time it takes. */
static bool spend_on_body(struct prn_infer *infer, const struct prn_graph *g)
{
    bool ok = spend(&infer->body_budget, g->n_nodes) &&
              spend(&infer->body_budget, g->n_constants) &&
              spend(&infer->body_budget, g->n_values) &&
              spend(&infer->body_budget, g->n_inputs + g->n_outputs + 1);
    for (size_t i = 0; ok && i < g->n_nodes; i++) {
        const struct prn_node *node = &g->nodes[i];
        ok = spend_on_names(infer, &node->op_type, 1) && spend_on_names(infer, &node->domain, 1) &&
             spend_on_names(infer, node->inputs, node->n_inputs) &&
             spend_on_names(infer, node->outputs, node->n_outputs) &&
             spend(&infer->body_budget, node->n_attributes);
    }
    return ok;
}

/* The body's inputs by position; those of a function that the call leaves out are absent. */
static int define_inputs(struct prn_infer *infer, struct prn_scope *scope, struct prn_known **in,
                         size_t n_in, bool is_function)
{
    for (size_t i = 0; i < scope->graph->n_inputs; i++) {
        const struct prn_value *declared = &scope->graph->inputs[i];
        struct prn_known *t = NULL;
        if (i < n_in && in[i]) {
            if (!(t = new_tensor(infer)))
                return PRONY_ENOMEM;
            *t = *in[i];
        } else if (!is_function && !(t = new_tensor(infer))) {
            return PRONY_ENOMEM;
        }
        if ((t && !is_function && adopt(infer, t, declared) < 0) ||
            define(infer, scope, declared->name, t) < 0)
            return PRONY_ENOMEM;
    }
    return 0;
}

int prn_infer_body(struct prn_infer_call *c, const struct prn_graph *graph, struct prn_known **in,
                   size_t n_in, struct prn_known *out, size_t n_out, bool is_function)
{
    struct prn_infer *infer = c->infer;
    struct prn_scope scope = {.parent = is_function ? NULL : c->scope,
                              .graph = graph,
                              .caller = is_function ? c : c->scope->caller};
    if (infer->depth == DEPTH_MAX || !spend_on_body(infer, graph))
        return PRN_REASON_NESTING;
    infer->depth++;
    int r = define_inputs(infer, &scope, in, n_in, is_function);
    if (r == 0)
        r = define_constants(infer, &scope);
    if (r == 0)
        r = visit_nodes(infer, &scope);
    for (size_t i = 0; r == 0 && i < n_out; i++) {
        struct prn_known *t = NULL;
        if (i < graph->n_outputs)
            r = look_up(infer, &scope, graph->outputs[i].name, &t);
        out[i] = t ? *t : (struct prn_known){.rank = -1};
    }
    scope_release(&scope);
    infer->depth--;
    return r;
}

/* ---- The model ---- */

static int index_operators(struct prn_infer *infer)
{
    size_t count;
    const struct prn_operator *operators = prn_operators(&count);
    int r = 0;
    for (size_t i = 0; r == 0 && i < count; i++)
        r = prn_map_set(&infer->operator_of, operators[i].key, i);
    for (size_t i = 0; r == 0 && i < infer->model->n_functions; i++) {
        const struct prn_function *f = &infer->model->functions[i];
        const char *key = operator_key(&infer->key, f->domain, f->name);
        char *own_key = infer->key.error ? NULL : prn_arena_strdup(&infer->arena, key);
        r = own_key ? prn_map_set(&infer->function_of, own_key, i) : PRONY_ENOMEM;
    }
    return r;
}

static int define_model_inputs(struct prn_infer *infer, struct prn_scope *scope,
                               const struct prn_input *inputs)
{
    for (size_t i = 0; i < infer->model->n_inputs; i++) {
        struct prn_known *t = new_tensor(infer);
        if (!t)
            return PRONY_ENOMEM;
        t->dtype = inputs[i].dtype;
        set_dims(t, inputs[i].dims, inputs[i].rank);
        if (define(infer, scope, inputs[i].name, t) < 0)
            return PRONY_ENOMEM;
    }
    return 0;
}

/* Walks the top-level nodes and notes which part of the journal belongs to each. */
static int analyse_nodes(struct prn_infer *infer, struct prn_scope *scope, struct prn_work *work)
{
    const struct prn_graph *g = scope->graph;
    work->nodes = PRN_ARENA_ARRAY(&work->arena, g->n_nodes + 1, struct prn_node_work);
    if (!work->nodes)
        return PRONY_ENOMEM;
    work->n_nodes = g->n_nodes;
    for (size_t i = 0; i < g->n_nodes; i++) {
        size_t begin = infer->n_journal;
        int r = visit_node(infer, scope, &g->nodes[i]);
        if (r < 0)
            return r;
        struct prn_cost cost = prn_journal_sum(infer, begin, infer->n_journal);
        bool counted = true;
        for (size_t k = begin; counted && k < infer->n_journal; k++)
            counted = infer->journal[k].is_remark || !infer->journal[k].reason;
        work->nodes[i] = (struct prn_node_work){
            .node = &g->nodes[i], .counted = counted, .flops = cost.flops, .bytes = cost.bytes};
    }
    return 0;
}

static void sum_journal(struct prn_infer *infer, struct prn_work *work)
{
    for (size_t i = 0; i < infer->n_journal; i++) {
        const struct entry *e = &infer->journal[i];
        struct row *row = &infer->rows[e->row];
        row->nodes += !e->is_remark;
        row->counted += !e->is_remark && !e->reason;
        work->n_unknown += !e->is_remark && e->reason;
        row->uncounted[e->reason] += e->reason != 0;
        row->cost.flops += e->cost.flops;
        row->cost.bytes += e->cost.bytes;
        work->flops += e->cost.flops;
        work->bytes += e->cost.bytes;
    }
}

static int by_work(const void *a, const void *b)
{
    const struct prn_op_work *x = a;
    const struct prn_op_work *y = b;
    if (x->flops != y->flops)
        return x->flops < y->flops ? 1 : -1;
    if (x->nodes != y->nodes)
        return x->nodes < y->nodes ? 1 : -1;
    int names = strcmp(x->op_type, y->op_type);
    return names ? names : strcmp(x->domain, y->domain);
}

static int by_nodes(const void *a, const void *b)
{
    const struct prn_uncounted *x = a;
    const struct prn_uncounted *y = b;
    if (x->nodes != y->nodes)
        return x->nodes < y->nodes ? 1 : -1;
    int names = strcmp(x->op_type, y->op_type);
    if (names == 0)
        names = strcmp(x->domain, y->domain);
    return names ? names : strcmp(x->reason, y->reason);
}

static int list_rows(const struct prn_infer *infer, struct prn_work *work)
{
    work->ops = PRN_ARENA_ARRAY(&work->arena, infer->n_rows + 1, struct prn_op_work);
    size_t n_uncounted = 0;
    for (size_t i = 0; i < infer->n_rows; i++)
        for (int k = 1; k < PRN_REASON_COUNT; k++)
            n_uncounted += infer->rows[i].uncounted[k] > 0;
    work->uncounted = PRN_ARENA_ARRAY(&work->arena, n_uncounted + 1, struct prn_uncounted);
    if (!work->ops || !work->uncounted)
        return PRONY_ENOMEM;
    for (size_t i = 0; i < infer->n_rows; i++) {
        const struct row *row = &infer->rows[i];
        for (int k = 1; k < PRN_REASON_COUNT; k++)
            if (row->uncounted[k])
                work->uncounted[work->n_uncounted++] =
                    (struct prn_uncounted){.op_type = row->op_type,
                                           .domain = row->domain,
                                           .nodes = row->uncounted[k],
                                           .reason = reason_texts[k]};
        /* A branch that was dropped may have been the only place of an operator. */
        if (row->nodes)
            work->ops[work->n_ops++] = (struct prn_op_work){.op_type = row->op_type,
                                                            .domain = row->domain,
                                                            .nodes = row->nodes,
                                                            .counted = row->counted,
                                                            .flops = row->cost.flops,
                                                            .bytes = row->cost.bytes};
    }
    qsort(work->ops, work->n_ops, sizeof *work->ops, by_work);
    qsort(work->uncounted, work->n_uncounted, sizeof *work->uncounted, by_nodes);
    return 0;
}

/* What a declaration and inference say together; `ret` may be `declared`. */
static int list_output(struct prn_work *work, const struct prn_value *declared,
                       const struct prn_known *t, struct prn_value *ret)
{
    *ret = *declared;
    if (t->kind != PRN_VALUE_UNKNOWN && declared->kind == PRN_VALUE_UNKNOWN)
        ret->kind = t->kind;
    if (ret->kind != PRN_VALUE_TENSOR)
        return 0;
    if (t->dtype)
        ret->dtype = t->dtype;
    if (t->rank < 0)
        return 0;
    struct prn_dim *dims = PRN_ARENA_ARRAY(&work->arena, (size_t)t->rank + 1, struct prn_dim);
    if (!dims)
        return PRONY_ENOMEM;
    bool same_rank = declared->has_shape && declared->rank == (size_t)t->rank;
    for (int i = 0; i < t->rank; i++) {
        dims[i] = same_rank ? declared->dims[i] : (struct prn_dim){.value = -1};
        if (t->dims[i] >= 0)
            dims[i] = (struct prn_dim){.value = t->dims[i]};
    }
    ret->has_shape = true;
    ret->rank = (size_t)t->rank;
    ret->dims = dims;
    return 0;
}

static int list_outputs(struct prn_infer *infer, const struct prn_scope *scope,
                        struct prn_work *work)
{
    const struct prn_graph *g = scope->graph;
    work->outputs = PRN_ARENA_ARRAY(&work->arena, g->n_outputs + 1, struct prn_value);
    if (!work->outputs)
        return PRONY_ENOMEM;
    work->n_outputs = g->n_outputs;
    for (size_t i = 0; i < g->n_outputs; i++) {
        static const struct prn_known unknown = {.kind = PRN_VALUE_UNKNOWN, .rank = -1};
        struct prn_known *t;
        int r = look_up(infer, scope, g->outputs[i].name, &t);
        if (r == 0)
            r = list_output(work, &g->outputs[i], t ? t : &unknown, &work->outputs[i]);
        if (r < 0)
            return r;
    }
    return 0;
}

static int list_values(struct prn_infer *infer, const struct prn_scope *scope,
                       struct prn_work *work)
{
    const struct prn_graph *g = scope->graph;
    size_t n = 0;
    for (size_t i = 0; i < g->n_nodes; i++)
        n += g->nodes[i].n_outputs;
    work->values = PRN_ARENA_ARRAY(&work->arena, n + 1, struct prn_value);
    if (!work->values)
        return PRONY_ENOMEM;
    for (size_t i = 0; i < g->n_nodes; i++)
        for (size_t o = 0; o < g->nodes[i].n_outputs; o++) {
            struct prn_value *value = &work->values[work->n_values++];
            *value = (struct prn_value){.name = g->nodes[i].outputs[o], .kind = PRN_VALUE_UNKNOWN};
            size_t index = prn_map_get(&scope->names, value->name);
            if (*value->name && index != PRN_MAP_NONE &&
                list_output(work, value, infer->values[index], value) < 0)
                return PRONY_ENOMEM;
        }
    return 0;
}

static int analyse(struct prn_infer *infer, const struct prn_input *inputs, struct prn_work *work)
{
    struct prn_scope scope = {.graph = &infer->model->graph};
    int r = index_operators(infer);
    if (r == 0)
        r = define_constants(infer, &scope);
    if (r == 0)
        r = define_model_inputs(infer, &scope, inputs);
    if (r == 0)
        r = analyse_nodes(infer, &scope, work);
    if (r == 0) {
        sum_journal(infer, work);
        r = list_rows(infer, work);
    }
    if (r == 0)
        r = list_outputs(infer, &scope, work);
    if (r == 0)
        r = list_values(infer, &scope, work);
    scope_release(&scope);
    return r;
}

static void infer_release(struct prn_infer *infer)
{
    prn_arena_release(&infer->arena);
    prn_map_release(&infer->row_of);
    prn_map_release(&infer->operator_of);
    prn_map_release(&infer->function_of);
    prn_buffer_release(&infer->key);
    free(infer->values);
    free(infer->rows);
    free(infer->journal);
}

int prn_model_analyse(const struct prn_model *model, const struct prn_input *inputs,
                      struct prn_work **ret_work, struct prony_error *err)
{
    struct prn_infer infer = {.model = model,
                              .arena = PRN_ARENA_INIT(SCRATCH_MAX),
                              .key = PRN_BUFFER_INIT(SCRATCH_MAX),
                              .body_budget = BODY_BUDGET,
                              .fold_budget = FOLD_BUDGET};
    struct prn_work *work = calloc(1, sizeof *work);
    if (!work)
        return prn_fail_memory(err);
    work->arena = PRN_ARENA_INIT(WORK_MAX);
    int r = analyse(&infer, inputs, work);
    infer_release(&infer);
    if (r < 0) {
        prn_work_free(work);
        return prn_fail_memory(err);
    }
    *ret_work = work;
    return 0;
}

void prn_work_free(struct prn_work *work)
{
    if (!work)
        return;
    prn_arena_release(&work->arena);
    free(work);
}
