/*
 * What goes between a client and the host that measures for it, as JSON: the settings of a job, as
 * prony.profile/1 has them, the load that is asked for, and progress. Neither side trusts the
 * other's text.
 */
#ifndef PRN_REPORT_JOB_JSON_H
#define PRN_REPORT_JOB_JSON_H

#include "format/json_fields.h"
#include "measure/load.h"

/* As a member of an object, or at the top (`key` NULL). */
void prn_settings_write(struct prn_json_writer *w, const char *key,
                        const struct prn_settings *settings);
void prn_settings_read(struct prn_fields *r, const struct prn_field *p,
                       struct prn_settings *settings);

/* Texts belong to `arena`. Ranges are those of the command line. */
PRONY_MUST_CHECK int prn_settings_parse(const char *text, struct prn_arena *arena,
                                        struct prn_settings *ret_settings, struct prony_error *err);

void prn_load_settings_write(struct prn_json_writer *w, const struct prn_load_settings *settings);
PRONY_MUST_CHECK int prn_load_settings_parse(const char *text,
                                             struct prn_load_settings *ret_settings,
                                             struct prony_error *err);

void prn_progress_write(struct prn_json_writer *w, const struct prn_progress *progress);
PRONY_MUST_CHECK int prn_progress_parse(const char *text, struct prn_arena *arena,
                                        struct prn_progress *ret_progress, struct prony_error *err);

#endif
