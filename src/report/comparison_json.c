/* A comparison as JSON. */
#include "report/comparison_view.h"

#include "format/json.h"
#include "report/comparison_report.h"
#include "report/profile_json.h"

static void write_side(struct prn_json_writer *w, const char *key,
                       const struct prn_comparison_side *side)
{
    const struct prn_profile *p = side->profile;
    prn_json_object(w, key);
    prn_json_text(w, "file", side->name);
    prn_json_text(w, "created", p->created);
    prn_json_text(w, "prony_version", p->prony_version);
    prn_json_text(w, "model", p->model_path);
    prn_json_text(w, "cpu", p->environment.cpu);
    prn_json_number(w, "canary_best_ns", p->canary_best_ns);
    prn_json_end(w);
}

static void write_differences(struct prn_json_writer *w, const struct prn_comparison_file *file)
{
    prn_json_array(w, "differences");
    for (size_t i = 0; i < file->n_differences; i++) {
        const struct prn_difference *d = &file->differences[i];
        prn_json_object(w, NULL);
        prn_json_text(w, "what", prn_difference_names[d->kind]);
        prn_json_text(w, "before", d->before);
        prn_json_text(w, "after", d->after);
        prn_json_end(w);
    }
    prn_json_end(w);
}

static void write_compared(struct prn_json_writer *w, const char *key,
                           const struct prn_compared *compared)
{
    const struct prn_unpaired *u = &compared->ratio;
    prn_json_object(w, key);
    prn_json_number(w, "before", u->b);
    prn_json_number(w, "after", u->a);
    prn_json_number(w, "ratio", u->ratio.estimate);
    prn_json_number(w, "ratio_low", u->ratio.low);
    prn_json_number(w, "ratio_high", u->ratio.high);
    prn_json_number(w, "p", u->p);
    prn_json_number(w, "p_holm", compared->p_holm);
    prn_json_bool(w, "differs", compared->differs);
    prn_json_end(w);
}

static void write_pair(struct prn_json_writer *w, const char *key, struct prn_comparison_pair pair)
{
    prn_json_object(w, key);
    prn_json_number(w, "before", pair.before);
    prn_json_number(w, "after", pair.after);
    prn_json_end(w);
}

static void write_result(struct prn_json_writer *w, const char *key, const struct prn_result *r)
{
    if (!r) {
        prn_json_null(w, key);
        return;
    }
    prn_json_object(w, key);
    prn_json_text(w, "name", r->name);
    prn_json_text(w, "processor", r->processor);
    prn_json_text(w, "runtime_version", r->runtime_version);
    prn_json_text(w, "library", r->runtime_library);
    prn_json_integer(w, "launches", (int64_t)r->n_launches);
    prn_json_integer(w, "samples", (int64_t)r->n_samples);
    prn_profile_write_flags(w, r->flags);
    prn_json_text(w, "error", r->error_code ? r->error : NULL);
    prn_json_end(w);
}

/* Writes and clears it; what is missing from it is missing from the whole. */
static void write_composed(struct prn_json_writer *w, const char *key, struct prn_buffer *text)
{
    prn_json_text(w, key, prn_buffer_text(text));
    if (text->error && !w->out->error)
        w->out->error = text->error;
    prn_buffer_clear(text);
}

static void write_row(struct prn_json_writer *w, const struct prn_comparison_view *view,
                      const struct prn_comparison_row *row, struct prn_buffer *scratch)
{
    prn_json_object(w, NULL);
    prn_comparison_name(row, scratch);
    write_composed(w, "backend", scratch);
    prn_comparison_sizes(view, row, scratch);
    write_composed(w, "sizes", scratch);
    prn_json_text(w, "verdict", prn_change_names[row->change]);
    prn_json_bool(w, "regression", row->regression);
    prn_json_text(w, "unit", prn_comparison_unit(row));
    write_compared(w, "time_ns", &row->time);
#define PRN_X(name, field, title) write_compared(w, #field, &row->figures[PRN_FIGURE_##name]);
    PRN_FIGURE_MAP(PRN_X)
#undef PRN_X
    write_pair(w, "inferences_per_s", prn_comparison_rates(view, row));
    write_pair(w, "usd_per_million", prn_comparison_costs(view, row));
    write_result(w, "before", row->before);
    write_result(w, "after", row->after);
    prn_json_end(w);
}

static void write_file(struct prn_json_writer *w, const struct prn_comparison_view *view,
                       struct prn_buffer *scratch)
{
    const struct prn_comparison_file *file = view->file;
    prn_json_object(w, NULL);
    write_side(w, "after", &file->after);
    prn_json_bool(w, "machines_differ", file->machines_differ);
    prn_json_number(w, "canary_ratio", file->canary_ratio);
    prn_json_number(w, "smallest_difference", file->smallest_difference);
    prn_json_number(w, "must_clear", file->must_clear);
    write_differences(w, file);
    prn_json_array(w, "rows");
    for (size_t i = 0; i < file->n_rows; i++)
        write_row(w, view, &file->rows[i], scratch);
    prn_json_end(w);
    prn_json_end(w);
}

int prn_comparison_json(const struct prn_comparison *c, struct prn_buffer *out,
                        struct prony_error *err)
{
    struct prn_json_writer w = prn_json_writer_init(out);
    struct prn_buffer scratch = PRN_BUFFER_INIT((size_t)1 << 20);
    prn_json_object(&w, NULL);
    prn_json_text(&w, "schema", PRN_COMPARISON_SCHEMA);
    prn_json_bool(&w, "forced", c->options.force);
    prn_json_number(&w, "fail_over", c->options.fail_over);
    prn_json_integer(&w, "tested", (int64_t)c->n_tested);
    prn_json_integer(&w, "regressions", (int64_t)c->n_regressions);
    write_side(&w, "before", &c->before);
    prn_json_array(&w, "files");
    for (size_t f = 0; f < c->n_files; f++) {
        struct prn_comparison_view view = prn_comparison_view(c, f);
        write_file(&w, &view, &scratch);
    }
    prn_json_end(&w);
    prn_json_end(&w);
    prn_buffer_release(&scratch);
    return prn_buffer_error(out, err);
}
