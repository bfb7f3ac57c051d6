/* The JSON Schemas of reports, docs/prony.….schema.json, made of the tables that write them. */
#ifndef PRN_REPORT_SCHEMAS_H
#define PRN_REPORT_SCHEMAS_H

#include "format/schema.h"

/* Appends the schema of that file name; PRONY_ENOENT when there is none. */
PRONY_MUST_CHECK int prn_report_schema(const char *file, struct prn_buffer *out,
                                       struct prony_error *err);

#endif
