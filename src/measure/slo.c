/*
 * The highest rate that holds a limit, by bisection. A rate is tried until the interval of the
 * share of requests over the limit lies on one side of what the percentile allows; it is looked at
 * after one round, two and four, so that waiting for the wanted answer doesn't make it come.
 */
#include "measure/load_engine.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define TRIALS_MAX 16
#define ROUNDS_MAX 4
#define CLOSE_ENOUGH 1.05   /* highest that holds to lowest that doesn't */
#define FIRST_SHARE 0.7     /* of the capacity */
#define LEAST_SHARE 0.02    /* of the capacity: what holds at less isn't worth a server */
#define QUANTILE_SQUARED 8. /* of Student's distribution with 4 degrees of freedom, 95 % */

static double highest_holding(const struct prn_slo *slo)
{
    double rate = NAN;
    for (size_t i = 0; i < slo->n_trials; i++)
        if (slo->trials[i].verdict == PRN_SLO_VERDICT_HOLDS)
            rate = fmax(rate, slo->trials[i].rate_per_s);
    return rate;
}

double prn_slo_holds_per_s(const struct prn_slo *slo)
{
    return highest_holding(slo);
}

double prn_slo_fails_per_s(const struct prn_slo *slo)
{
    double rate = NAN;
    for (size_t i = 0; i < slo->n_trials; i++)
        if (slo->trials[i].verdict == PRN_SLO_VERDICT_FAILS)
            rate = fmin(rate, slo->trials[i].rate_per_s);
    return rate;
}

/* Where nobody needs to look: from the capacity on, or where it wasn't sure to hold. */
static double lowest_not_holding(const struct prn_slo *slo)
{
    double rate = slo->capacity_per_s;
    for (size_t i = 0; i < slo->n_trials; i++)
        if (slo->trials[i].verdict != PRN_SLO_VERDICT_HOLDS)
            rate = fmin(rate, slo->trials[i].rate_per_s);
    return rate;
}

/* Three digits are as good as any, and can be read. */
static double rounded(double rate)
{
    char text[32];
    snprintf(text, sizeof text, "%.2e", rate);
    return strtod(text, NULL);
}

double prn_slo_next_per_s(const struct prn_slo *slo)
{
    double low = highest_holding(slo);
    double high = lowest_not_holding(slo);
    if (!isfinite(slo->capacity_per_s) || slo->single_fails || slo->n_trials >= TRIALS_MAX)
        return NAN;
    if (slo->n_trials == 0)
        return rounded(FIRST_SHARE * high);
    if (isnan(low))
        return high > LEAST_SHARE * slo->capacity_per_s ? rounded(high / 2) : NAN;
    double next = rounded((low + high) / 2);
    return high > low * CLOSE_ENOUGH && next > low && next < high ? next : NAN;
}

double prn_slo_requests(double percentile)
{
    double need = (double)prn_stats_percentile_need(percentile);
    return fmax(fmax(need, 50), QUANTILE_SQUARED * percentile / (1 - percentile));
}

enum prn_slo_verdict prn_slo_verdict_of(const struct prn_slo *slo, struct prn_interval share,
                                        size_t requests)
{
    /* 1 - 0.99 isn't quite 0.01. */
    double allowed = 1 - slo->percentile + 1e-12;
    if (share.low > allowed)
        return PRN_SLO_VERDICT_FAILS;
    if (share.high <= allowed && requests >= prn_stats_percentile_need(slo->percentile))
        return PRN_SLO_VERDICT_HOLDS;
    return PRN_SLO_VERDICT_UNSURE;
}

static double time_left_s(const struct prn_load_engine *e, int64_t start_ns)
{
    return e->profile->settings.max_time_s - (double)(prn_clock_ns() - start_ns) * 1e-9;
}

static int judge(const struct prn_slo *slo, const struct prn_load_tally *tally,
                 struct prn_slo_trial *trial, struct prony_error *err)
{
    struct prn_load_row row;
    int code = prn_load_tally_row(tally, trial->rate_per_s, 1, &row, err);
    if (code < 0)
        return code;
    trial->requests = row.requests;
    trial->duration_s = row.duration_s;
    trial->overloaded = (row.flags & PRN_LOAD_FLAG_OVERLOADED) != 0;
    trial->percentile_ns = NAN;
#define PRN_X(name, p)          \
    if (slo->percentile == (p)) \
        trial->percentile_ns = row.name##_ns.estimate;
    PRN_LOAD_PERCENTILE_MAP(PRN_X)
#undef PRN_X
    trial->share = prn_load_share_over(tally->samples, tally->n, slo->limit_ns);
    trial->verdict =
        trial->overloaded ? PRN_SLO_VERDICT_FAILS : prn_slo_verdict_of(slo, trial->share, tally->n);
    return 0;
}

/* Tries one rate. */
static int try_rate(struct prn_load_engine *e, const struct prn_slo *slo, int64_t start_ns,
                    struct prn_slo_trial *trial, struct prony_error *err)
{
    struct prn_load_tally tally = PRN_LOAD_TALLY_INIT;
    double counted = prn_slo_requests(slo->percentile) / (double)e->n_executors;
    double wanted_s = counted / (1 - PRN_LOAD_LEAD) / trial->rate_per_s;
    int code = 0;
    trial->verdict = PRN_SLO_VERDICT_UNSURE;
    for (int round = 1, look = 1; code == 0 && round <= ROUNDS_MAX; round++) {
        double affordable_s = fmax(0, time_left_s(e, start_ns)) / (double)e->n_executors;
        code = prn_load_round(e, trial->rate_per_s, fmin(wanted_s, affordable_s), &tally, err);
        bool last = tally.gave_up || time_left_s(e, start_ns) <= 0;
        if (code < 0 || (round < look && !last))
            continue;
        look *= 2;
        code = judge(slo, &tally, trial, err);
        if (last || trial->verdict != PRN_SLO_VERDICT_UNSURE)
            break;
    }
    prn_load_tally_release(&tally);
    return code;
}

/* What lone requests take is known already; where they are too slow, no rate can help. */
static void look_at_single(const struct prn_result *result, struct prn_slo *slo)
{
    const struct prn_sample_stats *s = &result->stats;
    slo->single_ns = slo->percentile <= 0.5 ? s->median_ns : NAN;
#define PRN_X(name, p)          \
    if (slo->percentile == (p)) \
        slo->single_ns = s->name##_ns;
    PRN_PERCENTILE_MAP(PRN_X)
#undef PRN_X
    struct prn_interval share =
        prn_load_share_over(result->samples, result->n_samples, slo->limit_ns);
    slo->single_fails = prn_slo_verdict_of(slo, share, result->n_samples) == PRN_SLO_VERDICT_FAILS;
    /* With too few samples for the percentile, the median tells enough. */
    if (slo->single_fails && isnan(slo->single_ns))
        slo->single_ns = s->median_ns;
}

int prn_slo_search(struct prn_load_engine *e, double capacity_per_s, struct prn_slo **ret_slo,
                   struct prony_error *err)
{
    struct prn_slo *slo = PRN_ARENA_NEW(&e->profile->arena, struct prn_slo);
    struct prn_slo_trial *trials =
        PRN_ARENA_ARRAY(&e->profile->arena, TRIALS_MAX, struct prn_slo_trial);
    if (!slo || !trials)
        return prn_fail_memory(err);
    *slo = (struct prn_slo){
        .percentile = e->settings->percentile,
        .limit_ns = e->settings->limit_ns,
        .capacity_per_s = capacity_per_s,
        .trials = trials,
    };
    look_at_single(e->result, slo);
    *ret_slo = slo;
    const int64_t start_ns = prn_clock_ns();
    int code = 0;
    double rate;
    while (!isnan(rate = prn_slo_next_per_s(slo)) && time_left_s(e, start_ns) > 0) {
        struct prn_slo_trial trial = {.rate_per_s = rate};
        code = try_rate(e, slo, start_ns, &trial, err);
        if (code < 0)
            return code;
        slo->trials[slo->n_trials++] = trial;
    }
    slo->complete = isnan(rate);
    return 0;
}
