/*
 * One launch of a pipeline: a thread and an executor per stage, a thread per link, belts between
 * them. All stages are here, and links wait as long as they are told; or one is, and links lead to
 * other hosts.
 */
#ifndef PRN_PIPELINE_SIMULATE_LAUNCH_H
#define PRN_PIPELINE_SIMULATE_LAUNCH_H

#include "pipeline/simulate/batch.h"
#include "pipeline/simulate/tally.h"

#include <sched.h>

/* Batches that differ, fed in turn, and compared with the whole model's when they come first. */
#define PRN_SIMULATION_SOURCES PRN_TALLY_WARMUPS

/* How to start an executor, and what it takes. */
struct prn_stage_setup {
    const char *label;         /* for errors: "stage 2 (board-1)" */
    const char *path, *folder; /* of the model; folder NULL: nothing lies beside it */
    const char *const *names;  /* of its inputs */
    size_t n_names;
    bool pinned;
    cpu_set_t cores;
    bool results;                /* some of what it gives are the model's outputs */
    double link_s;               /* to the next stage */
    const char *const *hands_on; /* what the next stage takes of it */
    size_t n_hands_on;
};

/* Of a stage whose neighbours are on other hosts. The stages are a ring: the last one hands what it
 * has done, without tensors, to the first. Each link has a thread, which opens it; stop() comes
 * from another one, and ends what is under way. */
struct prn_stage_links {
    bool first; /* the stage is */
    size_t n;   /* stages of the pipeline */
    void *context;
    int (*open_out)(void *context, struct prony_error *err);
    int (*open_in)(void *context, struct prony_error *err);
    int (*wait)(void *context, struct prony_error *err); /* until the next stage has room */
    /* Until the batch has arrived. */
    int (*send)(void *context, const struct prn_batch *batch, const char *const *names, size_t n,
                struct prony_error *err);
    int (*receive)(void *context, struct prn_batch *batch, struct prony_error *err);
    void (*stop)(void *context);
};

struct prn_simulation_setup {
    const struct prn_simulation_request *request;
    const struct prn_stage_setup *stages;
    size_t n_stages;
    const struct prn_stage_links *links; /* of the only stage; NULL: all are here */
    struct prn_runtime_config runtime;
    struct prn_batch *sources[PRN_SIMULATION_SOURCES];
};

/* Outputs that were kept, in a file of shared memory. */
struct prn_kept {
    int fd; /* -1: none */
    size_t n;
    struct prn_place *places;
};

/* What a launch saw. */
struct prn_simulation_log {
    struct prn_arena arena;
    struct prn_spells *stages, *links, whole;
    struct prn_spells arrivals; /* from another host */
    size_t n_stages;
    int64_t full_ns, end_ns;
    double *link_bytes;       /* per stage */
    double *growth_bytes;     /* per stage: of its process, at most; NAN: not known */
    bool disturbed;           /* a stage waited for a core of its own */
    struct prn_kept *kept;    /* per source and stage */
    struct prn_arena *arenas; /* per stage: of what it kept */
    char version[128];        /* of the runtime */
};

/* An executor with a model, and the file of its inputs. */
struct prn_stage_process {
    struct prn_executor *executor;
    int inputs_fd;
    int64_t before_bytes; /* that the process had before it loaded the model; -1: not known */
};

/* `cancelled` is that of the executor. The process is to be stopped in any case. */
PRONY_MUST_CHECK int prn_stage_process_start(const struct prn_simulation_setup *setup,
                                             const struct prn_stage_setup *stage,
                                             const volatile int *cancelled,
                                             struct prn_stage_process *process,
                                             struct prony_error *err);
void prn_stage_process_stop(struct prn_stage_process *process);

/* Gives a batch to the stage, runs it and takes what it gives. */
PRONY_MUST_CHECK int prn_stage_process_work(const struct prn_stage_process *process,
                                            const struct prn_stage_setup *stage,
                                            const struct prn_batch *in, struct prn_batch *out,
                                            int64_t *ret_run_ns, struct prony_error *err);

/* Copies a batch; names belong to `arena`. */
PRONY_MUST_CHECK int prn_kept_copy(struct prn_kept *kept, const struct prn_batch *batch,
                                   struct prn_arena *arena, struct prony_error *err);
void prn_kept_release(struct prn_kept *kept);

PRONY_MUST_CHECK int prn_simulation_log_init(struct prn_simulation_log *log, size_t n_stages,
                                             struct prony_error *err);
void prn_simulation_log_release(struct prn_simulation_log *log);
PRONY_MUST_CHECK int prn_simulation_launch(const struct prn_simulation_setup *setup,
                                           struct prn_simulation_log *ret_log,
                                           struct prony_error *err);

#endif
