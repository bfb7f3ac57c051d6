/*
 * The runtime vtable: what an inference runtime must offer, and all that the rest of prony knows of
 * it. One folder per runtime; a line in rows.h makes it known. All calls come from one thread,
 * inside an executor process; only lanes, where a runtime has them, run beside each other.
 *
 * Order: open (loads the library; nothing of the user's yet) → [the executor closes its sandbox] →
 * load → (bind → (prepare → run) … → output) … → close. With its profiler on: … → run →
 * end_profiling.
 */
#ifndef PRN_RUNTIME_RUNTIME_H
#define PRN_RUNTIME_RUNTIME_H

#include "model/dtype.h"
#include "spec/spec.h"

#define PRN_RUNTIME_NAME_MAX 1024
#define PRN_RUNTIME_RANK_MAX 32

/* What an option is, for help, `prony backends` and the error that lists the known ones. */
struct prn_runtime_option {
    const char *key;   /* "threads"; "ort.*" for a prefix that is passed through */
    const char *value; /* "N": a count, "on|off": a switch, "off|basic|all": one of these words,
                          anything else: free text */
    const char *help;
    bool local_only; /* names files of this machine: refused when it comes over a network */
};

/* An input or output as the runtime sees it; data is borrowed. Strings as in model/tensor/tensor.h.
 */
struct prn_runtime_tensor {
    const char *name;
    int dtype;
    size_t rank;
    const int64_t *dims;
    const void *data;
    size_t bytes;
};

struct prn_runtime_config {
    const char *software; /* "onnxrt-cuda" */
    const struct prn_spec_option *options;
    size_t n_options;
    const char *library; /* the file to load; NULL: as runtime/library.h finds it */
    const char *loaded;  /* the library that another instance in this process has; NULL: first */
    /* An empty folder: switches the runtime's own profiler on. See end_profiling. */
    const char *profile_folder;
    const char *cache_folder;   /* that it may read; NULL: none (reuse) */
    const char *scratch_folder; /* of a runtime that compiles; NULL: none could be made */
    bool probe;                 /* nothing will be loaded: only what it is is asked */
};

/* Nodes of one operator that a provider runs. */
struct prn_placed {
    const char *provider, *op; /* "": none, for a provider that was asked for */
    int64_t nodes;
};

struct prn_runtime; /* each implementation's own */
struct prn_library_search;

struct prn_runtime_ops {
    const char *software; /* name in a spec */
    const char *title;    /* "ONNX Runtime, CPU" */
    bool gpu;             /* needs devices that the sandbox must leave open */
    bool listed_only;     /* tried and shown only where the library lists it (offers) */
    bool named_only;      /* works only with an option that names a file */
    /* It is Python's, and so its executor is a Python process, whose functions stand in for those
     * of this row (prn_executor_main). */
    bool python;
    bool takes_fxproto; /* its models are FXPROTO, the others' are ONNX */
    bool in_default; /* octoml-profile's client, which asks for the preset "default", can use it */
    bool keeps_reshapes; /* nothing is fused across a Reshape, also one that changes nothing */
    bool compiles;       /* starts the machine's compiler, and writes into a scratch folder */
    const struct prn_library_search *search;  /* for its library; NULL: it has none */
    const struct prn_runtime_option *options; /* ends in a row without key */

    /* Loads the library and checks the options. Fails with PRONY_EUNAVAILABLE when the library or
     * the hardware is absent, PRONY_EUSAGE when an option is wrong. */
    int (*open)(const struct prn_runtime_config *config, struct prn_runtime **ret_runtime,
                struct prony_error *err);
    const char *(*version)(const struct prn_runtime *runtime); /* "ONNX Runtime 1.31.1" */
    const char *(*library)(const struct prn_runtime *runtime); /* path of the loaded file */
    /* Optional: who named that file, or where it was found. */
    const char *(*origin)(const struct prn_runtime *runtime);
    /* Optional: rows of this folder that its library lists beside this one, with commas. */
    const char *(*offers)(const struct prn_runtime *runtime);
    /* Optional: folders that it reads beside the library's, ending in NULL. */
    const char *const *(*readable)(const struct prn_runtime *runtime);
    int (*load)(struct prn_runtime *runtime, const char *model_path, struct prony_error *err);
    /* Takes the place of what was bound before, which is let go of first: after a failure nothing
     * is bound. The data must stay until the next bind. */
    int (*bind)(struct prn_runtime *runtime, const struct prn_runtime_tensor *inputs,
                size_t n_inputs, struct prony_error *err);
    /* Optional: what must be done before each run, outside the clock. */
    int (*prepare)(struct prn_runtime *runtime, struct prony_error *err);
    /* One inference; nothing else, it is what the clock runs around. */
    int (*run)(struct prn_runtime *runtime, struct prony_error *err);
    /* Optional: another runner of the model that is loaded and bound, for a thread of its own. It
     * shares the model and the inputs and has its own outputs. prepare, run, output_count, output
     * and close may be called on it while others run; it is closed before what it was made from. */
    int (*lane)(struct prn_runtime *runtime, struct prn_runtime **ret_lane,
                struct prony_error *err);
    size_t (*output_count)(const struct prn_runtime *runtime);
    /* Output `index` of the last run; valid until the next call. */
    int (*output)(struct prn_runtime *runtime, size_t index, struct prn_runtime_tensor *ret_tensor,
                  struct prony_error *err);
    /* Optional: the runtime has a profiler. One that was opened with a `profile_folder` has a file
     * open in there when load returns (its name no longer matters then), and writes to it until
     * this returns: events of every run since load, in the format of ONNX Runtime's traces. */
    int (*end_profiling)(struct prn_runtime *runtime, struct prony_error *err);
    /* Optional, of a profiler that only knows averages: the runs that count begin here, and the
     * trace has one run, their mean. */
    int (*begin_profiling)(struct prn_runtime *runtime, struct prony_error *err);
    /* Optional: which provider runs which nodes of the loaded model, for one with a profiler on;
     * the rows are the caller's to free, the texts stay as long as the model. Only providers that
     * were asked for: it can't tell more. */
    int (*placement)(struct prn_runtime *runtime, struct prn_placed **ret_rows, size_t *ret_n,
                     struct prony_error *err);
    /* Optional, of one that compiles. The first names a file with what `made` gave for this model
     * before, NULL: none, before load; the second is a file, for the caller to close, with what
     * bind has compiled by now, -1: nothing new. Of one that doesn't compile the latter is the
     * model as it optimised it, if an option asks for that. */
    void (*reuse)(struct prn_runtime *runtime, const char *path);
    int (*made)(struct prn_runtime *runtime);
    void (*close)(struct prn_runtime *runtime); /* NULL does nothing */
};

/* All runtimes, ending in NULL, and the one of a name or NULL. */
extern const struct prn_runtime_ops *const prn_runtimes[];
const struct prn_runtime_ops *prn_runtime_find(const char *software);

/* Whether graphs go to it as ONNX, else as FXPROTO. A service may offer what is not known here. */
bool prn_runtime_takes_onnx(const char *software);

/* The libraries of all runtimes, each once; returns their number. */
#define PRN_RUNTIME_LIBRARIES_MAX 8
size_t prn_runtime_libraries(const struct prn_library_search *ret[PRN_RUNTIME_LIBRARIES_MAX]);

#define PRN_RUNTIME_COUNT_MAX 4096

/* Checks names and values against the options of `ops`, before anything is started: open() gets
 * only what passed. Fails with the list of known options when one isn't known. */
PRONY_MUST_CHECK int prn_runtime_check_options(const struct prn_runtime_ops *ops,
                                               const struct prn_spec_option *options, size_t n,
                                               struct prony_error *err);

/* The row of an option, prefixes included; NULL: `ops` has none. */
const struct prn_runtime_option *prn_runtime_find_option(const struct prn_runtime_ops *ops,
                                                         const char *key);

/* The value of an option; `otherwise` when it isn't given. */
const char *prn_runtime_option_of(const struct prn_runtime_config *config, const char *key,
                                  const char *otherwise);

/* Whether a backend needs devices that a sandbox would hide: those of a GPU, or what this option
 * chooses. */
#define PRN_RUNTIME_DEVICE "device"
bool prn_runtime_needs_devices(const struct prn_runtime_ops *ops,
                               const struct prn_runtime_config *config);

/* What a switch that passed the check says: on, 1 and nothing at all mean on. */
bool prn_runtime_switch(const char *value);

/* "name, …", of all that any library has or of those that take ONNX: for the error about an unknown
 * software name. */
void prn_runtime_list(struct prn_buffer *out, bool only_onnx);

#endif
