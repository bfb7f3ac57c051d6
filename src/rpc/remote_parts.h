/* What the parts of the client share (record/remote.h). Used inside src/rpc only. */
#ifndef PRN_RPC_REMOTE_PARTS_H
#define PRN_RPC_REMOTE_PARTS_H

#include "record/remote.h"
#include "rpc/client.h"
#include "rpc/messages.h"

#include <inference_base.pb-c.h>
#include <pthread.h>

/* The service's own lease; a connection is dialled again for as long. */
#define PRN_REMOTE_LEASE_S 30
/* For calls that only look something up. */
#define PRN_REMOTE_CALL_S 30

#define PRN_REMOTE_METHOD(name) "/octoml_profile.RemoteInference/" name

/* A file whose hash is known. */
struct prn_remote_hash {
    uint64_t device, inode, bytes;
    int64_t changed_ns;
    uint8_t sha256[PRN_REMOTE_HASH_BYTES];
};

struct prn_remote {
    struct prn_remote_config config; /* texts are its own */
    struct prn_channel *calls;       /* stops waiting when it is cancelled */
    struct prn_channel *control;     /* doesn't: heartbeats, and closing after Ctrl-C */
    uint8_t session[16];
    bool open; /* there is a session, waiting or ready */
    size_t n_backends, n_hosts;
    /* While it waits: what it was told of the queue, and when; told again, it is longer ago. */
    OctomlProfile__QueuePlace *place;
    int64_t place_ns, told_ns;
    uint64_t last_model;
    struct prn_stream *runs; /* through which the last run went; NULL: none */
    int64_t ran_ns;          /* when that ended */
    bool has_runs;           /* the service has such streams */
    double beat_every_s;
    size_t n_hashes;
    struct prn_remote_hash *hashes;
    /* the heartbeat's */
    bool beating;
    pthread_t beats;
    pthread_mutex_t lock; /* for what follows */
    pthread_cond_t wake;
    bool stop;
    struct prn_stream *beat; /* under way; NULL: none */
    int64_t alive_ns;        /* when the service last said that the session lives */
    uint32_t notice;         /* a hash of what was last told; 0: nothing */
};

/* A call of one message and one answer. While a session is open, it is repeated for as long as the
 * lease lasts when the service can't be reached. `*ret_reply` is to be freed with
 * protobuf_c_message_free_unpacked(). `answer` may be NULL. */
PRONY_MUST_CHECK int prn_remote_call(struct prn_remote *r, const char *method,
                                     const ProtobufCMessage *request,
                                     const ProtobufCMessageDescriptor *type, double timeout_s,
                                     ProtobufCMessage **ret_reply, struct prn_answer *answer,
                                     struct prony_error *err);

/* Whether a failed call may be tried again; waits a little before it says so. `*since_ns` is 0 at
 * first. */
bool prn_remote_again(struct prn_remote *r, int code, int64_t *since_ns);

/* Says where a refused token came from. */
int prn_remote_denied(const struct prn_remote *r, enum prn_status status, int code,
                      struct prony_error *err);

/* The service answered, but not what was asked for. */
int prn_remote_odd(const struct prn_remote *r, const char *what, struct prony_error *err);

/* Whether the service has said within the lease that the session lives. */
bool prn_remote_is_alive(struct prn_remote *r);

/* PRONY_E… for the code of an ErrorValue. */
int prn_remote_error_code(int code);

/* Memory that messages borrow: whoever lent it waits until all have given it back. */
struct prn_loan {
    pthread_mutex_t lock;
    pthread_cond_t returned;
    size_t n;
};

#define PRN_LOAN_INIT                                                              \
    {                                                                              \
        .lock = PTHREAD_MUTEX_INITIALIZER, .returned = PTHREAD_COND_INITIALIZER, 0 \
    }

void prn_loan_take(struct prn_loan *loan);
void prn_loan_return(void *loan); /* of prn_out_borrow() */
void prn_loan_settle(struct prn_loan *loan);

/* The operations, by file. */
int prn_remote_list(struct prn_remote *r, struct prn_arena *arena,
                    struct prn_remote_offer *ret_offer, struct prony_error *err);
int prn_remote_admin(struct prn_remote *r, const struct prn_remote_order *order,
                     struct prn_buffer *out, struct prony_error *err);
int prn_remote_usage(struct prn_remote *r, const char *since, struct prn_arena *arena,
                     struct prn_remote_usage *ret_usage, struct prony_error *err);
int prn_remote_status(struct prn_remote *r, struct prn_arena *arena,
                      struct prn_remote_status *ret_status, struct prony_error *err);
int prn_remote_upload(struct prn_remote *r, struct prn_remote_model *model,
                      const struct prn_remote_file *files, size_t n, struct prony_error *failures,
                      struct prony_error *err);
int prn_remote_load(struct prn_remote *r, const struct prn_remote_load *request,
                    struct prn_arena *arena, struct prn_remote_loaded *loaded,
                    struct prony_error *err);
int prn_remote_run(struct prn_remote *r, const struct prn_remote_run *run,
                   struct prn_remote_result *results, struct prn_remote_reply **ret_reply,
                   struct prony_error *err);
int prn_remote_begin(struct prn_remote *r, const struct prn_remote_run *run,
                     struct prn_remote_begun **ret_begun, struct prony_error *err);
int prn_remote_finish(struct prn_remote *r, struct prn_remote_begun *begun,
                      struct prn_remote_result *results, struct prn_remote_reply **ret_reply,
                      struct prony_error *err);
void prn_remote_abandon(struct prn_remote_begun *begun);
/* Lets go of the stream of runs. */
void prn_remote_end_runs(struct prn_remote *r);
int prn_remote_outputs(const struct prn_remote_reply *reply, size_t backend,
                       const char *const *names, size_t n_names, struct prony_outputs **ret_outputs,
                       struct prony_error *err);
void prn_remote_reply_free(struct prn_remote_reply *reply);
int prn_remote_measure(struct prn_remote *r, const struct prn_remote_measure *request,
                       int (*event)(void *context, const struct prn_remote_event *event,
                                    struct prony_error *err),
                       void *context, struct prony_error *err);

#endif
