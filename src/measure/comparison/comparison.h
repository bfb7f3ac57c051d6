/*
 * Saved profiles against a baseline.
 *
 * - Results are partners when they have the same backend (hardware, software, and options as a map)
 *   and were fed inputs of the same names, types and shapes. Of several equal ones the n-th is the
 *   partner of the n-th. A result without a partner has a row of its own.
 * - Nothing pairs the samples of two files: they were measured at different times. The ratio is one
 *   of medians, and the units of its interval are launches (prn_ratio_unpaired).
 * - A difference is called one when its interval clears the smallest difference that counts and its
 *   p, after Holm's correction over all rows of all files, is below PRN_COMPARISON_LEVEL.
 * - Across machines nothing is called a difference unless that is forced. When the canary of the
 * two files differs, the machine wasn't in the same state, and only a difference larger than the
 *   canary's is called one.
 *
 *     struct prn_comparison *c;
 *     code = prn_compare(&before, after, n, &options, &c, err);
 *     …
 *     prn_comparison_free(c);
 */
#ifndef PRN_MEASURE_COMPARISON_H
#define PRN_MEASURE_COMPARISON_H

#include "base/buffer.h"
#include "measure/measure.h"

#define PRN_COMPARISON_LEVEL 0.05

/* Canaries of one machine in the same state differ by less. */
#define PRN_CANARY_SHIFT 0.03

/* What became of a row, in the order in which rows are told. */
#define PRN_CHANGE_MAP(X)                                                        \
    X(FAILS, "fails now")     /* was measured, and is not any more */            \
    X(MISSING, "only before") /* has no partner in the file */                   \
    X(SLOWER, "slower")                                                          \
    X(FASTER, "faster")                                                          \
    X(MACHINES, "machines differ") /* so nobody can say */                       \
    X(UNSURE, "unsure")            /* more launches would tell */                \
    X(SAME, "same")                /* interval inside the smallest difference */ \
    X(WORKS, "works now")          /* was not measured, and is now */            \
    X(ADDED, "only after")         /* has no partner in the baseline */          \
    X(NEITHER, "measured in neither")

enum prn_change {
#define PRN_X(name, text) PRN_CHANGE_##name,
    PRN_CHANGE_MAP(PRN_X)
#undef PRN_X
        PRN_CHANGE_COUNT,
};
extern const char *const prn_change_names[PRN_CHANGE_COUNT];

/* What is compared beside the time: one value per launch. */
#define PRN_FIGURE_MAP(X)                   \
    X(LOAD, load_ns, "Load")                \
    X(FIRST_RUN, first_run_ns, "First run") \
    X(PEAK, peak_bytes, "Peak memory")

enum prn_figure {
#define PRN_X(name, field, title) PRN_FIGURE_##name,
    PRN_FIGURE_MAP(PRN_X)
#undef PRN_X
        PRN_FIGURE_COUNT,
};

/* A figure of both sides: `a` is after, `b` before. */
struct prn_compared {
    struct prn_unpaired ratio;
    double p_holm; /* of the time, over all times; of the others, over all others */
    bool differs;  /* the interval and p_holm both say so */
};

struct prn_comparison_row {
    const struct prn_result *before, *after; /* at most one is NULL */
    size_t ordinal;                          /* among equal ones, from 1; 0 when there is one */
    enum prn_change change;
    bool regression; /* slower by more than was allowed, failing now, or missing */
    struct prn_compared time;
    struct prn_compared figures[PRN_FIGURE_COUNT];
};

/* In what two files differ, apart from their results. */
#define PRN_DIFFERENCE_MAP(X)               \
    X(CPU, "cpu")                           \
    X(CORES, "cores")                       \
    X(CANARY, "canary")                     \
    X(LOAD, "load")                         \
    X(MEMORY, "memory")                     \
    X(OS, "os")                             \
    X(KERNEL, "kernel")                     \
    X(SANDBOX, "sandbox")                   \
    X(MODEL, "model")                       \
    X(MODEL_BYTES, "model_bytes")           \
    X(MODEL_PARAMETERS, "model_parameters") \
    X(BACKEND, "backend")                   \
    X(RUNTIME, "runtime")                   \
    X(LIBRARY, "library")                   \
    X(PRONY, "prony_version")

enum prn_difference_kind {
#define PRN_X(name, text) PRN_DIFFERENCE_##name,
    PRN_DIFFERENCE_MAP(PRN_X)
#undef PRN_X
        PRN_DIFFERENCE_COUNT,
};
extern const char *const prn_difference_names[PRN_DIFFERENCE_COUNT];

struct prn_difference {
    enum prn_difference_kind kind;
    const char *before, *after; /* as people read it; NULL: not known */
};

struct prn_comparison_side {
    const char *name; /* of the file */
    const struct prn_profile *profile;
};

struct prn_comparison_file {
    struct prn_comparison_side after;
    bool machines_differ;
    double canary_ratio;        /* after over before; NAN when one isn't known */
    double smallest_difference; /* that counts: the larger of both files' */
    double must_clear;          /* what a difference has to exceed: that, or the canary's shift */
    size_t n_rows, n_differences;
    struct prn_comparison_row *rows; /* what matters first */
    struct prn_difference *differences;
    size_t counts[PRN_CHANGE_COUNT];
};

struct prn_compare_options {
    bool force;       /* judge across machines and states */
    double fail_over; /* a row slower by more than this fraction is a regression; NAN: none is */
};

struct prn_comparison {
    struct prn_arena arena;
    struct prn_comparison_side before;
    struct prn_compare_options options;
    size_t n_files;
    struct prn_comparison_file *files;
    size_t n_tested; /* times with a p, which Holm's correction is over */
    size_t n_regressions;
};

/* Why a row can't be held against a limit, where an answer is wanted and not silence. */
enum prn_unjudged {
    PRN_JUDGED,
    PRN_UNJUDGED_MACHINES, /* they differ */
    PRN_UNJUDGED_UNITS,    /* too few launches and blocks for any interval */
    PRN_UNJUDGED_STATE,    /* beyond the limit, but the canary's shift might explain it */
};
enum prn_unjudged prn_comparison_unjudged(const struct prn_comparison *c,
                                          const struct prn_comparison_file *file,
                                          const struct prn_comparison_row *row);

/* Appends what makes results of different profiles partners: backend and inputs, as a text that is
 * good for nothing but to be equal. The model isn't in it. */
PRONY_MUST_CHECK int prn_comparison_key(const struct prn_profile *profile,
                                        const struct prn_result *result, struct prn_buffer *out,
                                        struct prony_error *err);

/* The profiles are borrowed and must outlive the comparison. Recorded programs are refused. */
PRONY_MUST_CHECK int prn_compare(const struct prn_comparison_side *before,
                                 const struct prn_comparison_side *after, size_t n_after,
                                 const struct prn_compare_options *options,
                                 struct prn_comparison **ret_comparison, struct prony_error *err);
void prn_comparison_free(struct prn_comparison *c);

#endif
