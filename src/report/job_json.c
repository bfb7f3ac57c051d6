#include "report/job_json.h"

#include "exec/drive.h"
#include "measure/resume.h"

#include <math.h>
#include <string.h>

void prn_settings_write(struct prn_json_writer *w, const char *key, const struct prn_settings *s)
{
    prn_json_object(w, key);
    /* JSON readers know signed 64 bits; the bits are what counts. */
    prn_json_integer(w, "seed", (int64_t)s->seed);
    prn_json_number(w, "precision", s->precision);
    prn_json_number(w, "smallest_difference", s->smallest_difference);
    prn_json_integer(w, "launches", s->launches);
    prn_json_integer(w, "repeats", s->repeats);
    prn_json_integer(w, "warmups", s->warmups);
    prn_json_number(w, "max_time_s", s->max_time_s);
    prn_json_number(w, "tolerance", s->tolerance);
    prn_json_text(w, "reference", s->reference);
    prn_json_end(w);
}

void prn_settings_read(struct prn_fields *r, const struct prn_field *p, struct prn_settings *s)
{
    if (!prn_field_is_object(r, p))
        return;
    s->seed = (uint64_t)prn_field_integer(r, p, "seed", INT64_MIN, INT64_MAX);
    s->precision = prn_field_number_or_null(r, p, "precision");
    s->smallest_difference = prn_field_number_or_null(r, p, "smallest_difference");
    s->launches = prn_field_integer(r, p, "launches", 0, INT64_MAX);
    s->repeats = prn_field_integer(r, p, "repeats", 0, INT64_MAX);
    s->warmups = prn_field_integer(r, p, "warmups", -1, INT64_MAX);
    s->max_time_s = prn_field_number_or_null(r, p, "max_time_s");
    s->tolerance = prn_field_number_or_null(r, p, "tolerance");
    s->reference = prn_field_text_or_null(r, p, "reference");
}

/* Has the top of a text read, and checks it all once. */
static int parse(const char *text, const char *name, const char *what, struct prn_arena *arena,
                 void (*read)(struct prn_fields *r, const struct prn_field *top, void *into),
                 void *into, struct prony_error *err)
{
    json_t *root = NULL;
    int code = prn_json_parse(text, strlen(text), name, &root, err);
    if (code < 0)
        return code;
    struct prn_fields r = {.name = name, .what = what, .arena = arena, .err = err};
    struct prn_field top = {.value = root};
    read(&r, &top, into);
    json_decref(root);
    return r.code;
}

static void read_settings(struct prn_fields *r, const struct prn_field *top, void *into)
{
    prn_settings_read(r, top, into);
}

int prn_settings_parse(const char *text, struct prn_arena *arena, struct prn_settings *ret_settings,
                       struct prony_error *err)
{
    struct prn_settings s = {0};
    int code = parse(text, "settings", "job", arena, read_settings, &s, err);
    if (code < 0)
        return code;
    const char *odd = prn_settings_odd(&s);
    if (odd)
        return prn_fail(err, PRONY_EFORMAT, "%s is out of range", odd);
    *ret_settings = s;
    return 0;
}

/* ---- Load ---- */

void prn_load_settings_write(struct prn_json_writer *w, const struct prn_load_settings *s)
{
    prn_json_object(w, NULL);
    prn_json_array_compact(w, "rates");
    for (size_t i = 0; i < s->n_rates; i++)
        prn_json_number(w, NULL, s->rates[i]);
    prn_json_end(w);
    prn_json_integer(w, "workers", s->workers);
    prn_json_number(w, "duration_s", s->duration_s);
    prn_json_number(w, "percentile", s->percentile);
    prn_json_number(w, "limit_ns", s->limit_ns);
    prn_json_end(w);
}

static void read_load(struct prn_fields *r, const struct prn_field *top, void *into)
{
    struct prn_load_settings *s = into;
    if (!prn_field_is_object(r, top))
        return;
    struct prn_field rates = prn_field_member(top, "rates");
    size_t n = prn_field_count(r, &rates, PRN_LOAD_RATES_MAX);
    for (size_t i = 0; i < n && r->code == 0; i++) {
        struct prn_field rate = prn_field_element(&rates, i);
        s->rates[i] = json_number_value(rate.value);
        if (!json_is_number(rate.value) || !(s->rates[i] > 0))
            prn_field_fault(r, &rate, "is not a number above 0");
        s->n_rates = i + 1;
    }
    s->workers = prn_field_integer(r, top, "workers", 0, PRN_DRIVE_WORKERS_MAX);
    s->duration_s = prn_field_number_or_null(r, top, "duration_s");
    s->percentile = prn_field_number_or_null(r, top, "percentile");
    s->limit_ns = prn_field_number_or_null(r, top, "limit_ns");
}

int prn_load_settings_parse(const char *text, struct prn_load_settings *ret_settings,
                            struct prony_error *err)
{
    struct prn_arena arena = PRN_ARENA_INIT((size_t)1 << 16);
    struct prn_load_settings s = {0};
    int code = parse(text, "load", "load", &arena, read_load, &s, err);
    prn_arena_release(&arena);
    if (code == 0 && (!(s.duration_s >= 0 && s.duration_s <= 1e5) ||
                      !(s.percentile >= 0 && s.percentile < 1) || !isfinite(s.limit_ns)))
        code = prn_fail(err, PRONY_EFORMAT, "load: a number is out of range");
    if (code == 0)
        code = prn_load_check(&s, err);
    if (code == 0)
        *ret_settings = s;
    return code;
}

/* ---- Progress ---- */

void prn_progress_write(struct prn_json_writer *w, const struct prn_progress *p)
{
    prn_json_object(w, NULL);
    prn_json_text(w, "backend", p->backend);
    prn_json_text(w, "point", p->point);
    prn_json_text(w, "phase", p->phase);
    prn_json_integer(w, "row", (int64_t)p->row);
    prn_json_integer(w, "rows", (int64_t)p->rows);
    prn_json_integer(w, "launch", p->launch);
    prn_json_integer(w, "launches", p->launches);
    prn_json_integer(w, "samples", p->samples);
    prn_json_number(w, "median_ns", p->median_ns);
    prn_json_number(w, "half_width", p->half_width);
    prn_json_number(w, "elapsed_s", p->elapsed_s);
    prn_json_end(w);
}

static void read_progress(struct prn_fields *r, const struct prn_field *top, void *into)
{
    struct prn_progress *p = into;
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

int prn_progress_parse(const char *text, struct prn_arena *arena, struct prn_progress *ret_progress,
                       struct prony_error *err)
{
    struct prn_progress p = {0};
    int code = parse(text, "progress", "progress", arena, read_progress, &p, err);
    if (code == 0)
        *ret_progress = p;
    return code;
}
