/*
 * A backend under load: how long requests take when they come at a rate of their own, or from
 * several clients at once, and how many per second a limit on latency allows. Plain data in the
 * profile's arena, saved with it (report/load/json.h); numbers that aren't known are NAN.
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

/* One load. Latencies are NAN with too few requests, and when overloaded: they grow as long as one
 * measures. */
#define PRN_LOAD_ROW_LIST(X)                                                                    \
    X(NUMBER, asked_per_s,                                                                      \
      "Arrivals per second; null for a closed loop, in which each worker takes its next "       \
      "request at once.")                                                                       \
    X(INTEGER, workers, "Requests that ran at the same time, at most.", .min = 1,               \
      .max = INT32_MAX)                                                                         \
    X(INTEGER, launches, "Processes.", .max = INT32_MAX)                                        \
    X(INTEGER, blocks, "Stretches of load, each on one process.", .max = INT32_MAX)             \
    X(INTEGER, disturbed_blocks, "Those in which other work ran on the machine.",               \
      .max = INT32_MAX)                                                                         \
    X(INTEGER, requests, "Requests that were counted: those after the first tenth of a block.") \
    X(NUMBER, duration_s, "Time in which they were answered, of all blocks together.")          \
    X(NUMBER, achieved_per_s, "Requests answered per second.")                                  \
    X(INTERVAL, p50_ns,                                                                         \
      "Median of the latency, counted from when a request was due, with its 95 % interval "     \
      "over launches; null with too few requests, or when overloaded.")                         \
    X(INTERVAL, p90_ns, "90th percentile of the latency.")                                      \
    X(INTERVAL, p95_ns, "95th percentile.")                                                     \
    X(INTERVAL, p99_ns, "99th percentile.")                                                     \
    X(INTERVAL, p999_ns, "99.9th percentile.")                                                  \
    X(NUMBER, mean_ns, "Mean latency.")                                                         \
    X(NUMBER, max_ns, "Longest latency.")                                                       \
    X(NUMBER, wait_ns,                                                                          \
      "Mean time from when a request was due until it ran; null for a closed loop, and "        \
      "when overloaded.")                                                                       \
    X(NUMBER, service_ns, "Mean time that it ran.")                                             \
    X(NUMBER, utilisation, "Share of their time in which workers ran requests.")                \
    X(NUMBER, lateness_ns,                                                                      \
      "99th percentile of how late requests were made for a worker that waited for them; "      \
      "null for a closed loop.")                                                                \
    X(FLAGS, flags, prn_load_flag_names, "Reasons for caution.")

struct prn_load_row {
    PRN_LOAD_ROW_LIST(PRN_DECLARE)
};

enum prn_slo_verdict {
    PRN_SLO_VERDICT_HOLDS,  /* the whole interval of the share over the limit is allowed */
    PRN_SLO_VERDICT_FAILS,  /* none of it is */
    PRN_SLO_VERDICT_UNSURE, /* not known */
};

struct prn_slo_trial {
    double rate_per_s;
    int64_t requests;
    double duration_s;
    double percentile_ns;      /* the one that is limited; NAN: too few requests, or overloaded */
    struct prn_interval share; /* of requests over the limit */
    bool overloaded;
    /* -1: of a former version, which doesn't say */
    signed char disturbed; /* something else ran on the machine meanwhile */
    signed char confirms;  /* in a process of its own, and longer: what holds here is called held */
    enum prn_slo_verdict verdict;
};

/* The highest rate at which a percentile of the latency stays within a limit. */
struct prn_slo {
    double percentile, limit_ns;
    double capacity_per_s; /* of the closed loop: no rate from here on can be held */
    double single_ns;      /* the percentile of lone requests, from the plain measurement; NAN */
    bool single_fails;     /* it is surely over the limit, so no rate can hold it */
    double variation;      /* squared, of lone requests: (deviation / mean)²; not saved */
    double holds_per_s;    /* somewhat below what a fresh process confirmed; NAN: none, or a former
                              version, which called held what was confirmed */
    bool complete;         /* false: time was up, or measuring interrupted, before it was found */
    double needed_s;       /* --max-time that would have allowed the next step; NAN: none is left */
    bool search_only;      /* of a former version, which confirmed nothing: what held was held */
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

/* The rate that is called held, NAN for none; highest that held in the search, NAN for none; lowest
 * that surely fails, NAN for none. */
double prn_slo_holds_per_s(const struct prn_slo *slo);
double prn_slo_seen_per_s(const struct prn_slo *slo);
double prn_slo_fails_per_s(const struct prn_slo *slo);

/* The trial that confirmed it; NULL for none. */
const struct prn_slo_trial *prn_slo_confirmation(const struct prn_slo *slo);

/* Puts every backend that has been measured under load, filling the results' `load`. The failure of
 * a backend is its load's error; the call itself fails only for want of memory. */
PRONY_MUST_CHECK int prn_load_measure(const struct prn_measure_request *request,
                                      const struct prn_load_settings *settings,
                                      struct prn_profile *profile, struct prony_error *err);

#endif
