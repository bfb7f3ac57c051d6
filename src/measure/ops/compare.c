/*
 * Why a backend is slower: what each operator and each node takes here and there. Both are named by
 * the ONNX graph where that is known, because two runtimes, or two levels of optimisation, call the
 * same work by different names.
 */
#include "measure/ops/ops.h"

#include "base/map.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define KEY_MAX ((size_t)1 << 20)

/* Changes by key while they are added up. */
struct changes {
    struct prn_arena *arena;
    struct prn_map by_key;
    struct prn_ops_change *items;
    size_t n;
};

static int add(struct changes *c, const char *key, const char *name, double ns, bool baseline)
{
    size_t i = prn_map_get(&c->by_key, key);
    if (i == PRN_MAP_NONE) {
        const char *copy = prn_arena_strdup(c->arena, key);
        i = c->n++;
        if (!copy || prn_map_set(&c->by_key, copy, i) < 0)
            return PRONY_ENOMEM;
        c->items[i] = (struct prn_ops_change){.name = name};
    }
    *(baseline ? &c->items[i].baseline_ns : &c->items[i].ns) += ns;
    return 0;
}

static int add_operators(struct changes *c, const struct prn_ops *ops, bool baseline)
{
    int code = 0;
    for (size_t i = 0; code == 0 && i < ops->n_nodes; i++) {
        const struct prn_ops_row *node = &ops->nodes[i];
        const char *op = node->onnx_op ? node->onnx_op : prn_ops_onnx_operator(node->op);
        code = add(c, op, op, node->ns.estimate, baseline);
    }
    const struct prn_interval *ledger = ops->ledger;
    if (code == 0 && ops->has_ledger)
        code = add(c, PRN_OPS_OUTSIDE, PRN_OPS_OUTSIDE,
                   fmax(0, ledger[PRN_LEDGER_TOTAL].estimate - ledger[PRN_LEDGER_NODE].estimate),
                   baseline);
    return code;
}

static int add_nodes(struct changes *c, const struct prn_ops *ops, bool baseline)
{
    struct prn_buffer key = PRN_BUFFER_INIT(KEY_MAX);
    int code = 0;
    for (size_t i = 0; code == 0 && i < ops->n_nodes; i++) {
        const struct prn_ops_row *node = &ops->nodes[i];
        bool known = node->onnx_node >= 0;
        prn_buffer_clear(&key);
        if (known)
            prn_buffer_printf(&key, "%lld", (long long)node->onnx_node);
        else
            prn_buffer_printf(&key, "%s\n%s", node->op, node->name);
        code = key.error;
        if (code == 0)
            code = add(c, prn_buffer_text(&key),
                       known && node->onnx_name[0] ? node->onnx_name : node->name,
                       node->ns.estimate, baseline);
    }
    prn_buffer_release(&key);
    return code;
}

static int by_difference(const void *a, const void *b)
{
    const struct prn_ops_change *x = a;
    const struct prn_ops_change *y = b;
    double dx = fabs(x->ns - x->baseline_ns);
    double dy = fabs(y->ns - y->baseline_ns);
    return dx != dy ? (dx < dy) - (dx > dy) : strcmp(x->name, y->name);
}

typedef int add_fn(struct changes *c, const struct prn_ops *ops, bool baseline);

static int compare(const struct prn_ops *ops, const struct prn_ops *baseline, add_fn *add_rows,
                   struct prn_arena *arena, struct prn_ops_change **ret_changes, size_t *ret_n)
{
    struct changes c = {.arena = arena,
                        .items = PRN_ARENA_ARRAY(arena, ops->n_nodes + baseline->n_nodes + 1,
                                                 struct prn_ops_change)};
    int code = c.items ? add_rows(&c, ops, false) : PRONY_ENOMEM;
    if (code == 0)
        code = add_rows(&c, baseline, true);
    prn_map_release(&c.by_key);
    if (code < 0)
        return code;
    qsort(c.items, c.n, sizeof *c.items, by_difference);
    *ret_changes = c.items;
    *ret_n = c.n;
    return 0;
}

static const struct prn_ops *shown(const struct prn_result *r)
{
    return r->error_code == 0 && r->n_samples > 0 && r->ops && !r->ops->error ? r->ops : NULL;
}

/* The fastest of those that were fed the same. */
static size_t fastest(const struct prn_profile *profile, size_t point)
{
    size_t best = SIZE_MAX;
    for (size_t i = 0; i < profile->n_results; i++) {
        const struct prn_result *r = &profile->results[i];
        if (r->point != point || r->error_code != 0 || r->n_samples == 0)
            continue;
        if (best == SIZE_MAX || r->stats.median_ns < profile->results[best].stats.median_ns)
            best = i;
    }
    return best;
}

int prn_ops_compare(struct prn_profile *profile, struct prony_error *err)
{
    for (size_t i = 0; i < profile->n_results; i++) {
        struct prn_ops *ops = profile->results[i].ops;
        size_t best = fastest(profile, profile->results[i].point);
        const struct prn_ops *baseline =
            best != SIZE_MAX && best != i ? shown(&profile->results[best]) : NULL;
        if (!baseline || !shown(&profile->results[i]))
            continue;
        if (compare(ops, baseline, add_operators, &profile->arena, &ops->operator_changes,
                    &ops->n_operator_changes) < 0 ||
            compare(ops, baseline, add_nodes, &profile->arena, &ops->node_changes,
                    &ops->n_node_changes) < 0)
            return prn_fail_memory(err);
        ops->baseline = (int64_t)best;
    }
    return 0;
}
