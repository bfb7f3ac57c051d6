#include "unit.h"

#include "base/format.h"
#include "base/random.h"
#include "format/json.h"

#include <float.h>
#include <locale.h>
#include <stdlib.h>
#include <unistd.h>

static void test_layout(void **state)
{
    (void)state;
    struct prn_buffer out = PRN_BUFFER_INIT(10000);
    struct prn_json_writer w = prn_json_writer_init(&out);
    prn_json_object(&w, NULL);
    prn_json_text(&w, "name", "mlp");
    prn_json_object(&w, "empty");
    prn_json_end(&w);
    prn_json_array(&w, "list");
    prn_json_bool(&w, NULL, true);
    prn_json_null(&w, NULL);
    prn_json_object(&w, NULL);
    prn_json_bool(&w, "x", false);
    prn_json_end(&w);
    prn_json_end(&w);
    prn_json_array_compact(&w, "samples");
    prn_json_integer(&w, NULL, INT64_MIN);
    prn_json_number(&w, NULL, 0.1);
    prn_json_end(&w);
    prn_json_array_compact(&w, "none");
    prn_json_end(&w);
    prn_json_text(&w, "nothing", NULL);
    prn_json_end(&w);
    assert_int_equal(w.depth, 0);
    assert_string_equal(prn_buffer_text(&out), "{\n"
                                               "  \"name\": \"mlp\",\n"
                                               "  \"empty\": {},\n"
                                               "  \"list\": [\n"
                                               "    true,\n"
                                               "    null,\n"
                                               "    {\n"
                                               "      \"x\": false\n"
                                               "    }\n"
                                               "  ],\n"
                                               "  \"samples\": [-9223372036854775808, 0.1],\n"
                                               "  \"none\": [],\n"
                                               "  \"nothing\": null\n"
                                               "}\n");
    prn_buffer_release(&out);
}

static void assert_text_written(const char *text, const char *expected)
{
    struct prn_buffer out = PRN_BUFFER_INIT(10000);
    struct prn_json_writer w = prn_json_writer_init(&out);
    prn_json_text(&w, NULL, text);
    assert_string_equal(prn_buffer_text(&out), expected);
    prn_buffer_release(&out);
}

static void test_escapes(void **state)
{
    (void)state;
    assert_text_written("a\"b\\c/d", "\"a\\\"b\\\\c/d\"");
    assert_text_written("\n\t\r\b\f\x01\x1f\x7f",
                        "\"\\n\\t\\u000d\\u0008\\u000c\\u0001\\u001f\\u007f\"");
    assert_text_written("é€😀", "\"é€😀\"");
    assert_text_written("", "\"\"");
}

static void test_invalid_utf8(void **state)
{
    (void)state;
    assert_text_written("a\xff"
                        "b",
                        "\"a\xef\xbf\xbd"
                        "b\"");
    assert_text_written("\xc0\xaf", "\"\xef\xbf\xbd\xef\xbf\xbd\"");
    assert_text_written("\xed\xa0\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
    assert_text_written("\xf0\x9f\x98", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
    assert_text_written("\xe2\x82\"", "\"\xef\xbf\xbd\xef\xbf\xbd\\\"\"");
}

static void test_numbers(void **state)
{
    (void)state;
    static const struct {
        double value;
        const char *text;
    } cases[] = {
        {0, "0"},
        {1, "1"},
        {0.1, "0.1"},
        {1.0 / 3, "0.3333333333333333"},
        {1e22, "1e+22"},
        {123456789012, "123456789012"},
        {5e-324, "5e-324"},
        {DBL_MAX, "1.7976931348623157e+308"},
        {DBL_MIN, "2.2250738585072014e-308"},
        {0.1 + 0.2, "0.30000000000000004"},
        {9007199254740993.0, "9007199254740992"},
        {-2.5e-7, "-2.5e-07"},
    };
    char text[PRN_FORMAT_SIZE];
    for (size_t i = 0; i < PRN_ARRAY_SIZE(cases); i++)
        assert_string_equal(prn_format_shortest(text, cases[i].value), cases[i].text);

    struct prn_buffer out = PRN_BUFFER_INIT(100);
    struct prn_json_writer w = prn_json_writer_init(&out);
    prn_json_array_compact(&w, NULL);
    prn_json_number(&w, NULL, NAN);
    prn_json_number(&w, NULL, INFINITY);
    prn_json_number(&w, NULL, -INFINITY);
    prn_json_end(&w);
    assert_string_equal(prn_buffer_text(&out), "[null, null, null]\n");
    prn_buffer_release(&out);
}

/* Any bits that are a number come back the same, through our writer and the reader. */
static void test_numbers_round_trip(void **state)
{
    (void)state;
    struct prn_random random;
    prn_random_seed(&random, 7);
    for (int i = 0; i < 20000; i++) {
        uint64_t bits = prn_random_u64(&random);
        if (i % 4 == 0)
            bits &= 0x800fffffffffffffu; /* near zero */
        double value;
        memcpy(&value, &bits, sizeof value);
        if (!isfinite(value))
            continue;
        char number[PRN_FORMAT_SIZE];
        char text[PRN_FORMAT_SIZE + 8];
        int len = snprintf(text, sizeof text, "[%s]", prn_format_shortest(number, value));
        json_t *root;
        assert_int_equal(prn_json_parse(text, (size_t)len, "text", &root, NULL), 0);
        double back = json_number_value(json_array_get(root, 0));
        json_decref(root);
        if (back != value)
            fail_msg("%.17g was written as %s", value, number);
    }
}

static void test_locale_does_not_matter(void **state)
{
    (void)state;
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "fr_FR.utf8"};
    bool found = false;
    for (size_t i = 0; i < PRN_ARRAY_SIZE(names) && !found; i++)
        found = setlocale(LC_NUMERIC, names[i]) != NULL;
    if (!found)
        skip(); /* such a locale is rarely installed where tests run */
    char text[PRN_FORMAT_SIZE];
    assert_string_equal(prn_format_shortest(text, 2.5), "2.5");
    setlocale(LC_NUMERIC, "C");
}

static void test_writer_limit(void **state)
{
    (void)state;
    struct prn_buffer out = PRN_BUFFER_INIT(10);
    struct prn_json_writer w = prn_json_writer_init(&out);
    prn_json_array(&w, NULL);
    for (int i = 0; i < 100; i++)
        prn_json_integer(&w, NULL, i);
    prn_json_end(&w);
    assert_int_equal(prn_buffer_error(&out, NULL), PRONY_ELIMIT);
    prn_buffer_release(&out);
}

static void assert_refused(const char *text, size_t len, const char *fault)
{
    struct prony_error err = {0};
    json_t *untouched = (json_t *)&err;
    json_t *root = untouched;
    assert_int_equal(prn_json_parse(text, len, "x.json", &root, &err), PRONY_EFORMAT);
    assert_ptr_equal(root, untouched);
    assert_int_equal(err.code, PRONY_EFORMAT);
    assert_contains(err.text, "'x.json' is not valid JSON: line ");
    assert_contains(err.text, fault);
}

static void test_reader_errors(void **state)
{
    (void)state;
    assert_refused("", 0, "line 1, column 0");
    assert_refused("{", 1, "line 1");
    assert_refused("{\"a\": 1,\n \"a\": 2}", 18, "line 2");
    assert_refused("[1] x", 5, "line 1, column 5");
    assert_refused("[1, ]", 5, "column 5");
    assert_refused("[\"\xff\"]", 5, "byte 0xff");
    assert_refused("[NaN]", 5, "NaN");
    assert_refused("[1e999]", 7, "overflow");
    assert_refused("[\"a\0b\"]", 7, "line 1");
    assert_refused("42", 2, "line 1");
    char deep[5000];
    memset(deep, '[', sizeof deep);
    assert_refused(deep, sizeof deep, "depth");
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void test_read_file(void **state)
{
    (void)state;
    struct prony_error err;
    json_t *root = NULL;
    char path[] = "/tmp/prony-test-json-XXXXXX";
    close(mkstemp(path));
    write_file(path, "{\"a\": [1, 2.5]}");
    assert_int_equal(prn_json_read(path, 15, &root, &err), 0);
    assert_int_equal(json_array_size(json_object_get(root, "a")), 2);
    json_decref(root);
    assert_int_equal(prn_json_read(path, 14, &root, &err), PRONY_ELIMIT);
    assert_contains(err.text, "more than 14 bytes");
    unlink(path);
    assert_int_equal(prn_json_read(path, 100, &root, &err), PRONY_ENOENT);
    assert_contains(err.text, "No such file");
    assert_int_equal(prn_json_read("/", 100, &root, &err), PRONY_EIO);
    assert_contains(err.text, "cannot read '/': Is a directory");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layout),
        cmocka_unit_test(test_escapes),
        cmocka_unit_test(test_invalid_utf8),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_numbers_round_trip),
        cmocka_unit_test(test_locale_does_not_matter),
        cmocka_unit_test(test_writer_limit),
        cmocka_unit_test(test_reader_errors),
        cmocka_unit_test(test_read_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
