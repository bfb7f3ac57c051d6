#include "report/progress_json.h"

#include "format/json_fields.h"
#include "format/schema.h"

#include <string.h>

#define PRN_OF struct prn_progress
static const struct prn_member members[] = {
    PRN_TEXT(backend, NULL),
    PRN_TEXT(point, NULL),
    PRN_TEXT(phase, NULL),
    PRN_INTEGER(row, NULL, .max = PRN_RESULTS_MAX),
    PRN_INTEGER(rows, NULL, .max = PRN_RESULTS_MAX),
    PRN_INTEGER(launch, NULL),
    PRN_INTEGER(launches, NULL),
    PRN_INTEGER(samples, NULL),
    PRN_NUMBER(median_ns, NULL),
    PRN_NUMBER(half_width, NULL),
    PRN_NUMBER(elapsed_s, NULL),
};
static const struct prn_schema schema = PRN_SCHEMA("Progress", members, NULL);
#undef PRN_OF

int prn_progress_write_json(const struct prn_progress *p, struct prn_buffer *out,
                            struct prony_error *err)
{
    return prn_schema_write_json(&schema, p, out, err);
}

int prn_progress_parse_json(const char *text, struct prn_arena *arena,
                            struct prn_progress *ret_progress, struct prony_error *err)
{
    struct prn_fields r = {.name = "progress", .what = "measurement", .arena = arena, .err = err};
    return prn_schema_parse_json(&r, text, strlen(text), &schema, ret_progress);
}
