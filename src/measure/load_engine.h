/* What load.c (rows) and slo.c (the search for a rate) share: the processes of one backend, and a
 * way to put a round of blocks on them. */
#ifndef PRN_MEASURE_LOAD_ENGINE_H
#define PRN_MEASURE_LOAD_ENGINE_H

#include "base/random.h"
#include "measure/load_tally.h"
#include "measure/watch.h"

#define PRN_LOAD_LAUNCHES_MAX 10

struct prn_load_engine {
    const struct prn_measure_request *request;
    const struct prn_load_settings *settings;
    struct prn_profile *profile;
    struct prn_result *result;                             /* of the backend */
    struct prn_executor *executors[PRN_LOAD_LAUNCHES_MAX]; /* stopped between blocks */
    size_t n_executors;
    size_t workers;
    struct prn_watch watch;
    struct prn_canary canary;
    struct prn_random random;
    struct prn_drive_request *requests; /* of one block */
    double closed_per_s; /* about how many requests per second a closed loop answers */
    int64_t start_ns;
    bool mismatch; /* requests that run together have other outputs */
};

bool prn_load_cancelled(const struct prn_load_engine *e);

/* One block of `block_s` seconds on each process, in random order, at a rate (0: closed loop). A
 * block is shortened to what one command can hold, and lengthened to a few runs. Ends early when
 * a block was given up. PRONY_ECANCELED: what was measured until then is in the tally. */
PRONY_MUST_CHECK int prn_load_round(struct prn_load_engine *e, double rate_per_s, double block_s,
                                    struct prn_load_tally *tally, struct prony_error *err);

/* Finds the highest rate that holds the limit; `ret_slo` is written also when it fails, with the
 * trials until then. */
PRONY_MUST_CHECK int prn_slo_search(struct prn_load_engine *e, double capacity_per_s,
                                    struct prn_slo **ret_slo, struct prony_error *err);

/* The rate to try next; NAN when it is known well enough, or can't be found. */
double prn_slo_next_per_s(const struct prn_slo *slo);

/* What a share of requests over the limit, seen `requests` times, says. */
enum prn_slo_verdict prn_slo_verdict_of(const struct prn_slo *slo, struct prn_interval share,
                                        size_t requests);

#endif
