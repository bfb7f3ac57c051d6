/* Results per layer: beginning a file, extending it, and what can't be put together. */
#include "unit.h"

#include "pipeline/layers/profile.h"

#include <stdlib.h>
#include <unistd.h>

static const int64_t image[] = {3, 224, 224}, tokens[] = {197, 768};
static const struct prn_layer_shape in[] = {{image, 3}}, out[] = {{tokens, 2}, {tokens, 2}};

static const struct prn_layer_head head = {"google/vit-base-patch16-224", "torch.float32", 8, 48};

static struct prn_layer_entry entry_of(int64_t layer)
{
    return (struct prn_layer_entry){.layer = layer,
                                    .memory_mb = 26.857472,
                                    .memory_fixed_mb = NAN,
                                    .time_s = 0.36892950534820557,
                                    .time_ci_s = NAN,
                                    .in = in,
                                    .n_in = 1,
                                    .out = out,
                                    .n_out = 2};
}

static const char first_layer[] = "batch_size: 8\n"
                                  "dtype: torch.float32\n"
                                  "layers: 48\n"
                                  "model_name: google/vit-base-patch16-224\n"
                                  "profile_data:\n"
                                  "- layer: 1\n"
                                  "  memory: 26.857472\n"
                                  "  shape_in:\n"
                                  "  - [3, 224, 224]\n"
                                  "  shape_out:\n"
                                  "  - [197, 768]\n"
                                  "  - [197, 768]\n"
                                  "  time: 0.36892950534820557\n";

/* ---- Files ---- */

static char path[64];

static int make_path(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "/tmp/prony-results-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    return 0;
}

static int remove_path(void **state)
{
    (void)state;
    unlink(path);
    return 0;
}

static void put(const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void check_text(const struct prn_layer_profile *profile, const char *expected)
{
    struct prn_buffer text = PRN_BUFFER_INIT(PRN_LAYER_PROFILE_TEXT_MAX);
    struct prony_error err;
    assert_int_equal(prn_layer_profile_write(profile, &text, &err), 0);
    assert_string_equal(prn_buffer_text(&text), expected);
    prn_buffer_release(&text);
}

/* ---- Tests ---- */

static void a_new_file(void **state)
{
    (void)state;
    struct prn_layer_profile *profile;
    struct prony_error err;
    unlink(path);
    assert_int_equal(prn_layer_profile_open(path, &head, &profile, &err), 0);
    assert_int_equal(prn_layer_profile_count(profile), 0);
    assert_int_equal(prn_layer_profile_complete(profile, &err), PRONY_EFORMAT);
    struct prn_layer_entry entry = entry_of(1);
    assert_int_equal(prn_layer_profile_add(profile, &entry, &err), 0);
    check_text(profile, first_layer);
    prn_layer_profile_free(profile);
}

static void layers_are_sorted_and_all_is_kept(void **state)
{
    (void)state;
    struct prn_layer_profile *profile;
    struct prony_error err;
    put("model_name: m # a comment\nnote: [kept]\ndtype: torch.int8\nbatch_size: 1\nlayers: 3\n"
        "profile_data:\n"
        "- {layer: 3, memory: 1, shape_in: [], shape_out: [], time: 1e-3, extra: x}\n");
    struct prn_layer_head same = {"m", "torch.int8", 1, 3};
    assert_int_equal(prn_layer_profile_open(path, &same, &profile, &err), 0);
    assert_non_null(prn_layer_profile_find(profile, 3));
    assert_null(prn_layer_profile_find(profile, 1));
    for (int64_t layer = 2; layer > 0; layer--) {
        struct prn_layer_entry entry = {
            .layer = layer, .memory_mb = 2, .memory_fixed_mb = 1.5, .time_ci_s = 0.5};
        assert_int_equal(prn_layer_profile_complete(profile, &err), PRONY_EFORMAT);
        assert_int_equal(prn_layer_profile_add(profile, &entry, &err), 0);
    }
    assert_int_equal(prn_layer_profile_complete(profile, &err), 0);
    check_text(profile, "batch_size: 1\ndtype: torch.int8\nlayers: 3\nmodel_name: m\nnote: [kept]\n"
                        "profile_data:\n"
                        "- layer: 1\n  memory: 2.0\n  memory_fixed: 1.5\n  shape_in: []\n  "
                        "shape_out: []\n  time: 0.0\n"
                        "  time_ci: 0.5\n"
                        "- layer: 2\n  memory: 2.0\n  memory_fixed: 1.5\n  shape_in: []\n  "
                        "shape_out: []\n  time: 0.0\n"
                        "  time_ci: 0.5\n"
                        "- extra: x\n  layer: 3\n  memory: 1\n  shape_in: []\n  shape_out: []\n"
                        "  time: 1e-3\n");
    prn_layer_profile_free(profile);
}

static void what_does_not_belong_together(void **state)
{
    (void)state;
    struct prn_layer_profile *profile;
    struct prony_error err;
    put(first_layer);
    const struct {
        struct prn_layer_head head;
        const char *message;
    } cases[] = {
        {{"other", head.dtype, 8, 48},
         "line 4: 'model_name' is 'google/vit-base-patch16-224', but"},
        {{head.model_name, "torch.int8", 8, 48}, "line 2: 'dtype' is 'torch.float32', but"},
        {{head.model_name, head.dtype, 4, 48}, "line 1: 'batch_size' is 8, but"},
        {{head.model_name, head.dtype, 8, 12}, "line 3: 'layers' is 48, but"},
    };
    for (size_t i = 0; i < PRN_ARRAY_SIZE(cases); i++) {
        assert_int_equal(prn_layer_profile_open(path, &cases[i].head, &profile, &err),
                         PRONY_EFORMAT);
        assert_contains(err.text, cases[i].message);
    }
    assert_int_equal(prn_layer_profile_open(path, &head, &profile, &err), 0);
    struct prn_layer_entry entry = entry_of(1);
    assert_int_equal(prn_layer_profile_add(profile, &entry, &err), PRONY_EFORMAT);
    assert_contains(err.text, "already has layer 1");
    entry = entry_of(49);
    assert_int_equal(prn_layer_profile_add(profile, &entry, &err), PRONY_EUSAGE);
    entry = entry_of(2);
    entry.time_s = NAN;
    assert_int_equal(prn_layer_profile_add(profile, &entry, &err), PRONY_EUSAGE);
    check_text(profile, first_layer);
    prn_layer_profile_free(profile);
}

/* Times of two backends aren't mixed; a file that doesn't say what it was measured with is taken.
 */
static void one_way_to_measure(void **state)
{
    (void)state;
    struct prn_layer_profile *profile;
    struct prony_error err;
    unlink(path);
    assert_int_equal(prn_layer_profile_open(path, &head, &profile, &err), 0);
    assert_int_equal(prn_layer_profile_measure_with(profile, "a", &err), 0);
    assert_int_equal(prn_layer_profile_measure_with(profile, "local/a (A 1.2) -i 3", &err), 0);
    struct prn_layer_entry entry = entry_of(1);
    assert_int_equal(prn_layer_profile_add(profile, &entry, &err), 0);
    struct prn_buffer text = PRN_BUFFER_INIT(PRN_LAYER_PROFILE_TEXT_MAX);
    assert_int_equal(prn_layer_profile_write(profile, &text, &err), 0);
    prn_layer_profile_free(profile);
    put(prn_buffer_text(&text));
    prn_buffer_release(&text);
    assert_int_equal(prn_layer_profile_open(path, &head, &profile, &err), 0);
    assert_int_equal(prn_layer_profile_measure_with(profile, "local/a (A 1.2) -i 3", &err), 0);
    assert_int_equal(prn_layer_profile_measure_with(profile, "local/b", &err), PRONY_EFORMAT);
    assert_contains(err.text, "measured with 'local/a (A 1.2) -i 3', not with 'local/b'");
    prn_layer_profile_free(profile);
    put(first_layer);
    assert_int_equal(prn_layer_profile_open(path, &head, &profile, &err), 0);
    assert_int_equal(prn_layer_profile_measure_with(profile, "local/b", &err), 0);
    check_text(profile, first_layer);
    prn_layer_profile_free(profile);
}

static void elements(void **state)
{
    (void)state;
    static const int64_t huge[] = {INT64_C(1) << 30, INT64_C(1) << 30};
    static const struct prn_layer_shape scalar[] = {{NULL, 0}}, too_many[] = {{huge, 2}};
    double n = 0;
    assert_int_equal(prn_layer_shapes_count(out, 2, &n), 0);
    assert_true(n == 302592);
    assert_int_equal(prn_layer_shapes_count(scalar, 1, &n), 0);
    assert_true(n == 1);
    assert_int_equal(prn_layer_shapes_count(too_many, 1, &n), PRONY_ELIMIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_file),
        cmocka_unit_test(layers_are_sorted_and_all_is_kept),
        cmocka_unit_test(what_does_not_belong_together),
        cmocka_unit_test(one_way_to_measure),
        cmocka_unit_test(elements),
    };
    return cmocka_run_group_tests(tests, make_path, remove_path);
}
