/* Load in the JSON of a profile: results[].load, which only results that were put under load have;
 * and what load is asked for. */
#ifndef PRN_REPORT_LOAD_JSON_H
#define PRN_REPORT_LOAD_JSON_H

#include "format/schema.h"
#include "measure/load/load.h"

extern const struct prn_schema prn_load_schema, prn_load_row_schema;

/* Of enum prn_slo_verdict, of enum prn_load_flag. */
extern const struct prn_name prn_slo_verdict_names[], prn_load_flag_names[];

/* What load is asked for, of a job that is measured elsewhere: {"rates": [100], "workers": 1,
 * "duration_s": 10, "percentile": 0.99, "limit_ns": 2e7}. What is read has passed
 * prn_load_check(). */
PRONY_MUST_CHECK int prn_load_settings_write_json(const struct prn_load_settings *settings,
                                                  struct prn_buffer *out, struct prony_error *err);
PRONY_MUST_CHECK int prn_load_settings_parse_json(const char *text, size_t len,
                                                  struct prn_load_settings *ret_settings,
                                                  struct prony_error *err);

#endif
