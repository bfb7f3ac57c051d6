/*
 * Schedules: consecutive layers to hosts, each host at most once. What prn_schedule_find() finds is
 * the optimum; what can't be searched within the memory allowed is refused (PRONY_ELIMIT), and then
 * prn_schedule_approximate() finds a schedule and says how far it can be from the optimum.
 *
 * - PRN_OBJECTIVE_THROUGHPUT: the smallest maximum over all stage and link times; of those the
 *   fewest hosts, then the smallest sum of stage times.
 * - PRN_OBJECTIVE_LATENCY: the smallest sum of stage and link times; of those the fewest hosts.
 * - PRN_OBJECTIVE_COST: the smallest sum of prices among the schedules that keep the limits; of
 *   those the fewest hosts, then the smallest sum of stage times or, with a limit on latency, the
 *   smallest latency. Every type must have a price.
 *
 * Sums are added up in the order of the pipeline (stage, link, stage, …), prices in the order of
 * types, number times price. What is "equal" pipeline.h says: a schedule may be worse than the best
 * by its tolerance, if it has fewer hosts, and may exceed a limit by it.
 */
#ifndef PRN_PIPELINE_SCHEDULE_H
#define PRN_PIPELINE_SCHEDULE_H

#include "pipeline/pipeline.h"

#include <stdbool.h>

enum prn_objective {
    PRN_OBJECTIVE_THROUGHPUT,
    PRN_OBJECTIVE_LATENCY,
    PRN_OBJECTIVE_COST,
};

struct prn_schedule_goal {
    enum prn_objective objective;
    size_t max_stages;       /* 0: as many as there are hosts */
    double max_period_s;     /* cost: no stage or link may take longer; INFINITY: no limit */
    double max_latency_s;    /* cost; INFINITY: no limit */
    size_t max_memory_bytes; /* of the search; 0: PRN_SCHEDULE_MEMORY_DEFAULT */
};

#define PRN_SCHEDULE_MEMORY_DEFAULT ((size_t)256 << 20)
/* Indices of the tables end there. */
#define PRN_SCHEDULE_MEMORY_MAX ((size_t)8 << 30)

#define PRN_SCHEDULE_GOAL_INIT \
    ((struct prn_schedule_goal){.max_period_s = INFINITY, .max_latency_s = INFINITY})

struct prn_stage {
    size_t type;
    size_t host;        /* of its type, in the file's order */
    size_t first, last; /* layers */
};

struct prn_schedule {
    struct prn_stage *stages;
    size_t n; /* 0: no schedule is feasible */
};

PRONY_MUST_CHECK int prn_schedule_find(const struct prn_pipeline *p,
                                       const struct prn_schedule_goal *goal,
                                       struct prn_schedule *ret_schedule, struct prony_error *err);

/* A good schedule, in little memory, and a bound: no schedule has a smaller figure (period, latency
 * or cost). Without stages, none was found; with a bound of INFINITY, there is none. */
PRONY_MUST_CHECK int prn_schedule_approximate(const struct prn_pipeline *p,
                                              const struct prn_schedule_goal *goal,
                                              struct prn_schedule *ret_schedule, double *ret_bound,
                                              struct prony_error *err);
void prn_schedule_release(struct prn_schedule *s);

/* What a schedule takes. */
double prn_schedule_period(const struct prn_pipeline *p, const struct prn_schedule *s);
double prn_schedule_latency(const struct prn_pipeline *p, const struct prn_schedule *s);
double prn_schedule_cost(const struct prn_pipeline *p, const struct prn_schedule *s);

/* The figure that the objective makes small: period, latency or cost; INFINITY without stages. */
double prn_schedule_value(const struct prn_pipeline *p, const struct prn_schedule_goal *goal,
                          const struct prn_schedule *s);

/* That figure for the best schedule if there were one more host of a type; `known` is what it is
 * without. */
PRONY_MUST_CHECK int prn_schedule_with_one_more(const struct prn_pipeline *p,
                                                const struct prn_schedule_goal *goal, size_t type,
                                                double known, double *ret_value,
                                                struct prony_error *err);

/* Why nothing is feasible, as one line for a person. */
PRONY_MUST_CHECK int prn_schedule_shortage(const struct prn_pipeline *p,
                                           const struct prn_schedule_goal *goal, char *text,
                                           size_t size, struct prony_error *err);

#endif
