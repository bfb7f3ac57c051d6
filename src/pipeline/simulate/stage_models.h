/*
 * The stages of a schedule as models: a model is cut into the layers that the schedule was made
 * for, those of a stage are joined, and each stage is written into a private temporary folder, or
 * into one that stays.
 *
 *     prn_stage_models_cut(&request, &models, err);
 *     … models->stages[i].path …
 *     prn_stage_models_free(models);      (removes a temporary folder)
 */
#ifndef PRN_PIPELINE_SIMULATE_STAGE_MODELS_H
#define PRN_PIPELINE_SIMULATE_STAGE_MODELS_H

#include "measure/backends.h"
#include "model/cut/cut.h"
#include "pipeline/load.h"
#include "pipeline/schedule/schedule.h"

struct prn_stage_models_request {
    const struct prn_pipeline *pipeline;
    const struct prn_schedule *schedule;
    const char *model_path;
    const char *cuts; /* as --cuts takes them; NULL: "auto" */
    size_t max_cut_tensors;
    struct prn_texts dims, shapes;
    const char *folder;            /* a new one, in which the stages stay; NULL: a temporary one */
    prn_pipeline_warn *warn;       /* told when layers don't give what the schedule expects */
    const volatile int *cancelled; /* becomes non-zero to end it; NULL: never */
};

struct prn_stage_model {
    const char *path;
    bool external; /* weights lie beside it */
    const struct prn_layer *layer;
};

struct prn_stage_models {
    struct prn_model *model; /* the whole */
    struct prn_input *inputs;
    struct prn_stage_model *stages; /* as many as the schedule has */
    const char *folder;
};

/* Fails when the model doesn't have as many layers as the pipeline. */
PRONY_MUST_CHECK int prn_stage_models_cut(const struct prn_stage_models_request *request,
                                          struct prn_stage_models **ret_models,
                                          struct prony_error *err);
void prn_stage_models_free(struct prn_stage_models *models);

#endif
