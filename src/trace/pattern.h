/*
 * Values that are equal but for their numbers. What ONNX Runtime says of its threads is a third of
 * a trace, and only the numbers in it change: a pattern remembers everything else of a valid value,
 * so that the next one is checked by comparing.
 */
#ifndef PRN_TRACE_PATTERN_H
#define PRN_TRACE_PATTERN_H

#include "trace/scan.h"

#define PRN_PATTERN_BYTES 1024
#define PRN_PATTERN_PIECES 64
#define PRN_PATTERNS 4

struct prn_pattern {
    size_t n; /* pieces of text; a number stands between each and the next. 0: no pattern */
    unsigned short begin[PRN_PATTERN_PIECES + 1];
    char text[PRN_PATTERN_BYTES + PRN_SCAN_PADDING];
};

struct prn_patterns {
    struct prn_pattern items[PRN_PATTERNS];
    size_t next; /* to be replaced */
};

/* As prn_scan_value, for an object or array. */
bool prn_patterns_scan(struct prn_patterns *p, struct prn_scan *s);

#endif
