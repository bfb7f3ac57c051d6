/* The tables of a check. It is written only. */
#include "report/check/view.h"

#include "format/json.h"
#include "report/profile/parts.h"

static const struct prn_name figures[] = {
#define PRN_X(name, text) {PRN_CHECK_FIGURE_##name, text},
    PRN_CHECK_FIGURE_MAP(PRN_X)
#undef PRN_X
        {0, NULL},
};

static const struct prn_name statuses[] = {
#define PRN_X(name, text) {PRN_CHECK_STATUS_##name, text},
    PRN_CHECK_STATUS_MAP(PRN_X)
#undef PRN_X
        {0, NULL},
};

#define PRN_OF struct prn_check_row
static const struct prn_member row_members[] = {
    PRN_TEXT(backend, "The backend; null for what no backend changes.", .flags = PRN_NULL),
    PRN_TEXT(sizes, "What a sweep set; empty without one."),
    PRN_CHOICE(figure, figures, "What is limited."),
    PRN_CHOICE(status, statuses,
               "'regression': beyond the limit, or failing now; 'failed': neither version could be "
               "measured; 'not shown': the data don't say on which side of the limit it is; "
               "'holds'; 'no limit'."),
    PRN_NUMBER(
        limit,
        "How much larger the figure may be, as a fraction; of outputs the error that passes. "
        "Null: none, or of outputs rounding."),
    PRN_NUMBER(before,
               "The old version's figure: median time in ns, peak memory or size in bytes."),
    PRN_NUMBER(after, "The new version's."),
    PRN_INTERVAL(ratio, "after / before, with its 95 % interval."),
    PRN_NUMBER(error, "Of outputs: the largest error, relative to the largest value."),
    PRN_TEXT(reason, "Why it isn't shown or failed.", .flags = PRN_NULL),
};
static const struct prn_schema row_schema =
    PRN_SCHEMA("CheckRow", row_members, "A figure of a model.");
#undef PRN_OF

#define PRN_OF struct prn_check_result
static const struct prn_member result_members[] = {
    PRN_TEXT(name, "What the file calls it."),
    PRN_TEXT(path, "The new version."),
    PRN_TEXT(old, "Where the old version comes from."),
    PRN_BOOL(saved,
             "The old version is a saved profile, so both were measured at different times."),
    PRN_ARRAY(rows, n_rows, &row_schema, "Its figures."),
    PRN_ARRAY(notes, n_notes, &prn_text_schema, "Sentences for the reader."),
};
static const struct prn_schema result_schema =
    PRN_SCHEMA("CheckedModel", result_members, "A model, old and new.");
#undef PRN_OF

static void write_verdict(struct prn_json_writer *w, const char *key, const void *record)
{
    struct prn_buffer verdict = PRN_BUFFER_INIT((size_t)1 << 20);
    prn_check_verdict(record, &verdict);
    prn_part_take_text(w, key, &verdict);
}

static void write_regressed(struct prn_json_writer *w, const char *key, const void *record)
{
    prn_json_bool(w, key, prn_check_regressed(record));
}

#define PRN_OF struct prn_check
static const struct prn_member check_members[] = {
    PRN_CONSTANT("schema", PRN_CHECK_SCHEMA),
    PRN_COMPUTED(TEXT, "verdict", write_verdict, PRN_VERDICT_DOC),
    PRN_COMPUTED(BOOL, "regressed", write_regressed, "The exit status is 3."),
    PRN_BOOL(strict, "--strict: what isn't shown counts as a regression."),
    PRN_INTEGER(counts[PRN_CHECK_STATUS_REGRESSION], "Limits that are broken.",
                .key = "regressions"),
    PRN_INTEGER(counts[PRN_CHECK_STATUS_NOT_SHOWN], "Limits of which nobody knows.",
                .key = "not_shown"),
    PRN_INTEGER(counts[PRN_CHECK_STATUS_FAILED], "Backends that ran neither version.",
                .key = "failed"),
    PRN_INTEGER(counts[PRN_CHECK_STATUS_HOLDS], "Limits that hold.", .key = "held"),
    PRN_TEXT(config, "The file that was read."),
    PRN_TEXT(created, "When it was measured (ISO 8601, UTC).", .flags = PRN_NULL),
    PRN_TEXT(prony_version, "Who measured.", .flags = PRN_NULL),
    PRN_TEXT(cpu, "Processor of the machine.", .flags = PRN_NULL),
    PRN_INTEGER(cores, "Processors that could be used.", .flags = PRN_NULL),
    PRN_ARRAY(results, n_results, &result_schema, "The models.", .key = "models"),
};
const struct prn_schema prn_check_schema = PRN_SCHEMA(
    "Check", check_members,
    "What `prony check --format json` found. Times are in ns. Null stands for what isn't "
    "known. Readers ignore keys that they don't know.");
#undef PRN_OF

int prn_check_json(const struct prn_check *check, struct prn_buffer *out, struct prony_error *err)
{
    return prn_schema_write_json(&prn_check_schema, check, out, err);
}
