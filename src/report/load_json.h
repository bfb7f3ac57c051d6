/* What src/report/profile_write.c and profile_read.c need of a result's load: the value of its key
 * "load", which only results that were put under load have. */
#ifndef PRN_REPORT_LOAD_JSON_H
#define PRN_REPORT_LOAD_JSON_H

#include "format/json_fields.h"
#include "measure/load.h"

void prn_load_write(struct prn_json_writer *w, const struct prn_load *load);

/* NULL when the result has no such key, or after a fault. */
struct prn_load *prn_load_read(struct prn_fields *r, const struct prn_field *result);

/* What load is asked for, of a job that is measured elsewhere: {"rates": [100], "workers": 1,
 * "duration_s": 10, "percentile": 0.99, "limit_ns": 2e7}. What is read has passed
 * prn_load_check(). */
PRONY_MUST_CHECK int prn_load_settings_write_json(const struct prn_load_settings *settings,
                                                  struct prn_buffer *out, struct prony_error *err);
PRONY_MUST_CHECK int prn_load_settings_parse_json(const char *text, size_t len,
                                                  struct prn_load_settings *ret_settings,
                                                  struct prony_error *err);

/* "holds", "fails", "unsure", by enum prn_slo_verdict. */
extern const char *const prn_slo_verdict_names[PRN_SLO_VERDICT_COUNT];

#endif
