#include "report/load_json.h"

#include "exec/drive.h"
#include "report/profile_parts.h"

#include <math.h>
#include <string.h>

/* Bounds on what a report has to lay out. */
#define ROWS_MAX 1000
#define TRIALS_MAX 1000

const char *const prn_slo_verdict_names[PRN_SLO_VERDICT_COUNT] = {
    [PRN_SLO_VERDICT_HOLDS] = "holds",
    [PRN_SLO_VERDICT_FAILS] = "fails",
    [PRN_SLO_VERDICT_UNSURE] = "unsure",
};

/* ---- Writing ---- */

static void write_flags(struct prn_json_writer *w, unsigned flags)
{
    prn_json_array_compact(w, "flags");
#define PRN_X(name, bit, text) \
    if (flags & (bit))         \
        prn_json_text(w, NULL, #name);
    PRN_LOAD_FLAG_MAP(PRN_X)
#undef PRN_X
    prn_json_end(w);
}

static void write_row(struct prn_json_writer *w, const struct prn_load_row *row)
{
    prn_json_object(w, NULL);
    prn_json_number(w, "asked_per_s", row->asked_per_s);
    prn_json_integer(w, "workers", row->workers);
    prn_json_integer(w, "launches", row->launches);
    prn_json_integer(w, "blocks", row->blocks);
    prn_json_integer(w, "disturbed_blocks", row->disturbed_blocks);
    prn_json_integer(w, "requests", row->requests);
    prn_json_number(w, "duration_s", row->duration_s);
    prn_json_number(w, "achieved_per_s", row->achieved_per_s);
#define PRN_X(name, p) prn_part_write_interval(w, #name "_ns", row->name##_ns);
    PRN_LOAD_PERCENTILE_MAP(PRN_X)
#undef PRN_X
    prn_json_number(w, "mean_ns", row->mean_ns);
    prn_json_number(w, "max_ns", row->max_ns);
    prn_json_number(w, "wait_ns", row->wait_ns);
    prn_json_number(w, "service_ns", row->service_ns);
    prn_json_number(w, "utilisation", row->utilisation);
    prn_json_number(w, "lateness_ns", row->lateness_ns);
    write_flags(w, row->flags);
    prn_json_end(w);
}

static void write_trial(struct prn_json_writer *w, const struct prn_slo_trial *trial)
{
    prn_json_object(w, NULL);
    prn_json_number(w, "rate_per_s", trial->rate_per_s);
    prn_json_integer(w, "requests", trial->requests);
    prn_json_number(w, "duration_s", trial->duration_s);
    prn_json_number(w, "percentile_ns", trial->percentile_ns);
    prn_part_write_interval(w, "share_over", trial->share);
    prn_json_bool(w, "overloaded", trial->overloaded);
    prn_json_text(w, "verdict", prn_slo_verdict_names[trial->verdict]);
    prn_json_end(w);
}

static void write_slo(struct prn_json_writer *w, const struct prn_slo *slo)
{
    if (!slo) {
        prn_json_null(w, "slo");
        return;
    }
    prn_json_object(w, "slo");
    prn_json_number(w, "percentile", slo->percentile);
    prn_json_number(w, "limit_ns", slo->limit_ns);
    prn_json_number(w, "capacity_per_s", slo->capacity_per_s);
    prn_json_number(w, "single_ns", slo->single_ns);
    prn_json_bool(w, "single_fails", slo->single_fails);
    prn_json_bool(w, "complete", slo->complete);
    prn_json_array(w, "trials");
    for (size_t i = 0; i < slo->n_trials; i++)
        write_trial(w, &slo->trials[i]);
    prn_json_end(w);
    prn_json_end(w);
}

void prn_load_write(struct prn_json_writer *w, const struct prn_load *load)
{
    prn_json_object(w, "load");
    prn_json_array(w, "rows");
    for (size_t i = 0; i < load->n_rows; i++)
        write_row(w, &load->rows[i]);
    prn_json_end(w);
    write_slo(w, load->slo);
    prn_part_write_error(w, load->error_code, load->error);
    prn_json_end(w);
}

/* ---- Reading ---- */

static unsigned read_flags(struct prn_fields *r, const struct prn_field *in)
{
    struct prn_field p = prn_field_member(in, "flags");
    size_t n = prn_field_count(r, &p, ROWS_MAX);
    unsigned flags = 0;
    for (size_t i = 0; i < n && r->code == 0; i++) {
        struct prn_field flag = prn_field_element(&p, i);
        const char *name = prn_field_text_at(r, &flag);
        unsigned found = 0;
#define PRN_X(symbol, bit, meaning)         \
    if (name && strcmp(name, #symbol) == 0) \
        found = bit;
        PRN_LOAD_FLAG_MAP(PRN_X)
#undef PRN_X
        if (!found)
            prn_field_fault(r, &flag, "is not a flag of a load");
        flags |= found;
    }
    return flags;
}

static void read_row(struct prn_fields *r, const struct prn_field *p, struct prn_load_row *row)
{
    if (!prn_field_is_object(r, p))
        return;
    row->asked_per_s = prn_field_number_or_null(r, p, "asked_per_s");
    row->workers = prn_field_integer(r, p, "workers", 1, INT32_MAX);
    row->launches = prn_field_integer(r, p, "launches", 0, INT32_MAX);
    row->blocks = prn_field_integer(r, p, "blocks", 0, INT32_MAX);
    row->disturbed_blocks = prn_field_integer(r, p, "disturbed_blocks", 0, INT32_MAX);
    row->requests = prn_field_integer(r, p, "requests", 0, INT64_MAX);
    row->duration_s = prn_field_number_or_null(r, p, "duration_s");
    row->achieved_per_s = prn_field_number_or_null(r, p, "achieved_per_s");
#define PRN_X(name, fraction) row->name##_ns = prn_part_read_interval(r, p, #name "_ns");
    PRN_LOAD_PERCENTILE_MAP(PRN_X)
#undef PRN_X
    row->mean_ns = prn_field_number_or_null(r, p, "mean_ns");
    row->max_ns = prn_field_number_or_null(r, p, "max_ns");
    row->wait_ns = prn_field_number_or_null(r, p, "wait_ns");
    row->service_ns = prn_field_number_or_null(r, p, "service_ns");
    row->utilisation = prn_field_number_or_null(r, p, "utilisation");
    row->lateness_ns = prn_field_number_or_null(r, p, "lateness_ns");
    row->flags = read_flags(r, p);
}

static void read_trial(struct prn_fields *r, const struct prn_field *p, struct prn_slo_trial *trial)
{
    if (!prn_field_is_object(r, p))
        return;
    trial->rate_per_s = prn_field_number_at_least(r, p, "rate_per_s", 0);
    trial->requests = prn_field_integer(r, p, "requests", 0, INT64_MAX);
    trial->duration_s = prn_field_number_or_null(r, p, "duration_s");
    trial->percentile_ns = prn_field_number_or_null(r, p, "percentile_ns");
    trial->share = prn_part_read_interval(r, p, "share_over");
    trial->overloaded = prn_field_bool(r, p, "overloaded");
    const char *verdict = prn_field_text(r, p, "verdict");
    for (int i = 0; verdict && i < PRN_SLO_VERDICT_COUNT; i++)
        if (strcmp(verdict, prn_slo_verdict_names[i]) == 0) {
            trial->verdict = (enum prn_slo_verdict)i;
            return;
        }
    struct prn_field place = prn_field_member(p, "verdict");
    prn_field_fault(r, &place, "is not a verdict");
}

static struct prn_slo *read_slo(struct prn_fields *r, const struct prn_field *in)
{
    struct prn_field p = prn_field_member(in, "slo");
    if (json_is_null(p.value) || !prn_field_is_object(r, &p))
        return NULL;
    struct prn_slo *slo = prn_field_array(r, 1, sizeof *slo);
    if (!slo)
        return NULL;
    slo->percentile = prn_field_number_at_least(r, &p, "percentile", 0);
    slo->limit_ns = prn_field_number_at_least(r, &p, "limit_ns", 0);
    slo->capacity_per_s = prn_field_number_or_null(r, &p, "capacity_per_s");
    slo->single_ns = prn_field_number_or_null(r, &p, "single_ns");
    slo->single_fails = prn_field_bool(r, &p, "single_fails");
    slo->complete = prn_field_bool(r, &p, "complete");
    struct prn_field trials = prn_field_member(&p, "trials");
    size_t n = prn_field_count(r, &trials, TRIALS_MAX);
    slo->trials = prn_field_array(r, n, sizeof *slo->trials);
    for (size_t i = 0; i < n && r->code == 0; i++) {
        struct prn_field trial = prn_field_element(&trials, i);
        read_trial(r, &trial, &slo->trials[i]);
        slo->n_trials = i + 1;
    }
    return slo;
}

struct prn_load *prn_load_read(struct prn_fields *r, const struct prn_field *result)
{
    struct prn_field p = prn_field_member(result, "load");
    if (!p.value || !prn_field_is_object(r, &p))
        return NULL;
    struct prn_load *load = prn_field_array(r, 1, sizeof *load);
    if (!load)
        return NULL;
    struct prn_field rows = prn_field_member(&p, "rows");
    size_t n = prn_field_count(r, &rows, ROWS_MAX);
    load->rows = prn_field_array(r, n, sizeof *load->rows);
    for (size_t i = 0; i < n && r->code == 0; i++) {
        struct prn_field row = prn_field_element(&rows, i);
        read_row(r, &row, &load->rows[i]);
        load->n_rows = i + 1;
    }
    load->slo = read_slo(r, &p);
    load->error = prn_part_read_error(r, &p, &load->error_code);
    return load;
}

/* ---- What is asked for ---- */

int prn_load_settings_write_json(const struct prn_load_settings *settings, struct prn_buffer *out,
                                 struct prony_error *err)
{
    struct prn_json_writer w = prn_json_writer_init(out);
    prn_json_object(&w, NULL);
    prn_json_array_compact(&w, "rates");
    for (size_t i = 0; i < settings->n_rates; i++)
        prn_json_number(&w, NULL, settings->rates[i]);
    prn_json_end(&w);
    prn_json_integer(&w, "workers", settings->workers);
    prn_json_number(&w, "duration_s", settings->duration_s);
    prn_json_number(&w, "percentile", settings->percentile);
    prn_json_number(&w, "limit_ns", settings->limit_ns);
    prn_json_end(&w);
    return prn_buffer_error(out, err);
}

static void read_load_settings(struct prn_fields *r, const struct prn_field *top,
                               struct prn_load_settings *s)
{
    if (!prn_field_is_object(r, top))
        return;
    struct prn_field rates = prn_field_member(top, "rates");
    s->n_rates = prn_field_count(r, &rates, PRN_LOAD_RATES_MAX);
    for (size_t i = 0; i < s->n_rates; i++) {
        s->rates[i] = json_number_value(json_array_get(rates.value, i));
        struct prn_field rate = prn_field_element(&rates, i);
        if (!(s->rates[i] > 0))
            prn_field_fault(r, &rate, "is not a rate");
    }
    s->workers = prn_field_integer(r, top, "workers", 0, PRN_DRIVE_WORKERS_MAX);
    s->duration_s = prn_field_number_at_least(r, top, "duration_s", 0);
    s->percentile = prn_field_number_at_least(r, top, "percentile", 0);
    s->limit_ns = prn_field_number_at_least(r, top, "limit_ns", 0);
    struct prn_field percentile = prn_field_member(top, "percentile");
    if (s->percentile >= 1)
        prn_field_fault(r, &percentile, "is out of range");
}

int prn_load_settings_parse_json(const char *text, size_t len,
                                 struct prn_load_settings *ret_settings, struct prony_error *err)
{
    json_t *root;
    int code = prn_json_parse(text, len, "load", &root, err);
    if (code < 0)
        return code;
    struct prn_fields r = {.name = "load", .what = "measurement", .err = err};
    struct prn_load_settings settings = {0};
    read_load_settings(&r, &(struct prn_field){.value = root}, &settings);
    json_decref(root);
    if (r.code == 0)
        r.code = prn_load_check(&settings, err);
    if (r.code == 0)
        *ret_settings = settings;
    return r.code;
}
