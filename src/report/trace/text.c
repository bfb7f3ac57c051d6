/* A trace as text or Markdown. */
#include "report/trace/view.h"

#include "base/format.h"

#include <inttypes.h>
#include <math.h>

struct prn_prose prn_trace_prose(const struct prn_trace_report_options *options, bool markdown,
                                 struct prn_buffer *out)
{
    const struct prn_look look = {.markdown = markdown,
                                  .width = options->width ? options->width : PRN_LOOK_UNLIMITED};
    return prn_prose_init(&look, out);
}

static void write_head(const struct prn_trace_report *r, struct prn_prose *p)
{
    const struct prn_trace *t = r->trace;
    char text[PRN_FORMAT_SIZE];
    prn_buffer_printf(&p->line, "Trace: %s, %s", t->name,
                      prn_format_bytes(text, (double)t->counts.bytes));
    prn_prose_paragraph(p, ", %s event%s", prn_format_integer(text, t->counts.events),
                        t->counts.events == 1 ? "" : "s");
    prn_buffer_printf(&p->line, "Runs: %s found, ", prn_format_integer(text, t->n_runs));
    if (t->whole_is_one_run)
        prn_prose_paragraph(p, "the whole trace is analysed as one");
    else
        prn_prose_paragraph(p, "%s analysed: %s", prn_format_integer(text, t->n_selected),
                            t->selected);
}

/* What the reader must know to read the ledger right. */
static void write_ledger_notes(const struct prn_trace *t, struct prn_prose *p)
{
    char text[PRN_FORMAT_SIZE];
    double node = t->ledger_ns[PRN_LEDGER_NODE];
    double nodes = ceil((double)t->ledger_nodes / (double)t->n_selected);
    prn_buffer_add(p->out, "\n");
    if (node > 0)
        prn_prose_paragraph(p, "While nodes ran, %.2f of them ran at a time.",
                            t->ledger_node_sum_ns / node);
    double nested = t->ledger_nested_ns / (t->ledger_nested_ns + t->ledger_node_sum_ns);
    if (nested > 0.0005)
        prn_prose_paragraph(p,
                            "%.1f %% of the nodes' time is inside other nodes (the bodies of If, "
                            "Loop and Scan). The tables below count it for both.",
                            100 * nested);
    if (!t->has_execute)
        prn_prose_paragraph(p, "The trace has no executor events, so time outside the nodes is "
                               "unexplained.");
    prn_prose_paragraph(p,
                        "Times are cut to whole µs: with %.0f node%s, up to %s of a run's node "
                        "time is counted outside the nodes.",
                        nodes, nodes == 1 ? "" : "s", prn_format_duration(text, nodes * 1e3));
}

static int write_ledger(const struct prn_trace_report *r, bool markdown, struct prn_buffer *out,
                        struct prony_error *err)
{
    if (!r->trace->has_ledger)
        return 0;
    prn_heading(out, markdown, "Where a run's time goes");
    struct prn_prose prose = prn_trace_prose(&r->options, markdown, out);
    int code = prn_trace_ledger_write(r, markdown ? PRN_TABLE_STYLE_MARKDOWN : PRN_TABLE_STYLE_TEXT,
                                      out, err);
    if (code == 0)
        write_ledger_notes(r->trace, &prose);
    prn_prose_release(&prose);
    return code;
}

static int write_rows(const struct prn_trace_report *r, const struct prn_trace_rows *rows,
                      const char *what, bool markdown, struct prn_buffer *out,
                      struct prony_error *err)
{
    if (rows->n == 0)
        return 0;
    if (rows->shown < rows->n)
        prn_heading(out, markdown, "Top %s kernel times: %zu of %zu", what, rows->shown, rows->n);
    else
        prn_heading(out, markdown, "%s kernel times", what);
    return prn_trace_rows_write(r, rows, markdown ? PRN_TABLE_STYLE_MARKDOWN : PRN_TABLE_STYLE_TEXT,
                                out, err);
}

static int write_mapping(const struct prn_trace_report *r, bool markdown, struct prn_buffer *out,
                         struct prony_error *err)
{
    if (!r->options.mapping)
        return 0;
    if (r->gpu.n == 0) {
        prn_buffer_add(out, "\nThe trace has no GPU kernels, so there is nothing to map.\n");
        return 0;
    }
    if (r->n_mapping == 0) {
        prn_buffer_add(out, "\nNo kernel could be mapped to an operator.\n");
        return 0;
    }
    prn_heading(out, markdown, "Operators and their kernels");
    return prn_trace_mapping_write(r, markdown ? PRN_TABLE_STYLE_MARKDOWN : PRN_TABLE_STYLE_TEXT,
                                   out, err);
}

int prn_trace_text_write(const struct prn_trace_report *r, bool markdown, struct prn_buffer *out,
                         struct prony_error *err)
{
    struct prn_prose prose = prn_trace_prose(&r->options, markdown, out);
    write_head(r, &prose);
    prn_buffer_add_char(out, '\n');
    int code = prn_trace_verdict(r, &prose.line, err);
    if (code == 0)
        prn_prose_verdict(&prose);
    prn_prose_release(&prose);
    if (code == 0)
        code = write_ledger(r, markdown, out, err);
    if (code == 0)
        code = write_rows(r, &r->cpu, "CPU", markdown, out, err);
    if (code == 0)
        code = write_rows(r, &r->gpu, "GPU", markdown, out, err);
    if (code == 0)
        code = prn_trace_memory_text(r, markdown, out, err);
    return code == 0 ? write_mapping(r, markdown, out, err) : code;
}

int prn_trace_report_csv(const struct prn_trace_report *r, enum prn_trace_csv which,
                         struct prn_buffer *out, struct prony_error *err)
{
    if (which == PRN_TRACE_CSV_MAPPING)
        return r->n_mapping ? prn_trace_mapping_write(r, PRN_TABLE_STYLE_CSV, out, err) : 0;
    const struct prn_trace_rows *rows = which == PRN_TRACE_CSV_CPU ? &r->cpu : &r->gpu;
    return rows->n ? prn_trace_rows_write(r, rows, PRN_TABLE_STYLE_CSV, out, err) : 0;
}

int prn_trace_report_write(const struct prn_trace_report *r, enum prn_trace_format format,
                           struct prn_buffer *out, struct prony_error *err)
{
    int code = 0;
    if (format == PRN_TRACE_FORMAT_JSON)
        code = prn_trace_json_write(r, out, err);
    else if (format == PRN_TRACE_FORMAT_CSV)
        code = prn_trace_report_csv(r,
                                    r->options.mapping ? PRN_TRACE_CSV_MAPPING
                                    : r->cpu.n         ? PRN_TRACE_CSV_CPU
                                                       : PRN_TRACE_CSV_GPU,
                                    out, err);
    else
        code = prn_trace_text_write(r, format == PRN_TRACE_FORMAT_MD, out, err);
    return code < 0 ? code : prn_buffer_error(out, err);
}
