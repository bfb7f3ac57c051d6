/* The verdict on saved profiles against a baseline: a regression or not, and where. */
#include "report/verdict.h"

#include <math.h>

/* Rows that both files measured. */
size_t prn_comparison_compared(const struct prn_comparison_file *file)
{
    static const enum prn_change changes[] = {PRN_CHANGE_SLOWER, PRN_CHANGE_FASTER, PRN_CHANGE_SAME,
                                              PRN_CHANGE_UNSURE, PRN_CHANGE_MACHINES};
    size_t n = 0;
    for (size_t i = 0; i < PRN_ARRAY_SIZE(changes); i++)
        n += file->counts[changes[i]];
    return n;
}

/* "1.08× as fast as b.json (95 %: 1.07 to 1.10) on ": what stands before the name of a row. */
static void add_ratio(const struct prn_interval *time, bool faster, const char *than,
                      struct prn_buffer *out)
{
    prn_verdict_ratio(faster ? 1 / time->estimate : time->estimate, out);
    if (than)
        prn_buffer_printf(out, " as fast as %s", than);
    prn_verdict_interval(faster ? 1 / time->high : time->low, faster ? 1 / time->low : time->high,
                         out);
    prn_buffer_add(out, " on ");
}

/* The rows with a change, in a list; with `than`, each after its ratio. */
static void name_rows(const struct prn_comparison_view *view, enum prn_change change,
                      const char *than, struct prn_buffer *out)
{
    const struct prn_comparison_file *file = view->file;
    struct prn_buffer name = PRN_BUFFER_INIT((size_t)1 << 20);
    size_t named = 0;
    for (size_t i = 0; i < file->n_rows && named <= PRN_VERDICT_NAMED; i++) {
        const struct prn_comparison_row *row = &file->rows[i];
        if (row->change != change)
            continue;
        prn_buffer_clear(&name);
        if (than)
            add_ratio(&row->time.ratio.ratio, change == PRN_CHANGE_FASTER, named ? NULL : than,
                      &name);
        prn_comparison_row_text(view, row, &name);
        prn_verdict_name(named++, file->counts[change], prn_buffer_text(&name), out);
    }
    if (name.error && !out->error)
        out->error = name.error;
    prn_buffer_release(&name);
}

/* "Regression: a.json is 1.08× as fast as b.json (95 %: 1.07 to 1.10) on onnxrt-cpu (1 of 3 rows)."
 */
static void say_change(const struct prn_comparison_view *view, enum prn_change change,
                       struct prn_buffer *out)
{
    const struct prn_comparison_file *file = view->file;
    bool slower = change == PRN_CHANGE_SLOWER;
    const char *before = view->comparison->before.name;
    size_t of = prn_comparison_compared(file);
    prn_buffer_printf(out, "%s%s is ", slower ? "Regression: " : "",
                      slower ? before : file->after.name);
    name_rows(view, change, slower ? file->after.name : before, out);
    if (of > 1)
        prn_buffer_printf(out, " (%zu of %zu rows)", file->counts[change], of);
    prn_buffer_add_char(out, '.');
}

static void say_no_change(const struct prn_comparison_view *view, struct prn_buffer *out)
{
    const struct prn_comparison_file *file = view->file;
    const size_t *counts = file->counts;
    size_t n = prn_comparison_compared(file);
    const char *after = file->after.name;
    const char *before = view->comparison->before.name;
    if (n == 0)
        prn_buffer_printf(out, "%s and %s share no backend with the same inputs.", before, after);
    else if (counts[PRN_CHANGE_MACHINES] == n)
        prn_buffer_printf(out,
                          "%s and %s were measured on different machines, so their times cannot be "
                          "compared.",
                          before, after);
    else if (counts[PRN_CHANGE_SAME] == n)
        prn_buffer_printf(out, "No regression: %s is as fast as %s in %s%zu row%s, within %.3g %%.",
                          after, before, n > 1 ? "all " : "", n, n == 1 ? "" : "s",
                          100 * file->must_clear);
    else
        prn_buffer_printf(
            out,
            "No regression shown: of %zu row%s, %zu the same in %s and %s, %zu unsure; "
            "more --launches would tell.",
            n, n == 1 ? "" : "s", counts[PRN_CHANGE_SAME], before, after,
            counts[PRN_CHANGE_UNSURE] + counts[PRN_CHANGE_MACHINES]);
}

static void say_loss(const struct prn_comparison_view *view, enum prn_change change,
                     const char *what, struct prn_buffer *out)
{
    if (view->file->counts[change] == 0)
        return;
    prn_buffer_printf(out, " %s: ", what);
    name_rows(view, change, NULL, out);
    prn_buffer_add_char(out, '.');
}

void prn_comparison_file_verdict(const struct prn_comparison_view *view, struct prn_buffer *out)
{
    bool slower = view->file->counts[PRN_CHANGE_SLOWER] > 0;
    bool faster = view->file->counts[PRN_CHANGE_FASTER] > 0;
    if (slower)
        say_change(view, PRN_CHANGE_SLOWER, out);
    if (slower && faster)
        prn_buffer_add_char(out, ' ');
    if (faster)
        say_change(view, PRN_CHANGE_FASTER, out);
    if (!slower && !faster)
        say_no_change(view, out);
    say_loss(view, PRN_CHANGE_FAILS, "Fails now", out);
    say_loss(view, PRN_CHANGE_MISSING, "Missing", out);
}

void prn_comparison_verdict(const struct prn_comparison *comparison, struct prn_buffer *out)
{
    for (size_t i = 0; i < comparison->n_files && i < PRN_VERDICT_NAMED; i++) {
        struct prn_comparison_view view = prn_comparison_view(comparison, i);
        prn_buffer_add(out, i > 0 ? " " : "");
        prn_comparison_file_verdict(&view, out);
    }
    if (comparison->n_files > PRN_VERDICT_NAMED)
        prn_buffer_printf(out, " %zu more files were compared.",
                          comparison->n_files - PRN_VERDICT_NAMED);
}
