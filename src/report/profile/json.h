/*
 * Profiles as JSON, schema "prony.profile/1" (docs/prony.profile.schema.json, docs/report.md).
 *
 * What is written reads back to the same profile, and that writes the same bytes: numbers in full
 * precision, null for what isn't known. The reader trusts nothing; a fault names the place in the
 * file ("results[1].stats.median_ns"). Keys that it doesn't know are ignored, so that a later prony
 * may add some under the same schema.
 */
#ifndef PRN_REPORT_PROFILE_JSON_H
#define PRN_REPORT_PROFILE_JSON_H

#include "measure/profile.h"

#include "base/buffer.h"

#define PRN_PROFILE_SCHEMA "prony.profile/1"

/* Largest file that is read. */
#define PRN_PROFILE_FILE_MAX ((size_t)512 << 20)

PRONY_MUST_CHECK int prn_profile_write_json(const struct prn_profile *profile,
                                            struct prn_buffer *out, struct prony_error *err);

/* The same without the samples: for a page, which has pictures of them. */
PRONY_MUST_CHECK int prn_profile_write_figures(const struct prn_profile *profile,
                                               struct prn_buffer *out, struct prony_error *err);

/* `path` may be "-" for standard input. */
PRONY_MUST_CHECK int prn_profile_read_json(const char *path, struct prn_profile **ret_profile,
                                           struct prony_error *err);

/* The same from memory; `name` is for errors. */
PRONY_MUST_CHECK int prn_profile_parse_json(const char *text, size_t len, const char *name,
                                            struct prn_profile **ret_profile,
                                            struct prony_error *err);

/* Settings alone, as the member "settings" has them: for a job that is measured elsewhere. Texts
 * belong to `arena`. */
PRONY_MUST_CHECK int prn_settings_write_json(const struct prn_settings *settings,
                                             struct prn_buffer *out, struct prony_error *err);
PRONY_MUST_CHECK int prn_settings_parse_json(const char *text, size_t len, struct prn_arena *arena,
                                             struct prn_settings *ret_settings,
                                             struct prony_error *err);

/* The table of a profile, from which come its JSON and docs/prony.profile.schema.json. */
extern const struct prn_schema prn_profile_schema;

#endif
