#include "base/format.h"

#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *prn_format_significant(char buffer[PRN_FORMAT_SIZE], double value, int digits)
{
    if (!isfinite(value)) {
        snprintf(buffer, PRN_FORMAT_SIZE, "%s", isnan(value) ? "n/a" : value > 0 ? "inf" : "-inf");
        return buffer;
    }
    int decimals = digits - 1;
    if (value != 0) {
        /* Rounding can carry into a new digit (9.996 → 10.0), so look at the rounded value. */
        char scientific[PRN_FORMAT_SIZE];
        snprintf(scientific, sizeof scientific, "%.*e", digits - 1, value);
        int exponent = 0;
        sscanf(strchr(scientific, 'e') + 1, "%d", &exponent);
        decimals = digits - 1 - exponent;
    }
    if (decimals < 0)
        decimals = 0;
    /* What would need a page of zeros is better read with an exponent. */
    bool extreme = fabs(value) >= 1e21 || decimals > 20;
    snprintf(buffer, PRN_FORMAT_SIZE, extreme ? "%.*e" : "%.*f", extreme ? digits - 1 : decimals,
             value);
    return buffer;
}

static const char *scaled(char buffer[PRN_FORMAT_SIZE], double value, double step,
                          const char *const *units, size_t n_units)
{
    if (!isfinite(value))
        return prn_format_significant(buffer, value, 3);
    size_t unit = 0;
    /* 999.6 would print as "1000": go to the next unit already there. */
    while (unit + 1 < n_units && fabs(value) >= step * (1 - 0.0005)) {
        value /= step;
        unit++;
    }
    char number[PRN_FORMAT_SIZE];
    if (unit == 0 && value == floor(value))
        snprintf(number, sizeof number, "%.0f", value);
    else
        prn_format_significant(number, value, 3);
    snprintf(buffer, PRN_FORMAT_SIZE, "%.20s%s%s", number, units[unit][0] ? " " : "", units[unit]);
    return buffer;
}

const char *prn_format_duration(char buffer[PRN_FORMAT_SIZE], double ns)
{
    static const char *const units[] = {"ns", "µs", "ms", "s"};
    return scaled(buffer, ns, 1000, units, 4);
}

const char *prn_format_ms(char buffer[PRN_FORMAT_SIZE], double ns)
{
    double ms = ns / 1e6;
    bool fits = ms == 0 || (fabs(ms) >= 0.01 && fabs(ms) < 1e15);
    if (!fits)
        return prn_format_significant(buffer, ms, 2);
    snprintf(buffer, PRN_FORMAT_SIZE, "%.3f", ms);
    return buffer;
}

const char *prn_format_bytes(char buffer[PRN_FORMAT_SIZE], double bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    return scaled(buffer, bytes, 1024, units, 7);
}

const char *prn_format_count(char buffer[PRN_FORMAT_SIZE], double count)
{
    static const char *const units[] = {"", "k", "M", "G", "T", "P", "E"};
    return scaled(buffer, count, 1000, units, 7);
}

const char *prn_format_integer(char buffer[PRN_FORMAT_SIZE], uint64_t value)
{
    char digits[24];
    int n = snprintf(digits, sizeof digits, "%llu", (unsigned long long)value);
    char *out = buffer;
    for (int i = 0; i < n; i++) {
        if (i > 0 && (n - i) % 3 == 0)
            *out++ = ',';
        *out++ = digits[i];
    }
    *out = '\0';
    return buffer;
}

const char *prn_format_dollars(char buffer[PRN_FORMAT_SIZE], double dollars)
{
    char number[PRN_FORMAT_SIZE];
    if (!isfinite(dollars))
        return prn_format_significant(buffer, dollars, 2);
    if (dollars >= 999.5)
        prn_format_integer(number, (uint64_t)llround(fmin(dollars, 1e18)));
    else if (dollars >= 0.995 || dollars == 0)
        snprintf(number, sizeof number, "%.2f", dollars);
    else
        prn_format_significant(number, dollars, 2);
    snprintf(buffer, PRN_FORMAT_SIZE, "$%.40s", number);
    return buffer;
}

const char *prn_format_ratio(char buffer[PRN_FORMAT_SIZE], double ratio)
{
    if (!(fabs(ratio) < 10))
        return prn_format_significant(buffer, ratio, 4);
    snprintf(buffer, PRN_FORMAT_SIZE, "%.3f", ratio);
    return buffer;
}

const char *prn_format_probability(char buffer[PRN_FORMAT_SIZE], double p)
{
    if (isnan(p))
        return prn_format_significant(buffer, p, 3);
    snprintf(buffer, PRN_FORMAT_SIZE, p < 0.001 ? "<0.001" : "%.3f", p);
    return buffer;
}

/* printf and strtod speak the locale of the program that uses the library; files have points. */
static void use_decimal_point(char *number)
{
    const char *point = localeconv()->decimal_point;
    char *found = strcmp(point, ".") == 0 ? NULL : strstr(number, point);
    if (found) {
        *found = '.';
        memmove(found + 1, found + strlen(point), strlen(found + strlen(point)) + 1);
    }
}

const char *prn_format_shortest(char buffer[PRN_FORMAT_SIZE], double value)
{
    /* "-0" would come back as the integer 0. */
    if (value == 0 && signbit(value))
        return memcpy(buffer, "-0.0", sizeof "-0.0");
    /* A decimal of up to 15 digits survives the way through a double and back, but for the numbers
     * near zero that have fewer bits. */
    for (int digits = fabs(value) < DBL_MIN ? 1 : DBL_DIG; digits <= DBL_DECIMAL_DIG; digits++) {
        snprintf(buffer, PRN_FORMAT_SIZE, "%.*g", digits, value);
        if (strtod(buffer, NULL) == value)
            break;
    }
    use_decimal_point(buffer);
    return buffer;
}
