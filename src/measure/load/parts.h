/* What load.c (rows) and slo.c (the search for a rate) share: the processes of one backend, and a
 * way to put a round of blocks on them. */
#ifndef PRN_MEASURE_LOAD_PARTS_H
#define PRN_MEASURE_LOAD_PARTS_H

#include "base/random.h"
#include "measure/load/tally.h"
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
    bool checked;  /* outputs of requests that run together were compared */
    bool mismatch; /* and they are other than a lone one's */
};

/* One block of `block_s` seconds, or as long as one command can hold, on one process. */
PRONY_MUST_CHECK int prn_load_block(struct prn_load_engine *e, size_t launch, double rate_per_s,
                                    double block_s, struct prn_load_tally *tally,
                                    struct prony_error *err);

/* Puts a fresh process in the place of the first one; it is the last one then. */
PRONY_MUST_CHECK int prn_load_renew(struct prn_load_engine *e, struct prony_error *err);

/* What the search for a rate does things with: processes and a clock. */
struct prn_slo_world {
    void *context;
    size_t processes; /* at least 1 */
    /* Adds a stretch of load of `seconds`, or of what one command can hold. */
    int (*drive)(void *context, size_t launch, double rate_per_s, double seconds,
                 struct prn_load_tally *tally, struct prony_error *err);
    int (*renew)(void *context, struct prony_error *err); /* makes the last process a fresh one */
    double (*now_s)(void *context);
};

#define PRN_SLO_TRIALS_MAX 28

/* Looks for the highest rate that holds the limit of `slo`, whose capacity and lone requests are
 * known, and fills in its trials, for which there is room. What was found is there also when it
 * fails. */
PRONY_MUST_CHECK int prn_slo_find(const struct prn_slo_world *world, double max_time_s,
                                  struct prn_slo *slo, struct prony_error *err);

/* Finds the highest rate that holds the limit; `ret_slo` is written also when it fails, with the
 * trials until then. */
PRONY_MUST_CHECK int prn_slo_search(struct prn_load_engine *e, double capacity_per_s,
                                    struct prn_slo **ret_slo, struct prony_error *err);

/* The rate to try next; NAN when it is known well enough, or can't be found. */
double prn_slo_next_per_s(const struct prn_slo *slo);

/* How long a trial of a rate lasts: until the queue has settled many times over. */
double prn_slo_trial_s(const struct prn_slo *slo, double rate_per_s);

/* How long a rate must hold in a fresh process, of a search of `max_time_s`. */
double prn_slo_confirm_s(const struct prn_slo *slo, double rate_per_s, double max_time_s);

/* What a trial's requests say. */
PRONY_MUST_CHECK int prn_slo_judge(const struct prn_slo *slo, const struct prn_load_tally *tally,
                                   struct prn_slo_trial *trial, struct prony_error *err);

/* What a share of requests over the limit, seen `requests` times, says. */
enum prn_slo_verdict prn_slo_verdict_of(const struct prn_slo *slo, struct prn_interval share,
                                        size_t requests);

#endif
