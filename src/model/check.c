/*
 * What a graph must be before anything may rely on it: every name is defined once, and before it is
 * used; functions don't call themselves. A name is looked up in its own graph, then in the graphs
 * around it. The common case costs one hash table per graph. ONNX wants nodes in order, but
 * runtimes don't: a graph that merely stands in the wrong order is sorted, one with a cycle is
 * refused.
 */
#include "model/parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Values of the table: 0 for inputs and initialisers, node index + 1 for outputs of nodes. A name
 * is there for node i when its value is at most i. */
struct scope {
    struct prn_reader *reader;
    const struct prn_graph *graph;
    struct scope *outer;
    struct prn_map origin;
    size_t at;        /* the node that is being checked */
    const char *late; /* what that node needs and a later one makes */
};

/* Not a failure: the scope that has something `late` must be sorted first. */
#define UNSORTED 1

#define NODE_LABEL_SIZE 160

/* "node 'conv1' (Conv)", or by its number when it has no name. */
static const char *node_label(const struct prn_graph *graph, size_t index,
                              char label[NODE_LABEL_SIZE])
{
    const struct prn_node *node = &graph->nodes[index];
    if (*node->name)
        snprintf(label, NODE_LABEL_SIZE, "node '%.80s' (%.40s)", node->name, node->op_type);
    else
        snprintf(label, NODE_LABEL_SIZE, "node %zu (%.40s)", index, node->op_type);
    return label;
}

/* ---- Order ---- */

struct edges {
    size_t *first; /* per node, where its own begin; one more at the end */
    size_t *to;    /* nodes that it needs */
    size_t n, capacity;
    bool failed;
};

static void add_edge(struct edges *e, size_t to)
{
    if (e->n == e->capacity) {
        size_t capacity = e->capacity ? 2 * e->capacity : 64;
        size_t *grown = realloc(e->to, capacity * sizeof *grown);
        if (!grown) {
            e->failed = true;
            return;
        }
        e->to = grown;
        e->capacity = capacity;
    }
    e->to[e->n++] = to;
}

static void add_need(const struct scope *s, const char *name, struct edges *e)
{
    size_t origin = *name ? prn_map_get(&s->origin, name) : PRN_MAP_NONE;
    if (origin != PRN_MAP_NONE && origin > 0)
        add_edge(e, origin - 1);
}

/* Adds the nodes of `s` that a node needs, for itself and for the graphs inside it. */
static void add_needs(const struct scope *s, const struct prn_node *node, struct edges *e)
{
    for (size_t i = 0; i < node->n_inputs; i++)
        add_need(s, node->inputs[i], e);
    for (size_t i = 0; i < node->n_attributes; i++) {
        const struct prn_attribute *a = &node->attributes[i];
        for (size_t g = 0; a->graphs && g < a->n; g++) {
            for (size_t n = 0; n < a->graphs[g]->n_nodes; n++)
                add_needs(s, &a->graphs[g]->nodes[n], e);
            for (size_t o = 0; o < a->graphs[g]->n_outputs; o++)
                add_need(s, a->graphs[g]->outputs[o].name, e);
        }
    }
}

/* Depth first, with a stack of its own, to an order in which every node comes after those that it
 * needs, and stays where it was otherwise. A node that is met again while it is open is on a cycle,
 * and returned; SIZE_MAX when there is none. */
static size_t find_order(const struct edges *e, size_t n_nodes, size_t *stack, size_t *next,
                         unsigned char *state, size_t *order)
{
    enum { FRESH, OPEN, DONE };
    size_t n = 0;
    for (size_t root = 0; root < n_nodes; root++) {
        size_t depth = 0;
        if (state[root] == FRESH) {
            stack[depth++] = root;
            state[root] = OPEN;
            next[root] = e->first[root];
        }
        while (depth > 0) {
            size_t node = stack[depth - 1];
            if (next[node] == e->first[node + 1]) {
                state[node] = DONE;
                order[n++] = node;
                depth--;
                continue;
            }
            size_t to = e->to[next[node]++];
            if (state[to] == OPEN)
                return to;
            if (state[to] == FRESH) {
                state[to] = OPEN;
                next[to] = e->first[to];
                stack[depth++] = to;
            }
        }
    }
    return SIZE_MAX;
}

static int permute(const struct scope *s, const size_t *order)
{
    size_t n = s->graph->n_nodes;
    struct prn_node *nodes = malloc((n + 1) * sizeof *nodes);
    if (!nodes)
        return prn_fail_memory(s->reader->err);
    for (size_t i = 0; i < n; i++)
        nodes[i] = s->graph->nodes[order[i]];
    memcpy(s->graph->nodes, nodes, n * sizeof *nodes);
    free(nodes);
    return 0;
}

static int sort_nodes(const struct scope *s)
{
    size_t n = s->graph->n_nodes;
    struct edges e = {.first = calloc(n + 1, sizeof *e.first)};
    size_t *stack = calloc(3 * (n + 1), sizeof *stack);
    unsigned char *state = calloc(n + 1, 1);
    int code = e.first && stack && state ? 0 : PRONY_ENOMEM;
    for (size_t i = 0; i < n && code == 0; i++) {
        add_needs(s, &s->graph->nodes[i], &e);
        e.first[i + 1] = e.n;
        code = e.failed ? PRONY_ENOMEM : 0;
    }
    if (code == 0) {
        char label[NODE_LABEL_SIZE];
        size_t *order = stack + 2 * (n + 1);
        size_t on_cycle = find_order(&e, n, stack, stack + n + 1, state, order);
        code = on_cycle == SIZE_MAX
                   ? permute(s, order)
                   : prn_fail(s->reader->err, PRONY_EFORMAT, "graph '%s' has a cycle through %s",
                              s->graph->name, node_label(s->graph, on_cycle, label));
    } else {
        code = prn_fail_memory(s->reader->err);
    }
    free(e.first);
    free(e.to);
    free(stack);
    free(state);
    return code;
}

/* Says once which node stood before one that it needs. */
static int note_misplaced(const struct scope *s)
{
    char label[NODE_LABEL_SIZE];
    char text[2 * NODE_LABEL_SIZE];
    struct prn_model *model = s->reader->model;
    snprintf(text, sizeof text, "%s uses '%.80s' before it is made",
             node_label(s->graph, s->at, label), s->late);
    if (!model->misplaced)
        model->misplaced = prn_arena_strdup(s->reader->arena, text);
    return model->misplaced ? 0 : prn_reader_full(s->reader);
}

/* ---- Names ---- */

static int define(struct scope *s, const char *name, size_t origin)
{
    return prn_map_set(&s->origin, name, origin) < 0 ? prn_fail_memory(s->reader->err) : 0;
}

/* An initialiser may have the name of an input: it is that input's default. */
static int define_inputs(struct scope *s)
{
    const struct prn_graph *g = s->graph;
    for (size_t i = 0; i < g->n_inputs; i++) {
        if (prn_map_get(&s->origin, g->inputs[i].name) != PRN_MAP_NONE)
            return prn_fail(s->reader->err, PRONY_EFORMAT, "graph '%s' has two inputs called '%s'",
                            g->name, g->inputs[i].name);
        int code = define(s, g->inputs[i].name, 0);
        if (code < 0)
            return code;
    }
    struct prn_map initialisers = PRN_MAP_INIT;
    int code = 0;
    for (size_t i = 0; i < g->n_constants && code == 0; i++) {
        const char *name = g->constants[i].name;
        if (prn_map_get(&initialisers, name) != PRN_MAP_NONE)
            code = prn_fail(s->reader->err, PRONY_EFORMAT,
                            "graph '%s' has two initialisers called '%s'", g->name, name);
        else if (prn_map_set(&initialisers, name, 0) < 0)
            code = prn_fail_memory(s->reader->err);
        else
            code = define(s, name, 0);
    }
    prn_map_release(&initialisers);
    return code;
}

static int define_outputs(struct scope *s)
{
    const struct prn_graph *g = s->graph;
    char label[NODE_LABEL_SIZE];
    for (size_t i = 0; i < g->n_nodes; i++)
        for (size_t o = 0; o < g->nodes[i].n_outputs; o++) {
            const char *name = g->nodes[i].outputs[o];
            if (!*name)
                continue;
            if (prn_map_get(&s->origin, name) != PRN_MAP_NONE)
                return prn_fail(s->reader->err, PRONY_EFORMAT,
                                "graph '%s' defines '%s' twice, the second time as output of %s",
                                g->name, name, node_label(g, i, label));
            int code = define(s, name, i + 1);
            if (code < 0)
                return code;
        }
    return 0;
}

/* Looks outwards. UNSORTED for a name that comes too late. */
static int find_name(struct scope *s, const char *name, bool *ret_found)
{
    *ret_found = false;
    for (; s; s = s->outer) {
        size_t origin = prn_map_get(&s->origin, name);
        if (origin == PRN_MAP_NONE)
            continue;
        *ret_found = true;
        if (origin <= s->at)
            return 0;
        s->late = name;
        return UNSORTED;
    }
    return 0;
}

static int check_graph(struct prn_reader *r, const struct prn_graph *graph, struct scope *outer);

static int check_node(struct scope *s, const struct prn_node *node)
{
    for (size_t i = 0; i < node->n_inputs; i++) {
        bool found;
        int code = *node->inputs[i] ? find_name(s, node->inputs[i], &found) : 0;
        if (code != 0)
            return code;
        char label[NODE_LABEL_SIZE];
        if (*node->inputs[i] && !found)
            return prn_fail(s->reader->err, PRONY_EFORMAT, "nothing makes '%s', an input of %s",
                            node->inputs[i], node_label(s->graph, s->at, label));
    }
    for (size_t i = 0; i < node->n_attributes; i++) {
        const struct prn_attribute *a = &node->attributes[i];
        for (size_t g = 0; a->graphs && g < a->n; g++) {
            int code = check_graph(s->reader, a->graphs[g], s);
            if (code != 0)
                return code;
        }
    }
    return 0;
}

static int check_graph_outputs(struct scope *s)
{
    for (size_t i = 0; i < s->graph->n_outputs; i++) {
        bool found;
        int code = find_name(s, s->graph->outputs[i].name, &found);
        if (code != 0)
            return code;
        if (!found)
            return prn_fail(s->reader->err, PRONY_EFORMAT,
                            "nothing makes '%s', an output of graph '%s'",
                            s->graph->outputs[i].name, s->graph->name);
    }
    return 0;
}

static int check_names(struct scope *s)
{
    int code = define_inputs(s);
    if (code == 0)
        code = define_outputs(s);
    for (s->at = 0; code == 0 && s->at < s->graph->n_nodes; s->at += code == 0)
        code = check_node(s, &s->graph->nodes[s->at]);
    return code == 0 ? check_graph_outputs(s) : code;
}

static int check_graph(struct prn_reader *r, const struct prn_graph *graph, struct scope *outer)
{
    struct scope s = {.reader = r, .graph = graph, .outer = outer};
    int code = check_names(&s);
    if (code == UNSORTED && s.late) {
        code = note_misplaced(&s);
        if (code == 0)
            code = sort_nodes(&s);
        prn_map_release(&s.origin);
        s = (struct scope){.reader = r, .graph = graph, .outer = outer};
        if (code == 0)
            code = check_names(&s);
    }
    prn_map_release(&s.origin);
    return code;
}

/* ---- Functions ---- */

struct calls {
    const struct prn_model *model;
    struct prn_map by_name; /* "domain name" → index */
    struct prn_buffer key;
    int *depth; /* of calls below a function; 0: not known yet, -1: being found out */
    struct prony_error *err;
};

static const char *function_key(struct calls *c, const char *domain, const char *name)
{
    prn_buffer_clear(&c->key);
    prn_buffer_printf(&c->key, "%s %s", domain, name);
    return prn_buffer_text(&c->key);
}

static int call_depth(struct calls *c, size_t function, int level, int *ret_depth);

/* The deepest call among the nodes of a graph, graphs inside it included. */
static int deepest_call(struct calls *c, const struct prn_graph *graph, int level, int *deepest)
{
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const struct prn_node *node = &graph->nodes[i];
        size_t callee = prn_map_get(&c->by_name, function_key(c, node->domain, node->op_type));
        int depth = 0;
        int code = callee == PRN_MAP_NONE ? 0 : call_depth(c, callee, level + 1, &depth);
        if (code < 0)
            return code;
        *deepest = depth > *deepest ? depth : *deepest;
        for (size_t a = 0; a < node->n_attributes; a++)
            for (size_t g = 0; node->attributes[a].graphs && g < node->attributes[a].n; g++) {
                code = deepest_call(c, node->attributes[a].graphs[g], level, deepest);
                if (code < 0)
                    return code;
            }
    }
    return 0;
}

static int call_depth(struct calls *c, size_t function, int level, int *ret_depth)
{
    const struct prn_function *f = &c->model->functions[function];
    if (c->depth[function] < 0)
        return prn_fail(c->err, PRONY_EFORMAT, "function '%s' calls itself", f->name);
    if (c->depth[function] == 0) {
        int deepest = 0;
        c->depth[function] = -1;
        int code = level > PRN_READER_CALLS_MAX ? 0 : deepest_call(c, &f->body, level, &deepest);
        if (code < 0)
            return code;
        if (level > PRN_READER_CALLS_MAX || deepest >= PRN_READER_CALLS_MAX)
            return prn_fail(c->err, PRONY_ELIMIT, "functions call functions over %d levels deep",
                            PRN_READER_CALLS_MAX);
        c->depth[function] = deepest + 1;
    }
    *ret_depth = c->depth[function];
    return 0;
}

static int check_calls(const struct prn_model *model, struct prony_error *err)
{
    if (model->n_functions == 0)
        return 0;
    struct prn_arena arena = PRN_ARENA_INIT(PRN_READER_BYTES_MAX);
    struct calls c = {.model = model, .key = PRN_BUFFER_INIT(PRN_SCAN_STRUCTURE_MAX), .err = err};
    c.depth = PRN_ARENA_ARRAY(&arena, model->n_functions, int);
    int code = c.depth ? 0 : prn_fail_memory(err);
    for (size_t i = 0; i < model->n_functions && code == 0; i++) {
        const struct prn_function *f = &model->functions[i];
        const char *key = prn_arena_strdup(&arena, function_key(&c, f->domain, f->name));
        if (!key || prn_map_set(&c.by_name, key, i) < 0)
            code = prn_fail_memory(err);
    }
    for (size_t i = 0; i < model->n_functions && code == 0; i++) {
        int depth;
        code = call_depth(&c, i, 1, &depth);
    }
    prn_map_release(&c.by_name);
    prn_buffer_release(&c.key);
    prn_arena_release(&arena);
    return code;
}

int prn_model_check(struct prn_reader *r)
{
    const struct prn_model *model = r->model;
    int code = check_graph(r, &model->graph, NULL);
    for (size_t i = 0; i < model->n_functions && code == 0; i++)
        code = check_graph(r, &model->functions[i].body, NULL);
    return code == 0 ? check_calls(model, r->err) : code;
}
