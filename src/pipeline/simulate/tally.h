/*
 * From what a simulation saw to its figures. Touches no clock, so it is tested with times made by
 * hand. The unit of an interval is the launch; of fewer than
 * PRN_UNITS_MIN there is none (NAN).
 */
#ifndef PRN_PIPELINE_SIMULATE_TALLY_H
#define PRN_PIPELINE_SIMULATE_TALLY_H

#include "pipeline/simulate/simulate.h"

/* Batches at the beginning of a launch that aren't counted. */
#define PRN_TALLY_WARMUPS 2

/* What a stage, a link or the whole pipeline did with one batch. */
struct prn_spell {
    size_t number;
    bool alone;
    int64_t begin_ns, end_ns;
    int64_t run_ns; /* of a stage: the runtime's part of it */
};

struct prn_spells {
    struct prn_spell *items;
    size_t n;
};

/* Returns 0 or PRONY_ENOMEM. */
PRONY_MUST_CHECK int prn_spells_add(struct prn_spells *spells, const struct prn_spell *spell);

/* One launch. */
struct prn_tally_launch {
    const struct prn_spells *stages; /* per stage */
    const struct prn_spells *links;  /* per stage but the last */
    const struct prn_spells *whole;  /* from the first stage to the end of the last, in order */
    int64_t full_ns, end_ns;         /* between these the pipeline was full */
};

struct prn_simulate_tally;

struct prn_simulate_tally *prn_tally_new(size_t n_stages, size_t launches);
void prn_tally_free(struct prn_simulate_tally *t);
void prn_tally_add(struct prn_simulate_tally *t, const struct prn_tally_launch *launch);
/* Fills the figures of a simulation, whose stages are there already. */
void prn_tally_finish(const struct prn_simulate_tally *t, struct prn_simulation *s);

#endif
