/*
 * A profile for people and for other programs: the text and Markdown reports, CSV, the JSON of
 * json.h, and a page (report/page.h). A report shows what the profile holds and computes nothing
 * anew but units, rates and costs, so a saved profile gives the same report as a fresh one.
 */
#ifndef PRN_REPORT_PROFILE_REPORT_H
#define PRN_REPORT_PROFILE_REPORT_H

#include "base/buffer.h"
#include "measure/profile.h"
#include "report/look.h"

enum prn_report_format {
    PRN_REPORT_FORMAT_TEXT,
    PRN_REPORT_FORMAT_JSON,
    PRN_REPORT_FORMAT_CSV,
    PRN_REPORT_FORMAT_MARKDOWN,
    PRN_REPORT_FORMAT_HTML,
};

/* As options name them, in the order of the enum and ending in NULL. */
extern const char *const prn_report_formats[];

/* What CSV shows: results, where their time goes (measure/ops/ops.h), or how they behave under load
 * (measure/load/load.h). */
enum prn_report_table {
    PRN_REPORT_TABLE_RESULTS,
    PRN_REPORT_TABLE_LEDGER,
    PRN_REPORT_TABLE_OPERATORS,
    PRN_REPORT_TABLE_NODES,
    PRN_REPORT_TABLE_KERNELS,
    PRN_REPORT_TABLE_DIFFERENCES,
    PRN_REPORT_TABLE_LOAD,
    PRN_REPORT_TABLE_TRIALS,
};

/* As options name them, in the order of the enum and ending in NULL. */
extern const char *const prn_report_tables[];

/* Most that a report may take; callers give it to their buffer. */
#define PRN_REPORT_MAX ((size_t)1 << 30)

/* `look` is for text and Markdown; NULL: as a file has it. */
PRONY_MUST_CHECK int prn_profile_report(const struct prn_profile *profile,
                                        enum prn_report_format format, const struct prn_look *look,
                                        struct prn_buffer *out, struct prony_error *err);

/* One table as CSV: every row, exact. */
PRONY_MUST_CHECK int prn_profile_report_csv(const struct prn_profile *profile,
                                            enum prn_report_table table, struct prn_buffer *out,
                                            struct prony_error *err);

/* The verdict of a profile's JSON and the medians of its rows, as a small JSON object; nothing of a
 * recorded program. Texts are cut to what a list has room for. */
#define PRN_SUMMARY_MAX ((size_t)64 << 10)
PRONY_MUST_CHECK int prn_profile_summary(const char *json, size_t len, struct prn_buffer *out,
                                         struct prony_error *err);

#endif
