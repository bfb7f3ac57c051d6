/*
 * The highest rate that holds a limit. A queue near its capacity takes long to show what it is
 * like: its memory is S (1 + cv²) / (2.8 (1 - √ρ)²) for a service time S with a coefficient of
 * variation cv and a utilisation ρ (Odoni and Roth, 1983). A trial is one stretch of load in one
 * process that lasts many times that; its first tenth fills the queue, the rest is cut into slices
 * whose variance gives the interval of the share of requests over the limit. What isn't known then
 * is looked at again for as long, once and once more.
 *
 * The search bisects utilisation: it begins where queueing theory expects the limit to be reached,
 * and ends when the highest rate that holds and the lowest that doesn't are close. What has held is
 * tried once more, for longer, in a fresh process. Not that rate is called held, but one somewhat
 * lower: the next process, and the same machine a minute later, are slower by a few percent, which
 * near the edge is all that there is. Simulated queues on machines that change by 3 % say how much
 * lower it has to be for 95 % of such rates to hold (tests/unit/test_load.c).
 */
#include "measure/load/parts.h"

#include "base/clock.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define TRIALS_MAX (PRN_SLO_TRIALS_MAX - CONFIRMS_MAX)
#define ROUNDS_MAX 3
#define CLOSE_ENOUGH 1.08   /* highest that holds to lowest that doesn't */
#define MOST_SHARE 0.97     /* of the capacity: beyond it nobody should go */
#define LEAST_SHARE 0.02    /* of the capacity: what holds at less isn't worth a server */
#define QUANTILE_SQUARED 8. /* of Student's distribution with 4 degrees of freedom, 95 % */
#define EDGE 1.3            /* how much more idle time than theory asks for is tried first */
#define VARIATION_MAX 10.   /* a few stalls must not make trials last for ever */
#define MORE_IDLE 1.4       /* the step where only one side is known */
#define CONFIRM_STEP 0.87   /* at least, from a rate that wasn't confirmed to the next */
#define SLICES 10
#define TRIAL_MIN_S 2
#define BUSY_PERIODS 30
#define MEMORIES 20 /* of the queue, that a trial lasts */
#define CONFIRM_TRIALS 2
#define CONFIRM_MOST_S 30
#define CONFIRM_SHARE 0.25 /* of the time allowed */
#define CONFIRMS_MAX 4
#define HELD_SHARE 0.95 /* of the rate that a fresh process confirmed */

/* ---- What is known ---- */

static double highest(const struct prn_slo *slo, bool confirmed)
{
    double rate = NAN;
    for (size_t i = 0; i < slo->n_trials; i++) {
        const struct prn_slo_trial *t = &slo->trials[i];
        if (t->verdict == PRN_SLO_VERDICT_HOLDS && (t->confirms > 0 || !confirmed))
            rate = fmax(rate, t->rate_per_s);
    }
    return rate;
}

double prn_slo_holds_per_s(const struct prn_slo *slo)
{
    return slo->holds_per_s > 0 ? slo->holds_per_s : highest(slo, !slo->search_only);
}

double prn_slo_seen_per_s(const struct prn_slo *slo)
{
    return highest(slo, false);
}

const struct prn_slo_trial *prn_slo_confirmation(const struct prn_slo *slo)
{
    const struct prn_slo_trial *found = NULL;
    for (size_t i = 0; i < slo->n_trials; i++) {
        const struct prn_slo_trial *t = &slo->trials[i];
        if (t->confirms > 0 && t->verdict == PRN_SLO_VERDICT_HOLDS &&
            (!found || t->rate_per_s > found->rate_per_s))
            found = t;
    }
    return found;
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

/* ---- Which rate ---- */

/* Three digits are as good as any, and can be read. */
static double rounded(double rate)
{
    char text[32];
    snprintf(text, sizeof text, "%.2e", rate);
    return strtod(text, NULL);
}

/* The utilisation at which the limit is reached in theory: the share of requests that wait longer
 * than w is about ρ exp(-2 (1 - ρ) w / (S (1 + cv²))), Kingman's approximation. */
static double expected_share(const struct prn_slo *slo)
{
    const double allowed = 1 - slo->percentile;
    const double service_ns = 1e9 / slo->capacity_per_s;
    const double own_ns = isfinite(slo->single_ns) ? slo->single_ns : service_ns;
    const double waits = fmax(0, slo->limit_ns - own_ns) / service_ns / (1 + slo->variation);
    double low = allowed < MOST_SHARE ? allowed : MOST_SHARE;
    double high = MOST_SHARE;
    for (int i = 0; i < 60; i++) {
        double share = (low + high) / 2;
        if (share * exp(-2 * (1 - share) * waits) > allowed)
            high = share;
        else
            low = share;
    }
    return low;
}

double prn_slo_next_per_s(const struct prn_slo *slo)
{
    const double capacity = slo->capacity_per_s;
    if (!isfinite(capacity) || capacity <= 0 || slo->single_fails || slo->n_trials >= TRIALS_MAX)
        return NAN;
    /* Not quite there: what lies on the edge is never known. */
    if (slo->n_trials == 0) {
        double share = expected_share(slo);
        return rounded(fmax(1 - EDGE * (1 - share), share / EDGE) * capacity);
    }
    const double low = prn_slo_seen_per_s(slo);
    const double high = lowest_not_holding(slo);
    if (isnan(low)) {
        /* More idle time, and soon much more, but not less than half as much work. */
        double share = high / capacity;
        double less = fmax(1 - (slo->n_trials > 1 ? 2 : MORE_IDLE) * (1 - share), share / 2);
        return share > LEAST_SHARE ? rounded(less * capacity) : NAN;
    }
    /* Idle time is what latency depends on: its geometric mean, or somewhat less of it. */
    double idle = 1 - low / capacity;
    double next = high < capacity ? 1 - sqrt(idle * (1 - high / capacity)) : 1 - idle / MORE_IDLE;
    next = rounded(fmin(next, MOST_SHARE) * capacity);
    return high > low * CLOSE_ENOUGH && next > low && next < high ? next : NAN;
}

/* The rate to try after one that held, but not in a fresh process. */
static double lower_per_s(const struct prn_slo *slo, double rate_per_s)
{
    double share = rate_per_s / slo->capacity_per_s;
    return rounded(fmax(1 - MORE_IDLE * (1 - share), CONFIRM_STEP * share) * slo->capacity_per_s);
}

/* ---- How long ---- */

static double requests_of(double percentile)
{
    double need = (double)prn_stats_percentile_need(percentile);
    return fmax(fmax(need, 50), QUANTILE_SQUARED * percentile / (1 - percentile));
}

double prn_slo_trial_s(const struct prn_slo *slo, double rate_per_s)
{
    double share = fmin(rate_per_s / slo->capacity_per_s, MOST_SHARE);
    double idle = 1 - sqrt(share);
    double memory_s = (1 + slo->variation) / (2.8 * slo->capacity_per_s * idle * idle);
    double cycle_s = 1 / (rate_per_s * (1 - share)); /* a busy period, and the pause after it */
    double least_s = fmax(requests_of(slo->percentile) / rate_per_s, TRIAL_MIN_S);
    return fmax(least_s, fmax(BUSY_PERIODS * cycle_s, MEMORIES * memory_s)) / (1 - PRN_LOAD_LEAD);
}

double prn_slo_confirm_s(const struct prn_slo *slo, double rate_per_s, double max_time_s)
{
    double long_s = fmin(CONFIRM_MOST_S, CONFIRM_SHARE * max_time_s);
    return fmax(CONFIRM_TRIALS * prn_slo_trial_s(slo, rate_per_s), long_s);
}

/* ---- Trials ---- */

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

int prn_slo_judge(const struct prn_slo *slo, const struct prn_load_tally *tally,
                  struct prn_slo_trial *trial, struct prony_error *err)
{
    struct prn_load_row row;
    int code = prn_load_tally_row(tally, trial->rate_per_s, 1, &row, err);
    if (code < 0)
        return code;
    trial->requests = row.requests;
    trial->duration_s = row.duration_s;
    trial->overloaded = (row.flags & PRN_LOAD_FLAG_OVERLOADED) != 0;
    trial->disturbed = row.disturbed_blocks > 0;
    trial->percentile_ns = NAN;
#define PRN_X(name, p)          \
    if (slo->percentile == (p)) \
        trial->percentile_ns = row.name##_ns.estimate;
    PRN_LOAD_PERCENTILE_MAP(PRN_X)
#undef PRN_X
    trial->share = prn_load_share_over(tally->samples, tally->n, slo->limit_ns);
    trial->verdict =
        trial->overloaded ? PRN_SLO_VERDICT_FAILS : prn_slo_verdict_of(slo, trial->share, tally->n);
    /* Within the limit so far, but on its way beyond it. */
    if (trial->verdict == PRN_SLO_VERDICT_HOLDS && prn_load_tally_grows(tally, slo->limit_ns))
        trial->verdict = PRN_SLO_VERDICT_UNSURE;
    return 0;
}

struct search {
    const struct prn_slo_world *world;
    struct prn_slo *slo;
    double start_s;
    double max_time_s;
};

static double spent_s(const struct search *s)
{
    return s->world->now_s(s->world->context) - s->start_s;
}

static double left_s(const struct search *s)
{
    return s->max_time_s - spent_s(s);
}

/* Load for `seconds` on one process, in as few stretches as commands can hold. */
static int drive(struct search *s, double rate_per_s, size_t launch, double seconds,
                 struct prn_load_tally *tally, struct prony_error *err)
{
    const double until_ns = tally->time_ns + seconds * 1e9 * (1 - PRN_LOAD_LEAD) * 0.999;
    int code = 0;
    while (code == 0 && !tally->gave_up && tally->time_ns < until_ns)
        code = s->world->drive(s->world->context, launch, rate_per_s, seconds, tally, err);
    return code;
}

/* Tries one rate on one process, and keeps what was found. */
static int try_rate(struct search *s, double rate_per_s, size_t launch, bool confirms,
                    struct prony_error *err)
{
    struct prn_slo *slo = s->slo;
    struct prn_load_tally tally = PRN_LOAD_TALLY_INIT;
    struct prn_slo_trial *trial = &slo->trials[slo->n_trials];
    *trial = (struct prn_slo_trial){.rate_per_s = rate_per_s, .confirms = confirms};
    const double seconds = confirms ? prn_slo_confirm_s(slo, rate_per_s, s->max_time_s)
                                    : prn_slo_trial_s(slo, rate_per_s);
    int code = 0;
    tally.slices = SLICES;
    /* A confirmation isn't repeated: rather a lower rate is tried. */
    for (int round = 0; code == 0 && round < (confirms ? 1 : ROUNDS_MAX); round++) {
        code = drive(s, rate_per_s, launch, seconds, &tally, err);
        if (code == 0)
            code = prn_slo_judge(slo, &tally, trial, err);
        double after_s = prn_slo_confirm_s(slo, rate_per_s, s->max_time_s);
        if (trial->verdict != PRN_SLO_VERDICT_UNSURE || left_s(s) < seconds + after_s)
            break;
    }
    prn_load_tally_release(&tally);
    slo->n_trials += code == 0;
    return code;
}

/* The search wasn't over: how long it would have to be to try this rate too. */
static void note_need(struct search *s, double rate_per_s)
{
    double trial_s = prn_slo_trial_s(s->slo, rate_per_s);
    double spent = spent_s(s);
    double needed_s = fmax((spent + trial_s) / (1 - 2 * CONFIRM_SHARE), spent + 5 * trial_s);
    s->slo->needed_s = ceil(fmax(needed_s, s->max_time_s * 1.1));
}

/* The highest rate below this one whose trial and confirmation fit into the time that is left; NAN
 * for none. */
static double affordable(const struct search *s, double rate_per_s)
{
    while (rate_per_s > LEAST_SHARE * s->slo->capacity_per_s) {
        if (prn_slo_trial_s(s->slo, rate_per_s) +
                prn_slo_confirm_s(s->slo, rate_per_s, s->max_time_s) <=
            left_s(s))
            return rate_per_s;
        rate_per_s = rounded(rate_per_s * 0.95);
    }
    return NAN;
}

/* Looks for a rate that holds in processes that are there already. */
static int look(struct search *s, struct prony_error *err)
{
    const struct prn_slo *slo = s->slo;
    int code = 0;
    double rate;
    while (code == 0 && !isnan(rate = prn_slo_next_per_s(slo))) {
        bool any = !isnan(prn_slo_seen_per_s(slo));
        double confirm_s = prn_slo_confirm_s(slo, rate, s->max_time_s);
        /* A confirmation may fail, and then there should be time for another one. */
        double now_s = prn_slo_trial_s(slo, rate) + (any ? 2 : 1) * confirm_s;
        if (now_s > left_s(s)) {
            note_need(s, rate);
            rate = any ? NAN : affordable(s, rate);
            if (isnan(rate))
                return 0;
        }
        code = try_rate(s, rate, slo->n_trials % s->world->processes, false, err);
    }
    s->slo->complete = code == 0;
    return code;
}

/* Holds the rate that was found against fresh processes, and lower ones if it fails there. */
static int confirm(struct search *s, struct prony_error *err)
{
    struct prn_slo *slo = s->slo;
    double rate = prn_slo_seen_per_s(slo);
    for (int i = 0; i < CONFIRMS_MAX && !isnan(rate); i++) {
        if (prn_slo_confirm_s(slo, rate, s->max_time_s) > left_s(s)) {
            note_need(s, rate);
            slo->complete = false;
            return 0;
        }
        int code = s->world->renew(s->world->context, err);
        if (code == 0)
            code = try_rate(s, rate, s->world->processes - 1, true, err);
        if (code < 0)
            return code;
        if (slo->trials[slo->n_trials - 1].verdict == PRN_SLO_VERDICT_HOLDS) {
            slo->holds_per_s = rounded(HELD_SHARE * rate);
            return 0;
        }
        rate = lower_per_s(slo, rate);
    }
    return 0;
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
    double variation = s->mean_ns > 0 ? s->sd_ns / s->mean_ns : 0;
    slo->variation = fmin(variation * variation, VARIATION_MAX);
}

int prn_slo_find(const struct prn_slo_world *world, double max_time_s, struct prn_slo *slo,
                 struct prony_error *err)
{
    struct search s = {.world = world, .slo = slo, .max_time_s = max_time_s};
    s.start_s = world->now_s(world->context);
    int code = look(&s, err);
    return code == 0 ? confirm(&s, err) : code;
}

/* ---- On real processes ---- */

static int drive_process(void *context, size_t launch, double rate_per_s, double seconds,
                         struct prn_load_tally *tally, struct prony_error *err)
{
    return prn_load_block(context, launch, rate_per_s, seconds, tally, err);
}

static int renew_process(void *context, struct prony_error *err)
{
    return prn_load_renew(context, err);
}

static double now_s(void *context)
{
    (void)context;
    return (double)prn_clock_ns() * 1e-9;
}

int prn_slo_search(struct prn_load_engine *e, double capacity_per_s, struct prn_slo **ret_slo,
                   struct prony_error *err)
{
    struct prn_slo *slo = PRN_ARENA_NEW(&e->profile->arena, struct prn_slo);
    struct prn_slo_trial *trials =
        PRN_ARENA_ARRAY(&e->profile->arena, PRN_SLO_TRIALS_MAX, struct prn_slo_trial);
    if (!slo || !trials)
        return prn_fail_memory(err);
    *slo = (struct prn_slo){
        .percentile = e->settings->percentile,
        .limit_ns = e->settings->limit_ns,
        .capacity_per_s = capacity_per_s,
        .holds_per_s = NAN,
        .needed_s = NAN,
        .trials = trials,
    };
    look_at_single(e->result, slo);
    *ret_slo = slo;
    const struct prn_slo_world world = {e, e->n_executors, drive_process, renew_process, now_s};
    return prn_slo_find(&world, e->profile->settings.max_time_s, slo, err);
}
