/* Shows recorded programs: the options of `prony report` that only they have. */
#ifndef PRN_CLI_RECORDED_H
#define PRN_CLI_RECORDED_H

#include "cli/command.h"
#include "cli/output.h"
#include "report/recorded/report.h"

#define PRN_LAYOUT_UNSET (-1)

struct prn_recorded_options {
    int layout; /* enum prn_recorded_layout, or PRN_LAYOUT_UNSET */
    bool verbose;
    const char *details; /* folder; NULL: none */
};

/* Fails when the options don't go with the profile, read from `name` (NULL: several are
 * compared), or with the format. */
PRONY_MUST_CHECK int prn_recorded_check(const struct prn_recorded_options *o,
                                        const struct prn_profile *profile, const char *name,
                                        enum prn_report_format format, struct prony_error *err);

/* Reports a recorded program to `path`, as prn_output_profile() does, in text or Markdown. Details
 * are written first; the report names their files. */
PRONY_MUST_CHECK int prn_recorded_output(const char *path, const struct prn_profile *profile,
                                         const struct prn_recorded_options *o,
                                         const struct prn_look *look, struct prony_error *err);

#endif
