/*
 * Reports on synthetic profiles. What each format looks like is stored in tests/data/report-*;
 * PRONY_REWRITE=1 writes the files anew instead of comparing.
 */
#include "report/profile/json.h"
#include "report/profile/report.h"
#include "report/profile/view.h"

#include "base/text.h"
#include "base/table.h"
#include "base/text.h"
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#define OUT_MAX ((size_t)16 << 20)

/* ---- Synthetic profiles ---- */

static struct prn_profile *new_profile(size_t n_results)
{
    struct prn_profile *p = prn_profile_new();
    assert_non_null(p);
    p->prony_version = "0.1.0";
    p->created = "2026-01-02T03:04:05Z";
    p->models->path = "resnet50.onnx";
    p->models->bytes = 102442450;
    p->models->parameters = 25557032;
    p->points = PRN_ARENA_ARRAY(&p->arena, 1, struct prn_point);
    p->n_points = 1;
    struct prn_point *point = &p->points[0];
    *point = (struct prn_point){
        .label = "", .batch = 1, .flops = 8.178e9, .flops_complete = true, .n_inputs = 1};
    point->inputs = PRN_ARENA_ARRAY(&p->arena, 1, struct prn_profile_input);
    static const int64_t dims[] = {1, 3, 224, 224};
    p->points[0].inputs[0] =
        (struct prn_profile_input){"data", PRN_DTYPE_FLOAT, 4, dims, "random, seed 0"};
    p->settings = (struct prn_settings){.precision = 0.01,
                                        .smallest_difference = 0.005,
                                        .launches = 5,
                                        .max_time_s = 60,
                                        .tolerance = 1e-3};
    p->environment = (struct prn_environment){.cpu = "Example CPU",
                                              .cores = 2,
                                              .mhz = 2300,
                                              .memory_bytes = (int64_t)8 << 30,
                                              .os = "Debian GNU/Linux 12 (bookworm)",
                                              .kernel = "6.1.0",
                                              .load_before = 0.13,
                                              .load_after = 1.5,
                                              .sandbox = "seccomp and Landlock"};
    p->timer_ns = 22.5;
    p->canary_best_ns = 100250;
    p->n_results = n_results;
    p->results = PRN_ARENA_ARRAY(&p->arena, n_results, struct prn_result);
    for (size_t i = 0; i < n_results; i++) {
        p->results[i].usd_per_hour = NAN;
        p->results[i].ratio = (struct prn_interval){NAN, NAN, NAN};
    }
    return p;
}

static void set_backend(struct prn_result *r, const char *name, const char *hardware,
                        const char *software, const char *processor, double usd_per_hour)
{
    r->name = name;
    r->hardware = hardware;
    r->software = software;
    r->processor = processor;
    r->usd_per_hour = usd_per_hour;
    r->runtime_version = "ONNX Runtime 1.30.0";
    r->runtime_library = "/usr/lib/libonnxruntime.so.1";
}

/* Samples around a median, and statistics that a summary of them could give. */
static void set_times(struct prn_profile *p, struct prn_result *r, double median_ns,
                      size_t n_samples, size_t n_launches)
{
    r->n_samples = n_samples;
    r->samples = PRN_ARENA_ARRAY(&p->arena, n_samples, struct prn_sample);
    for (size_t i = 0; i < n_samples; i++)
        r->samples[i] =
            (struct prn_sample){.ns = (int64_t)(median_ns * (0.99 + 0.002 * (double)(i % 11))),
                                .launch = (int32_t)(i * n_launches / n_samples),
                                .block = (int32_t)(i / 8)};
    r->n_launches = n_launches;
    r->launches = PRN_ARENA_ARRAY(&p->arena, n_launches, struct prn_launch);
    for (size_t i = 0; i < n_launches; i++)
        r->launches[i] = (struct prn_launch){.load_ns = 80000000 + (int64_t)i,
                                             .first_run_ns = (int64_t)(3 * median_ns),
                                             .baseline_bytes = 40 << 20,
                                             .peak_bytes = (190 + (int64_t)i) << 20,
                                             .warmup_runs = 12,
                                             .settled = true};
    r->stats = (struct prn_sample_stats){
        .median_ns = median_ns,
        .low_ns = n_launches > 1 ? median_ns * 0.9937 : NAN,
        .high_ns = n_launches > 1 ? median_ns * 1.0063 : NAN,
        .mean_ns = median_ns * 1.001,
        .sd_ns = median_ns * 0.0123,
        .min_ns = median_ns * 0.99,
        .max_ns = median_ns * 1.01,
        .p90_ns = n_samples >= 64 ? median_ns * 1.0081 : NAN,
        .p95_ns = n_samples >= 130 ? median_ns * 1.0091 : NAN,
        .p99_ns = n_samples >= 662 ? median_ns * 1.01 : NAN,
        .p999_ns = NAN,
        .spread = 0.0113,
        .outliers = 2,
    };
}

static void set_output(struct prn_profile *p, struct prn_result *r, double max_abs, double max_rel)
{
    r->n_outputs = 1;
    r->outputs = PRN_ARENA_ARRAY(&p->arena, 1, struct prn_output_check);
    r->outputs[0] = (struct prn_output_check){"prob", true, max_abs, max_rel, 0.99997, false, 0, 0};
}

/* One backend on this machine: the commonest report. */
static struct prn_profile *single(void)
{
    struct prn_profile *p = new_profile(1);
    set_backend(&p->results[0], "local/onnxrt-cpu", "local", "onnxrt-cpu", "Example Processor 9000",
                NAN);
    set_times(p, &p->results[0], 14.94e6, 70, 5);
    p->results[0].ratio = (struct prn_interval){1, 1, 1};
    return p;
}

/* Everything at once: hardware with and without prices, the same backend twice, verdicts, flags, a
 * failure, a batch, notes. */
static struct prn_profile *several(void)
{
    struct prn_profile *p = new_profile(6);
    struct prn_result *r = p->results;
    p->points[0].flops_complete = false;
    p->points[0].batch = 8;
    set_backend(&r[0], "r6i.large/onnxrt-cpu[threads=2]", "r6i.large", "onnxrt-cpu",
                "Intel Ice Lake CPU", 0.126);
    set_backend(&r[1], "g5.xlarge/onnxrt-cuda", "g5.xlarge", "onnxrt-cuda", "Nvidia A10g GPU",
                1.006);
    set_backend(&r[2], "local/onnxrt-cpu", "local", "onnxrt-cpu", "Example Processor 9000", NAN);
    set_backend(&r[3], "local/onnxrt-cpu", "local", "onnxrt-cpu", "Example Processor 9000", NAN);
    set_backend(&r[4], "local/openvino-cpu", "local", "openvino-cpu", NULL, NAN);
    set_backend(&r[5], "lab7/onnxrt-cpu", "lab7", "onnxrt-cpu", NULL, NAN);
    set_times(p, &r[0], 19.9e6, 700, 5);
    set_times(p, &r[1], 812.4e3, 140, 5);
    set_times(p, &r[2], 815.0e3, 66, 5);
    set_times(p, &r[3], 846.2e3, 70, 4);
    r[0].ratio = (struct prn_interval){24.3, 24.5, 24.7};
    r[0].verdict = PRN_VERDICT_SLOWER;
    r[0].flags = PRN_FLAG_UNSTABLE | PRN_FLAG_IMPRECISE;
    r[1].ratio = (struct prn_interval){1, 1, 1};
    r[2].ratio = (struct prn_interval){0.9989, 1.0032, 1.0049};
    r[2].verdict = PRN_VERDICT_SAME;
    r[2].flags = PRN_FLAG_NOISY;
    r[2].redone_blocks = 3;
    r[3].ratio = (struct prn_interval){0.99, 1.0416, 1.09};
    r[3].verdict = PRN_VERDICT_UNSURE;
    r[3].flags = PRN_FLAG_NOISY | PRN_FLAG_MISMATCH | PRN_FLAG_INTERRUPTED;
    set_output(p, &r[2], 3e-7, 1.5e-6);
    set_output(p, &r[3], 0.0123, 0.087);
    r[4].runtime_version = NULL;
    r[4].runtime_library = NULL;
    r[4].error_code = PRONY_EUNAVAILABLE;
    r[4].error = "no OpenVINO library was found";
    r[5].flags = PRN_FLAG_INTERRUPTED;
    static const char *notes[] = {"dimension 'batch' of input 'data' was given as 8."};
    p->notes = notes;
    p->n_notes = 1;
    return p;
}

/* A few samples of something tiny, from one launch, on a model about which little is known. */
static struct prn_profile *tiny(void)
{
    struct prn_profile *p = new_profile(2);
    p->models->path = "mlp.onnx";
    p->models->bytes = -1;
    p->models->parameters = 812;
    p->points[0].flops = 812;
    set_backend(&p->results[0], "r7g.large/onnxrt-cpu", "r7g.large", "onnxrt-cpu",
                "AWS Graviton3 CPU", 0.1071);
    set_backend(&p->results[1], "r6g.large/onnxrt-cpu", "r6g.large", "onnxrt-cpu",
                "Arm based Graviton2 CPU", NAN);
    set_times(p, &p->results[0], 12, 3, 1);
    set_times(p, &p->results[1], 3120, 3, 1);
    set_output(p, &p->results[1], 3e-7, 1.5e-6);
    p->results[0].ratio = (struct prn_interval){1, 1, 1};
    p->results[1].ratio = (struct prn_interval){NAN, 260.0, NAN};
    p->results[1].verdict = PRN_VERDICT_UNSURE;
    return p;
}

/* A sweep over two batches, two lengths and two numbers of threads, with prices. Times are chosen
 * so that all that follows from them can be worked out in the head. */
static struct prn_profile *swept(void)
{
    static const int64_t batches[] = {1, 1, 4, 4};
    static const int64_t lengths[] = {16, 64, 16, 64};
    static const char *const labels[] = {"batch=1, seq=16", "batch=1, seq=64", "batch=4, seq=16",
                                         "batch=4, seq=64"};
    /* ns by point and threads */
    static const double times[][2] = {
        {100e3, 80e3}, {400e3, 250e3}, {200e3, 125e3}, {1600e3, 800e3}};
    struct prn_profile *p = new_profile(8);
    p->models->path = "bert.onnx";
    p->points = PRN_ARENA_ARRAY(&p->arena, 4, struct prn_point);
    p->n_points = 4;
    for (size_t i = 0; i < 4; i++) {
        struct prn_point *point = &p->points[i];
        int64_t *dims = PRN_ARENA_ARRAY(&p->arena, 2, int64_t);
        *point = (struct prn_point){.label = labels[i],
                                    .batch = batches[i],
                                    .flops = 1e6 * (double)(batches[i] * lengths[i]),
                                    .flops_complete = true,
                                    .n_inputs = 1,
                                    .n_swept = 2};
        point->inputs = PRN_ARENA_ARRAY(&p->arena, 1, struct prn_profile_input);
        point->swept = PRN_ARENA_ARRAY(&p->arena, 2, struct prn_swept);
        dims[0] = batches[i];
        dims[1] = lengths[i];
        point->inputs[0] = (struct prn_profile_input){"input_ids", PRN_DTYPE_INT64, 2, dims,
                                                      "random ids below 30522, seed 0"};
        point->swept[0] = (struct prn_swept){"batch", batches[i]};
        point->swept[1] = (struct prn_swept){"seq", lengths[i]};
        for (size_t k = 0; k < 2; k++) {
            struct prn_result *r = &p->results[2 * i + k];
            set_backend(r, k ? "local/onnxrt-cpu[threads=2]" : "local/onnxrt-cpu[threads=1]",
                        "local", "onnxrt-cpu", "Example Processor 9000", 0.36);
            set_times(p, r, times[i][k], 70, 5);
            r->point = i;
            double ratio = times[i][k] / times[i][1];
            r->ratio = (struct prn_interval){k ? 1 : ratio * 0.99, ratio, k ? 1 : ratio * 1.01};
            r->verdict = k ? PRN_VERDICT_NONE : PRN_VERDICT_SLOWER;
        }
    }
    return p;
}

/* ---- Comparing ---- */

static struct prn_buffer reported(const struct prn_profile *p, enum prn_report_format format)
{
    struct prony_error err;
    struct prn_buffer out = PRN_BUFFER_INIT(OUT_MAX);
    static const struct prn_look look = {.more = "--verbose, --format html"};
    if (prn_profile_report(p, format, &look, &out, &err) < 0)
        fail_msg("%s", err.text);
    return out;
}

static void expect_file(const char *name, const struct prn_buffer *actual)
{
    const char *path = unit_data(name);
    bool rewrite = getenv("PRONY_REWRITE") != NULL;
    int fd = open(path, rewrite ? O_WRONLY | O_CREAT | O_TRUNC : O_RDONLY, 0666);
    if (fd < 0)
        fail_msg("%s: %s", path, strerror(errno));
    if (rewrite) {
        assert_int_equal(write(fd, prn_buffer_text(actual), actual->len), (ssize_t)actual->len);
    } else {
        struct prn_buffer expected = PRN_BUFFER_INIT(OUT_MAX);
        assert_int_equal(prn_buffer_read_fd(&expected, fd, path, NULL), 0);
        assert_string_equal(prn_buffer_text(actual), prn_buffer_text(&expected));
        prn_buffer_release(&expected);
    }
    close(fd);
}

/* A profile that was written and read back gives the same in every format. */
static void expect_same_when_reread(struct prn_profile *profile)
{
    struct prony_error err;
    struct prn_profile *again;
    struct prn_buffer json = reported(profile, PRN_REPORT_FORMAT_JSON);
    if (prn_profile_parse_json(prn_buffer_text(&json), json.len, "again", &again, &err) < 0)
        fail_msg("%s", err.text);
    for (int format = 0; format < 4; format++) {
        struct prn_buffer first = reported(profile, (enum prn_report_format)format);
        struct prn_buffer second = reported(again, (enum prn_report_format)format);
        assert_string_equal(prn_buffer_text(&first), prn_buffer_text(&second));
        prn_buffer_release(&first);
        prn_buffer_release(&second);
    }
    prn_buffer_release(&json);
    prn_profile_free(again);
}

/* Compares all formats with the stored ones. */
static void check_profile(struct prn_profile *profile, const char *name)
{
    static const char *const files[] = {"report-%s.txt", "profile-%s.json", "report-%s.csv",
                                        "report-%s.md"};
    for (int format = 0; format < 4; format++) {
        char file[64];
        snprintf(file, sizeof file, files[format], name);
        struct prn_buffer out = reported(profile, (enum prn_report_format)format);
        expect_file(file, &out);
        prn_buffer_release(&out);
    }
    expect_same_when_reread(profile);
    prn_profile_free(profile);
}

static void test_single(void **state)
{
    (void)state;
    check_profile(single(), "single");
}

static void test_several(void **state)
{
    (void)state;
    check_profile(several(), "several");
}

static void test_tiny(void **state)
{
    (void)state;
    check_profile(tiny(), "tiny");
}

static void test_sweep(void **state)
{
    (void)state;
    check_profile(swept(), "sweep");
}

static void init_view(struct prn_view *view, const struct prn_profile *p)
{
    struct prony_error err;
    if (prn_view_init(view, p, &err) < 0)
        fail_msg("%s", err.text);
}

static void expect_marks(const struct prn_view *view, size_t result, const char *want)
{
    struct prn_buffer marks = PRN_BUFFER_INIT(1000);
    prn_sweep_marks(&view->sweep, result, ", ", &marks);
    assert_string_equal(prn_buffer_text(&marks), want);
    prn_buffer_release(&marks);
}

/* Against the row with the smallest value of one thing and the same of all others. */
static void test_scaling(void **state)
{
    (void)state;
    struct prn_profile *p = swept();
    struct prn_view view;
    init_view(&view, p);
    const struct prn_sweep_view *sweep = &view.sweep;
    /* 100 µs per item at batch 1 over 200 / 4 = 50 at batch 4, and so on: seq is no batch. */
    static const double gain[] = {1, 1, 1, 1, 100 / 50.0, 80 / 31.25, 400 / 400.0, 250 / 200.0};
    /* 100 / 80 = 1.25 times as fast with twice the threads, and so on */
    static const double scaling[] = {1, 0.625, 1, 0.8, 1, 0.8, 1, 1};
    assert_true(sweep->active);
    assert_int_equal(sweep->n_axes, 2);
    assert_null(sweep->axes[0].option);
    assert_string_equal(sweep->axes[1].option, "threads");
    for (size_t i = 0; i < 8; i++) {
        assert_near(sweep->axes[0].scaling[i], gain[i], 1e-12);
        assert_near(sweep->axes[1].scaling[i], scaling[i], 1e-12);
    }
    prn_view_release(&view);
    /* Without the smallest, the next one takes its place; alone, a row has no scaling. */
    p->results[0].error_code = PRONY_ECRASH;
    p->results[0].error = "crashed";
    init_view(&view, p);
    assert_true(isnan(view.sweep.axes[0].scaling[0]));
    assert_true(isnan(view.sweep.axes[0].scaling[4]));
    assert_near(view.sweep.axes[0].scaling[5], 2.56, 1e-12);
    assert_true(isnan(view.sweep.axes[1].scaling[1]));
    prn_view_release(&view);
    prn_profile_free(p);
}

static void test_best_rows(void **state)
{
    (void)state;
    struct prn_profile *p = swept();
    struct prn_view view;
    init_view(&view, p);
    expect_marks(&view, 1, "latency");          /* 80 µs */
    expect_marks(&view, 5, "throughput, cost"); /* 31.25 µs per item */
    expect_marks(&view, 0, "");
    prn_view_release(&view);
    /* At another point only intervals tell: 79.5 to 80.5 µs per item overlap with 31 to 90. */
    p->results[5].stats.high_ns = 360e3;
    init_view(&view, p);
    expect_marks(&view, 5, "throughput?, cost?");
    expect_marks(&view, 1, "latency, throughput?, cost?");
    expect_marks(&view, 0, ""); /* from 99.4 */
    /* At the same point the paired comparison does, whatever the intervals. */
    expect_marks(&view, 4, "");
    prn_view_release(&view);
    p->results[4].verdict = PRN_VERDICT_UNSURE;
    init_view(&view, p);
    expect_marks(&view, 4, "throughput?, cost?");
    prn_view_release(&view);
    /* A wrong answer isn't best, and a price decides on cost alone. */
    p->results[5].flags = PRN_FLAG_MISMATCH;
    p->results[4].usd_per_hour = 3.6;
    init_view(&view, p);
    expect_marks(&view, 5, "");
    expect_marks(&view, 4, "throughput");
    expect_marks(&view, 1, "latency, cost");
    prn_view_release(&view);
    prn_profile_free(p);
}

static void test_sweep_by_shape(void **state)
{
    (void)state;
    struct prn_profile *p = swept();
    struct prn_view view;
    for (size_t i = 0; i < p->n_points; i++) {
        p->points[i].swept[0] = (struct prn_swept){"input_ids", -1};
        p->points[i].n_swept = 1;
    }
    init_view(&view, p);
    /* 4x64 goes with 1x64, not with 1x16. */
    assert_near(view.sweep.axes[0].scaling[6], 1, 1e-12);
    assert_near(view.sweep.axes[0].scaling[7], 1.25, 1e-12);
    prn_view_release(&view);
    prn_profile_free(p);
}

/* Rows that differ in one number of an option only are a sweep too; others aren't. */
static void test_what_is_a_sweep(void **state)
{
    (void)state;
    static const struct {
        const char *first, *second;
        size_t n_axes;
    } cases[] = {
        {"local/x[threads=1,opt=off]", "local/x[opt=off,threads=2]", 1},
        {"local/x[threads=1,opt=off]", "local/x[opt=all,threads=2]", 0},
        {"local/x[threads=1]", "local/y[threads=2]", 0},
        {"local/x[threads=1]", "local/x", 0},
        {"local/x[threads=0]", "local/x[threads=2]", 0},
        {"local/x[threads=1]", "local/x[threads=1]", 0},
        {"local/x[threads=1", "local/x[threads=2", 0},
        {"local/x[a=1,b=1]", "local/x[a=2,b=2]", 0},
        {"local/x[a=9999999999999999999]", "local/x[a=2]", 0},
    };
    for (size_t i = 0; i < PRN_ARRAY_SIZE(cases); i++) {
        struct prn_profile *p = tiny();
        struct prn_view view;
        for (size_t k = 0; k < 2; k++)
            set_backend(&p->results[k], k ? cases[i].second : cases[i].first, "local", "x", NULL,
                        NAN);
        init_view(&view, p);
        assert_int_equal(view.sweep.n_axes, cases[i].n_axes);
        assert_int_equal(view.sweep.active, cases[i].n_axes > 0);
        prn_view_release(&view);
        prn_profile_free(p);
    }
}

/* A report that says, or doesn't say, something. */
static void expect_text(struct prn_profile *p, const char *says, const char *never)
{
    struct prn_buffer out = PRN_BUFFER_INIT(1 << 20);
    static const struct prn_look look = {.verbose = true, .width = 120};
    assert_int_equal(prn_profile_report(p, PRN_REPORT_FORMAT_TEXT, &look, &out, NULL), 0);
    if (says)
        assert_contains(prn_buffer_text(&out), says);
    if (never && strstr(prn_buffer_text(&out), never))
        fail_msg("'%s' is in '%s'", never, prn_buffer_text(&out));
    prn_buffer_release(&out);
    prn_profile_free(p);
}

static void test_nothing_that_the_data_does_not_say(void **state)
{
    (void)state;
    struct prn_profile *p = single();
    p->results[0].stats.low_ns = 1e6;
    p->results[0].stats.high_ns = 40e6;
    expect_text(p, "unknown", "131 %");
    p = several();
    p->results[1].flags = p->results[2].flags = p->results[3].flags = 0;
    set_output(p, &p->results[2], 0, 0);
    p->results[2].outputs[0].both_nan = 12;
    expect_text(p, "Output 'prob' is NaN (not a number) in 12 places", "agree (");
    p = single();
    p->points[0].batch = 0;
    p->results[0].usd_per_hour = 1;
    expect_text(p, "N/A", "Throughput  ");
    p = single();
    p->results[0].n_launches = 4;
    expect_text(p, "No ±: 4 processes cannot show", "0.63 %");
    /* More launches are no cure where the time is up before. */
    p = single();
    p->results[0].n_launches = p->settings.launches = 2;
    expect_text(p, "Use --launches 5.", "--max-time");
    p = single();
    p->results[0].n_launches = 1;
    p->settings.launches = 2;
    expect_text(p, "Use --launches 5 with a longer", "Use --launches 5.");
    p = single();
    p->results[0].flags = PRN_FLAG_UNSTABLE;
    p->results[0].launches[0].settled = p->results[0].launches[1].settled = false;
    p->results[0].launches[1].warmup_runs = 2;
    expect_text(p, "times of onnxrt-cpu still changed after 2 to 12 warm-up runs in 2 of 5",
                "ten ");
}

static void expect_brief(struct prn_profile *p, const char *says, const char *never)
{
    struct prn_buffer out = reported(p, PRN_REPORT_FORMAT_MARKDOWN);
    assert_contains(prn_buffer_text(&out), says);
    if (strstr(prn_buffer_text(&out), never))
        fail_msg("'%s' is in '%s'", never, prn_buffer_text(&out));
    prn_buffer_release(&out);
    prn_profile_free(p);
}

/* Slower for sure, but by 1.2 to 4.3: the middle isn't told. What can't be told from the best isn't
 * held against it. */
static void test_ratios_that_the_data_carries(void **state)
{
    (void)state;
    struct prn_profile *p = several();
    p->results[1].ratio = (struct prn_interval){1.22, 2.28, 4.26};
    p->results[1].verdict = PRN_VERDICT_SLOWER;
    expect_brief(p, ">1.22×", "2.28×");
    p = swept();
    expect_brief(p, "× that of ", "that can't be told from it");
    p = swept();
    for (size_t i = 0; i < p->n_results; i++)
        p->results[i].stats.high_ns = 1e9;
    for (size_t i = 0; i < p->n_results; i++)
        p->results[i].stats.low_ns = 1;
    p->results[0].verdict = p->results[4].verdict = PRN_VERDICT_UNSURE;
    expect_brief(p, "that can't be told from it", "× that of");
}

static void test_no_results(void **state)
{
    (void)state;
    struct prn_profile *p = new_profile(0);
    p->points[0].n_inputs = 0;
    struct prn_buffer out = reported(p, PRN_REPORT_FORMAT_TEXT);
    assert_contains(prn_buffer_text(&out), "Nothing was measured.");
    prn_buffer_release(&out);
    expect_same_when_reread(p);
    prn_profile_free(p);
}

/* Numbers as no measurement gives them: nothing may crash, and rereading changes nothing. */
static void test_hostile_numbers(void **state)
{
    (void)state;
    static const double values[] = {0,       -0.0,     5e-324, 1e-9,     1,   1e9,
                                    1.5e300, 1.79e308, NAN,    INFINITY, 1e18};
    for (size_t i = 0; i < PRN_ARRAY_SIZE(values); i++) {
        struct prn_profile *p = tiny();
        double v = values[i];
        struct prn_result *r = &p->results[1];
#define SET_NUMBER v
#define SET_INTEGER INT64_MAX
#define SET(kind, member, ...) r->stats.member = SET_##kind;
        PRN_STATS_LIST(SET)
#undef SET
        r->ratio = (struct prn_interval){v, v, v};
        r->usd_per_hour = v;
        r->samples[0].ns = INT64_MAX;
        r->launches[0] = (struct prn_launch){INT64_MAX, -1, -1, INT64_MAX, INT32_MAX, false};
        r->outputs[0] = (struct prn_output_check){"o", true, v, v, v, false, 0, 0};
        r->flags = 31;
        p->points[0].flops = v;
        p->timer_ns = v;
        p->settings.precision = v;
        p->settings.seed = UINT64_MAX;
        p->points[0].batch = INT64_MAX;
        p->environment.mhz = v;
        expect_same_when_reread(p);
        prn_profile_free(p);
    }
}

static void test_hostile_text(void **state)
{
    (void)state;
    struct prn_profile *p = single();
    p->models->path = "a\x1b[31m|`*_\xff\xc2\x9b<b>\n.onnx";
    p->results[0].name = "l\x1b/x|y](z)";
    p->results[0].hardware = "l\x1b";
    p->results[0].processor = "p\r\n|\xf0\x9f";
    p->points[0].inputs[0].name = "in\tput";
    p->points[0].inputs[0].dtype = 99;
    struct prn_buffer out = reported(p, PRN_REPORT_FORMAT_TEXT);
    assert_contains(prn_buffer_text(&out), "a?[31m|`*_?"
                                           "?<b> .onnx");
    assert_contains(prn_buffer_text(&out), "input in put\n  type 99 1x3x224x224");
    assert_null(strchr(prn_buffer_text(&out), '\x1b'));
    prn_buffer_release(&out);
    out = reported(p, PRN_REPORT_FORMAT_MARKDOWN);
    assert_contains(prn_buffer_text(&out), "a?[31m|\\`\\*\\_?"
                                           "?&lt;b> .onnx");
    assert_contains(prn_buffer_text(&out), "x\\|y]\\(z)");
    prn_buffer_release(&out);
    expect_same_when_reread(p);
    prn_profile_free(p);
}

static void test_text_fits(void **state)
{
    (void)state;
    struct prn_profile *(*const makers[])(void) = {single, several, tiny, swept};
    for (size_t i = 0; i < PRN_ARRAY_SIZE(makers); i++) {
        struct prn_profile *p = makers[i]();
        struct prn_buffer out = reported(p, PRN_REPORT_FORMAT_TEXT);
        char *text = prn_buffer_detach(&out);
        for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
            assert_true(prn_text_width(line) <= PRN_LOOK_WIDTH);
        free(text);
        prn_profile_free(p);
    }
}

/* ---- Reading what others wrote ---- */

/* The stored text of `single` with one part replaced. */
static char *altered(const char *from, const char *to)
{
    struct prn_profile *p = single();
    struct prn_buffer json = reported(p, PRN_REPORT_FORMAT_JSON);
    prn_profile_free(p);
    const char *text = prn_buffer_text(&json);
    const char *at = strstr(text, from);
    if (!at)
        fail_msg("'%s' is not in the profile", from);
    struct prn_buffer out = PRN_BUFFER_INIT(OUT_MAX);
    prn_buffer_append(&out, text, (size_t)(at - text));
    prn_buffer_add(&out, to);
    prn_buffer_add(&out, at + strlen(from));
    prn_buffer_release(&json);
    char *copy = prn_buffer_detach(&out);
    assert_non_null(copy);
    return copy;
}

#define A_MODEL \
    "{\"path\": \"a\", \"bytes\": 1, \"parameters\": 1, \"fingerprint\": null, \"name\": \"a\"}"

static void test_faults_name_the_place(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to, *fault;
        int code;
    } cases[] = {
        {"\"median_ns\": 14940000", "\"median_ns\": \"x\"",
         "results[0].stats.median_ns is not a number", PRONY_EFORMAT},
        {"\"median_ns\": 14940000", "\"median_ns\": -1",
         "results[0].stats.median_ns is out of range", PRONY_EFORMAT},
        {"\"median_ns\": 14940000", "\"other\": 1", "results[0].stats.median_ns is missing",
         PRONY_EFORMAT},
        {"\"shape\": [1,", "\"shape\": [-1,", "points[0].inputs[0].shape[0] is out of range",
         PRONY_EFORMAT},
        {"\"shape\": [1,", "\"shape\": [1.5,", "points[0].inputs[0].shape[0] is not an integer",
         PRONY_EFORMAT},
        {"\"type\": \"float\"", "\"type\": \"real\"",
         "points[0].inputs[0].type is not a tensor type", PRONY_EFORMAT},
        {"\"batch\": 1", "\"batch\": -1", "points[0].batch is out of range", PRONY_EFORMAT},
        {"\"point\": 0", "\"point\": 1", "results[0].point is out of range", PRONY_EFORMAT},
        {"\"flags\": []", "\"flags\": [\"ODD\"]",
         "results[0].flags[0] is not one of UNSTABLE, NOISY", PRONY_EFORMAT},
        {"\"verdict\": \"none\"", "\"verdict\": \"good\"",
         "results[0].verdict is not one of none, same", PRONY_EFORMAT},
        {"\"error\": null", "\"error\": {\"code\": \"EX\", \"message\": \"\"}",
         "results[0].error.code is not one of PRONY_EUSAGE", PRONY_EFORMAT},
        {"\"launch\": [0,", "\"launch\": [", "results[0].launch is not as long as samples_ns",
         PRONY_EFORMAT},
        {"\"block\": [0,", "\"block\": [4294967296,", "results[0].block[0] is out of range",
         PRONY_EFORMAT},
        {"\"settled\": true", "\"settled\": 1",
         "results[0].launches[0].settled is not true or false", PRONY_EFORMAT},
        {"\"notes\": []", "\"notes\": {}", "notes is not an array", PRONY_EFORMAT},
        {"\"notes\": []", "\"notes\": [], \"models\": []", "models has too few entries",
         PRONY_EFORMAT},
        {"\"points\": [",
         "\"models\": [" A_MODEL ", " A_MODEL ", " A_MODEL "], \"points\": [], \"others\": [",
         "models do not match the points", PRONY_EFORMAT},
        {"\"environment\": {", "\"environment\": 1, \"x\": {", "environment is not an object",
         PRONY_EFORMAT},
        {"\"path\": \"resnet50.onnx\"", "\"path\": null", "model.path is not a text",
         PRONY_EFORMAT},
        {"prony.profile/1", "prony.profile/2", "use a newer prony", PRONY_EUNSUPPORTED},
        {"prony.profile/1", "prony.trace/1", "its schema is 'prony.trace/1'", PRONY_EFORMAT},
        {"\"schema\"", "\"scheme\"", "without a \"schema\"", PRONY_EFORMAT},
        {"{", "[{", "is not valid JSON", PRONY_EFORMAT},
    };
    for (size_t i = 0; i < PRN_ARRAY_SIZE(cases); i++) {
        struct prony_error err = {0};
        struct prn_profile *profile = NULL;
        char *text = altered(cases[i].from, cases[i].to);
        assert_int_equal(prn_profile_parse_json(text, strlen(text), "file", &profile, &err),
                         cases[i].code);
        assert_null(profile);
        assert_contains(err.text, cases[i].fault);
        free(text);
    }
}

static void test_unknown_keys_are_ignored(void **state)
{
    (void)state;
    struct prony_error err;
    struct prn_profile *profile;
    char *text = altered("\"notes\": []", "\"notes\": [], \"later\": {\"addition\": 1}");
    assert_int_equal(prn_profile_parse_json(text, strlen(text), "file", &profile, &err), 0);
    prn_profile_free(profile);
    free(text);
}

static void test_bounds(void **state)
{
    (void)state;
    struct prony_error err;
    struct prn_profile *profile;
    struct prn_buffer text = PRN_BUFFER_INIT(OUT_MAX);
    for (int i = 0; i < 1500000; i++)
        prn_buffer_add(&text, "[],");
    assert_int_equal(
        prn_profile_parse_json(prn_buffer_text(&text), text.len, "file", &profile, &err),
        PRONY_ELIMIT);
    assert_contains(err.text, "too many values");
    prn_buffer_release(&text);

    struct prn_profile *p = single();
    struct prn_buffer small = PRN_BUFFER_INIT(100);
    for (int format = 0; format < 4; format++) {
        prn_buffer_clear(&small);
        assert_int_equal(prn_profile_report(p, (enum prn_report_format)format, NULL, &small, &err),
                         PRONY_ELIMIT);
    }
    prn_buffer_release(&small);
    prn_profile_free(p);
}

/* ---- Widths ---- */

static void check_lines(const struct prn_buffer *out, size_t width, size_t rows, size_t length)
{
    char line[4096];
    for (const char *p = prn_buffer_text(out); *p;) {
        size_t len = strcspn(p, "\n");
        assert_true(len < sizeof line);
        memcpy(line, p, len);
        line[len] = '\0';
        if (prn_text_width(line) > width)
            fail_msg("%zu rows, names of %zu, width %zu: %s", rows, length, width, line);
        p += len + (p[len] == '\n');
    }
}

/* Rows whose names have a long part in common and differ in the middle. */
static struct prn_profile *named_rows(size_t rows, size_t length)
{
    struct prn_profile *p = new_profile(rows);
    for (size_t i = 0; i < rows; i++) {
        char *name = PRN_ARENA_ARRAY(&p->arena, length + 1, char);
        char number[32];
        memset(name, 'x', length);
        snprintf(number, sizeof number, "%03zu", i);
        memcpy(name + length / 2 - 1, number, 3);
        name[length] = '\0';
        if (length > 100)
            name[20] = '[';
        set_backend(&p->results[i], name, "local", name, "Example Processor 9000", 0.126);
        set_times(p, &p->results[i], 10e6 * (double)(i + 1), 700, 5);
        p->results[i].ratio =
            (struct prn_interval){i ? (double)i + 0.9 : 1, (double)i + 1, i ? (double)i + 1.1 : 1};
        p->results[i].verdict = i ? PRN_VERDICT_SLOWER : PRN_VERDICT_NONE;
        p->results[i].flags = PRN_FLAG_NOISY | PRN_FLAG_IMPRECISE | PRN_FLAG_UNSTABLE;
    }
    return p;
}

static void no_line_is_wider_than_the_terminal(void **state)
{
    (void)state;
    static const size_t widths[] = {40, 60, 80, 120, 200};
    static const size_t rows[] = {1, 2, 12, 100};
    static const size_t lengths[] = {5, 300};
    for (size_t l = 0; l < PRN_ARRAY_SIZE(lengths); l++)
        for (size_t r = 0; r < PRN_ARRAY_SIZE(rows); r++) {
            struct prn_profile *p = named_rows(rows[r], lengths[l]);
            for (size_t w = 0; w < 2 * PRN_ARRAY_SIZE(widths); w++) {
                struct prn_buffer out = PRN_BUFFER_INIT(OUT_MAX);
                struct prn_look look = {.width = widths[w / 2], .verbose = w % 2};
                assert_int_equal(prn_profile_report(p, PRN_REPORT_FORMAT_TEXT, &look, &out, NULL),
                                 0);
                check_lines(&out, look.width, rows[r], lengths[l]);
                /* Every row has its time, and a short name tells them apart. */
                assert_non_null(strstr(prn_buffer_text(&out), "10.0 ms"));
                if (lengths[l] == 300)
                    assert_non_null(strstr(prn_buffer_text(&out), "\n[1] x"));
                prn_buffer_release(&out);
            }
            prn_profile_free(p);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_line_is_wider_than_the_terminal),
        cmocka_unit_test(test_single),
        cmocka_unit_test(test_several),
        cmocka_unit_test(test_tiny),
        cmocka_unit_test(test_sweep),
        cmocka_unit_test(test_scaling),
        cmocka_unit_test(test_best_rows),
        cmocka_unit_test(test_sweep_by_shape),
        cmocka_unit_test(test_what_is_a_sweep),
        cmocka_unit_test(test_nothing_that_the_data_does_not_say),
        cmocka_unit_test(test_ratios_that_the_data_carries),
        cmocka_unit_test(test_no_results),
        cmocka_unit_test(test_hostile_numbers),
        cmocka_unit_test(test_hostile_text),
        cmocka_unit_test(test_text_fits),
        cmocka_unit_test(test_faults_name_the_place),
        cmocka_unit_test(test_unknown_keys_are_ignored),
        cmocka_unit_test(test_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
