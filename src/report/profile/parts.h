/* Tables (format/schema.h) of records that occur in several reports. Used inside src/report only.
 */
#ifndef PRN_REPORT_PROFILE_PARTS_H
#define PRN_REPORT_PROFILE_PARTS_H

#include "format/json_fields.h"
#include "format/schema.h"

/* {"estimate", "low", "high"}; null when the estimate isn't known. */
extern const struct prn_schema prn_interval_schema;

/* struct prn_sample_stats; an output that was compared with a reference. */
extern const struct prn_schema prn_stats_schema, prn_output_schema;

/* An integer, a dimension, and a text, as entries of arrays. */
extern const struct prn_schema prn_integer_schema, prn_text_schema;

/* Of enum prn_flag, of enum prn_verdict, of PRONY_E…. */
extern const struct prn_name prn_flag_names[], prn_verdict_names[], prn_error_names[];

/* The two members of an error, for a struct that has them as `error_code` and `error`. */
#define PRN_ERROR_MEMBERS                                                         \
    PRN_CHOICE(error_code, prn_error_names, "Name of the error.", .key = "code"), \
        PRN_TEXT(error, "One line.", .key = "message")

/* Writes a text that was composed, and releases it; its failure is the writer's. */
void prn_part_take_text(struct prn_json_writer *w, const char *key, struct prn_buffer *text);

#define PRN_VERDICT_DOC \
    "The sentence that every report begins with: the answer, and how sure it is."

/* Faults a file whose "schema" isn't the wanted one. */
void prn_part_check_schema(struct prn_fields *r, const struct prn_field *top, const char *wanted);

/* Records a fault of a member. */
void prn_part_fault(struct prn_fields *r, const struct prn_field *in, const char *key,
                    const char *what);

#endif
