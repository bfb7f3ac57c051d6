/*
 * The JSON scanner. Every text is scanned in a heap block of exactly its size and the padding, so
 * that AddressSanitizer sees a read beyond them.
 */
#include "unit.h"

#include "base/error.h"
#include "trace/scan.h"

#include <stdbool.h>
#include <stdlib.h>

/* A copy with the padding behind it; `s` is at its start. */
static char *begin(struct prn_scan *s, const char *text, size_t len)
{
    char *copy = calloc(1, len + PRN_SCAN_PADDING);
    assert_non_null(copy);
    memcpy(copy, text, len);
    *s = (struct prn_scan){.at = copy, .end = copy + len};
    return copy;
}

enum outcome { ACCEPTED, REJECTED, MORE };

/* What becomes of a whole text: a value, and nothing but space around it. */
static enum outcome scan(const char *text, size_t len, size_t *ret_at)
{
    struct prn_scan s;
    char *copy = begin(&s, text, len);
    prn_scan_space(&s);
    bool ok = prn_scan_value(&s);
    *ret_at = (size_t)(s.at - copy);
    assert_true(s.at <= s.end);
    if (ok)
        prn_scan_space(&s);
    /* A failure is either a fault or the end of the text. */
    if (!ok)
        assert_true((s.at == s.end) == (s.fault == NULL));
    enum outcome outcome = s.fault || (ok && s.at < s.end) ? REJECTED : ok ? ACCEPTED : MORE;
    free(copy);
    return outcome;
}

struct text {
    const char *text;
    size_t len; /* 0: up to the NUL */
};

#define WITH_NUL(text)        \
    {                         \
        text, sizeof text - 1 \
    }

static const struct text accepted[] = {
    {"[]", 0},
    {"{}", 0},
    {" \t\r\n[ \t\r\n] \t\r\n", 0},
    {"[[]   ]", 0},
    {"[\"\"]", 0},
    {"[\"a\"]", 0},
    {"[false]", 0},
    {"[true]", 0},
    {"[null]", 0},
    {"[null, 1, \"1\", {}]", 0},
    {"[1\n]", 0},
    {"[1,null,null,null,2]", 0},
    {"[2] ", 0},
    {"false ", 0},
    {"null ", 0},
    {"true ", 0},
    {"\"asd\"", 0},
    {"\"\"", 0},
    {"42 ", 0},
    {"-0.1 ", 0},
    {"[123e65]", 0},
    {"[0e+1]", 0},
    {"[0e1]", 0},
    {"[ 4]", 0},
    {"[-0]", 0},
    {"[-0.0]", 0},
    {"[-123]", 0},
    {"[-1]", 0},
    {"[1E22]", 0},
    {"[1E-2]", 0},
    {"[1E+2]", 0},
    {"[123e45]", 0},
    {"[123.456e78]", 0},
    {"[1e-2]", 0},
    {"[1e+2]", 0},
    {"[123.456789]", 0},
    {"[-0.000000000000000000000000000000000000000000000000000000000000000000000000000001]", 0},
    {"[1e999999999999999999999]", 0}, /* a number that no machine holds is still one */
    {"{\"asd\":\"sdf\", \"dfg\":\"fgh\"}", 0},
    {"{\"asd\":\"sdf\"}", 0},
    {"{\"a\":\"b\",\"a\":\"c\"}", 0}, /* the same key twice is for others to judge */
    {"{\"\":0}", 0},
    {"{\"foo\\u0000bar\": 42}", 0},
    {"{ \"min\": -1.0e+28, \"max\": 1.0e+28 }", 0},
    {"{\"x\":[{\"id\": \"x\"}], \"id\": \"y\"}", 0},
    {"{\"a\":[]}", 0},
    {"{\n\"a\": \"b\"\n}", 0},
    {"[\"\\u0060\\u012a\\u12AB\"]", 0},
    {"[\"\\uD801\\udc37\"]", 0},
    {"[\"\\uD800\"]", 0}, /* a lone surrogate is well-formed */
    {"[\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"]", 0},
    {"[\"\\\\u0000\"]", 0},
    {"[\"a/*b*/c/*d//e\"]", 0},
    {"[\"\\\\a\"]", 0},
    {"[\"\\uFFFF\"]", 0},
    {"[\"\xf0\x9f\x98\xb9\xc3\xa9\xe2\x82\xac\"]", 0},
    {"[\"\xf4\x8f\xbf\xbf\"]", 0},
    {"[\"\xef\xbf\xbf\"]", 0},
    {"[\"\xe2\x80\xa8\xe2\x80\xa9\"]", 0},
    {"[\"\x7f\"]", 0},
    {"[\"a long string of over sixteen bytes, and its end is searched in words\"]", 0},
};

static const struct text rejected[] = {
    {"[1 true]", 0},
    {"[a\xe5]", 0},
    {"[\"\": 1]", 0},
    {"[\"\"],", 0},
    {"[,1]", 0},
    {"[1,,2]", 0},
    {"[\"x\",,]", 0},
    {"[\"x\"]]", 0},
    {"[\"\",]", 0},
    {"[3[4]]", 0},
    {"[\xff]", 0},
    {"[x]", 0},
    {"[,]", 0},
    {"[-]", 0},
    {"[   , \"\"]", 0},
    {"[\"\va\"\\f]", 0},
    {"[*]", 0},
    {"[1,]", 0},
    {"[1}", 0},
    {"{\"x\": true,]", 0},
    {"[fals]", 0},
    {"[nul]", 0},
    {"[tru]", 0},
    {"[True]", 0},
    {"[truee]", 0},
    {"[++1234]", 0},
    {"[+1]", 0},
    {"[+Inf]", 0},
    {"[-01]", 0},
    {"[-1.0.]", 0},
    {"[-2.]", 0},
    {"[-NaN]", 0},
    {"[.-1]", 0},
    {"[.2e-3]", 0},
    {"[0.1.2]", 0},
    {"[0.3e+]", 0},
    {"[0.3e]", 0},
    {"[0.e1]", 0},
    {"[0E+]", 0},
    {"[0E]", 0},
    {"[1.0e+]", 0},
    {"[1.0e-]", 0},
    {"[1 000.0]", 0},
    {"[1eE2]", 0},
    {"[2.e3]", 0},
    {"[9.e+]", 0},
    {"[Inf]", 0},
    {"[NaN]", 0},
    {"[\xef\xbc\x91]", 0}, /* a digit, but not one of ASCII */
    {"[1+2]", 0},
    {"[0x1]", 0},
    {"[0x42]", 0},
    {"[Infinity]", 0},
    {"[0e+-1]", 0},
    {"[-123.123foo]", 0},
    {"[123\xe5]", 0},
    {"[1e1\xe5]", 0},
    {"[0\xe5]", 0},
    {"[-Infinity]", 0},
    {"[-foo]", 0},
    {"[- 1]", 0},
    {"[-012]", 0},
    {"[-.123]", 0},
    {"[1.]", 0},
    {"[.123]", 0},
    {"[1.2a-3]", 0},
    {"[1.8011670033376514H-308]", 0},
    {"[012]", 0},
    {"[\"x\", truth]", 0},
    {"{[: \"x\"}", 0},
    {"{\"x\", null}", 0},
    {"{\"x\"::\"b\"}", 0},
    {"{\"a\":\"a\" 123}", 0},
    {"{key: 'value'}", 0},
    {"{\"a\" b}", 0},
    {"{:\"b\"}", 0},
    {"{\"a\" \"b\"}", 0},
    {"{\"a\":}", 0},
    {"{1:1}", 0},
    {"{9999E9999:1}", 0},
    {"{null:null,null:null}", 0},
    {"{\"id\":0,,,,,}", 0},
    {"{'a':0}", 0},
    {"{\"id\":0,}", 0},
    {"{\"a\":\"b\"}/**/", 0},
    {"{\"a\":\"b\"}//", 0},
    {"{\"a\":\"b\",,\"c\":\"d\"}", 0},
    {"{a: \"b\"}", 0},
    {"{ \"foo\" : \"bar\", \"a\" }", 0},
    {"{\"a\":\"b\"}#", 0},
    {"[\"\\uD800\\u\"]", 0},
    {"[\"\\uD800\\u1\"]", 0},
    {"[\"\\uD800\\u1x\"]", 0},
    {"[\"\\x00\"]", 0},
    {"[\"\\\t\"]", 0},
    {"[\"\\\xf0\x9f\x8c\x80\"]", 0},
    {"[\"\\u00A\"]", 0},
    {"[\"\\a\"]", 0},
    {"[\"\\u\xe5\"]", 0},
    {"[\"\\uqqqq\"]", 0},
    {"[\"\\U0041\"]", 0},
    {"[\xe9]", 0},
    {"abc ", 0},
    {"['single']", 0},
    {"[\"new\nline\"]", 0},
    {"[\"\t\"]", 0},
    {"[\"\x1f\"]", 0},
    {"[\"\x80\"]", 0},
    {"[\"\xc0\xaf\"]", 0},
    {"[\"\xed\xa0\x80\"]", 0},
    {"[\"\xf4\x90\x80\x80\"]", 0},
    {"[\"\xf8\x88\x80\x80\x80\"]", 0},
    {"[\"\xe9 latin\"]", 0},
    {"[\"\xe2\x82\"]", 0},
    {"<.>", 0},
    {"[<null>]", 0},
    {"[1]x", 0},
    {"[1]]", 0},
    {"{\"a\": true} \"x\"", 0},
    {"[][]", 0},
    {"]", 0},
    {"}", 0},
    {"{]", 0},
    {"[}", 0},
    {"2@", 0},
    {"{}}", 0},
    {"{\"\":{\"a\":[}", 0},
    {"[\f]", 0},
    {"[\v]", 0},
    {"[\xc2\xa0]", 0},
    {"[\xe2\x81\xa0]", 0},
    {"\xef\xbb\xbf{}", 0}, /* a mark of the byte order is the reader's to take away */
    {"[\\n]", 0},
    {"[\\u0020\"asd\"]", 0},
    {"*", 0},
    WITH_NUL("[\"\0\"]"),
    WITH_NUL("[\"a\0a\"]"),
    WITH_NUL("[\"\\\0\"]"),
    WITH_NUL("[\"\\u\0\"]"),
    WITH_NUL("[1\0]"),
    WITH_NUL("[\0]"),
    WITH_NUL("[1]\0"),
    WITH_NUL("123\0"),
    WITH_NUL("\0"),
};

/* Texts that stop too early: with more they may become something. */
static const struct text unfinished[] = {
    {"", 0},
    {" ", 0},
    {"[", 0},
    {"{", 0},
    {"[\"\"", 0},
    {"[1,\n1", 0},
    {"[{}", 0},
    {"{\"a\"", 0},
    {"{\"a\":", 0},
    {"{\"a\":1,", 0},
    {"[1", 0},
    {"1", 0},
    {"-", 0},
    {"0.", 0},
    {"1e", 0},
    {"tru", 0},
    {"[nul", 0},
    {"\"", 0},
    {"\"a\\", 0},
    {"\"\\u00", 0},
    {"\"\xe2\x82", 0},
    {"\"\xf0\x9f\x98", 0},
    {"[\"\\uD834\\uDd", 0},
    {"[[[[", 0},
    {"[\"asd]\xe5", 0},
    {"[{\"\":[{\"\":", 0},
};

static size_t length(const struct text *t)
{
    return t->len ? t->len : strlen(t->text);
}

static void assert_outcomes(const struct text *texts, size_t n, enum outcome expected)
{
    static const char *const names[] = {"accepted", "rejected", "unfinished"};
    for (size_t i = 0; i < n; i++) {
        size_t at;
        enum outcome outcome = scan(texts[i].text, length(&texts[i]), &at);
        if (outcome != expected)
            fail_msg("'%s' is %s at byte %zu", texts[i].text, names[outcome], at);
    }
}

static void test_texts(void **state)
{
    (void)state;
    assert_outcomes(accepted, PRN_ARRAY_SIZE(accepted), ACCEPTED);
    assert_outcomes(rejected, PRN_ARRAY_SIZE(rejected), REJECTED);
    assert_outcomes(unfinished, PRN_ARRAY_SIZE(unfinished), MORE);
}

/* Wherever a valid text is cut, it wants more; wherever a faulty one is, it says the same of the
 * same byte, or nothing yet. */
static void test_cuts(void **state)
{
    (void)state;
    for (size_t i = 0; i < PRN_ARRAY_SIZE(accepted); i++) {
        /* A number's end is what stands behind it. */
        bool number = strchr("-0123456789", accepted[i].text[strspn(accepted[i].text, " \t\r\n")]);
        size_t last = length(&accepted[i]);
        while (strchr(" \t\r\n", accepted[i].text[last - 1]))
            last--;
        for (size_t len = 0; len < last; len++) {
            size_t at;
            enum outcome outcome = scan(accepted[i].text, len, &at);
            if (outcome != MORE || at != len)
                fail_msg("'%s' cut to %zu bytes: %d at %zu", accepted[i].text, len, outcome, at);
        }
        size_t at;
        assert_int_equal(scan(accepted[i].text, last, &at), number ? MORE : ACCEPTED);
    }
    for (size_t i = 0; i < PRN_ARRAY_SIZE(rejected); i++) {
        size_t len = length(&rejected[i]);
        size_t whole;
        scan(rejected[i].text, len, &whole);
        for (size_t cut = 0; cut < len; cut++) {
            size_t at;
            enum outcome outcome = scan(rejected[i].text, cut, &at);
            if (outcome == REJECTED && at != whole)
                fail_msg("'%s' cut to %zu bytes: %zu, not %zu", rejected[i].text, cut, at, whole);
        }
    }
}

static void test_depth(void **state)
{
    (void)state;
    static char text[4 * PRN_SCAN_DEPTH_MAX + 100];
    for (int objects = 0; objects < 2; objects++)
        for (size_t depth = PRN_SCAN_DEPTH_MAX; depth <= PRN_SCAN_DEPTH_MAX + 1; depth++) {
            size_t n = 0;
            for (size_t i = 0; i < depth; i++) {
                /* Alternating, so that each level has to be remembered as what it is. */
                bool object = objects && i % 3 != 1;
                n += (size_t)sprintf(text + n, object ? "{\"\":" : "[");
                if (n > sizeof text - 8)
                    fail_msg("%s", "the buffer is too small");
            }
            size_t inner = n;
            n += (size_t)sprintf(text + n, "1");
            for (size_t i = depth; i-- > 0;)
                text[n++] = objects && i % 3 != 1 ? '}' : ']';
            size_t at;
            enum outcome outcome = scan(text, n, &at);
            assert_int_equal(outcome, depth > PRN_SCAN_DEPTH_MAX ? REJECTED : ACCEPTED);
            if (outcome == REJECTED)
                assert_in_range(at, inner - 4, inner - 1);
            /* A bracket of the other kind anywhere on the way out is seen. */
            if (outcome == ACCEPTED && objects) {
                size_t middle = inner + 1 + depth / 2;
                text[middle] = text[middle] == '}' ? ']' : '}';
                assert_int_equal(scan(text, n, &at), REJECTED);
                assert_int_equal(at, middle);
            }
        }
}

/* The eight bytes at a time: each special byte at each distance from the start. */
static void test_strings(void **state)
{
    (void)state;
    for (size_t before = 0; before < 20; before++)
        for (int byte = 1; byte < 256; byte++) {
            char text[64];
            size_t n = 0;
            text[n++] = '"';
            for (size_t i = 0; i < before; i++)
                text[n++] = "a!#[]~^z"[i % 8];
            text[n++] = (char)byte;
            n += (size_t)sprintf(text + n, "bcdefghijk\"");
            struct prn_scan s;
            char *copy = begin(&s, text, n);
            struct prn_scan_string string;
            bool ok = prn_scan_text(&s, &string);
            size_t at = (size_t)(s.at - copy);
            if (byte == '"') {
                assert_true(ok);
                assert_int_equal(string.len, before);
            } else if (byte == '\\') {
                assert_true(ok && string.escaped); /* \b */
            } else if (byte < 0x20 || byte >= 0x80) {
                assert_false(ok);
                assert_non_null(s.fault);
                assert_int_equal(at, before + 1);
            } else {
                assert_true(ok && !string.escaped);
                assert_int_equal(string.len, before + 11);
                assert_int_equal(at, n);
            }
            free(copy);
        }
}

#define OUT_OF_RANGE INT64_MIN

/* The numbers of ns were worked out with fractions of whole numbers, halves rounded away from 0. */
static void test_microseconds(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t ns;
    } cases[] = {
        {"0", 0},
        {"-0", 0},
        {"1", 1000},
        {"9", 9000},
        {"10", 10000},
        {"999999", 999999000},
        {"1000000000000", 1000000000000000},
        {"99999999999999", 99999999999999000},
        {"999999999999999", 999999999999999000},
        {"1000000000000000", 1000000000000000000},
        {"9223372036854775", 9223372036854775000},
        {"9223372036854775.807", 9223372036854775807},
        {"9223372036854775.8074", 9223372036854775807},
        {"9223372036854775.8075", OUT_OF_RANGE},
        {"9223372036854776", OUT_OF_RANGE},
        {"-9223372036854775.807", -9223372036854775807},
        {"-9223372036854775.808", OUT_OF_RANGE},
        {"-1", -1000},
        {"-1.5", -1500},
        {"0.001", 1},
        {"0.0004", 0},
        {"0.0005", 1},
        {"0.00049999999999999999999999", 0},
        {"0.00005", 0},
        {"0.0000000000000000000005", 0},
        {"0.9995", 1000},
        {"0.9994999", 999},
        {"1.0005", 1001},
        {"-0.0005", -1},
        {"-0.0004", 0},
        {"1.5", 1500},
        {"1.2345", 1235},
        {"1.2344", 1234},
        {"123456.789", 123456789},
        {"1234567890123456.7899", 1234567890123456790},
        {"1234567890123456.7894", 1234567890123456789},
        {"12345678901234567899e-4", 1234567890123456790},
        {"12345678901234567894e-4", 1234567890123456789},
        {"1e0", 1000},
        {"1E3", 1000000},
        {"1e+3", 1000000},
        {"1e-3", 1},
        {"5e-4", 1},
        {"4e-4", 0},
        {"5e-5", 0},
        {"9999e-7", 1},
        {"1.5e3", 1500000},
        {"1e12", 1000000000000000},
        {"1e15", 1000000000000000000},
        {"9e15", 9000000000000000000},
        {"1e16", OUT_OF_RANGE},
        {"1e18", OUT_OF_RANGE},
        {"1e19", OUT_OF_RANGE},
        {"1e20", OUT_OF_RANGE},
        {"1e400", OUT_OF_RANGE},
        {"1e999999999", OUT_OF_RANGE},
        {"1e-400", 0},
        {"1e-999999999", 0},
        {"0e999999999", 0},
        {"0.0e-999999999", 0},
        {"0.000000000000000000000001e24", 1000},
        {"10000000000000000000000000e-24", 10000},
        {"922337203685477580.7e-2", 9223372036854775807},
        {"18446744073709551616", OUT_OF_RANGE},
        {"18446744073709551615e-3", OUT_OF_RANGE},
        {"18446744073709551615e-4", 1844674407370955162},
        {"99999999999999999999e-5", 1000000000000000000},
        {"9223372036854775807e-3", 9223372036854775807},
        {"9223372036854775808e-3", OUT_OF_RANGE},
        {"92233720368547758070e-4", 9223372036854775807},
        {"92233720368547758075e-4", OUT_OF_RANGE},
        {"1.0000000000000000000000000000000000000000001", 1000},
    };
    static const char *const behind[] = {",", "}", " ", "\n", "\t", "]", "x"};
    for (size_t i = 0; i < PRN_ARRAY_SIZE(cases); i++)
        for (size_t k = 0; k < PRN_ARRAY_SIZE(behind); k++) {
            char text[100];
            int n = snprintf(text, sizeof text, "%s%s", cases[i].text, behind[k]);
            struct prn_scan s;
            char *copy = begin(&s, text, (size_t)n);
            int64_t ns = OUT_OF_RANGE;
            bool ok = prn_scan_microseconds(&s, &ns);
            if (ok != (cases[i].ns != OUT_OF_RANGE) || ns != cases[i].ns)
                fail_msg("%s is %lld, not %lld", cases[i].text, (long long)ns,
                         (long long)cases[i].ns);
            assert_int_equal(s.at - copy, ok ? n - 1 : 0);
            assert_int_equal(s.fault == NULL, ok);
            free(copy);
        }
}

static void test_microseconds_faults(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t at; /* SIZE_MAX: more is wanted */
    } cases[] = {
        {"", SIZE_MAX},
        {"1", SIZE_MAX},
        {"-", SIZE_MAX},
        {"123.", SIZE_MAX},
        {"1.5", SIZE_MAX},
        {"1e", SIZE_MAX},
        {"1e+", SIZE_MAX},
        {"123456789012345", SIZE_MAX},
        {"01,", 0},
        {"00,", 0},
        {"-01,", 1},
        {"-,", 1},
        {"+1,", 0},
        {".5,", 0},
        {"1.,", 2},
        {"1.e3,", 2},
        {"1e,", 2},
        {"\"1\",", 0},
        {"true,", 0},
        {"[1],", 0},
        {"000000000000000001,", 0},
        {"NaN,", 0},
    };
    for (size_t i = 0; i < PRN_ARRAY_SIZE(cases); i++) {
        struct prn_scan s;
        size_t len = strlen(cases[i].text);
        char *copy = begin(&s, cases[i].text, len);
        int64_t ns = 7;
        assert_false(prn_scan_microseconds(&s, &ns));
        assert_int_equal(ns, 7);
        assert_int_equal(s.at - copy, cases[i].at == SIZE_MAX ? len : cases[i].at);
        assert_int_equal(s.fault == NULL, cases[i].at == SIZE_MAX);
        free(copy);
    }
}

#define UNKNOWN "\xef\xbf\xbd"

static void test_decode(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"", ""},
        {"plain", "plain"},
        {"\\\"\\\\\\/\\b\\f\\n\\r\\t", "\"\\/\b\f\n\r\t"},
        {"\\u0041\\u00e9\\u20AC", "A\xc3\xa9\xe2\x82\xac"},
        {"\\u007f\\u0080\\u07ff\\u0800\\uffff", "\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf"},
        {"\\uD83D\\uDE39", "\xf0\x9f\x98\xb9"},
        {"\\ud800\\udc00\\udbff\\udfff", "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf"},
        {"a\\u0000b", "a" UNKNOWN "b"},
        {"\\ud800", UNKNOWN},
        {"\\udc00", UNKNOWN},
        {"\\ud800x", UNKNOWN "x"},
        {"\\ud800\\n", UNKNOWN "\n"},
        {"\\ud800\\\\u0", UNKNOWN "\\u0"},
        {"\\ud800\\u0041", UNKNOWN "A"},
        {"\\ud800\\ud800\\udc00", UNKNOWN "\xf0\x90\x80\x80"},
        {"\\udc00\\ud800", UNKNOWN UNKNOWN},
        {"\\\\u0041", "\\u0041"},
        {"\xc3\xa9\\u00e9", "\xc3\xa9\xc3\xa9"},
    };
    for (size_t i = 0; i < PRN_ARRAY_SIZE(cases); i++) {
        char text[100];
        int n = snprintf(text, sizeof text, "\"%s\"", cases[i][0]);
        struct prn_scan s;
        char *copy = begin(&s, text, (size_t)n);
        struct prn_scan_string string;
        assert_true(prn_scan_text(&s, &string));
        assert_ptr_equal(s.at, s.end);
        assert_int_equal(string.len, strlen(cases[i][0]));
        assert_int_equal(string.escaped, strchr(cases[i][0], '\\') != NULL);
        char *decoded = malloc(string.len + 1); /* it promises to need no more */
        assert_non_null(decoded);
        decoded[prn_scan_decode(&string, decoded)] = '\0';
        assert_string_equal(decoded, cases[i][1]);
        free(decoded);
        free(copy);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts),        cmocka_unit_test(test_cuts),
        cmocka_unit_test(test_depth),        cmocka_unit_test(test_strings),
        cmocka_unit_test(test_microseconds), cmocka_unit_test(test_microseconds_faults),
        cmocka_unit_test(test_decode),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
