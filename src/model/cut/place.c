/*
 * Where the cuts go. Of every tensor it is known from where to where it is alive, so what is alive
 * at each place of an order comes out of one sweep, and each place is looked at once.
 */
#include "model/cut/parts.h"

#include "base/text.h"

#include <stdio.h>

/* ---- What is alive where ---- */

static void use(struct prn_cut_span *span, size_t first, size_t last)
{
    if (first < span->first_use)
        span->first_use = first;
    if (last > span->to)
        span->to = last;
}

/* Readers come later in the file than what they read, so backwards every span is complete when the
 * node that makes the tensor comes. A node that is computed again passes its own uses on. */
static void find_spans(const struct prn_cut_graph *g, struct prn_cut_plan *p)
{
    for (size_t id = 0; id < g->n_values; id++) {
        size_t made_by = g->values[id].node;
        size_t at = made_by == PRN_CUT_NONE ? 0 : p->order.at[made_by];
        bool never = g->values[id].constant || at == PRN_CUT_NONE;
        p->spans[id] = (struct prn_cut_span){.from = never                     ? PRN_CUT_NONE
                                                     : made_by == PRN_CUT_NONE ? 1
                                                                               : at + 1,
                                             .first_use = PRN_CUT_NONE};
    }
    for (size_t i = g->model->graph.n_nodes; i-- > 0;) {
        const struct prn_cut_node *node = &g->nodes[i];
        struct prn_cut_span own = {.first_use = p->order.at[i], .to = p->order.at[i]};
        if (!node->needed)
            continue;
        if (node->recomputed) {
            own = (struct prn_cut_span){.first_use = PRN_CUT_NONE};
            for (size_t o = 0; o < g->model->graph.nodes[i].n_outputs; o++)
                use(&own, p->spans[node->outputs + o].first_use, p->spans[node->outputs + o].to);
        }
        for (size_t k = 0; own.first_use != PRN_CUT_NONE && k < node->n_reads; k++)
            use(&p->spans[g->reads[node->reads + k]], own.first_use, own.to);
    }
}

/* Differences first, then their running sum; unsigned numbers may wrap on the way. */
static void find_loads(const struct prn_cut_graph *g, struct prn_cut_plan *p)
{
    for (size_t id = 0; id < g->n_values; id++) {
        const struct prn_cut_value *value = &g->values[id];
        const struct prn_cut_span *span = &p->spans[id];
        if (span->from > span->to)
            continue;
        struct prn_cut_load *begin = &p->loads[span->from];
        struct prn_cut_load *end = &p->loads[span->to + 1];
        begin->tensors++;
        end->tensors--;
        begin->bytes += value->bytes;
        end->bytes -= value->bytes;
        begin->unsized += !value->sized;
        end->unsized -= !value->sized;
        begin->barred += !value->passable;
        end->barred -= !value->passable;
    }
    for (size_t c = 1; c <= p->order.n; c++) {
        struct prn_cut_load *load = &p->loads[c];
        load->tensors += load[-1].tensors;
        load->bytes += load[-1].bytes;
        load->unsized += load[-1].unsized;
        load->barred += load[-1].barred;
    }
}

/* Of sizes only the power of two matters; what isn't known counts as large. */
#define UNSIZED 63
#define TINY_BITS 7
/* More tiny tensors than these count like others: each has to be handed on, after all. */
#define TINY_MAX 8

static unsigned size_class(uint64_t bytes)
{
    return bytes > 0 ? 64 - (unsigned)__builtin_clzll(bytes) : 0;
}

static unsigned class_of(const struct prn_cut_value *value)
{
    return value->sized ? size_class(value->bytes) : UNSIZED;
}

/* Counts tensors that aren't tiny: beside a tiny one, another of 64 times its bytes is alive. There
 * are lists of those that begin and end at each cut, and it is known how many of each size are
 * alive, so each is looked at twice. */
static int find_heavy(const struct prn_cut_graph *g, struct prn_cut_plan *p)
{
    size_t n = p->order.n + 2;
    size_t *begins = PRN_ARENA_ARRAY(g->arena, n, size_t);
    size_t *ends = PRN_ARENA_ARRAY(g->arena, n, size_t);
    size_t *next_begin = PRN_ARENA_ARRAY(g->arena, g->n_values + 1, size_t);
    size_t *next_end = PRN_ARENA_ARRAY(g->arena, g->n_values + 1, size_t);
    uint32_t alive[UNSIZED + 1] = {0};
    if (!begins || !ends || !next_begin || !next_end)
        return prn_fail_memory(g->err);
    /* Numbers in the lists are ids + 1; 0 ends one. */
    for (size_t id = 0; id < g->n_values; id++) {
        const struct prn_cut_span *span = &p->spans[id];
        if (span->from > span->to)
            continue;
        next_begin[id] = begins[span->from];
        begins[span->from] = id + 1;
        next_end[id] = ends[span->to + 1];
        ends[span->to + 1] = id + 1;
    }
    for (size_t c = 0; c <= p->order.n; c++) {
        for (size_t i = begins[c]; i > 0; i = next_begin[i - 1])
            alive[class_of(&g->values[i - 1])]++;
        for (size_t i = ends[c]; i > 0; i = next_end[i - 1])
            alive[class_of(&g->values[i - 1])]--;
        unsigned largest = UNSIZED;
        while (largest > 0 && (largest == UNSIZED || alive[largest] == 0))
            largest--;
        for (unsigned k = largest > TINY_BITS ? largest - TINY_BITS + 1 : 0; k <= UNSIZED; k++)
            p->loads[c].heavy += alive[k];
        uint32_t tiny = p->loads[c].tensors - p->loads[c].heavy;
        p->loads[c].heavy += tiny > TINY_MAX ? tiny - TINY_MAX : 0;
    }
    return 0;
}

static bool is_lighter(const struct prn_cut_load *a, const struct prn_cut_load *b)
{
    return a->unsized != b->unsized ? a->unsized < b->unsized : a->bytes < b->bytes;
}

/* The place within [from, to] where the fewest bytes are alive, the last of several, so that what
 * follows a matrix (bias, activation) stays with it; PRN_CUT_NONE when nothing may pass. */
static size_t best_place(const struct prn_cut_plan *p, size_t from, size_t to, size_t max_tensors)
{
    size_t best = PRN_CUT_NONE;
    for (size_t c = from; c <= to; c++) {
        const struct prn_cut_load *load = &p->loads[c];
        if (load->barred > 0 || load->tensors == 0 || load->heavy > max_tensors)
            continue;
        if (best == PRN_CUT_NONE || !is_lighter(&p->loads[best], load))
            best = c;
    }
    return best;
}

/* ---- Between operators with weights ---- */

/* The position of the next operator with weights, from `from` on. */
static size_t next_weighted(const struct prn_cut_graph *g, const struct prn_cut_plan *p,
                            size_t from)
{
    while (from < p->order.n && !g->nodes[p->order.nodes[from]].weighted)
        from++;
    return from;
}

/* Neighbours that read the same tensor (queries, keys and values) belong together. */
static bool are_group(const struct prn_cut_graph *g, const struct prn_cut_plan *p, size_t a,
                      size_t b)
{
    size_t source = g->nodes[p->order.nodes[a]].source;
    return source != PRN_CUT_NONE && source == g->nodes[p->order.nodes[b]].source;
}

static void cut_between_weights(const struct prn_cut_graph *g, struct prn_cut_plan *p,
                                size_t max_tensors)
{
    size_t last = next_weighted(g, p, 0);
    for (size_t at = next_weighted(g, p, last + 1); at < p->order.n;
         last = at, at = next_weighted(g, p, at + 1)) {
        size_t place =
            are_group(g, p, last, at) ? PRN_CUT_NONE : best_place(p, last + 1, at, max_tensors);
        if (place != PRN_CUT_NONE)
            p->cuts[p->n_cuts++] = place;
    }
}

/* A value that is alive at a cut and can't pass it. */
static const struct prn_cut_value *find_barred(const struct prn_cut_graph *g,
                                               const struct prn_cut_plan *p, size_t cut)
{
    for (size_t id = 0; id < g->n_values; id++)
        if (p->spans[id].from <= cut && cut <= p->spans[id].to && !g->values[id].passable)
            return &g->values[id];
    return NULL;
}

static int fail_barred(const struct prn_cut_graph *g, const struct prn_cut_plan *p, size_t cut,
                       const char *where)
{
    const struct prn_cut_value *value = find_barred(g, p, cut);
    const char *name = value ? value->name : "";
    if (!value || value->kind == PRN_VALUE_TENSOR || value->kind == PRN_VALUE_UNKNOWN)
        return prn_fail(g->err, PRONY_EUNSUPPORTED,
                        "cannot cut '%s'%s: the element type of '%s', which passes there, isn't "
                        "known",
                        g->model->path, where, name);
    return prn_fail(g->err, PRONY_EUNSUPPORTED,
                    "cannot cut '%s'%s: '%s' passes there, which is a %s, not a tensor",
                    g->model->path, where, name, prn_value_kind_name(value->kind));
}

/* Why no place was found. */
static int fail_uncut(const struct prn_cut_graph *g, const struct prn_cut_plan *p)
{
    size_t fewest = SIZE_MAX;
    size_t barred = PRN_CUT_NONE;
    bool groups = false;
    size_t last = next_weighted(g, p, 0);
    for (size_t at = next_weighted(g, p, last + 1); at < p->order.n;
         last = at, at = next_weighted(g, p, at + 1)) {
        if (are_group(g, p, last, at))
            continue;
        groups = true;
        for (size_t c = last + 1; c <= at; c++) {
            if (p->loads[c].barred > 0)
                barred = c;
            else if (p->loads[c].tensors > 0 && p->loads[c].heavy < fewest)
                fewest = p->loads[c].heavy;
        }
    }
    if (!groups)
        return prn_fail(
            g->err, PRONY_EUNSUPPORTED,
            "cannot cut '%s': it has fewer than two operators with weights; name tensors to cut at",
            g->model->path);
    if (fewest < SIZE_MAX)
        return prn_fail(g->err, PRONY_EUNSUPPORTED,
                        "cannot cut '%s': at least %zu tensors are alive between its operators "
                        "with weights; --max-cut-tensors %zu allows that",
                        g->model->path, fewest, fewest);
    return fail_barred(g, p, barred, "");
}

/* ---- At names ---- */

static bool matches(const struct prn_cut_graph *g, const char *pattern, size_t node, size_t output)
{
    const struct prn_node *own = &g->model->graph.nodes[node];
    return output < own->n_outputs
               ? *own->outputs[output] && prn_text_glob(pattern, own->outputs[output])
               : *own->name && prn_text_glob(pattern, own->name);
}

/* Why there is no place behind a node; NULL when there is one. */
static const char *no_place(const struct prn_cut_graph *g, const struct prn_cut_plan *p,
                            size_t node)
{
    if (g->nodes[node].recomputed && g->nodes[node].needed)
        return "each layer that needs it computes it for itself";
    if (!g->nodes[node].needed)
        return "no output of the model needs it";
    if (p->order.at[node] + 1 == p->order.n)
        return "nothing is left to compute after it";
    if (p->loads[p->order.at[node] + 1].tensors == 0)
        return "no tensor passes there";
    return NULL;
}

/* Marks a cut behind a node whose output, or with output n_outputs whose name, was matched: before
 * the first reader, where the fewest bytes are alive. */
static int cut_behind(const struct prn_cut_graph *g, const struct prn_cut_plan *p, size_t node,
                      size_t output, bool *marks)
{
    const struct prn_node *own = &g->model->graph.nodes[node];
    size_t from = p->order.at[node] + 1;
    size_t to = PRN_CUT_NONE;
    for (size_t o = 0; o < own->n_outputs; o++) {
        size_t first_use = p->spans[g->nodes[node].outputs + o].first_use;
        if ((o == output || output == own->n_outputs) && first_use < to)
            to = first_use;
    }
    size_t place = best_place(p, from, to == PRN_CUT_NONE ? from : to, SIZE_MAX);
    if (place != PRN_CUT_NONE) {
        marks[place] = true;
        return 0;
    }
    char where[160];
    snprintf(where, sizeof where, " at '%s'",
             output < own->n_outputs ? own->outputs[output] : own->name);
    return fail_barred(g, p, from, where);
}

/* Whether a name of an input or initialiser matches. */
static bool names_given(const struct prn_cut_graph *g, const char *pattern)
{
    for (size_t id = 0; id < g->first_output; id++)
        if (prn_text_glob(pattern, g->values[id].name))
            return true;
    return false;
}

static int mark_pattern(const struct prn_cut_graph *g, const struct prn_cut_plan *p,
                        const char *pattern, bool *marks)
{
    const char *reason = NULL;
    bool cut = false;
    for (size_t i = 0; i < g->model->graph.n_nodes; i++)
        for (size_t o = 0; o <= g->model->graph.nodes[i].n_outputs; o++) {
            if (!matches(g, pattern, i, o))
                continue;
            const char *no = no_place(g, p, i);
            reason = reason ? reason : no;
            int code = no ? 0 : cut_behind(g, p, i, o, marks);
            if (code < 0)
                return code;
            cut = cut || !no;
        }
    if (cut)
        return 0;
    if (!reason)
        reason = names_given(g, pattern) ? "nothing is computed before it"
                                         : "no tensor or node has such a name";
    return prn_fail(g->err, PRONY_EUSAGE, "cannot cut '%s' at '%s': %s", g->model->path, pattern,
                    reason);
}

static int cut_at_names(const struct prn_cut_graph *g, struct prn_cut_plan *p,
                        const struct prn_cut_options *options)
{
    bool *marks = PRN_ARENA_ARRAY(g->arena, p->order.n + 1, bool);
    int code = marks ? 0 : prn_fail_memory(g->err);
    for (size_t i = 0; i < options->n_patterns && code == 0; i++)
        code = mark_pattern(g, p, options->patterns[i], marks);
    for (size_t c = 1; c < p->order.n && code == 0; c++)
        if (marks[c])
            p->cuts[p->n_cuts++] = c;
    return code;
}

/* ---- Joining neighbours ---- */

/* Work of layers, as sums over all before each. */
struct balance {
    size_t n;          /* layers */
    const double *sum; /* n + 1 */
    size_t *needed;    /* by first layer: into how many parts the rest must be divided */
};

/* How many parts of at most `most` work the layers need; `needed` says it from each layer on. */
static size_t count_parts(struct balance *b, double most)
{
    size_t end = b->n;
    b->needed[b->n] = 0;
    for (size_t i = b->n; i-- > 0;) {
        while (b->sum[end] - b->sum[i] > most && end > i + 1)
            end--;
        b->needed[i] = b->needed[end] + 1;
    }
    return b->needed[0];
}

/* The smallest work of the largest of `parts` parts, to the precision that matters. */
static double smallest_maximum(struct balance *b, size_t parts)
{
    double low = 0;
    for (size_t i = 0; i < b->n; i++)
        low = b->sum[i + 1] - b->sum[i] > low ? b->sum[i + 1] - b->sum[i] : low;
    double high = b->sum[b->n];
    if (count_parts(b, low) <= parts)
        return low;
    for (int step = 0; step < 64; step++) {
        double middle = low + (high - low) / 2;
        if (count_parts(b, middle) <= parts)
            high = middle;
        else
            low = middle;
    }
    return high;
}

/* Chooses the cuts that stay: each part as near as can be to an equal share of what is left, while
 * none gets larger than it must. */
static void join(struct prn_cut_plan *p, struct balance *b, size_t parts)
{
    double most = smallest_maximum(b, parts);
    count_parts(b, most);
    size_t begin = 0;
    p->n_cuts = 0;
    for (size_t left = parts; left > 1; left--) {
        double share = (b->sum[b->n] - b->sum[begin]) / (double)left;
        size_t end = begin + 1;
        /* A part must leave a layer for each part behind it, and may end only where the rest fits
         * into those. */
        while (end + left - 1 < b->n &&
               (b->needed[end] > left - 1 ||
                (b->sum[end + 1] - b->sum[begin] <= most &&
                 (b->sum[end] + b->sum[end + 1]) / 2 - b->sum[begin] <= share)))
            end++;
        p->cuts[p->n_cuts++] = p->cuts[end - 1];
        begin = end;
    }
}

/* What a node weighs: operations or, in a model that has none, bytes, or itself. */
static double weigh(const struct prn_cut_graph *g, size_t node)
{
    const struct prn_node_work *work = &g->work->nodes[node];
    return g->work->flops > 0 ? work->flops : g->work->bytes > 0 ? work->bytes : 1;
}

/* Work of the layers of a plan, as sums over all before each, and one over all. */
static void sum_work(const struct prn_cut_graph *g, const struct prn_cut_plan *p, double *sum)
{
    size_t layer = 0;
    sum[0] = sum[1] = 0;
    for (size_t at = 0; at < p->order.n; at++) {
        if (layer < p->n_cuts && at == p->cuts[layer]) {
            layer++;
            sum[layer + 1] = sum[layer];
        }
        sum[layer + 1] += weigh(g, p->order.nodes[at]);
    }
}

static int join_layers(const struct prn_cut_graph *g, struct prn_cut_plan *p, size_t parts)
{
    struct balance b = {.n = p->n_cuts + 1};
    if (parts > b.n)
        return prn_fail(g->err, PRONY_EUSAGE,
                        "cannot cut '%s' into %zu layers: there are places for %zu at most",
                        g->model->path, parts, b.n);
    double *sum = PRN_ARENA_ARRAY(g->arena, b.n + 1, double);
    b.needed = PRN_ARENA_ARRAY(g->arena, b.n + 1, size_t);
    if (!sum || !b.needed)
        return prn_fail_memory(g->err);
    sum_work(g, p, sum);
    b.sum = sum;
    join(p, &b, parts);
    return 0;
}

/* Keeps the cuts behind these layers. */
static void join_at(struct prn_cut_plan *p, const size_t *ends, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (ends[i] <= p->n_cuts)
            p->cuts[kept++] = p->cuts[ends[i] - 1];
    p->n_cuts = kept;
}

/* ---- Plans ---- */

static int make_plan(const struct prn_cut_graph *g, const struct prn_cut_options *options,
                     struct prn_cut_plan *p)
{
    p->spans = PRN_ARENA_ARRAY(g->arena, g->n_values + 1, struct prn_cut_span);
    p->loads = PRN_ARENA_ARRAY(g->arena, p->order.n + 2, struct prn_cut_load);
    p->cuts = PRN_ARENA_ARRAY(g->arena, p->order.n + 1, size_t);
    if (!p->spans || !p->loads || !p->cuts)
        return prn_fail_memory(g->err);
    find_spans(g, p);
    find_loads(g, p);
    int code = find_heavy(g, p);
    if (code < 0)
        return code;
    if (options->n_patterns > 0)
        return cut_at_names(g, p, options);
    cut_between_weights(g, p,
                        options->max_tensors ? options->max_tensors : PRN_CUT_TENSORS_DEFAULT);
    return 0;
}

static bool is_better(struct prn_cut_plan *a, struct prn_cut_plan *b)
{
    if (a->n_cuts != b->n_cuts)
        return a->n_cuts > b->n_cuts;
    for (size_t i = 0; i < a->n_cuts; i++) {
        a->bytes += a->loads[a->cuts[i]].bytes;
        b->bytes += b->loads[b->cuts[i]].bytes;
    }
    return a->bytes < b->bytes;
}

/* A place that is asked for may be one in one of the orders only. */
static int choose_plan(const struct prn_cut_graph *g, const struct prn_cut_options *options,
                       struct prn_cut_plan *ret_plan)
{
    struct prn_cut_plan by_file = {0};
    struct prn_cut_plan by_depth = {0};
    int code = prn_cut_order_file(g, &by_file.order);
    if (code == 0)
        code = prn_cut_order_depth(g, &by_depth.order);
    if (code < 0)
        return code;
    int depth = make_plan(g, options, &by_depth);
    int file = make_plan(g, options, &by_file);
    if (depth == PRONY_ENOMEM)
        return depth;
    if (file == PRONY_ENOMEM || (file < 0 && depth < 0))
        return file;
    *ret_plan = file < 0 || (depth == 0 && is_better(&by_depth, &by_file)) ? by_depth : by_file;
    return 0;
}

/* ---- What a higher limit would change ---- */

/* Limits above this one aren't proposed. */
#define LIMIT_MAX 16
/* How much smaller the largest layer must get to be worth a word. */
#define WORTH 1.5

/* The share of the largest layer; `sum` is scratch. */
static double largest_share(const struct prn_cut_graph *g, const struct prn_cut_plan *p,
                            double *sum, size_t *ret_layer)
{
    double largest = 0;
    sum_work(g, p, sum);
    for (size_t i = 0; i <= p->n_cuts; i++)
        if (sum[i + 1] - sum[i] > largest) {
            largest = sum[i + 1] - sum[i];
            *ret_layer = i + 1;
        }
    return sum[p->n_cuts + 1] > 0 ? largest / sum[p->n_cuts + 1] : 0;
}

/* The lowest limit at which the largest layer is nearly as small as limits can make it, in the
 * order of a plan. */
static int choose_limit(const struct prn_cut_graph *g, const struct prn_cut_plan *p, size_t limit,
                        double *sum, size_t *ret_limit)
{
    struct prn_cut_plan wider = *p;
    double shares[LIMIT_MAX + 1];
    size_t layer;
    size_t chosen = LIMIT_MAX;
    wider.cuts = PRN_ARENA_ARRAY(g->arena, p->order.n + 1, size_t);
    if (!wider.cuts)
        return prn_fail_memory(g->err);
    for (size_t k = limit; k <= LIMIT_MAX; k++) {
        wider.n_cuts = 0;
        cut_between_weights(g, &wider, k);
        shares[k] = largest_share(g, &wider, sum, &layer);
    }
    while (chosen > limit && shares[chosen - 1] < 1.1 * shares[LIMIT_MAX])
        chosen--;
    *ret_limit = chosen;
    return 0;
}

static int find_hint(const struct prn_cut_graph *g, const struct prn_cut_options *options,
                     struct prn_cut_plan *p)
{
    size_t limit = options->max_tensors ? options->max_tensors : PRN_CUT_TENSORS_DEFAULT;
    struct prn_cut_hint hint = {0};
    size_t layer;
    double *sum = PRN_ARENA_ARRAY(g->arena, p->order.n + 2, double);
    int code = sum ? 0 : prn_fail_memory(g->err);
    if (code == 0 && limit < LIMIT_MAX)
        code = choose_limit(g, p, limit, sum, &hint.max_tensors);
    if (code < 0 || hint.max_tensors <= limit)
        return code;
    struct prn_cut_options wider_options = *options;
    struct prn_cut_plan wider;
    wider_options.max_tensors = hint.max_tensors;
    code = choose_plan(g, &wider_options, &wider);
    if (code < 0)
        return code;
    hint.n_layers = wider.n_cuts + 1;
    hint.share = largest_share(g, &wider, sum, &layer);
    hint.larger = largest_share(g, p, sum, &hint.layer);
    if (hint.larger > WORTH * hint.share)
        p->hint = hint;
    return 0;
}

int prn_cut_plan_make(const struct prn_cut_graph *g, const struct prn_cut_options *options,
                      struct prn_cut_plan *ret_plan)
{
    struct prony_error fault = {0};
    struct prn_cut_graph quiet = *g;
    struct prn_cut_plan plan;
    quiet.err = &fault;
    int code = choose_plan(&quiet, options, &plan);
    if (code == 0 && options->n_layers > 0)
        code = join_layers(&quiet, &plan, options->n_layers);
    else if (code == 0 && plan.n_cuts == 0)
        code = fail_uncut(&quiet, &plan);
    else if (code == 0 && options->n_patterns == 0 && options->n_ends == 0)
        code = find_hint(&quiet, options, &plan);
    if (code < 0)
        return prn_fail(g->err, code, "%s", fault.text);
    if (options->n_ends > 0)
        join_at(&plan, options->ends, options->n_ends);
    *ret_plan = plan;
    return 0;
}
