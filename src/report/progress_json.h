/* Progress of a measurement as JSON, from the host that measures to the client that shows it. */
#ifndef PRN_REPORT_PROGRESS_JSON_H
#define PRN_REPORT_PROGRESS_JSON_H

#include "base/buffer.h"
#include "measure/measure.h"

PRONY_MUST_CHECK int prn_progress_write_json(const struct prn_progress *progress,
                                             struct prn_buffer *out, struct prony_error *err);

/* Trusts nothing. Texts belong to `arena`. */
PRONY_MUST_CHECK int prn_progress_parse_json(const char *text, struct prn_arena *arena,
                                             struct prn_progress *ret_progress,
                                             struct prony_error *err);

#endif
