/* Comparing the outputs of two backends. */
#include "unit.h"

#include "measure/measure.h"
#include "model/dtype.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_floats),
        cmocka_unit_test(test_imaginary_parts_count),
        cmocka_unit_test(test_packed_elements),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
