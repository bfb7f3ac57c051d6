#include "report/comparison/view.h"

#include "base/format.h"
#include "base/text.h"
#include "report/comparison/report.h"
#include "report/page.h"

#include <math.h>

#define REGRESSIONS_TOLD 3

struct prn_comparison_view prn_comparison_view(const struct prn_comparison *comparison, size_t file)
{
    const struct prn_comparison_file *f = &comparison->files[file];
    return (struct prn_comparison_view){.comparison = comparison,
                                        .file = f,
                                        .sized = comparison->before.profile->n_points > 1 ||
                                                 f->after.profile->n_points > 1};
}

void prn_comparison_name(const struct prn_comparison_row *row, struct prn_buffer *out)
{
    prn_text_clean(out, row->after ? row->after->name : row->before->name);
    if (row->ordinal > 0)
        prn_buffer_printf(out, " #%zu", row->ordinal);
}

void prn_comparison_sizes(const struct prn_comparison_view *view,
                          const struct prn_comparison_row *row, struct prn_buffer *out)
{
    const struct prn_comparison_side *side =
        row->after ? &view->file->after : &view->comparison->before;
    prn_point_text(prn_result_point(side->profile, row->after ? row->after : row->before), out);
}

void prn_comparison_row_text(const struct prn_comparison_view *view,
                             const struct prn_comparison_row *row, struct prn_buffer *out)
{
    prn_comparison_name(row, out);
    if (view->sized) {
        prn_buffer_add(out, " at ");
        prn_comparison_sizes(view, row, out);
    }
}

/* "1.083× (1.071 to 1.095)". */
static void ratio_text(const struct prn_interval *ratio, struct prn_buffer *out)
{
    char text[PRN_FORMAT_SIZE];
    prn_buffer_printf(out, "%s×", prn_format_ratio(text, ratio->estimate));
    if (!isfinite(ratio->high))
        return;
    prn_buffer_printf(out, " (%s to ", prn_format_ratio(text, ratio->low));
    prn_buffer_printf(out, "%s)", prn_format_ratio(text, ratio->high));
}

const char *prn_comparison_unit(const struct prn_comparison_row *row)
{
    if (isnan(row->time.ratio.ratio.estimate))
        return NULL;
    return row->time.ratio.by_block ? "block" : "launch";
}

static struct prn_comparison_pair
both(const struct prn_comparison_view *view, const struct prn_comparison_row *row,
     double (*figure)(const struct prn_profile *, const struct prn_result *))
{
    struct prn_comparison_pair pair = {NAN, NAN};
    if (row->before && prn_result_measured(row->before))
        pair.before = figure(view->comparison->before.profile, row->before);
    if (row->after && prn_result_measured(row->after))
        pair.after = figure(view->file->after.profile, row->after);
    return pair;
}

struct prn_comparison_pair prn_comparison_rates(const struct prn_comparison_view *view,
                                                const struct prn_comparison_row *row)
{
    return both(view, row, prn_result_rate);
}

struct prn_comparison_pair prn_comparison_costs(const struct prn_comparison_view *view,
                                                const struct prn_comparison_row *row)
{
    return both(view, row, prn_result_cost);
}

/* ---- Regressions in a line ---- */

static void tell_regression(const struct prn_comparison_view *view,
                            const struct prn_comparison_row *row, struct prn_buffer *out)
{
    prn_buffer_add(out, "'");
    prn_text_clean(out, view->file->after.name);
    prn_buffer_add(out, "': ");
    prn_comparison_row_text(view, row, out);
    if (row->change == PRN_CHANGE_SLOWER) {
        prn_buffer_add(out, " is slower, ");
        ratio_text(&row->time.ratio.ratio, out);
    } else if (row->change == PRN_CHANGE_FAILS) {
        prn_buffer_add(out, row->after->error_code ? " fails now" : " has no times now");
    } else {
        prn_buffer_add(out, " is missing");
    }
}

int prn_comparison_regressions(const struct prn_comparison *c, struct prn_buffer *out,
                               struct prony_error *err)
{
    size_t told = 0;
    for (size_t f = 0; f < c->n_files; f++) {
        struct prn_comparison_view view = prn_comparison_view(c, f);
        for (size_t i = 0; i < view.file->n_rows && told < REGRESSIONS_TOLD; i++) {
            if (!view.file->rows[i].regression)
                continue;
            prn_buffer_add(out, told++ ? "; " : "");
            tell_regression(&view, &view.file->rows[i], out);
        }
    }
    if (c->n_regressions > told)
        prn_buffer_printf(out, "; and %zu more", c->n_regressions - told);
    return prn_buffer_error(out, err);
}

static int write_part(const void *report, bool json, struct prn_buffer *out,
                      struct prony_error *err)
{
    static const struct prn_look look = {.verbose = true, .width = PRN_PAGE_TEXT_WIDTH};
    return json ? prn_comparison_json(report, out, err)
                : prn_comparison_text(report, &look, out, err);
}

/* The comparison, and behind it the profiles, whose operators are held against each other. */
static int write_page(const struct prn_comparison *c, struct prn_buffer *out,
                      struct prony_error *err)
{
    struct prn_page page = PRN_PAGE_INIT;
    int code = prn_page_check(err);
    if (code == 0)
        code = prn_page_add_report(&page, write_part, c, err);
    if (code == 0)
        code = prn_page_add_profile(&page, c->before.name, c->before.profile, err);
    for (size_t i = 0; i < c->n_files && code == 0; i++)
        code = prn_page_add_profile(&page, c->files[i].after.name, c->files[i].after.profile, err);
    if (code == 0)
        code = prn_page_write(&page, out, err);
    prn_page_release(&page);
    return code;
}

int prn_comparison_report(const struct prn_comparison *comparison, enum prn_report_format format,
                          const struct prn_look *look, struct prn_buffer *out,
                          struct prony_error *err)
{
    struct prn_look own = *look;
    own.markdown = format == PRN_REPORT_FORMAT_MARKDOWN;
    switch (format) {
    case PRN_REPORT_FORMAT_JSON:
        return prn_comparison_json(comparison, out, err);
    case PRN_REPORT_FORMAT_CSV:
        return prn_comparison_csv(comparison, out, err);
    case PRN_REPORT_FORMAT_HTML:
        return write_page(comparison, out, err);
    default:
        return prn_comparison_text(comparison, &own, out, err);
    }
}
