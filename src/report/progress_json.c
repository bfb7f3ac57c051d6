#include "report/progress_json.h"

#include "format/json_fields.h"

#include <string.h>

int prn_progress_write_json(const struct prn_progress *p, struct prn_buffer *out,
                            struct prony_error *err)
{
    struct prn_json_writer w = prn_json_writer_init(out);
    prn_json_object(&w, NULL);
    prn_json_text(&w, "backend", p->backend);
    prn_json_text(&w, "point", p->point);
    prn_json_text(&w, "phase", p->phase);
    prn_json_integer(&w, "row", (int64_t)p->row);
    prn_json_integer(&w, "rows", (int64_t)p->rows);
    prn_json_integer(&w, "launch", p->launch);
    prn_json_integer(&w, "launches", p->launches);
    prn_json_integer(&w, "samples", p->samples);
    prn_json_number(&w, "median_ns", p->median_ns);
    prn_json_number(&w, "half_width", p->half_width);
    prn_json_number(&w, "elapsed_s", p->elapsed_s);
    prn_json_end(&w);
    return prn_buffer_error(out, err);
}

static void read_progress(struct prn_fields *r, const struct prn_field *top, struct prn_progress *p)
{
    if (!prn_field_is_object(r, top))
        return;
    p->backend = prn_field_text(r, top, "backend");
    p->point = prn_field_text(r, top, "point");
    p->phase = prn_field_text(r, top, "phase");
    p->row = (size_t)prn_field_integer(r, top, "row", 0, PRN_RESULTS_MAX);
    p->rows = (size_t)prn_field_integer(r, top, "rows", 0, PRN_RESULTS_MAX);
    p->launch = prn_field_integer(r, top, "launch", 0, INT64_MAX);
    p->launches = prn_field_integer(r, top, "launches", 0, INT64_MAX);
    p->samples = prn_field_integer(r, top, "samples", 0, INT64_MAX);
    p->median_ns = prn_field_number_or_null(r, top, "median_ns");
    p->half_width = prn_field_number_or_null(r, top, "half_width");
    p->elapsed_s = prn_field_number_or_null(r, top, "elapsed_s");
}

int prn_progress_parse_json(const char *text, struct prn_arena *arena,
                            struct prn_progress *ret_progress, struct prony_error *err)
{
    json_t *root = NULL;
    int code = prn_json_parse(text, strlen(text), "progress", &root, err);
    if (code < 0)
        return code;
    struct prn_fields r = {.name = "progress", .what = "measurement", .arena = arena, .err = err};
    struct prn_progress progress = {0};
    read_progress(&r, &(struct prn_field){.value = root}, &progress);
    json_decref(root);
    if (r.code == 0)
        *ret_progress = progress;
    return r.code;
}
