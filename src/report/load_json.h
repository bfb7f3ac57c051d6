/* What src/report/profile_write.c and profile_read.c need of a result's load: the value of its key
 * "load", which only results that were put under load have. */
#ifndef PRN_REPORT_LOAD_JSON_H
#define PRN_REPORT_LOAD_JSON_H

#include "format/json_fields.h"
#include "measure/load.h"

void prn_load_write(struct prn_json_writer *w, const struct prn_load *load);

/* NULL when the result has no such key, or after a fault. */
struct prn_load *prn_load_read(struct prn_fields *r, const struct prn_field *result);

/* "holds", "fails", "unsure", by enum prn_slo_verdict. */
extern const char *const prn_slo_verdict_names[PRN_SLO_VERDICT_COUNT];

#endif
