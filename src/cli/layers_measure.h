/* The options of `prony layers`, and the part of it that measures. */
#ifndef PRN_CLI_LAYERS_MEASURE_H
#define PRN_CLI_LAYERS_MEASURE_H

#include "cli/libraries.h"
#include "cli/server.h"
#include "model/synth/synth.h"
#include "pipeline/layers/plan.h"

struct prn_layers_options {
    const char *model_file;
    const char *cuts;
    int64_t max_tensors;
    int64_t batch; /* 0: not given */
    struct prn_strings dims, shapes;
    bool list;
    const char *extract;
    int format; /* enum prn_report_format */
    const char *output;
    /* of measuring */
    const char *results, *model_name; /* NULL: not given */
    const char *device, *backend;
    struct prn_library_files libraries;
    int64_t layer_start, layer_end; /* 0: not given */
    struct prn_strings shapes_in, inputs;
    bool warmup, no_warmup, resume;
    int64_t iterations, launches, seed;      /* 0, 0, -1: not given */
    double precision, max_time_s, timeout_s; /* NAN: not given */
    struct prn_server_options server;
};

/* The network that -m names when no file is given: its name, or what follows the last '/' of it, is
 * one of prony's. NULL: there is none. */
const struct prn_synth_network *prn_layers_network(const struct prn_layers_options *o);

/* Fails when --server and what it goes with contradict each other. */
PRONY_MUST_CHECK int prn_layers_check_server(const struct prn_layers_options *o,
                                             struct prony_error *err);

/* Fails when something is given that only measuring needs. */
PRONY_MUST_CHECK int prn_layers_check_idle(const struct prn_layers_options *o,
                                           struct prony_error *err);

/* -s for the first layer: texts of --shape, one for each input of the model. */
PRONY_MUST_CHECK int prn_layers_input_shapes(const struct prn_layers_options *o,
                                             const struct prn_model *model, struct prn_arena *arena,
                                             struct prn_texts *ret_texts, struct prony_error *err);

/* Measures the layers, which `texts` have made, and reports. `shown` is what the model is called if
 * it isn't a file of the user's; NULL: it is. */
PRONY_MUST_CHECK int prn_layers_run(const struct prn_layers_options *o,
                                    const struct prn_layer_texts *texts,
                                    const struct prn_layer_plan *plan, const char *shown,
                                    struct prn_arena *arena, struct prony_error *err);

#endif
