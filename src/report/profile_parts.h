/* Values that occur in several places of a profile's JSON. Used inside src/report only. */
#ifndef PRN_REPORT_PROFILE_PARTS_H
#define PRN_REPORT_PROFILE_PARTS_H

#include "base/stats.h"
#include "format/json_fields.h"

/* {"estimate", "low", "high"}; null when the estimate isn't known. */
void prn_part_write_interval(struct prn_json_writer *w, const char *key, struct prn_interval i);
struct prn_interval prn_part_read_interval(struct prn_fields *r, const struct prn_field *in,
                                           const char *key);

/* "error": {"code", "message"}; null when the code is 0. */
void prn_part_write_error(struct prn_json_writer *w, int code, const char *message);
/* The message; NULL, and `*ret_code` untouched, when there is none. */
const char *prn_part_read_error(struct prn_fields *r, const struct prn_field *in, int *ret_code);

/* "flags": an array of their names; prn_profile_write_flags() writes it. */
unsigned prn_part_read_flags(struct prn_fields *r, const struct prn_field *in);

#endif
