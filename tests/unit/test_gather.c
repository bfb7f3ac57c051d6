/* The values were worked out with Python: list(expression), or or what it says is wrong. */
#include "unit.h"

#include "base/buffer.h"
#include "trace/gather.h"

#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

/* Compares the values, written as "1 2 3". */
static void check(const char *expression, const char *expected)
{
    struct prn_gather g;
    struct prony_error err = {.text = "untouched"};
    if (prn_gather_parse(expression, &g, &err) < 0)
        fail_msg("%s: %s", expression, err.text);
    assert_string_equal(err.text, "untouched");
    struct prn_buffer out = PRN_BUFFER_INIT(100000);
    for (size_t i = 0; i < g.n; i++)
        prn_buffer_printf(&out, "%s%" PRId64, i > 0 ? " " : "", g.runs[i]);
    if (strcmp(prn_buffer_text(&out), expected) != 0)
        fail_msg("%s gives '%s', not '%s'", expression, prn_buffer_text(&out), expected);
    prn_buffer_release(&out);
    prn_gather_release(&g);
}

static void check_fault(const char *expression, const char *expected)
{
    struct prn_gather g = {.n = 77};
    struct prony_error err;
    int code = prn_gather_parse(expression, &g, &err);
    if (code != PRONY_EUSAGE || err.code != code)
        fail_msg("%.100s: %s", expression, prony_error_name(code));
    if (strcmp(err.text, expected) != 0)
        fail_msg("%.100s: '%s', not '%s'", expression, err.text, expected);
    assert_int_equal(g.n, 77);
    assert_int_equal(prn_gather_parse(expression, &g, NULL), PRONY_EUSAGE);
}

static void test_lists(void **state)
{
    (void)state;
    check("[]", "");
    check("[1, 3, 5]", "1 3 5");
    check(" [ 5,3 , 3,\n-1, ] ", "5 3 3 -1");
    check("range(4)", "0 1 2 3");
    check("range(-4)", "");
    check("range(2, 5)", "2 3 4");
    check("range(5, 2)", "");
    check("range(2, 20, 3,)", "2 5 8 11 14 17");
    check("range(5, 0, -2)", "5 3 1");
    check("range(0, 5, -2)", "");
    check("list(range(4))", "0 1 2 3");
    check("list([2, 1])", "2 1");
    check("((range((3))))", "0 1 2");
    check("[0] + list(range(5, 9))", "0 5 6 7 8");
    check("range(2) + [7] + range(2)", "0 1 7 0 1");
    check("[0, 1] * 3", "0 1 0 1 0 1");
    check("3 * [0]", "0 0 0");
    check("2 * range(2) * 2", "0 1 0 1 0 1 0 1");
    check("[4] * 0 + [4] * -1 + [] * 9", "");
    check("[1] or [2]", "1");
    check("[] or range(0) or [2]", "2");
    check("[1] and [] and [3]", "");
    check("[True, False, 3 > 2]", "1 0 1");
}

/* What else Python takes for a list of indices. */
static void test_more_lists(void **state)
{
    (void)state;
    check("1,2,3", "1 2 3");
    check("7,", "7");
    check("(1, 2)", "1 2");
    check("(1,)", "1");
    check("()", "");
    check("{3, 1}", "3 1");
    check("[(1), 2]", "1 2");
    check("[*range(3), 7]", "0 1 2 7");
    check("*range(2), *[5, 6]", "0 1 5 6");
    check("{*range(2), 9}", "0 1 9");
    check("sorted([3, 1, 2])", "1 2 3");
    check("list(reversed(range(4)))", "3 2 1 0");
    check("set([3, 1, 3])", "1 3");
    check("tuple(range(2))", "0 1");
    check("sorted([2, 1, 2])[1:]", "2 2");
    check("range(20)[::2]", "0 2 4 6 8 10 12 14 16 18");
    check("range(10)[2:5]", "2 3 4");
    check("range(10)[-3:]", "7 8 9");
    check("range(10)[:-8]", "0 1");
    check("range(5)[::-1]", "4 3 2 1 0");
    check("range(5)[3:0:-2]", "3 1");
    check("range(5)[-100:100:3]", "0 3");
    check("range(5)[100::-4]", "4 0");
    check("[][:]", "");
    check("[4, 5, 6][1:][::-1]", "6 5");
    check("[range(5)[-1], [7, 8][0]]", "4 7");
    check("(i for i in range(3))", "0 1 2");
    check("{i % 2 for i in range(3)}", "0 1 0");
    check("sorted(5 - i for i in range(3))", "3 4 5");
    check("list(i for i in range(9) if i > 6)", "7 8");
    check("[0x1f, 0X1F, 0o17, 0b101, 1_000, 0x_ff, 00]", "31 31 15 5 1000 255 0");
    check("range(9)[::9223372036854775807]", "0");
    check("range(9)[::-9223372036854775807]", "8");
}

static void test_arithmetic(void **state)
{
    (void)state;
    check("[1 + 2 * 3 - 4, (1 + 2) * 3]", "3 9");
    check("[7 // 2, -7 // 2, 7 // -2, -7 // -2, 6 // -2]", "3 -4 -4 3 -3");
    check("[7 % 3, -7 % 3, 7 % -3, -7 % -3, 6 % -3]", "1 2 -2 -1 0");
    check("[2**10, 2**3**2, -2**2, (-2)**2, (-2)**3, 0**0]", "1024 512 -4 4 -8 1");
    check("[2**-0, 2**+3, --2, -+-2, 1**4611686018427387904, (-1)**4611686018427387903]",
          "1 8 2 2 1 -1");
    check("[10 - 4 - 3, 100 // 7 // 2, 100 % 7 * 3, -3 % 5]", "3 7 6 2");
    check("[9223372036854775807, -9223372036854775807 - 1, (-2)**63]",
          "9223372036854775807 -9223372036854775808 -9223372036854775808");
    check("[(-2)**63 % -1, (-2)**63 // 1]", "0 -9223372036854775808");
    check("range((-2)**63, 2**62, 2**62)", "-9223372036854775808 -4611686018427387904 0");
    check("range(2**62, (-2)**63, (-2)**63)", "4611686018427387904 -4611686018427387904");
}

static void test_logic(void **state)
{
    (void)state;
    check("[1 < 2 < 3, 1 < 3 < 2, 3 > 1 < 2, 1 == 1 != 2, 2 >= 2 <= 1]", "1 0 1 1 0");
    check("[2 in [1, 2], 3 in [1, 2], 3 not in [1, 2], 2 not in range(9)]", "1 0 1 0");
    check("[4 in range(0, 9, 2), 5 in range(0, 9, 2), 8 in range(8, 0, -4), 0 in range(8, 0, -4)]",
          "1 0 1 0");
    check("[0 in range(0), 0 in [], 1 in [1] * 3, 1 < 2 in [2]]", "0 0 1 1");
    check("[not 1, not 0, not not 5, not [], not 1 == 2, not 1 in [2]]", "0 1 1 1 1 1");
    check("[0 or 7, 6 and 7, 0 and 1 // 0, 1 or 1 // 0, 0 or 0 and 1 or 3]", "7 7 0 1 3");
    check("[1 > 2 > 1 // 0]", "0"); /* the rest isn't evaluated */
    check("[True + True, -True, False ** False]", "2 -1 1");
}

static void test_comprehensions(void **state)
{
    (void)state;
    check("[i for i in range(20) if i % 3 == 0]", "0 3 6 9 12 15 18");
    check("[i for i in range(20) if i % 2 if i % 3 and i not in [5, 7]]", "1 11 13 17 19");
    check("[10 * i + j for i in range(3) for j in range(i)]", "10 20 21");
    check("[i for i in range(3) if i for i in range(10 * i, 10 * i + 2)]", "10 11 20 21");
    check("[i for i in [3, 4] for j in [1, 2] for i in [i, 7]]", "3 7 7 7 4 7 7 7");
    check("[i + j for i in [j * 10 for j in range(3)] if i for j in [1, 2]]", "11 12 21 22");
    check("[[i for i in range(i)] == 0 or i for i in []]", "");
    check("[j for i in range(3) for j in [i for i in [i, 9]]]", "0 9 1 9 2 9");
    check("[list + range for list in [1] for range in [2]]", "3");
    check("[i for i in [3, 1] + 2 * [5]]", "3 1 5 5");
    check("[-i for i in range(1, 4)] + [0]", "-1 -2 -3 0");
    check("[_i9 for _i9 in [4]]", "4");
}

static void test_syntax_faults(void **state)
{
    (void)state;
    check_fault("", "--gather: column 1: unexpected end; expected a number or a list");
    check_fault("[1, 2",
                "--gather: column 6: unexpected end; expected ',' or ']' for the '[' of column 1");
    check_fault("  (range(3)", "--gather: column 12: unexpected end; expected an operator, ',' or "
                               "')' for the '(' of column 3");
    check_fault("[1 2]",
                "--gather: column 4: unexpected '2'; expected ',' or ']' for the '[' of column 1");
    check_fault("[1]]", "--gather: column 4: unexpected ']'; expected an operator or the end");
    check_fault("[,]", "--gather: column 2: unexpected ','; expected a number or a list");
    check_fault("[1, 'é']", "--gather: column 5: unexpected '''; expected a number or a list");
    /* Columns are characters, and what isn't one is shown as '?'. */
    check_fault("[1, é]", "--gather: column 5: unexpected 'é'; expected a number or a list");
    check_fault("[1é\xff"
                "2]",
                "--gather: column 3: unexpected 'é'; expected ',' or ']' for the '[' of column 1");
    check_fault("\xff", "--gather: column 1: unexpected '?'; expected a number or a list");
    check_fault("[8 / 2]", "--gather: column 4: '/' makes fractions; use // to divide");
    check_fault("[i for i in range(9) if i = 2]",
                "--gather: column 27: '=' doesn't compare; use ==");
    check_fault("[1__0]", "--gather: column 2: 1__0: not a whole number");
    check_fault("[1_]", "--gather: column 2: 1_: not a whole number");
    check_fault("[1.5]", "--gather: column 2: 1.5: not a whole number");
    check_fault("[012]", "--gather: column 2: 012: not a whole number");
    check_fault("[0x]", "--gather: column 2: 0x: not a whole number");
    check_fault("[0b12]", "--gather: column 2: 0b12: not a whole number");
    check_fault("[0xffffffffffffffff]", "--gather: column 2: 0xffffffffffffffff: too large");
    check_fault("range(5)[1:2:3:4]", "--gather: column 15: unexpected ':'; expected ':' or ']' for "
                                     "the '[' of column 9");
    check_fault("range(5)[::0]", "--gather: column 12: the step of a slice can't be 0");
    check_fault("[range(5)[5]]", "--gather: column 11: the list has no such value");
    check_fault("range(*[3])",
                "--gather: column 7: '*' unpacks a list among the values of another one only");
    check_fault("[*1]", "--gather: column 3: a list, not a number, is needed");
    check_fault("sorted(1, 2)", "--gather: column 1: sorted() takes one list, not 2");
    check_fault("{1, 2]", "--gather: column 6: unexpected ']'; expected ',' or '}' for the '{' of "
                          "column 1");
    check_fault("[i for in [1]]",
                "--gather: column 8: unexpected 'in'; expected the name of a variable");
    check_fault("[i for i, j in [1]]", "--gather: column 9: unexpected ','; expected 'in'");
    check_fault("[i for i in [1] else]", "--gather: column 17: unexpected 'else'; expected 'for', "
                                         "'if' or ']' for the '[' of column 1");
    check_fault(
        "[1, 2 for i in [1]]",
        "--gather: column 7: unexpected 'for'; expected ',' or ']' for the '[' of column 1");
    check_fault("[1 not 2]", "--gather: column 8: unexpected '2'; expected 'in'");
    check_fault("range(", "--gather: column 7: unexpected end; expected a number or a list");
    check_fault("range()", "--gather: column 1: range() takes one to three numbers, not 0");
    check_fault("range(1, 2, 3, 4)",
                "--gather: column 1: range() takes one to three numbers, not 4");
    check_fault("list([1], [2])", "--gather: column 1: list() takes one list, not 2");
}

static void test_names(void **state)
{
    (void)state;
#define KNOWN                                                                                     \
    "known are range(), list(), tuple(), set(), sorted(), reversed(), True, False and variables " \
    "bound by 'for'"
    check_fault("os", "--gather: column 1: unknown name 'os'; " KNOWN);
    check_fault("os.system('x')", "--gather: column 1: unknown name 'os'; " KNOWN);
    check_fault("[0] + __import__('os')", "--gather: column 7: unknown name '__import__'; " KNOWN);
    check_fault("[j for i in [1]]", "--gather: column 2: unknown name 'j'; " KNOWN);
    check_fault("[1 for i in i]", "--gather: column 13: unknown name 'i'; " KNOWN);
    check_fault("[i for i in [1]] + [i]", "--gather: column 21: unknown name 'i'; " KNOWN);
    check_fault("range", "--gather: column 1: unknown name 'range'; " KNOWN);
    check_fault("[x for j in [1] for k in [i] for i in [1]]",
                "--gather: column 27: 'i' is used before its 'for'");
    check_fault("[1 for i in [1] for j in [1 for k in [1] for l in [i] for i in [1]]]",
                "--gather: column 52: 'i' is used before its 'for'");
    check_fault("[i for list in [1] for i in list([1])]",
                "--gather: column 29: 'list' is a variable here and can't be called");
}

static void test_kind_faults(void **state)
{
    (void)state;
    check_fault("3", "--gather: column 1: this is a number, not a list: write [3]");
    check_fault("(1 +\t2) ", "--gather: column 1: this is a number, not a list: write [(1 + 2)]");
    check_fault("[1] + 2", "--gather: column 7: a list, not a number, is needed");
    check_fault("1 + [2]", "--gather: column 5: a number, not a list, is needed");
    check_fault("[1] * [2]", "--gather: column 7: a number, not a list, is needed");
    check_fault("[1] - [1]", "--gather: column 1: a number, not a list, is needed");
    check_fault("1 // [1]", "--gather: column 6: a number, not a list, is needed");
    check_fault("-[1]", "--gather: column 2: a number, not a list, is needed");
    check_fault("[[1], 2]", "--gather: column 2: a number, not a list, is needed");
    check_fault("[1 < [1]]", "--gather: column 6: a number, not a list, is needed");
    check_fault("[[1] == 1]", "--gather: column 2: a number, not a list, is needed");
    check_fault("[[1] in [1]]", "--gather: column 2: a number, not a list, is needed");
    check_fault("[1 in 1]", "--gather: column 7: a list, not a number, is needed");
    check_fault("[i for i in 3]", "--gather: column 13: a list, not a number, is needed");
    check_fault("[[i] for i in [1]]", "--gather: column 2: a number, not a list, is needed");
    check_fault("list(3)", "--gather: column 6: a list, not a number, is needed");
    check_fault("range([3])", "--gather: column 7: a number, not a list, is needed");
}

static void test_number_faults(void **state)
{
    (void)state;
    check_fault("[10**30]", "--gather: column 2: 10**30: too large");
    check_fault("[99999999999999999999]", "--gather: column 2: 99999999999999999999: too large");
    check_fault("[9223372036854775807 + 1]",
                "--gather: column 2: 9223372036854775807 + 1: too large");
    check_fault("[-2**62 * 2 - 1]", "--gather: column 2: -2**62 * 2 - 1: too large");
    check_fault("[2**32 * 2**31]", "--gather: column 2: 2**32 * 2**31: too large");
    check_fault("[-(-2)**63]", "--gather: column 2: -(-2)**63: too large");
    check_fault("[(-2)**63 // -1]", "--gather: column 2: (-2)**63 // -1: too large");
    check_fault("[1 // 0]", "--gather: column 7: division by zero");
    check_fault("[1 % (1 - 1)]", "--gather: column 6: division by zero");
    check_fault("[2**-1]", "--gather: column 5: a negative exponent makes fractions");
    check_fault("range(1, 2, 0)", "--gather: column 13: the step of a range can't be 0");
}

/* `head` `n` times, `middle`, `tail` `n` times. */
static char *nested(const char *head, const char *middle, const char *tail, size_t n)
{
    struct prn_buffer out = PRN_BUFFER_INIT((size_t)1 << 20);
    for (size_t i = 0; i < n; i++)
        prn_buffer_add(&out, head);
    prn_buffer_add(&out, middle);
    for (size_t i = 0; i < n; i++)
        prn_buffer_add(&out, tail);
    char *text = prn_buffer_detach(&out);
    assert_non_null(text);
    return text;
}

static void check_nested(const char *head, const char *middle, const char *tail, size_t n,
                         const char *expected, const char *fault)
{
    char *text = nested(head, middle, tail, n);
    if (fault)
        check_fault(text, fault);
    else
        check(text, expected);
    free(text);
}

static void test_depth(void **state)
{
    (void)state;
    check_nested("(", "[5]", ")", 98, "5", NULL);
    check_nested("(", "[5]", ")", 100, NULL, "--gather: column 101: nested more than 100 deep");
    check_nested("(", "", "", 60000, NULL, "--gather: column 101: nested more than 100 deep");
    check_nested("[", "", "", 60000, NULL, "--gather: column 101: nested more than 100 deep");
    check_nested("-", "1", "", 60000, NULL, "--gather: column 100: nested more than 100 deep");
    check_nested("not ", "1", "", 10000, NULL, "--gather: column 397: nested more than 100 deep");
    check_nested("1**", "1", "", 10000, NULL, "--gather: column 301: nested more than 100 deep");
    check_nested("list(", "[1]", ")", 10000, NULL,
                 "--gather: column 501: nested more than 100 deep");
    char *clauses = nested(" for i in [0]", "]", "", 101);
    char *text = nested("[1", clauses, "", 1);
    check_fault(text, "--gather: column 1304: more than 100 times 'for'");
    free(text);
    free(clauses);
    /* Length alone is no depth. */
    check_nested("[7] * 0 + ", "[1]", "", 6000, "1", NULL);
    check_nested("0 or ", "[1]", "", 12000, "1", NULL);
    check_nested("", "0 * [1]", " + []", 12000, "", NULL);
}

static void check_steps(const char *expression)
{
    struct prn_gather g;
    struct prony_error err;
    assert_int_equal(prn_gather_parse(expression, &g, &err), PRONY_EUSAGE);
    assert_contains(err.text, ": this takes more than 10,000,000 steps");
}

static void test_limits(void **state)
{
    (void)state;
    clock_t before = clock();
    check_fault(
        "range(10**12)",
        "--gather: column 1: a range of 1,000,000,000,000 values; at most 1,000,000 are allowed");
    check_fault("range((-2)**63, 9223372036854775807)",
                "--gather: column 1: a range of 18,446,744,073,709,551,615 values; at most "
                "1,000,000 are allowed");
    check_fault("[0] * 10**12", "--gather: column 7: more than 1,000,000 values in a list");
    check_fault("[0, 1] * 500001", "--gather: column 10: more than 1,000,000 values in a list");
    check_fault("range(10**6) + [1]", "--gather: column 16: more than 1,000,000 values in a list");
    check_fault("[i for i in range(1001) for j in range(1000)]",
                "--gather: column 1: more than 1,000,000 values in a list");
    assert_true(clock() - before < 2 * CLOCKS_PER_SEC);
    check_steps("[1 for i in range(10**6) for j in range(10**6) if 0]");
    check_steps("[1 for i in range(10**6) if i in [0] * 10**6 and 0]");
    check_steps("[1 for i in range(10**6) if [0] * 10**6 + [] and 0]");
    /* Many long lists at once: the steps keep them from the memory. */
    char *waiting = nested("0 * ([0] * 10**6 + ", "[1]", ")", 20);
    check_steps(waiting);
    free(waiting);
    struct prn_gather g;
    struct prony_error err;
    assert_int_equal(prn_gather_parse("range(10**6)", &g, &err), 0);
    assert_int_equal(g.n, 1000000);
    assert_int_equal(g.runs[999999], 999999);
    prn_gather_release(&g);
    assert_null(g.runs);
    char *spaces = nested(" ", "[1]", "", 65533);
    check(spaces, "1");
    free(spaces);
    spaces = nested(" ", "[1]", "", 65534);
    check_fault(spaces, "--gather: the expression is longer than 65536 bytes");
    free(spaces);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists),          cmocka_unit_test(test_more_lists),
        cmocka_unit_test(test_arithmetic),     cmocka_unit_test(test_logic),
        cmocka_unit_test(test_comprehensions), cmocka_unit_test(test_syntax_faults),
        cmocka_unit_test(test_names),          cmocka_unit_test(test_kind_faults),
        cmocka_unit_test(test_number_faults),  cmocka_unit_test(test_depth),
        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
