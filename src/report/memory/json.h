/* Where the memory goes, as a part of a profile's JSON. */
#ifndef PRN_REPORT_MEMORY_JSON_H
#define PRN_REPORT_MEMORY_JSON_H

#include "format/schema.h"

extern const struct prn_schema prn_memory_schema;

#endif
