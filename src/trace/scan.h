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
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

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
    while ((unsigned char)*s->at <= ' ' &&
           (*s->at == ' ' || *s->at == '\n' || *s->at == '\t' || *s->at == '\r'))
        s->at++;
}

static inline bool prn_scan_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* The first byte at or behind `p` that needs a look inside a string: '"', '\\', a control character
 * (the padding is one), or one that isn't ASCII. */
static inline const char *prn_scan_special(const char *p)
{
#ifdef __SSE2__
    /* As signed bytes, all that isn't ASCII is below the space too. Two blocks at once, because
     * most strings end within 32 bytes and a branch on which half would often be guessed wrong. */
    const __m128i space = _mm_set1_epi8(' ');
    const __m128i quote = _mm_set1_epi8('"');
    const __m128i backslash = _mm_set1_epi8('\\');
    for (;; p += 32) {
        __m128i a = _mm_loadu_si128((const __m128i *)(const void *)p);
        __m128i b = _mm_loadu_si128((const __m128i *)(const void *)(p + 16));
        __m128i marks_a =
            _mm_or_si128(_mm_cmplt_epi8(a, space),
                         _mm_or_si128(_mm_cmpeq_epi8(a, quote), _mm_cmpeq_epi8(a, backslash)));
        __m128i marks_b =
            _mm_or_si128(_mm_cmplt_epi8(b, space),
                         _mm_or_si128(_mm_cmpeq_epi8(b, quote), _mm_cmpeq_epi8(b, backslash)));
        unsigned marks = (unsigned)_mm_movemask_epi8(marks_a) | (unsigned)_mm_movemask_epi8(marks_b)
                                                                    << 16;
        if (marks)
            return p + __builtin_ctz(marks);
    }
#else
    while ((unsigned char)*p >= ' ' && (unsigned char)*p < 0x80 && *p != '"' && *p != '\\')
        p++;
    return p;
#endif
}

/* Whether the `len` bytes at both places are equal. 32 bytes must be readable at either. */
static inline bool prn_scan_same(const char *a, const char *b, size_t len)
{
#ifdef __SSE2__
    if (len <= 32) {
        __m128i low = _mm_cmpeq_epi8(_mm_loadu_si128((const __m128i *)(const void *)a),
                                     _mm_loadu_si128((const __m128i *)(const void *)b));
        __m128i high = _mm_cmpeq_epi8(_mm_loadu_si128((const __m128i *)(const void *)(a + 16)),
                                      _mm_loadu_si128((const __m128i *)(const void *)(b + 16)));
        uint64_t equal = (uint64_t)(unsigned)_mm_movemask_epi8(low) |
                         (uint64_t)(unsigned)_mm_movemask_epi8(high) << 16;
        return (~equal & (((uint64_t)1 << len) - 1)) == 0;
    }
#endif
    return memcmp(a, b, len) == 0;
}

/* Sets the fault, unless the text just stops here. */
bool prn_scan_fail(struct prn_scan *s, const char *fault);

/* A string with escapes, or more than ASCII, or a fault in it. */
bool prn_scan_odd_text(struct prn_scan *s, struct prn_scan_string *ret_string);

/* `at` is the opening quote. */
static inline bool prn_scan_text(struct prn_scan *s, struct prn_scan_string *ret_string)
{
    const char *end = *s->at == '"' ? prn_scan_special(s->at + 1) : s->at;
    if (end == s->at || *end != '"')
        return prn_scan_odd_text(s, ret_string);
    *ret_string = (struct prn_scan_string){.text = s->at + 1, .len = (size_t)(end - s->at - 1)};
    s->at = end + 1;
    return true;
}

/* `"key" :`, and the space behind it. */
bool prn_scan_key(struct prn_scan *s, struct prn_scan_string *ret_key);

/* A number as microseconds, in ns; digits beyond that are rounded. A number that doesn't fit is a
 * fault. */
bool prn_scan_microseconds(struct prn_scan *s, int64_t *ret_ns);

/* Any value. */
bool prn_scan_value(struct prn_scan *s);

/* Writes the text that an escaped string stands for, at most `len` bytes; returns how many. NUL and
 * lone surrogates become U+FFFD. */
size_t prn_scan_decode(const struct prn_scan_string *string, char *ret_text);

#endif
