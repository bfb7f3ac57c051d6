/*
 * From places to layers: which nodes, weights and tensors each one has, and what work it is.
 */
#include "model/cut/parts.h"

#include "base/array.h"

#include <stdlib.h>

/* Indices of all layers, one behind the other. */
struct list {
    size_t *items;
    size_t n;
};

struct layering {
    const struct prn_cut_graph *g;
    const struct prn_cut_plan *plan;
    struct prn_cut_shapes *shapes;
    struct prn_arena *arena;  /* of the result */
    struct prn_layer *layers; /* and, behind them, the whole */
    size_t n_layers;
    struct prn_cut_walk walk;
    size_t *constant_of; /* by constant: the last layer that reads it, + 1 */
    struct list nodes, constants;
};

static int append(struct layering *l, struct list *list, size_t item)
{
    if (l->nodes.n + l->constants.n == PRN_CUT_ENTRIES_MAX)
        return prn_fail(l->g->err, PRONY_ELIMIT,
                        "cannot cut '%s': its layers would have more than %zu nodes and weights "
                        "together, because many compute or read the same ones",
                        l->g->model->path, PRN_CUT_ENTRIES_MAX);
    size_t *items = prn_array_grow(list->items, list->n, sizeof *items);
    if (!items)
        return prn_fail_memory(l->g->err);
    list->items = items;
    items[list->n++] = item;
    return 0;
}

/* ---- Nodes and weights ---- */

static int add_constant(struct layering *l, size_t layer, size_t index)
{
    const struct prn_constant *c = &l->g->model->graph.constants[index];
    if (l->constant_of[index] == layer + 1)
        return 0;
    l->constant_of[index] = layer + 1;
    l->layers[layer].n_constants++;
    if (prn_constant_is_weight(c))
        l->layers[layer].n_parameters += (uint64_t)c->elements;
    l->layers[layer].weight_bytes += c->bytes;
    return append(l, &l->constants, index);
}

struct visit {
    struct layering *l;
    size_t layer;
};

static int add_node(void *context, size_t node)
{
    struct visit *v = context;
    const struct prn_cut_graph *g = v->l->g;
    const struct prn_cut_node *own = &g->nodes[node];
    const struct prn_node_work *work = &g->work->nodes[node];
    struct prn_layer *layer = &v->l->layers[v->layer];
    int code = append(v->l, &v->l->nodes, node);
    layer->n_nodes++;
    layer->n_parameters += own->own_parameters;
    layer->weight_bytes += own->own_bytes;
    layer->flops += work->flops;
    layer->bytes += work->bytes;
    layer->n_uncounted += !work->counted;
    for (size_t i = 0; i < own->n_reads && code == 0; i++) {
        size_t id = g->reads[own->reads + i];
        if (id < g->first_input)
            code = add_constant(v->l, v->layer, id);
    }
    return code;
}

/* The nodes of a layer, each behind those that it needs and that are computed again here. */
static int fill_nodes(struct layering *l, size_t layer, size_t from, size_t to)
{
    struct visit v = {l, layer};
    size_t first = l->nodes.n;
    int code = 0;
    for (size_t at = from; at < to && code == 0; at++)
        code = prn_cut_walk_from(l->g, &l->walk, l->plan->order.nodes[at], true, add_node, &v);
    for (size_t i = first; i < l->nodes.n; i++)
        l->walk.seen[l->nodes.items[i]] = false;
    return code;
}

static size_t layer_begin(const struct prn_cut_plan *p, size_t layer)
{
    return layer == 0 ? 0 : p->cuts[layer - 1];
}

static size_t layer_end(const struct prn_cut_plan *p, size_t layer)
{
    return layer < p->n_cuts ? p->cuts[layer] : p->order.n;
}

/* The first of the cuts that isn't before `place`. */
static size_t find_cut(const struct prn_cut_plan *p, size_t place)
{
    size_t low = 0;
    size_t high = p->n_cuts;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (p->cuts[middle] < place)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The lists have stopped growing: layers can point into them. Copied, so that one arena holds all.
 */
static int share_lists(struct layering *l)
{
    size_t *nodes = PRN_ARENA_ARRAY(l->arena, l->nodes.n + 1, size_t);
    size_t *constants = PRN_ARENA_ARRAY(l->arena, l->constants.n + 1, size_t);
    if (!nodes || !constants)
        return prn_fail_memory(l->g->err);
    for (size_t i = 0; i < l->nodes.n; i++)
        nodes[i] = l->nodes.items[i];
    for (size_t i = 0; i < l->constants.n; i++)
        constants[i] = l->constants.items[i];
    for (size_t i = 0; i <= l->n_layers; i++) {
        l->layers[i].nodes = nodes;
        l->layers[i].constants = constants;
        nodes += l->layers[i].n_nodes;
        constants += l->layers[i].n_constants;
    }
    return 0;
}

/* ---- What passes ---- */

struct passing {
    struct layering *l;
    const struct prn_cut_tensor ***in;  /* by layer; writable views of layers[].in */
    const struct prn_cut_tensor **made; /* a writable view of what the whole gives */
};

static int pass(struct passing *p, size_t id)
{
    const struct prn_cut_plan *plan = p->l->plan;
    const struct prn_cut_span *span = &plan->spans[id];
    const struct prn_cut_tensor *tensor = NULL;
    for (size_t c = find_cut(plan, span->from); c < plan->n_cuts && plan->cuts[c] <= span->to;
         c++) {
        int code = prn_cut_shapes_tensor(p->l->shapes, id, p->l->arena, &tensor);
        if (code < 0)
            return code;
        p->in[c + 1][p->l->layers[c + 1].n_in++] = tensor;
    }
    if (tensor && p->l->g->values[id].node != PRN_CUT_NONE)
        p->made[p->l->layers[p->l->n_layers].n_out++] = tensor;
    return 0;
}

static int pass_all(struct passing *p)
{
    const struct prn_cut_graph *g = p->l->g;
    int code = 0;
    for (size_t at = p->l->plan->order.n; at-- > 0 && code == 0;) {
        size_t node = p->l->plan->order.nodes[at];
        for (size_t o = 0; o < g->model->graph.nodes[node].n_outputs && code == 0; o++)
            code = pass(p, g->nodes[node].outputs + o);
    }
    for (size_t id = g->first_input; id < g->first_output && code == 0; id++)
        code = pass(p, id);
    return code;
}

static int fill_passing(struct layering *l)
{
    const struct prn_cut_graph *g = l->g;
    size_t n = g->model->n_inputs;
    for (size_t c = 0; c < l->plan->n_cuts && n <= PRN_CUT_ENTRIES_MAX; c++)
        n += l->plan->loads[l->plan->cuts[c]].tensors;
    if (n > PRN_CUT_ENTRIES_MAX)
        return prn_fail(g->err, PRONY_ELIMIT,
                        "cannot cut '%s': more than %zu tensors would pass the cuts together",
                        g->model->path, PRN_CUT_ENTRIES_MAX);
    struct passing p = {l, PRN_ARENA_ARRAY(g->arena, l->n_layers, const struct prn_cut_tensor **),
                        PRN_ARENA_ARRAY(l->arena, n + 1, const struct prn_cut_tensor *)};
    const struct prn_cut_tensor **in =
        PRN_ARENA_ARRAY(l->arena, n + 1, const struct prn_cut_tensor *);
    if (!p.in || !p.made || !in)
        return prn_fail_memory(g->err);
    for (size_t i = 0; i < l->n_layers; i++) {
        l->layers[i].in = p.in[i] = in;
        in += i == 0 ? g->model->n_inputs : l->plan->loads[l->plan->cuts[i - 1]].tensors;
    }
    int code = 0;
    for (size_t i = 0; i < g->model->n_inputs && code == 0; i++)
        code = prn_cut_shapes_tensor(l->shapes, g->first_input + i, l->arena, &p.in[0][i]);
    l->layers[0].n_in = g->model->n_inputs;
    struct prn_layer *whole = &l->layers[l->n_layers];
    whole->in = l->layers[0].in;
    whole->n_in = l->layers[0].n_in;
    whole->out = p.made;
    if (code == 0)
        code = pass_all(&p);
    for (size_t i = 1; i < l->n_layers; i++) {
        l->layers[i - 1].out = l->layers[i].in;
        l->layers[i - 1].n_out = l->layers[i].n_in;
    }
    return code;
}

/* ---- Results ---- */

/* The layer that computes an output of the model; the first one gives what needs no computing. */
static size_t layer_of_result(const struct layering *l, size_t id)
{
    size_t node = l->g->values[id].node;
    return node == PRN_CUT_NONE ? 0 : find_cut(l->plan, l->plan->order.at[node] + 1);
}

static int fill_results(struct layering *l)
{
    const struct prn_graph *graph = &l->g->model->graph;
    size_t *ids = PRN_ARENA_ARRAY(l->g->arena, graph->n_outputs + 1, size_t);
    bool *seen = PRN_ARENA_ARRAY(l->g->arena, l->g->n_values + 1, bool);
    const struct prn_cut_tensor **all =
        PRN_ARENA_ARRAY(l->arena, graph->n_outputs + 1, const struct prn_cut_tensor *);
    size_t n = 0;
    if (!ids || !seen || !all)
        return prn_fail_memory(l->g->err);
    for (size_t i = 0; i < graph->n_outputs; i++) {
        size_t id = prn_map_get(&l->g->by_name, graph->outputs[i].name);
        if (id == PRN_MAP_NONE || seen[id])
            continue;
        seen[id] = true;
        ids[n++] = id;
        l->layers[layer_of_result(l, id)].n_results++;
    }
    const struct prn_cut_tensor ***next =
        PRN_ARENA_ARRAY(l->g->arena, l->n_layers, const struct prn_cut_tensor **);
    if (!next)
        return prn_fail_memory(l->g->err);
    for (size_t i = 0; i < l->n_layers; i++) {
        l->layers[i].results = next[i] = all;
        all += l->layers[i].n_results;
    }
    for (size_t i = 0; i < n; i++) {
        size_t layer = layer_of_result(l, ids[i]);
        int code = prn_cut_shapes_tensor(l->shapes, ids[i], l->arena, next[layer]++);
        if (code == 0 && ids[i] < l->g->first_input)
            code = add_constant(l, layer, ids[i]);
        if (code < 0)
            return code;
    }
    l->layers[l->n_layers].results = l->layers[0].results;
    l->layers[l->n_layers].n_results = n;
    return 0;
}

/* The whole has all nodes, in the order of the layers, and what it gives is theirs. */
static int fill_whole(struct layering *l)
{
    const struct prn_layer *first = &l->layers[0];
    int code = fill_nodes(l, l->n_layers, 0, l->plan->order.n);
    for (size_t i = 0; i < first->n_results && code == 0; i++) {
        size_t id = prn_map_get(&l->g->by_name, first->results[i]->value.name);
        if (id < l->g->first_input)
            code = add_constant(l, l->n_layers, id);
    }
    return code;
}

/* ---- All of it ---- */

static int fill_layers(struct layering *l)
{
    const struct prn_cut_graph *g = l->g;
    l->n_layers = l->plan->n_cuts + 1;
    l->layers = PRN_ARENA_ARRAY(l->arena, l->n_layers + 1, struct prn_layer);
    l->constant_of = PRN_ARENA_ARRAY(g->arena, g->first_input + 1, size_t);
    if (!l->layers || !l->constant_of)
        return prn_fail_memory(g->err);
    int code = prn_cut_walk_init(g, &l->walk);
    /* Constants that are outputs belong to the first layer, so they come before the others'. */
    if (code == 0)
        code = fill_results(l);
    for (size_t i = 0; i < l->n_layers && code == 0; i++)
        code = fill_nodes(l, i, layer_begin(l->plan, i), layer_end(l->plan, i));
    if (code == 0)
        code = fill_whole(l);
    if (code == 0)
        code = share_lists(l);
    return code == 0 ? fill_passing(l) : code;
}

static int find(struct prn_cut_graph *g, const struct prn_cut_options *options,
                struct prn_cut_set *set)
{
    struct prn_cut_plan plan = {0};
    struct layering l = {.g = g, .plan = &plan, .arena = &set->arena};
    int code = prn_cut_graph_build(g);
    if (code == 0)
        code = prn_cut_plan_make(g, options, &plan);
    if (code == 0)
        code = prn_cut_shapes_new(g, &l.shapes);
    if (code == 0)
        code = fill_layers(&l);
    set->cuts = (struct prn_cuts){.n_layers = l.n_layers, .hint = plan.hint, .layers = l.layers};
    prn_cut_shapes_free(l.shapes);
    free(l.nodes.items);
    free(l.constants.items);
    return code;
}

int prn_cuts_find(const struct prn_model *model, const struct prn_input *inputs,
                  const struct prn_work *work, const struct prn_cut_options *options,
                  struct prn_cuts **ret_cuts, struct prony_error *err)
{
    struct prn_arena scratch = PRN_ARENA_INIT(PRN_CUT_BYTES_MAX);
    struct prn_cut_graph g = {
        .model = model, .inputs = inputs, .work = work, .arena = &scratch, .err = err};
    struct prn_cut_set *set = calloc(1, sizeof *set);
    if (!set)
        return prn_fail_memory(err);
    set->model = model;
    set->arena = PRN_ARENA_INIT(PRN_CUT_BYTES_MAX);
    int code = find(&g, options, set);
    prn_cut_graph_release(&g);
    prn_arena_release(&scratch);
    if (code < 0)
        prn_cuts_free(&set->cuts);
    else
        *ret_cuts = &set->cuts;
    return code;
}

void prn_cuts_free(struct prn_cuts *cuts)
{
    if (!cuts)
        return;
    struct prn_cut_set *set = (struct prn_cut_set *)cuts;
    prn_cut_file_free(set->file);
    prn_arena_release(&set->arena);
    free(set);
}

const struct prn_cut_tensor *const *prn_layer_given(const struct prn_layer *layer, size_t *ret_n)
{
    *ret_n = layer->n_out > 0 ? layer->n_out : layer->n_results;
    return layer->n_out > 0 ? layer->out : layer->results;
}

double prn_cut_elements(const struct prn_cut_tensor *const *tensors, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += tensors[i]->elements;
    return sum;
}

double prn_cut_bytes(const struct prn_cut_tensor *const *tensors, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += tensors[i]->bytes;
    return sum;
}
