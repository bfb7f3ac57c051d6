#include "trace/compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SIGNIFICANT 0.05
#define SEED 1

/* Times are cut to whole µs: the standard deviation of what is lost, in ns. */
#define ROUNDING_NS 288.7

const char *prn_trace_verdict_name(enum prn_trace_verdict verdict)
{
    static const char *const names[] = {
        [PRN_TRACE_NOT_SHOWN] = "not shown",
        [PRN_TRACE_SLOWER] = "slower",
        [PRN_TRACE_FASTER] = "faster",
        [PRN_TRACE_ONLY_A] = "only in the first",
        [PRN_TRACE_ONLY_B] = "only in the second",
        [PRN_TRACE_TOO_FEW_RUNS] = "too few runs",
    };
    return names[verdict];
}

/* ---- Matching ---- */

/* Equal keys in two traces are different pointers, but the same text. */
static const char *key_text(const struct prn_trace_key *key, struct prn_arena *arena,
                            size_t *ret_len)
{
    const struct prn_symbol *parts[] = {key->node, key->op, key->provider, key->shape,
                                        key->dimensions};
    size_t len = 0;
    for (size_t i = 0; i < PRN_ARRAY_SIZE(parts); i++)
        len += (parts[i] ? parts[i]->len + 1 : 0) + 1;
    char *text = prn_arena_alloc(arena, len);
    char *p = text;
    for (size_t i = 0; text && i < PRN_ARRAY_SIZE(parts); i++) {
        if (parts[i]) {
            *p++ = '='; /* an empty text isn't an absent one */
            memcpy(p, parts[i]->text, parts[i]->len);
            p += parts[i]->len;
        }
        *p++ = '\0';
    }
    *ret_len = len;
    return text;
}

/* One row per key of either table. */
static int match(const struct prn_trace_table *a, const struct prn_trace_table *b,
                 struct prn_trace_difference **ret_rows, size_t *ret_n, struct prony_error *err)
{
    const struct prn_trace_table *tables[] = {a, b};
    struct prn_arena arena = PRN_ARENA_INIT((size_t)256 << 20);
    struct prn_map seen = PRN_MAP_INIT;
    struct prn_trace_difference *rows = calloc(a->n + b->n + 1, sizeof *rows);
    size_t n = 0;
    int code = rows ? 0 : PRONY_ENOMEM;
    for (size_t side = 0; side < 2; side++)
        for (size_t i = 0; code == 0 && i < tables[side]->n; i++) {
            const struct prn_trace_group *group = tables[side]->groups[i];
            if (group->total.count == 0)
                continue;
            size_t len;
            const char *key = key_text(&group->key, &arena, &len);
            size_t at = key ? prn_map_get_n(&seen, key, len) : 0;
            if (!key || (at == PRN_MAP_NONE && prn_map_set_n(&seen, key, len, n) < 0)) {
                code = PRONY_ENOMEM;
                break;
            }
            if (at == PRN_MAP_NONE) {
                at = n++;
                rows[at].key = &group->key;
            }
            *(side == 0 ? &rows[at].a : &rows[at].b) = group;
        }
    prn_map_release(&seen);
    prn_arena_release(&arena);
    if (code < 0) {
        free(rows);
        return prn_fail_memory(err);
    }
    *ret_rows = rows;
    *ret_n = n;
    return 0;
}

/* ---- Differences ---- */

static double per_run(const struct prn_trace_group *group)
{
    return (double)group->total.count / (double)group->per_run.count;
}

/* A machine that is slow now is slow in the next run too, so runs are worth less than their
 * number. */
static double persistence_of(const struct prn_trace_order *order)
{
    double ns[PRN_TRACE_ORDER_MAX];
    for (size_t i = 0; i < order->n; i++)
        ns[i] = order->ns[i];
    double persistence = prn_stats_persistence(ns, order->n);
    return isnan(persistence) ? 1 : persistence;
}

/* One side of a row. */
struct side {
    const struct prn_sketch *per_run;
    const struct prn_trace_order *order;
};

static void fill_row(struct prn_trace_difference *row, struct side a, struct side b, double events)
{
    const double persistence[] = {persistence_of(a.order), persistence_of(b.order)};
    struct prn_ratio r = prn_sketch_median_ratio(a.per_run, b.per_run, ROUNDING_NS * sqrt(events),
                                                 SEED, persistence);
    row->median_a_ns = prn_sketch_quantile(a.per_run, 0.5);
    row->median_b_ns = prn_sketch_quantile(b.per_run, 0.5);
    row->ratio = r.ratio;
    row->p = r.p;
}

static void compare_row(struct prn_trace_difference *row)
{
    if (row->a && row->b) {
        struct side a = {&row->a->per_run, &row->a->order};
        struct side b = {&row->b->per_run, &row->b->order};
        fill_row(row, a, b, fmax(per_run(row->a), per_run(row->b)));
        return;
    }
    row->verdict = row->a ? PRN_TRACE_ONLY_A : PRN_TRACE_ONLY_B;
    row->median_a_ns = row->a ? prn_sketch_quantile(&row->a->per_run, 0.5) : 0;
    row->median_b_ns = row->b ? prn_sketch_quantile(&row->b->per_run, 0.5) : 0;
    row->ratio = (struct prn_interval){NAN, NAN, NAN};
    row->p = NAN;
}

double prn_trace_smallest_difference(const struct prn_trace_difference *row)
{
    return prn_stats_process_difference(fmin(row->median_a_ns, row->median_b_ns));
}

/* Too few runs have neither interval nor p. */
static enum prn_trace_verdict judge(struct prn_trace_difference *row, bool enough)
{
    if (!enough) {
        row->ratio.low = row->ratio.high = row->p = NAN;
        return PRN_TRACE_TOO_FEW_RUNS;
    }
    const double most = 1 + prn_trace_smallest_difference(row);
    /* A ratio to 0 has no interval. */
    bool shown = row->p < SIGNIFICANT;
    if (shown && (row->ratio.low > most || isinf(row->ratio.estimate)))
        return PRN_TRACE_SLOWER;
    if (shown && (row->ratio.high < 1 / most || row->ratio.estimate == 0))
        return PRN_TRACE_FASTER;
    return PRN_TRACE_NOT_SHOWN;
}

/* Many rows, so some differ by chance: the p of all are corrected together. */
static int correct(struct prn_trace_difference *rows, size_t n, bool enough,
                   struct prony_error *err)
{
    double *p = calloc(2 * n + 1, sizeof *p);
    if (!p)
        return prn_fail_memory(err);
    for (size_t i = 0; i < n; i++)
        p[i] = rows[i].p;
    int code = prn_stats_holm(p, n, p + n);
    for (size_t i = 0; code == 0 && i < n; i++) {
        rows[i].p = p[n + i];
        if (rows[i].a && rows[i].b)
            rows[i].verdict = judge(&rows[i], enough);
    }
    free(p);
    return code < 0 ? prn_fail_memory(err) : 0;
}

static const char *text_of(const struct prn_symbol *symbol)
{
    return symbol ? symbol->text : "";
}

static int by_difference(const void *a, const void *b)
{
    const struct prn_trace_difference *x = a;
    const struct prn_trace_difference *y = b;
    double dx = fabs(x->median_b_ns - x->median_a_ns);
    double dy = fabs(y->median_b_ns - y->median_a_ns);
    if (dx != dy)
        return dx < dy ? 1 : -1;
    int order = strcmp(text_of(x->key->node), text_of(y->key->node));
    return order ? order : strcmp(text_of(x->key->op), text_of(y->key->op));
}

int prn_trace_compare(const struct prn_trace *a, const struct prn_trace *b,
                      struct prn_trace_comparison *ret_comparison, struct prony_error *err)
{
    struct prn_trace_comparison c = {.has_run = a->has_ledger && b->has_ledger};
    bool enough =
        a->n_selected >= PRN_TRACE_COMPARE_RUNS_MIN && b->n_selected >= PRN_TRACE_COMPARE_RUNS_MIN;
    int code = 0;
    if (c.has_run) {
        struct side whole_a = {&a->ledger[PRN_LEDGER_TOTAL], &a->order};
        struct side whole_b = {&b->ledger[PRN_LEDGER_TOTAL], &b->order};
        fill_row(&c.run, whole_a, whole_b, 1);
        c.run.verdict = judge(&c.run, enough);
    }
    const struct prn_trace_table *tables[PRN_TRACE_COMPARED][2] = {
        {&a->cpu[0], &b->cpu[0]},
        {&a->cpu[1], &b->cpu[1]},
        [PRN_TRACE_COMPARED_GPU] = {&a->gpu, &b->gpu},
    };
    for (size_t i = 0; code == 0 && i < PRN_TRACE_COMPARED; i++) {
        code = match(tables[i][0], tables[i][1], &c.rows[i], &c.n[i], err);
        for (size_t row = 0; code == 0 && row < c.n[i]; row++)
            compare_row(&c.rows[i][row]);
        if (code == 0)
            code = correct(c.rows[i], c.n[i], enough, err);
        if (code == 0)
            qsort(c.rows[i], c.n[i], sizeof *c.rows[i], by_difference);
    }
    if (code < 0)
        prn_trace_comparison_release(&c);
    else
        *ret_comparison = c;
    return code;
}

void prn_trace_comparison_release(struct prn_trace_comparison *c)
{
    for (size_t i = 0; i < PRN_TRACE_COMPARED; i++)
        free(c->rows[i]);
    *c = (struct prn_trace_comparison){0};
}
