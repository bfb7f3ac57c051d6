#include "measure/check/check.h"

#include "measure/comparison/comparison.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ARENA_BYTES ((size_t)256 << 20)

#define MORE_TIME                                                                               \
    "the interval includes the limit; a longer max_time, more launches or a smaller precision " \
    "would narrow it"
#define MORE_LAUNCHES "the interval includes the limit; more launches would narrow it"
#define TOO_FEW "too few processes for an interval; measure with 5 launches or more"

const char *const prn_check_figure_names[] = {
#define PRN_X(name, text) text,
    PRN_CHECK_FIGURE_MAP(PRN_X)
#undef PRN_X
};

const char *const prn_check_status_names[] = {
#define PRN_X(name, text) text,
    PRN_CHECK_STATUS_MAP(PRN_X)
#undef PRN_X
};

int prn_check_new(const char *config, size_t n, struct prn_check **ret_check,
                  struct prony_error *err)
{
    struct prn_check *check = calloc(1, sizeof *check);
    if (!check)
        return prn_fail_memory(err);
    *check = (struct prn_check){.arena = PRN_ARENA_INIT(ARENA_BYTES), .cores = -1};
    check->config = prn_arena_strdup(&check->arena, config);
    check->results = PRN_ARENA_ARRAY(&check->arena, n, struct prn_check_result);
    if (!check->config || !check->results) {
        prn_check_free(check);
        return prn_fail_memory(err);
    }
    *ret_check = check;
    return 0;
}

void prn_check_free(struct prn_check *check)
{
    if (!check)
        return;
    prn_arena_release(&check->arena);
    free(check);
}

bool prn_check_regressed(const struct prn_check *check)
{
    return check->counts[PRN_CHECK_STATUS_REGRESSION] > 0 ||
           (check->strict && check->counts[PRN_CHECK_STATUS_NOT_SHOWN] > 0);
}

/* ---- Rows ---- */

/* A model that is being added. */
struct adding {
    struct prn_check *check;
    struct prn_check_result *result;
    const struct prn_check_limits *limits;
    double difference; /* the smallest that counts */
    struct prony_error *err;
};

static const char *keep(struct prn_check *check, const char *text)
{
    return text ? prn_arena_strdup(&check->arena, text) : NULL;
}

static int keep_format(struct prn_check *check, const char **ret_text, struct prony_error *err,
                       const char *format, ...) PRN_PRINTF(4, 5);

static int keep_format(struct prn_check *check, const char **ret_text, struct prony_error *err,
                       const char *format, ...)
{
    struct prn_buffer text = PRN_BUFFER_INIT((size_t)1 << 20);
    va_list args;
    va_start(args, format);
    prn_buffer_vprintf(&text, format, args);
    va_end(args);
    int code = prn_buffer_error(&text, err);
    if (code == 0) {
        *ret_text = keep(check, prn_buffer_text(&text));
        code = *ret_text ? 0 : prn_fail_memory(err);
    }
    prn_buffer_release(&text);
    return code;
}

static double limit_of(const struct prn_check_limits *limits, enum prn_check_figure figure)
{
    switch (figure) {
    case PRN_CHECK_FIGURE_TIME:
        return limits->time;
    case PRN_CHECK_FIGURE_MEMORY:
        return limits->memory;
    case PRN_CHECK_FIGURE_SIZE:
        return limits->size;
    case PRN_CHECK_FIGURE_OUTPUTS:
        break;
    }
    return NAN;
}

/* A row of which nothing is known yet but what it is about; its texts are copied. */
static struct prn_check_row *add_row(struct adding *a, const char *backend, const char *sizes,
                                     enum prn_check_figure figure)
{
    struct prn_check_row *row = &a->result->rows[a->result->n_rows++];
    *row = (struct prn_check_row){.backend = keep(a->check, backend),
                                  .sizes = keep(a->check, sizes ? sizes : ""),
                                  .figure = figure,
                                  .status = PRN_CHECK_STATUS_UNLIMITED,
                                  .limit = limit_of(a->limits, figure),
                                  .before = NAN,
                                  .after = NAN,
                                  .ratio = {NAN, NAN, NAN},
                                  .error = NAN};
    return row;
}

static void judge(struct prn_check_row *row, enum prn_check_status status, const char *reason)
{
    row->status = status;
    row->reason = reason;
}

/* Holds a ratio and its interval against the limit of the row. `shift` is a factor that may be the
 * machine's, in either direction; `smallest` a difference below which none is one. */
static void judge_ratio(struct prn_check_row *row, double smallest, double shift)
{
    double most = 1 + fmax(row->limit, smallest);
    if (isnan(row->limit))
        return;
    if (!isfinite(row->ratio.low) || !isfinite(row->ratio.high) || row->ratio.low <= 0)
        judge(row, PRN_CHECK_STATUS_NOT_SHOWN, TOO_FEW);
    else if (row->ratio.low > most * (1 + shift))
        judge(row, PRN_CHECK_STATUS_REGRESSION, NULL);
    else if (row->ratio.high * (1 + shift) <= most)
        judge(row, PRN_CHECK_STATUS_HOLDS, NULL);
    else if (shift > 0)
        judge(row, PRN_CHECK_STATUS_NOT_SHOWN,
              "the machine wasn't in the same state, as its canary tells; measure both side by "
              "side, or use --force");
    else
        judge(row, PRN_CHECK_STATUS_NOT_SHOWN,
              row->figure == PRN_CHECK_FIGURE_TIME ? MORE_TIME : MORE_LAUNCHES);
}

/* What is counted and not measured. */
static void judge_exact(struct prn_check_row *row)
{
    double ratio = row->before > 0 ? row->after / row->before : NAN;
    row->ratio = (struct prn_interval){ratio, ratio, ratio};
    if (isnan(row->limit))
        return;
    if (isnan(ratio))
        judge(row, PRN_CHECK_STATUS_NOT_SHOWN, "the size of the old version isn't known");
    else
        judge(row, ratio > 1 + row->limit ? PRN_CHECK_STATUS_REGRESSION : PRN_CHECK_STATUS_HOLDS,
              NULL);
}

static const char *why(const struct prn_result *r)
{
    if (r->error_code)
        return r->error ? r->error : prony_error_text(r->error_code);
    return "nothing was measured";
}

/* A backend that has no times of one version, or of both. */
static int judge_failed(struct adding *a, struct prn_check_row *row,
                        const struct prn_result *before, const struct prn_result *after)
{
    if (prn_result_measured(before)) {
        row->status = PRN_CHECK_STATUS_REGRESSION;
        return keep_format(a->check, &row->reason, a->err, "the new version fails: %s", why(after));
    }
    if (prn_result_measured(after)) {
        row->status = PRN_CHECK_STATUS_NOT_SHOWN;
        return keep_format(a->check, &row->reason, a->err,
                           "the old version failed, so there is nothing to compare with: %s",
                           why(before));
    }
    row->status = PRN_CHECK_STATUS_FAILED;
    return keep_format(a->check, &row->reason, a->err, "both versions failed: %s", why(after));
}

static double known(int64_t value)
{
    return value < 0 ? NAN : (double)value;
}

/* The peak memory of both, over their launches. */
static int measure_memory(struct prn_check_row *row, const struct prn_result *before,
                          const struct prn_result *after)
{
    struct prn_launch_figures b;
    struct prn_launch_figures f;
    struct prn_unpaired ratio;
    int code = prn_launch_figures(before, &b);
    if (code == 0)
        code = prn_launch_figures(after, &f);
    if (code == 0)
        code = prn_launch_ratio(after, f.peak_bytes, before, b.peak_bytes,
                                offsetof(struct prn_launch, peak_bytes), &ratio);
    if (code < 0)
        return code;
    row->before = known(b.peak_bytes);
    row->after = known(f.peak_bytes);
    row->ratio = ratio.ratio;
    if (before->n_launches < PRN_UNITS_MIN || after->n_launches < PRN_UNITS_MIN)
        row->ratio.low = row->ratio.high = NAN;
    return 0;
}

/* ---- Side by side ---- */

static int add_backend(struct adding *a, const struct prn_profile *profile,
                       const struct prn_result *before, const struct prn_result *after)
{
    const char *sizes = prn_result_point(profile, after)->label;
    struct prn_check_row *time = add_row(a, after->name, sizes, PRN_CHECK_FIGURE_TIME);
    if (!prn_result_measured(before) || !prn_result_measured(after))
        return judge_failed(a, time, before, after);
    time->before = before->stats.median_ns;
    time->after = after->stats.median_ns;
    time->ratio = after->model_ratio;
    judge_ratio(time, a->difference, 0);
    struct prn_check_row *memory = add_row(a, after->name, sizes, PRN_CHECK_FIGURE_MEMORY);
    if (measure_memory(memory, before, after) < 0)
        return prn_fail_memory(a->err);
    judge_ratio(memory, 0, 0);
    return 0;
}

static void add_size(struct adding *a, double before, double after)
{
    struct prn_check_row *row = add_row(a, NULL, "", PRN_CHECK_FIGURE_SIZE);
    row->before = before;
    row->after = after;
    judge_exact(row);
}

/* Outputs that are NaN on both sides, or beyond all numbers, could be anything. */
static bool is_unknown(const struct prn_output_check *output)
{
    return output->both_nan > 0 || (output->same_shape && !isfinite(output->max_rel));
}

static int add_outputs(struct adding *a, const struct prn_check_pair *pair,
                       const struct prn_point *point)
{
    struct prn_check_row *row = add_row(a, NULL, point->label, PRN_CHECK_FIGURE_OUTPUTS);
    bool unknown = false;
    row->limit = a->limits->outputs ? a->limits->tolerance : NAN;
    for (size_t i = 0; i < point->n_outputs; i++) {
        unknown |= is_unknown(&point->outputs[i]);
        row->error = fmax(row->error, point->outputs[i].max_rel);
    }
    if (!a->limits->outputs)
        return 0;
    if (pair->outputs_before != pair->outputs_after) {
        row->status = PRN_CHECK_STATUS_REGRESSION;
        return keep_format(
            a->check, &row->reason, a->err, "the old version gives %zu output%s, the new one %zu",
            pair->outputs_before, pair->outputs_before == 1 ? "" : "s", pair->outputs_after);
    }
    if (point->outputs_differing > 0)
        judge(row, PRN_CHECK_STATUS_REGRESSION, NULL);
    else if (point->n_outputs < pair->outputs_after)
        judge(row, PRN_CHECK_STATUS_NOT_SHOWN, "outputs could not be compared");
    else if (unknown)
        judge(row, PRN_CHECK_STATUS_NOT_SHOWN, "not all values of the outputs are numbers");
    else
        judge(row, PRN_CHECK_STATUS_HOLDS, NULL);
    return 0;
}

/* ---- Notes ---- */

static int add_note(struct adding *a, const char *text)
{
    struct prn_check_result *result = a->result;
    for (size_t i = 0; i < result->n_notes; i++)
        if (strcmp(result->notes[i], text) == 0)
            return 0;
    const char *copy = keep(a->check, text);
    if (!copy)
        return prn_fail_memory(a->err);
    result->notes[result->n_notes++] = copy;
    return 0;
}

/* "NOISY: other work disturbed … (local/onnxrt-cpu)". */
static int note_flag(struct adding *a, const struct prn_profile *profile, unsigned bit,
                     const char *name, const char *meaning)
{
    struct prn_buffer text = PRN_BUFFER_INIT((size_t)1 << 20);
    size_t n = 0;
    const char *last = NULL;
    for (size_t i = 0; i < profile->n_results; i++) {
        const struct prn_result *r = &profile->results[i];
        if (!(r->flags & bit) || (last && strcmp(last, r->name) == 0))
            continue;
        if (n == 0)
            prn_buffer_printf(&text, "%s: %s (", name, meaning);
        prn_buffer_printf(&text, "%s%s", n++ ? ", " : "", r->name);
        last = r->name;
    }
    prn_buffer_add(&text, ")");
    int code = n ? prn_buffer_error(&text, a->err) : 0;
    if (code == 0 && n > 0)
        code = add_note(a, prn_buffer_text(&text));
    prn_buffer_release(&text);
    return code;
}

static int take_notes(struct adding *a, const struct prn_profile *profile)
{
    static const struct {
        unsigned bit;
        const char *name, *meaning;
    } flags[] = {
#define PRN_X(name, bit, text) {PRN_FLAG_##name, #name, text},
        PRN_FLAG_MAP(PRN_X)
#undef PRN_X
    };
    int code = 0;
    a->result->notes =
        PRN_ARENA_ARRAY(&a->check->arena, profile->n_notes + PRN_ARRAY_SIZE(flags), const char *);
    if (!a->result->notes)
        return prn_fail_memory(a->err);
    for (size_t i = 0; i < PRN_ARRAY_SIZE(flags) && code == 0; i++)
        code = note_flag(a, profile, flags[i].bit, flags[i].name, flags[i].meaning);
    for (size_t i = 0; i < profile->n_notes && code == 0; i++)
        code = add_note(a, profile->notes[i]);
    return code;
}

/* ---- A model ---- */

static int begin_model(struct adding *a, const struct prn_check_pair *pair,
                       const struct prn_profile *profile, size_t most_rows)
{
    struct prn_check *check = a->check;
    a->result = &check->results[check->n_results];
    *a->result = (struct prn_check_result){.name = keep(check, pair->model->name),
                                           .path = keep(check, pair->model->path),
                                           .old = keep(check, pair->old)};
    a->result->rows = PRN_ARENA_ARRAY(&check->arena, most_rows, struct prn_check_row);
    a->limits = &pair->model->limits;
    if (!check->created) {
        check->created = keep(check, profile->created);
        check->prony_version = keep(check, profile->prony_version);
        check->cpu = keep(check, profile->environment.cpu);
        check->cores = profile->environment.cores;
    }
    return a->result->name && a->result->path && a->result->old && a->result->rows
               ? take_notes(a, profile)
               : prn_fail_memory(a->err);
}

static int end_model(struct adding *a)
{
    for (size_t i = 0; i < a->result->n_rows; i++) {
        const struct prn_check_row *row = &a->result->rows[i];
        if (!row->sizes)
            return prn_fail_memory(a->err);
        a->check->counts[row->status]++;
    }
    a->check->n_results++;
    return 0;
}

int prn_check_add(struct prn_check *check, const struct prn_check_pair *pair,
                  const struct prn_profile *profile, struct prony_error *err)
{
    struct adding a = {
        .check = check, .difference = profile->settings.smallest_difference, .err = err};
    int code = begin_model(&a, pair, profile, 2 * profile->n_results + profile->n_points + 1);
    for (size_t i = 0; i < profile->n_results && code == 0; i++) {
        const struct prn_result *after = &profile->results[i];
        const struct prn_result *before = prn_result_first_model(profile, after);
        if (before)
            code = add_backend(&a, profile, before, after);
    }
    if (code == 0)
        add_size(&a, known(profile->models[0].bytes), known(profile->models[1].bytes));
    for (size_t i = 1; i < profile->n_points && code == 0; i += profile->n_models)
        code = add_outputs(&a, pair, &profile->points[i]);
    return code == 0 ? end_model(&a) : code;
}

/* ---- Against a saved profile ---- */

static int add_compared(struct adding *a, const struct prn_comparison_file *file,
                        const struct prn_comparison_row *row)
{
    const struct prn_result *r = row->after ? row->after : row->before;
    const struct prn_profile *of = file->after.profile;
    const char *sizes = row->after ? prn_result_point(of, row->after)->label : "";
    struct prn_check_row *time = add_row(a, r->name, sizes, PRN_CHECK_FIGURE_TIME);
    if (!row->before || !row->after) {
        judge(time, PRN_CHECK_STATUS_NOT_SHOWN,
              row->after ? "the baseline has no such backend with these inputs"
                         : "only the baseline has this backend with these inputs");
        return 0;
    }
    if (!prn_result_measured(row->before) || !prn_result_measured(row->after))
        return judge_failed(a, time, row->before, row->after);
    const struct prn_compared *peak = &row->figures[PRN_FIGURE_PEAK];
    struct prn_check_row *memory = add_row(a, r->name, sizes, PRN_CHECK_FIGURE_MEMORY);
    time->before = row->time.ratio.b;
    time->after = row->time.ratio.a;
    time->ratio = row->time.ratio.ratio;
    memory->before = peak->ratio.b;
    memory->after = peak->ratio.a;
    memory->ratio = peak->ratio.ratio;
    /* Blocks of one process don't tell how two processes differ. */
    if (row->time.ratio.by_block)
        time->ratio.low = time->ratio.high = memory->ratio.low = memory->ratio.high = NAN;
    double shift = file->must_clear > file->smallest_difference ? file->must_clear : 0;
    judge_ratio(time, file->smallest_difference, shift);
    judge_ratio(memory, 0, 0);
    if (row->change == PRN_CHANGE_MACHINES) {
        struct prn_check_row *both[] = {time, memory};
        for (size_t i = 0; i < PRN_ARRAY_SIZE(both); i++)
            if (!isnan(both[i]->limit))
                judge(both[i], PRN_CHECK_STATUS_NOT_SHOWN,
                      "the baseline was measured on another machine; --force judges all the same");
    }
    return 0;
}

static int add_comparison(struct adding *a, const struct prn_check_pair *pair,
                          const struct prn_comparison *c)
{
    const struct prn_comparison_file *file = &c->files[0];
    const struct prn_profile *before = c->before.profile;
    const struct prn_profile *after = file->after.profile;
    int code = begin_model(a, pair, after, 2 * file->n_rows + 2);
    a->result->saved = true;
    for (size_t i = 0; i < file->n_rows && code == 0; i++)
        code = add_compared(a, file, &file->rows[i]);
    if (code < 0)
        return code;
    add_size(a, known(before->models[0].bytes), known(after->models[0].bytes));
    if (a->limits->outputs)
        judge(add_row(a, NULL, "", PRN_CHECK_FIGURE_OUTPUTS), PRN_CHECK_STATUS_NOT_SHOWN,
              "a saved profile has no outputs to compare with");
    return end_model(a);
}

int prn_check_add_saved(struct prn_check *check, const struct prn_check_pair *pair,
                        struct prn_profile *before, struct prn_profile *after, bool force,
                        struct prony_error *err)
{
    struct adding a = {.check = check, .err = err};
    const struct prn_comparison_side old = {pair->old, before};
    const struct prn_comparison_side new = {pair->model->path, after};
    const struct prn_compare_options options = {.force = force, .fail_over = NAN};
    struct prn_comparison *comparison;
    if (before->n_models > 1)
        prn_profile_keep_model(before, before->n_models - 1);
    int code = prn_compare(&old, &new, 1, &options, &comparison, err);
    if (code < 0)
        return code;
    code = add_comparison(&a, pair, comparison);
    prn_comparison_free(comparison);
    return code;
}
