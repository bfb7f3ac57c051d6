/*
 * Layers measured on a host of a service (record/remote.h): the model goes up, the host cuts it in
 * the same places and measures, and each layer is kept here as soon as it comes. What has come by
 * the time that measuring is cancelled or the service is lost stays.
 *
 *     struct prn_layer_remote remote = {.config = …, .texts = …, .inputs = …};
 *     struct prn_layer_place place = {prn_layer_remote_measure, &remote};
 *     job.place = &place;
 */
#ifndef PRN_PIPELINE_LAYERS_REMOTE_H
#define PRN_PIPELINE_LAYERS_REMOTE_H

#include "pipeline/layers/plan.h"
#include "record/remote.h"

struct prn_layer_remote {
    struct prn_remote_config config; /* whose `cancelled` is the job's */
    struct prn_layer_texts texts;    /* that the job's cuts were made of */
    struct prn_texts inputs;         /* and its sources */
};

/* Of struct prn_layer_place. A backend without hardware is the one that the service has of its
 * kind; of several, one must be named. */
PRONY_MUST_CHECK int prn_layer_remote_measure(void *context, const struct prn_layer_job *job,
                                              struct prn_layer_profile *profile,
                                              struct prn_layer_measurement *measurement,
                                              struct prony_error *err);

#endif
