/*
 * A backend under load: how long requests take when they come at a rate of their own, or from
 * several clients at once, and how many per second a limit on latency allows. Plain data in the
 * profile's arena, saved with it (report/load_json.h); numbers that aren't known are NAN.
 *
 * - A request is one run of the model; with a batch it holds as many inferences.
 * - Latency counts from when a request was due, not from when it was begun (exec/drive.h).
 * - Load comes in blocks, spread over several processes (launches). The first tenth of a block
 *   fills the queue and isn't counted; after that every request is.
 * - Intervals are for 95 %, and their unit is the launch, because the requests of a process are
 *   alike, and so are those of a queue.
 */
#ifndef PRN_MEASURE_LOAD_H
#define PRN_MEASURE_LOAD_H

#include "measure/measure.h"

/* ---- What is asked for ---- */

#define PRN_LOAD_RATES_MAX 100
#define PRN_LOAD_DURATION_DEFAULT_S 10

struct prn_load_settings {
    size_t n_rates;
    double rates[PRN_LOAD_RATES_MAX]; /* requests per second: a row for each */
    int64_t workers;                  /* requests that run at the same time; 0: not said, 1 */
    double duration_s;                /* of a row; 0: not said */
    double percentile;                /* 0.99; 0: no limit is given */
    double limit_ns;                  /* that this percentile of the latency may reach */
};

/* Reads "100/s", "6000/min", "50/s,0.5/s" and adds them to the rates. */
PRONY_MUST_CHECK int prn_load_parse_rates(const char *text, struct prn_load_settings *settings,
                                          struct prony_error *err);
/* Reads "p99=20ms": p50, p90, p95, p99 or p99.9, and a time in ns, us, µs, ms or s. */
PRONY_MUST_CHECK int prn_load_parse_slo(const char *text, struct prn_load_settings *settings,
                                        struct prony_error *err);
/* Fails when options don't make sense together. */
PRONY_MUST_CHECK int prn_load_check(const struct prn_load_settings *settings,
                                    struct prony_error *err);
bool prn_load_wanted(const struct prn_load_settings *settings);

/* ---- What is found ---- */

#define PRN_LOAD_PERCENTILE_MAP(X) \
    X(p50, 0.50)                   \
    X(p90, 0.90)                   \
    X(p95, 0.95)                   \
    X(p99, 0.99)                   \
    X(p999, 0.999)

#define PRN_LOAD_FLAG_MAP(X)                                                         \
    X(OVERLOADED, 1, "requests came faster than they could be answered")             \
    X(LATE, 2, "the machine was too busy for requests to be made in time")           \
    X(NOISY, 4, "other work disturbed this machine while it was measured")           \
    X(MISMATCH, 8, "outputs of requests that ran together differ from a lone one's") \
    X(INTERRUPTED, 16, "measuring was interrupted")

enum prn_load_flag {
#define PRN_X(name, bit, text) PRN_LOAD_FLAG_##name = bit,
    PRN_LOAD_FLAG_MAP(PRN_X)
#undef PRN_X
};

/* One load. */
struct prn_load_row {
    double asked_per_s; /* NAN: a closed loop, each worker takes the next request at once */
    int64_t workers;
    int64_t launches, blocks, disturbed_blocks;
    int64_t requests;      /* that were counted */
    double duration_s;     /* in which they came */
    double achieved_per_s; /* answered */
    /* latency; NAN with too few requests, and when overloaded: it grows as long as one measures */
#define PRN_X(name, p) struct prn_interval name##_ns;
    PRN_LOAD_PERCENTILE_MAP(PRN_X)
#undef PRN_X
    double mean_ns, max_ns;
    double wait_ns, service_ns; /* means: until it ran (NAN for a closed loop), and while it ran */
    double utilisation;         /* share of the time in which workers were running a request */
    double lateness_ns;         /* p99 of how late requests were made; NAN for a closed loop */
    unsigned flags;             /* enum prn_load_flag */
};

enum prn_slo_verdict {
    PRN_SLO_VERDICT_HOLDS,  /* the whole interval of the share over the limit is allowed */
    PRN_SLO_VERDICT_FAILS,  /* none of it is */
    PRN_SLO_VERDICT_UNSURE, /* counts as not holding */
};
#define PRN_SLO_VERDICT_COUNT 3

struct prn_slo_trial {
    double rate_per_s;
    int64_t requests;
    double duration_s;
    double percentile_ns;      /* the one that is limited; NAN: too few requests, or overloaded */
    struct prn_interval share; /* of requests over the limit */
    bool overloaded;
    enum prn_slo_verdict verdict;
};

/* The highest rate at which a percentile of the latency stays within a limit. */
struct prn_slo {
    double percentile, limit_ns;
    double capacity_per_s; /* of the closed loop: no rate from here on can be held */
    double single_ns;      /* the percentile of lone requests, from the plain measurement; NAN */
    bool single_fails;     /* it is surely over the limit, so no rate can hold it */
    bool complete;         /* false: time was up, or measuring interrupted, before it was found */
    size_t n_trials;
    struct prn_slo_trial *trials; /* in time order */
};

struct prn_load {
    size_t n_rows;
    struct prn_load_row *rows;
    struct prn_slo *slo; /* NULL: no limit was given */
    int error_code;      /* 0, or why there isn't more */
    const char *error;
};

/* Requests that it takes to know whether a rate holds a limit on this percentile, at least: enough
 * for the percentile, and for the interval to be within it when none is over the limit. */
double prn_slo_requests(double percentile);

/* Highest rate that surely holds, NAN for none; lowest that surely fails, NAN for none. */
double prn_slo_holds_per_s(const struct prn_slo *slo);
double prn_slo_fails_per_s(const struct prn_slo *slo);

/* Puts every backend that has been measured under load, filling the results' `load`. The failure of
 * a backend is its load's error; the call itself fails only for want of memory. */
PRONY_MUST_CHECK int prn_load_measure(const struct prn_measure_request *request,
                                      const struct prn_load_settings *settings,
                                      struct prn_profile *profile, struct prony_error *err);

#endif
