/* What is said of a model that was measured layer by layer, with figures worked out by hand; and
 * the head of its results. */
#include "unit.h"

#include "measure/inputs.h"
#include "pipeline/limits.h"
#include "report/layers/json.h"
#include "report/layers/report.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static const int64_t wide[] = {197, 768};
static const struct prn_layer_shape one[] = {{wide, 2}}, two[] = {{wide, 2}, {NULL, 0}};

/* Two layers of 60 and 40 ms, and a whole of 100 and 80. */
static struct prn_layer_profile *profile;
static struct prn_layer_row rows[2];
static struct prn_layer_measurement m;
static struct prn_buffer out;

static void add(int64_t layer, double time_s, double ci_s)
{
    struct prn_layer_entry entry = {layer, 10.5, 9.5, time_s, ci_s, one, two, 1, 2};
    assert_int_equal(prn_layer_profile_add(profile, &entry, NULL), 0);
}

static const struct prn_layer_head usual_head = {"m", "torch.float32", 8, 2};

static int setup(void **state)
{
    (void)state;
    assert_int_equal(prn_layer_profile_open("/nonexistent.yml", &usual_head, &profile, NULL), 0);
    add(1, 0.06, 0.003);
    add(2, 0.04, 0.004);
    rows[0] = (struct prn_layer_row){1, true, 30, 5, 0};
    rows[1] = (struct prn_layer_row){2, true, 30, 5, 0};
    m = (struct prn_layer_measurement){
        .model_path = "m.onnx",
        .backend = "local/onnxrt-cpu",
        .runtime = "ONNX Runtime 1.30.0",
        .cpu = "",
        .n_rows = 2,
        .rows = rows,
        .sum_s = 0.1,
        .sum_ci_s = 0.005,
        .has_whole = true,
        .whole = {{0.1, 0.001, 30, 5, 0}, {0.08, NAN, 30, 5, 0}},
        .fused = {0.79, 0.8, 0.81},
    };
    out = PRN_BUFFER_INIT(1 << 20);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    prn_layer_profile_free(profile);
    prn_buffer_release(&out);
    return 0;
}

static const char *text(enum prn_report_format format)
{
    prn_buffer_clear(&out);
    assert_int_equal(
        prn_layers_report(&m, profile, format, &(struct prn_look){.width = 100}, &out, NULL), 0);
    return prn_buffer_text(&out);
}

static void times_and_what_fusing_saves(void **state)
{
    (void)state;
    assert_string_equal(
        text(PRN_REPORT_FORMAT_TEXT),
        "m.onnx, layers 1 to 2 of 2, batch of 8, torch.float32, on local/onnxrt-cpu "
        "(ONNX Runtime 1.30.0).\n"
        "\n"
        "2 layers take 100 ms; layer 1 takes longest, 60.0 ms. The whole model takes 80.0 ms, 20.0 "
        "% "
        "less\n"
        "  than its layers.\n"
        "\n"
        "Layer     Time       ±    Share   Memory  Takes    Gives\n"
        "===================================================================\n"
        "    1  60.0 ms   5.0 %   60.0 %  10.5 MB  197x768  197x768 + scalar\n"
        "    2  40.0 ms  10.0 %   40.0 %  10.5 MB  197x768  197x768 + scalar\n"
        "  sum   100 ms   5.0 %  100.0 %  11.5 MB\n"
        "-------------------------------------------------------------------\n"
        "\n"
        "The whole model takes 100 ms ±1.0 % with nothing fused across the cuts; the sum of the "
        "layers is as\n"
        "  much as that.\n"
        "As it is, it takes 80.0 ms: fusing across the cuts seems to save 20.0 % of the sum.\n"
        "Run in sequence, the layers give exactly the whole model's outputs.\n"
        "9.5 MB of each layer's memory belong to the runtime; the sum counts them once.\n");
}

static void layers_that_do_not_add_up(void **state)
{
    (void)state;
    m.whole[PRN_WHOLE_CUT].time_s = 0.09;
    m.whole[PRN_WHOLE_FUSED].time_s = 0.11;
    assert_contains(text(PRN_REPORT_FORMAT_MARKDOWN), "is 11.1 % more than that: the layers do not "
                                                      "add up.");
    assert_contains(prn_buffer_text(&out), "takes 110 ms, but the layers do not add up.");
    assert_null(strstr(prn_buffer_text(&out), "fusing across the cuts would"));
    m.whole[PRN_WHOLE_CUT].time_s = 0.104;
    assert_contains(text(PRN_REPORT_FORMAT_MARKDOWN), "is 3.8 % less than that.");
    assert_contains(prn_buffer_text(&out), "nobody knows whether fusing across the cuts would");
    m.whole[PRN_WHOLE_FUSED].time_ci_s = 0.004;
    assert_contains(text(PRN_REPORT_FORMAT_MARKDOWN), "fusing across the cuts would save nothing.");
    m.whole[PRN_WHOLE_FUSED].time_s = 0.09;
    assert_contains(text(PRN_REPORT_FORMAT_MARKDOWN), "fusing across the cuts would save 10.0 %");
    m.whole[PRN_WHOLE_FUSED].time_s = 0.096;
    assert_contains(text(PRN_REPORT_FORMAT_MARKDOWN), "nobody knows whether fusing across");
    m.whole[PRN_WHOLE_FUSED].time_ci_s = NAN;
    m.whole[PRN_WHOLE_FUSED].time_s = 0.11;
    text(PRN_REPORT_FORMAT_MARKDOWN);
    assert_contains(prn_buffer_text(&out), "The whole model takes 110 ms, 10.0 % more than its");
    m.whole[PRN_WHOLE_FUSED].time_s = 0.276;
    assert_contains(text(PRN_REPORT_FORMAT_MARKDOWN), "takes 276 ms, 2.760× as long as its layers");
}

/* Intervals that meet, that aren't known, or that are wider than the time itself. */
static void what_is_not_known_is_not_said(void **state)
{
    (void)state;
    static const double widths[] = {0.017, NAN, 0.07};
    static const char *const cells[] = {"| 60.0 ms | 28.3 % |", "| 60.0 ms |      ? |",
                                        "| 60.0 ms | unknown |"};
    for (size_t i = 0; i < PRN_ARRAY_SIZE(widths); i++) {
        prn_layer_profile_free(profile);
        assert_int_equal(prn_layer_profile_open("/nonexistent.yml", &usual_head, &profile, NULL),
                         0);
        add(1, 0.06, widths[i]);
        add(2, 0.04, 0.004);
        m.whole[PRN_WHOLE_CUT].time_ci_s = i == 2 ? 0.2 : 0.001;
        const char *shown = text(PRN_REPORT_FORMAT_MARKDOWN);
        assert_contains(shown, "layer 1 seems to take longest");
        assert_contains(shown, cells[i]);
        assert_contains(shown,
                        i == 2 ? "takes 100 ms (± unknown) with" : "takes 100 ms ±1.0 % with");
    }
}

static void flags_and_mismatches(void **state)
{
    (void)state;
    rows[1].flags = PRN_FLAG_NOISY;
    m.whole[0].flags = PRN_FLAG_IMPRECISE;
    m.mismatch = true;
    m.difference = 0.25;
    m.repeatability = 1e-7;
    rows[0].measured = false;
    const char *shown = text(PRN_REPORT_FORMAT_MARKDOWN);
    assert_contains(shown, "| NOISY |");
    assert_contains(shown, "NOISY: other work disturbed this machine");
    assert_contains(shown, "IMPRECISE: the wanted precision was not reached.");
    assert_null(strstr(shown, "UNSTABLE"));
    assert_contains(shown, "MISMATCH: run in sequence, the layers do not give the whole "
                           "model's outputs; the largest difference is 0.25 of the largest value; "
                           "two processes with the whole model differ by 1e-07.");
    assert_contains(shown, "1 layer was measured in an earlier run.");
    m.mismatch = false;
    assert_contains(text(PRN_REPORT_FORMAT_MARKDOWN), "give the whole model's outputs, to 0.25");
}

static void some_layers_only(void **state)
{
    (void)state;
    m.has_whole = false;
    m.n_rows = 1;
    const char *shown = text(PRN_REPORT_FORMAT_MARKDOWN);
    assert_contains(shown, "m.onnx, layer 1 of 2");
    assert_null(strstr(shown, "whole model"));
    assert_contains(text(PRN_REPORT_FORMAT_JSON), "\"whole\": null");
}

/* ---- What travels ---- */

static void what_a_client_reads_back(void **state)
{
    (void)state;
    struct prn_arena arena = PRN_ARENA_INIT(1 << 20);
    struct prony_error err;
    struct prn_layer_measurement read = m;
    struct prn_buffer again = PRN_BUFFER_INIT(1 << 20);
    m.whole[1].flags = PRN_FLAG_NOISY;
    m.mismatch = true;
    m.difference = 0.25;
    text(PRN_REPORT_FORMAT_JSON);
    read.runtime = NULL;
    read.has_whole = false;
    read.fused = (struct prn_interval){0};
    memset(read.whole, 0, sizeof read.whole);
    assert_int_equal(prn_layers_parse_json(prn_buffer_text(&out), out.len, &arena, &read, &err), 0);
    assert_int_equal(prn_layers_write_json(&read, profile, &again, &err), 0);
    assert_string_equal(prn_buffer_text(&again), prn_buffer_text(&out));
    prn_buffer_release(&again);
    prn_arena_release(&arena);
}

static void a_layer_and_an_order(void **state)
{
    (void)state;
    struct prn_arena arena = PRN_ARENA_INIT(1 << 20);
    struct prony_error err;
    struct prn_layer_entry entry;
    struct prn_layer_row row;
    struct prn_layer_order order = {.cuts = "a*",
                                    .max_tensors = 3,
                                    .batch = 8,
                                    .layers = 2,
                                    .first = 2,
                                    .last = 2,
                                    .results = "r.yml",
                                    .n_shapes = 2,
                                    .n_entries = 1,
                                    .shapes = two,
                                    .entries = prn_layer_profile_entry(profile, 0)};
    rows[1].flags = PRN_FLAG_NOISY;
    assert_int_equal(
        prn_layer_write_json(prn_layer_profile_entry(profile, 1), &rows[1], &out, &err), 0);
    assert_int_equal(
        prn_layer_parse_json(prn_buffer_text(&out), out.len, &arena, &entry, &row, &err), 0);
    assert_memory_equal(&row, &rows[1], sizeof row);
    assert_true(entry.layer == 2 && entry.time_s == 0.04 && entry.time_ci_s == 0.004 &&
                entry.memory_mb == 10.5 && entry.memory_fixed_mb == 9.5);
    assert_true(entry.n_in == 1 && entry.n_out == 2 && entry.out[0].rank == 2 &&
                entry.out[0].dims[1] == 768 && entry.out[1].rank == 0);
    prn_buffer_clear(&out);
    assert_int_equal(prn_layer_order_write_json(&order, &out, &err), 0);
    memset(&order, 0, sizeof order);
    assert_int_equal(prn_layer_order_parse_json(prn_buffer_text(&out), &arena, &order, &err), 0);
    assert_string_equal(order.cuts, "a*");
    assert_string_equal(order.results, "r.yml");
    assert_true(order.max_tensors == 3 && order.batch == 8 && order.layers == 2 &&
                order.first == 2 && order.last == 2);
    assert_true(order.n_shapes == 2 && order.shapes[0].dims[0] == 197 && order.n_entries == 1 &&
                order.entries[0].time_s == 0.06);
    prn_arena_release(&arena);
}

/* ---- The head ---- */

static struct prn_cut_tensor tensor(int dtype, double elements)
{
    return (struct prn_cut_tensor){.value = {.name = "t", .dtype = dtype}, .elements = elements};
}

static int head_of(int in_type, double in_elements, int out_type, double out_elements,
                   size_t n_layers, struct prn_layer_head *head, struct prony_error *err)
{
    const struct prn_cut_tensor in = tensor(in_type, in_elements);
    const struct prn_cut_tensor given = tensor(out_type, out_elements);
    const struct prn_cut_tensor *ins[] = {&in};
    const struct prn_cut_tensor *outs[] = {&given};
    struct prn_layer *layers = calloc(n_layers, sizeof *layers);
    assert_non_null(layers);
    layers[0] = (struct prn_layer){.n_in = 1, .in = ins, .n_out = 1, .out = outs};
    struct prn_model model = {.path = "m.onnx"};
    struct prn_cuts cuts = {.n_layers = n_layers, .layers = layers};
    const struct prn_layer_job job = {.model = &model, .cuts = &cuts, .batch = 3};
    int code = prn_layer_job_head(&job, "m", head, err);
    free(layers);
    return code;
}

static void type_is_that_of_most_numbers(void **state)
{
    (void)state;
    struct prony_error err;
    struct prn_layer_head head;
    assert_int_equal(head_of(PRN_DTYPE_FLOAT, 10, PRN_DTYPE_FLOAT16, 20, 2, &head, &err), 0);
    assert_string_equal(head.dtype, "torch.float16");
    assert_int_equal(head.layers, 2);
    assert_int_equal(head.batch_size, 3);
    /* Whole numbers don't count beside others, and sizes needn't be known. */
    assert_int_equal(head_of(PRN_DTYPE_INT64, 99, PRN_DTYPE_DOUBLE, NAN, 2, &head, &err), 0);
    assert_string_equal(head.dtype, "torch.float64");
    assert_int_equal(head_of(PRN_DTYPE_INT64, 99, PRN_DTYPE_INT32, 1, 2, &head, &err), 0);
    assert_string_equal(head.dtype, "torch.int64");
    assert_int_equal(head_of(PRN_DTYPE_STRING, 9, PRN_DTYPE_INT32, 1, 2, &head, &err),
                     PRONY_EUNSUPPORTED);
    assert_contains(err.text, "'m.onnx' passes string between layers");
    assert_int_equal(
        head_of(PRN_DTYPE_FLOAT, 1, PRN_DTYPE_FLOAT, 1, PRN_PIPELINE_LAYERS_MAX + 1, &head, &err),
        PRONY_ELIMIT);
    assert_contains(err.text, "'m.onnx' has 4097 layers");
}

/* ---- What a layer is fed ---- */

static void inputs_are_copies(void **state)
{
    (void)state;
    struct prony_error err;
    struct prn_arena arena = PRN_ARENA_INIT(1 << 20);
    struct prn_inputs inputs;
    char bytes[3] = "";
    int fd = memfd_create("outputs", MFD_CLOEXEC);
    assert_int_equal(pwrite(fd, "abcdef", 6, 100), 6);
    const struct prn_place places[] = {{"late", PRN_DTYPE_UINT8, 1, {3}, 103, 3},
                                       {"early", PRN_DTYPE_UINT8, 1, {3}, 100, 3}};
    const struct prn_input_copy tensors[] = {{fd, &places[0]}, {fd, &places[1]}};
    assert_int_equal(prn_inputs_copy(tensors, 2, "here", &arena, &inputs, &err), 0);
    close(fd);
    assert_int_equal(inputs.n, 2);
    assert_string_equal(inputs.places[1].name, "early");
    assert_int_equal(inputs.places[1].dims[0], 3);
    assert_int_equal(pread(inputs.fd, bytes, 3, (off_t)inputs.places[0].offset), 3);
    assert_memory_equal(bytes, "def", 3);
    assert_int_equal(pread(inputs.fd, bytes, 3, (off_t)inputs.places[1].offset), 3);
    assert_memory_equal(bytes, "abc", 3);
    assert_int_equal(pwrite(inputs.fd, "x", 1, 0), -1); /* nobody may change them */
    prn_inputs_release(&inputs);
    /* A process that lies about how much there is. */
    fd = memfd_create("short", MFD_CLOEXEC);
    const struct prn_input_copy missing = {fd, &places[0]};
    assert_int_equal(prn_inputs_copy(&missing, 1, "here", &arena, &inputs, &err), PRONY_EIO);
    close(fd);
    prn_arena_release(&arena);
}

#define FIXTURE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE(times_and_what_fusing_saves),
        FIXTURE(layers_that_do_not_add_up),
        FIXTURE(what_is_not_known_is_not_said),
        FIXTURE(flags_and_mismatches),
        FIXTURE(some_layers_only),
        FIXTURE(what_a_client_reads_back),
        FIXTURE(a_layer_and_an_order),
        cmocka_unit_test(type_is_that_of_most_numbers),
        cmocka_unit_test(inputs_are_copies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
