/*
 * The executor: a process of its own in which a runtime loads and runs models, so that memory is
 * attributed to it, and a crash, a hang or too little memory is one failed backend.
 *
 *     struct prn_executor *x;
 *     prn_executor_spawn(&config, &x, err);
 *     prn_executor_open(x, ...);  prn_executor_load(x, ...);  prn_executor_bind(x, ...);
 *     prn_executor_run(x, warmups, repeats, most_ns, samples, &n, err);
 *     prn_executor_free(x);
 *
 * It holds one model unless others are put into further slots: prn_executor_select() says of which
 * one the commands after it speak. Inputs may be bound again at any time, after the file of shared
 * memory got other data or another size. The process ends with the thread that spawned it.
 *
 * After PRONY_ECRASH, PRONY_ETIMEDOUT and PRONY_ECANCELED the process is gone and further calls
 * fail. Every call ends within the timeout.
 */
#ifndef PRN_EXEC_EXECUTOR_H
#define PRN_EXEC_EXECUTOR_H

#include "exec/drive.h"
#include "exec/message.h"
#include "runtime/runtime.h"

#include <sys/types.h>

/* Most samples that one run command can give. */
#define PRN_EXECUTOR_SAMPLES_MAX 32768
/* Most requests that one drive command can give. */
#define PRN_EXECUTOR_REQUESTS_MAX 262144
#define PRN_EXECUTOR_TENSORS_MAX 1024
/* Most models that one executor holds. */
#define PRN_EXECUTOR_SLOTS_MAX 1024

struct prn_executor;

struct prn_executor_config {
    const char *program;           /* the prony program; NULL: this one */
    int inputs_fd;                 /* shared memory with the inputs' data; -1: none will be bound */
    double timeout_s;              /* for one command */
    int64_t memory_bytes;          /* limit on its private memory; 0: none */
    int64_t file_bytes;            /* limit on a file that it writes; 0: as much as memory */
    int64_t cpu_s;                 /* limit on its computing time in all; 0: none */
    const volatile int *cancelled; /* becomes non-zero to end waiting; NULL: never */
};

/* Where a tensor lies in shared memory. */
struct prn_place {
    const char *name;
    int dtype;
    size_t rank;
    int64_t dims[PRN_RUNTIME_RANK_MAX];
    size_t offset, bytes;
};

struct prn_message;

/* As a row of fields. Getting one fails (false) when there is no memory for its name; what else is
 * wrong sticks in the message. */
void prn_place_put(const struct prn_place *place, struct prn_message *m);
PRONY_MUST_CHECK bool prn_place_get(struct prn_place *place, struct prn_message *m,
                                    struct prn_arena *arena);

#define PRN_EXECUTOR_SANDBOX_SIZE 512

/* For this process: what the sentence about a time limit advises; borrowed. */
void prn_executor_advise(const char *advice);

PRONY_MUST_CHECK int prn_executor_spawn(const struct prn_executor_config *config,
                                        struct prn_executor **ret_executor,
                                        struct prony_error *err);
/* Ends the process, whatever it is doing. NULL does nothing. */
void prn_executor_free(struct prn_executor *x);

/* Loads the runtime and closes the sandbox. It may read `model_path` and, where that isn't NULL
 * because the model keeps data beside its file or because more models will come into it,
 * `model_folder`; both are NULL when only the runtime is asked about. It may write into the
 * configuration's `profile_folder`, where there is one. */
PRONY_MUST_CHECK int prn_executor_open(struct prn_executor *x,
                                       const struct prn_runtime_config *config,
                                       const char *model_path, const char *model_folder,
                                       struct prony_error *err);
/* The same in two halves: the first gives the command, and only the second, the next call, waits.
 * Nothing is waited for when nothing was begun. */
PRONY_MUST_CHECK int prn_executor_open_begin(struct prn_executor *x,
                                             const struct prn_runtime_config *config,
                                             const char *model_path, const char *model_folder,
                                             struct prony_error *err);
PRONY_MUST_CHECK int prn_executor_open_end(struct prn_executor *x, struct prony_error *err);
/* After open; borrowed from the executor. */
const char *prn_executor_version(const struct prn_executor *x);
const char *prn_executor_library(const struct prn_executor *x);
const char *prn_executor_sandbox(const struct prn_executor *x);
/* Who named the library, or where it was found; "": unknown, as in one that was handed over. */
const char *prn_executor_origin(const struct prn_executor *x);

/* Other runtimes that its library lists, with commas; "": none, or as above. */
const char *prn_executor_offers(const struct prn_executor *x);

/* The shared memory with the inputs' data, borrowed; -1: none. */
int prn_executor_inputs_fd(const struct prn_executor *x);

/* For the commands that follow, as in struct prn_executor_config. */
void prn_executor_set_timeout(struct prn_executor *x, double timeout_s);
void prn_executor_set_cancelled(struct prn_executor *x, const volatile int *cancelled);

/* Later commands speak of the model in this slot, below PRN_EXECUTOR_SLOTS_MAX; 0 before the first
 * call. Each slot is an instance of the runtime, with the same options; they take turns. */
PRONY_MUST_CHECK int prn_executor_select(struct prn_executor *x, size_t slot,
                                         struct prony_error *err);

/* A model that the slot had before is unloaded first; after a failure it has none. */
PRONY_MUST_CHECK int prn_executor_load(struct prn_executor *x, const char *model_path,
                                       int64_t *ret_ns, struct prony_error *err);
/* Of a runtime that compiles: a file in its cache folder for the next load, borrowed until then
 * (`reuse` in runtime.h); and a file, for the caller to close and not to trust, with what was
 * compiled when inputs were last bound, -1: nothing new. */
void prn_executor_set_reuse(struct prn_executor *x, const char *path);
int prn_executor_take_made(struct prn_executor *x);
/* Lets go of the slot's model and all that belongs to it. */
PRONY_MUST_CHECK int prn_executor_unload(struct prn_executor *x, struct prony_error *err);
PRONY_MUST_CHECK int prn_executor_bind(struct prn_executor *x, const struct prn_place *inputs,
                                       size_t n_inputs, struct prony_error *err);

/* `warmups` untimed runs, then up to `repeats` timed ones (at most PRN_EXECUTOR_SAMPLES_MAX), or as
 * many as begin within `most_ns` (0: no such limit), at least one. `samples` has room for `repeats`
 * and is written as they come. */
PRONY_MUST_CHECK int prn_executor_run(struct prn_executor *x, size_t warmups, size_t repeats,
                                      int64_t most_ns, int64_t *samples, size_t *ret_n,
                                      struct prony_error *err);

/* The same in two halves: the first gives the command without waiting for anything (false: it
 * can't), the second waits for the end. Should another command come instead, the result is dropped.
 */
bool prn_executor_run_begin(struct prn_executor *x, size_t warmups, size_t repeats);
/* In between, for up to so long: whether the result is there. False: not yet, or the process has
 * died. */
bool prn_executor_run_wait(struct prn_executor *x, int64_t most_ns);
PRONY_MUST_CHECK int prn_executor_run_end(struct prn_executor *x, size_t repeats, int64_t *samples,
                                          size_t *ret_n, struct prony_error *err);

/* Whether the answer to a run brings the outputs with it: prn_executor_outputs(), as the next
 * command, then costs no second way. */
void prn_executor_want_outputs(struct prn_executor *x, bool wanted);

/* Puts the model under load (drive.h). `requests` has room for plan->most_requests, at most
 * PRN_EXECUTOR_REQUESTS_MAX. Fails with PRONY_EUNSUPPORTED when the runtime runs one request at a
 * time and more workers were asked for. */
PRONY_MUST_CHECK int prn_executor_drive(struct prn_executor *x, const struct prn_drive_plan *plan,
                                        struct prn_drive_request *requests,
                                        struct prn_drive_end *ret_end, struct prony_error *err);

/* The outputs of the last run of a lane, copied to a file of shared memory that the caller closes
 * and that the next call writes over; a caller who wants to see it only now and then passes NULL
 * and asks prn_executor_outputs_fd(), which lends it. Lane 0 is what prn_executor_run runs, the
 * others are the further workers of prn_executor_drive. Names belong to `arena`. Outputs that
 * aren't tensors have dtype 0. */
PRONY_MUST_CHECK int prn_executor_outputs(struct prn_executor *x, size_t lane,
                                          struct prn_arena *arena, struct prn_place **ret_outputs,
                                          size_t *ret_n, int *ret_fd, struct prony_error *err);
int prn_executor_outputs_fd(const struct prn_executor *x);

/* Which provider runs which nodes of the model, by operator; all memory is the arena's. None: the
 * runtime can't tell, or has one provider only. */
PRONY_MUST_CHECK int prn_executor_placement(struct prn_executor *x, struct prn_arena *arena,
                                            struct prn_placed **ret_rows, size_t *ret_n,
                                            struct prony_error *err);

/* Of a runtime with a `begin_profiling` that was opened with a `profile_folder`: the runs that
 * count begin here. */
PRONY_MUST_CHECK int prn_executor_begin_profiling(struct prn_executor *x, struct prony_error *err);

/* Ends the profiling of a runtime that was opened with a `profile_folder`: what it has to say is in
 * its file then. */
PRONY_MUST_CHECK int prn_executor_end_profiling(struct prn_executor *x, struct prony_error *err);

/* Stops the process with its spinning threads, and lets it go on. */
void prn_executor_park(struct prn_executor *x);
void prn_executor_unpark(struct prn_executor *x);

/* Resident bytes now and at most; -1 when not known. */
int64_t prn_executor_resident(const struct prn_executor *x);
int64_t prn_executor_peak(const struct prn_executor *x);

/* How long all of its threads together were ready to run but had to wait for a core, so far, in ns,
 * and how many threads there are; -1 when the kernel doesn't say. */
int64_t prn_executor_waited_ns(const struct prn_executor *x, int64_t *ret_threads);

/* What both sides map; a command uses one of the two. */
union prn_executor_samples {
    int64_t ns[PRN_EXECUTOR_SAMPLES_MAX];
    struct prn_drive_request requests[PRN_EXECUTOR_REQUESTS_MAX];
};

/* Descriptors have fixed numbers in the executor. */
enum prn_executor_fd {
    PRN_EXECUTOR_FD_SOCKET = 3,
    PRN_EXECUTOR_FD_INPUTS,
    PRN_EXECUTOR_FD_SAMPLES,
    PRN_EXECUTOR_FD_OUTPUTS,
    PRN_EXECUTOR_FD_STATUS,
    PRN_EXECUTOR_FD_END,
};

/* The other side: serves commands on those descriptors until the socket is closed. Returns the exit
 * status when they aren't there. `python` NULL: this process isn't Python, and becomes it when the
 * runtime is Python's (exec/python.h); else the functions of such runtimes. */
int prn_executor_main(const struct prn_runtime_ops *python);

#endif
