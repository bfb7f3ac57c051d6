/* `prony report` with several files: options of the comparison, and what it does. */
#ifndef PRN_CLI_COMPARISON_H
#define PRN_CLI_COMPARISON_H

#include "cli/command.h"
#include "cli/output.h"
#include "measure/comparison/comparison.h"

#include <stdbool.h>

struct prn_comparison_options {
    const char *baseline;
    double fail_over; /* NAN: not given */
    bool force;
};

/* Compares the files with the baseline, or else with the first of them, and writes the report to
 * `output`. Returns also PRN_OUTCOME_REGRESSION. */
PRONY_MUST_CHECK int prn_comparison_run(const struct prn_comparison_options *options,
                                        const struct prn_strings *files,
                                        enum prn_report_format format, const struct prn_look *look,
                                        const char *output, struct prony_error *err);

/* The same of profiles that were read already, the baseline first. */
PRONY_MUST_CHECK int prn_comparison_show(const struct prn_comparison_options *options,
                                         const struct prn_comparison_side *sides, size_t n,
                                         enum prn_report_format format, const struct prn_look *look,
                                         const char *output, struct prony_error *err);

/* Whether there is something to compare; fails when there isn't, but options ask for it. */
PRONY_MUST_CHECK int prn_comparison_wanted(const struct prn_comparison_options *options,
                                           const struct prn_strings *files, bool *ret_wanted,
                                           struct prony_error *err);

#endif
