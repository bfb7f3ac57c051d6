#include "unit.h"

#include "base/error.h"

#include <errno.h>

static void test_names_and_texts(void **state)
{
    (void)state;
    assert_string_equal(prony_error_name(PRONY_EIO), "PRONY_EIO");
    assert_string_equal(prony_error_name(PRONY_OK), "PRONY_OK");
    assert_string_equal(prony_error_name(-1000), "PRONY_EUNKNOWN");
    assert_string_equal(prony_error_text(PRONY_ENOMEM), "out of memory");
    assert_string_equal(prony_error_text(0), "success");
    assert_string_equal(prony_error_text(77), "unknown error");
    /* The numbers are part of the library's binary interface. */
    for (int code = PRONY_ECANCELED; code <= PRONY_EUSAGE; code++)
        assert_string_not_equal(prony_error_name(code), "PRONY_EUNKNOWN");
    assert_int_equal(PRONY_EUSAGE, -1);
    assert_int_equal(PRONY_ECANCELED, -12);
}

static void test_fail(void **state)
{
    (void)state;
    struct prony_error err = {0};
    assert_int_equal(prn_fail(&err, PRONY_EIO, "%d bottles", 99), PRONY_EIO);
    assert_int_equal(err.code, PRONY_EIO);
    assert_string_equal(err.text, "99 bottles");
    assert_int_equal(prn_fail(NULL, PRONY_EIO, "nobody listens"), PRONY_EIO);
    assert_int_equal(prn_fail_memory(&err), PRONY_ENOMEM);
    assert_string_equal(err.text, "out of memory");
}

static void test_errno(void **state)
{
    (void)state;
    struct prony_error err;
    assert_int_equal(prn_fail_errno(&err, ENOENT, "open", "x"), PRONY_ENOENT);
    assert_string_equal(err.text, "cannot open 'x': No such file or directory");
    assert_int_equal(prn_fail_errno(&err, ENOMEM, "map", "x"), PRONY_ENOMEM);
    assert_int_equal(prn_fail_errno(&err, EACCES, "open", "x"), PRONY_EIO);
}

static void test_fail_in(void **state)
{
    (void)state;
    struct prony_error err;
    prn_fail(&err, PRONY_EFORMAT, "bad byte");
    assert_int_equal(prn_fail_in(&err, err.code, "'%s'", "m.onnx"), PRONY_EFORMAT);
    assert_string_equal(err.text, "'m.onnx': bad byte");
    assert_int_equal(prn_fail_in(NULL, PRONY_EIO, "x"), PRONY_EIO);
}

static void test_hostile_text(void **state)
{
    (void)state;
    struct prony_error err;
    prn_fail(&err, PRONY_EIO, "a\nb\tc\033[2J\177\r%s ", "\xc2\x9b\xff\xe2\x82 é€😀");
    assert_string_equal(err.text, "a b c?[2J?????? é€😀");
    prn_fail(&err, PRONY_EIO, "\n\n");
    assert_string_equal(err.text, "");
}

static void test_long_text(void **state)
{
    (void)state;
    struct prony_error err;
    char text[2 * PRONY_ERROR_TEXT_SIZE];
    /* At each length the cut falls elsewhere in a three-byte character. */
    for (size_t shift = 0; shift < 3; shift++) {
        memset(text, 'a', sizeof text);
        for (size_t i = shift; i + 3 < sizeof text; i += 3)
            memcpy(text + i, "€", 3);
        text[sizeof text - 1] = '\0';
        prn_fail(&err, PRONY_EIO, "%s", text);
        size_t len = strlen(err.text);
        assert_in_range(len, sizeof err.text - 4, sizeof err.text - 1);
        assert_string_equal(err.text + len - 3, "...");
        assert_null(strchr(err.text, '?'));
        prn_fail_in(&err, PRONY_EIO, "%s", text);
        assert_in_range(strlen(err.text), sizeof err.text - 4, sizeof err.text - 1);
    }
    memset(text, 'a', sizeof err.text - 1);
    text[sizeof err.text - 1] = '\0';
    prn_fail(&err, PRONY_EIO, "%s", text);
    assert_string_equal(err.text, text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_and_texts), cmocka_unit_test(test_fail),
        cmocka_unit_test(test_errno),           cmocka_unit_test(test_fail_in),
        cmocka_unit_test(test_hostile_text),    cmocka_unit_test(test_long_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
