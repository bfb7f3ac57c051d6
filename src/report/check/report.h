/*
 * A check for people (text, and Markdown for a comment) and for programs: JSON under the schema
 * prony.check/1 (docs/prony.check.schema.json), and JUnit's XML with a case for each limit.
 */
#ifndef PRN_REPORT_CHECK_REPORT_H
#define PRN_REPORT_CHECK_REPORT_H

#include "measure/check/check.h"
#include "report/look.h"

#define PRN_CHECK_SCHEMA "prony.check/1"

enum prn_check_format {
    PRN_CHECK_FORMAT_TEXT,
    PRN_CHECK_FORMAT_MARKDOWN,
    PRN_CHECK_FORMAT_JSON,
    PRN_CHECK_FORMAT_JUNIT,
};

/* `look` is for text and Markdown. */
PRONY_MUST_CHECK int prn_check_report(const struct prn_check *check, enum prn_check_format format,
                                      const struct prn_look *look, struct prn_buffer *out,
                                      struct prony_error *err);

/* The sentence that it begins with. */
void prn_check_verdict(const struct prn_check *check, struct prn_buffer *out);

extern const struct prn_schema prn_check_schema;

#endif
