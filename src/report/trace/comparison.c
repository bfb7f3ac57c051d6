/* Two traces side by side, as text, Markdown, CSV or JSON. */
#include "report/trace/view.h"

#include "base/format.h"
#include "base/text.h"
#include "report/page.h"
#include "report/verdict.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

struct comparison_view {
    const struct prn_trace_comparison *comparison;
    const struct prn_trace *a, *b;
    const struct prn_trace_report_options *options;
    const char *const *kernels; /* demangled, of those shown */
    const char *demangler_fault;
    struct prn_arena arena;
};

#define NAMES_MAX ((size_t)64 << 20)

/* ---- Tables ---- */

static void columns(struct prn_table *t, bool exact)
{
    static const char *const titles[][2] = {{"First", "first_median_us"},
                                            {"Second", "second_median_us"},
                                            {"Difference", "difference_us"},
                                            {"Ratio", "ratio"}};
    for (size_t i = 0; i < PRN_ARRAY_SIZE(titles); i++) {
        prn_table_column(t, titles[i][exact], PRN_TABLE_ALIGN_RIGHT);
        if (i == 2) /* a narrow terminal can do without the difference, but not the interval */
            prn_table_omit(t);
    }
    if (exact) {
        prn_table_columns(t, ">ratio_low|>ratio_high");
    } else {
        prn_table_column(t, "95 % interval", PRN_TABLE_ALIGN_LEFT);
    }
    prn_table_column(t, exact ? "p_holm" : "p (Holm)", PRN_TABLE_ALIGN_RIGHT);
    prn_table_omit(t);
    prn_table_column(t, exact ? "verdict" : "Second is", PRN_TABLE_ALIGN_LEFT);
}

static void exact_cells(const struct prn_trace_difference *row, struct prn_table *t)
{
    prn_table_cell_exact(t, row->median_a_ns / 1e3);
    prn_table_cell_exact(t, row->median_b_ns / 1e3);
    prn_table_cell_exact(t, (row->median_b_ns - row->median_a_ns) / 1e3);
    prn_table_cell_exact(t, row->ratio.estimate);
    prn_table_cell_exact(t, row->ratio.low);
    prn_table_cell_exact(t, row->ratio.high);
    prn_table_cell_exact(t, row->p);
    prn_table_cell(t, "%s", prn_trace_verdict_name(row->verdict));
}

static void text_cells(const struct prn_trace_difference *row, struct prn_table *t)
{
    char text[PRN_FORMAT_SIZE];
    double difference = row->median_b_ns - row->median_a_ns;
    prn_table_cell(t, "%s", row->a ? prn_format_duration(text, row->median_a_ns) : "-");
    prn_table_cell(t, "%s", row->b ? prn_format_duration(text, row->median_b_ns) : "-");
    prn_table_cell(t, "%s%s",
                   difference > 0   ? "+"
                   : difference < 0 ? "-"
                                    : "",
                   prn_format_duration(text, fabs(difference)));
    if (isfinite(row->ratio.estimate))
        prn_table_cell(t, "%.3f", row->ratio.estimate);
    else
        prn_table_cell(t, "-");
    if (isfinite(row->ratio.low) && isfinite(row->ratio.high))
        prn_table_cell(t, "%.3f to %.3f", row->ratio.low, row->ratio.high);
    else
        prn_table_cell(t, "-");
    prn_table_cell(t, "%s", isnan(row->p) ? "-" : prn_format_probability(text, row->p));
    prn_table_cell(t, "%s",
                   row->verdict == PRN_TRACE_NOT_SHOWN ? "" : prn_trace_verdict_name(row->verdict));
}

/* Memory is in CSV beside the times. */
static void memory_columns(struct prn_table *t)
{
    prn_table_columns(t, ">first_growth_bytes|>second_growth_bytes|>first_live_bytes|"
                         ">second_live_bytes");
}

static void memory_cells(const struct prn_trace_difference *row, struct prn_table *t)
{
    const struct prn_trace_group *groups[] = {row->a, row->b};
    for (size_t i = 0; i < 4; i++) {
        const struct prn_trace_group *g = groups[i % 2];
        if (g && g->memory.events > 0)
            prn_table_cell(t, "%" PRId64, i < 2 ? g->memory.growth_bytes : g->memory.live_bytes);
        else
            prn_table_cell(t, "%s", "");
    }
}

static int write_table(const struct comparison_view *v, size_t which, size_t count,
                       enum prn_table_style style, struct prn_buffer *out, struct prony_error *err)
{
    bool gpu = which == PRN_TRACE_COMPARED_GPU;
    unsigned by = gpu ? 0 : v->a->cpu[which].by;
    bool exact = style == PRN_TABLE_STYLE_CSV;
    bool memory = exact && (v->a->memory.n > 0 || v->b->memory.n > 0);
    struct prn_table *t = prn_table_new();
    prn_table_width(t, v->options->width);
    prn_table_rest(t, PRN_TRACE_MORE, 1);
    if (gpu)
        prn_trace_kernel_columns(t, v->options, exact);
    else
        prn_trace_key_columns(t, by, exact, "op");
    columns(t, exact);
    if (memory)
        memory_columns(t);
    for (size_t i = 0; i < v->comparison->n[which] && i < count; i++) {
        const struct prn_trace_difference *row = &v->comparison->rows[which][i];
        if (gpu)
            prn_trace_kernel_cells(t, v->options, v->kernels[i], row->key);
        else
            prn_trace_key_cells(t, by, row->key);
        (exact ? exact_cells : text_cells)(row, t);
        if (memory)
            memory_cells(row, t);
    }
    return prn_table_end(t, style, out, err);
}

/* ---- Text ---- */

static void write_trace_line(struct prn_prose *p, const char *title, const struct prn_trace *t)
{
    char text[PRN_FORMAT_SIZE];
    prn_prose_paragraph(p, "%s: %s, %s run%s analysed: %s", title, t->name,
                        prn_format_integer(text, t->n_selected), t->n_selected == 1 ? "" : "s",
                        t->selected);
}

#define CAUSES_TOLD 3

static const char *group_name(const struct prn_trace_key *key, struct prn_buffer *scratch)
{
    prn_buffer_clear(scratch);
    if (key->node)
        return prn_trace_node_name(key->node, scratch);
    const struct prn_symbol *symbol = key->op         ? key->op
                                      : key->provider ? key->provider
                                                      : key->shape;
    prn_text_shorten(scratch, symbol ? symbol->text : "", 80);
    return prn_buffer_text(scratch);
}

/* " The difference is mostly Conv and Relu.", if so few groups make most of it. */
static void add_causes(const struct comparison_view *v, struct prn_buffer *out)
{
    const struct prn_trace_comparison *c = v->comparison;
    const struct prn_trace_difference *told[CAUSES_TOLD];
    double whole = c->run.median_b_ns - c->run.median_a_ns;
    double sum = 0;
    size_t n = 0;
    for (size_t i = 0; i < c->n[0] && fabs(sum) < 0.8 * fabs(whole); i++) {
        const struct prn_trace_difference *row = &c->rows[0][i];
        double ns = row->median_b_ns - row->median_a_ns;
        if (!(ns * whole > 0))
            continue;
        if (n == CAUSES_TOLD)
            return;
        told[n++] = row;
        sum += ns;
    }
    if (n == 0 || fabs(sum) < 0.5 * fabs(whole))
        return;
    struct prn_buffer scratch = PRN_BUFFER_INIT(PRN_TRACE_EVENT_MAX);
    prn_buffer_add(out, " The difference is mostly ");
    for (size_t i = 0; i < n; i++)
        prn_verdict_name(i, n, group_name(told[i]->key, &scratch), out);
    prn_buffer_add_char(out, '.');
    if (scratch.error)
        out->error = scratch.error;
    prn_buffer_release(&scratch);
}

/* A difference may be known well and still be none of the program's. */
static void add_not_shown(const struct prn_trace_difference *run, struct prn_buffer *out)
{
    double most = fmax(run->ratio.high, 1 / run->ratio.low) - 1;
    if (most <= prn_trace_smallest_difference(run))
        prn_buffer_printf(
            out, "The traces differ by at most %.2g %%, as two processes of one program may",
            100 * most);
    else if (isfinite(most))
        prn_buffer_printf(out, "The traces can't be told apart: within %.2g %%", 100 * most);
    else
        prn_buffer_add(out, "The traces can't be told apart");
}

/* The verdict: which trace is faster, by how much, and what it is that differs. */
static void add_verdict(const struct comparison_view *v, struct prn_buffer *out)
{
    const struct prn_trace_comparison *c = v->comparison;
    const struct prn_trace_difference *run = &c->run;
    char text[2][PRN_FORMAT_SIZE];
    if (!c->has_run) {
        prn_buffer_add(out, "No run is complete in both traces.");
        return;
    }
    prn_format_duration(text[0], run->median_a_ns);
    prn_format_duration(text[1], run->median_b_ns);
    bool faster = run->ratio.estimate < 1;
    const char *names[] = {faster ? "second" : "first", faster ? "first" : "second"};
    switch (run->verdict) {
    case PRN_TRACE_NOT_SHOWN:
        add_not_shown(run, out);
        break;
    case PRN_TRACE_TOO_FEW_RUNS:
        prn_buffer_printf(out, "There are too few runs to compare; each trace needs %d",
                          PRN_TRACE_COMPARE_RUNS_MIN);
        break;
    default:
        prn_buffer_printf(out, "The %s trace is ", names[0]);
        prn_verdict_ratio(faster ? 1 / run->ratio.estimate : run->ratio.estimate, out);
        prn_buffer_printf(out, " as fast as the %s", names[1]);
        prn_verdict_interval(faster ? 1 / run->ratio.high : run->ratio.low,
                             faster ? 1 / run->ratio.low : run->ratio.high, out);
    }
    prn_buffer_printf(out, ". A run takes %s in the first and %s in the second.", text[0], text[1]);
    if (run->verdict == PRN_TRACE_SLOWER || run->verdict == PRN_TRACE_FASTER)
        add_causes(v, out);
}

/* What limits trust in a difference; NULL: none is shown. */
static const char *warning_of(const struct prn_trace_difference *run)
{
    return run->verdict == PRN_TRACE_SLOWER || run->verdict == PRN_TRACE_FASTER
               ? "Processes of one program differ, too. Record both again, in turns, to see "
                 "whether the difference stays."
               : NULL;
}

static void write_head(const struct comparison_view *v, struct prn_prose *p)
{
    const char *warning = v->comparison->has_run ? warning_of(&v->comparison->run) : NULL;
    write_trace_line(p, "First", v->a);
    write_trace_line(p, "Second", v->b);
    prn_buffer_add_char(p->out, '\n');
    add_verdict(v, &p->line);
    prn_prose_verdict(p);
    if (warning) {
        prn_buffer_add_char(p->out, '\n');
        prn_buffer_add(&p->line, warning);
        prn_prose_warning(p);
    }
}

static const char *what_rows_are(const struct comparison_view *v, size_t which)
{
    if (which == PRN_TRACE_COMPARED_GPU)
        return "GPU kernel";
    unsigned by = v->a->cpu[which].by;
    return by & PRN_TRACE_BY_NODE       ? "node"
           : by & PRN_TRACE_BY_OP       ? "operator"
           : by & PRN_TRACE_BY_PROVIDER ? "provider"
                                        : "input shapes";
}

static int write_rows(const struct comparison_view *v, size_t which, struct prn_prose *p,
                      struct prony_error *err)
{
    size_t n = v->comparison->n[which];
    if (n == 0)
        return 0;
    prn_buffer_printf(&p->line, "Per run and %s, largest difference first",
                      what_rows_are(v, which));
    if (n > v->options->count)
        prn_buffer_printf(&p->line, ": %zu of %zu", v->options->count, n);
    prn_prose_heading(p, "%s", "");
    int code =
        write_table(v, which, v->options->count,
                    p->markdown ? PRN_TABLE_STYLE_MARKDOWN : PRN_TABLE_STYLE_TEXT, p->out, err);
    if (code == 0 && which == PRN_TRACE_COMPARED_GPU && v->demangler_fault) {
        prn_buffer_add_char(p->out, '\n');
        prn_prose_paragraph(p, "Kernel names are as the compiler wrote them: %s",
                            v->demangler_fault);
    }
    return code;
}

static int write_text(const struct comparison_view *v, bool markdown, struct prn_buffer *out,
                      struct prony_error *err)
{
    struct prn_prose prose = prn_trace_prose(v->options, markdown, out);
    int code = 0;
    write_head(v, &prose);
    for (size_t i = 0; code == 0 && i < PRN_TRACE_COMPARED; i++)
        code = write_rows(v, i, &prose, err);
    prn_prose_release(&prose);
    return code < 0 ? code
                    : prn_trace_memory_compare_text(v->comparison, v->a, v->b, v->options, markdown,
                                                    out, err);
}

/* ---- JSON ---- */

static void json_figures(struct prn_json_writer *w, const struct prn_trace_difference *row)
{
    prn_json_number(w, "first_median_us", row->median_a_ns / 1e3);
    prn_json_number(w, "second_median_us", row->median_b_ns / 1e3);
    prn_json_number(w, "ratio", row->ratio.estimate);
    prn_json_number(w, "ratio_low", row->ratio.low);
    prn_json_number(w, "ratio_high", row->ratio.high);
    prn_json_number(w, "p_holm", row->p);
    prn_json_text(w, "verdict", prn_trace_verdict_name(row->verdict));
}

static void json_difference(struct prn_json_writer *w, const char *key,
                            const struct prn_trace_difference *row, struct prn_buffer *scratch)
{
    prn_json_object(w, key);
    if (row->key)
        prn_trace_key_members(w, row->key, scratch);
    json_figures(w, row);
    prn_json_end(w);
}

static void json_kernels(struct prn_json_writer *w, const struct comparison_view *v,
                         struct prn_buffer *scratch)
{
    const struct prn_trace_difference *rows = v->comparison->rows[PRN_TRACE_COMPARED_GPU];
    prn_json_array(w, "kernels");
    for (size_t i = 0; i < v->comparison->n[PRN_TRACE_COMPARED_GPU]; i++) {
        struct prn_trace_key key = *rows[i].key;
        prn_json_object(w, NULL);
        prn_json_text(w, "kernel", i < v->options->count ? v->kernels[i] : key.node->text);
        prn_json_text(w, "symbol", key.node->text);
        key.node = NULL; /* a kernel isn't a node */
        prn_trace_key_members(w, &key, scratch);
        json_figures(w, &rows[i]);
        prn_json_end(w);
    }
    prn_json_end(w);
}

static void json_trace(struct prn_json_writer *w, const char *key, const struct prn_trace *t)
{
    prn_json_object(w, key);
    prn_json_text(w, "name", t->name);
    prn_json_integer(w, "events", (int64_t)t->counts.events);
    prn_json_integer(w, "runs", (int64_t)t->n_runs);
    prn_json_integer(w, "analysed", (int64_t)t->n_selected);
    prn_json_text(w, "selected", t->selected);
    prn_json_end(w);
}

static void write_json(const struct comparison_view *v, struct prn_buffer *out)
{
    const struct prn_trace_comparison *c = v->comparison;
    struct prn_json_writer w = prn_json_writer_init(out);
    struct prn_buffer scratch = PRN_BUFFER_INIT(PRN_TRACE_EVENT_MAX);
    prn_json_object(&w, NULL);
    prn_json_text(&w, "schema", "prony.trace-comparison/1");
    add_verdict(v, &scratch);
    prn_json_text(&w, "verdict", prn_buffer_text(&scratch));
    if (scratch.error)
        out->error = scratch.error;
    prn_buffer_clear(&scratch);
    prn_json_array(&w, "warnings");
    if (c->has_run && warning_of(&c->run))
        prn_json_text(&w, NULL, warning_of(&c->run));
    prn_json_end(&w);
    json_trace(&w, "first", v->a);
    json_trace(&w, "second", v->b);
    if (c->has_run)
        prn_json_number(&w, "smallest_difference", prn_trace_smallest_difference(&c->run));
    else
        prn_json_null(&w, "smallest_difference");
    if (c->has_run)
        json_difference(&w, "run", &c->run, &scratch);
    else
        prn_json_null(&w, "run");
    for (size_t i = 0; i < 2; i++) {
        if (!v->a->cpu[i].by)
            continue;
        prn_json_array(&w, i == 0 ? "groups" : "nodes");
        for (size_t row = 0; row < c->n[i]; row++)
            json_difference(&w, NULL, &c->rows[i][row], &scratch);
        prn_json_end(&w);
    }
    if (c->n[PRN_TRACE_COMPARED_GPU] > 0)
        json_kernels(&w, v, &scratch);
    if (v->a->memory.n > 0 || v->b->memory.n > 0)
        prn_trace_memory_compare_json(&w, c, v->a, v->b, &scratch);
    prn_json_end(&w);
    if (scratch.error)
        out->error = scratch.error;
    prn_buffer_release(&scratch);
}

static int write_part(const void *report, bool json, struct prn_buffer *out,
                      struct prony_error *err)
{
    if (!json)
        return write_text(report, false, out, err);
    write_json(report, out);
    return 0;
}

static int name_kernels(struct comparison_view *v, struct prony_error *err)
{
    const struct prn_trace_difference *rows = v->comparison->rows[PRN_TRACE_COMPARED_GPU];
    size_t n = v->comparison->n[PRN_TRACE_COMPARED_GPU];
    size_t shown = n < v->options->count ? n : v->options->count;
    const char **names = PRN_ARENA_ARRAY(&v->arena, shown + 1, const char *);
    if (!names)
        return prn_fail_memory(err);
    for (size_t i = 0; i < shown; i++)
        names[i] = rows[i].key->node->text;
    return prn_trace_demangle(v->options->demangler, names, shown, &v->arena, &v->kernels,
                              &v->demangler_fault, err);
}

static struct comparison_view view_of(const struct prn_trace_comparison *c,
                                      const struct prn_trace *a, const struct prn_trace *b,
                                      const struct prn_trace_report_options *options)
{
    return (struct comparison_view){
        .comparison = c, .a = a, .b = b, .options = options, .arena = PRN_ARENA_INIT(NAMES_MAX)};
}

int prn_trace_comparison_write(const struct prn_trace_comparison *c, const struct prn_trace *a,
                               const struct prn_trace *b,
                               const struct prn_trace_report_options *options,
                               enum prn_trace_format format, struct prn_buffer *out,
                               struct prony_error *err)
{
    struct comparison_view v = view_of(c, a, b, options);
    int code = name_kernels(&v, err);
    if (code < 0)
        ;
    else if (format == PRN_TRACE_FORMAT_JSON)
        write_json(&v, out);
    else if (format == PRN_TRACE_FORMAT_CSV)
        code = write_table(&v, 0, SIZE_MAX, PRN_TABLE_STYLE_CSV, out, err);
    else
        code = write_text(&v, format == PRN_TRACE_FORMAT_MD, out, err);
    prn_arena_release(&v.arena);
    return code < 0 ? code : prn_buffer_error(out, err);
}

int prn_trace_comparison_page(const struct prn_trace_comparison *c, const struct prn_trace *a,
                              const struct prn_trace *b,
                              const struct prn_trace_report_options *options,
                              struct prn_timeline *const timelines[2], struct prn_page *page,
                              struct prony_error *err)
{
    struct comparison_view v = view_of(c, a, b, options);
    int code = name_kernels(&v, err);
    if (code == 0)
        code = prn_page_add_traces(page, write_part, &v, timelines, err);
    prn_arena_release(&v.arena);
    return code;
}
