/* The tables of a comparison. It is written only; the views are what rows come to. */
#include "report/comparison/view.h"

#include "format/json.h"
#include "report/comparison/report.h"
#include "report/profile/parts.h"
#include "report/verdict.h"

/* ---- Rows ---- */

#define PRN_OF struct prn_compared
static const struct prn_member compared_members[] = {
    PRN_NUMBER(ratio.b, "In the baseline.", .key = "before"),
    PRN_NUMBER(ratio.a, "In the file.", .key = "after"),
    PRN_NUMBER(ratio.ratio.estimate, "after / before.", .key = "ratio"),
    PRN_NUMBER(ratio.ratio.low, "Low end of its 95 % interval.", .key = "ratio_low"),
    PRN_NUMBER(ratio.ratio.high,
               "High end of its 95 % interval; null when there are too few units for one.",
               .key = "ratio_high"),
    PRN_NUMBER(ratio.p, "Of there being no difference, two-sided; null: not tested.", .key = "p"),
    PRN_NUMBER(p_holm,
               "The same after Holm's correction: over all times, or over all other figures."),
    PRN_BOOL(differs, "The interval clears what it must, and p_holm is below 0.05."),
};
static const struct prn_schema compared_schema =
    PRN_SCHEMA("Compared", compared_members, "A figure in both files.");
#undef PRN_OF

#define PRN_OF struct prn_comparison_pair
static const struct prn_member pair_members[] = {
    PRN_NUMBER(before, "In the baseline."),
    PRN_NUMBER(after, "In the file."),
};
static const struct prn_schema pair_schema =
    PRN_SCHEMA("Pair", pair_members, "A figure that follows from others, in both files.");
#undef PRN_OF

#define PRN_OF struct prn_result
static const struct prn_member result_members[] = {
    PRN_TEXT(name, "The backend."),
    PRN_TEXT(processor, "Its processor.", .flags = PRN_NULL),
    PRN_TEXT(runtime_version, "Null when it never started.", .flags = PRN_NULL),
    PRN_TEXT(runtime_library, "File of the runtime.", .key = "library", .flags = PRN_NULL),
    PRN_INTEGER(n_launches, "Processes.", .key = "launches"),
    PRN_INTEGER(n_samples, "Timed runs.", .key = "samples"),
    PRN_FLAGS(flags, prn_flag_names, "What is wrong with it."),
    PRN_TEXT(error, "Why it failed.", .flags = PRN_NULL),
};
static const struct prn_schema result_schema =
    PRN_SCHEMA("ComparedResult", result_members, "A result of one file.");
#undef PRN_OF

static const struct prn_name changes[] = {
#define PRN_X(name, text) {PRN_CHANGE_##name, text},
    PRN_CHANGE_MAP(PRN_X)
#undef PRN_X
        {0, NULL},
};

struct row {
    const char *backend, *sizes, *unit;
    struct prn_comparison_pair inferences_per_s, usd_per_million;
    const struct prn_comparison_row *row;
};

#define PRN_OF struct prn_comparison_row
static const struct prn_member verdict_members[] = {
    PRN_CHOICE(change, changes, "What became of it.", .key = "verdict"),
    PRN_BOOL(regression, "With --fail-over: slower by more than that, failing now, or missing."),
};
static const struct prn_schema verdict_schema = PRN_SCHEMA(NULL, verdict_members, NULL);
static const struct prn_member figure_members[] = {
    PRN_OBJECT(time, &compared_schema, "Median of all timed runs.", .key = "time_ns"),
    PRN_OBJECT(figures[PRN_FIGURE_LOAD], &compared_schema,
               "Opening the model: median over launches.", .key = "load_ns"),
    PRN_OBJECT(figures[PRN_FIGURE_FIRST_RUN], &compared_schema, "First run: median over launches.",
               .key = "first_run_ns"),
    PRN_OBJECT(figures[PRN_FIGURE_PEAK], &compared_schema,
               "Most memory that was resident in a launch.", .key = "peak_bytes"),
};
static const struct prn_schema figure_schema = PRN_SCHEMA(NULL, figure_members, NULL);
static const struct prn_member both_members[] = {
    PRN_OBJECT(before, &result_schema, "The result of the baseline.",
               .flags = PRN_NULL | PRN_POINTER),
    PRN_OBJECT(after, &result_schema, "The result of the file.", .flags = PRN_NULL | PRN_POINTER),
};
static const struct prn_schema both_schema = PRN_SCHEMA(NULL, both_members, NULL);
#undef PRN_OF

#define PRN_OF struct row
static const struct prn_member row_members[] = {
    PRN_TEXT(backend, "The backend as the file calls it, or else the baseline; ' #2' after it "
                      "tells equal ones apart."),
    PRN_TEXT(sizes, "What it was fed: the label of a sweep, or the shape of the first input."),
    PRN_INLINE_POINTER(row, &verdict_schema),
    PRN_TEXT(unit,
             "What the interval of the time is taken over, 'launch' or 'block'; null "
             "without a ratio.",
             .flags = PRN_NULL),
    PRN_INLINE_POINTER(row, &figure_schema),
    PRN_OBJECT(inferences_per_s, &pair_schema, "Throughput."),
    PRN_OBJECT(usd_per_million, &pair_schema, "Cost of a million requests."),
    PRN_INLINE_POINTER(row, &both_schema),
};
static const struct prn_schema row_schema =
    PRN_SCHEMA("ComparisonRow", row_members, "A backend in both files.");
#undef PRN_OF

/* ---- Files ---- */

#define PRN_OF struct prn_environment
static const struct prn_member cpu_members[] = {PRN_TEXT(cpu, "Processor.", .flags = PRN_NULL)};
static const struct prn_schema cpu_schema = PRN_SCHEMA(NULL, cpu_members, NULL);
#undef PRN_OF

#define PRN_OF struct prn_profile_model
static const struct prn_member model_members[] = {
    PRN_TEXT(path, "Path of the model.", .key = "model", .flags = PRN_NULL)};
static const struct prn_schema model_schema = PRN_SCHEMA(NULL, model_members, NULL);
#undef PRN_OF

#define PRN_OF struct prn_profile
static const struct prn_member profile_members[] = {
    PRN_TEXT(created, "When it was measured (ISO 8601, UTC).", .flags = PRN_NULL),
    PRN_TEXT(prony_version, "Who measured.", .flags = PRN_NULL),
    PRN_INLINE_POINTER(models, &model_schema),
    PRN_INLINE(environment, &cpu_schema),
    PRN_NUMBER(canary_best_ns, "Shortest time of the canary, a fixed piece of work."),
};
static const struct prn_schema profile_schema = PRN_SCHEMA(NULL, profile_members, NULL);
#undef PRN_OF

#define PRN_OF struct prn_comparison_side
static const struct prn_member side_members[] = {
    PRN_TEXT(name, "The file, or 'standard input'.", .key = "file"),
    PRN_INLINE_POINTER(profile, &profile_schema),
};
static const struct prn_schema side_schema = PRN_SCHEMA("Side", side_members, "A file.");
#undef PRN_OF

static const struct prn_name differences[] = {
#define PRN_X(name, text) {PRN_DIFFERENCE_##name, text},
    PRN_DIFFERENCE_MAP(PRN_X)
#undef PRN_X
        {0, NULL},
};

#define PRN_OF struct prn_difference
static const struct prn_member difference_members[] = {
    PRN_CHOICE(kind, differences, "In what.", .key = "what"),
    PRN_TEXT(before, "As people read it.", .flags = PRN_NULL),
    PRN_TEXT(after, "As people read it.", .flags = PRN_NULL),
};
static const struct prn_schema difference_schema =
    PRN_SCHEMA("Difference", difference_members, "In what files differ.");
#undef PRN_OF

struct file {
    const struct prn_comparison *comparison;
    const struct prn_comparison_file *file;
    size_t index;
};

/* A row's texts are made for it alone. */
static void write_row(struct prn_json_writer *w, const struct prn_comparison_view *view,
                      const struct prn_comparison_row *row)
{
    struct prn_buffer backend = PRN_BUFFER_INIT((size_t)1 << 20);
    struct prn_buffer sizes = PRN_BUFFER_INIT((size_t)1 << 20);
    prn_comparison_name(row, &backend);
    prn_comparison_sizes(view, row, &sizes);
    struct row r = {.backend = prn_buffer_text(&backend),
                    .sizes = prn_buffer_text(&sizes),
                    .unit = prn_comparison_unit(row),
                    .inferences_per_s = prn_comparison_rates(view, row),
                    .usd_per_million = prn_comparison_costs(view, row),
                    .row = row};
    prn_schema_write(w, NULL, &row_schema, &r);
    int error = backend.error ? backend.error : sizes.error;
    if (error && !w->out->error)
        w->out->error = error;
    prn_buffer_release(&backend);
    prn_buffer_release(&sizes);
}

static void write_file_verdict(struct prn_json_writer *w, const char *key, const void *record)
{
    const struct file *f = record;
    struct prn_comparison_view view = prn_comparison_view(f->comparison, f->index);
    struct prn_buffer verdict = PRN_BUFFER_INIT((size_t)1 << 20);
    prn_comparison_file_verdict(&view, &verdict);
    prn_part_take_text(w, key, &verdict);
}

static void write_rows(struct prn_json_writer *w, const char *key, const void *record)
{
    const struct file *f = record;
    struct prn_comparison_view view = prn_comparison_view(f->comparison, f->index);
    prn_json_array(w, key);
    for (size_t i = 0; i < f->file->n_rows; i++)
        write_row(w, &view, &f->file->rows[i]);
    prn_json_end(w);
}

#define PRN_OF struct prn_comparison_file
static const struct prn_member head_members[] = {
    PRN_OBJECT(after, &side_schema, "The file that is compared."),
    PRN_BOOL(machines_differ, "Another processor, or another number of cores."),
    PRN_NUMBER(canary_ratio, "Time of the canary after over before."),
    PRN_NUMBER(smallest_difference, "The smallest difference that counts: the larger of both "
                                    "files'."),
    PRN_NUMBER(must_clear, "What a difference in time has to exceed: that, or what the canary "
                           "differs by."),
    PRN_ARRAY(differences, n_differences, &difference_schema,
              "In what the files differ beside their results."),
};
static const struct prn_schema head_schema = PRN_SCHEMA(NULL, head_members, NULL);
#undef PRN_OF

#define PRN_OF struct file
static const struct prn_member file_members[] = {
    PRN_COMPUTED(TEXT, "verdict", write_file_verdict, "The verdict on this file alone."),
    PRN_INLINE_POINTER(file, &head_schema),
    PRN_COMPUTED(ARRAY, "rows", write_rows, "What matters first.", .schema = &row_schema),
};
static const struct prn_schema file_schema =
    PRN_SCHEMA("ComparisonFile", file_members, "A file against the baseline.");
#undef PRN_OF

static void write_verdict(struct prn_json_writer *w, const char *key, const void *record)
{
    struct prn_buffer verdict = PRN_BUFFER_INIT((size_t)1 << 20);
    prn_comparison_verdict(record, &verdict);
    prn_part_take_text(w, key, &verdict);
}

static void write_files(struct prn_json_writer *w, const char *key, const void *record)
{
    const struct prn_comparison *c = record;
    prn_json_array(w, key);
    for (size_t i = 0; i < c->n_files; i++)
        prn_schema_write(w, NULL, &file_schema, &(struct file){c, &c->files[i], i});
    prn_json_end(w);
}

#define PRN_OF struct prn_comparison
static const struct prn_member comparison_members[] = {
    PRN_CONSTANT("schema", PRN_COMPARISON_SCHEMA),
    PRN_COMPUTED(TEXT, "verdict", write_verdict, PRN_VERDICT_DOC),
    PRN_BOOL(options.force, "--force was given.", .key = "forced"),
    PRN_NUMBER(options.fail_over, "--fail-over, as a fraction; null when it wasn't given.",
               .key = "fail_over"),
    PRN_INTEGER(n_tested, "Times that Holm's correction is over.", .key = "tested"),
    PRN_INTEGER(n_regressions, "Rows that are one.", .key = "regressions"),
    PRN_OBJECT(before, &side_schema, "The baseline."),
    PRN_COMPUTED(ARRAY, "files", write_files, "The files that are compared with it.",
                 .schema = &file_schema),
};
const struct prn_schema prn_comparison_schema =
    PRN_SCHEMA("Comparison", comparison_members,
               "What `prony report OLD.json NEW.json --format json` found. Times are in ns. Null "
               "stands for what isn't known. Readers ignore keys that they don't know.");
#undef PRN_OF

int prn_comparison_json(const struct prn_comparison *c, struct prn_buffer *out,
                        struct prony_error *err)
{
    return prn_schema_write_json(&prn_comparison_schema, c, out, err);
}
