/*
 * What a search for a schedule walks through. Used inside src/pipeline only.
 *
 * A state is how many hosts of each type are used (a vector), the type of the last stage, and the
 * number of layers that are done. Vectors are numbered by level, that is by the number of hosts in
 * them, so that a stage always leads from one level to the next. Types are those with hosts, and
 * here have indices of their own.
 */
#ifndef PRN_PIPELINE_SCHEDULE_SPACE_H
#define PRN_PIPELINE_SCHEDULE_SPACE_H

#include "pipeline/schedule/schedule.h"

struct prn_space {
    const struct prn_pipeline *pipeline;
    size_t n_layers, n_types;
    size_t depth;         /* levels behind the empty one: most stages of a schedule */
    const size_t *types;  /* in the pipeline */
    const size_t *counts; /* hosts worth counting */
    size_t width;         /* most layers of a stage that is in the table */
    double *stage;        /* time of a stage, or INFINITY where it doesn't fit or takes longer than
                             the bound: prn_space_stage() */
    double *link;         /* prn_space_link() */
    size_t n_vectors;
    size_t *levels;        /* first vector of each level; depth + 2 of them */
    uint64_t *vectors;     /* numbers of hosts, as a number with mixed radices */
    uint64_t *radices;     /* what one host of a type adds to it */
    uint32_t *predecessor; /* [vector][type]: with one host less; PRN_NO_VECTOR */
    size_t stage_bytes, max_memory_bytes;
    struct prn_arena arena; /* of all but `stage` */
};

#define PRN_NO_VECTOR UINT32_MAX

/* PRONY_ELIMIT, and how to make the search smaller. */
int prn_space_fail_size(const struct prn_space *s, struct prony_error *err);

/* Hosts of a type are taken in the file's order. */
void prn_schedule_name_hosts(struct prn_schedule *schedule);

/* With the goal's limits of stages and memory. There are no stages before a bound is set. */
PRONY_MUST_CHECK int prn_space_init(struct prn_space *s, const struct prn_pipeline *p,
                                    const struct prn_schedule_goal *goal, struct prony_error *err);
/* Makes the table of stages anew, without those that take longer than the bound. */
PRONY_MUST_CHECK int prn_space_set_bound(struct prn_space *s, double bound,
                                         struct prony_error *err);
/* As if there were a host of every type for every layer; without vectors, so nothing to search. */
PRONY_MUST_CHECK int prn_space_init_unlimited(struct prn_space *s, const struct prn_pipeline *p,
                                              struct prony_error *err);
void prn_space_release(struct prn_space *s);

/* Times of the stages that begin behind layer `done` on a type; [last - 1], from `done` until
 * before prn_space_stop(). */
static inline const double *prn_space_stage(const struct prn_space *s, size_t type, size_t done)
{
    return s->stage + (type * s->n_layers + done) * s->width - done;
}

static inline size_t prn_space_stop(const struct prn_space *s, size_t done)
{
    return s->n_layers - done < s->width ? s->n_layers : done + s->width;
}

/* Bytes that the search may still take. */
static inline size_t prn_space_room(const struct prn_space *s)
{
    return s->arena.limit_bytes - s->arena.used_bytes - s->stage_bytes;
}

/* Times of links between two types; [layer - 1]. */
static inline const double *prn_space_link(const struct prn_space *s, size_t u, size_t v)
{
    return s->link + (u * s->n_types + v) * s->n_layers;
}

static inline size_t prn_space_used(const struct prn_space *s, size_t vector, size_t type)
{
    return s->vectors[vector] / s->radices[type] % (s->counts[type] + 1);
}

/*
 * What can follow what when no stage or link may take longer than `period`. Sets of layers are
 * bits: bit j - 1 says that layer j is the last one done.
 */
struct prn_moves {
    const struct prn_space *space;
    size_t words;     /* of a set */
    uint64_t *next;   /* [type][done]: where a stage may end */
    uint64_t *pass;   /* [u][v]: behind which layers a link may be */
    uint64_t *finish; /* [stages left][type]: from where the end can be reached, were there enough
                         hosts of every type */
};

PRONY_MUST_CHECK int prn_moves_init(struct prn_moves *m, const struct prn_space *s, double period,
                                    struct prony_error *err);
void prn_moves_release(struct prn_moves *m);

static inline const uint64_t *prn_moves_next(const struct prn_moves *m, size_t type, size_t done)
{
    return m->next + (type * m->space->n_layers + done) * m->words;
}

static inline const uint64_t *prn_moves_pass(const struct prn_moves *m, size_t u, size_t v)
{
    return m->pass + (u * m->space->n_types + v) * m->words;
}

static inline const uint64_t *prn_moves_finish(const struct prn_moves *m, size_t left, size_t type)
{
    return m->finish + (left * m->space->n_types + type) * m->words;
}

static inline bool prn_set_has(const uint64_t *set, size_t bit)
{
    return set[bit / 64] >> (bit % 64) & 1;
}

/* The fewest stages with which the end is reached; 0 when it isn't. */
PRONY_MUST_CHECK int prn_reach(const struct prn_space *s, double period, size_t *ret_stages,
                               struct prony_error *err);

/* True when it finds out quickly that the end is reached; false says nothing. */
PRONY_MUST_CHECK int prn_reach_greedily(const struct prn_space *s, double period, bool *ret_reached,
                                        struct prony_error *err);

enum prn_sum_order {
    PRN_SUM_FEWEST, /* fewest stages, then the smallest sum */
    PRN_SUM_LEAST,  /* smallest sum */
    PRN_SUM_CHEAPEST,
};

struct prn_sum_goal {
    enum prn_sum_order order;
    size_t max_stages;
    double period;   /* no stage or link may take longer */
    double limit;    /* of the sum */
    double max_cost; /* of the hosts */
    bool links;      /* are part of the sum */
};

PRONY_MUST_CHECK int prn_sum_search(const struct prn_space *s, const struct prn_sum_goal *goal,
                                    struct prn_schedule *ret_schedule, struct prony_error *err);

#endif
