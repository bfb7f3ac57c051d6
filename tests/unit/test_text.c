#include "unit.h"

#include "base/text.h"

static void test_utf8(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t length;
        bool printable;
    } cases[] = {
        {"a", 1, true},
        {"", 1, false},
        {"\x1f", 1, false},
        {"\x7f", 1, false},
        {"é", 2, true},
        {"\xc2\x80", 2, false},
        {"\xc2\x9f", 2, false},
        {"\xc2\xa0", 2, true},
        {"€", 3, true},
        {"😀", 4, true},
        {"\xf4\x8f\xbf\xbf", 4, true},
        {"\x80", 0, false},
        {"\xc0\xaf", 0, false},         /* longer than needed */
        {"\xe0\x9f\xbf", 0, false},     /* the same with three bytes */
        {"\xf0\x8f\xbf\xbf", 0, false}, /* and four */
        {"\xed\xa0\x80", 0, false},     /* a surrogate */
        {"\xf4\x90\x80\x80", 0, false}, /* beyond U+10FFFF */
        {"\xf5\x80\x80\x80", 0, false},
        {"\xe2\x82", 0, false}, /* ends too early */
        {"\xf0\x9f\x98", 0, false},
        {"\xc3(", 0, false},
    };
    for (size_t i = 0; i < PRN_ARRAY_SIZE(cases); i++)
        if (prn_utf8_length(cases[i].text) != cases[i].length ||
            prn_utf8_printable(cases[i].text) != cases[i].printable)
            fail_msg("case %zu", i);
}

static void test_clean(void **state)
{
    (void)state;
    struct prn_buffer out = PRN_BUFFER_INIT(1000);
    prn_text_clean(&out, "a\tb\nc\033[2J\x7f\xff \xef\xbf\xbd é");
    assert_string_equal(prn_buffer_text(&out), "a b c?[2J?? ? é");
    prn_buffer_release(&out);
}

static void test_wrap(void **state)
{
    (void)state;
    struct prn_buffer out = PRN_BUFFER_INIT(1000);
    const char *text = "one two  three\nfour";
    const char *end = prn_text_wrap(&out, text, 0, 2, 8);
    assert_string_equal(prn_buffer_text(&out), "one two\n  three\n");
    assert_string_equal(end, "\nfour");
    prn_buffer_clear(&out);
    /* Widths are in characters, and a word that is longer than a line is cut. */
    prn_text_wrap(&out, "ééé ééé unbreakable x", 0, 0, 7);
    assert_string_equal(prn_buffer_text(&out), "ééé ééé\nunbreak\nable x\n");
    prn_buffer_clear(&out);
    prn_text_wrap(&out, "", 5, 5, 7);
    assert_string_equal(prn_buffer_text(&out), "\n");
    prn_buffer_release(&out);
}

static void test_shorten(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t width;
        const char *expected;
    } cases[] = {
        {"abcdef", 6, "abcdef"},
        {"abcdef", 7, "abcdef"},
        {"abcdef", 5, "ab…ef"},
        {"abcdef", 4, "a…ef"},
        {"abcdef", 3, "a…f"},
        {"abcdef", 2, "…f"},
        {"abcdef", 1, "abcdef"}, /* too narrow for anything */
        {"abcdef", 0, "abcdef"},
        {"", 5, ""},
        {"éèêëēė", 6, "éèêëēė"},
        {"éèêëēė", 5, "éè…ēė"},
        {"a😀b😀c😀", 4, "a…c😀"},
        {"\xff\xfe\xc3x\x80", 3, "\xff…\x80"}, /* bytes that aren't UTF-8 count one each */
        {"a\xe2\x82z\xe2\x82", 4, "a…\xe2\x82"},
    };
    for (size_t i = 0; i < PRN_ARRAY_SIZE(cases); i++) {
        struct prn_buffer out = PRN_BUFFER_INIT(1000);
        prn_text_shorten(&out, cases[i].text, cases[i].width);
        assert_string_equal(prn_buffer_text(&out), cases[i].expected);
        if (cases[i].width >= 2)
            assert_in_range(prn_text_width(prn_buffer_text(&out)), 0, cases[i].width);
        prn_buffer_release(&out);
    }
}

/* What Python's fnmatch.fnmatchcase says; bytes that aren't UTF-8 are its surrogate escapes. */
static void test_glob(void **state)
{
    (void)state;
    static const struct {
        const char *pattern;
        const char *text;
        bool matches;
    } cases[] = {
        {"", "", true},
        {"", "a", false},
        {"a", "", false},
        {"*", "", true},
        {"***", "", true},
        {"?", "", false},
        {"abc", "abc", true},
        {"abc", "abcd", false},
        {"abc", "ABC", false},
        {"*", "any/thing", true},
        {"a*c", "ac", true},
        {"a*c", "abbbc", true},
        {"a*c", "abbbd", false},
        {"*Conv*", "/features/Conv_12_kernel_time", true},
        {"*a*b*c", "xaybzc", true},
        {"*a*b*c", "xbyazc", false},
        {"*ab", "aab", true},
        {"*aab*", "aaaab", true},
        {"a?c", "abc", true},
        {"a?c", "ac", false},
        {"a?c", "a\nc", true},
        {"?", "é", true},
        {"??", "é", false},
        {"?", "😀", true},
        {"?", "\xff", true},
        {"??", "\xe2\x82", true},
        {"?", "\xe2\x82", false},
        {"\xff*", "\xffx", true},
        {"é", "\xc3", false},
        {"[abc]", "b", true},
        {"[abc]", "d", false},
        {"[a-c]", "b", true},
        {"[a-c]", "d", false},
        {"[c-a]", "b", false},
        {"[!a-c]", "b", false},
        {"[!a-c]", "d", true},
        {"[!c-a]", "b", true},
        {"[!a]", "", false},
        {"[a-]", "-", true},
        {"[a-]", "a", true},
        {"[-a]", "-", true},
        {"[a-c-e]", "d", false},
        {"[a-c-e]", "-", true},
        {"[a-c-e]", "e", true},
        {"[--a]", "A", true},
        {"[!-a]", "-", false},
        {"[]]", "]", true},
        {"[]a]", "a", true},
        {"[!]]", "]", false},
        {"[!]]", "a", true},
        {"[]-a]", "_", true},
        {"[]-a]", "-", false},
        {"[", "[", true},
        {"[a", "[a", true},
        {"[!", "[!", true},
        {"[]", "[]", true},
        {"[!]", "[!]", true},
        {"a[b", "a[b", true},
        {"[[]", "[", true},
        {"[[a]", "a", true},
        {"x[*]", "x*", true},
        {"x[*]", "xy", false},
        {"[?]", "a", false},
        {"[^a]", "^", true},
        {"[^a]", "a", true},
        {"[^a]", "b", false},
        {"\\*", "\\a", true},
        {"\\*", "*", false},
        {"[\\]", "\\", true},
        {"[a\\-z]", "]", true},
        {"[a&&b]", "&", true},
        {"[a||b]", "|", true},
        {"[à-ü]", "é", true},
        {"[à-ü]", "a", false},
        {"[!é]", "é", false},
        {"[😀-😂]", "😁", true},
        {"[\xfe-\xff]", "\xff", true},
        {"[a]*[b]", "axb", true},
        {"[a]*[b]", "axc", false},
        {"*[0-9]", "Add_12", true},
        {"*[0-9]", "Add_", false},
        {"a]", "a]", true},
        {"a]b", "a]c", false},
        {"*.onnx", "m.onnx", true},
    };
    for (size_t i = 0; i < PRN_ARRAY_SIZE(cases); i++)
        if (prn_text_glob(cases[i].pattern, cases[i].text) != cases[i].matches)
            fail_msg("'%s' and '%s'", cases[i].pattern, cases[i].text);
}

/* Patterns that take other matchers time without end. */
static void test_glob_hostile(void **state)
{
    (void)state;
    static char text[20001];
    static char pattern[401];
    memset(text, 'a', sizeof text - 1);
    for (size_t i = 0; i < sizeof pattern - 1; i++)
        pattern[i] = i % 2 ? 'a' : '*';
    assert_true(prn_text_glob(pattern, text));
    text[sizeof text - 2] = 'b';
    assert_false(prn_text_glob(pattern, text));
    memset(text, '[', sizeof text - 1);
    memset(pattern, '[', sizeof pattern - 1);
    pattern[0] = '*';
    assert_true(prn_text_glob(pattern, text));
    text[sizeof text - 2] = 'b';
    assert_false(prn_text_glob(pattern, text));
}

static void test_is_name(void **state)
{
    (void)state;
    static const char *const names[] = {"a", " ", "r6i.large", "größe", "a/b"};
    static const char *const others[] = {"", "a\tb", "a\n", "\x7f", "a\xff", "a\xc2\x85"};
    for (size_t i = 0; i < PRN_ARRAY_SIZE(names); i++)
        assert_true(prn_text_is_name(names[i]));
    for (size_t i = 0; i < PRN_ARRAY_SIZE(others); i++)
        assert_false(prn_text_is_name(others[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_is_name), cmocka_unit_test(test_utf8),
        cmocka_unit_test(test_clean),   cmocka_unit_test(test_wrap),
        cmocka_unit_test(test_glob),    cmocka_unit_test(test_glob_hostile),
        cmocka_unit_test(test_shorten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
