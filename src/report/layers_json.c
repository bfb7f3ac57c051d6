#include "report/layers_json.h"

#include "base/text.h"
#include "format/json_fields.h"
#include "pipeline/limits.h"
#include "report/profile_json.h"
#include "report/profile_parts.h"

#include <math.h>
#include <string.h>

static const char *const whole_keys[PRN_WHOLE_KINDS] = {
    [PRN_WHOLE_CUT] = "not_fused", [PRN_WHOLE_FUSED] = "as_it_is"};

/* ---- Writing ---- */

static void write_shapes(struct prn_json_writer *w, const char *key,
                         const struct prn_layer_shape *shapes, size_t n)
{
    prn_json_array(w, key);
    for (size_t i = 0; i < n; i++) {
        prn_json_array_compact(w, NULL);
        for (size_t k = 0; k < shapes[i].rank; k++)
            prn_json_integer(w, NULL, shapes[i].dims[k]);
        prn_json_end(w);
    }
    prn_json_end(w);
}

static void write_time(struct prn_json_writer *w, double time_s, double ci_s)
{
    prn_json_number(w, "time_s", time_s);
    prn_json_number(w, "time_ci_s", ci_s);
}

static void write_count(struct prn_json_writer *w, int64_t samples, int64_t launches,
                        unsigned flags)
{
    prn_json_integer(w, "samples", samples);
    prn_json_integer(w, "launches", launches);
    prn_profile_write_flags(w, flags);
}

static void write_entry(struct prn_json_writer *w, const struct prn_layer_entry *e)
{
    prn_json_integer(w, "layer", e->layer);
    write_time(w, e->time_s, e->time_ci_s);
    prn_json_number(w, "memory_mb", e->memory_mb);
    write_shapes(w, "shape_in", e->in, e->n_in);
    write_shapes(w, "shape_out", e->out, e->n_out);
}

static void write_layer(struct prn_json_writer *w, const struct prn_layer_entry *e,
                        const struct prn_layer_row *row)
{
    prn_json_object(w, NULL);
    write_entry(w, e);
    prn_json_bool(w, "measured", row->measured);
    write_count(w, row->samples, row->launches, row->flags);
    prn_json_end(w);
}

static void write_whole(struct prn_json_writer *w, const struct prn_layer_measurement *m)
{
    if (!m->has_whole) {
        prn_json_null(w, "whole");
        return;
    }
    prn_json_object(w, "whole");
    for (size_t i = 0; i < PRN_WHOLE_KINDS; i++) {
        prn_json_object(w, whole_keys[i]);
        write_time(w, m->whole[i].time_s, m->whole[i].time_ci_s);
        write_count(w, m->whole[i].samples, m->whole[i].launches, m->whole[i].flags);
        prn_json_end(w);
    }
    prn_part_write_interval(w, "fused_ratio", m->fused);
    prn_json_number(w, "sum_ratio", m->sum_s / m->whole[PRN_WHOLE_CUT].time_s);
    prn_json_number(w, "saved_by_fusing", 1 - m->whole[PRN_WHOLE_FUSED].time_s / m->sum_s);
    prn_json_object(w, "outputs");
    prn_json_bool(w, "mismatch", m->mismatch);
    prn_json_number(w, "difference", m->difference);
    prn_json_number(w, "repeatability", m->repeatability);
    prn_json_end(w);
    prn_json_end(w);
}

int prn_layers_write_json(const struct prn_layer_measurement *m,
                          const struct prn_layer_profile *profile, struct prn_buffer *out,
                          struct prony_error *err)
{
    const struct prn_layer_head *head = prn_layer_profile_head(profile);
    struct prn_json_writer w = prn_json_writer_init(out);
    prn_json_object(&w, NULL);
    prn_json_text(&w, "schema", "prony.layer-profile/1");
    prn_json_text(&w, "file", m->model_path);
    prn_json_text(&w, "results", prn_layer_profile_path(profile));
    prn_json_text(&w, "model_name", head->model_name);
    prn_json_text(&w, "dtype", head->dtype);
    prn_json_integer(&w, "batch_size", head->batch_size);
    prn_json_integer(&w, "layers", head->layers);
    prn_json_text(&w, "backend", m->backend);
    prn_json_text(&w, "runtime", m->runtime[0] ? m->runtime : NULL);
    prn_json_text(&w, "cpu", m->cpu[0] ? m->cpu : NULL);
    prn_json_array(&w, "profile_data");
    for (size_t i = 0; i < m->n_rows; i++)
        write_layer(&w, prn_layer_profile_find(profile, m->rows[i].layer), &m->rows[i]);
    prn_json_end(&w);
    prn_json_object(&w, "sum");
    write_time(&w, m->sum_s, m->sum_ci_s);
    prn_json_end(&w);
    write_whole(&w, m);
    prn_json_end(&w);
    return prn_buffer_error(out, err);
}

int prn_layer_write_json(const struct prn_layer_entry *entry, const struct prn_layer_row *row,
                         struct prn_buffer *out, struct prony_error *err)
{
    struct prn_json_writer w = prn_json_writer_init(out);
    write_layer(&w, entry, row);
    return prn_buffer_error(out, err);
}

int prn_layer_order_write_json(const struct prn_layer_order *order, struct prn_buffer *out,
                               struct prony_error *err)
{
    struct prn_json_writer w = prn_json_writer_init(out);
    prn_json_object(&w, NULL);
    prn_json_text(&w, "cuts", order->cuts);
    prn_json_integer(&w, "max_cut_tensors", order->max_tensors);
    prn_json_integer(&w, "batch_size", order->batch);
    prn_json_integer(&w, "layers", order->layers);
    prn_json_integer(&w, "layer_start", order->first);
    prn_json_integer(&w, "layer_end", order->last);
    prn_json_text(&w, "results", order->results);
    write_shapes(&w, "shape_input", order->shapes, order->n_shapes);
    prn_json_array(&w, "profile_data");
    for (size_t i = 0; i < order->n_entries; i++) {
        prn_json_object(&w, NULL);
        write_entry(&w, &order->entries[i]);
        prn_json_end(&w);
    }
    prn_json_end(&w);
    prn_json_end(&w);
    return prn_buffer_error(out, err);
}

/* ---- Reading ---- */

static int64_t *read_dims(struct prn_fields *r, const struct prn_field *p, size_t *ret_n)
{
    size_t n = prn_field_count(r, p, PRN_LAYER_RANK_MAX);
    int64_t *dims = prn_field_array(r, n, sizeof *dims);
    for (size_t i = 0; i < n && r->code == 0; i++) {
        struct prn_field dim = prn_field_element(p, i);
        dims[i] = prn_field_integer_at(r, &dim, 0, (int64_t)1 << 53);
    }
    *ret_n = n;
    return dims;
}

static const struct prn_layer_shape *read_shapes(struct prn_fields *r, const struct prn_field *in,
                                                 const char *key, size_t *ret_n)
{
    struct prn_field p = prn_field_member(in, key);
    size_t n = prn_field_count(r, &p, PRN_LAYER_TENSORS_MAX);
    struct prn_layer_shape *shapes = prn_field_array(r, n, sizeof *shapes);
    double elements;
    for (size_t i = 0; i < n && r->code == 0; i++) {
        struct prn_field shape = prn_field_element(&p, i);
        shapes[i].dims = read_dims(r, &shape, &shapes[i].rank);
    }
    if (r->code == 0 && prn_layer_shapes_count(shapes, n, &elements) < 0)
        prn_field_fault(r, &p, "has more than 2^53 elements");
    *ret_n = n;
    return shapes;
}

/* A figure that must be there. */
static double read_figure(struct prn_fields *r, const struct prn_field *in, const char *key)
{
    struct prn_field p = prn_field_member(in, key);
    double value = prn_field_number_or_null(r, in, key);
    if (r->code == 0 && isnan(value))
        prn_field_fault(r, &p, "is not a number");
    return value;
}

static void read_entry(struct prn_fields *r, const struct prn_field *p, struct prn_layer_entry *e)
{
    if (!prn_field_is_object(r, p))
        return;
    e->layer = prn_field_integer(r, p, "layer", 1, PRN_PIPELINE_LAYERS_MAX);
    e->time_s = read_figure(r, p, "time_s");
    e->time_ci_s = prn_field_number_or_null(r, p, "time_ci_s");
    e->memory_mb = read_figure(r, p, "memory_mb");
    e->in = read_shapes(r, p, "shape_in", &e->n_in);
    e->out = read_shapes(r, p, "shape_out", &e->n_out);
}

static void read_count(struct prn_fields *r, const struct prn_field *p, int64_t *samples,
                       int64_t *launches, unsigned *flags)
{
    *samples = prn_field_integer(r, p, "samples", 0, INT64_MAX);
    *launches = prn_field_integer(r, p, "launches", 0, INT64_MAX);
    *flags = prn_part_read_flags(r, p);
}

static void read_whole(struct prn_fields *r, const struct prn_field *top,
                       struct prn_layer_measurement *m)
{
    struct prn_field p = prn_field_member(top, "whole");
    if (json_is_null(p.value) || !prn_field_is_object(r, &p))
        return;
    m->has_whole = true;
    for (size_t i = 0; i < PRN_WHOLE_KINDS; i++) {
        struct prn_whole_time *t = &m->whole[i];
        struct prn_field kind = prn_field_member(&p, whole_keys[i]);
        if (!prn_field_is_object(r, &kind))
            return;
        t->time_s = read_figure(r, &kind, "time_s");
        t->time_ci_s = prn_field_number_or_null(r, &kind, "time_ci_s");
        read_count(r, &kind, &t->samples, &t->launches, &t->flags);
    }
    m->fused = prn_part_read_interval(r, &p, "fused_ratio");
    struct prn_field outputs = prn_field_member(&p, "outputs");
    if (!prn_field_is_object(r, &outputs))
        return;
    m->mismatch = prn_field_bool(r, &outputs, "mismatch");
    m->difference = prn_field_number_or_null(r, &outputs, "difference");
    m->repeatability = prn_field_number_or_null(r, &outputs, "repeatability");
}

/* A name that people will see; "" for null. */
static const char *read_name(struct prn_fields *r, const struct prn_field *in, const char *key)
{
    struct prn_field p = prn_field_member(in, key);
    const char *name = prn_field_text_or_null(r, in, key);
    if (name && !prn_text_is_name(name))
        prn_field_fault(r, &p, "is not a name");
    return name ? name : "";
}

int prn_layers_parse_json(const char *text, size_t len, struct prn_arena *arena,
                          struct prn_layer_measurement *measurement, struct prony_error *err)
{
    json_t *root;
    int code = prn_json_parse(text, len, "layers", &root, err);
    if (code < 0)
        return code;
    struct prn_fields r = {.name = "layers", .what = "layer profile", .arena = arena, .err = err};
    struct prn_field top = {.value = root};
    struct prn_layer_measurement m = *measurement;
    if (prn_field_is_object(&r, &top)) {
        m.runtime = read_name(&r, &top, "runtime");
        m.cpu = read_name(&r, &top, "cpu");
        read_whole(&r, &top, &m);
    }
    json_decref(root);
    if (r.code == 0)
        *measurement = m;
    return r.code;
}

int prn_layer_parse_json(const char *text, size_t len, struct prn_arena *arena,
                         struct prn_layer_entry *ret_entry, struct prn_layer_row *ret_row,
                         struct prony_error *err)
{
    json_t *root;
    int code = prn_json_parse(text, len, "layer", &root, err);
    if (code < 0)
        return code;
    struct prn_fields r = {.name = "layer", .what = "layer", .arena = arena, .err = err};
    struct prn_field top = {.value = root};
    struct prn_layer_entry entry = {0};
    struct prn_layer_row row = {.measured = true};
    read_entry(&r, &top, &entry);
    if (r.code == 0)
        read_count(&r, &top, &row.samples, &row.launches, &row.flags);
    json_decref(root);
    row.layer = entry.layer;
    if (r.code == 0) {
        *ret_entry = entry;
        *ret_row = row;
    }
    return r.code;
}

static void read_order(struct prn_fields *r, const struct prn_field *top, struct prn_layer_order *o)
{
    if (!prn_field_is_object(r, top))
        return;
    o->cuts = prn_field_text_or_null(r, top, "cuts");
    o->max_tensors = prn_field_integer(r, top, "max_cut_tensors", 0, PRN_LAYER_CUT_TENSORS_MAX);
    o->batch = prn_field_integer(r, top, "batch_size", 0, PRN_PIPELINE_BATCH_MAX);
    o->layers = prn_field_integer(r, top, "layers", 1, PRN_PIPELINE_LAYERS_MAX);
    o->first = prn_field_integer(r, top, "layer_start", 1, o->layers);
    o->last = prn_field_integer(r, top, "layer_end", o->first, o->layers);
    o->results = read_name(r, top, "results");
    o->shapes = read_shapes(r, top, "shape_input", &o->n_shapes);
    struct prn_field p = prn_field_member(top, "profile_data");
    size_t n = prn_field_count(r, &p, (size_t)PRN_PIPELINE_LAYERS_MAX);
    struct prn_layer_entry *entries = prn_field_array(r, n, sizeof *entries);
    for (size_t i = 0; i < n && r->code == 0; i++) {
        struct prn_field entry = prn_field_element(&p, i);
        read_entry(r, &entry, &entries[i]);
    }
    o->entries = entries;
    o->n_entries = n;
}

int prn_layer_order_parse_json(const char *text, struct prn_arena *arena,
                               struct prn_layer_order *ret_order, struct prony_error *err)
{
    json_t *root;
    int code = prn_json_parse(text, strlen(text), "layers", &root, err);
    if (code < 0)
        return code;
    struct prn_fields r = {.name = "layers", .what = "order", .arena = arena, .err = err};
    struct prn_layer_order order = {0};
    read_order(&r, &(struct prn_field){.value = root}, &order);
    json_decref(root);
    if (r.code == 0)
        *ret_order = order;
    return r.code;
}
