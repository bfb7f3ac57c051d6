/*
 * The text and Markdown reports of a comparison. For each file: the verdict, the
 * tables, and below them what a reader must know to trust or distrust it. How it was judged stands
 * once, at the end.
 */
#include "report/comparison/view.h"

#include "base/format.h"
#include "base/text.h"
#include "report/prose.h"
#include "report/verdict.h"

#include <math.h>

struct report {
    const struct prn_comparison_view *view;
    const struct prn_comparison *comparison;
    const struct prn_comparison_file *file;
    struct prn_prose *prose;
};

static const char *rows(size_t n)
{
    return n == 1 ? "row" : "rows";
}

static void write_verdict(struct report *r)
{
    prn_comparison_file_verdict(r->view, &r->prose->line);
    prn_prose_verdict(r->prose);
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
    [PRN_DIFFERENCE_BACKEND] = {"Backend", "The same name stands for another backend."},
    [PRN_DIFFERENCE_RUNTIME] = {"Runtime", ""},
    [PRN_DIFFERENCE_LIBRARY] = {"Library of the runtime", ""},
    [PRN_DIFFERENCE_PRONY] = {"Version of prony", ""},
};

static void describe_state(struct report *r)
{
    double percent = (exp(fabs(log(r->file->canary_ratio))) - 1) * 100;
    prn_buffer_printf(
        &r->prose->line,
        " This fixed piece of work takes %.3g %% %s, so the machine was in a different state; ",
        percent, r->file->canary_ratio > 1 ? "longer" : "less time");
    prn_buffer_add(&r->prose->line, r->comparison->options.force
                                        ? "--force: differences are judged anyway."
                                        : "smaller differences are not counted. Measure both "
                                          "again, one after the other, or use --force.");
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
        prn_prose_paragraph(r->prose, "Times are not comparable across machines: the ratio may be "
                                      "due to the machine. --force judges anyway.");
    else if (r->file->machines_differ)
        prn_prose_paragraph(r->prose, "--force: differences across machines are judged anyway.");
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
        prn_prose_paragraph(r->prose, ": one launch, so blocks were the units. That is weak: "
                                      "processes often differ by 1 or 2 %%. Use --launches 5.");
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
    write_verdict(r);
    prn_buffer_add_char(r->prose->out, '\n');
    if (r->file->n_rows == 0)
        return 0;
    int code = prn_comparison_tables(
        r->view, r->prose->markdown ? PRN_TABLE_STYLE_MARKDOWN : PRN_TABLE_STYLE_TEXT,
        &r->prose->look, r->prose->out, err);
    if (code < 0)
        return code;
    prn_buffer_add_char(r->prose->out, '\n');
    if (r->prose->look.verbose)
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
        compared += prn_comparison_compared(&c->files[f]);
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

int prn_comparison_text(const struct prn_comparison *comparison, const struct prn_look *look,
                        struct prn_buffer *out, struct prony_error *err)
{
    struct prn_prose prose = prn_prose_init(look, out);
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
        if (look->verbose)
            write_method(&prose, comparison);
    }
    prn_prose_release(&prose);
    return code < 0 ? code : prn_buffer_error(out, err);
}
