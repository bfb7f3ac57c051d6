/* Where the time goes as part of a profile's JSON: results[].ops (report/profile/json.h). */
#ifndef PRN_REPORT_OPS_JSON_H
#define PRN_REPORT_OPS_JSON_H

#include "format/schema.h"

extern const struct prn_schema prn_ops_schema;

#endif
