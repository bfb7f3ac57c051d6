/* Which provider has which nodes, how long these take, and what is copied between devices. */
#include "measure/ops/ops.h"

#include <stdlib.h>
#include <string.h>

/* Nodes that the session adds to move tensors to another device and back. */
static bool is_copy(const char *op)
{
    return strcmp(op, "MemcpyToHost") == 0 || strcmp(op, "MemcpyFromHost") == 0;
}

static struct prn_ops_provider *find_provider(struct prn_ops *ops, const char *name)
{
    for (size_t i = 0; i < ops->n_providers; i++)
        if (strcmp(ops->providers[i].name, name) == 0)
            return &ops->providers[i];
    return NULL;
}

/* `most` is how many operators one may have. */
static int add(struct prn_ops *ops, const char *name, const char *op, int64_t nodes, size_t most,
               struct prn_arena *arena)
{
    struct prn_ops_provider *p = find_provider(ops, name);
    if (!p) {
        p = &ops->providers[ops->n_providers++];
        *p = (struct prn_ops_provider){.name = name};
        p->operators = PRN_ARENA_ARRAY(arena, most, struct prn_ops_placed);
        if (!p->operators)
            return PRONY_ENOMEM;
    }
    if (op[0] == '\0')
        return 0;
    p->nodes += nodes;
    p->operators[p->n_operators++] = (struct prn_ops_placed){op, nodes};
    return 0;
}

/* Its nodes as they ran, where the session doesn't tell of those of the model. */
static int add_seen(struct prn_ops *ops, size_t most, struct prn_arena *arena)
{
    int code = 0;
    for (size_t i = 0; code == 0 && i < ops->n_operators; i++) {
        const struct prn_ops_row *row = &ops->operators[i];
        if (row->provider && row->op && !is_copy(row->op))
            code = add(ops, row->provider, row->op, row->nodes, most, arena);
    }
    return code;
}

static void add_times(struct prn_ops *ops)
{
    for (size_t i = 0; i < ops->n_operators; i++) {
        const struct prn_ops_row *row = &ops->operators[i];
        struct prn_ops_provider *p = row->provider ? find_provider(ops, row->provider) : NULL;
        if (row->op && is_copy(row->op)) {
            ops->copies += row->calls;
            ops->copies_ns += row->ns.estimate;
        } else if (p) {
            p->ns += row->ns.estimate;
        }
    }
}

static int by_nodes(const void *a, const void *b)
{
    const struct prn_ops_placed *x = a;
    const struct prn_ops_placed *y = b;
    return x->nodes != y->nodes ? (x->nodes < y->nodes) - (x->nodes > y->nodes)
                                : strcmp(x->op, y->op);
}

bool prn_ops_is_cpu(const char *provider)
{
    return strcmp(provider, "CPUExecutionProvider") == 0;
}

int prn_ops_place(const struct prn_placed *rows, size_t n, struct prn_arena *arena,
                  struct prn_ops *ops, struct prony_error *err)
{
    const size_t most = n + ops->n_operators + 1;
    int code = 0;
    ops->providers = PRN_ARENA_ARRAY(arena, most, struct prn_ops_provider);
    if (!ops->providers)
        return prn_fail_memory(err);
    for (size_t i = 0; code == 0 && i < n; i++) {
        code = add(ops, rows[i].provider, rows[i].op, rows[i].nodes, most, arena);
        ops->assigned |= rows[i].nodes > 0;
    }
    if (code == 0 && !ops->assigned)
        code = add_seen(ops, most, arena);
    if (code < 0)
        return prn_fail_memory(err);
    add_times(ops);
    /* Where the CPU has all and nobody else was asked, there is nothing to tell. */
    if (ops->n_providers == 1 && prn_ops_is_cpu(ops->providers[0].name))
        ops->n_providers = 0;
    for (size_t i = 0; i < ops->n_providers; i++)
        qsort(ops->providers[i].operators, ops->providers[i].n_operators,
              sizeof *ops->providers[i].operators, by_nodes);
    return 0;
}
