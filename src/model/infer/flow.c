/*
 * If, Loop and Scan: nodes whose work is that of their bodies. A body is inferred in place with
 * what is known of its inputs; its entries in the journal are then scaled by the number of trips,
 * dropped (the branch not taken), or marked as not counted.
 */
#include "model/infer/infer.h"

#include <string.h>

static struct prn_known *new_tensors(struct prn_infer_call *c, size_t n)
{
    struct prn_known *t = PRN_ARENA_ARRAY(prn_infer_arena(c->infer), n + 1, struct prn_known);
    for (size_t i = 0; t && i < n; i++)
        t[i] = (struct prn_known){.rank = -1};
    return t;
}

static int infer_branch(struct prn_infer_call *c, const char *name, struct prn_known *out)
{
    const struct prn_graph *graph = prn_attr_graph(c, name);
    return graph ? prn_infer_body(c, graph, NULL, 0, out, c->n_out, false) : PRN_REASON_MALFORMED;
}

static bool costs_more(struct prn_cost a, struct prn_cost b)
{
    return a.flops != b.flops ? a.flops > b.flops : a.bytes > b.bytes;
}

/* Both branches are inferred; the heavier one counts, and a remark says so unless they weigh the
 * same. */
static int infer_both(struct prn_infer_call *c, struct prn_known *on_true,
                      struct prn_known *on_false)
{
    bool changed = false;
    size_t begin = prn_journal_mark(c->infer);
    int r = infer_branch(c, "then_branch", on_true);
    size_t middle = prn_journal_mark(c->infer);
    if (r == 0)
        r = infer_branch(c, "else_branch", on_false);
    if (r)
        return r;
    size_t end = prn_journal_mark(c->infer);
    struct prn_cost first = prn_journal_sum(c->infer, begin, middle);
    struct prn_cost second = prn_journal_sum(c->infer, middle, end);
    if (costs_more(second, first))
        prn_journal_drop(c->infer, begin, middle);
    else
        prn_journal_drop(c->infer, middle, end);
    if (costs_more(first, second) || costs_more(second, first))
        r = prn_journal_remark(c, PRN_REASON_BRANCH);
    for (size_t i = 0; r == 0 && i < c->n_out; i++)
        r = prn_known_join(c->infer, &on_true[i], &on_false[i], &changed);
    return r;
}

int prn_shape_if(struct prn_infer_call *c)
{
    struct prn_known *on_true = new_tensors(c, c->n_out);
    struct prn_known *on_false = new_tensors(c, c->n_out);
    int64_t condition;
    int r;
    if (!on_true || !on_false)
        return PRONY_ENOMEM;
    if (prn_in_int(c, 0, &condition))
        r = infer_branch(c, condition ? "then_branch" : "else_branch", on_true);
    else
        r = infer_both(c, on_true, on_false);
    for (size_t i = 0; r == 0 && i < c->n_out; i++)
        *c->out[i] = on_true[i];
    return r;
}

/* What a loop passes from one trip to the next, and to the outside. */
struct loop {
    const struct prn_graph *body;
    size_t n_carried;
    struct prn_known **in; /* of the body: iteration, condition, carried values */
    struct prn_known *out; /* of the body: condition, carried values, scan outputs */
};

static int loop_init(struct prn_infer_call *c, struct loop *l)
{
    struct prn_arena *arena = prn_infer_arena(c->infer);
    l->body = prn_attr_graph(c, "body");
    if (!l->body || c->n_in < 2)
        return PRN_REASON_MALFORMED;
    l->n_carried = c->n_in - 2;
    if (l->body->n_inputs != c->n_in || l->body->n_outputs != c->n_out + 1 ||
        c->n_out < l->n_carried)
        return PRN_REASON_MALFORMED;
    struct prn_known *tensors = new_tensors(c, c->n_in);
    l->in = PRN_ARENA_ARRAY(arena, c->n_in, struct prn_known *);
    l->out = new_tensors(c, l->body->n_outputs);
    union prn_item *yes = PRN_ARENA_NEW(arena, union prn_item);
    if (!tensors || !l->in || !l->out || !yes)
        return PRONY_ENOMEM;
    for (size_t i = 0; i < c->n_in; i++)
        l->in[i] = &tensors[i];
    tensors[0] = (struct prn_known){.dtype = PRN_DTYPE_INT64};
    /* Inside the body the condition holds: there would be no trip otherwise. */
    yes->i = 1;
    tensors[1] = (struct prn_known){.dtype = PRN_DTYPE_BOOL, .items = yes};
    for (size_t i = 2; i < c->n_in; i++) {
        if (c->in[i])
            tensors[i] = *c->in[i];
        tensors[i].items = NULL;
        tensors[i].constant = NULL;
    }
    return 0;
}

/* Infers the body until the carried values keep what is known of them from trip to trip; the last
 * attempt knows nothing of them, which always holds. */
static int loop_settle(struct prn_infer_call *c, struct loop *l)
{
    enum { ATTEMPTS = 3 };
    for (int attempt = 0;; attempt++) {
        bool changed = false;
        size_t begin = prn_journal_mark(c->infer);
        int r = prn_infer_body(c, l->body, l->in, c->n_in, l->out, l->body->n_outputs, false);
        for (size_t i = 0; r == 0 && i < l->n_carried; i++) {
            r = prn_known_join(c->infer, l->in[i + 2], &l->out[i + 1], &changed);
            l->in[i + 2]->items = NULL;
            l->in[i + 2]->constant = NULL;
        }
        for (size_t i = 0; changed && attempt + 2 == ATTEMPTS && i < l->n_carried; i++)
            *l->in[i + 2] = (struct prn_known){.kind = PRN_VALUE_UNKNOWN, .rank = -1};
        if (r || !changed || attempt + 1 == ATTEMPTS)
            return r;
        prn_journal_drop(c->infer, begin, prn_journal_mark(c->infer));
    }
}

/* The number of trips, or -1. */
static int64_t loop_trips(struct prn_infer_call *c, const struct loop *l)
{
    int64_t trips;
    int64_t condition = 1;
    if (prn_in(c, 1) && !prn_in_int(c, 1, &condition))
        return -1;
    if (!condition)
        return 0;
    const union prn_item *goes_on = prn_known_items(c->infer, &l->out[0]);
    if (!goes_on || prn_known_elements(&l->out[0]) != 1)
        return -1;
    if (!goes_on[0].i)
        return prn_in_int(c, 0, &trips) && trips < 1 ? 0 : 1;
    /* More trips than anything has elements stand for "until the condition fails". */
    if (!prn_in_int(c, 0, &trips) || trips > PRN_DIM_MAX)
        return -1;
    return trips < 0 ? 0 : trips;
}

/* [trips, …] for what a body gives at each trip. `axis` is where the trips go. */
static int set_stacked(struct prn_infer_call *c, size_t i, const struct prn_known *t, size_t axis,
                       const int64_t *trips, size_t n_trips)
{
    int64_t dims[PRN_RANK_MAX];
    if (t->rank < 0 || (size_t)t->rank + n_trips > PRN_RANK_MAX || axis > (size_t)t->rank)
        return 0;
    size_t rank = 0;
    for (size_t k = 0; k <= (size_t)t->rank; k++) {
        for (size_t m = 0; k == axis && m < n_trips; m++)
            dims[rank++] = trips[m];
        if (k < (size_t)t->rank)
            dims[rank++] = t->dims[k];
    }
    return prn_set_out(c, i, t->dtype, rank, dims);
}

int prn_shape_loop(struct prn_infer_call *c)
{
    struct loop l = {0};
    int r = loop_init(c, &l);
    size_t begin = prn_journal_mark(c->infer);
    if (r == 0)
        r = loop_settle(c, &l);
    if (r)
        return r;
    int64_t trips = loop_trips(c, &l);
    if (trips < 0)
        prn_journal_void(c->infer, begin, PRN_REASON_TRIPS);
    else
        prn_journal_scale(c->infer, begin, (double)trips);
    for (size_t i = 0; i < l.n_carried; i++)
        *c->out[i] = *l.in[i + 2];
    for (size_t i = l.n_carried; r == 0 && i < c->n_out; i++)
        r = set_stacked(c, i, &l.out[i + 1], 0, &trips, 1);
    return r ? r : trips < 0 ? PRN_REASON_TRIPS : 0;
}

/* Scan, in its form since opset 9 and, with `lead` = 1, that of opset 8: a first input of sequence
 * lengths, and a batch axis before everything. */
struct scan {
    const struct prn_graph *body;
    size_t lead, n_scanned, n_states;
    int64_t batch, length;
    struct prn_known **in;
    struct prn_known *out;
};

/* The axis of scan input or output `i` that runs with the trips. */
static bool scan_axis(const struct prn_infer_call *c, const char *name, size_t i, size_t rank,
                      size_t *ret_axis)
{
    size_t n = 0;
    const int64_t *axes = prn_attr_ints(c, name, &n);
    *ret_axis = 0;
    return !axes || (i < n && prn_axis(axes[i], rank, ret_axis));
}

/* Takes `n` axes out of a shape from `axis` on and notes their sizes. */
static int remove_axes(struct prn_infer_call *c, struct prn_known *t, size_t axis, size_t n,
                       int64_t **sizes)
{
    if (n == 0 || t->rank < 0)
        return 0;
    if ((size_t)t->rank < axis + n)
        return PRN_REASON_MALFORMED;
    int64_t *dims = PRN_ARENA_ARRAY(prn_infer_arena(c->infer), (size_t)t->rank, int64_t);
    if (!dims)
        return PRONY_ENOMEM;
    size_t rank = 0;
    for (size_t i = 0; i < (size_t)t->rank; i++) {
        if (i < axis || i >= axis + n)
            dims[rank++] = t->dims[i];
        else if (*sizes[i - axis] < 0)
            *sizes[i - axis] = t->dims[i];
    }
    t->dims = dims;
    t->rank = (int)rank;
    return 0;
}

static int scan_init(struct prn_infer_call *c, struct scan *s)
{
    s->body = prn_attr_graph(c, "body");
    int64_t n_scanned = prn_attr_int(c, "num_scan_inputs", 0);
    if (!s->body || s->body->n_inputs > c->n_in || c->n_in - s->body->n_inputs > 1 ||
        n_scanned < 1 || (uint64_t)n_scanned > s->body->n_inputs || s->body->n_outputs != c->n_out)
        return PRN_REASON_MALFORMED;
    s->lead = c->n_in - s->body->n_inputs;
    s->n_scanned = (size_t)n_scanned;
    s->n_states = s->body->n_inputs - s->n_scanned;
    s->batch = s->length = -1;
    if (c->n_out < s->n_states)
        return PRN_REASON_MALFORMED;
    struct prn_known *tensors = new_tensors(c, s->body->n_inputs);
    s->in = PRN_ARENA_ARRAY(prn_infer_arena(c->infer), s->body->n_inputs, struct prn_known *);
    s->out = new_tensors(c, c->n_out);
    if (!tensors || !s->in || !s->out)
        return PRONY_ENOMEM;
    int64_t *sizes[2] = {s->lead ? &s->batch : &s->length, &s->length};
    int r = 0;
    for (size_t i = 0; r == 0 && i < s->body->n_inputs; i++) {
        size_t axis = 0;
        bool is_state = i < s->n_states;
        s->in[i] = &tensors[i];
        if (c->in[i + s->lead])
            tensors[i] = *c->in[i + s->lead];
        tensors[i].items = NULL;
        tensors[i].constant = NULL;
        if (!is_state && !s->lead && tensors[i].rank > 0 &&
            !scan_axis(c, "scan_input_axes", i - s->n_states, (size_t)tensors[i].rank, &axis))
            return PRN_REASON_MALFORMED;
        r = remove_axes(c, &tensors[i], axis, s->lead + !is_state, sizes);
    }
    return r;
}

int prn_shape_scan(struct prn_infer_call *c)
{
    struct scan s = {0};
    size_t begin = prn_journal_mark(c->infer);
    int r = scan_init(c, &s);
    if (r == 0)
        r = prn_infer_body(c, s.body, s.in, s.body->n_inputs, s.out, c->n_out, false);
    if (r)
        return r;
    double trips = (double)s.length * (s.lead ? (double)s.batch : 1);
    bool known = s.length >= 0 && (!s.lead || s.batch >= 0);
    if (known)
        prn_journal_scale(c->infer, begin, trips);
    else
        prn_journal_void(c->infer, begin, PRN_REASON_TRIPS);
    int64_t lead[2] = {s.lead ? s.batch : s.length, s.length};
    for (size_t i = 0; r == 0 && i < c->n_out; i++) {
        size_t axis = 0;
        bool is_state = i < s.n_states;
        if (!is_state && !s.lead && s.out[i].rank >= 0 &&
            !scan_axis(c, "scan_output_axes", i - s.n_states, (size_t)s.out[i].rank + 1, &axis))
            return PRN_REASON_MALFORMED;
        r = set_stacked(c, i, &s.out[i], axis, lead, s.lead + !is_state);
    }
    return r ? r : known ? 0 : PRN_REASON_TRIPS;
}
