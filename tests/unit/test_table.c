#include "unit.h"

#include "base/table.h"
#include "base/text.h"

#include <stdlib.h>

static struct prn_table *example(void)
{
    struct prn_table *t = prn_table_new();
    prn_table_columns(t, "Name|>Time|~Note");
    prn_table_cell(t, "%s", "mlp");
    prn_table_cell(t, "%d µs", 3);
    prn_table_cell(t, "a|b, \"c\"");
    prn_table_cell(t, "resnet50");
    prn_table_cell(t, "12.3 ms");
    return t;
}

static void assert_written(enum prn_table_style style, const char *expected)
{
    struct prony_error err;
    struct prn_table *t = example();
    struct prn_buffer out = PRN_BUFFER_INIT(10000);
    assert_int_equal(prn_table_rows(t), 2);
    assert_int_equal(prn_table_write(t, style, &out, &err), 0);
    assert_string_equal(prn_buffer_text(&out), expected);
    prn_buffer_release(&out);
    prn_table_free(t);
}

static void test_text(void **state)
{
    (void)state;
    assert_written(PRN_TABLE_STYLE_TEXT, "Name         Time  Note\n"
                                         "===========================\n"
                                         "mlp          3 µs  a|b, \"c\"\n"
                                         "resnet50  12.3 ms\n"
                                         "---------------------------\n");
}

static void test_markdown(void **state)
{
    (void)state;
    assert_written(PRN_TABLE_STYLE_MARKDOWN, "| Name     |    Time | Note     |\n"
                                             "|----------|--------:|----------|\n"
                                             "| mlp      |    3 µs | a\\|b, \"c\" |\n"
                                             "| resnet50 | 12.3 ms |          |\n");
}

static void test_csv(void **state)
{
    (void)state;
    assert_written(PRN_TABLE_STYLE_CSV, "Name,Time,Note\n"
                                        "mlp,3 µs,\"a|b, \"\"c\"\"\"\n"
                                        "resnet50,12.3 ms,\n");
}

static void test_csv_fields(void **state)
{
    (void)state;
    struct prn_buffer out = PRN_BUFFER_INIT(1000);
    prn_csv_field(&out, "plain text");
    prn_csv_field(&out, "");
    prn_csv_field(&out, "a\nb");
    prn_csv_field(&out, "\r");
    assert_string_equal(prn_buffer_text(&out), "plain text\"a\nb\"\"\r\"");
    prn_buffer_release(&out);
}

static void test_hostile_cells(void **state)
{
    (void)state;
    struct prony_error err;
    struct prn_table *t = prn_table_new();
    prn_table_column(t, "A", PRN_TABLE_ALIGN_LEFT);
    prn_table_column(t, "B", PRN_TABLE_ALIGN_LEFT);
    prn_table_cell(t, "%s", "x\n\033[2J\x80\xff");
    prn_table_cell(t, "end");
    struct prn_buffer out = PRN_BUFFER_INIT(1000);
    assert_int_equal(prn_table_write(t, PRN_TABLE_STYLE_TEXT, &out, &err), 0);
    assert_contains(prn_buffer_text(&out), "\nx ?[2J??  end\n");
    prn_buffer_clear(&out);
    assert_int_equal(prn_table_write(t, PRN_TABLE_STYLE_MARKDOWN, &out, &err), 0);
    assert_contains(prn_buffer_text(&out), "| x ?[2J?? | end |");
    prn_buffer_release(&out);
    prn_table_free(t);
}

static void test_width(void **state)
{
    (void)state;
    assert_int_equal(prn_text_width(""), 0);
    assert_int_equal(prn_text_width("abc"), 3);
    assert_int_equal(prn_text_width("é€😀"), 3);
    assert_int_equal(prn_text_width("\x80\xff\xc3"), 3);
}

static void test_many_rows(void **state)
{
    (void)state;
    struct prony_error err;
    struct prn_table *t = prn_table_new();
    for (int c = 0; c < 9; c++)
        prn_table_column(t, "column", PRN_TABLE_ALIGN_RIGHT);
    for (int i = 0; i < 9000; i++)
        prn_table_cell(t, "%d", i);
    assert_int_equal(prn_table_rows(t), 1000);
    struct prn_buffer out = PRN_BUFFER_INIT((size_t)1 << 20);
    assert_int_equal(prn_table_write(t, PRN_TABLE_STYLE_CSV, &out, &err), 0);
    assert_contains(prn_buffer_text(&out), "\n4500,4501,4502,4503,4504,4505,4506,4507,4508\n");
    prn_buffer_release(&out);
    prn_table_free(t);
}

static void test_failures(void **state)
{
    (void)state;
    struct prony_error err;
    struct prn_buffer out = PRN_BUFFER_INIT(20);
    struct prn_table *t = example();
    assert_int_equal(prn_table_write(t, PRN_TABLE_STYLE_TEXT, &out, &err), PRONY_ELIMIT);
    prn_buffer_clear(&out);
    assert_int_equal(prn_table_write(NULL, PRN_TABLE_STYLE_TEXT, &out, &err), PRONY_ENOMEM);
    prn_table_column(NULL, "x", PRN_TABLE_ALIGN_LEFT);
    prn_table_cell(NULL, "x");
    assert_int_equal(prn_table_rows(NULL), 0);
    prn_table_cell(t, "%*s", 2 << 20, "too long");
    assert_int_equal(prn_table_write(t, PRN_TABLE_STYLE_TEXT, &out, &err), PRONY_ELIMIT);
    assert_contains(err.text, "table cell");
    prn_buffer_release(&out);
    prn_table_free(t);
    prn_table_free(NULL);
}

/* Writes as text; the caller's columns are name, two that may go, and one that stays. */
static void assert_fits(size_t width, bool name_may_go, const char *expected)
{
    struct prony_error err;
    struct prn_table *t = prn_table_new();
    prn_table_column(t, "Name", PRN_TABLE_ALIGN_LEFT);
    prn_table_shrink(t);
    if (name_may_go)
        prn_table_omit(t);
    prn_table_column(t, "Mean", PRN_TABLE_ALIGN_RIGHT);
    prn_table_omit(t);
    prn_table_column(t, "Time", PRN_TABLE_ALIGN_RIGHT);
    prn_table_column(t, "Most", PRN_TABLE_ALIGN_RIGHT);
    prn_table_omit(t);
    prn_table_cell(t, "%s", "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJ");
    prn_table_cell(t, "%s", "m1");
    prn_table_cell(t, "%s", "t1");
    prn_table_cell(t, "%s", "x1");
    prn_table_width(t, width);
    struct prn_buffer out = PRN_BUFFER_INIT(10000);
    assert_int_equal(prn_table_write(t, PRN_TABLE_STYLE_TEXT, &out, &err), 0);
    const char *line = strchr(prn_buffer_text(&out), '0');
    if (!expected) {
        assert_null(line);
    } else {
        char *end = strchr(out.data + (line - out.data), '\n');
        assert_non_null(end);
        *end = '\0';
        assert_string_equal(line, expected);
    }
    prn_buffer_clear(&out);
    /* Only text is made to fit. */
    assert_int_equal(prn_table_write(t, PRN_TABLE_STYLE_CSV, &out, &err), 0);
    assert_string_equal(prn_buffer_text(&out),
                        "Name,Mean,Time,Most\n"
                        "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJ,m1,t1,x1\n");
    prn_buffer_release(&out);
    prn_table_free(t);
}

/* The name is 46 wide, the other columns 4 each and 2 spaces. */
static void test_narrow(void **state)
{
    (void)state;
    static const char whole[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJ    m1    t1    x1";
    assert_fits(0, false, whole);
    assert_fits(64, false, whole);
    assert_fits(63, false, "0123456789abcdefghijkl…opqrstuvwxyzABCDEFGHIJ    m1    t1    x1");
    /* Names get 36 characters before a column goes: the one furthest to the right first. */
    assert_fits(54, false, "0123456789abcdefg…stuvwxyzABCDEFGHIJ    m1    t1    x1");
    assert_fits(53, false, "0123456789abcdefghij…qrstuvwxyzABCDEFGHIJ    m1    t1");
    assert_fits(47, false, "0123456789abcdefghij…qrstuvwxyzABCDEFGHIJ    t1");
    assert_fits(20, false, "012345…DEFGHIJ    t1");
    assert_fits(18, false, "01234…EFGHIJ    t1");
    /* What nobody said may go goes when nothing else helps. */
    assert_fits(17, false, "01234…EFGHIJ");
    assert_fits(5, false, "01…IJ");
    /* A column that may shrink and may go is gone, and doesn't come back to be shrunk. */
    assert_fits(5, true, NULL);
}

static void assert_wraps(size_t width, const char *expected)
{
    struct prony_error err;
    struct prn_table *t = prn_table_new();
    struct prn_buffer out = PRN_BUFFER_INIT(10000);
    prn_table_column(t, "Name", PRN_TABLE_ALIGN_LEFT);
    prn_table_column(t, "Note", PRN_TABLE_ALIGN_LEFT);
    prn_table_wrap(t);
    prn_table_width(t, width);
    prn_table_cell(t, "a");
    prn_table_cell(t, "one two three four five");
    prn_table_cell(t, "b");
    prn_table_cell(t, "%s", "");
    prn_table_cell(t, "c");
    prn_table_cell(t, "six");
    assert_int_equal(prn_table_write(t, PRN_TABLE_STYLE_TEXT, &out, &err), 0);
    assert_string_equal(prn_buffer_text(&out), expected);
    prn_buffer_release(&out);
    prn_table_free(t);
}

/* The last column goes on below itself rather than beyond the width. */
static void test_wrapped(void **state)
{
    (void)state;
    static const char whole[] = "Name  Note\n"
                                "=============================\n"
                                "a     one two three four five\n"
                                "b\n"
                                "c     six\n"
                                "-----------------------------\n";
    assert_wraps(0, whole);
    assert_wraps(29, whole);
    assert_wraps(20, "Name  Note\n"
                     "====================\n"
                     "a     one two three\n"
                     "      four five\n"
                     "b\n"
                     "c     six\n"
                     "--------------------\n");
    assert_wraps(18, "Name  Note\n"
                     "==================\n"
                     "a     one two\n"
                     "      three four\n"
                     "      five\n"
                     "b\n"
                     "c     six\n"
                     "------------------\n");
}

static void test_exact_cells(void **state)
{
    (void)state;
    static const struct {
        double value;
        const char *text;
    } cases[] = {{0, "0"},
                 {0.1, "0.1"},
                 {1e6, "1000000"},
                 {-2.5, "-2.5"},
                 {NAN, ""},
                 {INFINITY, ""},
                 {-INFINITY, ""},
                 {1.0 / 3, "0.3333333333333333"},
                 {123456789, "123456789"}};
    struct prony_error err;
    struct prn_table *t = prn_table_new();
    prn_table_column(t, "x", PRN_TABLE_ALIGN_RIGHT);
    struct prn_buffer expected = PRN_BUFFER_INIT(1000);
    struct prn_buffer out = PRN_BUFFER_INIT(1000);
    prn_buffer_add(&expected, "x\n");
    for (size_t i = 0; i < PRN_ARRAY_SIZE(cases); i++) {
        prn_table_cell_exact(t, cases[i].value);
        prn_buffer_printf(&expected, "%s\n", cases[i].text);
    }
    assert_int_equal(prn_table_write(t, PRN_TABLE_STYLE_CSV, &out, &err), 0);
    assert_string_equal(prn_buffer_text(&out), prn_buffer_text(&expected));
    prn_table_cell_exact(NULL, 1);
    prn_table_width(NULL, 1);
    prn_table_omit(NULL);
    prn_table_shrink(NULL);
    prn_buffer_release(&out);
    prn_buffer_release(&expected);
    prn_table_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),          cmocka_unit_test(test_markdown),
        cmocka_unit_test(test_csv),           cmocka_unit_test(test_csv_fields),
        cmocka_unit_test(test_hostile_cells), cmocka_unit_test(test_width),
        cmocka_unit_test(test_many_rows),     cmocka_unit_test(test_failures),
        cmocka_unit_test(test_narrow),        cmocka_unit_test(test_wrapped),
        cmocka_unit_test(test_exact_cells),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
