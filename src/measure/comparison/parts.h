/* What the files that make a comparison share. Used inside src/measure/comparison*.c only. */
#ifndef PRN_MEASURE_COMPARISON_PARTS_H
#define PRN_MEASURE_COMPARISON_PARTS_H

#include "measure/comparison/comparison.h"

/* Fills the rows of a file with partners; in the order of the baseline, then what it hasn't. */
PRONY_MUST_CHECK int prn_comparison_match(const struct prn_profile *before,
                                          struct prn_comparison_file *file, struct prn_arena *arena,
                                          struct prony_error *err);

/* Fills the differences, machines_differ and canary_ratio of a file whose rows have partners. */
PRONY_MUST_CHECK int prn_comparison_differ(const struct prn_profile *before,
                                           struct prn_comparison_file *file,
                                           struct prn_arena *arena, struct prony_error *err);

#endif
