#include "report/layers/cuts.h"

#include "base/format.h"
#include "base/table.h"
#include "format/json.h"
#include "report/page.h"
#include "report/prose.h"

#include <inttypes.h>
#include <math.h>

struct view {
    const struct prn_model *model;
    const struct prn_cuts *cuts;
    double flops; /* of all layers */
};

/* Tensors that are shown together. */
struct group {
    const struct prn_cut_tensor *const *tensors;
    size_t n;
};

static struct group given(const struct prn_layer *layer)
{
    struct group g;
    g.tensors = prn_layer_given(layer, &g.n);
    return g;
}

/* "1x197x768 + 1x197x768", unknown shapes and sizes as '?'. */
static void write_shapes(const struct prn_cut_tensor *const *tensors, size_t n,
                         struct prn_buffer *out)
{
    for (size_t i = 0; i < n; i++) {
        const struct prn_cut_tensor *t = tensors[i];
        prn_buffer_add(out, i ? " + " : "");
        if (!t->dims)
            prn_buffer_add(
                out, t->value.kind == PRN_VALUE_TENSOR ? "?" : prn_value_kind_name(t->value.kind));
        else if (t->value.rank == 0)
            prn_buffer_add(out, "scalar");
        for (size_t d = 0; t->dims && d < t->value.rank; d++) {
            prn_buffer_add(out, d ? "x" : "");
            if (t->dims[d] >= 0)
                prn_buffer_printf(out, "%" PRId64, t->dims[d]);
            else
                prn_buffer_add_char(out, '?');
        }
    }
}

static void write_names(const struct prn_cut_tensor *const *tensors, size_t n,
                        struct prn_buffer *out)
{
    for (size_t i = 0; i < n; i++)
        prn_buffer_printf(out, "%s%s", i ? ", " : "", tensors[i]->value.name);
}

/* A cell of what `write` makes of tensors. */
static void list_cell(struct prn_table *t, struct prn_buffer *text, struct group g,
                      void write(const struct prn_cut_tensor *const *, size_t, struct prn_buffer *))
{
    int failed = text->error; /* which clearing would forget */
    prn_buffer_clear(text);
    write(g.tensors, g.n, text);
    prn_table_cell(t, "%s", prn_buffer_text(text));
    text->error = failed ? failed : text->error;
}

/* ---- Text and Markdown ---- */

static void layer_row(const struct view *v, size_t index, struct prn_table *t,
                      struct prn_buffer *text)
{
    const struct prn_layer *layer = &v->cuts->layers[index];
    struct group out = given(layer);
    char number[PRN_FORMAT_SIZE];
    bool counted = layer->n_uncounted < layer->n_nodes || layer->n_nodes == 0;
    prn_table_cell(t, "%zu", index + 1);
    prn_table_cell(t, "%zu", layer->n_nodes);
    prn_table_cell(t, "%s", prn_format_count(number, (double)layer->n_parameters));
    prn_table_cell(t, "%s%s", counted ? prn_format_count(number, layer->flops) : "-",
                   counted && layer->n_uncounted ? "+" : "");
    if (counted && v->flops > 0)
        prn_table_cell(t, "%.1f %%", 100 * layer->flops / v->flops);
    else
        prn_table_cell(t, "-");
    list_cell(t, text, out, write_shapes);
    prn_table_cell(t, "%s", prn_format_bytes(number, prn_cut_bytes(out.tensors, out.n)));
    list_cell(t, text, out, write_names);
}

static int write_table(const struct view *v, const struct prn_look *look, struct prn_buffer *out,
                       struct prony_error *err)
{
    struct prn_buffer text = PRN_BUFFER_INIT(PRN_REPORT_MAX);
    struct prn_table *t = prn_table_new();
    prn_table_columns(t, ">Layer|>Nodes|>Parameters|>FLOPs|>Share|~Hands on|>Bytes|~Tensors");
    if (!look->markdown)
        prn_table_width(t, look->width);
    for (size_t i = 0; i < v->cuts->n_layers; i++)
        layer_row(v, i, t, &text);
    int code = prn_buffer_error(&text, err);
    if (code == 0)
        code = prn_table_write(t, look->markdown ? PRN_TABLE_STYLE_MARKDOWN : PRN_TABLE_STYLE_TEXT,
                               out, err);
    prn_buffer_release(&text);
    prn_table_free(t);
    return code;
}

/* "12 layers; layer 5 has 23 % of the 739 MFLOP." */
static void add_verdict(const struct view *v, struct prn_buffer *out)
{
    char text[PRN_FORMAT_SIZE];
    size_t largest = 0;
    for (size_t i = 1; i < v->cuts->n_layers; i++)
        if (v->cuts->layers[i].flops > v->cuts->layers[largest].flops)
            largest = i;
    prn_buffer_printf(out, "%zu layer%s", v->cuts->n_layers, v->cuts->n_layers == 1 ? "" : "s");
    if (v->flops > 0 && v->cuts->n_layers > 1)
        prn_buffer_printf(out, "; layer %zu has the most work, %.0f %% of %s%sFLOP", largest + 1,
                          100 * v->cuts->layers[largest].flops / v->flops,
                          prn_format_count(text, v->flops), v->flops < 999.5 ? " " : "");
    prn_buffer_add_char(out, '.');
}

static void write_head(const struct view *v, struct prn_prose *p)
{
    const struct prn_layer *first = &v->cuts->layers[0];
    struct group inputs = {first->in, first->n_in};
    prn_buffer_printf(&p->line, "%s, from ", v->model->path);
    for (size_t i = 0; i < inputs.n; i++) {
        prn_buffer_printf(&p->line, "%s%s (%s ", i ? ", " : "", inputs.tensors[i]->value.name,
                          prn_dtype_name(inputs.tensors[i]->value.dtype));
        write_shapes(&inputs.tensors[i], 1, &p->line);
        prn_buffer_add_char(&p->line, ')');
    }
    if (inputs.n == 0)
        prn_buffer_add(&p->line, "no input");
    prn_prose_paragraph(p, ".");
}

/* Weights that several layers have, outputs that leave on the way, work that isn't known. */
static void write_notes(const struct view *v, struct prn_prose *p)
{
    uint64_t parameters = 0;
    size_t uncounted = 0;
    for (size_t i = 0; i < v->cuts->n_layers; i++) {
        const struct prn_layer *layer = &v->cuts->layers[i];
        parameters += layer->n_parameters;
        uncounted += layer->n_uncounted;
        if (layer->n_out == 0 || layer->n_results == 0)
            continue;
        prn_buffer_printf(&p->line, "Layer %zu also gives ", i + 1);
        write_names(layer->results, layer->n_results, &p->line);
        prn_prose_paragraph(p, ", which the model gives.");
    }
    char count[PRN_FORMAT_SIZE];
    if (v->model->misplaced) {
        prn_buffer_add(&p->line, "Note: ");
        prn_prose_paragraph(p, PRN_MISPLACED_NOTE ".", v->model->misplaced);
    }
    if (parameters > v->model->n_parameters)
        prn_prose_paragraph(p,
                            "%s parameters are counted more than once, because several layers "
                            "need them.",
                            prn_format_count(count, (double)(parameters - v->model->n_parameters)));
    if (uncounted > 0)
        prn_prose_paragraph(p,
                            "The work of %zu node%s isn't known; see 'prony model'. Layers with "
                            "one do more than their FLOPs (+).",
                            uncounted, uncounted == 1 ? "" : "s");
}

static int write_text(const struct view *v, const struct prn_look *look, struct prn_buffer *out,
                      struct prony_error *err)
{
    struct prn_prose p = prn_prose_init(look, out);
    write_head(v, &p);
    prn_buffer_add_char(out, '\n');
    add_verdict(v, &p.line);
    prn_prose_verdict(&p);
    prn_buffer_add_char(out, '\n');
    int code = write_table(v, &p.look, out, err);
    if (code == 0) {
        struct prn_buffer notes = PRN_BUFFER_INIT(PRN_REPORT_MAX);
        struct prn_prose below = prn_prose_init(look, &notes);
        write_notes(v, &below);
        if (notes.len > 0)
            prn_buffer_printf(out, "\n%s", prn_buffer_text(&notes));
        prn_prose_pass_error(&p, &notes);
        prn_prose_release(&below);
        prn_buffer_release(&notes);
    }
    prn_prose_release(&p);
    return code;
}

/* ---- CSV ---- */

static void csv_row(const struct view *v, size_t index, struct prn_table *t,
                    struct prn_buffer *text)
{
    const struct prn_layer *layer = &v->cuts->layers[index];
    struct group in = {layer->in, layer->n_in};
    struct group out = given(layer);
    prn_table_cell(t, "%zu", index + 1);
    prn_table_cell(t, "%zu", layer->n_nodes);
    prn_table_cell(t, "%" PRIu64, layer->n_parameters);
    prn_table_cell(t, "%" PRIu64, layer->weight_bytes);
    prn_table_cell_exact(t, layer->flops);
    prn_table_cell_exact(t, layer->bytes);
    prn_table_cell(t, "%zu", layer->n_uncounted);
    const struct group sides[] = {in, out};
    for (size_t i = 0; i < PRN_ARRAY_SIZE(sides); i++) {
        prn_table_cell(t, "%zu", sides[i].n);
        prn_table_cell_exact(t, prn_cut_elements(sides[i].tensors, sides[i].n));
        prn_table_cell_exact(t, prn_cut_bytes(sides[i].tensors, sides[i].n));
        list_cell(t, text, sides[i], write_shapes);
    }
    for (size_t i = 0; i < PRN_ARRAY_SIZE(sides); i++)
        list_cell(t, text, sides[i], write_names);
}

static int write_csv(const struct view *v, struct prn_buffer *out, struct prony_error *err)
{
    struct prn_buffer text = PRN_BUFFER_INIT(PRN_REPORT_MAX);
    struct prn_table *t = prn_table_new();
    prn_table_columns(t, "layer|nodes|parameters|weight_bytes|flops|bytes|not_counted|"
                         "tensors_in|elements_in|bytes_in|shapes_in|tensors_out|elements_out|"
                         "bytes_out|shapes_out|names_in|names_out");
    for (size_t i = 0; i < v->cuts->n_layers; i++)
        csv_row(v, i, t, &text);
    int code = prn_buffer_error(&text, err);
    if (code == 0)
        code = prn_table_write(t, PRN_TABLE_STYLE_CSV, out, err);
    prn_buffer_release(&text);
    prn_table_free(t);
    return code;
}

/* ---- JSON ---- */

static void json_tensors(struct prn_json_writer *w, const char *key,
                         const struct prn_cut_tensor *const *tensors, size_t n)
{
    prn_json_array(w, key);
    for (size_t i = 0; i < n; i++) {
        const struct prn_cut_tensor *t = tensors[i];
        prn_json_object(w, NULL);
        prn_json_text(w, "name", t->value.name);
        prn_json_text(w, "kind", prn_value_kind_name(t->value.kind));
        prn_json_text(w, "type",
                      t->value.kind == PRN_VALUE_TENSOR ? prn_dtype_name(t->value.dtype) : NULL);
        if (t->dims)
            prn_json_array_compact(w, "dims");
        else
            prn_json_null(w, "dims");
        for (size_t d = 0; t->dims && d < t->value.rank; d++)
            if (t->dims[d] >= 0)
                prn_json_integer(w, NULL, t->dims[d]);
            else
                prn_json_null(w, NULL);
        if (t->dims)
            prn_json_end(w);
        prn_json_number(w, "elements", t->elements);
        prn_json_number(w, "bytes", t->bytes);
        prn_json_end(w);
    }
    prn_json_end(w);
}

static void json_layer(struct prn_json_writer *w, const struct view *v, size_t index)
{
    const struct prn_layer *layer = &v->cuts->layers[index];
    prn_json_object(w, NULL);
    prn_json_integer(w, "layer", (int64_t)index + 1);
    prn_json_integer(w, "nodes", (int64_t)layer->n_nodes);
    prn_json_integer(w, "parameters", (int64_t)layer->n_parameters);
    prn_json_integer(w, "weight_bytes", (int64_t)layer->weight_bytes);
    prn_json_number(w, "flops", layer->flops);
    prn_json_number(w, "bytes", layer->bytes);
    prn_json_integer(w, "not_counted", (int64_t)layer->n_uncounted);
    json_tensors(w, "in", layer->in, layer->n_in);
    json_tensors(w, "out", layer->out, layer->n_out);
    json_tensors(w, "results", layer->results, layer->n_results);
    prn_json_end(w);
}

static void write_json(const struct view *v, struct prn_buffer *out)
{
    struct prn_json_writer w = prn_json_writer_init(out);
    prn_json_object(&w, NULL);
    struct prn_buffer verdict = PRN_BUFFER_INIT(1024);
    add_verdict(v, &verdict);
    prn_json_text(&w, "schema", "prony.layers/1");
    prn_json_text(&w, "verdict", prn_buffer_text(&verdict));
    if (verdict.error)
        out->error = verdict.error;
    prn_buffer_release(&verdict);
    prn_json_text(&w, "file", v->model->path);
    prn_json_array(&w, "layers");
    for (size_t i = 0; i < v->cuts->n_layers; i++)
        json_layer(&w, v, i);
    prn_json_end(&w);
    prn_json_end(&w);
}

static int write_part(const void *report, bool json, struct prn_buffer *out,
                      struct prony_error *err)
{
    static const struct prn_look look = {.verbose = true, .width = PRN_PAGE_TEXT_WIDTH};
    if (!json)
        return write_text(report, &look, out, err);
    write_json(report, out);
    return 0;
}

int prn_cuts_report(const struct prn_model *model, const struct prn_cuts *cuts,
                    enum prn_report_format format, const struct prn_look *look,
                    struct prn_buffer *out, struct prony_error *err)
{
    struct prn_look own = *look;
    own.markdown = format == PRN_REPORT_FORMAT_MARKDOWN;
    struct view v = {.model = model, .cuts = cuts};
    for (size_t i = 0; i < cuts->n_layers; i++)
        v.flops += cuts->layers[i].flops;
    switch (format) {
    case PRN_REPORT_FORMAT_JSON:
        write_json(&v, out);
        return 0;
    case PRN_REPORT_FORMAT_CSV:
        return write_csv(&v, out, err);
    case PRN_REPORT_FORMAT_HTML:
        return prn_page_of_report(write_part, &v, out, err);
    default:
        return write_text(&v, &own, out, err);
    }
}
