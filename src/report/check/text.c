/* Text and Markdown: the verdict, a table of all figures, and what limits trust. */
#include "report/check/view.h"

#include "base/format.h"
#include "base/table.h"
#include "report/prose.h"

#include <math.h>

struct columns {
    bool models, sizes;
};

static struct columns columns_of(const struct prn_check *check)
{
    struct columns c = {.models = check->n_results > 1};
    for (size_t m = 0; m < check->n_results; m++)
        for (size_t i = 0; i < check->results[m].n_rows; i++)
            c.sizes |= check->results[m].rows[i].sizes[0] != '\0';
    return c;
}

/* ---- Cells ---- */

static void take_cell(struct prn_table *t, bool markdown, struct prn_buffer *text)
{
    struct prn_buffer escaped = PRN_BUFFER_INIT(text->limit);
    if (markdown)
        prn_markdown_text(&escaped, prn_buffer_text(text));
    prn_table_cell_text(t, markdown ? prn_buffer_text(&escaped) : prn_buffer_text(text));
    prn_buffer_release(&escaped);
    prn_buffer_clear(text);
}

static void value_cell(struct prn_table *t, const struct prn_check_row *row, double value)
{
    char text[PRN_FORMAT_SIZE];
    if (isnan(value))
        prn_table_cell(t, "-");
    else if (row->figure == PRN_CHECK_FIGURE_TIME)
        prn_table_cell(t, "%s", prn_format_duration(text, value));
    else
        prn_table_cell(t, "%s", prn_format_bytes(text, value));
}

static void change_cells(struct prn_table *t, bool markdown, const struct prn_check_row *row,
                         struct prn_buffer *text)
{
    const struct prn_interval *r = &row->ratio;
    if (row->figure == PRN_CHECK_FIGURE_OUTPUTS)
        prn_check_error(row, text);
    else if (isfinite(r->estimate))
        prn_check_change(r->estimate, text);
    else
        prn_buffer_add(text, "-");
    take_cell(t, markdown, text);
    if (isfinite(r->low) && isfinite(r->high) && r->low < r->high) {
        prn_check_change(r->low, text);
        prn_buffer_add(text, " to ");
        prn_check_change(r->high, text);
    }
    take_cell(t, markdown, text);
}

static void add_row(struct prn_table *t, const struct columns *c, bool markdown,
                    const struct prn_check_result *result, const struct prn_check_row *row)
{
    struct prn_buffer text = PRN_BUFFER_INIT((size_t)1 << 20);
    if (c->models) {
        prn_buffer_add(&text, result->name);
        take_cell(t, markdown, &text);
    }
    prn_buffer_add(&text, row->backend ? prn_check_backend(row) : "-");
    take_cell(t, markdown, &text);
    if (c->sizes) {
        prn_buffer_add(&text, row->sizes);
        take_cell(t, markdown, &text);
    }
    prn_table_cell(t, "%s", prn_check_figure_names[row->figure]);
    value_cell(t, row, row->before);
    value_cell(t, row, row->after);
    change_cells(t, markdown, row, &text);
    prn_check_limit(row, &text);
    prn_table_cell(t, "%s", text.len ? prn_buffer_text(&text) : "-");
    prn_table_cell(t, "%s", prn_check_status_names[row->status]);
    prn_buffer_release(&text);
}

static int write_table(const struct prn_check *check, const struct prn_look *look,
                       struct prn_buffer *out, struct prony_error *err)
{
    const struct columns c = columns_of(check);
    struct prn_table *t = prn_table_new();
    if (c.models)
        prn_table_column(t, "Model", PRN_TABLE_ALIGN_LEFT);
    prn_table_column(t, "Backend", PRN_TABLE_ALIGN_LEFT);
    if (c.sizes)
        prn_table_column(t, "Sizes", PRN_TABLE_ALIGN_LEFT);
    prn_table_columns(t, "What|>Old|>New|>Change|95 % interval");
    prn_table_omit(t);
    prn_table_columns(t, ">Limit|Verdict");
    if (!look->markdown) {
        prn_table_bare(t);
        prn_table_width(t, look->width ? look->width : PRN_LOOK_WIDTH);
    }
    for (size_t m = 0; m < check->n_results; m++)
        for (size_t i = 0; i < check->results[m].n_rows; i++)
            add_row(t, &c, look->markdown, &check->results[m], &check->results[m].rows[i]);
    return prn_table_end(t, look->markdown ? PRN_TABLE_STYLE_MARKDOWN : PRN_TABLE_STYLE_TEXT, out,
                         err);
}

/* ---- Below the table ---- */

static void add_warnings(const struct prn_check *check, struct prn_prose *p)
{
    for (size_t m = 0; m < check->n_results; m++)
        for (size_t i = 0; i < check->results[m].n_rows; i++) {
            const struct prn_check_row *row = &check->results[m].rows[i];
            if (!row->reason)
                continue;
            size_t start = p->line.len;
            prn_check_subject(check->n_results > 1 ? check->results[m].name : NULL, row, &p->line);
            if (p->line.len > start && p->line.data[start] >= 'a' && p->line.data[start] <= 'z')
                p->line.data[start] = (char)(p->line.data[start] - 'a' + 'A');
            prn_buffer_printf(&p->line, ": %s: %s.", prn_check_status_names[row->status],
                              row->reason);
            prn_prose_warning(p);
        }
}

static void add_notes(const struct prn_check *check, struct prn_prose *p)
{
    for (size_t m = 0; m < check->n_results; m++) {
        const struct prn_check_result *r = &check->results[m];
        for (size_t i = 0; i < r->n_notes; i++)
            prn_prose_paragraph(p, "%s%s%s", check->n_results > 1 ? r->name : "",
                                check->n_results > 1 ? ": " : "", r->notes[i]);
    }
    for (size_t m = 0; m < check->n_results; m++) {
        const struct prn_check_result *r = &check->results[m];
        prn_prose_paragraph(p, "%s against %s, %s", r->path, r->old,
                            r->saved ? "measured at different times" : "measured side by side");
    }
}

int prn_check_text(const struct prn_check *check, const struct prn_look *look,
                   struct prn_buffer *out, struct prony_error *err)
{
    struct prn_prose p = prn_prose_init(look, out);
    prn_check_verdict(check, &p.line);
    prn_prose_verdict(&p);
    prn_buffer_add_char(out, '\n');
    int code = write_table(check, look, out, err);
    prn_buffer_add_char(out, '\n');
    add_warnings(check, &p);
    add_notes(check, &p);
    prn_prose_release(&p);
    return code == 0 ? prn_buffer_error(out, err) : code;
}

int prn_check_report(const struct prn_check *check, enum prn_check_format format,
                     const struct prn_look *look, struct prn_buffer *out, struct prony_error *err)
{
    struct prn_look markdown = {.markdown = true};
    switch (format) {
    case PRN_CHECK_FORMAT_TEXT:
        return prn_check_text(check, look, out, err);
    case PRN_CHECK_FORMAT_MARKDOWN:
        return prn_check_text(check, &markdown, out, err);
    case PRN_CHECK_FORMAT_JSON:
        return prn_check_json(check, out, err);
    case PRN_CHECK_FORMAT_JUNIT:
        break;
    }
    return prn_check_junit(check, out, err);
}
