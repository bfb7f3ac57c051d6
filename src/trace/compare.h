/*
 * Two traces side by side. The unit is the run: a row compares the medians over runs of the time
 * that one operator, node or kernel takes in a run. Each trace is one process, and how two
 * processes of one program differ can't be seen in it: a difference must be larger than that, and
 * nothing is called the same.
 */
#ifndef PRN_TRACE_COMPARE_H
#define PRN_TRACE_COMPARE_H

#include "trace/trace.h"

/* Runs that each side needs before a difference is called one. */
#define PRN_TRACE_COMPARE_RUNS_MIN 5

enum prn_trace_verdict {
    PRN_TRACE_NOT_SHOWN, /* that they differ by more than two processes of one program may */
    PRN_TRACE_SLOWER,
    PRN_TRACE_FASTER,
    PRN_TRACE_ONLY_A,
    PRN_TRACE_ONLY_B,
    PRN_TRACE_TOO_FEW_RUNS,
};

struct prn_trace_difference {
    const struct prn_trace_key *key;     /* NULL: the whole run */
    const struct prn_trace_group *a, *b; /* NULL: doesn't occur there */
    double median_a_ns, median_b_ns;     /* per run */
    struct prn_interval ratio;           /* b / a */
    double p;                            /* two-sided, after Holm's correction; NAN: none */
    enum prn_trace_verdict verdict;
};

/* The tables that are compared: both of CPU times, and that of GPU kernels. */
#define PRN_TRACE_COMPARED_GPU 2
#define PRN_TRACE_COMPARED 3

struct prn_trace_comparison {
    struct prn_trace_difference run; /* model_run as a whole; not among the corrected */
    bool has_run;
    struct prn_trace_difference *rows[PRN_TRACE_COMPARED]; /* largest difference first */
    size_t n[PRN_TRACE_COMPARED];
};

/* Both traces were read with the same options, and outlive the comparison. */
PRONY_MUST_CHECK int prn_trace_compare(const struct prn_trace *a, const struct prn_trace *b,
                                       struct prn_trace_comparison *ret_comparison,
                                       struct prony_error *err);
void prn_trace_comparison_release(struct prn_trace_comparison *c);

/* How much larger the longer side of a row must be to count as longer, as a fraction. */
double prn_trace_smallest_difference(const struct prn_trace_difference *row);

const char *prn_trace_verdict_name(enum prn_trace_verdict verdict);

#endif
