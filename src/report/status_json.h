/* How a service is, as JSON: "prony.status/1", for scripts and for the service's page. */
#ifndef PRN_REPORT_STATUS_JSON_H
#define PRN_REPORT_STATUS_JSON_H

#include "format/schema.h"
#include "record/remote_status.h"

#define PRN_STATUS_SCHEMA "prony.status/1"

extern const struct prn_schema prn_status_schema;

PRONY_MUST_CHECK int prn_status_write_json(const struct prn_remote_status *status,
                                           struct prn_buffer *out, struct prony_error *err);

/* What users had. */
#define PRN_USAGE_SCHEMA "prony.usage/1"

extern const struct prn_schema prn_usage_schema;

PRONY_MUST_CHECK int prn_usage_write_json(const struct prn_remote_usage *usage,
                                          struct prn_buffer *out, struct prony_error *err);

#endif
