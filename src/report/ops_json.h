/* Where the time goes as part of a profile's JSON: results[].ops (profile_json.h). */
#ifndef PRN_REPORT_OPS_JSON_H
#define PRN_REPORT_OPS_JSON_H

#include "format/json_fields.h"
#include "measure/ops.h"

/* Writes the member "ops"; NULL is null. */
void prn_ops_write_json(struct prn_json_writer *w, const struct prn_ops *ops);

/* Reads it; NULL when it is null or absent, or after a fault. */
struct prn_ops *prn_ops_read_json(struct prn_fields *r, const struct prn_field *result);

#endif
