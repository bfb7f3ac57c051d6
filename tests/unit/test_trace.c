/* Runs, groups, the ledger and comparisons, on small traces whose figures are worked out here. */
#include "unit.h"

#include "base/buffer.h"
#include "trace/compare.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define TEXT_MAX ((size_t)16 << 20)

/* ---- Making traces; times are in µs ---- */

static void event(struct prn_buffer *b, const char *cat, const char *name, int thread, long ts,
                  long dur, const char *args)
{
    prn_buffer_printf(b,
                      "%s{\"cat\" : \"%s\",\"pid\" :1,\"tid\" :%d,\"dur\" :%ld,\"ts\" :%ld,"
                      "\"ph\" : \"X\",\"name\" :\"%s\",\"args\" : {%s}}",
                      b->len ? ",\n" : "[", cat, thread, dur, ts, name, args);
}

/* The node "n" has the event "n_kernel_time"; an `op` or `shape` that is NULL isn't told. */
static void node_at(struct prn_buffer *b, const char *node, const char *op, const char *shape,
                    int thread, long ts, long dur)
{
    char name[100], args[300];
    int n = 0;
    snprintf(name, sizeof name, "%s_kernel_time", node);
    args[0] = '\0';
    if (op)
        n += snprintf(args, sizeof args, "\"op_name\" : \"%s\",\"provider\" : \"CPU\"", op);
    if (shape)
        snprintf(args + n, sizeof args - (size_t)n, "%s\"input_type_shape\" : %s", n ? "," : "",
                 shape);
    event(b, "Node", name, thread, ts, dur, args);
}

static void node(struct prn_buffer *b, const char *name, const char *op, long dur)
{
    node_at(b, name, op, NULL, 1, 0, dur);
}

static void kernel(struct prn_buffer *b, const char *name, const char *op, const char *dimensions,
                   long dur)
{
    char args[300];
    int n = snprintf(args, sizeof args, "\"stream\" : \"7\"");
    if (op)
        n += snprintf(args + n, sizeof args - (size_t)n, ",\"op_name\" : \"%s\"", op);
    snprintf(args + n, sizeof args - (size_t)n, "%s", dimensions);
    event(b, "Kernel", name, -1, 0, dur, args);
}

static void model_run(struct prn_buffer *b, long ts, long dur)
{
    event(b, "Session", "model_run", 1, ts, dur, "");
}

static void execute(struct prn_buffer *b, long ts, long dur)
{
    event(b, "Session", "SequentialExecutor::Execute", 1, ts, dur, "");
}

/* ---- Reading them ---- */

static struct prn_trace_options by_op(void)
{
    return (struct prn_trace_options){.runs = {.start = PRN_RUN_UNSET, .end = PRN_RUN_UNSET},
                                      .by = {PRN_TRACE_BY_OP, 0}};
}

static int try_read(const struct prn_buffer *b, const struct prn_trace_options *options,
                    struct prn_trace **ret_trace, struct prony_error *err)
{
    struct prn_buffer text = PRN_BUFFER_INIT(b->limit + 4);
    prn_buffer_printf(&text, "%s\n]\n", prn_buffer_text(b));
    assert_int_equal(text.error, 0);
    struct prn_source *source;
    assert_int_equal(prn_source_open_memory(text.data, text.len, 0, &source, err), 0);
    struct prn_trace_files files = prn_trace_files_of(source);
    int code = prn_trace_read(&files, options, ret_trace, err);
    prn_source_close(source);
    prn_buffer_release(&text);
    return code;
}

static struct prn_trace *read_trace(const struct prn_buffer *b,
                                    const struct prn_trace_options *options)
{
    struct prn_trace *t;
    struct prony_error err;
    if (try_read(b, options, &t, &err) < 0)
        fail_msg("%s", err.text);
    return t;
}

static void assert_fails(const struct prn_buffer *b, const struct prn_trace_options *options,
                         int code, const char *message)
{
    struct prn_trace *untouched = (struct prn_trace *)&code;
    struct prn_trace *t = untouched;
    struct prony_error err;
    assert_int_equal(try_read(b, options, &t, &err), code);
    assert_contains(err.text, message);
    assert_ptr_equal(t, untouched);
}

static bool is(const struct prn_symbol *symbol, const char *text)
{
    return symbol && text ? strcmp(symbol->text, text) == 0 : !symbol && !text;
}

/* The group with this key; NULL when there is none, or it isn't in the selected runs. */
static const struct prn_trace_group *find(const struct prn_trace_table *table,
                                          const char *node_name, const char *op, const char *shape,
                                          const char *dimensions)
{
    for (size_t i = 0; i < table->n; i++) {
        const struct prn_trace_group *g = table->groups[i];
        if (is(g->key.node, node_name) && is(g->key.op, op) && is(g->key.shape, shape) &&
            is(g->key.dimensions, dimensions))
            return g->total.count ? g : NULL;
    }
    return NULL;
}

static void assert_sum(const struct prn_trace_group *g, uint64_t count, int64_t us)
{
    assert_non_null(g);
    assert_int_equal(g->total.count, count);
    assert_int_equal(g->total.ns, us * 1000);
}

#define op_group(t, op) find(&(t)->cpu[0], NULL, op, NULL, NULL)

/* ---- Runs ---- */

/* Three runs with an Add of 10, 20 and 30 µs, and an event behind them. */
static void three_runs(struct prn_buffer *b)
{
    event(b, "Session", "session_initialization", 1, 0, 99, "");
    for (int i = 0; i < 3; i++) {
        node(b, "a", "Add", 10 * (i + 1));
        model_run(b, 1000 * i, 100);
    }
    node(b, "a", "Add", 5000);
}

static void test_selection(void **state)
{
    (void)state;
    static const struct {
        int64_t start, end;
        const char *gather;
        uint64_t count;
        int64_t us;
        const char *selected;
    } cases[] = {
        {PRN_RUN_UNSET, PRN_RUN_UNSET, NULL, 2, 50, "1-2"},
        {0, PRN_RUN_UNSET, NULL, 3, 60, "0-2"},
        {-1, PRN_RUN_UNSET, NULL, 1, 30, "2"},
        {PRN_RUN_UNSET, 2, NULL, 1, 20, "1"},
        {PRN_RUN_UNSET, 3, NULL, 2, 50, "1-2"},
        {0, -1, NULL, 2, 30, "0-1"},
        {PRN_RUN_UNSET, PRN_RUN_UNSET, "[2, 0, 2]", 2, 40, "0, 2"},
        {PRN_RUN_UNSET, PRN_RUN_UNSET, "[-1]", 1, 30, "2"},
    };
    struct prn_buffer b = PRN_BUFFER_INIT(TEXT_MAX);
    three_runs(&b);
    for (size_t i = 0; i < PRN_ARRAY_SIZE(cases); i++) {
        struct prn_trace_options o = by_op();
        o.runs = (struct prn_run_choice){cases[i].start, cases[i].end, cases[i].gather};
        struct prn_trace *t = read_trace(&b, &o);
        assert_int_equal(t->n_runs, 3);
        assert_int_equal(t->n_selected, cases[i].count);
        assert_string_equal(t->selected, cases[i].selected);
        assert_int_equal(t->outside, 1);
        assert_false(t->whole_is_one_run || t->includes_warm_up);
        assert_sum(op_group(t, "Add"), cases[i].count, cases[i].us);
        assert_int_equal(op_group(t, "Add")->first.ns, 10000);
        assert_int_equal(op_group(t, "Add")->first.count, 1);
        assert_int_equal(t->cpu[0].total.ns, cases[i].us * 1000);
        assert_int_equal(t->counts.events, 8);
        assert_int_equal(t->runs[2].start_ns, 2000000);
        assert_int_equal(t->runs[2].duration_ns, 100000);
        prn_trace_free(t);
    }
    struct prn_trace_options o = by_op();
    o.runs.gather = "[3, 4]";
    assert_fails(&b, &o, PRONY_EUSAGE, "3");
    o.runs = (struct prn_run_choice){3, PRN_RUN_UNSET, NULL};
    assert_fails(&b, &o, PRONY_EUSAGE, "3");
    prn_buffer_release(&b);
}

static void test_no_run(void **state)
{
    (void)state;
    struct prn_buffer b = PRN_BUFFER_INIT(TEXT_MAX);
    node(&b, "a", "Add", 10);
    node(&b, "b", "Mul", 4);
    node(&b, "a", "Add", 20);
    kernel(&b, "k", NULL, "", 3);
    for (int start = 0; start < 2; start++) {
        struct prn_trace_options o = by_op();
        if (start == 0)
            o.runs.start = 0;
        struct prn_trace *t = read_trace(&b, &o);
        assert_true(t->whole_is_one_run);
        assert_int_equal(t->n_runs, 0);
        assert_int_equal(t->n_selected, 1);
        assert_string_equal(t->selected, "0");
        assert_int_equal(t->outside, 0);
        assert_false(t->has_ledger);
        assert_sum(op_group(t, "Add"), 2, 30);
        assert_sum(op_group(t, "Mul"), 1, 4);
        assert_sum(find(&t->gpu, "k", NULL, NULL, NULL), 1, 3);
        assert_int_equal(t->kernels, 1);
        assert_int_equal(t->cpu[0].total.ns, 34000);
        assert_int_equal(op_group(t, "Add")->per_run.count, 1);
        assert_near(op_group(t, "Add")->per_run.mean, 30000, 0);
        prn_trace_free(t);
    }
    prn_buffer_release(&b);
}

static void test_one_run(void **state)
{
    (void)state;
    struct prn_buffer b = PRN_BUFFER_INIT(TEXT_MAX);
    node(&b, "a", "Add", 10);
    kernel(&b, "k", NULL, "", 3);
    model_run(&b, 0, 100);
    node(&b, "a", "Add", 7);
    struct prn_trace_options o = by_op();
    struct prn_trace *t = read_trace(&b, &o);
    assert_true(t->includes_warm_up);
    assert_int_equal(t->n_selected, 1);
    assert_string_equal(t->selected, "0");
    assert_sum(op_group(t, "Add"), 1, 10);
    assert_int_equal(t->kernels, 1);
    assert_int_equal(t->outside, 1);
    assert_true(t->has_ledger);
    assert_near(t->ledger_ns[PRN_LEDGER_TOTAL], 100000, 0);
    prn_trace_free(t);
    o.runs.start = 1; /* asked for by name, it isn't there */
    assert_fails(&b, &o, PRONY_EUSAGE, "1");
    prn_buffer_release(&b);
}

static void test_nothing(void **state)
{
    (void)state;
    struct prn_buffer b = PRN_BUFFER_INIT(TEXT_MAX);
    prn_buffer_add(&b, "[");
    struct prn_trace_options o = by_op();
    assert_fails(&b, &o, PRONY_EFORMAT, "the trace has no events");
    prn_buffer_clear(&b);
    event(&b, "Session", "model_loading", 1, 0, 5, "");
    struct prn_trace *t = read_trace(&b, &o);
    assert_int_equal(t->cpu[0].n, 0);
    assert_true(t->whole_is_one_run);
    prn_trace_free(t);
    prn_buffer_release(&b);
}

static void test_overlapping_runs(void **state)
{
    (void)state;
    struct prn_buffer b = PRN_BUFFER_INIT(TEXT_MAX);
    model_run(&b, 0, 100);
    model_run(&b, 100, 100); /* begins when the one before ends */
    model_run(&b, 199, 100); /* 1 µs too early */
    model_run(&b, 400, 100);
    model_run(&b, 300, 50); /* before the one before began */
    struct prn_trace_options o = by_op();
    struct prn_trace *t = read_trace(&b, &o);
    assert_int_equal(t->overlapping, 2);
    prn_trace_free(t);
    prn_buffer_release(&b);
}

/* In runs 1 to 4 the Mul takes 20, 0, 40 and 0 µs: mean 15, median 10, largest 40. */
/* Two threads run at once, and one of them has a worker that never ends a run. */
static void test_concurrent_runs(void **state)
{
    (void)state;
    struct prn_buffer b = PRN_BUFFER_INIT(TEXT_MAX);
    for (int i = 0; i < 2; i++) {
        long at = 1000L * i;
        node_at(&b, "a", "Add", NULL, 1, at + 10, 20);
        node_at(&b, "m", "Mul", NULL, 2, at + 5, 90);
        node_at(&b, "c", "Conv", NULL, 3, at + 30, 40); /* for thread 1 */
        event(&b, "Session", "model_run", 1, at + 8, 80, "");
        node_at(&b, "a", "Add", NULL, 2, at + 96, 3);
        event(&b, "Session", "model_run", 2, at, 100, "");
    }
    struct prn_trace_options o = by_op();
    o.runs.start = 0;
    struct prn_trace *t = read_trace(&b, &o);
    assert_int_equal(t->n_runs, 4);
    assert_int_equal(t->overlapping, 2);
    assert_int_equal(t->outside, 0);
    assert_sum(op_group(t, "Add"), 4, 46);
    assert_sum(op_group(t, "Mul"), 2, 180);
    assert_int_equal(t->runs[0].node_ns, 60000); /* 20 of Add, 40 of Conv */
    assert_int_equal(t->runs[1].node_ns, 93000);
    assert_int_equal(t->runs[2].node_ns, 60000);
    prn_trace_free(t);
    o.runs.end = 1;
    t = read_trace(&b, &o);
    assert_sum(op_group(t, "Add"), 1, 20);
    assert_sum(op_group(t, "Conv"), 1, 40);
    assert_null(op_group(t, "Mul"));
    prn_trace_free(t);
    prn_buffer_release(&b);
}

/* More threads than strands, each of which runs once. */
static void test_a_thread_for_every_run(void **state)
{
    (void)state;
    struct prn_buffer b = PRN_BUFFER_INIT(TEXT_MAX);
    for (int i = 0; i < 3 * PRN_TRACE_STRANDS_MAX; i++) {
        node_at(&b, "a", "Add", NULL, 100 + i, 100L * i + 1, i % 80);
        event(&b, "Session", "model_run", 100 + i, 100L * i, 90, "");
    }
    struct prn_trace_options o = by_op();
    struct prn_trace *t = read_trace(&b, &o);
    assert_int_equal(t->n_runs, 3 * PRN_TRACE_STRANDS_MAX);
    assert_int_equal(t->outside, 0);
    for (int i = 0; i < 3 * PRN_TRACE_STRANDS_MAX; i++)
        assert_int_equal(t->runs[i].node_ns, 1000L * (i % 80));
    prn_trace_free(t);
    prn_buffer_release(&b);
}

static void api(struct prn_buffer *b, const char *name, long ts, long dur)
{
    event(b, "Api", name, -1, ts, dur, "");
}

static void three_plain_runs(struct prn_buffer *b)
{
    for (int i = 0; i < 3; i++) {
        node_at(b, "a", "Add", NULL, 1, 1000 + 100L * i, 20);
        model_run(b, 1000 + 100L * i, 90);
    }
}

/* Kernels that come last, on a clock of their own: their order tells the run. */
static void test_late_kernels_in_order(void **state)
{
    (void)state;
    struct prn_buffer b = PRN_BUFFER_INIT(TEXT_MAX);
    three_plain_runs(&b);
    for (int i = 0; i < 3; i++) {
        api(&b, "a&Add&Binary", 40L * i, 5 + i);
        api(&b, "m&Mul&Binary", 40L * i + 20, 7);
    }
    struct prn_trace_options o = by_op();
    o.mapping = true;
    struct prn_trace *t = read_trace(&b, &o);
    assert_int_equal(t->late_kernels, 6);
    assert_int_equal(t->outside, 0);
    assert_int_equal(t->kernels, 4); /* run 0 is not selected */
    assert_int_equal(t->kernels_unresolved, 0);
    assert_sum(find(&t->gpu, "Binary", NULL, NULL, NULL), 4, 6 + 7 + 7 + 7);
    assert_int_equal(find(&t->gpu, "Binary", NULL, NULL, NULL)->first.ns, 12000);
    assert_sum(find(&t->mapping, "Binary", "Add", "unknown", NULL), 2, 13);
    prn_trace_free(t);
    /* One kernel more, and the order tells nothing. */
    api(&b, "a&Add&Binary", 200, 1);
    t = read_trace(&b, &o);
    assert_int_equal(t->late_kernels, 0);
    assert_int_equal(t->outside, 7);
    assert_int_equal(t->kernels, 0);
    prn_trace_free(t);
    prn_buffer_release(&b);
}

/* Kernels that come last, on the trace's clock. */
static void test_late_kernels_by_time(void **state)
{
    (void)state;
    struct prn_buffer b = PRN_BUFFER_INIT(TEXT_MAX);
    three_plain_runs(&b);
    event(&b, "Kernel", "k", -1, 1201, 4, "\"stream\" : \"7\"");
    event(&b, "Kernel", "k", -1, 1001, 1, "\"stream\" : \"7\"");
    event(&b, "Kernel", "k", -1, 1110, 2, "\"stream\" : \"7\"");
    event(&b, "Kernel", "k", -1, 1120, 3, "\"stream\" : \"7\"");
    struct prn_trace_options o = by_op();
    struct prn_trace *t = read_trace(&b, &o);
    assert_int_equal(t->late_kernels, 4);
    assert_int_equal(t->outside, 0);
    const struct prn_trace_group *k = find(&t->gpu, "k", NULL, NULL, NULL);
    assert_sum(k, 3, 9);
    assert_int_equal(k->first.ns, 1000);
    prn_trace_free(t);
    prn_buffer_release(&b);
}

static void test_runs_without_a_group(void **state)
{
    (void)state;
    struct prn_buffer b = PRN_BUFFER_INIT(TEXT_MAX);
    for (int i = 0; i < 5; i++) {
        node(&b, "a", "Add", 1);
        if (i % 2 == 1) {
            node(&b, "m", "Mul", 5 * (i + 1));
            node(&b, "n", "Mul", 5 * (i + 1));
        }
        if (i == 0)
            node(&b, "w", "WarmUp", 9);
        model_run(&b, 1000 * i, 100);
    }
    struct prn_trace_options o = by_op();
    struct prn_trace *t = read_trace(&b, &o);
    const struct prn_trace_group *mul = op_group(t, "Mul");
    assert_sum(mul, 4, 60);
    assert_int_equal(mul->first.count, 0);
    assert_int_equal(mul->per_run.count, 4);
    assert_int_equal(mul->per_run.zeros, 2);
    assert_near(prn_sketch_mean(&mul->per_run), 15000, 1e-9);
    assert_near(prn_sketch_quantile(&mul->per_run, 0.5), 10000, 1e-9);
    assert_near(mul->per_run.max, 40000, 0);
    assert_near(mul->per_run.min, 0, 0);
    assert_null(op_group(t, "WarmUp")); /* in run 0 only */
    const struct prn_trace_group **sorted;
    size_t n;
    assert_int_equal(prn_trace_sorted(&t->cpu[0], &sorted, &n, NULL), 0);
    assert_int_equal(n, 2);
    assert_string_equal(sorted[0]->key.op->text, "Mul");
    assert_string_equal(sorted[1]->key.op->text, "Add");
    free(sorted);
    prn_trace_free(t);
    prn_buffer_release(&b);
}

/* ---- Groups ---- */

static void test_group_by(void **state)
{
    (void)state;
    struct prn_buffer b = PRN_BUFFER_INIT(TEXT_MAX);
    node_at(&b, "a", "Add", "[{\"float\":[1]}]", 1, 0, 1);
    node_at(&b, "b", "Add", "[{\"float\":[1]}]", 1, 0, 2);
    node_at(&b, "b", "Add", "[{\"float\":[2]}]", 1, 0, 4);
    node_at(&b, "c", "Mul", NULL, 1, 0, 8);
    node_at(&b, "d", NULL, NULL, 1, 0, 16); /* without an operator: in no table */
    model_run(&b, 0, 100);
    struct prn_trace_options o = by_op();
    o.runs.start = 0;
    o.by[0] = PRN_TRACE_BY_NODE;
    o.by[1] = PRN_TRACE_BY_OP | PRN_TRACE_BY_SHAPE;
    struct prn_trace *t = read_trace(&b, &o);
    assert_int_equal(t->without_op, 1);
    assert_int_equal(t->cpu[0].n, 3);
    assert_sum(find(&t->cpu[0], "a_kernel_time", "Add", NULL, NULL), 1, 1);
    assert_sum(find(&t->cpu[0], "b_kernel_time", "Add", NULL, NULL), 2, 6);
    assert_sum(find(&t->cpu[0], "c_kernel_time", "Mul", NULL, NULL), 1, 8);
    assert_int_equal(t->cpu[1].n, 3);
    assert_sum(find(&t->cpu[1], NULL, "Add", "float(1)", NULL), 2, 3);
    assert_sum(find(&t->cpu[1], NULL, "Add", "float(2)", NULL), 1, 4);
    assert_sum(find(&t->cpu[1], NULL, "Mul", "unknown", NULL), 1, 8);
    assert_int_equal(t->cpu[0].total.ns, 15000);
    assert_int_equal(t->cpu[1].total.ns, 15000);
    prn_trace_free(t);
    prn_buffer_release(&b);
}

static void test_limit_on_groups(void **state)
{
    (void)state;
    struct prn_trace_options o = by_op();
    o.runs.start = 0;
    o.by[1] = PRN_TRACE_BY_NODE;
    o.groups_max = 4;
    static const char *const names[] = {"a", "b", "c"};
    for (size_t n = 2; n <= 3; n++) {
        struct prn_buffer b = PRN_BUFFER_INIT(TEXT_MAX);
        for (size_t i = 0; i < n; i++)
            node(&b, names[i], names[i], 1);
        if (n == 2) {
            struct prn_trace *t = read_trace(&b, &o);
            assert_int_equal(t->cpu[0].n + t->cpu[1].n, 4);
            prn_trace_free(t);
        } else {
            assert_fails(&b, &o, PRONY_ELIMIT, "over 4 distinct groups");
        }
        prn_buffer_release(&b);
    }
    /* Five names: too many for a table by node, but not for one by operator. */
    struct prn_buffer b = PRN_BUFFER_INIT(TEXT_MAX);
    for (int i = 0; i < 10; i++) {
        char name[10];
        snprintf(name, sizeof name, "n%d", i % 5);
        node(&b, name, "Add", 1);
    }
    o.by[1] = 0;
    struct prn_trace *t = read_trace(&b, &o);
    assert_sum(op_group(t, "Add"), 10, 10);
    prn_trace_free(t);
    o.by[0] = PRN_TRACE_BY_NODE;
    assert_fails(&b, &o, PRONY_ELIMIT, "over 4 distinct event names");
    prn_buffer_release(&b);
}

/* Names may also be too long together; the same option helps. */
static void test_limit_on_texts(void **state)
{
    (void)state;
    enum { NAMES = 13, NAME_BYTES = 2 << 20 };
    struct prn_trace_options o = by_op();
    o.runs.start = 0;
    o.by[0] = PRN_TRACE_BY_NODE;
    struct prn_buffer b = PRN_BUFFER_INIT((size_t)32 << 20);
    char *name = malloc(NAME_BYTES);
    assert_non_null(name);
    memset(name, 'n', NAME_BYTES);
    snprintf(name + NAME_BYTES - 20, 20, "_kernel_time");
    for (int i = 0; i < NAMES; i++) {
        name[0] = (char)('a' + i);
        event(&b, "Node", name, 1, 0, 1, "\"op_name\" : \"Add\"");
    }
    free(name);
    assert_fails(&b, &o, PRONY_ELIMIT, "or 24 MiB of texts; --max-groups");
    o.groups_max = 32768;
    struct prn_trace *t = read_trace(&b, &o);
    assert_int_equal(t->cpu[0].n, NAMES);
    prn_trace_free(t);
    prn_buffer_release(&b);
}

static void test_sums_that_overflow(void **state)
{
    (void)state;
    struct prn_buffer b = PRN_BUFFER_INIT(TEXT_MAX);
    node(&b, "a", "Add", 9000000000000000);
    node(&b, "a", "Add", 9000000000000000);
    struct prn_trace_options o = by_op();
    assert_fails(&b, &o, PRONY_EFORMAT, "290 years");
    prn_buffer_release(&b);
}

/* ---- Kernels ---- */

#define F1 "[{\"float\":[1]}]"
#define F2 "[{\"float\":[2]}]"
#define DIMS ",\"block_x\" : \"256\",\"block_y\" : \"1\",\"block_z\" : \"1\",\"grid_x\" : \"2\""

static void test_launching_node(void **state)
{
    (void)state;
    struct prn_buffer b = PRN_BUFFER_INIT(TEXT_MAX);
    kernel(&b, "before", NULL, "", 1); /* no node yet */
    kernel(&b, "hipMemcpy", NULL, "", 1);
    node_at(&b, "a", "Add", F1, 1, 0, 10);
    kernel(&b, "k", "Add", DIMS, 2);
    kernel(&b, "k", "Add", DIMS, 4);
    model_run(&b, 0, 100);
    kernel(&b, "k", "Add", DIMS, 8); /* launched by the node of run 0 */
    node_at(&b, "m", "Mul", F2, 1, 200, 10);
    event(&b, "Node", "a_fence_after", 1, 200, 10, "\"op_name\" : \"Add\"");
    kernel(&b, "k", "Mul", DIMS, 16);
    node_at(&b, "s", "Shapeless", NULL, 1, 220, 10);
    kernel(&b, "k", "Shapeless", "", 32);
    model_run(&b, 200, 100);
    struct prn_trace_options o = by_op();
    o.kernel_shapes = true;
    o.kernel_dimensions = true;
    static const char dims[] = "b256x1x1,g2x-1x-1";
    static const char none[] = "b-1x-1x-1,g-1x-1x-1";

    /* Run 1 alone: what launched its first kernel isn't in the selection. */
    struct prn_trace *t = read_trace(&b, &o);
    assert_int_equal(t->kernels, 3);
    assert_int_equal(t->kernels_unresolved, 1);
    assert_sum(find(&t->gpu, "k", NULL, "unknown", dims), 1, 8);
    assert_sum(find(&t->gpu, "k", NULL, "float(2)", dims), 1, 16);
    assert_sum(find(&t->gpu, "k", NULL, "unknown", none), 1, 32);
    assert_null(find(&t->gpu, "before", NULL, "unknown", none));
    prn_trace_free(t);

    /* Both runs: now it is, and of the two without a node one is excepted by its name. */
    o.runs.start = 0;
    t = read_trace(&b, &o);
    assert_int_equal(t->kernels, 7);
    assert_int_equal(t->kernels_unresolved, 1);
    assert_sum(find(&t->gpu, "k", NULL, "float(1)", dims), 3, 14);
    assert_sum(find(&t->gpu, "before", NULL, "unknown", none), 1, 1);
    assert_int_equal(t->gpu.total.ns, 64000);
    prn_trace_free(t);

    /* Without shapes and dimensions the name is all there is. */
    o.kernel_shapes = o.kernel_dimensions = false;
    t = read_trace(&b, &o);
    assert_sum(find(&t->gpu, "k", NULL, NULL, NULL), 5, 62);
    prn_trace_free(t);
    prn_buffer_release(&b);
}

static void test_filters(void **state)
{
    (void)state;
    struct prn_buffer b = PRN_BUFFER_INIT(TEXT_MAX);
    node_at(&b, "first", "Add", F1, 1, 0, 1);
    kernel(&b, "k1", NULL, "", 10); /* passes, because it has no operator */
    node_at(&b, "second", "Mul", F2, 1, 0, 2);
    kernel(&b, "k1", NULL, "", 20);
    kernel(&b, "k2", "Mul", "", 40);
    node_at(&b, "third", "Gemm", F2, 1, 0, 4);
    model_run(&b, 0, 100);
    static const struct {
        const char *filters[2];
        int64_t cpu_us, gpu_us;
        const char *launch_shape; /* of the second k1 */
    } cases[] = {
        {{NULL, NULL}, 7, 70, "float(2)"},
        {{"Add", NULL}, 1, 30, "float(1)"}, /* a node that is left out launches nothing */
        {{"add", NULL}, 0, 30, "unknown"},
        {{"M*", "A??"}, 3, 70, "float(2)"},
        {{"third_kernel_time", NULL}, 4, 30, "unknown"},
        {{"*_kernel_time", NULL}, 7, 30, "float(2)"},
        {{"[GM]*", "nothing"}, 6, 70, "float(2)"},
    };
    for (size_t i = 0; i < PRN_ARRAY_SIZE(cases); i++) {
        struct prn_trace_options o = by_op();
        o.runs.start = 0;
        o.kernel_shapes = true;
        o.filters = cases[i].filters;
        o.n_filters = (cases[i].filters[0] != NULL) + (cases[i].filters[1] != NULL);
        struct prn_trace *t = read_trace(&b, &o);
        assert_int_equal(t->cpu[0].total.ns, cases[i].cpu_us * 1000);
        assert_int_equal(t->gpu.total.ns, cases[i].gpu_us * 1000);
        const struct prn_trace_group *g = find(&t->gpu, "k1", NULL, cases[i].launch_shape, NULL);
        assert_non_null(g);
        assert_true(g->total.ns >= 20000);
        /* The ledger is about the run, and leaves nothing out. */
        assert_int_equal(t->ledger_nodes, 3);
        prn_trace_free(t);
    }
    prn_buffer_release(&b);
}

static void test_mapping(void **state)
{
    (void)state;
    struct prn_buffer b = PRN_BUFFER_INIT(TEXT_MAX);
    for (int i = 0; i < 3; i++) {
        node_at(&b, "a", "Add", F1, 1, 0, 10);
        kernel(&b, "k", "Add", DIMS, 1);
        kernel(&b, "k", "Add", DIMS, 3);
        kernel(&b, "k", "Add", "", 5);
        node_at(&b, "b", "Add", F1, 1, 0, 10);
        kernel(&b, "other", "Add", DIMS, 7);
        kernel(&b, "hipMemcpy", NULL, "", 100); /* of no operator: not mapped */
        node_at(&b, "c", "Add", F2, 1, 0, 10);
        kernel(&b, "k", "Add", DIMS, 9);
        model_run(&b, 1000 * i, 100);
    }
    struct prn_trace_options o = by_op();
    o.mapping = true;
    struct prn_trace *t = read_trace(&b, &o);
    static const char dims[] = "b256x1x1,g2x-1x-1";
    assert_int_equal(t->mapping.n, 4);
    assert_sum(find(&t->mapping, "k", "Add", "float(1)", dims), 4, 8);
    assert_sum(find(&t->mapping, "k", "Add", "float(1)", "b-1x-1x-1,g-1x-1x-1"), 2, 10);
    assert_sum(find(&t->mapping, "other", "Add", "float(1)", dims), 2, 14);
    assert_sum(find(&t->mapping, "k", "Add", "float(2)", dims), 2, 18);
    assert_int_equal(t->mapped.n, 2);
    assert_sum(find(&t->mapped, NULL, "Add", "float(1)", NULL), 4, 40);
    assert_sum(find(&t->mapped, NULL, "Add", "float(2)", NULL), 2, 20);
    assert_int_equal(t->mapping.total.ns, 50000);
    assert_int_equal(t->gpu.total.ns, 250000);
    prn_trace_free(t);
    prn_buffer_release(&b);
}

/* ---- The ledger ---- */

/*
 * Run 0, [100, 200): Execute [110, 190). Nodes: A [120, 150) on thread 1, B [130, 170) on thread 2,
 * If [172, 186) on thread 1 with its body C [174, 180) inside. Together they cover [120, 170) and
 * [172, 186): 64. Overhead is 80 - 64 = 16, before and after 10 each. Thread 1 is busy for 30 + 14,
 * thread 2 for 40: 84; 6 are nested.
 *
 * Run 1, [300, 400): Execute twice, [310, 340) and [360, 390), one node D [320, 330). Nodes 10,
 * overhead 20 + 30, before 10, after 10, and 20 between the two that nothing explains.
 */
static void test_ledger(void **state)
{
    (void)state;
    struct prn_buffer b = PRN_BUFFER_INIT(TEXT_MAX);
    node_at(&b, "A", "Conv", NULL, 1, 120, 30);
    node_at(&b, "B", "Conv", NULL, 2, 130, 40);
    node_at(&b, "C", "Add", NULL, 1, 174, 6);
    node_at(&b, "If", "If", NULL, 1, 172, 14);
    execute(&b, 110, 80);
    model_run(&b, 100, 100);
    node_at(&b, "D", "Conv", NULL, 1, 320, 10);
    execute(&b, 310, 30);
    execute(&b, 360, 30);
    model_run(&b, 300, 100);
    struct prn_trace_options o = by_op();
    o.runs.start = 0;
    struct prn_trace *t = read_trace(&b, &o);
    assert_true(t->has_ledger && t->has_execute && !t->ledger_approximate);
    assert_int_equal(t->first_ledger.total, 100000);
    assert_int_equal(t->first_ledger.node, 64000);
    assert_int_equal(t->first_ledger.overhead, 16000);
    assert_int_equal(t->first_ledger.before, 10000);
    assert_int_equal(t->first_ledger.after, 10000);
    assert_int_equal(t->first_ledger.unexplained, 0);
    assert_int_equal(t->first_ledger.node_sum, 84000);
    assert_int_equal(t->first_ledger.nested, 6000);
    assert_int_equal(t->first_ledger.nodes, 4);
    static const double sums[PRN_LEDGER_ROW_COUNT] = {74000, 66000, 20000, 20000, 20000, 200000};
    for (size_t i = 0; i < PRN_LEDGER_ROW_COUNT; i++) {
        assert_near(t->ledger_ns[i], sums[i], 0);
        assert_int_equal(t->ledger[i].count, 2);
        assert_near(t->ledger[i].mean, sums[i] / 2, 1e-9);
    }
    assert_near(t->ledger_node_sum_ns, 94000, 0);
    assert_near(t->ledger_nested_ns, 6000, 0);
    assert_int_equal(t->ledger_nodes, 5);
    assert_int_equal(t->runs[0].node_ns, 64000);
    assert_int_equal(t->runs[1].node_ns, 10000);
    prn_trace_free(t);
    /* Of run 1 alone. */
    o.runs.start = PRN_RUN_UNSET;
    t = read_trace(&b, &o);
    assert_near(t->ledger_ns[PRN_LEDGER_UNEXPLAINED], 20000, 0);
    assert_near(t->ledger_ns[PRN_LEDGER_TOTAL], 100000, 0);
    assert_int_equal(t->first_ledger.node, 64000);
    prn_trace_free(t);
    prn_buffer_release(&b);
}

/* ---- Events as they come ---- */

struct watch {
    uint64_t runs[16];
    size_t n;
    int fail_at;
};

static int watch_event(void *context, const struct prn_trace_event *e, uint64_t run,
                       struct prony_error *err)
{
    struct watch *w = context;
    assert_true(e->category != PRN_TRACE_NONE);
    assert_true(w->n < PRN_ARRAY_SIZE(w->runs));
    w->runs[w->n++] = run;
    return w->fail_at && (int)w->n == w->fail_at ? prn_fail(err, PRONY_EIO, "enough") : 0;
}

static void test_on_event(void **state)
{
    (void)state;
    struct prn_buffer b = PRN_BUFFER_INIT(TEXT_MAX);
    three_runs(&b);
    struct watch w = {0};
    struct prn_trace_options o = by_op();
    o.on_event = watch_event;
    o.context = &w;
    o.runs.gather = "[0, 2]";
    prn_trace_free(read_trace(&b, &o));
    static const uint64_t expected[] = {0, 0, 0, 2, 2};
    assert_int_equal(w.n, PRN_ARRAY_SIZE(expected));
    assert_memory_equal(w.runs, expected, sizeof expected);
    w = (struct watch){.fail_at = 2};
    assert_fails(&b, &o, PRONY_EIO, "enough");
    prn_buffer_clear(&b);
    /* One run only: it is seen, although the default would skip it. */
    node(&b, "a", "Add", 1);
    model_run(&b, 0, 10);
    w = (struct watch){0};
    o.runs.gather = NULL;
    struct prn_trace *t = read_trace(&b, &o);
    assert_int_equal(w.n, 2);
    assert_true(t->includes_warm_up);
    assert_sum(op_group(t, "Add"), 1, 1);
    prn_trace_free(t);
    prn_buffer_release(&b);
}

static void test_recovered(void **state)
{
    (void)state;
    struct prn_buffer b = PRN_BUFFER_INIT(TEXT_MAX);
    node(&b, "a", "Add", 1);
    node(&b, "bro\xffken", "Add", 2);
    node(&b, "c", "Add", 4);
    model_run(&b, 0, 10);
    struct prn_trace_options o = by_op();
    assert_fails(&b, &o, PRONY_EFORMAT, "line 2: not UTF-8");
    o.recover = true;
    struct prn_trace *t = read_trace(&b, &o);
    assert_sum(op_group(t, "Add"), 2, 5);
    assert_int_equal(t->counts.lost, 1);
    assert_contains(t->first_fault, "line 2: ");
    prn_trace_free(t);
    prn_buffer_release(&b);
}

static void test_node_length(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t len;
    } cases[] = {{"a_kernel_time", 1}, {"_kernel_time", 0}, {"kernel_time", 0},
                 {"akernel_time", 1},  {"kernel_tim", 10},  {"", 0}};
    for (size_t i = 0; i < PRN_ARRAY_SIZE(cases); i++) {
        struct prn_symbol symbol = {.text = cases[i].text, .len = strlen(cases[i].text)};
        assert_int_equal(prn_trace_node_length(&symbol), cases[i].len);
    }
}

/* ---- Comparison ---- */

/*
 * Runs 1 to n have an Add of base + (7 i mod 11) µs, where i counts from 0. Twenty-two runs have
 * each remainder twice: the median is base + 5. The Mul takes 50 and 51 µs in turn, on both sides:
 * the median is 50.5. The run itself takes 1000 µs.
 */
static struct prn_trace *side(int runs, long base, const char *only)
{
    struct prn_buffer b = PRN_BUFFER_INIT(TEXT_MAX);
    model_run(&b, 0, 1000);
    for (int i = 0; i < runs; i++) {
        node(&b, "a", "Add", base + 7 * i % 11);
        node(&b, "m", "Mul", 50 + i % 2);
        node(&b, "x", only, 3);
        model_run(&b, 2000 * (i + 1), 1000);
    }
    struct prn_trace_options o = by_op();
    o.by[1] = PRN_TRACE_BY_NODE;
    struct prn_trace *t = read_trace(&b, &o);
    prn_buffer_release(&b);
    return t;
}

static const struct prn_trace_difference *row_of(const struct prn_trace_comparison *c,
                                                 const char *op)
{
    for (size_t i = 0; i < c->n[0]; i++)
        if (strcmp(c->rows[0][i].key->op->text, op) == 0)
            return &c->rows[0][i];
    fail_msg("no row for %s", op);
    return NULL;
}

static void test_compare(void **state)
{
    (void)state;
    struct prn_trace *a = side(22, 95, "OnlyA");
    struct prn_trace *b = side(22, 195, "OnlyB");
    for (int swapped = 0; swapped < 2; swapped++) {
        struct prn_trace_comparison c;
        assert_int_equal(prn_trace_compare(swapped ? b : a, swapped ? a : b, &c, NULL), 0);
        assert_int_equal(c.n[0], 4);
        /* By node, "x" is another node where its operator is another. */
        assert_int_equal(c.n[1], 4);

        const struct prn_trace_difference *add = row_of(&c, "Add");
        assert_ptr_equal(add, &c.rows[0][0]); /* the largest difference is first */
        assert_near(add->median_a_ns, swapped ? 200000 : 100000, 1e-6);
        assert_near(add->median_b_ns, swapped ? 100000 : 200000, 1e-6);
        assert_near(add->ratio.estimate, swapped ? 0.5 : 2, 1e-9);
        assert_true(add->ratio.low <= add->ratio.estimate &&
                    add->ratio.estimate <= add->ratio.high);
        assert_int_equal(add->verdict, swapped ? PRN_TRACE_FASTER : PRN_TRACE_SLOWER);
        assert_true(add->p < 0.001);

        const struct prn_trace_difference *mul = row_of(&c, "Mul");
        assert_near(mul->median_a_ns, 50500, 1e-6);
        assert_near(mul->ratio.estimate, 1, 1e-9);
        assert_true(mul->ratio.low <= 1 && mul->ratio.high >= 1);
        assert_int_equal(mul->verdict, PRN_TRACE_NOT_SHOWN);

        const struct prn_trace_difference *only = row_of(&c, "OnlyA");
        assert_int_equal(only->verdict, swapped ? PRN_TRACE_ONLY_B : PRN_TRACE_ONLY_A);
        assert_near(swapped ? only->median_b_ns : only->median_a_ns, 3000, 1e-9);
        assert_near(swapped ? only->median_a_ns : only->median_b_ns, 0, 0);
        assert_true(isnan(only->ratio.estimate) && isnan(only->p));
        only = row_of(&c, "OnlyB");
        assert_int_equal(only->verdict, swapped ? PRN_TRACE_ONLY_A : PRN_TRACE_ONLY_B);

        assert_true(c.has_run);
        assert_near(c.run.median_a_ns, 1000000, 1e-6);
        assert_near(c.run.ratio.estimate, 1, 1e-9);
        assert_int_equal(c.run.verdict, PRN_TRACE_NOT_SHOWN);
        prn_trace_comparison_release(&c);
    }
    prn_trace_free(a);
    prn_trace_free(b);
}

static void test_compare_few_runs(void **state)
{
    (void)state;
    for (int runs = PRN_TRACE_COMPARE_RUNS_MIN - 1; runs <= PRN_TRACE_COMPARE_RUNS_MIN; runs++) {
        struct prn_trace *a = side(runs, 95, "X");
        struct prn_trace *b = side(22, 195, "X");
        struct prn_trace_comparison c;
        assert_int_equal(prn_trace_compare(a, b, &c, NULL), 0);
        bool few = runs < PRN_TRACE_COMPARE_RUNS_MIN;
        assert_int_equal(row_of(&c, "Mul")->verdict == PRN_TRACE_TOO_FEW_RUNS, few);
        assert_int_equal(c.run.verdict == PRN_TRACE_TOO_FEW_RUNS, few);
        assert_int_equal(row_of(&c, "X")->verdict == PRN_TRACE_TOO_FEW_RUNS, few);
        prn_trace_comparison_release(&c);
        prn_trace_free(a);
        prn_trace_free(b);
    }
    for (int v = PRN_TRACE_NOT_SHOWN; v <= PRN_TRACE_TOO_FEW_RUNS; v++)
        assert_non_null(prn_trace_verdict_name((enum prn_trace_verdict)v));
}

/* A provider that isn't told is another than one whose name is empty. */
/* Less than a µs is 0 in a trace: no ratio can be told, but a difference can. */
static void test_compare_from_zero(void **state)
{
    (void)state;
    struct prn_trace *sides[2];
    for (int i = 0; i < 2; i++) {
        struct prn_buffer b = PRN_BUFFER_INIT(TEXT_MAX);
        for (int run = 0; run < 21; run++) {
            node(&b, "a", "Add", i == 0 ? 0 : 5);
            node(&b, "b", "Mul", 0);
            model_run(&b, 100 * run, 50);
        }
        struct prn_trace_options o = by_op();
        sides[i] = read_trace(&b, &o);
        prn_buffer_release(&b);
    }
    for (int swapped = 0; swapped < 2; swapped++) {
        struct prn_trace_comparison c;
        assert_int_equal(prn_trace_compare(sides[swapped], sides[!swapped], &c, NULL), 0);
        assert_int_equal(row_of(&c, "Add")->verdict, swapped ? PRN_TRACE_FASTER : PRN_TRACE_SLOWER);
        assert_int_equal(row_of(&c, "Mul")->verdict, PRN_TRACE_NOT_SHOWN);
        prn_trace_comparison_release(&c);
    }
    prn_trace_free(sides[0]);
    prn_trace_free(sides[1]);
}

static void test_compare_absent_and_empty(void **state)
{
    (void)state;
    struct prn_buffer b = PRN_BUFFER_INIT(TEXT_MAX);
    event(&b, "Node", "a_kernel_time", 1, 0, 1, "\"op_name\" : \"Add\"");
    event(&b, "Node", "a_kernel_time", 1, 0, 2, "\"op_name\" : \"Add\",\"provider\" : \"\"");
    struct prn_trace_options o = by_op();
    o.by[0] |= PRN_TRACE_BY_PROVIDER;
    struct prn_trace *t = read_trace(&b, &o);
    assert_int_equal(t->cpu[0].n, 2);
    struct prn_trace_comparison c;
    assert_int_equal(prn_trace_compare(t, t, &c, NULL), 0);
    assert_int_equal(c.n[0], 2);
    assert_false(c.has_run);
    prn_trace_comparison_release(&c);
    prn_trace_free(t);
    prn_buffer_release(&b);
}

/* ---- The public functions ---- */

static void test_api(void **state)
{
    (void)state;
    struct prn_buffer b = PRN_BUFFER_INIT(TEXT_MAX);
    for (int i = 0; i < 3; i++) {
        node_at(&b, "a", "Add", F1, 1, 1000 * i + 10, 10 * (i + 1));
        node_at(&b, "m", "Mul", F2, 1, 1000 * i + 50, 40);
        kernel(&b, "_Z1kv", "Mul", "", 4);
        model_run(&b, 1000 * i, 100);
    }
    prn_buffer_add(&b, "]");
    int fd = memfd_create("trace", 0);
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    assert_int_equal(write(fd, b.data, b.len), b.len);
    struct prony_trace *trace;
    struct prony_error err;
    assert_int_equal(prony_trace_open(path, NULL, &trace, &err), 0);

    struct prony_trace_run run;
    for (uint64_t i = 0; i < 3; i++) {
        assert_int_equal(prony_trace_run(trace, i, &run), 0);
        assert_int_equal(run.start_ns, 1000000 * i);
        assert_int_equal(run.duration_ns, 100000);
        assert_int_equal(run.node_ns, 10000 * (i + 1) + 40000);
    }
    assert_int_equal(prony_trace_run(trace, 3, &run), PRONY_ENOENT);

    struct prony_trace_group g;
    assert_int_equal(prony_trace_group(trace, PRONY_TRACE_CPU, 0, &g), 0);
    assert_string_equal(g.op, "Mul");
    assert_null(g.node);
    assert_null(g.provider);
    assert_null(g.shape);
    assert_int_equal(g.count, 2);
    assert_int_equal(g.total_ns, 80000);
    assert_int_equal(prony_trace_group(trace, PRONY_TRACE_CPU, 1, &g), 0);
    assert_string_equal(g.op, "Add");
    assert_int_equal(g.first_ns, 10000);
    assert_near(g.mean_ns, 25000, 1e-9);
    assert_near(g.p50_ns, 25000, 1e-9);
    assert_near(g.max_ns, 30000, 1e-9);
    assert_true(g.mean_low_ns <= g.mean_ns && g.mean_ns <= g.mean_high_ns);
    assert_int_equal(prony_trace_group(trace, PRONY_TRACE_CPU, 2, &g), PRONY_ENOENT);
    assert_int_equal(prony_trace_group(trace, PRONY_TRACE_GPU, 0, &g), 0);
    assert_string_equal(g.node, "_Z1kv");
    assert_int_equal(g.total_ns, 8000);
    assert_int_equal(prony_trace_group(trace, PRONY_TRACE_GPU, 1, &g), PRONY_ENOENT);

    assert_int_equal(prony_trace_run(NULL, 0, &run), PRONY_EUSAGE);
    assert_int_equal(prony_trace_run(trace, 0, NULL), PRONY_EUSAGE);
    assert_int_equal(prony_trace_group(NULL, PRONY_TRACE_CPU, 0, &g), PRONY_EUSAGE);
    assert_int_equal(prony_trace_group(trace, PRONY_TRACE_CPU, 0, NULL), PRONY_EUSAGE);
    assert_int_equal(prony_trace_group(trace, (enum prony_trace_kind)2, 0, &g), PRONY_EUSAGE);
    prony_trace_close(trace);
    prony_trace_close(NULL);

    struct prony_trace_options o = PRONY_TRACE_OPTIONS_INIT;
    static const char *const filters[] = {"m_*", NULL};
    o.by = PRONY_TRACE_BY_NODE | PRONY_TRACE_BY_PROVIDER | PRONY_TRACE_BY_SHAPE;
    o.filters = filters;
    o.n_filters = 1;
    o.gather = "[0]";
    assert_int_equal(prony_trace_open(path, &o, &trace, &err), 0);
    assert_int_equal(prony_trace_group(trace, PRONY_TRACE_CPU, 0, &g), 0);
    assert_string_equal(g.node, "m");
    assert_string_equal(g.provider, "CPU");
    assert_string_equal(g.shape, "float(2)");
    assert_int_equal(g.total_ns, 40000);
    assert_int_equal(prony_trace_group(trace, PRONY_TRACE_CPU, 1, &g), PRONY_ENOENT);
    prony_trace_close(trace);
    close(fd);
    prn_buffer_release(&b);
}

static void test_api_misuse(void **state)
{
    (void)state;
    struct prony_trace *untouched = (struct prony_trace *)state;
    struct prony_trace *trace = untouched;
    struct prony_error err;
    static const char *const filters[] = {"a", NULL};
    const struct prony_trace_options good = PRONY_TRACE_OPTIONS_INIT;
    struct prony_trace_options bad[7];
    for (size_t i = 0; i < PRN_ARRAY_SIZE(bad); i++)
        bad[i] = good;
    bad[0].struct_size = 0;
    bad[1].struct_size++;
    bad[2].by = 0;
    bad[3].by = 16;
    bad[4].n_filters = 1;
    bad[5].filters = filters;
    bad[5].n_filters = 2;
    bad[6].gather = "[";
    int descriptors = unit_descriptors();
    const char *path = unit_data("profile-tiny.json");
    for (size_t i = 0; i < PRN_ARRAY_SIZE(bad); i++)
        if (prony_trace_open(path, &bad[i], &trace, &err) != PRONY_EUSAGE || trace != untouched)
            fail_msg("options %zu: %s", i, err.text);
    assert_int_equal(prony_trace_open(NULL, NULL, &trace, &err), PRONY_EUSAGE);
    assert_int_equal(prony_trace_open(path, NULL, NULL, &err), PRONY_EUSAGE);
    assert_int_equal(prony_trace_open("/nonexistent", NULL, &trace, &err), PRONY_ENOENT);
    assert_true(prony_trace_open("/", NULL, &trace, NULL) < 0);
    assert_int_equal(prony_trace_open(path, NULL, &trace, &err), PRONY_EFORMAT);
    assert_contains(err.text, "not a trace");
    assert_ptr_equal(trace, untouched);
    assert_int_equal(unit_descriptors(), descriptors);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_selection),
        cmocka_unit_test(test_no_run),
        cmocka_unit_test(test_one_run),
        cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_overlapping_runs),
        cmocka_unit_test(test_concurrent_runs),
        cmocka_unit_test(test_a_thread_for_every_run),
        cmocka_unit_test(test_late_kernels_in_order),
        cmocka_unit_test(test_late_kernels_by_time),
        cmocka_unit_test(test_runs_without_a_group),
        cmocka_unit_test(test_group_by),
        cmocka_unit_test(test_limit_on_groups),
        cmocka_unit_test(test_limit_on_texts),
        cmocka_unit_test(test_sums_that_overflow),
        cmocka_unit_test(test_launching_node),
        cmocka_unit_test(test_filters),
        cmocka_unit_test(test_mapping),
        cmocka_unit_test(test_ledger),
        cmocka_unit_test(test_on_event),
        cmocka_unit_test(test_recovered),
        cmocka_unit_test(test_node_length),
        cmocka_unit_test(test_compare),
        cmocka_unit_test(test_compare_few_runs),
        cmocka_unit_test(test_compare_from_zero),
        cmocka_unit_test(test_compare_absent_and_empty),
        cmocka_unit_test(test_api),
        cmocka_unit_test(test_api_misuse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
