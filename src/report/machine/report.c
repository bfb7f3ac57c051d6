#include "report/machine/report.h"

#include "base/format.h"
#include "report/prose.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Integers aren't floating-point numbers. */
static const char *unit_of(const struct prn_machine_row *row)
{
    if (row->kind != PRN_MACHINE_COMPUTE)
        return "B/s";
    return strcmp(row->of, PRN_MACHINE_INT8) == 0 ? "OP/s" : "FLOP/s";
}

const char *prn_machine_rate_text(char text[64], const struct prn_machine_row *row)
{
    char count[PRN_FORMAT_SIZE];
    prn_format_count(count, row->per_s);
    bool multiple = strchr(count, ' ') != NULL;
    snprintf(text, 64, "%s%s%s", count, multiple ? "" : " ", unit_of(row));
    return text;
}

/* ---- The verdict ---- */

static const struct prn_machine_row *row_of(const struct prn_machine *m, int64_t threads,
                                            const char *of)
{
    const struct prn_machine_row *best = NULL;
    for (size_t i = 0; i < m->n_rows; i++)
        if (m->rows[i].threads == threads && strcmp(m->rows[i].of, of) == 0 &&
            (!best || m->rows[i].per_s > best->per_s))
            best = &m->rows[i];
    return best;
}

void prn_machine_verdict(const struct prn_machine *m, struct prn_buffer *out)
{
    char text[64];
    char ratio[PRN_FORMAT_SIZE];
    int64_t threads = 0;
    for (size_t i = 0; i < m->n_rows; i++)
        threads = m->rows[i].threads > threads ? m->rows[i].threads : threads;
    const struct prn_machine_row *compute = row_of(m, threads, PRN_MACHINE_FLOAT32);
    const struct prn_machine_row *memory = row_of(m, threads, PRN_MACHINE_MEMORY);
    const char *plural = threads == 1 ? "" : "s";
    if (compute)
        prn_buffer_printf(out, "With %" PRId64 " thread%s, this machine computes %s in float32",
                          threads, plural, prn_machine_rate_text(text, compute));
    if (compute && memory) {
        prn_buffer_printf(out, " and moves %s from memory. ", prn_machine_rate_text(text, memory));
        prn_buffer_printf(out, "Work with less than %s FLOP per byte from memory waits for it",
                          prn_format_significant(ratio, compute->per_s / memory->per_s, 3));
    } else if (memory) {
        prn_buffer_printf(out, "With %" PRId64 " thread%s, this machine moves %s from memory",
                          threads, plural, prn_machine_rate_text(text, memory));
    }
    prn_buffer_add(out, compute || memory ? "." : "Nothing was measured.");
}

/* ---- Text and Markdown ---- */

static void interval_cell(struct prn_table *t, const struct prn_machine_row *row)
{
    double half = (row->high_per_s - row->per_s) / row->per_s;
    if (!isfinite(half))
        prn_table_cell(t, "-");
    else if (half > 1)
        prn_table_cell(t, "unknown");
    else
        prn_table_cell(t, "%.1f %%", 100 * half);
}

static void add_row(struct prn_table *t, const struct prn_machine_row *row)
{
    char text[64];
    char bytes[PRN_FORMAT_SIZE];
    if (row->kind == PRN_MACHINE_COMPUTE)
        prn_table_cell(t, "%s", row->of);
    else
        prn_table_cell(t, "%s %s", row->of, prn_machine_kind_names[row->kind]);
    prn_table_cell(t, "%" PRId64, row->threads);
    prn_table_cell(t, "%s", prn_machine_rate_text(text, row));
    interval_cell(t, row);
    prn_table_cell(t, "%s",
                   row->working_bytes < 0 ? "-"
                                          : prn_format_bytes(bytes, (double)row->working_bytes));
    prn_table_cell_text(t, row->instructions);
}

static int write_table(const struct prn_machine *m, const struct prn_look *look,
                       struct prn_buffer *out, struct prony_error *err)
{
    struct prn_table *t = prn_table_new();
    prn_table_columns(t, "What|>Threads|>Rate|>±|>Data|Instructions");
    if (!look->markdown)
        prn_table_width(t, look->width ? look->width : PRN_LOOK_WIDTH);
    for (size_t i = 0; i < m->n_rows; i++)
        add_row(t, &m->rows[i]);
    return prn_table_end(t, look->markdown ? PRN_TABLE_STYLE_MARKDOWN : PRN_TABLE_STYLE_TEXT, out,
                         err);
}

static void add_remarks(const struct prn_machine *m, struct prn_prose *p)
{
    int64_t units = m->n_rows > 0 ? m->rows[0].units : 0;
    if (m->interrupted) {
        prn_buffer_add(&p->line, "Measuring was interrupted. Run it again for figures to rely on.");
        prn_prose_warning(p);
    }
    if (m->noisy) {
        prn_buffer_add(&p->line, "Other work disturbed this machine: it may be able to do more. "
                                 "Run it again when nothing else runs.");
        prn_prose_warning(p);
    }
    prn_prose_paragraph(p,
                        "A rate is the mean of the fastest %" PRId64 " of %" PRId64
                        " measurements%s. One of each took turns.",
                        units, m->rounds,
                        units >= PRN_UNITS_MIN ? ", ± half of its 95 % interval" : "");
    prn_prose_paragraph(p, "%s, %" PRId64 " core%s; machine %s, measured %s by prony %s", m->cpu,
                        m->cores, m->cores == 1 ? "" : "s", m->fingerprint, m->created,
                        m->prony_version);
}

static int write_text(const struct prn_machine *m, const struct prn_look *look,
                      struct prn_buffer *out, struct prony_error *err)
{
    struct prn_prose p = prn_prose_init(look, out);
    prn_machine_verdict(m, &p.line);
    prn_prose_verdict(&p);
    prn_buffer_add_char(out, '\n');
    int code = write_table(m, look, out, err);
    prn_buffer_add_char(out, '\n');
    add_remarks(m, &p);
    prn_prose_release(&p);
    return code == 0 ? prn_buffer_error(out, err) : code;
}

/* ---- By format ---- */

static int write_csv(const struct prn_machine *m, struct prn_buffer *out, struct prony_error *err)
{
    const struct prn_schema *s = &prn_machine_row_schema;
    struct prn_table *t = prn_table_new();
    prn_schema_columns(t, s);
    for (size_t i = 0; i < m->n_rows; i++)
        prn_schema_cells(t, s, &m->rows[i]);
    return prn_table_end(t, PRN_TABLE_STYLE_CSV, out, err);
}

int prn_machine_report(const struct prn_machine *machine, enum prn_report_format format,
                       const struct prn_look *look, struct prn_buffer *out, struct prony_error *err)
{
    struct prn_look own = *look;
    own.markdown = format == PRN_REPORT_FORMAT_MARKDOWN;
    switch (format) {
    case PRN_REPORT_FORMAT_JSON:
        return prn_schema_write_json(&prn_machine_schema, machine, out, err);
    case PRN_REPORT_FORMAT_CSV:
        return write_csv(machine, out, err);
    default:
        return write_text(machine, &own, out, err);
    }
}
