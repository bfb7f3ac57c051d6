/*
 * Recorded programs in the JSON of a profile: the keys "language", "graphs" and "profiles"
 * (report/profile_json.h has the rest). A profile has them exactly when its "model" is null.
 */
#ifndef PRN_REPORT_RECORDED_JSON_H
#define PRN_REPORT_RECORDED_JSON_H

#include "format/json_fields.h"
#include "measure/profile.h"

/* Adds the keys to the object that is being written, with or without the samples. */
void prn_recorded_write_json(struct prn_json_writer *w, const struct prn_profile *profile,
                             bool samples);

/* Reads them; the results (backends) of the profile have been read already. What contradicts itself
 * is a fault: a footprint other than the graphs of the segments, a graph that isn't listed, results
 * that aren't one per backend, fewer runs than samples. */
void prn_recorded_read_json(struct prn_fields *r, const struct prn_field *top,
                            struct prn_profile *profile);

/* A profile of a model has none of the keys. */
void prn_recorded_refuse_json(struct prn_fields *r, const struct prn_field *top);

/* "c", "python", by enum prn_language and ending in NULL. */
extern const char *const prn_language_names[];

#endif
