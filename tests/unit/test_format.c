#include "unit.h"

#include "base/error.h"
#include "base/format.h"

struct example {
    double value;
    const char *text;
};

static void check(const char *(*format)(char *, double), const struct example *examples)
{
    char buffer[PRN_FORMAT_SIZE];
    for (; examples->text; examples++) {
        const char *text = format(buffer, examples->value);
        if (strcmp(text, examples->text) != 0)
            fail_msg("%.17g became '%s', not '%s'", examples->value, text, examples->text);
        assert_ptr_equal(text, buffer);
    }
}

static void test_durations(void **state)
{
    (void)state;
    const struct example examples[] = {
        {0, "0 ns"},
        {845, "845 ns"},
        {0.5, "0.500 ns"},
        {999.4, "999 ns"},
        {999.5, "1.00 µs"},
        {1000, "1.00 µs"},
        {12345678, "12.3 ms"},
        {1.5e9, "1.50 s"},
        {999499999, "999 ms"},
        {999600000, "1.00 s"},
        {5e12, "5000 s"},
        {-12.34e6, "-12.3 ms"},
        {NAN, "n/a"},
        {INFINITY, "inf"},
        {-INFINITY, "-inf"},
        {1e300, "1.00e+291 s"},
        {99.95, "100 ns"},
        {9.996e6, "10.0 ms"},
        {0, NULL},
    };
    check(prn_format_duration, examples);
}

static void test_milliseconds(void **state)
{
    (void)state;
    const struct example examples[] = {
        {0, "0.000"},
        {12e3, "0.012"},
        {116e3, "0.116"},
        {1001.234e6, "1001.234"},
        {125e9, "125000.000"},
        {10e3, "0.010"},
        {9.996e3, "0.010"},
        {9.9e3, "0.0099"},
        {9e3, "0.0090"},
        {1234, "0.0012"},
        {12, "0.000012"},
        {0.5, "0.00000050"},
        {5e20, "500000000000000.000"},
        {1e21, "1000000000000000"},
        {1e300, "1.0e+294"},
        {-12e3, "-0.012"},
        {NAN, "n/a"},
        {INFINITY, "inf"},
        {0, NULL},
    };
    check(prn_format_ms, examples);
}

static void test_bytes(void **state)
{
    (void)state;
    const struct example examples[] = {
        {0, "0 B"},
        {512, "512 B"},
        {1023, "1023 B"},
        {1024, "1.00 KiB"},
        {1536, "1.50 KiB"},
        {102550000, "97.8 MiB"},
        {1023.9 * 1024, "1.00 MiB"},
        {0, NULL},
    };
    check(prn_format_bytes, examples);
}

static void test_counts(void **state)
{
    (void)state;
    const struct example examples[] = {
        {812, "812"},     {25557032, "25.6 M"}, {4.12e9, "4.12 G"}, {999.9, "1.00 k"},
        {1000, "1.00 k"}, {0.25, "0.250"},      {NAN, "n/a"},       {0, NULL},
    };
    check(prn_format_count, examples);
}

static void test_dollars(void **state)
{
    (void)state;
    const struct example examples[] = {
        {0.00412, "$0.0041"},
        {1.351, "$1.35"},
        {1204.4, "$1,204"},
        {999.4, "$999.40"},
        {999.6, "$1,000"},
        {0.999, "$1.00"},
        {0.5, "$0.50"},
        {0, "$0.00"},
        {NAN, "n/a"},
        {INFINITY, "inf"},
        {1e30, "$1,000,000,000,000,000,000"},
        {0, NULL},
    };
    check(prn_format_dollars, examples);
}

static void test_integers(void **state)
{
    (void)state;
    char b[PRN_FORMAT_SIZE];
    assert_string_equal(prn_format_integer(b, 0), "0");
    assert_string_equal(prn_format_integer(b, 999), "999");
    assert_string_equal(prn_format_integer(b, 1000), "1,000");
    assert_string_equal(prn_format_integer(b, 1048576), "1,048,576");
    assert_string_equal(prn_format_integer(b, UINT64_MAX), "18,446,744,073,709,551,615");
}

static void test_ratio_and_probability(void **state)
{
    (void)state;
    char b[PRN_FORMAT_SIZE];
    assert_string_equal(prn_format_ratio(b, 1.0834), "1.083");
    assert_string_equal(prn_format_ratio(b, 0.5), "0.500");
    assert_string_equal(prn_format_ratio(b, 123.42), "123.4");
    assert_string_equal(prn_format_ratio(b, 1e300), "1.000e+300");
    assert_string_equal(prn_format_ratio(b, NAN), "n/a");
    assert_string_equal(prn_format_probability(b, 0.0123), "0.012");
    assert_string_equal(prn_format_probability(b, 1), "1.000");
    assert_string_equal(prn_format_probability(b, 0.0009), "<0.001");
    assert_string_equal(prn_format_probability(b, NAN), "n/a");
}

static void test_significant(void **state)
{
    (void)state;
    char b[PRN_FORMAT_SIZE];
    assert_string_equal(prn_format_significant(b, 0.0123, 3), "0.0123");
    assert_string_equal(prn_format_significant(b, 1.2345, 3), "1.23");
    assert_string_equal(prn_format_significant(b, 123.45, 3), "123");
    assert_string_equal(prn_format_significant(b, 12345, 3), "12345");
    assert_string_equal(prn_format_significant(b, 9.996, 3), "10.0");
    assert_string_equal(prn_format_significant(b, 0, 3), "0.00");
    assert_string_equal(prn_format_significant(b, -0.5, 2), "-0.50");
    assert_string_equal(prn_format_significant(b, 1e-30, 3), "1.00e-30");
    /* The longest that can come out fits. */
    for (int exponent = -320; exponent < 309; exponent++) {
        prn_format_significant(b, -1.23456789 * pow(10, exponent), 6);
        assert_in_range(strlen(b), 2, PRN_FORMAT_SIZE - 8);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_durations),   cmocka_unit_test(test_milliseconds),
        cmocka_unit_test(test_bytes),       cmocka_unit_test(test_counts),
        cmocka_unit_test(test_dollars),     cmocka_unit_test(test_integers),
        cmocka_unit_test(test_significant), cmocka_unit_test(test_ratio_and_probability),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
