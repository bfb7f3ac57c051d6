/* The tables of load. */
#include "report/load/json.h"

#include "exec/drive.h"
#include "report/profile/parts.h"

/* Bounds on what a report has to lay out. */
#define ROWS_MAX 1000
#define TRIALS_MAX 1000

const struct prn_name prn_slo_verdict_names[] = {
    {PRN_SLO_VERDICT_HOLDS, "holds"},
    {PRN_SLO_VERDICT_FAILS, "fails"},
    {PRN_SLO_VERDICT_UNSURE, "unsure"},
    {0, NULL},
};

const struct prn_name prn_load_flag_names[] = {
#define PRN_X(name, bit, text) {bit, #name},
    PRN_LOAD_FLAG_MAP(PRN_X)
#undef PRN_X
        {0, NULL},
};

/* ---- What is found ---- */

#define PRN_OF struct prn_load_row
static const struct prn_member row_members[] = {PRN_LOAD_ROW_LIST(PRN_DESCRIBE)};
const struct prn_schema prn_load_row_schema = PRN_SCHEMA("LoadRow", row_members, "One load.");
#undef PRN_OF

#define PRN_OF struct prn_slo_trial
static const struct prn_member trial_members[] = {
    PRN_NUMBER(rate_per_s, "Arrivals per second.", .flags = PRN_FINITE),
    PRN_INTEGER(requests, "Requests that were counted."),
    PRN_NUMBER(duration_s, "Time in which they were answered."),
    PRN_NUMBER(percentile_ns, "The percentile that is limited; null with too few requests, or "
                              "when overloaded."),
    PRN_OBJECT(share, &prn_interval_schema,
               "Share of requests over the limit, with its 95 % interval; null without requests.",
               .key = "share_over", .flags = PRN_NULL),
    PRN_BOOL(overloaded, "Requests came faster than they could be answered."),
    PRN_BOOL(disturbed, "Other work ran on the machine during it. Older files don't have it.",
             .flags = PRN_OMIT),
    PRN_BOOL(confirms,
             "The rate was tried in a fresh process, after it had held in the search: only what "
             "holds there is called held. Older files don't have it.",
             .flags = PRN_OMIT),
    PRN_CHOICE(verdict, prn_slo_verdict_names,
               "Whether the rate holds the limit; unsure: not known."),
};
static const struct prn_schema trial_schema = PRN_SCHEMA("Trial", trial_members, "One rate.");
#undef PRN_OF

static void check_slo(struct prn_fields *r, const struct prn_field *at, void *record)
{
    (void)r;
    (void)at;
    struct prn_slo *slo = record;
    for (size_t i = 0; i < slo->n_trials; i++)
        slo->search_only |= slo->trials[i].confirms < 0;
}

#define PRN_OF struct prn_slo
static const struct prn_member slo_members[] = {
    PRN_NUMBER(percentile, "Which one is limited, 0.99.", .flags = PRN_FINITE),
    PRN_NUMBER(limit_ns, "What it may reach.", .flags = PRN_FINITE),
    PRN_NUMBER(capacity_per_s, "What a closed loop answers: no rate from here on can be held."),
    PRN_NUMBER(single_ns, "The percentile of lone requests, or their median when samples are too "
                          "few for it; null when not known."),
    PRN_BOOL(single_fails, "Lone requests are over the limit already, so no rate was tried."),
    PRN_NUMBER(
        holds_per_s,
        "The rate that is called held: 5 % below the highest that a fresh process confirmed, "
        "because processes and machines differ from one minute to the next; null for none. "
        "Older files don't have it, and what was confirmed was called held.",
        .flags = PRN_OLD),
    PRN_BOOL(complete, "False when time was up before the rate was known well enough."),
    PRN_NUMBER(needed_s,
               "The --max-time that would have allowed the next step of the search; null when "
               "none was left. Older files don't have it.",
               .flags = PRN_OLD),
    PRN_ARRAY(trials, n_trials, &trial_schema, "Rates that were tried, in time order.",
              .max = TRIALS_MAX),
};
static const struct prn_schema slo_schema =
    PRN_SCHEMA("Slo", slo_members, "The search for the highest rate that holds a limit on latency.",
               .check = check_slo);
#undef PRN_OF

#define PRN_OF struct prn_load
static const struct prn_member error_members[] = {PRN_ERROR_MEMBERS};
static const struct prn_schema error_schema =
    PRN_SCHEMA("LoadFailure", error_members, "Why load couldn't be measured.");

static const struct prn_member load_members[] = {
    PRN_ARRAY(rows, n_rows, &prn_load_row_schema, "One entry per load.", .max = ROWS_MAX),
    PRN_OBJECT(slo, &slo_schema,
               "The search for the highest rate that holds a limit on latency; null when none was "
               "given.",
               .flags = PRN_POINTER | PRN_NULL),
    PRN_PART("error", &error_schema, "Why there isn't more; null when nothing failed.",
             .flags = PRN_NULL),
};
const struct prn_schema prn_load_schema =
    PRN_SCHEMA("Load", load_members, "How a backend behaves under load.");
#undef PRN_OF

/* ---- What is asked for ---- */

static void write_rates(struct prn_json_writer *w, const char *key, const void *record)
{
    const struct prn_load_settings *settings = record;
    prn_json_array_compact(w, key);
    for (size_t i = 0; i < settings->n_rates; i++)
        prn_json_number(w, NULL, settings->rates[i]);
    prn_json_end(w);
}

static void read_rates(struct prn_fields *r, const struct prn_field *at, void *record)
{
    struct prn_load_settings *s = record;
    s->n_rates = prn_field_count(r, at, PRN_LOAD_RATES_MAX);
    for (size_t i = 0; i < s->n_rates; i++) {
        s->rates[i] = json_number_value(json_array_get(at->value, i));
        struct prn_field rate = prn_field_element(at, i);
        if (!(s->rates[i] > 0))
            prn_field_fault(r, &rate, "is not a rate");
    }
}

static void check_settings(struct prn_fields *r, const struct prn_field *at, void *record)
{
    const struct prn_load_settings *s = record;
    if (s->percentile >= 1)
        prn_part_fault(r, at, "percentile", "is out of range");
    if (r->code == 0)
        r->code = prn_load_check(s, r->err);
}

#define PRN_OF struct prn_load_settings
static const struct prn_member settings_members[] = {
    {.name = "rates", .kind = PRN_KIND_ARRAY, .write = write_rates, .read = read_rates},
    PRN_INTEGER(workers, NULL, .max = PRN_DRIVE_WORKERS_MAX),
    PRN_NUMBER(duration_s, NULL),
    PRN_NUMBER(percentile, NULL),
    PRN_NUMBER(limit_ns, NULL),
};
static const struct prn_schema settings_schema =
    PRN_SCHEMA("LoadSettings", settings_members, NULL, .check = check_settings);
#undef PRN_OF

int prn_load_settings_write_json(const struct prn_load_settings *settings, struct prn_buffer *out,
                                 struct prony_error *err)
{
    return prn_schema_write_json(&settings_schema, settings, out, err);
}

int prn_load_settings_parse_json(const char *text, size_t len,
                                 struct prn_load_settings *ret_settings, struct prony_error *err)
{
    struct prn_fields r = {.name = "load", .what = "measurement", .err = err};
    return prn_schema_parse_json(&r, text, len, &settings_schema, ret_settings);
}
