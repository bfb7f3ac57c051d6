/*
 * A schedule, tried out: each stage is a process that runs its layers, all stages work at the same
 * time on different batches, and real tensors go from one to the next. All are on this machine, or
 * each is on a host of a service.
 *
 * - Between two stages stand as many buffers as the pipeline has: buffers_out behind a stage,
 *   buffers_in before the next. In between is a link, which carries one batch at a time. Here it
 *   takes as long as the pipeline says (or no time, if links aren't wanted).
 * - Stage times are those of this machine, or of the hosts, whatever the schedule was made for.
 * - Each launch starts all processes anew. First batches go through one at a time: that is the
 *   latency, and what each stage takes when it is alone. Then the pipeline is kept full: that is
 *   the throughput, and what each stage takes beside the others.
 * - What comes out must be what the whole model gives; the first batches of each launch, which
 *   differ from each other, are compared.
 */
#ifndef PRN_PIPELINE_SIMULATE_H
#define PRN_PIPELINE_SIMULATE_H

#include "base/stats.h"
#include "measure/measure.h"
#include "pipeline/simulate/stage_models.h"
#include "record/remote.h"

struct prn_simulation_request {
    struct prn_stage_models_request models;
    const char *backend; /* spec; NULL: onnxrt-cpu */
    const char *program; /* of the executors; NULL: this one */
    /* The stages run on its hosts, and links are the network between them; NULL: here. */
    const struct prn_remote_config *server;
    bool no_links;
    size_t launches;   /* at least 1 */
    double duration_s; /* that the pipeline is kept full, per launch; it may have to be longer */
    double timeout_s;  /* for one step of a stage */
};

struct prn_simulated_stage {
    const char *host;               /* of a service; NULL: this machine */
    size_t cores;                   /* of its own; 0: none is */
    struct prn_interval alone_s;    /* a run with nothing else in the pipeline */
    struct prn_interval together_s; /* a run while the pipeline is full */
    double alone_handling_s;        /* what taking a batch over and handing it on takes beside it */
    struct prn_interval handling_s; /* the same while the pipeline is full */
    double busy;                    /* share of the time with both, while the pipeline is full */
    /* Bytes that its process grew by at most, and what its buffers hold; NAN: not known. */
    double memory_bytes;
    /* To the next stage; NAN behind the last. */
    struct prn_interval link_s;
    double link_bytes;
};

struct prn_simulation {
    struct prn_arena arena;
    const char *model_path, *backend, *version;
    const char *server;                     /* whose hosts it ran on; NULL: this machine */
    bool links;                             /* take time */
    bool pinned;                            /* each stage has cores of its own */
    size_t n_cores;                         /* that there are for all */
    size_t launches, lone_batches, batches; /* that were counted */
    size_t disturbed;                       /* launches during which something else ran */
    size_t n_stages;
    struct prn_simulated_stage *stages;
    struct prn_interval latency_s;      /* of a batch that is alone */
    struct prn_interval full_latency_s; /* of a batch in the full pipeline, with its waiting */
    struct prn_interval period_s;       /* from one batch to the next, in the full pipeline */
    /* What follows from what each stage and link takes when it is alone. */
    double expected_period_s, expected_latency_s;
    size_t bottleneck; /* the stage or link that takes longest in the full pipeline */
    bool bottleneck_is_link;
    size_t n_outputs;
    struct prn_output_check *outputs; /* against the whole model, the largest differences */
};

/* A stage that fails, hangs or is killed is an error that names it. Whatever happens, no process
 * and no file is left. */
PRONY_MUST_CHECK int prn_simulate(const struct prn_simulation_request *request,
                                  struct prn_simulation **ret_simulation, struct prony_error *err);
void prn_simulation_free(struct prn_simulation *s);

#endif
