/*
 * A comparison of profiles for people and for other programs: text and Markdown, CSV with one row
 * per row of the comparison, and JSON under the schema prony.profile-comparison/1
 * (docs/prony.profile-comparison.schema.json).
 */
#ifndef PRN_REPORT_COMPARISON_REPORT_H
#define PRN_REPORT_COMPARISON_REPORT_H

#include "measure/comparison/comparison.h"
#include "report/profile/report.h"

#define PRN_COMPARISON_SCHEMA "prony.profile-comparison/1"

PRONY_MUST_CHECK int prn_comparison_report(const struct prn_comparison *comparison,
                                           enum prn_report_format format,
                                           const struct prn_look *look, struct prn_buffer *out,
                                           struct prony_error *err);

/* One line on the regressions, of which there is at least one: the first few of them, and how many
 * there are beside. */
PRONY_MUST_CHECK int prn_comparison_regressions(const struct prn_comparison *comparison,
                                                struct prn_buffer *out, struct prony_error *err);

/* Its table, from which docs/prony.profile-comparison.schema.json comes. */
extern const struct prn_schema prn_comparison_schema;

#endif
