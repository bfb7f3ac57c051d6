/* What a scheduler knows of models: `models.yml`, a map of model names to their layers. */
#ifndef PRN_PIPELINE_MODELS_H
#define PRN_PIPELINE_MODELS_H

#include "base/arena.h"
#include "pipeline/layers/profile.h"

struct prn_pipeline_model {
    size_t layers;
    double parameters_in; /* elements that enter layer 1, without the batch */
    double mem_fixed_mb;  /* of each, what a process takes once, however many layers it has */
    const double *mem_mb; /* one per layer */
    const double *parameters_out; /* elements that leave each layer */
    size_t n_parameters_out;      /* how many the file has: fewer than layers are repeated */
};

/* Reads the entry of one model; its arrays live in `arena`. PRONY_ENOENT when it isn't there. */
PRONY_MUST_CHECK int prn_models_read(const char *path, const char *model_name,
                                     struct prn_arena *arena, struct prn_pipeline_model *ret_model,
                                     struct prony_error *err);

/* Appends the file at `path` (empty if there is none) with an entry for the model of `profile`. An
 * entry that is there is an error unless `overwrite`; all others, and unknown keys, are kept. */
PRONY_MUST_CHECK int prn_models_extend(const char *path, const struct prn_layer_profile *profile,
                                       bool overwrite, struct prn_buffer *out,
                                       struct prony_error *err);

#endif
