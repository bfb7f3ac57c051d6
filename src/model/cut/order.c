/*
 * In which order nodes run. The file's own order may interleave branches, so that more is alive
 * between two nodes than need be. Depth first, from the model's outputs backwards, a branch is
 * finished before the next one begins and side computations stand right before their use. Which of
 * the two is better depends on the model; place.c tries both.
 */
#include "model/cut/parts.h"

int prn_cut_walk_init(const struct prn_cut_graph *g, struct prn_cut_walk *ret)
{
    size_t n = g->model->graph.n_nodes + 1;
    *ret = (struct prn_cut_walk){.stack = PRN_ARENA_ARRAY(g->arena, n, size_t),
                                 .cursor = PRN_ARENA_ARRAY(g->arena, n, size_t),
                                 .seen = PRN_ARENA_ARRAY(g->arena, n, bool)};
    return ret->stack && ret->cursor && ret->seen ? 0 : prn_fail_memory(g->err);
}

/* The next node that `node` reads from and that wasn't seen; PRN_CUT_NONE when there is none. */
static size_t next_read(const struct prn_cut_graph *g, struct prn_cut_walk *w, size_t node,
                        bool only_recomputed)
{
    const struct prn_cut_node *own = &g->nodes[node];
    while (w->cursor[node] < own->n_reads) {
        size_t made_by = g->values[g->reads[own->reads + w->cursor[node]++]].node;
        if (made_by != PRN_CUT_NONE && !w->seen[made_by] &&
            (!only_recomputed || g->nodes[made_by].recomputed))
            return made_by;
    }
    return PRN_CUT_NONE;
}

int prn_cut_walk_from(const struct prn_cut_graph *g, struct prn_cut_walk *w, size_t node,
                      bool only_recomputed, prn_cut_visit *visit, void *context)
{
    size_t depth = 0;
    if (w->seen[node])
        return 0;
    w->seen[node] = true;
    w->cursor[node] = 0;
    w->stack[depth++] = node;
    while (depth > 0) {
        size_t top = w->stack[depth - 1];
        size_t next = next_read(g, w, top, only_recomputed);
        if (next != PRN_CUT_NONE) {
            w->seen[next] = true;
            w->cursor[next] = 0;
            w->stack[depth++] = next;
            continue;
        }
        depth--;
        int code = visit(context, top);
        if (code < 0)
            return code;
    }
    return 0;
}

static int order_init(const struct prn_cut_graph *g, struct prn_cut_order *order)
{
    size_t n = g->model->graph.n_nodes;
    *order = (struct prn_cut_order){.nodes = PRN_ARENA_ARRAY(g->arena, n + 1, size_t),
                                    .at = PRN_ARENA_ARRAY(g->arena, n + 1, size_t)};
    if (!order->nodes || !order->at)
        return prn_fail_memory(g->err);
    for (size_t i = 0; i < n; i++)
        order->at[i] = PRN_CUT_NONE;
    return 0;
}

struct ordering {
    const struct prn_cut_graph *g;
    struct prn_cut_order *order;
};

static int place_node(void *context, size_t node)
{
    struct ordering *o = context;
    if (o->g->nodes[node].needed && !o->g->nodes[node].recomputed) {
        o->order->at[node] = o->order->n;
        o->order->nodes[o->order->n++] = node;
    }
    return 0;
}

int prn_cut_order_file(const struct prn_cut_graph *g, struct prn_cut_order *ret_order)
{
    struct prn_cut_order order;
    struct ordering ordering = {g, &order};
    int code = order_init(g, &order);
    for (size_t i = 0; i < g->model->graph.n_nodes && code == 0; i++)
        code = place_node(&ordering, i);
    if (code == 0)
        *ret_order = order;
    return code;
}

int prn_cut_order_depth(const struct prn_cut_graph *g, struct prn_cut_order *ret_order)
{
    struct prn_cut_order order;
    struct prn_cut_walk walk;
    struct ordering ordering = {g, &order};
    int code = order_init(g, &order);
    if (code == 0)
        code = prn_cut_walk_init(g, &walk);
    /* Early outputs first: one that hangs off the middle of the model is computed there. */
    for (size_t id = g->first_output; id < g->n_values && code == 0; id++)
        if (g->values[id].result)
            code = prn_cut_walk_from(g, &walk, g->values[id].node, false, place_node, &ordering);
    if (code == 0)
        *ret_order = order;
    return code;
}
