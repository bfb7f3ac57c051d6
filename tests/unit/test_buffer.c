#include "unit.h"

#include "base/buffer.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
#include <wchar.h>

static void test_starts_empty(void **state)
{
    (void)state;
    struct prn_buffer b = PRN_BUFFER_INIT(10);
    assert_string_equal(prn_buffer_text(&b), "");
    assert_int_equal(prn_buffer_error(&b, NULL), 0);
    prn_buffer_release(&b);
}

static void test_appends(void **state)
{
    (void)state;
    struct prn_buffer b = PRN_BUFFER_INIT(1000);
    prn_buffer_add(&b, "one");
    prn_buffer_add_char(&b, ' ');
    prn_buffer_printf(&b, "%d-%s", 2, "three");
    prn_buffer_append(&b, "\0x", 2);
    assert_int_equal(b.len, 13);
    assert_memory_equal(b.data, "one 2-three\0x", 14);
    prn_buffer_clear(&b);
    assert_string_equal(prn_buffer_text(&b), "");
    prn_buffer_add(&b, "again");
    assert_string_equal(prn_buffer_text(&b), "again");
    prn_buffer_release(&b);
    assert_int_equal(b.limit, 1000);
}

static void test_grows(void **state)
{
    (void)state;
    struct prn_buffer b = PRN_BUFFER_INIT(SIZE_MAX);
    for (int i = 0; i < 10000; i++)
        prn_buffer_printf(&b, "%04d", i);
    assert_int_equal(b.len, 40000);
    assert_memory_equal(b.data + 4 * 1234, "1234", 4);
    assert_int_equal(b.data[b.len], 0);
    prn_buffer_release(&b);
}

static void test_limit_sticks(void **state)
{
    (void)state;
    struct prony_error err;
    struct prn_buffer b = PRN_BUFFER_INIT(4);
    prn_buffer_add(&b, "1234");
    assert_int_equal(prn_buffer_error(&b, &err), 0);
    prn_buffer_add(&b, "5");
    prn_buffer_add(&b, "");
    assert_string_equal(prn_buffer_text(&b), "1234");
    assert_int_equal(prn_buffer_error(&b, &err), PRONY_ELIMIT);
    assert_string_equal(err.text, "more than 4 bytes");
    assert_null(prn_buffer_detach(&b));
    assert_int_equal(prn_buffer_error(&b, &err), 0);
    prn_buffer_release(&b);
}

static void test_huge_request(void **state)
{
    (void)state;
    struct prn_buffer b = PRN_BUFFER_INIT(SIZE_MAX);
    prn_buffer_add(&b, "x");
    prn_buffer_append(&b, "y", SIZE_MAX - 1);
    assert_int_equal(prn_buffer_error(&b, NULL), PRONY_ENOMEM);
    assert_string_equal(prn_buffer_text(&b), "x");
    prn_buffer_release(&b);
}

static void test_first_failure_stays(void **state)
{
    (void)state;
    struct prn_buffer b = PRN_BUFFER_INIT(1000);
    b.error = PRONY_ENOMEM;
    /* A character that the C locale has no bytes for: vsnprintf fails. */
    const wchar_t *strange = L"\x20ac";
    prn_buffer_printf(&b, "%ls", strange);
    assert_int_equal(prn_buffer_error(&b, NULL), PRONY_ENOMEM);
    prn_buffer_release(&b);
    prn_buffer_printf(&b, "%ls", strange);
    assert_int_equal(prn_buffer_error(&b, NULL), PRONY_ELIMIT);
    prn_buffer_release(&b);
}

static void test_detach(void **state)
{
    (void)state;
    struct prn_buffer b = PRN_BUFFER_INIT(100);
    char *text = prn_buffer_detach(&b);
    assert_string_equal(text, "");
    free(text);
    prn_buffer_add(&b, "mine");
    text = prn_buffer_detach(&b);
    assert_string_equal(text, "mine");
    free(text);
    assert_int_equal(b.len, 0);
    prn_buffer_add(&b, "next");
    assert_string_equal(prn_buffer_text(&b), "next");
    prn_buffer_release(&b);
}

static void test_read_fd(void **state)
{
    (void)state;
    struct prony_error err;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], "hello", 5), 5);
    close(ends[1]);
    struct prn_buffer b = PRN_BUFFER_INIT(5);
    assert_int_equal(prn_buffer_read_fd(&b, ends[0], "pipe", &err), 0);
    assert_string_equal(prn_buffer_text(&b), "hello");
    close(ends[0]);
    prn_buffer_release(&b);
}

static void test_read_fd_over_limit(void **state)
{
    (void)state;
    struct prony_error err;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], "hello", 5), 5);
    close(ends[1]);
    struct prn_buffer b = PRN_BUFFER_INIT(4);
    assert_int_equal(prn_buffer_read_fd(&b, ends[0], "pipe", &err), PRONY_ELIMIT);
    assert_string_equal(err.text, "cannot read 'pipe': more than 4 bytes");
    close(ends[0]);
    prn_buffer_release(&b);
}

static void test_read_fd_fails(void **state)
{
    (void)state;
    struct prony_error err;
    struct prn_buffer b = PRN_BUFFER_INIT(4);
    assert_int_equal(prn_buffer_read_fd(&b, -1, "nothing", &err), PRONY_EIO);
    assert_string_equal(err.text, "cannot read 'nothing': Bad file descriptor");
    assert_int_equal(err.code, PRONY_EIO);
    prn_buffer_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_starts_empty),
        cmocka_unit_test(test_appends),
        cmocka_unit_test(test_grows),
        cmocka_unit_test(test_limit_sticks),
        cmocka_unit_test(test_huge_request),
        cmocka_unit_test(test_first_failure_stays),
        cmocka_unit_test(test_detach),
        cmocka_unit_test(test_read_fd),
        cmocka_unit_test(test_read_fd_over_limit),
        cmocka_unit_test(test_read_fd_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
