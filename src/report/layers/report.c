#include "report/layers/report.h"

#include "base/format.h"
#include "base/table.h"
#include "report/layers/json.h"
#include "report/profile/view.h"
#include "report/page.h"
#include "report/prose.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

struct view {
    const struct prn_layer_measurement *m;
    const struct prn_layer_profile *profile;
};

static const struct prn_layer_entry *entry_of(const struct view *v, size_t row)
{
    return prn_layer_profile_find(v->profile, v->m->rows[row].layer);
}

/* "197x768 + 197x768"; of nothing but the batch, "scalar". */
static void write_shapes(const struct prn_layer_shape *shapes, size_t n, struct prn_buffer *out)
{
    char text[512];
    for (size_t i = 0; i < n; i++)
        prn_buffer_printf(out, "%s%s", i ? " + " : "",
                          prn_dims_text(shapes[i].dims, shapes[i].rank, text, sizeof text));
}

static void shapes_cell(struct prn_table *t, const struct prn_layer_shape *shapes, size_t n)
{
    struct prn_buffer text = PRN_BUFFER_INIT(PRN_REPORT_MAX);
    write_shapes(shapes, n, &text);
    prn_table_cell(t, "%s", prn_buffer_text(&text));
    prn_buffer_release(&text);
}

static void flags_cell(struct prn_table *t, unsigned flags)
{
    struct prn_buffer text = PRN_BUFFER_INIT(PRN_REPORT_MAX);
    prn_flags_text(&text, flags);
    prn_table_cell(t, "%s", prn_buffer_text(&text));
    prn_buffer_release(&text);
}

/* ---- Text and Markdown ---- */

/* "1.2 %" of a time; "?" without an interval. How much more than all of it says nothing. */
static const char *precision(char text[PRN_FORMAT_SIZE], double time_s, double ci_s)
{
    snprintf(text, PRN_FORMAT_SIZE, "?");
    if (isfinite(ci_s) && ci_s <= time_s)
        snprintf(text, PRN_FORMAT_SIZE, "%.1f %%", 100 * ci_s / time_s);
    else if (isfinite(ci_s))
        snprintf(text, PRN_FORMAT_SIZE, "unknown");
    return text;
}

/* "83.0 ms ±1.2 %" */
static void add_time(struct prn_buffer *out, double time_s, double ci_s)
{
    char text[PRN_FORMAT_SIZE];
    prn_buffer_add(out, prn_format_duration(text, time_s * 1e9));
    if (ci_s <= time_s)
        prn_buffer_printf(out, " ±%s", precision(text, time_s, ci_s));
    else if (isfinite(ci_s))
        prn_buffer_add(out, " (± unknown)");
}

static void layer_row(const struct view *v, size_t row, bool flagged, struct prn_table *t)
{
    const struct prn_layer_entry *e = entry_of(v, row);
    char text[PRN_FORMAT_SIZE];
    prn_table_cell(t, "%" PRId64, e->layer);
    prn_table_cell(t, "%s", prn_format_duration(text, e->time_s * 1e9));
    prn_table_cell(t, "%s", precision(text, e->time_s, e->time_ci_s));
    prn_table_cell(t, "%.1f %%", v->m->sum_s > 0 ? 100 * e->time_s / v->m->sum_s : 0);
    prn_table_cell(t, "%.1f MB", e->memory_mb);
    shapes_cell(t, e->in, e->n_in);
    shapes_cell(t, e->out, e->n_out);
    if (flagged)
        flags_cell(t, v->m->rows[row].flags);
}

/* What the runtime takes of each layer's memory; NAN: not known of all. */
static double fixed_memory(const struct view *v)
{
    double least = INFINITY;
    for (size_t i = 0; i < v->m->n_rows; i++) {
        double fixed = entry_of(v, i)->memory_fixed_mb;
        least = isnan(fixed) || fixed < least ? fixed : least;
        if (isnan(least))
            break;
    }
    return least;
}

static void sum_row(const struct view *v, bool flagged, struct prn_table *t)
{
    char text[PRN_FORMAT_SIZE];
    double fixed_mb = fixed_memory(v);
    double memory_mb = isnan(fixed_mb) ? 0 : fixed_mb;
    for (size_t i = 0; i < v->m->n_rows; i++)
        memory_mb += fmax(0, entry_of(v, i)->memory_mb - (isnan(fixed_mb) ? 0 : fixed_mb));
    prn_table_cell(t, "sum");
    prn_table_cell(t, "%s", prn_format_duration(text, v->m->sum_s * 1e9));
    prn_table_cell(t, "%s", precision(text, v->m->sum_s, v->m->sum_ci_s));
    prn_table_cell(t, "100.0 %%");
    prn_table_cell(t, "%.1f MB", memory_mb);
    prn_table_cell(t, "%s", "");
    prn_table_cell(t, "%s", "");
    if (flagged)
        prn_table_cell(t, "%s", "");
}

static unsigned all_flags(const struct prn_layer_measurement *m)
{
    unsigned flags = 0;
    for (size_t i = 0; i < m->n_rows; i++)
        flags |= m->rows[i].flags;
    return flags;
}

static int write_table(const struct view *v, const struct prn_look *look, struct prn_buffer *out,
                       struct prony_error *err)
{
    bool flagged = all_flags(v->m) != 0;
    struct prn_table *t = prn_table_new();
    if (!look->markdown)
        prn_table_width(t, look->width);
    prn_table_columns(t, ">Layer|>Time|>±|>Share|>Memory|~Takes|~Gives");
    if (flagged)
        prn_table_column(t, "Flags", PRN_TABLE_ALIGN_LEFT);
    for (size_t i = 0; i < v->m->n_rows; i++)
        layer_row(v, i, flagged, t);
    sum_row(v, flagged, t);
    return prn_table_end(t, look->markdown ? PRN_TABLE_STYLE_MARKDOWN : PRN_TABLE_STYLE_TEXT, out,
                         err);
}

static bool adds_up(const struct prn_layer_measurement *m)
{
    return fabs(m->sum_s / m->whole[PRN_WHOLE_CUT].time_s - 1) <= PRN_LAYERS_AGREE;
}

/* Whether no other layer's interval reaches into this one's. */
static bool is_longest(const struct prn_layer_measurement *m,
                       const struct prn_layer_profile *profile,
                       const struct prn_layer_entry *longest)
{
    for (size_t i = 0; i < m->n_rows; i++) {
        const struct prn_layer_entry *e = prn_layer_profile_find(profile, m->rows[i].layer);
        if (e && e != longest && !(e->time_s + e->time_ci_s < longest->time_s - longest->time_ci_s))
            return false;
    }
    return true;
}

void prn_layers_verdict(const struct prn_layer_measurement *m,
                        const struct prn_layer_profile *profile, struct prn_buffer *out)
{
    const struct prn_layer_entry *longest = NULL;
    char text[PRN_FORMAT_SIZE];
    for (size_t i = 0; i < m->n_rows; i++) {
        const struct prn_layer_entry *e = prn_layer_profile_find(profile, m->rows[i].layer);
        if (e && (!longest || e->time_s > longest->time_s))
            longest = e;
    }
    if (!longest)
        return;
    if (m->n_rows == 1) {
        prn_buffer_printf(out, "Layer %" PRId64 " takes %s", longest->layer,
                          prn_format_duration(text, 1e9 * longest->time_s));
    } else {
        prn_buffer_printf(out, "%zu layers take %s", m->n_rows,
                          prn_format_duration(text, 1e9 * m->sum_s));
        prn_buffer_printf(out, "; layer %" PRId64 " %s longest, %s", longest->layer,
                          is_longest(m, profile, longest) ? "takes" : "seems to take",
                          prn_format_duration(text, 1e9 * longest->time_s));
    }
    double whole = m->has_whole ? m->whole[PRN_WHOLE_FUSED].time_s / m->sum_s : NAN;
    if (m->n_rows > 1 && isfinite(whole)) {
        double percent = 100 * fabs(whole - 1);
        prn_buffer_printf(out, ". The whole model takes %s, ",
                          prn_format_duration(text, 1e9 * m->whole[PRN_WHOLE_FUSED].time_s));
        if (!adds_up(m))
            prn_buffer_add(out, "but the layers do not add up");
        else if (percent < 0.05)
            prn_buffer_add(out, "as much as its layers");
        else if (whole < 2)
            prn_buffer_printf(out, "%.1f %% %s than its layers", percent,
                              whole > 1 ? "more" : "less");
        else
            prn_buffer_printf(out, "%s× as long as its layers", prn_format_ratio(text, whole));
    }
    prn_buffer_add(out, m->mismatch ? ". Their outputs differ (MISMATCH)." : ".");
}

static void write_head(const struct view *v, struct prn_prose *p)
{
    const struct prn_layer_head *head = prn_layer_profile_head(v->profile);
    prn_buffer_printf(&p->line, "%s, ", v->m->model_path);
    if (v->m->n_rows == 1)
        prn_buffer_printf(&p->line, "layer %" PRId64, v->m->rows[0].layer);
    else
        prn_buffer_printf(&p->line, "layers %" PRId64 " to %" PRId64, v->m->rows[0].layer,
                          v->m->rows[v->m->n_rows - 1].layer);
    prn_buffer_printf(&p->line, " of %" PRId64 ", batch of %" PRId64 ", %s, on %s", head->layers,
                      head->batch_size, head->dtype, v->m->backend);
    if (v->m->runtime[0])
        prn_buffer_printf(&p->line, " (%s)", v->m->runtime);
    prn_prose_paragraph(p, ".");
}

/* "1.2 % more than", "as much as" … the other figure. */
static void add_relation(struct prn_prose *p, double ratio)
{
    double percent = 100 * fabs(ratio - 1);
    if (percent < 0.05)
        prn_buffer_add(&p->line, "as much as that");
    else
        prn_buffer_printf(&p->line, "%.1f %% %s than that", percent, ratio > 1 ? "more" : "less");
}

static void write_whole(const struct prn_layer_measurement *m, struct prn_prose *p)
{
    const struct prn_whole_time *cut = &m->whole[PRN_WHOLE_CUT];
    const struct prn_whole_time *fused = &m->whole[PRN_WHOLE_FUSED];
    double sum = m->sum_s / cut->time_s;
    prn_buffer_add(&p->line, "The whole model takes ");
    add_time(&p->line, cut->time_s, cut->time_ci_s);
    prn_buffer_add(&p->line, " with nothing fused across the cuts; the sum of the layers is ");
    add_relation(p, sum);
    prn_prose_paragraph(p, "%s",
                        adds_up(m) ? "."
                                   : ": the layers do not add up. For layers of microseconds, "
                                     "starting a run takes much of the time; otherwise measure "
                                     "again, with a longer --max-time, on a quiet machine.");
    double saved_s = m->sum_s - fused->time_s;
    double half_s = hypot(fused->time_ci_s, m->sum_ci_s);
    prn_buffer_add(&p->line, "As it is, it takes ");
    add_time(&p->line, fused->time_s, fused->time_ci_s);
    /* A sum that isn't the whole's time says nothing of what fusing saves. */
    if (!adds_up(m))
        prn_prose_paragraph(p, ".");
    else if (saved_s > half_s || (isnan(half_s) && saved_s > 0))
        prn_prose_paragraph(p, ": fusing across the cuts %s %.1f %% of the sum.",
                            isnan(half_s) ? "seems to save" : "would save",
                            100 * saved_s / m->sum_s);
    else if (saved_s < -half_s)
        prn_prose_paragraph(p, ": fusing across the cuts would save nothing.");
    else
        prn_prose_paragraph(p, ": nobody knows whether fusing across the cuts would save time.");
}

static void write_outputs(const struct prn_layer_measurement *m, struct prn_prose *p)
{
    if (m->mismatch)
        prn_buffer_printf(&p->line,
                          "MISMATCH: run in sequence, the layers do not give the whole "
                          "model's outputs; the largest difference is %.2g of the largest value",
                          m->difference);
    else if (m->difference > 0)
        prn_buffer_printf(&p->line,
                          "Run in sequence, the layers give the whole model's outputs, to "
                          "%.2g of the largest value",
                          m->difference);
    else
        prn_buffer_add(&p->line,
                       "Run in sequence, the layers give exactly the whole model's outputs");
    if (m->repeatability > 0)
        prn_prose_paragraph(p, "; two processes with the whole model differ by %.2g.",
                            m->repeatability);
    else
        prn_prose_paragraph(p, ".");
}

static void write_flags(const struct prn_layer_measurement *m, struct prn_prose *p)
{
    unsigned flags = all_flags(m);
    for (size_t i = 0; m->has_whole && i < PRN_WHOLE_KINDS; i++)
        flags |= m->whole[i].flags;
#define PRN_X(name, bit, text) \
    if (flags & (bit))         \
        prn_prose_paragraph(p, "%s: %s.", #name, text);
    PRN_FLAG_MAP(PRN_X)
#undef PRN_X
}

/* Of layers measured in this run, what too few processes leave open. */
static void write_few(const struct prn_layer_measurement *m, struct prn_prose *p)
{
    int64_t fewest = PRN_UNITS_MIN;
    for (size_t i = 0; i < m->n_rows; i++)
        if (m->rows[i].measured && m->rows[i].launches < fewest)
            fewest = m->rows[i].launches;
    if (fewest < PRN_UNITS_MIN)
        prn_prose_paragraph(p,
                            "No ±: %" PRId64 " process%s can't tell how the next one would "
                            "differ. Use --launches 5, or a longer --max-time.",
                            fewest, fewest == 1 ? "" : "es");
}

static void write_notes(const struct view *v, struct prn_prose *p)
{
    size_t older = 0;
    for (size_t i = 0; i < v->m->n_rows; i++)
        older += !v->m->rows[i].measured;
    if (v->m->has_whole) {
        write_whole(v->m, p);
        write_outputs(v->m, p);
    }
    double fixed_mb = fixed_memory(v);
    if (fixed_mb > 0 && v->m->n_rows > 1)
        prn_prose_paragraph(
            p, "%.1f MB of each layer's memory belong to the runtime; the sum counts them once.",
            fixed_mb);
    if (older > 0)
        prn_prose_paragraph(p, "%zu layer%s measured in an earlier run.", older,
                            older == 1 ? " was" : "s were");
    write_few(v->m, p);
    write_flags(v->m, p);
}

static int write_text(const struct view *v, const struct prn_look *look, struct prn_buffer *out,
                      struct prony_error *err)
{
    struct prn_prose p = prn_prose_init(look, out);
    write_head(v, &p);
    prn_buffer_add_char(out, '\n');
    prn_layers_verdict(v->m, v->profile, &p.line);
    prn_prose_verdict(&p);
    prn_buffer_add_char(out, '\n');
    int code = write_table(v, &p.look, out, err);
    if (code == 0) {
        prn_buffer_add_char(out, '\n');
        write_notes(v, &p);
    }
    prn_prose_release(&p);
    return code;
}

/* ---- CSV ---- */

static int write_csv(const struct view *v, struct prn_buffer *out, struct prony_error *err)
{
    struct prn_table *t = prn_table_new();
    prn_table_columns(t, "layer|time_s|time_ci_s|memory_mb|shape_in|shape_out|measured|samples|"
                         "launches|flags|memory_fixed_mb");
    for (size_t i = 0; i < v->m->n_rows; i++) {
        const struct prn_layer_entry *e = entry_of(v, i);
        const struct prn_layer_row *row = &v->m->rows[i];
        prn_table_cell(t, "%" PRId64, e->layer);
        prn_table_cell_exact(t, e->time_s);
        prn_table_cell_exact(t, e->time_ci_s);
        prn_table_cell_exact(t, e->memory_mb);
        shapes_cell(t, e->in, e->n_in);
        shapes_cell(t, e->out, e->n_out);
        prn_table_cell(t, "%s", row->measured ? "true" : "false");
        prn_table_cell(t, "%" PRId64, row->samples);
        prn_table_cell(t, "%" PRId64, row->launches);
        flags_cell(t, row->flags);
        prn_table_cell_exact(t, e->memory_fixed_mb);
    }
    return prn_table_end(t, PRN_TABLE_STYLE_CSV, out, err);
}

static int write_part(const void *report, bool json, struct prn_buffer *out,
                      struct prony_error *err)
{
    static const struct prn_look look = {.verbose = true, .width = PRN_PAGE_TEXT_WIDTH};
    const struct view *v = report;
    return json ? prn_layers_write_json(v->m, v->profile, out, err)
                : write_text(v, &look, out, err);
}

int prn_layers_report(const struct prn_layer_measurement *measurement,
                      const struct prn_layer_profile *profile, enum prn_report_format format,
                      const struct prn_look *look, struct prn_buffer *out, struct prony_error *err)
{
    struct prn_look own = *look;
    own.markdown = format == PRN_REPORT_FORMAT_MARKDOWN;
    struct view v = {measurement, profile};
    switch (format) {
    case PRN_REPORT_FORMAT_JSON:
        return prn_layers_write_json(measurement, profile, out, err);
    case PRN_REPORT_FORMAT_CSV:
        return write_csv(&v, out, err);
    case PRN_REPORT_FORMAT_HTML:
        return prn_page_of_report(write_part, &v, out, err);
    default:
        return write_text(&v, &own, out, err);
    }
}
