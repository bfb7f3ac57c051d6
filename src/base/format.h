/*
 * Numbers as people read them: three significant digits and a unit that fits. Each function writes
 * into the caller's buffer and returns it, so that calls can stand inside an argument list. A
 * number that isn't known (NAN) is "n/a". Full precision belongs to JSON and CSV, not here.
 */
#ifndef PRN_BASE_FORMAT_H
#define PRN_BASE_FORMAT_H

#include <stddef.h>
#include <stdint.h>

#define PRN_FORMAT_SIZE 48

/* "12.3 ms", "845 ns", "1.50 s". */
const char *prn_format_duration(char buffer[PRN_FORMAT_SIZE], double ns);

/* Milliseconds without the unit, for a column: "0.012", "1001.234", "0.000012": three decimals, or
 * as many as show two significant digits. */
const char *prn_format_ms(char buffer[PRN_FORMAT_SIZE], double ns);

/* "97.8 MiB", "512 B". */
const char *prn_format_bytes(char buffer[PRN_FORMAT_SIZE], double bytes);

/* "25.6 M", "4.12 G", "812": decimal multiples, no unit. */
const char *prn_format_count(char buffer[PRN_FORMAT_SIZE], double count);

/* "1,048,576". */
const char *prn_format_integer(char buffer[PRN_FORMAT_SIZE], uint64_t value);

/* "$0.0041", "$1.35", "$1,204": two significant digits below a dollar, then cents, whole dollars
 * from a thousand up. */
const char *prn_format_dollars(char buffer[PRN_FORMAT_SIZE], double dollars);

/* `digits` significant digits: 0.0123, 1.23, 123; with an exponent only past 20 places. */
const char *prn_format_significant(char buffer[PRN_FORMAT_SIZE], double value, int digits);

/* "0.092", "1.083", "10.85": a ratio, to the thousandth below 10 and to four digits above. */
const char *prn_format_ratio(char buffer[PRN_FORMAT_SIZE], double ratio);

/* "0.012", "<0.001": a p-value. */
const char *prn_format_probability(char buffer[PRN_FORMAT_SIZE], double p);

/* The shortest decimal that reads back as the same double, in every locale: for files. */
const char *prn_format_shortest(char buffer[PRN_FORMAT_SIZE], double value);

#endif
