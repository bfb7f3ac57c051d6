/* Comparing the outputs of two backends. */
#include "unit.h"

#include "measure/measure.h"
#include "model/dtype.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int memory_with(const void *data, size_t len)
{
    int fd = memfd_create("outputs", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, len), len);
    return fd;
}

static struct prn_output_check compare(int dtype, int64_t elements, const void *a, const void *b,
                                       size_t bytes)
{
    struct prn_arena arena = PRN_ARENA_INIT(65536);
    struct prn_place place = {
        .name = "y", .dtype = dtype, .rank = 1, .dims = {elements}, .bytes = bytes};
    struct prn_output_check *checks;
    struct prony_error err;
    int reference = memory_with(a, bytes);
    int other = memory_with(b, bytes);
    assert_int_equal(
        prn_outputs_compare(reference, &place, other, &place, 1, &arena, &checks, &err), 0);
    struct prn_output_check check = checks[0];
    close(reference);
    close(other);
    prn_arena_release(&arena);
    return check;
}

static void test_floats(void **state)
{
    (void)state;
    const float a[] = {1, -2, 4};
    const float b[] = {1, -2, 4.5f};
    struct prn_output_check check = compare(PRN_DTYPE_FLOAT, 3, a, b, sizeof a);
    assert_near(check.max_abs, 0.5, 0);
    assert_near(check.max_rel, 0.125, 0);
    assert_true(prn_output_differs(&check, PRN_TOLERANCE_DEFAULT));
    check = compare(PRN_DTYPE_FLOAT, 3, a, a, sizeof a);
    assert_near(check.max_abs, 0, 0);
    assert_near(check.cosine, 1, 1e-12);
    assert_false(prn_output_differs(&check, PRN_TOLERANCE_DEFAULT));
}

static void test_imaginary_parts_count(void **state)
{
    (void)state;
    const float a[] = {1, 0, 2, 5};
    const float b[] = {1, 0, 2, 3};
    struct prn_output_check check = compare(PRN_DTYPE_COMPLEX64, 2, a, b, sizeof a);
    assert_near(check.max_abs, 2, 0);
    const double wide_a[] = {1, 0, 2, 5};
    const double wide_b[] = {1, 0, 2, 4};
    check = compare(PRN_DTYPE_COMPLEX128, 2, wide_a, wide_b, sizeof wide_a);
    assert_near(check.max_abs, 1, 0);
}

static void test_packed_elements(void **state)
{
    (void)state;
    /* Three of four bits: the bits behind the last one don't count. */
    struct prn_output_check check = compare(PRN_DTYPE_INT4, 3, "\x21\x0f", "\x21\xff", 2);
    assert_near(check.max_abs, 0, 0);
    check = compare(PRN_DTYPE_INT4, 3, "\x21\x0f", "\x21\x01", 2);
    assert_near(check.max_abs, 2, 0);
}

/* A detector's map of probabilities is all but zero: what rounding makes of it isn't an error, but
 * another map is. */
static void test_small_values_round(void **state)
{
    (void)state;
    float a[64], b[64], wrong[64];
    for (int i = 0; i < 64; i++) {
        a[i] = 9e-5f * (float)(i + 1) / 64;
        b[i] = a[i] + (i % 2 ? 1e-7f : -1e-7f);
        wrong[i] = i < 32 ? a[i] : 0;
    }
    const struct prn_place place = {.dtype = PRN_DTYPE_FLOAT};
    struct prn_output_check check = compare(PRN_DTYPE_FLOAT, 64, a, b, sizeof a);
    assert_true(prn_output_differs(&check, PRN_TOLERANCE_DEFAULT));
    prn_outputs_allow(&check, &place, 1, 1, false);
    assert_false(prn_output_differs(&check, PRN_TOLERANCE_DEFAULT));
    prn_outputs_allow(&check, &place, 1, 1e-3, false); /* inputs as small as that */
    assert_true(prn_output_differs(&check, PRN_TOLERANCE_DEFAULT));
    check = compare(PRN_DTYPE_FLOAT, 64, a, wrong, sizeof a);
    prn_outputs_allow(&check, &place, 1, 1000, false);
    assert_true(prn_output_differs(&check, PRN_TOLERANCE_DEFAULT));
}

/* One step of a quantised output is rounding; of any other whole number it is an error. */
static void test_a_step_of_a_quantised_output(void **state)
{
    (void)state;
    const int8_t a[] = {100, -50, 3};
    const int8_t b[] = {101, -50, 2};
    const struct prn_place place = {.dtype = PRN_DTYPE_INT8};
    struct prn_output_check check = compare(PRN_DTYPE_INT8, 3, a, b, sizeof a);
    assert_true(prn_output_differs(&check, PRN_TOLERANCE_DEFAULT));
    prn_outputs_allow(&check, &place, 1, 1, false);
    assert_true(prn_output_differs(&check, PRN_TOLERANCE_DEFAULT));
    prn_outputs_allow(&check, &place, 1, 1, true);
    assert_false(prn_output_differs(&check, PRN_TOLERANCE_DEFAULT));
}

static void test_nan_is_counted(void **state)
{
    (void)state;
    const float a[] = {NAN, 1, NAN};
    struct prn_output_check check = compare(PRN_DTYPE_FLOAT, 3, a, a, sizeof a);
    assert_int_equal(check.both_nan, 2);
    const float none[] = {NAN, NAN, NAN};
    check = compare(PRN_DTYPE_FLOAT, 3, none, none, sizeof none);
    assert_int_equal(check.both_nan, 3);
    assert_true(isnan(check.cosine));
    const float b[] = {NAN, 1, 2};
    check = compare(PRN_DTYPE_FLOAT, 3, a, b, sizeof a);
    assert_true(prn_output_differs(&check, PRN_TOLERANCE_DEFAULT));
}

static void test_scale_of_inputs(void **state)
{
    (void)state;
    const float values[] = {-3, 2, INFINITY};
    int fd = memory_with(values, sizeof values);
    struct prn_place place = {
        .dtype = PRN_DTYPE_FLOAT, .rank = 1, .dims = {3}, .bytes = sizeof values};
    assert_near(prn_inputs_scale(fd, &place, 1), 3, 0);
    place.dtype = PRN_DTYPE_INT32;
    assert_near(prn_inputs_scale(fd, &place, 1), 1, 0);
    close(fd);
}

/* Matches outputs called by letters, and says which came to stand side by side. */
static void expect_matched(const char *a, const char *b, const char *want)
{
    struct prn_arena arena = PRN_ARENA_INIT(65536);
    struct prn_place places[2][8] = {0};
    char names[2][8][2] = {0};
    const char *texts[] = {a, b};
    for (int side = 0; side < 2; side++)
        for (size_t i = 0; texts[side][i]; i++) {
            names[side][i][0] = texts[side][i];
            places[side][i].name = names[side][i];
        }
    struct prn_outputs left = {-1, places[0], strlen(a)};
    struct prn_outputs right = {-1, places[1], strlen(b)};
    char got[32] = "";
    assert_int_equal(prn_outputs_match(&left, &right, &arena, NULL), 0);
    assert_int_equal(left.n, right.n);
    for (size_t i = 0; i < left.n; i++)
        snprintf(got + strlen(got), sizeof got - strlen(got), "%s%s ", left.places[i].name,
                 right.places[i].name);
    assert_string_equal(got, want);
    prn_arena_release(&arena);
}

static void test_outputs_of_two_models(void **state)
{
    (void)state;
    expect_matched("ab", "ba", "aa bb ");
    expect_matched("xa", "ay", "xy aa ");
    expect_matched("xy", "pq", "xp yq ");
    expect_matched("xay", "a", "aa ");
    expect_matched("a", "pq", "ap ");
    expect_matched("", "p", "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_floats),
        cmocka_unit_test(test_outputs_of_two_models),
        cmocka_unit_test(test_imaginary_parts_count),
        cmocka_unit_test(test_packed_elements),
        cmocka_unit_test(test_small_values_round),
        cmocka_unit_test(test_a_step_of_a_quantised_output),
        cmocka_unit_test(test_nan_is_counted),
        cmocka_unit_test(test_scale_of_inputs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
