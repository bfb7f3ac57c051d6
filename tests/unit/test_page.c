/* Data in a page: nothing in them ends their element, and they are read back. */
#include "unit.h"

#include "format/json.h"
#include "measure/ops/ops.h"
#include "report/page.h"
#include "report/profile/json.h"

#include <string.h>

#define BEGINS "<script type=\"application/json\" id=\"prony-data\">"

static int add_json(struct prn_page *page, const char *json, struct prony_error *err)
{
    return prn_page_add_json(page, "report.json", json, strlen(json), "as text", err);
}

static void reports_keep_their_digits(void **state)
{
    (void)state;
    struct prn_page page = PRN_PAGE_INIT;
    assert_int_equal(
        add_json(&page, "{\"schema\": \"prony.schedule/1\", \"x\": [0.1, 1e300, null, 7]}", NULL),
        0);
    assert_non_null(strstr(prn_buffer_text(&page.reports), "\"name\":\"report.json\""));
    assert_non_null(strstr(prn_buffer_text(&page.reports), "\"text\":\"as text\""));
    json_t *root;
    assert_int_equal(prn_json_parse(page.reports.data, page.reports.len, "page", &root, NULL), 0);
    const json_t *x = json_object_get(json_object_get(root, "data"), "x");
    assert_true(json_real_value(json_array_get(x, 0)) == 0.1);
    assert_true(json_real_value(json_array_get(x, 1)) == 1e300);
    assert_true(json_is_null(json_array_get(x, 2)));
    assert_int_equal(json_integer_value(json_array_get(x, 3)), 7);
    json_decref(root);
    prn_page_release(&page);
}

static void what_is_no_report_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *json, *fault;
    } cases[] = {
        {"{\"schema\": \"other/1\"}",
         "'report.json' is not a prony report: its schema is 'other/1'"},
        {"{}", "'report.json' is not a prony report: its schema is missing"},
        {"{\"schema\": 7}", "'report.json' is not a prony report: its schema is missing"},
        {"[]", "'report.json' is not a prony report: its schema is missing"},
        {"{\"schema\": \"prony.profile/1\"}", "'report.json' is not a valid profile"},
        {"nonsense", "'report.json' is not valid JSON"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct prn_page page = PRN_PAGE_INIT;
        struct prony_error err;
        assert_int_equal(add_json(&page, cases[i].json, &err), PRONY_EFORMAT);
        assert_non_null(strstr(err.text, cases[i].fault));
        assert_int_equal(page.reports.len, 0);
        prn_page_release(&page);
    }
}

static void long_tables_are_cut_behind_what_matters(void **state)
{
    (void)state;
    struct prn_buffer json = PRN_BUFFER_INIT(1 << 20);
    struct prn_page page = PRN_PAGE_INIT;
    prn_buffer_add(&json, "{\"schema\": \"prony.trace-comparison/1\", \"groups\": [");
    for (int i = 0; i < PRN_PAGE_ROWS_MAX + 17; i++)
        prn_buffer_printf(&json, "%s{\"op\": \"op%d\"}", i ? "," : "", i);
    prn_buffer_add(&json, "], \"stages\": [1, 2]}");
    assert_int_equal(add_json(&page, prn_buffer_text(&json), NULL), 0);
    assert_non_null(strstr(prn_buffer_text(&page.reports), "\"groups_left_out\":17"));
    assert_non_null(strstr(prn_buffer_text(&page.reports), "\"op1999\""));
    assert_null(strstr(prn_buffer_text(&page.reports), "\"op2000\""));
    prn_page_release(&page);
    prn_buffer_release(&json);
}

static void many_runs_keep_the_shortest_and_the_longest(void **state)
{
    (void)state;
    struct prn_buffer json = PRN_BUFFER_INIT(1 << 20);
    struct prn_page page = PRN_PAGE_INIT;
    prn_buffer_add(&json, "{\"schema\": \"prony.trace/1\", \"runs\": {\"list\": [");
    for (int i = 0; i < 9999; i++)
        prn_buffer_printf(&json, "%s[%d, %d, 1]", i ? "," : "", i,
                          i == 5003   ? 99999
                          : i == 7001 ? 3
                                      : 500);
    prn_buffer_add(&json, "]}}");
    assert_int_equal(add_json(&page, prn_buffer_text(&json), NULL), 0);
    assert_non_null(strstr(prn_buffer_text(&page.reports), "[5003,99999,1]"));
    assert_non_null(strstr(prn_buffer_text(&page.reports), "[7001,3,1]"));
    assert_true(page.reports.len < 60000);
    prn_page_release(&page);
    prn_buffer_release(&json);
}

static void hostile_texts_end_nothing(void **state)
{
    (void)state;
    struct prn_page page = PRN_PAGE_INIT;
    struct prn_page again = PRN_PAGE_INIT;
    struct prn_buffer out = PRN_BUFFER_INIT(PRN_PAGE_MAX);
    if (prn_page_check(NULL) < 0)
        skip();
    assert_int_equal(add_json(&page,
                              "{\"schema\": \"prony.layers/1\", \"file\": "
                              "\"</script><script>&amp;<!--\\u0001\\\"\\\\\"}",
                              NULL),
                     0);
    assert_int_equal(prn_page_write(&page, &out, NULL), 0);
    const char *data = strstr(prn_buffer_text(&out), BEGINS);
    assert_non_null(data);
    data += strlen(BEGINS);
    assert_int_equal(strcspn(data, "<>&"), strstr(data, "</script>") - data);
    /* And it comes back as it was. */
    assert_int_equal(prn_page_add_html(&again, "x.html", prn_buffer_text(&out), out.len, NULL), 0);
    assert_string_equal(prn_buffer_text(&again.reports), prn_buffer_text(&page.reports));
    prn_buffer_release(&out);
    prn_page_release(&again);
    prn_page_release(&page);
}

static void what_is_no_page_is_refused(void **state)
{
    (void)state;
    static const char *const pages[] = {
        "",
        "<html></html>",
        BEGINS "{}",
        BEGINS "{}</script>",
        BEGINS "not JSON</script>",
        BEGINS "{\"schema\": \"prony.page/1\", \"reports\": []}</script>",
        BEGINS "{\"schema\": \"prony.page/1\", \"reports\": [7]}</script>",
        BEGINS "{\"schema\": \"prony.page/1\", \"reports\": [{\"data\": {}}]}</script>",
    };
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++) {
        struct prn_page page = PRN_PAGE_INIT;
        struct prony_error err;
        assert_int_equal(prn_page_add_html(&page, "x.html", pages[i], strlen(pages[i]), &err),
                         PRONY_EFORMAT);
        assert_non_null(strstr(err.text, "'x.html'"));
        assert_int_equal(page.reports.len, 0);
        prn_page_release(&page);
    }
}

static void a_profile_says_who_is_fastest(void **state)
{
    (void)state;
    struct prn_page page = PRN_PAGE_INIT;
    struct prn_profile *profile;
    assert_int_equal(prn_profile_read_json(unit_data("profile-ops.json"), &profile, NULL), 0);
    assert_int_equal(prn_page_add_profile(&page, "ops", profile, NULL), 0);
    assert_non_null(strstr(prn_buffer_text(&page.reports),
                           "\"verdict\":\"onnxrt-cpu is the fastest of 3: 1.50× as fast as "
                           "onnxrt-cpu[opt=off], the next; the difference is mostly Conv and "
                           "BatchNormalization"));
    assert_null(strstr(prn_buffer_text(&page.reports), "samples_ns"));
    prn_profile_free(profile);
    prn_page_release(&page);
}

/* The verdict on a profile whose second result has this verdict and ratio to the first. */
static void check_verdict(enum prn_verdict verdict, struct prn_interval ratio, const char *said,
                          const char *best)
{
    struct prn_page page = PRN_PAGE_INIT;
    struct prn_profile *profile;
    assert_int_equal(prn_profile_read_json(unit_data("profile-ops.json"), &profile, NULL), 0);
    profile->n_results = 2;
    struct prn_result *first = &profile->results[0];
    struct prn_result *second = &profile->results[1];
    assert_true(first->stats.median_ns < second->stats.median_ns);
    second->verdict = verdict;
    second->ratio = ratio;
    assert_int_equal(prn_page_add_profile(&page, "ops", profile, NULL), 0);
    if (!strstr(prn_buffer_text(&page.reports), said))
        fail_msg("%.400s", strstr(prn_buffer_text(&page.reports), "\"verdict\":"));
    assert_non_null(strstr(prn_buffer_text(&page.reports), best));
    prn_profile_free(profile);
    prn_page_release(&page);
}

static void what_is_not_known_to_be_slower_is_not_beaten(void **state)
{
    (void)state;
    check_verdict(
        PRN_VERDICT_UNSURE, (struct prn_interval){.estimate = 0.972, .low = 0.93, .high = 1.02},
        "\"verdict\":\"onnxrt-cpu and onnxrt-cpu[opt=off] can't be told apart: within 8 %; ",
        "\"verdict\":\"best?\"");
    check_verdict(PRN_VERDICT_SAME,
                  (struct prn_interval){.estimate = 1.001, .low = 0.999, .high = 1.002},
                  "\"verdict\":\"onnxrt-cpu and onnxrt-cpu[opt=off] are equally fast, within 0.5 %",
                  "\"verdict\":\"best?\"");
    check_verdict(
        PRN_VERDICT_FASTER, (struct prn_interval){.estimate = 0.9, .low = 0.89, .high = 0.91},
        "\"verdict\":\"onnxrt-cpu and onnxrt-cpu[opt=off] can't be told apart: within 12 %",
        "\"verdict\":\"best?\"");
    check_verdict(
        PRN_VERDICT_SLOWER, (struct prn_interval){.estimate = 1.5, .low = 1.4, .high = 1.6},
        "\"verdict\":\"onnxrt-cpu is 1.50× as fast as onnxrt-cpu[opt=off] (95 %: 1.40 to 1.60)",
        "\"verdict\":\"best\"");
}

static struct prn_recorded *first_function(struct prn_profile *profile)
{
    assert_true(profile->n_profiles > 0 && profile->n_results >= 2);
    return &profile->profiles[0];
}

static void check_recorded(const char *file, bool tie, const char *said)
{
    struct prn_page page = PRN_PAGE_INIT;
    struct prn_profile *profile;
    assert_int_equal(prn_profile_read_json(unit_data(file), &profile, NULL), 0);
    struct prn_recorded *recorded = first_function(profile);
    for (size_t i = 1; tie && i < profile->n_results; i++)
        recorded->totals[i] = recorded->totals[0];
    assert_int_equal(prn_page_add_profile(&page, "recorded", profile, NULL), 0);
    const char *found = strstr(prn_buffer_text(&page.reports), "\"verdict\":\"");
    assert_non_null(found);
    if (strncmp(found + strlen("\"verdict\":\""), said, strlen(said)) != 0)
        fail_msg("%.300s", found);
    prn_profile_free(profile);
    prn_page_release(&page);
}

static void a_tie_of_backends_is_not_fastest(void **state)
{
    (void)state;
    check_recorded("profile-recorded-program.json", false,
                   "translate[1/3] is 3.67× as fast on g5.xlarge/onnxrt-cuda as on "
                   "lab7/onnxrt-cpu: 843 µs per run, 123 µs of "
                   "it local code. tokenize[1/1] takes 250 ns per run, all of it local code. ");
    check_recorded("profile-recorded-program.json", true,
                   "translate[1/3] takes 3.87 ms per run on r6i.large/onnxrt-cpu, 123 µs of it "
                   "local code, and 3.87 ms on g5.xlarge/onnxrt-cuda; more runs would tell which "
                   "is faster. ");
    check_recorded("profile-recorded-many.json", false,
                   "pipeline[1/2] takes 1.19 ms per run on g4dn.xlarge/onnxrt-cuda, 280 µs of it "
                   "local python, and 4.71 ms on r6i.large/onnxrt-cpu; more runs would tell");
}

static void folders_stay_at_home(void **state)
{
    (void)state;
    struct prn_page page = PRN_PAGE_INIT;
    struct prn_profile *profile;
    assert_int_equal(prn_profile_read_json(unit_data("profile-ops.json"), &profile, NULL), 0);
    profile->models->path = "/data/ann/secret/net.onnx";
    profile->results[0].runtime_library = "/data/ann/lib/libonnxruntime.so.1";
    assert_int_equal(prn_page_add_profile(&page, "ops", profile, NULL), 0);
    assert_int_equal(add_json(&page,
                              "{\"schema\": \"prony.layers/1\", \"file\": \"/data/ann/x.onnx\", "
                              "\"nodes\": [{\"name\": \"/encoder/Conv\"}]}",
                              NULL),
                     0);
    assert_int_equal(add_json(&page,
                              "{\"schema\": \"prony.layer-profile/1\", \"file\": "
                              "\"/data/ann/y.onnx\"}",
                              NULL),
                     0);
    assert_int_equal(add_json(&page,
                              "{\"schema\": \"prony.trace/1\", \"trace\": {\"name\": "
                              "\"/data/ann/t.json\"}}",
                              NULL),
                     0);
    const char *text = prn_buffer_text(&page.reports);
    assert_null(strstr(text, "/data/ann"));
    assert_non_null(strstr(text, "\"path\":\"net.onnx\""));
    assert_non_null(strstr(text, "\"text\":\"net.onnx   "));
    assert_non_null(strstr(text, "\"library\":\"libonnxruntime.so.1\""));
    assert_non_null(strstr(text, "\"file\":\"x.onnx\""));
    assert_non_null(strstr(text, "\"name\":\"t.json\""));
    assert_non_null(strstr(text, "\"/encoder/Conv\""));
    prn_profile_free(profile);
    prn_page_release(&page);
}

static void a_ledger_says_which_runs_it_is_of(void **state)
{
    (void)state;
    struct prn_page page = PRN_PAGE_INIT;
    struct prn_profile *profile;
    assert_int_equal(prn_profile_read_json(unit_data("profile-ops.json"), &profile, NULL), 0);
    struct prn_ops *ops = profile->results[0].ops;
    assert_true(ops && ops->has_ledger);
    ops->run_ns = 1.25 * profile->results[0].stats.median_ns;
    ops->runs = 10;
    ops->profiled_runs = 20;
    assert_int_equal(prn_page_add_profile(&page, "ops", profile, NULL), 0);
    assert_non_null(strstr(prn_buffer_text(&page.reports),
                           "\"profiled\":\"From the fastest 10 of 20 runs with the runtime's "
                           "profiler on, which took 25 % longer than without it. "));
    prn_profile_free(profile);
    prn_page_release(&page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reports_keep_their_digits),
        cmocka_unit_test(what_is_no_report_is_refused),
        cmocka_unit_test(long_tables_are_cut_behind_what_matters),
        cmocka_unit_test(many_runs_keep_the_shortest_and_the_longest),
        cmocka_unit_test(hostile_texts_end_nothing),
        cmocka_unit_test(what_is_no_page_is_refused),
        cmocka_unit_test(a_profile_says_who_is_fastest),
        cmocka_unit_test(what_is_not_known_to_be_slower_is_not_beaten),
        cmocka_unit_test(a_tie_of_backends_is_not_fastest),
        cmocka_unit_test(folders_stay_at_home),
        cmocka_unit_test(a_ledger_says_which_runs_it_is_of),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
