/* Recorded programs: the tables that users know, what follows from times, and files that contradict
 * themselves. The recordings are those of tests/data/make_recordings.py. */
#include "record/record.h"
#include "report/profile/json.h"
#include "report/profile/report.h"
#include "report/recorded/view.h"

#include "unit.h"

#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#define OUT_MAX ((size_t)16 << 20)

static struct prn_buffer read_recording(const char *name)
{
    char file[64];
    snprintf(file, sizeof file, "profile-recorded-%s.json", name);
    struct prn_buffer text = PRN_BUFFER_INIT(OUT_MAX);
    int fd = open(unit_data(file), O_RDONLY | O_CLOEXEC);
    assert_int_equal(prn_buffer_read_fd(&text, fd, file, NULL), 0);
    close(fd);
    return text;
}

static struct prn_profile *load(const char *name)
{
    struct prn_buffer text = read_recording(name);
    struct prn_profile *profile;
    struct prony_error err;
    if (prn_profile_parse_json(prn_buffer_text(&text), text.len, name, &profile, &err) < 0)
        fail_msg("%s", err.text);
    prn_buffer_release(&text);
    return profile;
}

static void expect_report(const char *name, enum prn_recorded_layout layout, const char *expected)
{
    struct prn_profile *profile = load(name);
    struct prn_buffer out = PRN_BUFFER_INIT(OUT_MAX);
    assert_int_equal(
        prn_recorded_report(profile, layout, &(struct prn_look){.width = 100}, &out, NULL), 0);
    /* After the verdict it begins with this; what follows is prose. */
    if (!strstr(prn_buffer_text(&out), expected))
        assert_string_equal(prn_buffer_text(&out), expected);
    prn_buffer_release(&out);
    prn_profile_free(profile);
}

/* ---- The tables that users of octoml-profile know ---- */

/* The cost was "$0.00" there. */
static void test_summary(void **state)
{
    (void)state;
    expect_report(
        "predict", PRN_RECORDED_LAYOUT_SUMMARY,
        "Function `predict` has 1 profile:\n"
        "- Profile `predict[1/1]` ran 9 times (1 more discarded: it compiled).\n"
        "\n"
        "Instance   Processor           Backend     Backend Time (ms)  Total Time (ms)       ±  "
        "Cost "
        "($/MReq)\n"
        "================================================================================="
        "===================\n"
        "r6i.large  Intel Ice Lake CPU  onnxrt-cpu              0.012            0.116  0.65 %  "
        "      $0.0041\n"
        "---------------------------------------------------------------------------------"
        "-------------------\n");
}

static void test_segments(void **state)
{
    (void)state;
    expect_report("segments", PRN_RECORDED_LAYOUT_SEGMENTS,
                  "Function `predict` has 1 profile:\n"
                  "- Profile `predict[1/1]` ran 9 times (1 more discarded: it compiled).\n"
                  "\n"
                  "   Segment                 Samples  Avg ms  Failures\n"
                  "====================================================\n"
                  "0  Local python                  9   0.051\n"
                  "\n"
                  "1  Graph #1\n"
                  "     r6i.large/onnxrt-cpu       90   0.037         0\n"
                  "\n"
                  "2  Local python                  9   0.094\n"
                  "----------------------------------------------------\n"
                  "\n");
}

static void test_classic(void **state)
{
    (void)state;
    expect_report("classic", PRN_RECORDED_LAYOUT_CLASSIC,
                  "Runs discarded because compilation occurred: 1\n"
                  "Profile 1/1:\n"
                  "Segment                       Runs  Mean ms  Failures\n"
                  "=====================================================\n"
                  "0  Uncompiled                    9    0.051\n"
                  "\n"
                  "1  Graph #1\n"
                  "    r6i.large/onnxrt-cpu        90    0.037         0\n"
                  "    g4dn.xlarge/onnxrt-cuda     90    0.135         0\n"
                  "\n"
                  "2  Uncompiled                    9    0.094\n"
                  "-----------------------------------------------------\n"
                  "Total uncompiled code run time: 0.145 ms\n"
                  "Total times (compiled + uncompiled) per backend, ms:\n"
                  "    r6i.large/onnxrt-cpu     0.182\n"
                  "    g4dn.xlarge/onnxrt-cuda  0.279\n"
                  "\n");
}

/* ---- What follows from the times ---- */

/* Graphs by time: 3 calls of 0.9 and 0.15 ms, then 1.2 and 0.3, and so on; 2 and 4 are equal. */
static void test_subgraphs(void **state)
{
    (void)state;
    static const int64_t ids[] = {3, 5, 1, 2, 4, 6, 7};
    static const size_t calls[] = {3, 1, 1, 1, 1, 1, 1};
    static const double times[] = {1.575e6, 0.75e6, 0.245e6, 35e3, 35e3, 20e3, 8.5e3};
    struct prn_profile *profile = load("many");
    struct prn_arena arena = PRN_ARENA_INIT(OUT_MAX);
    struct prn_subgraph *subgraphs;
    size_t n;
    assert_int_equal(
        prn_recorded_subgraphs(profile, &profile->profiles[0], &arena, &n, &subgraphs, NULL), 0);
    assert_int_equal(n, PRN_ARRAY_SIZE(ids));
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(subgraphs[i].id, ids[i]);
        assert_int_equal(subgraphs[i].calls, calls[i]);
        assert_near(subgraphs[i].time_ns, times[i], 1e-3);
    }
    assert_near(subgraphs[0].times[0].run_ns, 2.7e6, 1e-3);
    assert_near(subgraphs[0].times[1].run_ns, 0.45e6, 1e-3);
    prn_arena_release(&arena);
    prn_profile_free(profile);
}

/* A graph without a time on one backend is ordered by the others; without any it comes last. */
static void test_subgraphs_without_times(void **state)
{
    (void)state;
    static struct prn_segment_result both[] = {{.times = {.count = 1, .mean_ns = 10}},
                                               {.times = {.count = 1, .mean_ns = 30}, .failed = 2}};
    static struct prn_segment_result one[] = {{.failed = INT64_MAX},
                                              {.times = {.count = 1, .mean_ns = 25}, .failed = 1}};
    static struct prn_segment_result none[2];
    static struct prn_segment segments[] = {
        {0}, {.graph = 4, .results = none}, {0}, {.graph = 9, .results = both},
        {0}, {.graph = 8, .results = one},  {0}, {.graph = 8, .results = one},
        {0}};
    static const struct prn_profile profile = {.n_results = 2};
    static const struct prn_recorded recorded = {.n_segments = PRN_ARRAY_SIZE(segments),
                                                 .segments = segments};
    struct prn_arena arena = PRN_ARENA_INIT(OUT_MAX);
    struct prn_subgraph *s;
    size_t n;
    assert_int_equal(prn_recorded_calls(&recorded), 4);
    assert_int_equal(prn_recorded_subgraphs(&profile, &recorded, &arena, &n, &s, NULL), 0);
    assert_int_equal(n, 3);
    assert_int_equal(s[0].id, 8);
    assert_near(s[0].time_ns, 50, 1e-9);
    assert_true(isnan(s[0].times[0].run_ns));
    assert_int_equal(s[0].times[0].failed, INT64_MAX);
    assert_int_equal(s[0].times[1].failed, 2);
    assert_int_equal(s[1].id, 9);
    assert_near(s[1].time_ns, 20, 1e-9);
    assert_int_equal(s[2].id, 4);
    assert_near(s[2].time_ns, -1, 0);
    prn_arena_release(&arena);
}

static void test_shares(void **state)
{
    (void)state;
    static const struct {
        double part, whole;
        const char *text;
    } examples[] = {{1, 4, "25.0"},   {4, 4, "100.0"},   {0, 4, "0.0"},   {2, 3, "66.7"},
                    {1, 1999, "0.1"}, {1, 2001, "<0.1"}, {NAN, 4, "N/A"}, {1, NAN, "N/A"},
                    {1, 0, "N/A"},    {0, 0, "N/A"},     {3, 2, "150.0"}, {1e300, 1, "1.00e+302"}};
    char text[PRN_FORMAT_SIZE];
    for (size_t i = 0; i < PRN_ARRAY_SIZE(examples); i++)
        assert_string_equal(prn_recorded_share(text, examples[i].part, examples[i].whole),
                            examples[i].text);
}

/* Runs are the units: their means are 105, 125, … 185, so the deviation is 20 √2.5, and Student's t
 * for four degrees of freedom 2.776445. */
static void test_half_widths(void **state)
{
    (void)state;
    static int64_t graph[] = {100, 110, 120, 130, 140, 150, 160, 170, 180, 190};
    struct prn_series series = {.count = 10, .n_samples = 10, .samples_ns = graph};
    assert_near(prn_series_half_width(&series, 5), 2.776445 * 20 * sqrt(2.5) / sqrt(5) / 145, 1e-6);
    /* With fewer than five runs it would say nothing. */
    for (int64_t runs = 0; runs < 5; runs++)
        assert_true(isnan(prn_series_half_width(&series, runs)));
    /* More runs than samples: each sample is a unit; t for nine degrees is 2.262157. */
    assert_near(prn_series_half_width(&series, INT64_MAX),
                2.262157 * sqrt(8250.0 / 9) / sqrt(10) / 145, 1e-6);
}

/* Six runs of two samples: with the local code they take 10 times 11, 12, 13, 14, 15 and 90. The
 * interval of six reaches from the smallest to the largest. */
static void test_medians(void **state)
{
    (void)state;
    static int64_t graph[] = {99, 101, 110, 110, 0, 240, 129, 131, 140, 140, 880, 900};
    static int64_t local[] = {10, 10, 10, 10, 10, 10};
    struct prn_segment_result results[] = {
        {.times = {.count = 12, .n_samples = 12, .samples_ns = graph}},
        {.times = {.count = 0}},
        {.times = {.count = 0}},
    };
    struct prn_segment segments[] = {
        {.local = {.count = 6, .n_samples = 6, .samples_ns = local}},
        {.graph = 1,
         .results = results,
         .local = {.count = 6, .n_samples = 6, .samples_ns = local}},
        {.local = {.count = 6, .n_samples = 6, .samples_ns = local}},
    };
    struct prn_graph_check checks[] = {{.compared = true, .mismatch = true}, {0}, {0}};
    struct prn_recorded_graph graphs[] = {{.id = 1, .checks = checks}};
    struct prn_recorded_total totals[] = {
        {.backend_ns = 1}, {.backend_ns = 1}, {.backend_ns = NAN}};
    struct prn_recorded recorded = {
        .runs = 6, .n_segments = 3, .segments = segments, .totals = totals};
    struct prn_profile profile = {.n_results = 3, .n_graphs = 1, .graphs = graphs};
    assert_int_equal(prn_recorded_summarise(&profile, &recorded), 0);
    assert_near(recorded.local_median_ns, 20, 0);
    assert_near(totals[0].backend_median_ns, 125, 1e-9);
    assert_near(totals[0].local_graphs_median_ns, 0, 0);
    assert_near(totals[0].median_ns, 145, 1e-9);
    assert_near(totals[0].low_ns, 120, 1e-9);
    assert_near(totals[0].high_ns, 910, 1e-9);
    assert_near(prn_recorded_half_width(&totals[0]), 395. / 145, 1e-9);
    assert_int_equal(totals[0].flags, PRN_FLAG_IMPRECISE | PRN_FLAG_MISMATCH);
    /* A graph that didn't run there counts with its local time. */
    assert_near(totals[1].backend_median_ns, 0, 0);
    assert_near(totals[1].local_graphs_median_ns, 10, 1e-9);
    assert_near(totals[1].median_ns, 30, 1e-9);
    assert_int_equal(totals[1].flags, PRN_FLAG_PARTIAL);
    /* Where nothing ran nothing is known, nor has a median of five an interval. */
    assert_true(isnan(totals[2].median_ns) && totals[2].flags == 0);
    recorded.runs = 5;
    assert_int_equal(prn_recorded_summarise(&profile, &recorded), 0);
    assert_true(isfinite(totals[0].median_ns) && isnan(totals[0].low_ns));
}

/* ---- Reports ---- */

static struct prn_buffer rendered(const struct prn_profile *p, int layout, bool verbose,
                                  bool markdown)
{
    struct prony_error err;
    struct prn_buffer out = PRN_BUFFER_INIT(OUT_MAX);
    if (prn_recorded_report(
            p, (enum prn_recorded_layout)layout,
            &(struct prn_look){.markdown = markdown, .verbose = verbose, .width = 100}, &out,
            &err) < 0)
        fail_msg("%s", err.text);
    return out;
}

/* Numbers as no recording has them, in every layout. */
static void test_hostile_numbers(void **state)
{
    (void)state;
    static const double values[] = {0, 5e-324, 1e-9, 1e9, 1.5e300, 1.79e308, NAN, INFINITY};
    for (size_t i = 0; i < PRN_ARRAY_SIZE(values); i++) {
        struct prn_profile *p = load("program");
        for (size_t k = 0; k < p->n_profiles; k++) {
            struct prn_recorded *r = &p->profiles[k];
            r->runs = INT64_MAX;
            r->discarded = INT64_MAX;
            r->local_ns = values[i];
            for (size_t b = 0; b < p->n_results; b++)
                r->totals[b] = (struct prn_recorded_total){
                    values[i], values[i], values[i], values[i], values[i],
                    values[i], values[i], values[i], values[i], UINT_MAX};
            for (size_t s = 0; s < r->n_segments; s++) {
                struct prn_series *series =
                    r->segments[s].graph ? &r->segments[s].results[0].times : &r->segments[s].local;
                series->count = INT64_MAX;
                series->mean_ns = values[i];
                series->sd_ns = values[i];
            }
        }
        for (int layout = 0; prn_recorded_layouts[layout]; layout++)
            for (int way = 0; way < 4; way++) {
                struct prn_buffer out = rendered(p, layout, way & 1, way & 2);
                assert_null(strstr(prn_buffer_text(&out), "nan"));
                assert_null(strstr(prn_buffer_text(&out), "inf"));
                prn_buffer_release(&out);
            }
        prn_profile_free(p);
    }
}

static void test_hostile_names(void **state)
{
    (void)state;
    struct prn_profile *p = load("hostile");
    for (int layout = 0; prn_recorded_layouts[layout]; layout++)
        for (int way = 0; way < 4; way++) {
            struct prn_buffer out = rendered(p, layout, way & 1, way & 2);
            for (size_t i = 0; i < out.len; i++)
                assert_true(out.data[i] == '\n' || (unsigned char)out.data[i] >= ' ');
            if (way & 2)
                assert_null(strstr(prn_buffer_text(&out), "<b>"));
            prn_buffer_release(&out);
        }
    prn_profile_free(p);
}

static void test_nothing_recorded(void **state)
{
    (void)state;
    expect_report("empty", PRN_RECORDED_LAYOUT_SUMMARY, "No recorded function was called.");
    expect_report("empty", PRN_RECORDED_LAYOUT_SEGMENTS, "No recorded function was called.");
    expect_report("empty", PRN_RECORDED_LAYOUT_CLASSIC, "No recorded function was called.");
}

/* ---- Details ---- */

struct names {
    size_t n;
    char items[16][200];
    size_t fail_at;
};

static int take_name(const char *name, const char *label, const struct prn_buffer *text,
                     void *context, struct prony_error *err)
{
    struct names *names = context;
    assert_non_null(label);
    assert_contains(prn_buffer_text(text), "Segment");
    assert_true(strlen(name) < sizeof names->items[0]);
    snprintf(names->items[names->n++], sizeof names->items[0], "%s", name);
    return names->n == names->fail_at ? prn_fail(err, PRONY_EIO, "full") : 0;
}

static void test_detail_names(void **state)
{
    (void)state;
    static const char *const expected[] = {
        "_._.._etc_passwd_1.profile.txt",
        "a_b_1.profile.txt",
        "a_b_1-2.profile.txt",
        "a_b_1-3.profile.txt",
        "__0_owned__second_line_1.profile.txt",
        NULL, /* a hundred letters */
        "____b___link__http___x__1.profile.txt",
        "gr____e._______________________1.profile.txt",
        "__1.profile.txt",
        "_hidden_1.profile.txt",
        "_rf_1.profile.txt",
        "Net.forward_1.profile.txt",
    };
    struct prn_profile *p = load("hostile");
    struct names names = {0};
    assert_int_equal(prn_recorded_details(p, true, take_name, &names, NULL), 0);
    assert_int_equal(names.n, PRN_ARRAY_SIZE(expected));
    for (size_t i = 0; i < names.n; i++)
        if (expected[i])
            assert_string_equal(names.items[i], expected[i]);
    assert_int_equal(strlen(names.items[5]), 100 + strlen("_1.profile.txt"));
    /* A failure of the taker ends it. */
    struct prony_error err;
    names = (struct names){.fail_at = 2};
    assert_int_equal(prn_recorded_details(p, false, take_name, &names, &err), PRONY_EIO);
    assert_int_equal(names.n, 2);
    prn_profile_free(p);
}

/* ---- Files that contradict themselves ---- */

static void expect_fault(const char *text, size_t len, const char *fault)
{
    struct prn_profile *profile = NULL;
    struct prony_error err = {0};
    int code = prn_profile_parse_json(text, len, "x.json", &profile, &err);
    char expected[256];
    snprintf(expected, sizeof expected, "'x.json' is not a valid profile: %s", fault);
    assert_string_equal(err.text, expected);
    assert_int_equal(code, PRONY_EFORMAT);
    assert_null(profile);
}

#define LOCAL "profiles[0].segments[0].local"
#define FIRST "profiles[0].segments[1].results[0]"

static void test_faults_in_values(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to, *fault;
    } faults[] = {
        {"\"footprint\": [1]", "\"footprint\": [2]",
         "profiles[0].footprint[0] is not the graph of its segment"},
        {"\"footprint\": [1]", "\"footprint\": []",
         "profiles[0].footprint does not have one entry per graph in segments"},
        {"\"graph\": 1,", "\"graph\": 7,", "profiles[0].segments[1].graph is not one of graphs"},
        {"\"graph\": 1,", "\"graph\": null,", "profiles[0].segments[1].graph is not an integer"},
        {"\"graph\": null,", "\"graph\": 1,",
         "profiles[0].segments[0].graph is not null: local code and graphs take turns"},
        {"\"count\": 9,", "\"count\": 8,", LOCAL ".count is less than there are samples"},
        {"\"count\": 90,", "\"count\": 89,", FIRST ".times.count is less than there are samples"},
        {"\"mean_ns\": 50700", "\"mean_ns\": null",
         LOCAL ".mean_ns must be null exactly when count is 0"},
        {"\"mean_ns\": 50700", "\"mean_ns\": 90000",
         LOCAL ".mean_ns is not between min_ns and max_ns"},
        {"\"failed\": 0", "\"failed\": 5",
         FIRST ".failed is not the sum of the counts of failures"},
        {"\"failures\": []", "\"failures\": [{\"message\": \"x\", \"count\": 1}]",
         FIRST ".failed is not the sum of the counts of failures"},
        {"\"compiled\": false", "\"compiled\": true",
         "profiles[0].totals[0].total_ns is not null, but every run compiled"},
        {"\"total_ns\": 181800", "\"total_ns\": null",
         "profiles[0].totals[0].usd_per_million is not null, but total_ns is"},
        {"\"language\": \"python\"", "\"language\": \"cobol\"", "language is not one of c, python"},
        {"\"id\": 1", "\"id\": 0", "graphs[0].id is out of range"},
        {"\"model\": null",
         "\"model\": {\"path\": \"m\", \"bytes\": 1, \"parameters\": 1, \"fingerprint\": null}",
         "language belongs to a recorded program, whose model is null"},
        {"\"runs\": 9", "\"runs\": -1", "profiles[0].runs is out of range"},
    };
    struct prn_buffer whole = read_recording("classic");
    for (size_t i = 0; i < PRN_ARRAY_SIZE(faults); i++) {
        const char *at = strstr(prn_buffer_text(&whole), faults[i].from);
        if (!at)
            fail_msg("'%s' is not in the recording", faults[i].from);
        struct prn_buffer changed = PRN_BUFFER_INIT(OUT_MAX);
        prn_buffer_append(&changed, whole.data, (size_t)(at - whole.data));
        prn_buffer_add(&changed, faults[i].to);
        prn_buffer_add(&changed, at + strlen(faults[i].from));
        expect_fault(prn_buffer_text(&changed), changed.len, faults[i].fault);
        prn_buffer_release(&changed);
    }
    prn_buffer_release(&whole);
}

static void drop_backend(json_t *root)
{
    json_array_remove(json_object_get(root, "results"), 1);
}

static json_t *first_profile(json_t *root)
{
    return json_array_get(json_object_get(root, "profiles"), 0);
}

static void drop_total(json_t *root)
{
    json_array_remove(json_object_get(first_profile(root), "totals"), 0);
}

static void drop_segment(json_t *root)
{
    json_array_remove(json_object_get(first_profile(root), "segments"), 2);
}

static void repeat_graph(json_t *root)
{
    json_t *graphs = json_object_get(root, "graphs");
    json_array_append(graphs, json_array_get(graphs, 0));
}

static void fill_local_results(json_t *root)
{
    json_t *segments = json_object_get(first_profile(root), "segments");
    json_t *results = json_object_get(json_array_get(segments, 1), "results");
    json_object_set(json_array_get(segments, 0), "results", results);
}

static void test_faults_between_parts(void **state)
{
    (void)state;
    static const struct {
        void (*change)(json_t *root);
        const char *fault;
    } faults[] = {
        {drop_backend, "profiles[0].segments[1].results does not have one entry per backend"},
        {drop_total, "profiles[0].totals does not have one entry per backend"},
        {drop_segment, "profiles[0].segments does not begin and end with local code"},
        {repeat_graph, "graphs[1].id is not greater than the id before it"},
        {fill_local_results,
         "profiles[0].segments[0].results must be empty: local code runs on no backend"},
    };
    struct prn_buffer whole = read_recording("classic");
    for (size_t i = 0; i < PRN_ARRAY_SIZE(faults); i++) {
        json_t *root = json_loadb(prn_buffer_text(&whole), whole.len, 0, NULL);
        assert_non_null(root);
        faults[i].change(root);
        char *text = json_dumps(root, 0);
        assert_non_null(text);
        expect_fault(text, strlen(text), faults[i].fault);
        free(text);
        json_decref(root);
    }
    prn_buffer_release(&whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_summary),
        cmocka_unit_test(test_segments),
        cmocka_unit_test(test_classic),
        cmocka_unit_test(test_subgraphs),
        cmocka_unit_test(test_subgraphs_without_times),
        cmocka_unit_test(test_shares),
        cmocka_unit_test(test_half_widths),
        cmocka_unit_test(test_medians),
        cmocka_unit_test(test_hostile_numbers),
        cmocka_unit_test(test_hostile_names),
        cmocka_unit_test(test_nothing_recorded),
        cmocka_unit_test(test_detail_names),
        cmocka_unit_test(test_faults_in_values),
        cmocka_unit_test(test_faults_between_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
