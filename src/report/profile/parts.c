#include "report/profile/parts.h"

#include "measure/profile.h"

#include <string.h>

const struct prn_name prn_flag_names[] = {
#define PRN_X(name, bit, text) {bit, #name},
    PRN_FLAG_MAP(PRN_X)
#undef PRN_X
        {0, NULL},
};

const struct prn_name prn_verdict_names[] = {
    {PRN_VERDICT_NONE, "none"},     {PRN_VERDICT_SAME, "same"},     {PRN_VERDICT_FASTER, "faster"},
    {PRN_VERDICT_SLOWER, "slower"}, {PRN_VERDICT_UNSURE, "unsure"}, {0, NULL},
};

const struct prn_name prn_error_names[] = {
#define PRONY_X(symbol, number, text) {number, "PRONY_" #symbol},
    PRONY_ERROR_MAP(PRONY_X)
#undef PRONY_X
        {0, NULL},
};

#define PRN_OF struct prn_interval
static const struct prn_member interval_members[] = {
    PRN_NUMBER(estimate, "What was seen."),
    PRN_NUMBER(low, "Lower end."),
    PRN_NUMBER(high, "Upper end."),
};
const struct prn_schema prn_interval_schema =
    PRN_SCHEMA("Interval", interval_members, "A figure with its 95 % interval.");
#undef PRN_OF

#define PRN_OF struct prn_sample_stats
static const struct prn_member stats_members[] = {PRN_STATS_LIST(PRN_DESCRIBE)};
const struct prn_schema prn_stats_schema =
    PRN_SCHEMA("Stats", stats_members, "Statistics of samples.");
#undef PRN_OF

#define PRN_OF struct prn_output_check
static const struct prn_member output_members[] = {PRN_OUTPUT_LIST(PRN_DESCRIBE)};
const struct prn_schema prn_output_schema =
    PRN_SCHEMA("Output", output_members, "An output compared with the reference's.");
#undef PRN_OF

#define PRN_OF int64_t
static const struct prn_member integer_members[] = {PRN_BARE(INTEGER, int64_t, NULL)};
const struct prn_schema prn_integer_schema = PRN_SCHEMA(NULL, integer_members, NULL);
#undef PRN_OF

#define PRN_OF const char *
static const struct prn_member text_members[] = {PRN_BARE(TEXT, const char *, NULL)};
const struct prn_schema prn_text_schema = PRN_SCHEMA(NULL, text_members, NULL);
#undef PRN_OF

void prn_part_fault(struct prn_fields *r, const struct prn_field *in, const char *key,
                    const char *what)
{
    struct prn_field p = prn_field_member(in, key);
    prn_field_fault(r, &p, what);
}

void prn_part_take_text(struct prn_json_writer *w, const char *key, struct prn_buffer *text)
{
    prn_json_text(w, key, prn_buffer_text(text));
    if (text->error && !w->out->error)
        w->out->error = text->error;
    prn_buffer_release(text);
}

void prn_part_check_schema(struct prn_fields *r, const struct prn_field *top, const char *wanted)
{
    const char *schema = json_string_value(json_object_get(top->value, "schema"));
    size_t family = strcspn(wanted, "/") + 1;
    if (schema && strcmp(schema, wanted) == 0)
        return;
    if (!schema)
        r->code = prn_fail(r->err, PRONY_EFORMAT,
                           "'%s' is not a %s: it is JSON without a \"schema\"", r->name, r->what);
    else if (strncmp(schema, wanted, family) == 0)
        r->code = prn_fail(r->err, PRONY_EUNSUPPORTED,
                           "'%s' has schema '%.40s', but prony %s reads '%s': use a newer prony",
                           r->name, schema, prony_version(), wanted);
    else
        r->code =
            prn_fail(r->err, PRONY_EFORMAT, "'%s' is not a %s: its schema is '%.40s', not '%s'",
                     r->name, r->what, schema, wanted);
}
