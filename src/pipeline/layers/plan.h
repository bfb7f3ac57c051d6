/*
 * From texts to a model that is cut into layers, and to the job that measures them: what
 * `prony layers` does with its options, and a host of a service with an order.
 *
 *     prn_layer_plan_make(model, &texts, &arena, &plan, err);
 *     prn_layer_plan_job(&plan, &inputs, &arena, &job, err);   (what else the job needs is set)
 *     prn_layers_measure(&job, profile, &measurement, err);
 *     prn_layer_plan_release(&plan);
 */
#ifndef PRN_PIPELINE_LAYERS_PLAN_H
#define PRN_PIPELINE_LAYERS_PLAN_H

#include "measure/backends.h"
#include "pipeline/layers/measure.h"

/* Most tensors that may be asked to pass a cut. */
#define PRN_LAYER_CUT_TENSORS_MAX 65536

/* How to cut, as a user says it. */
struct prn_layer_texts {
    struct prn_texts dims, shapes; /* of the model's inputs */
    const char *cuts;              /* as prn_cut_options_parse() takes them; NULL: "auto" */
    int64_t max_tensors;           /* 0: not given */
    int64_t batch;                 /* 0: not given */
};

struct prn_layer_plan {
    const struct prn_model *model;
    struct prn_input *inputs;
    struct prn_work *work;
    struct prn_cuts *cuts;
};

/* The model and `arena` must outlive the plan. */
PRONY_MUST_CHECK int prn_layer_plan_make(const struct prn_model *model,
                                         const struct prn_layer_texts *texts,
                                         struct prn_arena *arena, struct prn_layer_plan *ret_plan,
                                         struct prony_error *err);
void prn_layer_plan_release(struct prn_layer_plan *plan);

/* Fills in the model, its layers and its inputs, which are made as these texts say. */
PRONY_MUST_CHECK int prn_layer_plan_job(const struct prn_layer_plan *plan,
                                        const struct prn_texts *inputs, struct prn_arena *arena,
                                        struct prn_layer_job *job, struct prony_error *err);

/* What a host must be told besides files, texts of the inputs and settings. */
struct prn_layer_order {
    const char *cuts;
    int64_t max_tensors, batch;
    int64_t layers;      /* that this makes, or the host cuts in other places */
    int64_t first, last; /* to measure */
    const char *results; /* what the file of results is called, for errors */
    size_t n_shapes, n_entries;
    const struct prn_layer_shape *shapes;  /* as in struct prn_layer_job */
    const struct prn_layer_entry *entries; /* that the file has already */
};

#endif
