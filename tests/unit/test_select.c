#include "unit.h"

#include "trace/select.h"

#define UNSET PRN_RUN_UNSET

static struct prn_run_selection *make(int64_t start, int64_t end, const char *gather)
{
    struct prn_run_choice choice = {start, end, gather};
    struct prn_run_selection *s = NULL;
    struct prony_error err;
    if (prn_run_selection_new(&choice, &s, &err) < 0)
        fail_msg("%s", err.text);
    return s;
}

static struct prn_run_selection *resolved(int64_t start, int64_t end, const char *gather,
                                          uint64_t n_runs)
{
    struct prn_run_selection *s = make(start, end, gather);
    struct prony_error err;
    if (prn_run_selection_needs_total(s) && prn_run_selection_resolve(s, n_runs, &err) < 0)
        fail_msg("%s", err.text);
    assert_false(prn_run_selection_needs_total(s));
    return s;
}

/* What is selected in a trace of `n_runs`, in words and run by run. */
static void check(int64_t start, int64_t end, const char *gather, uint64_t n_runs,
                  const char *expected, uint64_t count)
{
    struct prn_run_selection *s = resolved(start, end, gather, n_runs);
    struct prony_error err;
    if (prn_run_selection_check(s, n_runs, &err) < 0)
        fail_msg("%s", err.text);
    struct prn_buffer out = PRN_BUFFER_INIT(10000);
    prn_run_selection_describe(s, n_runs, &out);
    assert_string_equal(prn_buffer_text(&out), expected);
    assert_int_equal(prn_run_selection_count(s, n_runs), count);
    uint64_t found = 0;
    for (uint64_t i = 0; i < n_runs; i++)
        found += prn_run_selection_has(s, i);
    bool single = prn_run_selection_is_default(s) && n_runs == 1;
    assert_int_equal(found, single ? 0 : count);
    prn_buffer_release(&out);
    prn_run_selection_free(s);
}

/* The same fault before the trace is read and after. */
static void check_fault(int64_t start, int64_t end, const char *gather, uint64_t n_runs,
                        const char *expected)
{
    struct prn_run_selection *s = make(start, end, gather);
    struct prony_error err;
    assert_int_equal(prn_run_selection_check(s, n_runs, &err), PRONY_EUSAGE);
    assert_string_equal(err.text, expected);
    assert_int_equal(prn_run_selection_resolve(s, n_runs, &err), PRONY_EUSAGE);
    assert_string_equal(err.text, expected);
    prn_run_selection_free(s);
}

static void test_default(void **state)
{
    (void)state;
    struct prn_run_selection *s = make(UNSET, UNSET, NULL);
    assert_true(prn_run_selection_is_default(s));
    assert_false(prn_run_selection_needs_total(s));
    assert_false(prn_run_selection_has(s, 0));
    assert_true(prn_run_selection_has(s, 1));
    assert_true(prn_run_selection_has(s, UINT64_MAX));
    prn_run_selection_free(s);
    prn_run_selection_free(NULL);
    check(UNSET, UNSET, NULL, 100, "1-99", 99);
    check(UNSET, UNSET, NULL, 2, "1", 1);
    check(UNSET, UNSET, NULL, 1, "0", 1); /* the one there is */
    check_fault(UNSET, UNSET, NULL, 0,
                "no run is selected: --start 1 (the default), but the trace has no runs");
}

static void test_start_and_end(void **state)
{
    (void)state;
    check(0, UNSET, NULL, 10, "0-9", 10);
    check(0, UNSET, NULL, 1, "0", 1);
    check(UNSET, 10, NULL, 10, "1-9", 9);
    check(UNSET, 5, NULL, 10, "1-4", 4);
    check(3, 4, NULL, 10, "3", 1);
    check(-1, UNSET, NULL, 10, "9", 1);
    check(-10, UNSET, NULL, 10, "0-9", 10);
    check(-5, -2, NULL, 10, "5-7", 3);
    check(UNSET, -1, NULL, 10, "1-8", 8);
    check(2, -1, NULL, 10, "2-8", 7);
    check(-3, 10, NULL, 10, "7-9", 3);
    struct prn_run_selection *s = make(1, UNSET, NULL);
    assert_false(prn_run_selection_is_default(s));
    prn_run_selection_free(s);
    s = make(0, -1, NULL);
    assert_true(prn_run_selection_needs_total(s));
    prn_run_selection_free(s);
}

static void test_start_and_end_faults(void **state)
{
    (void)state;
    check_fault(-11, UNSET, NULL, 10, "--start -11 is outside the trace: the trace has 10 runs");
    check_fault(INT64_MIN + 1, UNSET, NULL, 10,
                "--start -9223372036854775807 is outside the trace: the trace has 10 runs");
    check_fault(UNSET, 11, NULL, 10, "--end 11 is outside the trace: the trace has 10 runs");
    check_fault(0, -2, NULL, 1, "--end -2 is outside the trace: the trace has only 1 run");
    check_fault(10, UNSET, NULL, 10, "no run is selected: --start 10, but the trace has 10 runs");
    check_fault(INT64_MAX, UNSET, NULL, 10,
                "no run is selected: --start 9223372036854775807, but the trace has 10 runs");
    check_fault(1, UNSET, NULL, 1, "no run is selected: --start 1, but the trace has only 1 run");
    check_fault(5, 5, NULL, 10,
                "no run is selected: --start 5 is not before --end 5; the trace has 10 runs");
    check_fault(UNSET, 1, NULL, 10,
                "no run is selected: --start 1 (the default) is not before --end 1; "
                "the trace has 10 runs");
    check_fault(-2, -4, NULL, 10,
                "no run is selected: --start -2 (run 8) is not before --end -4 (run 6); "
                "the trace has 10 runs");
    check_fault(0, -10, NULL, 10,
                "no run is selected: --start 0 is not before --end -10 (run 0); "
                "the trace has 10 runs");
}

static void test_gather(void **state)
{
    (void)state;
    check(UNSET, UNSET, "[5, 0, 3, 9, 5, 8, 7, 6]", 10, "0, 3, 5-9", 7);
    check(UNSET, UNSET, "range(10)", 10, "0-9", 10);
    check(UNSET, UNSET, "[0]", 1, "0", 1);
    check(UNSET, UNSET, "[-1, 9, 0, -10, -2]", 10, "0, 8-9", 3);
    check(UNSET, UNSET, "range(0, 40, 2)", 40,
          "0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22 and 8 more", 20);
    check(UNSET, UNSET, "range(0, 24, 2)", 40, "0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22", 12);
    struct prn_run_selection *s = make(UNSET, UNSET, "[3, 1]");
    assert_false(prn_run_selection_is_default(s));
    assert_false(prn_run_selection_needs_total(s));
    assert_false(prn_run_selection_has(s, UINT64_MAX));
    /* Asked before the check: what the trace doesn't have doesn't count. */
    struct prn_buffer out = PRN_BUFFER_INIT(100);
    assert_int_equal(prn_run_selection_count(s, 2), 1);
    prn_run_selection_describe(s, 2, &out);
    prn_run_selection_describe(s, 1, &out);
    assert_string_equal(prn_buffer_text(&out), "1none");
    prn_buffer_release(&out);
    prn_run_selection_free(s);
    s = make(UNSET, UNSET, "[3, -1]");
    assert_true(prn_run_selection_needs_total(s));
    prn_run_selection_free(s);
}

static void test_gather_faults(void **state)
{
    (void)state;
    check_fault(UNSET, UNSET, "[10]", 10,
                "--gather: run 10 is outside the trace: the trace has 10 runs");
    check_fault(UNSET, UNSET, "[10, -11]", 10,
                "--gather: runs -11, 10 are outside the trace: the trace has 10 runs");
    check_fault(UNSET, UNSET, "range(10, 1000)", 10,
                "--gather: runs 10, 11, 12, 13, 14 and 985 more are outside the trace: "
                "the trace has 10 runs");
    check_fault(
        UNSET, UNSET, "[(-2)**63]", 1,
        "--gather: run -9223372036854775808 is outside the trace: the trace has only 1 run");
    check_fault(UNSET, UNSET, "[0]", 0,
                "--gather: run 0 is outside the trace: the trace has no runs");
}

/* Runs that the trace doesn't have are left out, and named. */
static void check_missing(const char *gather, uint64_t n_runs, const char *runs, uint64_t count,
                          const char *missing)
{
    check(UNSET, UNSET, gather, n_runs, runs, count);
    struct prn_run_selection *s = resolved(UNSET, UNSET, gather, n_runs);
    assert_int_equal(prn_run_selection_check(s, n_runs, NULL), 0);
    assert_string_equal(prn_run_selection_missing(s), missing);
    prn_run_selection_free(s);
}

static void test_missing(void **state)
{
    (void)state;
    check_missing("range(10)", 3, "0-2", 3, "3, 4, 5, 6, 7 and 2 more");
    check_missing("[1, 10]", 10, "1", 1, "10");
    check_missing("[-1, 1, 10, -11]", 10, "1, 9", 2, "-11, 10");
    struct prn_run_selection *s = resolved(UNSET, UNSET, "[1]", 10);
    assert_int_equal(prn_run_selection_check(s, 10, NULL), 0);
    assert_null(prn_run_selection_missing(s));
    assert_null(prn_run_selection_overrules(s));
    prn_run_selection_free(s);
}

/* A list counts, whatever stands beside it. */
static void test_overrules(void **state)
{
    (void)state;
    static const struct {
        int64_t start, end;
        const char *options;
    } cases[] = {{1, UNSET, "--start"}, {UNSET, -1, "--end"}, {50, 2, "--start and --end"}};
    for (size_t i = 0; i < PRN_ARRAY_SIZE(cases); i++) {
        check(cases[i].start, cases[i].end, "[0, 2]", 10, "0, 2", 2);
        struct prn_run_selection *s = make(cases[i].start, cases[i].end, "[0, 2]");
        assert_string_equal(prn_run_selection_overrules(s), cases[i].options);
        prn_run_selection_free(s);
    }
}

static void check_refused(int64_t start, int64_t end, const char *gather, const char *expected)
{
    struct prn_run_choice choice = {start, end, gather};
    struct prn_run_selection *s = NULL;
    struct prony_error err;
    assert_int_equal(prn_run_selection_new(&choice, &s, &err), PRONY_EUSAGE);
    assert_null(s);
    assert_string_equal(err.text, expected);
}

static void test_refused(void **state)
{
    (void)state;
    check_refused(UNSET, UNSET, "range(0)", "--gather: the list is empty; no run is selected");
    check_refused(UNSET, UNSET, "[1",
                  "--gather: column 3: unexpected end; expected ',' or ']' for "
                  "the '[' of column 1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_default),
        cmocka_unit_test(test_start_and_end),
        cmocka_unit_test(test_start_and_end_faults),
        cmocka_unit_test(test_gather),
        cmocka_unit_test(test_gather_faults),
        cmocka_unit_test(test_missing),
        cmocka_unit_test(test_overrules),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
