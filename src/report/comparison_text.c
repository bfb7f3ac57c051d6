/*
 * The text and Markdown reports of a comparison. For each file: the answer in a sentence, the
 * tables, and below them what a reader must know to trust or distrust it. How it was judged stands
 * once, at the end.
 */
#include "report/comparison_view.h"

#include "base/format.h"
#include "base/text.h"
#include "report/prose.h"

#include <math.h>

#define TABLE_WIDTH 100
#define ROWS_NAMED 3

struct report {
    const struct prn_comparison_view *view;
    const struct prn_comparison *comparison;
    const struct prn_comparison_file *file;
    struct prn_prose *prose;
};

/* ---- The answer ---- */

/* Rows that both files measured. */
static size_t count_compared(const struct prn_comparison_file *file)
{
    static const enum prn_change changes[] = {PRN_CHANGE_SLOWER, PRN_CHANGE_FASTER, PRN_CHANGE_SAME,
                                              PRN_CHANGE_UNSURE, PRN_CHANGE_MACHINES};
    size_t n = 0;
    for (size_t i = 0; i < PRN_ARRAY_SIZE(changes); i++)
        n += file->counts[changes[i]];
    return n;
}

/* "local/a 1.083× (1.071 to 1.095), local/b 1.050× (1.040 to 1.060) and 2 more". */
static void name_rows(struct report *r, enum prn_change change)
{
    size_t named = 0;
    for (size_t i = 0; i < r->file->n_rows && named < ROWS_NAMED; i++) {
        const struct prn_comparison_row *row = &r->file->rows[i];
        if (row->change != change)
            continue;
        prn_buffer_add(&r->prose->line, named++ ? ", " : "");
        prn_comparison_row_text(r->view, row, &r->prose->line);
        if (isfinite(row->time.ratio.ratio.estimate)) {
            prn_buffer_add_char(&r->prose->line, ' ');
            prn_comparison_ratio_text(&row->time.ratio.ratio, &r->prose->line);
        }
    }
    if (r->file->counts[change] > named)
        prn_buffer_printf(&r->prose->line, " and %zu more", r->file->counts[change] - named);
}

static const char *rows(size_t n)
{
    return n == 1 ? "row" : "rows";
}

/* "b.json is slower than a.json on 1 of 3 rows: …" */
static void answer_difference(struct report *r, enum prn_change change, bool first)
{
    size_t n = count_compared(r->file);
    if (first)
        prn_buffer_printf(&r->prose->line,
                          "%s is %s than %s on %zu of %zu %s: ", r->file->after.name,
                          prn_change_names[change], r->comparison->before.name,
                          r->file->counts[change], n, rows(n));
    else
        prn_buffer_printf(&r->prose->line, " It is %s on %zu: ", prn_change_names[change],
                          r->file->counts[change]);
    name_rows(r, change);
    prn_buffer_add_char(&r->prose->line, '.');
}

static void answer_no_difference(struct report *r)
{
    const size_t *counts = r->file->counts;
    size_t n = count_compared(r->file);
    const char *after = r->file->after.name;
    const char *before = r->comparison->before.name;
    if (n == 0)
        prn_buffer_printf(&r->prose->line,
                          "No backend was measured with the same inputs in %s and in %s.", before,
                          after);
    else if (counts[PRN_CHANGE_MACHINES] == n)
        prn_buffer_printf(&r->prose->line,
                          "%s and %s were measured on different machines, so no difference is "
                          "called one.",
                          before, after);
    else if (counts[PRN_CHANGE_SAME] == n)
        prn_buffer_printf(&r->prose->line, "%s is as fast as %s on %s%zu %s.", after, before,
                          n > 1 ? "all " : "", n, rows(n));
    else
        prn_buffer_printf(&r->prose->line,
                          "No difference is shown between %s and %s: of %zu %s, %zu "
                          "the same, %zu unsure.",
                          before, after, n, rows(n), counts[PRN_CHANGE_SAME],
                          counts[PRN_CHANGE_UNSURE] + counts[PRN_CHANGE_MACHINES]);
}

static void answer_loss(struct report *r, enum prn_change change, const char *what)
{
    if (r->file->counts[change] == 0)
        return;
    prn_buffer_printf(&r->prose->line, " %s: ", what);
    name_rows(r, change);
    prn_buffer_add_char(&r->prose->line, '.');
}

static void write_answer(struct report *r)
{
    bool slower = r->file->counts[PRN_CHANGE_SLOWER] > 0;
    bool faster = r->file->counts[PRN_CHANGE_FASTER] > 0;
    if (slower)
        answer_difference(r, PRN_CHANGE_SLOWER, true);
    if (faster)
        answer_difference(r, PRN_CHANGE_FASTER, !slower);
    if (!slower && !faster)
        answer_no_difference(r);
    answer_loss(r, PRN_CHANGE_FAILS, "It fails now on");
    answer_loss(r, PRN_CHANGE_MISSING, "It lacks");
    prn_prose_flush(r->prose, 0);
}

/* ---- What differs beside the results ---- */

static void describe_side(struct report *r, const struct prn_comparison_side *side)
{
    const struct prn_environment *e = &side->profile->environment;
    prn_buffer_printf(&r->prose->line, "%s, measured %s on %s", side->name,
                      side->profile->created ? side->profile->created : "at an unknown time",
                      e->cpu ? e->cpu : "an unknown processor");
}

static void describe_sides(struct report *r)
{
    prn_buffer_add(&r->prose->line, "Before is ");
    describe_side(r, &r->comparison->before);
    prn_buffer_add(&r->prose->line, "; after is ");
    describe_side(r, &r->file->after);
    prn_prose_paragraph(r->prose, ".");
}

/* What each kind is called, and what follows from it. */
static const struct {
    const char *title;
    const char *consequence;
} difference_texts[PRN_DIFFERENCE_COUNT] = {
    [PRN_DIFFERENCE_CPU] = {"Processor", "These are not the same machine."},
    [PRN_DIFFERENCE_CORES] = {"Cores", "These are not the same machine."},
    [PRN_DIFFERENCE_CANARY] = {"Canary", ""},
    [PRN_DIFFERENCE_LOAD] = {"Load of the machine",
                             "Other work makes times longer and less certain."},
    [PRN_DIFFERENCE_MEMORY] = {"Memory of the machine", ""},
    [PRN_DIFFERENCE_OS] = {"Operating system", ""},
    [PRN_DIFFERENCE_KERNEL] = {"Kernel", ""},
    [PRN_DIFFERENCE_SANDBOX] = {"Sandbox", ""},
    [PRN_DIFFERENCE_MODEL] = {"Model", ""},
    [PRN_DIFFERENCE_MODEL_BYTES] = {"Bytes of the model", "The model is not the same."},
    [PRN_DIFFERENCE_MODEL_PARAMETERS] = {"Parameters of the model", ""},
    [PRN_DIFFERENCE_RUNTIME] = {"Runtime", ""},
    [PRN_DIFFERENCE_LIBRARY] = {"Library of the runtime", ""},
    [PRN_DIFFERENCE_PRONY] = {"Version of prony", ""},
};

static void describe_state(struct report *r)
{
    double percent = (exp(fabs(log(r->file->canary_ratio))) - 1) * 100;
    prn_buffer_printf(&r->prose->line,
                      " This fixed piece of work takes %.3g %% %s, so the machine wasn't in the "
                      "same state; ",
                      percent, r->file->canary_ratio > 1 ? "longer" : "less time");
    prn_buffer_add(&r->prose->line,
                   r->comparison->options.force
                       ? "--force: differences are called as if it had been."
                       : "a difference that isn't larger than that is not called one. Measure "
                         "both again, one after the other; --force calls it one.");
}

static void describe_differences(struct report *r)
{
    for (size_t i = 0; i < r->file->n_differences; i++) {
        const struct prn_difference *d = &r->file->differences[i];
        prn_buffer_printf(&r->prose->line, "%s: %s → %s.", difference_texts[d->kind].title,
                          d->before ? d->before : "not known", d->after ? d->after : "not known");
        if (d->kind == PRN_DIFFERENCE_CANARY && !r->file->machines_differ)
            describe_state(r);
        else if (difference_texts[d->kind].consequence[0])
            prn_buffer_printf(&r->prose->line, " %s", difference_texts[d->kind].consequence);
        prn_prose_flush(r->prose, 0);
    }
}

static void describe_machines(struct report *r)
{
    if (r->file->counts[PRN_CHANGE_MACHINES] > 0)
        prn_prose_paragraph(r->prose,
                            "Times are not comparable across machines: the ratio may be the "
                            "machine's. --force judges it as if there were one machine.");
    else if (r->file->machines_differ)
        prn_prose_paragraph(r->prose, "--force: differences are called as if there were one "
                                      "machine.");
}

/* ---- What is wrong with rows ---- */

static void describe_failures(struct report *r)
{
    for (size_t i = 0; i < r->file->n_rows; i++) {
        const struct prn_comparison_row *row = &r->file->rows[i];
        if (!row->after || row->after->error_code == 0)
            continue;
        prn_comparison_row_text(r->view, row, &r->prose->line);
        prn_prose_paragraph(r->prose, " failed: %s",
                            row->after->error ? row->after->error
                                              : prony_error_text(row->after->error_code));
    }
}

/* Names the rows whose result on one side has the flag; returns how many. */
static size_t name_flagged(struct report *r, unsigned bit, bool after, size_t named)
{
    for (size_t i = 0; i < r->file->n_rows; i++) {
        const struct prn_comparison_row *row = &r->file->rows[i];
        const struct prn_result *result = after ? row->after : row->before;
        if (!result || !(result->flags & bit))
            continue;
        prn_buffer_add(&r->prose->line, named++ ? ", " : "");
        prn_comparison_row_text(r->view, row, &r->prose->line);
        prn_buffer_add(&r->prose->line, after ? " after" : " before");
    }
    return named;
}

static void describe_flag(struct report *r, unsigned bit, const char *name, const char *meaning)
{
    prn_buffer_printf(&r->prose->line, "* %s ", name);
    size_t named = name_flagged(r, bit, false, 0);
    named = name_flagged(r, bit, true, named);
    if (named > 0)
        prn_prose_paragraph(r->prose, ": %s.", meaning);
    else
        prn_buffer_clear(&r->prose->line);
}

static void describe_weak(struct report *r)
{
    size_t n = 0;
    for (size_t i = 0; i < r->file->n_rows; i++) {
        if (!r->file->rows[i].time.ratio.by_block)
            continue;
        prn_buffer_add(&r->prose->line, n++ ? ", " : "");
        prn_comparison_row_text(r->view, &r->file->rows[i], &r->prose->line);
    }
    if (n > 0)
        prn_prose_paragraph(r->prose, ": one launch, so its blocks had to be the units. That is "
                                      "weak: they can't tell how the next process would differ, "
                                      "often by 1 or 2 %%; --launches 5 can.");
}

static void describe_processors(struct report *r)
{
    for (size_t i = 0; i < r->file->n_rows && !r->file->machines_differ; i++) {
        const struct prn_comparison_row *row = &r->file->rows[i];
        if (row->change != PRN_CHANGE_MACHINES)
            continue;
        prn_buffer_add(&r->prose->line, "Processor of ");
        prn_comparison_row_text(r->view, row, &r->prose->line);
        prn_prose_paragraph(r->prose, ": %s → %s.", row->before->processor, row->after->processor);
    }
}

/* ---- The whole ---- */

static void write_heading(struct report *r)
{
    if (r->prose->markdown) {
        prn_buffer_add(r->prose->out, "## ");
        prn_text_clean(&r->prose->line, r->file->after.name);
        prn_markdown_text(r->prose->out, prn_buffer_text(&r->prose->line));
        prn_prose_pass_error(r->prose, &r->prose->line);
        prn_buffer_clear(&r->prose->line);
        prn_buffer_add(r->prose->out, "\n\n");
    }
}

static int write_file(struct report *r, struct prony_error *err)
{
    if (r->comparison->n_files > 1)
        write_heading(r);
    write_answer(r);
    prn_buffer_add_char(r->prose->out, '\n');
    if (r->file->n_rows == 0)
        return 0;
    int code = prn_comparison_tables(
        r->view, r->prose->markdown ? PRN_TABLE_STYLE_MARKDOWN : PRN_TABLE_STYLE_TEXT,
        r->prose->markdown ? 0 : TABLE_WIDTH, r->prose->out, err);
    if (code < 0)
        return code;
    prn_buffer_add_char(r->prose->out, '\n');
    describe_sides(r);
    describe_differences(r);
    describe_processors(r);
    describe_machines(r);
    describe_failures(r);
#define PRN_X(name, bit, meaning) describe_flag(r, bit, #name, meaning);
    PRN_FLAG_MAP(PRN_X)
#undef PRN_X
    describe_weak(r);
    return 0;
}

static void write_method(struct prn_prose *prose, const struct prn_comparison *c)
{
    double smallest = 0;
    size_t compared = 0;
    for (size_t f = 0; f < c->n_files; f++) {
        smallest = fmax(smallest, c->files[f].smallest_difference);
        compared += count_compared(&c->files[f]);
    }
    if (compared == 0)
        return;
    prn_prose_paragraph(prose,
                        "Ratio is the time after over the time before, both medians of all runs. "
                        "Nothing pairs the runs of two files, so its 95 %% interval and p come "
                        "from launches (fresh processes): Welch's t on their logarithms.");
    if (c->n_tested == 0)
        return;
    prn_prose_paragraph(prose,
                        "Slower or faster: the interval clears ±%.3g %% and p is below %g after "
                        "Holm's correction over %zu %s. Same: the interval is within ±%.3g %%. "
                        "Unsure: more --launches would tell.",
                        smallest * 100, PRN_COMPARISON_LEVEL, c->n_tested, rows(c->n_tested),
                        smallest * 100);
}

int prn_comparison_text(const struct prn_comparison *comparison, bool markdown,
                        struct prn_buffer *out, struct prony_error *err)
{
    struct prn_prose prose = prn_prose_init(markdown, out);
    int code = 0;
    for (size_t i = 0; i < comparison->n_files && code == 0; i++) {
        struct prn_comparison_view view = prn_comparison_view(comparison, i);
        struct report r = {&view, comparison, view.file, &prose};
        if (i > 0)
            prn_buffer_add_char(out, '\n');
        code = write_file(&r, err);
    }
    if (code == 0) {
        if (comparison->n_files > 1)
            prn_buffer_add_char(out, '\n');
        write_method(&prose, comparison);
    }
    prn_prose_release(&prose);
    return code < 0 ? code : prn_buffer_error(out, err);
}
