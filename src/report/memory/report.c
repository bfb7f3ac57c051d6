#include "report/memory/report.h"

#include "base/format.h"
#include "base/table.h"
#include "measure/memory/memory.h"
#include "report/look.h"

#include <math.h>

#define TOP 10
/* Unexplained parts below this aren't worth a sentence. */
#define CLOSED 0.05

struct part {
    const char *name;
    int64_t bytes; /* -1: not told */
};

#define PARTS_MAX 9

static size_t parts_of(const struct prn_memory *m, struct part parts[PARTS_MAX])
{
    bool told = m->activations_bytes >= 0;
    size_t n = 0;
    parts[n++] = (struct part){"Weights", m->weights_bytes};
    if (told) {
        parts[n++] = (struct part){"Activations", m->activations_bytes};
        parts[n++] = (struct part){"Workspace", m->workspace_bytes};
        parts[n++] = (struct part){"Arena, rounding", m->rounding_bytes};
        parts[n++] = (struct part){"Arena, idle", m->idle_bytes};
    } else {
        parts[n++] = (struct part){"What a run takes", m->run_bytes};
    }
    parts[n++] = (struct part){"Inputs", m->inputs_bytes};
    parts[n++] = (struct part){"What loading takes besides", m->session_bytes};
    parts[n++] = (struct part){"Runtime", m->runtime_bytes};
    if (told)
        parts[n++] = (struct part){"Unexplained", m->unexplained_bytes};
    return n;
}

void prn_memory_text(const struct prn_memory *m, struct prn_buffer *out)
{
    char text[PRN_FORMAT_SIZE];
    prn_buffer_printf(
        out, "With the model the process has %s: ", prn_format_bytes(text, (double)m->total_bytes));
    prn_buffer_printf(out, "%s weights", prn_format_bytes(text, (double)m->weights_bytes));
    if (m->activations_bytes >= 0) {
        prn_buffer_printf(out, ", %s activations",
                          prn_format_bytes(text, (double)m->activations_bytes));
        if (m->workspace_bytes > 0)
            prn_buffer_printf(out, " and %s workspace",
                              prn_format_bytes(text, (double)m->workspace_bytes));
        if (m->peak_node)
            prn_buffer_printf(out, " in node %s", m->peak_node);
    } else {
        prn_buffer_printf(out, ", %s that a run takes",
                          prn_format_bytes(text, (double)m->run_bytes));
    }
    prn_buffer_printf(out, ", %s that loading takes besides",
                      prn_format_bytes(text, (double)m->session_bytes));
    prn_buffer_printf(out, ", %s runtime.", prn_format_bytes(text, (double)m->runtime_bytes));
    if (m->peak_bytes > m->total_bytes)
        prn_buffer_printf(out, " While it loads it has up to %s.",
                          prn_format_bytes(text, (double)m->peak_bytes));
}

static void tell_unexplained(const struct prn_memory *m, struct prn_prose *prose)
{
    char text[PRN_FORMAT_SIZE];
    if ((double)m->session_bytes > CLOSED * (double)m->total_bytes) {
        prn_buffer_add_char(prose->out, '\n');
        prn_prose_paragraph(prose, "What loading takes besides is the growth of the process; the "
                                   "runtime doesn't tell what is in it.");
    }
    double part = fabs((double)m->unexplained_bytes) / (double)m->total_bytes;
    if (m->activations_bytes < 0) {
        prn_buffer_add_char(prose->out, '\n');
        prn_prose_paragraph(prose,
                            "The runtime doesn't tell what a run takes in parts; this is the "
                            "growth of the process.");
        return;
    }
    if (part < CLOSED)
        return;
    prn_buffer_add_char(prose->out, '\n');
    prn_buffer_printf(&prose->line, "%s, %.1f %%, ",
                      prn_format_bytes(text, fabs((double)m->unexplained_bytes)), 100 * part);
    prn_prose_paragraph(prose, m->unexplained_bytes > 0
                                   ? "is unexplained: neither the model nor the arena has it."
                                   : "of these parts is not in memory: it was never touched.");
}

/* Where nodes of the runtime can't be traced back to the model, so can't their tensors. */
static void tell_missing(const struct prn_memory *m, struct prn_prose *prose)
{
    char text[PRN_FORMAT_SIZE];
    double missing = (double)(m->activations_bytes - m->tensors_bytes);
    if (fabs(missing) <= CLOSED * (double)m->activations_bytes)
        return;
    prn_buffer_add_char(prose->out, '\n');
    prn_buffer_printf(&prose->line, "Together, tensors of the model have %s here",
                      prn_format_bytes(text, (double)m->tensors_bytes));
    prn_prose_paragraph(prose, ", the runtime's %s: not all of its nodes can be traced back.",
                        prn_format_bytes(text, (double)m->activations_bytes));
}

static enum prn_table_style style_of(const struct prn_prose *prose)
{
    return prose->markdown ? PRN_TABLE_STYLE_MARKDOWN : PRN_TABLE_STYLE_TEXT;
}

static int write_parts(const struct prn_memory *m, struct prn_prose *prose, struct prony_error *err)
{
    char text[PRN_FORMAT_SIZE];
    struct part parts[PARTS_MAX];
    size_t n = parts_of(m, parts);
    struct prn_table *t = prn_table_new();
    prn_buffer_add_char(prose->out, '\n');
    prn_table_columns(t, "Part of the memory|>Size|>Share");
    for (size_t i = 0; i < n; i++) {
        double bytes = (double)parts[i].bytes;
        prn_table_cell(t, "%s", parts[i].name);
        prn_table_cell(t, "%s%s", bytes < 0 ? "−" : "", prn_format_bytes(text, fabs(bytes)));
        prn_table_cell(t, "%s%.1f %%", bytes < 0 ? "−" : "",
                       100 * fabs(bytes) / (double)m->total_bytes);
    }
    prn_table_cell(t, "Process");
    prn_table_cell(t, "%s", prn_format_bytes(text, (double)m->total_bytes));
    prn_table_cell(t, "100.0 %%");
    return prn_table_end(t, style_of(prose), prose->out, err);
}

static int write_tensors(const struct prn_memory *m, struct prn_prose *prose,
                         struct prony_error *err)
{
    char text[PRN_FORMAT_SIZE];
    if (m->n_tensors == 0)
        return 0;
    struct prn_table *t = prn_table_new();
    prn_table_width(t, prose->look.width);
    prn_buffer_add_char(prose->out, '\n');
    prn_table_column(t, "Tensor alive at the peak", PRN_TABLE_ALIGN_LEFT);
    prn_table_shrink(t);
    prn_table_column(t, "Size", PRN_TABLE_ALIGN_RIGHT);
    prn_table_column(t, "Made by", PRN_TABLE_ALIGN_LEFT);
    prn_table_shrink(t);
    prn_table_column(t, "Last read by", PRN_TABLE_ALIGN_LEFT);
    prn_table_shrink(t);
    for (size_t i = 0; i < m->n_tensors && i < TOP; i++) {
        prn_table_cell(t, "%s", m->tensors[i].name);
        prn_table_cell(t, "%s", prn_format_bytes(text, (double)m->tensors[i].bytes));
        prn_table_cell(t, "%s", m->tensors[i].made_by);
        prn_table_cell(t, "%s",
                       m->tensors[i].last_read_by ? m->tensors[i].last_read_by : "(output)");
    }
    int code = prn_table_end(t, style_of(prose), prose->out, err);
    if (m->n_tensors > TOP) {
        prn_buffer_add_char(prose->out, '\n');
        prn_prose_paragraph(prose, "These are %d of %zu tensors; --format json has all.", TOP,
                            m->n_tensors);
    }
    return code;
}

static int write_section(const struct prn_view *view, size_t index, const struct prn_memory *m,
                         struct prn_prose *prose, struct prony_error *err)
{
    prn_heading(prose->out, prose->markdown, "Where the memory goes: %s", view->calls[index]);
    if (m->error) {
        prn_prose_paragraph(prose, "It isn't known: %s.", m->error);
        return 0;
    }
    prn_memory_text(m, &prose->line);
    prn_prose_flush(prose, 0);
    int code = write_parts(m, prose, err);
    tell_unexplained(m, prose);
    if (code == 0 && m->activations_bytes >= 0) {
        code = write_tensors(m, prose, err);
        tell_missing(m, prose);
    }
    return code;
}

int prn_memory_sections(const struct prn_view *view, struct prn_prose *prose,
                        struct prony_error *err)
{
    int code = 0;
    for (size_t i = 0; code == 0 && i < view->profile->n_results; i++)
        if (view->profile->results[i].memory)
            code = write_section(view, i, view->profile->results[i].memory, prose, err);
    return code;
}
