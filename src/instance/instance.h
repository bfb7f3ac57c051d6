/*
 * A backend of a session on one host: an executor that holds the session's models and runs them.
 * The worker starts it, or adopts one that another process started and handed over (the service
 * does, on its own machine).
 *
 *     prn_instance_new(&config, &instance, err);
 *     prn_instance_start(instance, err);  or  prn_instance_adopt(instance, executor, err);
 *     prn_instance_load(instance, &model, &loaded, err);
 *     prn_instance_run(instance, &run, &result, err);
 *     ... prn_rpc_write_results(..., prn_instance_result_release, result);
 *     prn_instance_free(instance);
 *
 * - The executor is hostile: whatever it does is an error of the call, and costs nobody else
 *   anything. Inputs are copied once, from the pieces of the message into memory that it can read;
 *   outputs are read where it left them, in memory that it can't take away.
 * - A process that crashed, hung or was cancelled is gone (prn_instance_alive() is false). The next
 *   load or run starts another one, and models come back when they are needed. One that was adopted
 *   is replaced by adopting another: until then, load and run fail with PRONY_ECRASH.
 * - Calls on one instance come one at a time, from any thread; one that was started here ends with
 *   the thread that did so (exec/executor.h). Results are released by anyone, at any time.
 */
#ifndef PRN_INSTANCE_INSTANCE_H
#define PRN_INSTANCE_INSTANCE_H

#include "exec/executor.h"
#include "rpc/messages.h"
#include "spec/spec.h"

struct prn_instance;

/* More timed runs, or warm-ups, than that aren't made in one call. */
#define PRN_INSTANCE_REPEATS_MAX ((uint64_t)1 << 20)

struct prn_instance_config {
    const char *program;           /* of the executor; NULL: this one */
    const struct prn_spec *spec;   /* software and options; copied */
    const char *cache_folder;      /* of one user (cache.h); NULL: none */
    const char *folder;            /* below which models lie: the executor may read all of it */
    double timeout_s;              /* for loading a model, and for one run of it */
    int64_t memory_bytes;          /* limit on its private memory; 0: none */
    const volatile int *cancelled; /* non-zero ends what is under way; NULL: never */
};

/* Starts nothing yet. Options that name files of this machine are refused: whoever asks for them
 * isn't on it. */
PRONY_MUST_CHECK int prn_instance_new(const struct prn_instance_config *config,
                                      struct prn_instance **ret_instance, struct prony_error *err);
/* Ends the process, whatever it is doing. Results that aren't released stay. NULL does nothing. */
void prn_instance_free(struct prn_instance *instance);

/* Starts the executor, unless there is one, without waiting until it is ready. */
PRONY_MUST_CHECK int prn_instance_launch(struct prn_instance *instance, struct prony_error *err);
/* The same, and waits. Load and run do so by themselves. */
PRONY_MUST_CHECK int prn_instance_start(struct prn_instance *instance, struct prony_error *err);

/* Takes over an open executor (exec/handle.h), in place of the one it had; it is freed after a
 * failure too. */
PRONY_MUST_CHECK int prn_instance_adopt(struct prn_instance *instance,
                                        struct prn_executor *executor, struct prony_error *err);

/* What it runs on, for a worker that hands it over; NULL: nothing. */
struct prn_executor *prn_instance_executor(const struct prn_instance *instance);

bool prn_instance_alive(const struct prn_instance *instance);

/* Stops its threads, which spin even when nothing runs, until the next call. */
void prn_instance_park(struct prn_instance *instance);

/* Without names, those of the model in its own order; outputs of an FXPROTO graph have none, and
 * are given these in order. All copied. */
struct prn_instance_model {
    uint64_t id;
    const char *path; /* absolute, below the instance's folder */
    size_t n_inputs, n_outputs;
    const char *const *input_names;
    const char *const *output_names;
};

/* The texts live as long as the executor does. */
struct prn_instance_loaded {
    int64_t load_ns;
    const char *version; /* "ONNX Runtime 1.31.1" */
    const char *sandbox;
};

/* Which of a model's files is the model itself: "model.onnx", or else the first that ends in
 * ".onnx", or the first; the same with "model.dat" for FXPROTO. `n` is at least 1. */
size_t prn_instance_model_file(const char *const *names, size_t n, bool fxproto);

/* Takes the place of a model with the same id. The file is checked before a runtime sees it. */
PRONY_MUST_CHECK int prn_instance_load(struct prn_instance *instance,
                                       const struct prn_instance_model *model,
                                       struct prn_instance_loaded *ret_loaded,
                                       struct prony_error *err);
/* An id that isn't there does nothing. */
void prn_instance_unload(struct prn_instance *instance, uint64_t model_id);

struct prn_instance_run {
    uint64_t model_id;
    const struct prn_bytes *bytes; /* the message that the inputs are ranges of */
    const struct prn_rpc_tensor *inputs;
    /* Which of them, in the order of the model's input names; NULL: the first n_map as they are. */
    const int32_t *map;
    size_t n_map;
    uint64_t warmups;
    uint64_t repeats;       /* 0: as many as begin within repeat_for_ms */
    uint64_t repeat_for_ms; /* 0 too: one */
    bool outputs;           /* are wanted */
    int64_t deadline_ns;    /* on CLOCK_MONOTONIC; 0 or INT64_MAX: none */
    bool begun;             /* by prn_instance_run_begin(): only its result is taken */
};

/* Stands alone: it stays whole when the model is replaced or the instance is freed. */
struct prn_instance_result {
    size_t n_times;
    uint64_t *times_ns;
    uint64_t prepare_ns; /* in the model's first run, all but the timed ones; 0: not the first */
    size_t n_outputs;    /* 0 unless they were wanted */
    struct prn_rpc_tensor *outputs; /* by the model's output names; `data` and `bytes` are set */
    const char *const *names;
};

/* Codes: PRONY_ENOENT no such model; PRONY_EUSAGE inputs that don't fit its names; PRONY_ERUNTIME
 * the runtime's own words; PRONY_ECRASH, PRONY_ETIMEDOUT, PRONY_ECANCELED the process may be gone.
 */
PRONY_MUST_CHECK int prn_instance_run(struct prn_instance *instance,
                                      const struct prn_instance_run *run,
                                      struct prn_instance_result **ret_result,
                                      struct prony_error *err);

/* Where nothing needs to be waited for, as the executor has the model and knows where its inputs
 * are, hands them over and starts the run. True: it has `begun`, and prn_instance_run() takes the
 * result. False: prn_instance_run() does it all. */
bool prn_instance_run_begin(struct prn_instance *instance, const struct prn_instance_run *run);
/* Waits for what was begun, if the last run lets hope that it ends within half of `most_ns`. True:
 * prn_instance_run() won't have to wait. */
bool prn_instance_run_wait(struct prn_instance *instance, const struct prn_instance_run *run,
                           int64_t most_ns);

/* The next run that wants outputs waits for this, as they lie where that one's will. Takes a struct
 * prn_instance_result, NULL too; from any thread (prn_out_borrow). */
void prn_instance_result_release(void *result);

#endif
