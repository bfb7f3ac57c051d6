/*
 * JSON tokens in memory, validated as RFC 8259 wants it.
 *
 * Invariants
 * - The text ends in PRN_SCAN_PADDING bytes of 0 behind `end`, so that no byte needs a bounds
 * check: 0 is in no JSON text outside of its end.
 * - A function returns true and moves `at` behind what it read, or returns false. Then either `at`
 *   is `end`: the text stops before the token does, and more of it may help; or `fault` says what
 *   is wrong with the byte at `at`.
 */
#ifndef PRN_TRACE_SCAN_H
#define PRN_TRACE_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PRN_SCAN_PADDING 64
#define PRN_SCAN_DEPTH_MAX 512

struct prn_scan {
    const char *at;
    const char *end;
    const char *fault; /* a static text */
};

struct prn_scan_string {
    const char *text; /* between the quotes, as it stands */
    size_t len;
    bool escaped; /* holds backslashes: see prn_scan_decode */
};

static inline void prn_scan_space(struct prn_scan *s)
{
    while (*s->at == ' ' || *s->at == '\n' || *s->at == '\t' || *s->at == '\r')
        s->at++;
}

/* Sets the fault, unless the text just stops here. */
bool prn_scan_fail(struct prn_scan *s, const char *fault);

/* `at` is the opening quote. */
bool prn_scan_text(struct prn_scan *s, struct prn_scan_string *ret_string);

/* A number as microseconds, in ns; digits beyond that are rounded. A number that doesn't fit is a
 * fault. */
bool prn_scan_microseconds(struct prn_scan *s, int64_t *ret_ns);

/* Any value. */
bool prn_scan_value(struct prn_scan *s);

/* Writes the text that an escaped string stands for, at most `len` bytes; returns how many. NUL and
 * lone surrogates become U+FFFD. */
size_t prn_scan_decode(const struct prn_scan_string *string, char *ret_text);

#endif
