/*
 * The points of a job: what its results are fed. Each model has a point, with inputs of its own,
 * for each combination of the sizes that --dim and --shape list; without lists there is one. What
 * the options say of a dimension or an input counts for the models that have it.
 */
#ifndef PRN_MEASURE_POINTS_H
#define PRN_MEASURE_POINTS_H

#include "measure/job.h"
#include "measure/ops/ops.h"

/* Share of the memory available that the inputs of all points together may take. */
#define PRN_POINTS_MEMORY_SHARE 0.5

/* The inputs of all points, and what the executors must know of the model. */
struct prn_feed {
    size_t n;
    struct prn_inputs *inputs;     /* one for each point of the profile */
    struct prn_ops_graph **graphs; /* the same; NULL unless operators are asked about */
    struct prn_live **lives;       /* the same; NULL unless memory is asked about */
    bool *external;                /* one for each model: it keeps data in other files */
    const char *open_dims;         /* the options that would set what was left open, or NULL */
};

/* Reads the job's models, makes the inputs of all points, and fills in what the profile says about
 * models and points. The models are closed again. `scratch` must live as long as the feed. Inputs
 * of two models that have the same name and shape have the same contents. */
PRONY_MUST_CHECK int prn_points_make(const struct prn_job *job, struct prn_arena *scratch,
                                     struct prn_profile *profile, struct prn_feed *ret_feed,
                                     struct prony_error *err);
void prn_feed_release(struct prn_feed *feed);

#endif
