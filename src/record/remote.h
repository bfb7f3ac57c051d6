/*
 * A service (`prony serve`) as its clients see it: what it offers, a session on its hosts, models
 * loaded there, runs and measurements. libprony_net.so implements the operations (src/rpc/remote.c)
 * and hands them out in struct prn_net; everything here is plain data, so that nobody else needs
 * gRPC.
 *
 *     prn_net_load(&net, err);
 *     net->remote->connect(&config, &remote, err);
 *     net->remote->open(remote, backends, n, err);        waits in the queue
 *     net->remote->upload(remote, &model, files, n, failures, err);
 *     net->remote->load(remote, &request, arena, loaded, err);
 *     net->remote->run(remote, &run, arena, results, &reply, err);
 *     net->remote->free(remote);                          closes the session
 *
 * - Every call ends: by its own deadline, by the connection's keepalive, or when `cancelled` is
 *   set.
 * - Once a session is open, a connection that breaks is dialled again for as long as the lease
 *   lasts, and calls that change nothing when they are repeated are repeated. run and measure
 *   aren't: nobody knows how far the first one came, and two at once would measure each other. They
 *   fail, and the session goes on with the next call.
 * - Calls of one connection take turns, by the caller's doing; only its heartbeat has a thread.
 */
#ifndef PRN_RECORD_REMOTE_H
#define PRN_RECORD_REMOTE_H

#include "measure/job.h"
#include "record/remote_status.h"
#include "spec/spec.h"

/* Most backends of a session. */
#define PRN_REMOTE_BACKENDS_MAX 256
#define PRN_REMOTE_HASH_BYTES 32

struct prn_remote;
struct prony_outputs;
struct prn_layer_order;
struct prn_layer_entry;
struct prn_layer_row;
struct prn_layer_measurement;
struct prn_simulation_setup;
struct prn_stage_told;

/* Where a waiting session stands. */
struct prn_remote_place {
    const char *hardware; /* for which it waits longest */
    uint64_t place;       /* from 1 */
    double waited_s;
    size_t n_holders;
    char *const *holders; /* who holds such hosts, hashed */
    const char *note;     /* NULL: none */
};

struct prn_remote_config {
    const char *address;      /* "host:port", "[::1]:port", "unix:/path" */
    bool insecure;            /* no TLS, whatever the address */
    bool own_hosts;           /* each backend of a session has a host, even of equal hardware */
    const char *ca_file;      /* PEM; NULL: the system's authorities */
    const char *token;        /* sent over TLS only; NULL: none */
    const char *token_source; /* where it came from, for errors; NULL: not said */
    const volatile int *cancelled;
    /* Asked by whoever waits, now and then; not 0 ends the call, until which it must stay so. May
     * be NULL. */
    int (*interrupted)(void *context);
    void (*queued)(void *context, const struct prn_remote_place *place); /* may be NULL */
    /* `done` bytes of a file are sent; all at once when the service has it already. May be NULL. */
    void (*uploading)(void *context, const char *file, uint64_t done, uint64_t total);
    /* The service has something to say to its users, once for each text. Called by any thread. May
     * be NULL. */
    void (*noticed)(void *context, const char *text);
    void *context;
};

/* What an administrator orders (`prony admin`). */
struct prn_remote_order {
    const char *action;
    const char *target, *text; /* NULL: none */
    /* Of a reservation. */
    const char *user;
    int64_t from_ms, to_ms; /* since 1970 */
    uint64_t hosts;         /* 0: one */
};

/* ---- What a service offers ---- */

struct prn_remote_backend {
    struct prn_spec spec;
    const char *processor, *version; /* NULL: not known */
    double usd_per_hour;             /* NAN */
    size_t n_options;
    const char *const *options; /* keys that it knows */
    int64_t hosts, free;        /* -1: not said */
};

struct prn_remote_preset {
    const char *name;
    size_t n_backends;
    struct prn_spec *backends;
};

struct prn_remote_offer {
    size_t n_backends, n_presets;
    struct prn_remote_backend *backends;
    struct prn_remote_preset *presets;
};

/* ---- Models ---- */

struct prn_remote_model {
    uint64_t id;         /* 0: gets a new one with its first files */
    uint64_t components; /* sent so far */
};

/* A file of a model: a descriptor or memory, which must stay as it is meanwhile. */
struct prn_remote_file {
    const char *name; /* relative, as the model knows it: "model.onnx", "weights/0" */
    int fd;           /* -1: it is in memory */
    const void *data;
    size_t bytes;
    const uint8_t *sha256; /* NULL: not known, and computed once per file and session */
    const uint8_t *skip;   /* bit i: backend i doesn't need it; NULL: all do */
    size_t n_skip;         /* bytes of it */
};

enum prn_remote_format {
    PRN_REMOTE_FORMAT_ONNX = 1,
    PRN_REMOTE_FORMAT_FXPROTO = 2,
};

struct prn_remote_load {
    uint64_t model;
    enum prn_remote_format format;
    const char *const *input_names, *const *output_names;
    size_t n_input_names, n_output_names;
    const uint8_t *skip;
    size_t n_skip;
    double timeout_s; /* for one backend */
};

/* What loading came to on a backend. */
struct prn_remote_loaded {
    int error_code; /* 0, or PRONY_E… */
    const char *error;
    bool skipped;
    int64_t load_ns;               /* -1: not said */
    const char *version, *sandbox; /* NULL: not said */
};

/* ---- Runs ---- */

/* Which of a run's inputs a backend gets, in the order of its model's. */
struct prn_remote_map {
    size_t n;
    const int32_t *indices;
};

struct prn_remote_run {
    uint64_t model;
    const struct prony_tensor *inputs; /* borrowed */
    size_t n_inputs;
    const struct prn_remote_map *maps; /* one per backend */
    uint64_t warmups, repeats;
    bool outputs;     /* are wanted */
    double timeout_s; /* for one run on one backend */
};

struct prn_remote_result {
    int error_code;
    const char *error;
    size_t n_samples;
    int64_t *samples_ns;
    int64_t prepare_ns; /* of a model's first run: what went before the samples; 0: not told */
};

/* The answer, as long as outputs may be asked for. */
struct prn_remote_reply;
/* A run that is under way. */
struct prn_remote_begun;

/* ---- Measuring ---- */

/* What a job needs of its texts; files that they name are components of the model. */
struct prn_remote_measure {
    uint64_t model;
    const char *model_file;
    const char *model_name; /* what people call it; the folders of a path stay here */
    /* Several side by side, the first of them that one: names that differ, and files there. */
    const struct prn_job_model *models;
    size_t n_models; /* 0: it is alone */
    struct prn_texts dims, shapes, inputs;
    const char *inputs_folder;
    const struct prn_settings *settings;
    const struct prn_load_settings *load;
    bool ops;
    double timeout_s;
    const struct prn_profile *resume;     /* NULL: none */
    const struct prn_layer_order *layers; /* measure layer by layer instead; NULL: don't */
    /* Run a pipeline instead, a stage on each host; NULL: don't. */
    const struct prn_simulation_setup *pipeline;
};

/* Something that a host has to say; profiles belong to who is told. */
struct prn_remote_event {
    size_t host; /* in the order in which its hardware first occurs among the backends */
    const struct prn_progress *progress; /* NULL: it isn't that */
    struct prn_profile *profile;         /* what could be saved now, or the result; NULL */
    /* A layer that was measured, and at the end what the measurement says besides its layers; NULL.
     * Both are the event's. */
    const struct prn_layer_entry *layer;
    const struct prn_layer_row *row;
    const struct prn_layer_measurement *layers;
    /* Of a stage: outputs of the whole model as prn_batch_write() has them, and at the end what it
     * saw; NULL. Both are the event's. */
    const void *batch;
    size_t batch_bytes;
    const struct prn_stage_told *stage;
    bool finished;  /* the host has no more to say */
    bool aftermath; /* the error follows from that of another host */
    int error_code; /* why it has no result; 0: none */
    const char *error;
};

struct prn_remote_ops {
    /* Dials when the first call needs it. */
    int (*connect)(const struct prn_remote_config *config, struct prn_remote **ret_remote,
                   struct prony_error *err);
    /* Closes the session first. NULL does nothing. */
    void (*free)(struct prn_remote *remote);

    /* Whether the token is good. */
    int (*ping)(struct prn_remote *remote, struct prony_error *err);
    /* Memory belongs to `arena`. */
    int (*list)(struct prn_remote *remote, struct prn_arena *arena,
                struct prn_remote_offer *ret_offer, struct prony_error *err);
    int (*status)(struct prn_remote *remote, struct prn_arena *arena,
                  struct prn_remote_status *ret_status, struct prony_error *err);

    /* `since` is a month, NULL: all that is known. */
    int (*usage)(struct prn_remote *remote, const char *since, struct prn_arena *arena,
                 struct prn_remote_usage *ret_usage, struct prony_error *err);

    /* Appends a line that says what was done. */
    int (*admin)(struct prn_remote *remote, const struct prn_remote_order *order,
                 struct prn_buffer *out, struct prony_error *err);

    /* Returns when all hosts are the session's, or waiting was cancelled. */
    int (*open)(struct prn_remote *remote, const struct prn_spec *backends, size_t n,
                struct prony_error *err);
    /* Within a second, also when waiting was cancelled; what fails, the lease ends. */
    void (*close)(struct prn_remote *remote);

    /* Offers the files by their hashes, and sends those that the service doesn't have. `failures`
     * has one entry per backend of the session, of which those without a failure are untouched. */
    int (*upload)(struct prn_remote *remote, struct prn_remote_model *model,
                  const struct prn_remote_file *files, size_t n, struct prony_error *failures,
                  struct prony_error *err);
    /* `loaded` has one entry per backend; texts belong to `arena`. */
    int (*load)(struct prn_remote *remote, const struct prn_remote_load *request,
                struct prn_arena *arena, struct prn_remote_loaded *loaded, struct prony_error *err);
    /* `results` has one entry per backend; its memory belongs to the reply. */
    int (*run)(struct prn_remote *remote, const struct prn_remote_run *run,
               struct prn_remote_result *results, struct prn_remote_reply **ret_reply,
               struct prony_error *err);
    /* The same in two halves: what a run borrows stays borrowed in between. A run that was begun is
     * finished or abandoned, which ends it on the service too; whatever is returned, it is gone. */
    int (*begin)(struct prn_remote *remote, const struct prn_remote_run *run,
                 struct prn_remote_begun **ret_begun, struct prony_error *err);
    int (*finish)(struct prn_remote *remote, struct prn_remote_begun *begun,
                  struct prn_remote_result *results, struct prn_remote_reply **ret_reply,
                  struct prony_error *err);
    void (*abandon)(struct prn_remote_begun *begun); /* NULL does nothing */
    /* A copy of what a backend gave, under `names` where the service told none; the caller adds
     * whose it is. */
    int (*outputs)(const struct prn_remote_reply *reply, size_t backend, const char *const *names,
                   size_t n_names, struct prony_outputs **ret_outputs, struct prony_error *err);
    void (*reply_free)(struct prn_remote_reply *reply); /* NULL does nothing */

    /* Until all hosts have finished, or it failed; what was told before stays true. An `event` that
     * fails ends it. */
    int (*measure)(struct prn_remote *remote, const struct prn_remote_measure *request,
                   int (*event)(void *context, const struct prn_remote_event *event,
                                struct prony_error *err),
                   void *context, struct prony_error *err);
};

/* The PEM file of the authority to trust: the one that is given, or what PRONY_CA names, unless the
 * connection can't have TLS. NULL: the system's authorities. */
const char *prn_remote_ca(const char *address, bool insecure, const char *given);

/* Whether such a connection has TLS: any that isn't loopback or a Unix socket, unless `insecure`;
 * loopback too when there is an authority to trust. */
bool prn_remote_is_secure(const char *address, bool insecure, const char *ca_file);

/* The backends that are asked for, all of them offered; without any, those of the preset "all", or
 * else "default", whose name is in `ret_preset` then (NULL otherwise). */
PRONY_MUST_CHECK int prn_remote_choose(const struct prn_remote_offer *offer,
                                       const struct prn_texts *texts, const char *address,
                                       struct prn_arena *arena, struct prn_spec **ret_backends,
                                       size_t *ret_n, const char **ret_preset,
                                       struct prony_error *err);

/* What is offered under the hardware and software of a spec; NULL: nothing. */
const struct prn_remote_backend *prn_remote_find(const struct prn_remote_offer *offer,
                                                 const struct prn_spec *spec);

/* prn_backends_describe(), with the service's processors, versions and prices; those of a
 * `hardware_file` win. */
PRONY_MUST_CHECK int prn_remote_describe(const struct prn_remote_offer *offer,
                                         const struct prn_spec *backends, size_t n,
                                         const char *hardware_file, struct prn_profile *profile,
                                         struct prony_error *err);

/* Backends of the same hardware share a host; hosts count from 0 in the order of the backends. */
size_t prn_remote_host(const struct prn_spec *backends, size_t backend);
/* NULL past the last. */
const char *prn_remote_hardware(const struct prn_spec *backends, size_t n, size_t host);

#endif
