/*
 * Recorded programs in the JSON of a profile: the keys "language", "graphs" and "profiles"
 * (report/profile/json.h has the rest). A profile has them exactly when its "model" is null.
 */
#ifndef PRN_REPORT_RECORDED_JSON_H
#define PRN_REPORT_RECORDED_JSON_H

#include "format/json_fields.h"
#include "format/schema.h"

/* Of struct prn_profile, like the rest. */
extern const struct prn_schema prn_recorded_schema;

/* Reads them when there is no model, and refuses them when there is one; the results (backends) of
 * the profile have been read already. What contradicts itself is a fault: a footprint other than
 * the graphs of the segments, a graph that isn't listed, results that aren't one per backend, fewer
 * runs than samples. */
void prn_recorded_read(struct prn_fields *r, const struct prn_field *top, void *profile);

#endif
