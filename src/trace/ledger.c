/*
 * Intervals are appended to plain arrays, where one that touches the latest of its thread is joined
 * to it: so a node swallows the nodes of its body, which come before it. Sorting, where it is
 * needed at all, waits until the run is closed.
 *
 * An array that is full is sorted and joined. If that doesn't free half of it, the nodes that ended
 * first are settled: only the length of their union and the time up to which they are settled are
 * kept, and later intervals count from there on. Execute events are few, and the outermost one
 * comes last and swallows the others; if they fill their array nevertheless, neighbours are
 * bridged.
 */
#include "trace/ledger.h"

#include <stdlib.h>

#define MOST_NODES ((size_t)512 * 1024)
#define MOST_EXECUTES ((size_t)64 * 1024)
#define FIRST_CAPACITY 256
/* Times within ±2^61 can be subtracted and added in pairs. */
#define FARTHEST (INT64_C(1) << 61)

struct interval {
    int64_t thread;
    int64_t start;
    int64_t end;
};

struct intervals {
    struct interval *at;
    size_t n;
    size_t capacity;
};

struct prn_ledger {
    struct intervals nodes;
    struct intervals executes; /* all of thread 0 */
    uint64_t node_count;
    double node_time; /* their durations added up */
    /* The nodes in [settled_start, settled_end), if any. */
    bool is_settled;
    bool is_late; /* an interval reached into the settled time after it was settled */
    int64_t settled_start;
    int64_t settled_end;
    int64_t settled_union;
    int64_t settled_sum; /* of each thread's union */
    /* The Execute events that were bridged, if any. */
    bool is_bridged;
    int64_t bridged_start;
    int64_t bridged_end;
};

/* A run cut into time before, inside, between and after its Execute events. */
struct parts {
    int64_t before;
    int64_t inside;
    int64_t between;
    int64_t after;
};

struct cut {
    int64_t start;
    int64_t end;
    const struct intervals *executes; /* disjoint, ascending, clipped to the run */
    int64_t first;                    /* where the first one starts */
    int64_t last;                     /* where the last one ends */
};

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t clip(int64_t time)
{
    return max64(-FARTHEST, min64(time, FARTHEST));
}

static int64_t add_saturated(int64_t a, int64_t b)
{
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

static struct interval make_interval(int64_t thread, int64_t start, int64_t duration)
{
    return (struct interval){.thread = thread,
                             .start = clip(start),
                             .end = clip(add_saturated(start, max64(duration, 0)))};
}

struct prn_ledger *prn_ledger_new(void)
{
    return calloc(1, sizeof(struct prn_ledger));
}

void prn_ledger_free(struct prn_ledger *l)
{
    if (!l)
        return;
    free(l->nodes.at);
    free(l->executes.at);
    free(l);
}

void prn_ledger_clear(struct prn_ledger *l)
{
    struct intervals nodes = l->nodes;
    struct intervals executes = l->executes;
    nodes.n = 0;
    executes.n = 0;
    *l = (struct prn_ledger){.nodes = nodes, .executes = executes};
}

static int grow(struct intervals *v)
{
    size_t capacity = v->capacity ? 2 * v->capacity : FIRST_CAPACITY;
    struct interval *at = realloc(v->at, capacity * sizeof *at);
    if (!at)
        return PRONY_ENOMEM;
    v->at = at;
    v->capacity = capacity;
    return 0;
}

static bool joins(const struct interval *a, const struct interval *b)
{
    return a->start <= b->end && b->start <= a->end;
}

/* There is room for it. */
static void append(struct intervals *v, struct interval new)
{
    while (v->n > 0 && v->at[v->n - 1].thread == new.thread && joins(&v->at[v->n - 1], &new)) {
        new.start = min64(new.start, v->at[v->n - 1].start);
        new.end = max64(new.end, v->at[v->n - 1].end);
        v->n--;
    }
    v->at[v->n++] = new;
}

typedef int compare_fn(const void *a, const void *b);

static int by_start(const void *a, const void *b)
{
    const struct interval *x = a;
    const struct interval *y = b;
    return (x->start > y->start) - (x->start < y->start);
}

static int by_end(const void *a, const void *b)
{
    const struct interval *x = a;
    const struct interval *y = b;
    return (x->end > y->end) - (x->end < y->end);
}

static int by_thread(const void *a, const void *b)
{
    const struct interval *x = a;
    const struct interval *y = b;
    return x->thread != y->thread ? (x->thread > y->thread) - (x->thread < y->thread)
                                  : by_start(a, b);
}

static void sort(struct intervals *v, compare_fn *compare)
{
    for (size_t i = 1; i < v->n; i++)
        if (compare(&v->at[i - 1], &v->at[i]) > 0) {
            qsort(v->at, v->n, sizeof *v->at, compare);
            return;
        }
}

/* Whether all are of one thread, disjoint and ascending, as a run without parallel nodes leaves
 * them. */
static bool is_tidy(const struct intervals *v)
{
    for (size_t i = 1; i < v->n; i++)
        if (v->at[i].thread != v->at[0].thread || v->at[i].start <= v->at[i - 1].end)
            return false;
    return true;
}

/* Afterwards the intervals of a thread are disjoint and ascending. */
static void join_threads(struct intervals *v)
{
    if (is_tidy(v))
        return;
    sort(v, by_thread);
    size_t n = v->n;
    v->n = 0;
    for (size_t i = 0; i < n; i++)
        append(v, v->at[i]);
}

/* Afterwards all are disjoint and ascending. */
static void join_all(struct intervals *v)
{
    for (size_t i = 0; i < v->n; i++)
        v->at[i].thread = 0;
    join_threads(v);
}

/* Settles what lies before the end of the interval that is the middle one by its end. The intervals
 * of each thread are disjoint. */
static void settle(struct prn_ledger *l)
{
    struct intervals *v = &l->nodes;
    sort(v, by_end);
    int64_t until = v->at[v->n / 2].end;
    sort(v, by_start);
    if (!l->is_settled)
        l->settled_start = v->at[0].start;
    l->is_settled = true;
    l->settled_end = until;
    int64_t covered = v->at[0].start;
    size_t kept = 0;
    for (size_t i = 0; i < v->n; i++) {
        struct interval old = v->at[i];
        int64_t end = min64(old.end, until);
        l->settled_sum = add_saturated(l->settled_sum, max64(0, end - old.start));
        l->settled_union += max64(0, end - max64(old.start, covered));
        covered = max64(covered, end);
        if (old.end > until) {
            old.start = max64(old.start, until);
            v->at[kept++] = old;
        }
    }
    v->n = kept;
}

static int make_room_for_node(struct prn_ledger *l)
{
    if (l->nodes.n < l->nodes.capacity)
        return 0;
    if (l->nodes.capacity < MOST_NODES)
        return grow(&l->nodes);
    join_threads(&l->nodes);
    if (l->nodes.n > MOST_NODES / 2)
        settle(l);
    return 0;
}

int prn_ledger_node(struct prn_ledger *l, int64_t thread, int64_t start, int64_t duration)
{
    int r = make_room_for_node(l);
    if (r != 0)
        return r;
    struct interval new = make_interval(thread, start, duration);
    l->node_count++;
    l->node_time += (double)(new.end - new.start);
    if (l->is_settled && new.start < l->settled_end) {
        l->is_late |= new.start < new.end;
        new.start = l->settled_end;
    }
    if (new.start < new.end)
        append(&l->nodes, new);
    return 0;
}

/* Counts the time between the Execute events 0 and 1, 2 and 3, … as theirs. */
static void bridge(struct prn_ledger *l)
{
    struct intervals *v = &l->executes;
    l->is_bridged = true;
    l->bridged_start = v->at[0].start;
    l->bridged_end = v->at[v->n - 1].end;
    size_t kept = 0;
    for (size_t i = 0; i < v->n; i += 2) {
        v->at[kept] = v->at[i];
        if (i + 1 < v->n)
            v->at[kept].end = v->at[i + 1].end;
        kept++;
    }
    v->n = kept;
}

static int make_room_for_execute(struct prn_ledger *l)
{
    if (l->executes.n < l->executes.capacity)
        return 0;
    if (l->executes.capacity < MOST_EXECUTES)
        return grow(&l->executes);
    join_threads(&l->executes);
    if (l->executes.n > MOST_EXECUTES / 2)
        bridge(l);
    return 0;
}

int prn_ledger_execute(struct prn_ledger *l, int64_t start, int64_t duration)
{
    int r = make_room_for_execute(l);
    if (r != 0)
        return r;
    struct interval execute = make_interval(0, start, duration);
    if (execute.start <= l->bridged_start && execute.end >= l->bridged_end)
        l->is_bridged = false;
    append(&l->executes, execute);
    return 0;
}

static void absorb_settled(struct prn_ledger *l, const struct prn_ledger *from)
{
    if (!from->is_settled)
        return;
    if (!l->is_settled) {
        l->settled_start = from->settled_start;
        l->settled_end = from->settled_end;
    }
    l->is_settled = l->is_late = true; /* the two may overlap */
    l->settled_start = min64(l->settled_start, from->settled_start);
    l->settled_end = max64(l->settled_end, from->settled_end);
    l->settled_union = add_saturated(l->settled_union, from->settled_union);
    l->settled_union = min64(l->settled_union, l->settled_end - l->settled_start);
    l->settled_sum = add_saturated(l->settled_sum, from->settled_sum);
}

int prn_ledger_absorb(struct prn_ledger *l, struct prn_ledger *from)
{
    uint64_t count = l->node_count + from->node_count;
    double time = l->node_time + from->node_time;
    absorb_settled(l, from);
    int r = 0;
    for (size_t i = 0; r == 0 && i < from->nodes.n; i++) {
        const struct interval *node = &from->nodes.at[i];
        r = prn_ledger_node(l, node->thread, node->start, node->end - node->start);
    }
    for (size_t i = 0; r == 0 && i < from->executes.n; i++) {
        const struct interval *execute = &from->executes.at[i];
        r = prn_ledger_execute(l, execute->start, execute->end - execute->start);
    }
    l->is_bridged |= from->is_bridged;
    l->node_count = count;
    l->node_time = time;
    prn_ledger_clear(from);
    return r;
}

static struct cut cut_run(struct intervals *executes, const struct interval *run)
{
    join_threads(executes);
    size_t kept = 0;
    for (size_t i = 0; i < executes->n; i++) {
        struct interval e = executes->at[i];
        /* One of no length still tells what was before it and what after. */
        bool is_point = e.start == e.end && e.start > run->start && e.end < run->end;
        e.start = max64(e.start, run->start);
        e.end = min64(e.end, run->end);
        if (e.start < e.end || is_point)
            executes->at[kept++] = e;
    }
    executes->n = kept;
    return (struct cut){.start = run->start,
                        .end = run->end,
                        .executes = executes,
                        .first = kept ? executes->at[0].start : run->start,
                        .last = kept ? executes->at[kept - 1].end : run->end};
}

/* The parts of an interval; `cursor` is the first Execute event that it may reach, and moves on for
 * the next interval. */
static void add_parts(const struct cut *c, size_t *cursor, int64_t start, int64_t end,
                      struct parts *sum)
{
    const struct intervals *e = c->executes;
    /* Nearly all are inside the one Execute event. */
    if (*cursor < e->n && start >= e->at[*cursor].start && end <= e->at[*cursor].end) {
        sum->inside += end - start;
        return;
    }
    start = max64(start, c->start);
    end = min64(end, c->end);
    if (start >= end)
        return;
    int64_t before = max64(0, min64(end, c->first) - start);
    int64_t after = max64(0, end - max64(start, c->last));
    int64_t inside = 0;
    while (*cursor < e->n && e->at[*cursor].end <= start)
        ++*cursor;
    for (size_t i = *cursor; i < e->n && e->at[i].start < end; i++)
        inside += min64(end, e->at[i].end) - max64(start, e->at[i].start);
    sum->before += before;
    sum->inside += inside;
    sum->after += after;
    sum->between += end - start - before - inside - after;
}

static int64_t parts_sum(const struct parts *p)
{
    return p->before + p->inside + p->between + p->after;
}

static int64_t share(int64_t value, int64_t part, int64_t whole)
{
    return (int64_t)((__int128)value * part / whole);
}

/* Takes the settled nodes as evenly spread over their time, which is exact if all of it is in one
 * part of the run. */
static void add_settled(const struct prn_ledger *l, const struct cut *c, struct parts *nodes,
                        struct prn_ledger_run *run)
{
    int64_t whole = l->settled_end - l->settled_start;
    struct parts p = {0};
    add_parts(c, &(size_t){0}, l->settled_start, l->settled_end, &p);
    nodes->before += share(l->settled_union, p.before, whole);
    nodes->inside += share(l->settled_union, p.inside, whole);
    nodes->between += share(l->settled_union, p.between, whole);
    nodes->after += share(l->settled_union, p.after, whole);
    run->node_sum = add_saturated(run->node_sum, share(l->settled_sum, parts_sum(&p), whole));
    bool is_in_one =
        p.before == whole || p.inside == whole || p.between == whole || p.after == whole;
    run->approximate |= !is_in_one || l->is_late;
}

static int64_t sum_clipped(const struct intervals *v, const struct interval *run)
{
    int64_t sum = 0;
    for (size_t i = 0; i < v->n; i++) {
        int64_t start = max64(v->at[i].start, run->start);
        int64_t end = min64(v->at[i].end, run->end);
        sum = add_saturated(sum, max64(0, end - start));
    }
    return sum;
}

/* What joining each thread's intervals took away. */
static int64_t nested_time(const struct prn_ledger *l)
{
    double nested = l->node_time - (double)l->settled_sum;
    for (size_t i = 0; i < l->nodes.n; i++)
        nested -= (double)(l->nodes.at[i].end - l->nodes.at[i].start);
    return nested > 0 ? (int64_t)nested : 0;
}

void prn_ledger_close(struct prn_ledger *l, int64_t start, int64_t duration,
                      struct prn_ledger_run *ret_run)
{
    struct interval span = make_interval(0, start, duration);
    struct cut c = cut_run(&l->executes, &span);
    struct prn_ledger_run run = {
        .total = span.end - span.start, .nodes = l->node_count, .approximate = l->is_bridged};
    join_threads(&l->nodes);
    run.nested = nested_time(l);
    bool is_parallel =
        l->nodes.n > 0 && l->nodes.at[0].thread != l->nodes.at[l->nodes.n - 1].thread;
    if (is_parallel) {
        run.node_sum = sum_clipped(&l->nodes, &span);
        join_all(&l->nodes);
    }
    struct parts nodes = {0};
    size_t cursor = 0;
    for (size_t i = 0; i < l->nodes.n; i++)
        add_parts(&c, &cursor, l->nodes.at[i].start, l->nodes.at[i].end, &nodes);
    if (!is_parallel)
        run.node_sum = parts_sum(&nodes);
    if (l->is_settled)
        add_settled(l, &c, &nodes, &run);
    struct parts all = {0};
    add_parts(&c, &(size_t){0}, span.start, span.end, &all);
    run.node = parts_sum(&nodes);
    run.overhead = all.inside - nodes.inside;
    run.before = all.before - nodes.before;
    run.after = all.after - nodes.after;
    run.unexplained = all.between - nodes.between;
    *ret_run = run;
    prn_ledger_clear(l);
}
