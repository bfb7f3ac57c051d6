/* What the reports on a check share. Used inside src/report/check only. */
#ifndef PRN_REPORT_CHECK_VIEW_H
#define PRN_REPORT_CHECK_VIEW_H

#include "report/check/report.h"

/* "+8.1 %", "−0.3 %". */
void prn_check_change(double ratio, struct prn_buffer *out);

/* "time of resnet on onnxrt-cpu, batch=8"; without "of resnet" if `model` is NULL. */
void prn_check_subject(const char *model, const struct prn_check_row *row, struct prn_buffer *out);

/* What was found: "+8.1 % (95 %: +7.2 to +9.0 %), limit +3 %". */
void prn_check_finding(const struct prn_check_row *row, struct prn_buffer *out);

/* How far outputs are apart at most: "off by 0.12 %", "equal". */
void prn_check_error(const struct prn_check_row *row, struct prn_buffer *out);

/* "+3 %", "same", or nothing. */
void prn_check_limit(const struct prn_check_row *row, struct prn_buffer *out);

/* The backend without the name of this machine. */
const char *prn_check_backend(const struct prn_check_row *row);

PRONY_MUST_CHECK int prn_check_text(const struct prn_check *check, const struct prn_look *look,
                                    struct prn_buffer *out, struct prony_error *err);
PRONY_MUST_CHECK int prn_check_json(const struct prn_check *check, struct prn_buffer *out,
                                    struct prony_error *err);
PRONY_MUST_CHECK int prn_check_junit(const struct prn_check *check, struct prn_buffer *out,
                                     struct prony_error *err);

#endif
