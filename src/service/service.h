/*
 * Inside the service: what its parts share.
 *
 *     service   its life: set-up, the timer, reload, drain
 *     access    who calls
 *     sessions  created, waiting, ready, closed
 *     models    files of sessions: uploads, the cache, folders
 *     tasks     a client's call that its session's hosts work on: LoadModel, Run, Measure
 *     hosts     workers that are connected, and the commands that they get
 *     local     workers that the service starts itself, whose executors it talks to directly
 *     slurm     workers in jobs of Slurm, which come and go with those who wait
 *     lists     what there is: backends and presets
 *     status    how it is: hardware, sessions, workers, the cache
 *     dashboard the page that shows all that in a browser
 *
 * One lock guards all that changes. It is never held while something is waited for: the network's
 * threads answer and go, disk work is the pool's, and each host of this machine has a thread of its
 * own that waits for its executors.
 *
 * A session is in the table until it is closed; it is freed when nobody works for it any more and
 * its hosts have been given back. Whoever keeps a pointer to one across an unlock holds a
 * reference.
 */
#ifndef PRN_SERVICE_SERVICE_H
#define PRN_SERVICE_SERVICE_H

#include "service/blobs.h"
#include "service/config.h"
#include "service/history.h"
#include "service/http.h"
#include "service/instance.h"
#include "service/lease.h"
#include "service/log.h"
#include "service/metrics.h"
#include "service/pool.h"
#include "service/queue.h"
#include "service/tokens.h"

#include "rpc/messages.h"
#include "rpc/server.h"

#include <inference_base.pb-c.h>
#include <prony.pb-c.h>
#include <remote_inference.pb-c.h>

#include <limits.h>
#include <pthread.h>
#include <sys/queue.h>

#define PRN_SESSION_ID_BYTES 16
#define PRN_SESSION_BACKENDS_MAX 64
#define PRN_SESSION_BUCKETS 4096

struct prn_service;
struct prn_session;
struct prn_host;
struct prn_task;
struct prn_slurm;
struct prn_signins;

/* ---- Sessions ---- */

struct prn_model_file {
    char *name;
    struct prn_blob *blob;
    const struct prn_model_file *next;
};

/* A model on one backend: formats may differ, and so may the files. */
struct prn_model_on {
    const struct prn_model_file *files;
    bool loaded;
    char *error;     /* why not; NULL: nobody asked for it */
    size_t n_inputs; /* names that LoadModel gave; 0: the graph's own */
};

struct prn_model {
    uint64_t id;
    uint64_t bytes;          /* of all files, once each */
    struct prn_model_on *on; /* one per backend of the session */
    struct prn_model *next;
};

/* A host of a session. */
struct prn_held {
    struct prn_session *session;
    struct prn_host *host; /* NULL: not granted yet, or lost */
    const char *hardware;
    size_t n_backends;
    size_t *backends; /* of the session */
    /* On this machine: what runs them, one per backend; for the thread of the host, and for who
     * brings it work while it has none (prn_local_work). */
    struct prn_instance **instances;
    volatile int cancelled;        /* ends what is under way there */
    bool begun;                    /* there was something to do */
    bool told;                     /* the worker knows the session */
    bool ended;                    /* and has forgotten it again, or never heard of it */
    struct prn_part *first, *last; /* what is to be done, first comes first */
    struct prn_part *now;
    bool ending; /* closing is under way */
};

enum prn_session_state {
    PRN_SESSION_WAITING,
    PRN_SESSION_READY,
    PRN_SESSION_CLOSED, /* not in the table any more */
};

struct prn_session {
    struct prn_service *service;
    uint8_t id[PRN_SESSION_ID_BYTES];
    char name[2 * PRN_SESSION_ID_BYTES + 1]; /* its id, as its folder is called */
    char label[13];                          /* a hash of it, for others to see */
    struct prn_identity owner;
    struct prn_arena arena;
    enum prn_session_state state;
    size_t references;
    size_t n_backends;
    struct prn_spec *backends;
    size_t *held_of; /* the host of each backend */
    size_t n_held;
    struct prn_held *held;
    struct prn_queue_session *place; /* NULL once the hosts are given back */
    struct prn_config_limits limits; /* as they were when it was created */
    struct prn_lease lease;
    int64_t lease_ns;
    size_t open_calls; /* while there are any, it lives */
    struct prn_model *models;
    size_t n_models;
    int folder_fd;               /* -1: not made yet */
    struct prn_rpc_call *waiter; /* WaitUntilSessionReady */
    int64_t waiter_ns;           /* when that is answered in any case */
    TAILQ_ENTRY(prn_session) in_waiters;
    struct prn_rpc_call *closer; /* CloseSession, until the hosts are back */
    int64_t closer_ns;
    TAILQ_ENTRY(prn_session) in_closers;
    int64_t created_ms, ready_ms, ended_ms;
    int64_t created_ns, life_ns;
    uint64_t runs;
    const char *outcome;      /* a constant, or the arena's */
    struct prn_session *next; /* in its bucket */
    TAILQ_ENTRY(prn_session) in_closing;
};

TAILQ_HEAD(prn_session_list, prn_session);

/* ---- Tasks ---- */

enum prn_task_kind {
    PRN_TASK_LOAD,
    PRN_TASK_RUN,
    PRN_TASK_MEASURE,
};

/* A task on one host. */
struct prn_part {
    struct prn_task *task;
    struct prn_held *held;
    size_t at;           /* how many of the host's backends are done */
    size_t turn;         /* which of them comes first */
    uint64_t command_id; /* that the worker is busy with; 0: none */
    bool begun;          /* its run, before the host's thread took it (local.c) */
    struct prn_part *next;
};

/* What became of it on one backend. */
struct prn_task_outcome {
    bool skipped;
    int code; /* 0, or PRONY_E… */
    char *error;
    int64_t load_ns;
    const char *version, *sandbox;      /* the arena's */
    struct prn_instance_result *result; /* of a run on this machine */
    struct prn_bytes *report;           /* of a run elsewhere: the worker's message, */
    struct prn_rpc_result ran;          /* and what it says */
};

struct prn_task {
    struct prn_service *service;
    struct prn_session *session;
    struct prn_rpc_call *call;
    enum prn_task_kind kind;
    size_t references; /* the call's, and the parts' */
    struct prn_arena arena;
    uint64_t model_id;
    OctomlProfile__LoadModelRequest *load;
    struct prn_bytes *bytes; /* Run: the request */
    struct prn_rpc_run run;
    Prony__MeasureRequest *measure;
    const struct prn_model_file **files; /* LoadModel, Measure: of each backend */
    int64_t deadline_ns;
    int64_t start_ns;
    bool over;        /* the client has gone */
    bool one_of_many; /* Run: others come after it in the same call */
    size_t parts_left;
    struct prn_part *parts;
    struct prn_task_outcome *outcomes; /* per backend */
    /* Measure: events on their way to the client, one under way */
    struct prn_event {
        struct prn_out *out;
        struct prn_event *next;
    } * first_event, *last_event;
    bool sending;
};

/* ---- Hosts ---- */

/* A command that a worker hasn't answered yet. */
struct prn_command_wait {
    uint64_t id;
    struct prn_part *part; /* whose it is; NULL: nobody's, or one of the next two */
    bool end;              /* End: the host is free when it is answered */
    bool waited, answered; /* a thread waits for it (prn_host_call) */
    Prony__WorkerReport *report;
    struct prn_command_wait *next;
};

struct prn_local;

struct prn_host {
    struct prn_service *service;
    struct prn_rpc_call *call; /* of Attach */
    struct prn_identity owner;
    struct prn_queue_host *place; /* NULL before its hello, and once it is gone */
    Prony__Hello *hello;
    int64_t connected_ns;
    struct prn_held *held;   /* the session that has it */
    struct prn_local *local; /* a worker of this machine's; NULL: elsewhere */
    pthread_cond_t work;     /* of its thread */
    bool parked;             /* its executors are stopped, and its thread waits for work */
    int64_t worked_ns;       /* when another thread worked for it (prn_local_work) */
    uint64_t next_id;
    struct prn_command_wait *waits;
    pthread_cond_t answered;
    struct prn_event *first_out, *last_out; /* commands on their way, one under way */
    bool sending;
    bool gone;         /* its call is over */
    char why[128];     /* what is known of why; "": nothing */
    size_t references; /* the list's, its thread's */
    /* Until when it must have said hello, or answered End; 0: nothing is due. */
    int64_t due_ns;
    TAILQ_ENTRY(prn_host) in_due; /* of those that are silent, or ending */
    struct prn_host *next;
};

TAILQ_HEAD(prn_host_list, prn_host);

/* ---- The service ---- */

struct prn_service {
    pthread_mutex_t lock;
    pthread_cond_t wake; /* of the timer */
    int64_t timer_ns;    /* when it looks again by itself */
    struct prn_config config;
    bool tls; /* of the configuration, what doesn't change: read without the lock */
    const struct prn_serve_options *options;
    struct prn_state *state;
    struct prn_tokens *tokens;
    struct prn_blobs *blobs;
    struct prn_history *history;
    struct prn_log *log;
    struct prn_metrics *metrics;
    struct prn_http *http;
    struct prn_signins *signins;
    char page[300]; /* its URL; "": there is no page */
    struct prn_server *server;
    int *ports; /* where it listens; in the configuration's arena */
    size_t n_ports;
    struct prn_pool *pool;
    struct prn_queue *queue;
    struct prn_leases leases;
    int sessions_fd;
    char sessions_folder[PATH_MAX];
    char worker_address[PATH_MAX]; /* where workers of this machine connect */
    struct prn_session *buckets[PRN_SESSION_BUCKETS];
    size_t n_sessions;               /* in the table */
    struct prn_session_list closing; /* not in it, but not gone either */
    /* What the timer looks at, so that it needn't look at all sessions and hosts: each list has one
     * time to wait, so the first in it is the first that is due. */
    struct prn_session_list waiters, closers;
    struct prn_host_list silent, ending;
    struct prn_host *hosts;
    struct prn_local *locals;
    struct prn_slurm *slurm; /* jobs that bring hosts */
    size_t n_threads;        /* of hosts */
    pthread_mutex_t seen_lock;
    struct prn_seen_peer {
        char peer[80];
        int64_t until_ns;
    } seen[64]; /* connections of this user (access.c) */
    struct prn_old_config {
        struct prn_config config;
        struct prn_old_config *next;
    } * old_configs; /* whose texts may still be in use */
    bool draining;   /* takes no new sessions */
    bool stopping;   /* starts no workers */
    bool ended;      /* the timer's end */
    int64_t start_ns;
    struct {
        struct prn_meter *created, *uploaded, *lost, *runs;
    } counted;
};

int64_t prn_service_now(void); /* CLOCK_MONOTONIC, ns */

/* access.c */

/* Who calls; false: the call was refused, and is finished. */
bool prn_access(struct prn_rpc_call *call, struct prn_identity *ret_identity);
bool prn_access_worker(struct prn_rpc_call *call, struct prn_identity *ret_identity);
/* Without TLS the service is its user's own: a connection of that user's within this machine needs
 * no token, and whoever else is on the machine is kept out. Who may use a socket in the file system
 * is for its folder to say. `peer` is as gRPC says it, `ports` are those it may have come to. */
bool prn_access_own(struct prn_service *s, const char *peer, const int *ports, size_t n_ports,
                    struct prn_identity *ret_identity);
/* Finishes the call with what the error says, without paths. */
void prn_refuse(struct prn_rpc_call *call, enum prn_status status, const char *format, ...)
    PRN_PRINTF(3, 4);
/* Unpacks, or refuses the call and returns NULL. Consumes the message. */
void *prn_unpack(struct prn_rpc_call *call, struct prn_bytes *message,
                 const ProtobufCMessageDescriptor *type);
/* Packs, and finishes the call. */
void prn_reply(struct prn_rpc_call *call, const ProtobufCMessage *message);

/* sessions.c; all with the lock held unless said otherwise */

/* The caller's session, with a sign of life; NULL: the call was refused, and is finished. */
struct prn_session *prn_session_find(struct prn_service *s, struct prn_rpc_call *call,
                                     const struct prn_identity *identity, const uint8_t *id,
                                     size_t id_length);
/* The same, refused unless it has its hosts. */
struct prn_session *prn_session_find_ready(struct prn_service *s, struct prn_rpc_call *call,
                                           const struct prn_identity *identity, const uint8_t *id,
                                           size_t id_length);
void prn_session_live(struct prn_session *session);
/* A call is open, or over again: as long as one is, the session lives. */
void prn_session_enter(struct prn_session *session);
void prn_session_exit(struct prn_session *session);
struct prn_session *prn_session_ref(struct prn_session *session);
void prn_session_unref(struct prn_session *session);
void prn_session_close(struct prn_session *session, const char *outcome);
/* A host of it has forgotten it. */
void prn_session_host_back(struct prn_held *held);
/* Grants and failures of the queue take effect. */
void prn_sessions_settle(struct prn_service *s);
/* Leases, waiters and closers whose time has come; returns when the next one's will. */
int64_t prn_sessions_tick(struct prn_service *s, int64_t now_ns);
void prn_sessions_close_all(struct prn_service *s, const char *outcome);

/* Without the lock: closes a user's own session, by its label. PRONY_ENOENT: there is none;
 * PRONY_EDENIED: it is somebody else's. */
PRONY_MUST_CHECK int prn_session_close_own(struct prn_service *s,
                                           const struct prn_identity *identity, const char *label);

void prn_create_session(struct prn_rpc_call *call, struct prn_bytes *message);
void prn_wait_until_ready(struct prn_rpc_call *call, struct prn_bytes *message);
void prn_wait_ended(struct prn_rpc_call *call, bool cancelled);
void prn_heartbeat(struct prn_rpc_call *call, struct prn_bytes *message);
void prn_close_session(struct prn_rpc_call *call, struct prn_bytes *message);
void prn_close_ended(struct prn_rpc_call *call, bool cancelled);

/* models.c */

/* NULL: there is none. */
struct prn_model *prn_model_find(const struct prn_session *session, uint64_t id);
/* With the lock: makes the session's folder, if it isn't there. */
PRONY_MUST_CHECK int prn_session_folder(struct prn_session *session, struct prony_error *err);
/* Without it: puts files of a model where the backend finds them. `ret_path` is the model's own. A
 * list of files only grows at its head, so a head that was read once is a list for good. */
PRONY_MUST_CHECK int prn_model_place(const struct prn_session *session,
                                     const struct prn_model_file *files, uint64_t model_id,
                                     size_t backend, int format, char ret_path[PATH_MAX],
                                     struct prony_error *err);
/* The file among them that is the model; NULL: none. */
const struct prn_model_file *prn_model_main_file(const struct prn_model_file *files, int format);
void prn_models_free(struct prn_session *session);
/* Which backends the mask leaves out; false: the call was refused. */
bool prn_skip_mask(struct prn_rpc_call *call, const struct prn_session *session,
                   const uint8_t *mask, size_t length, bool *skip);

void prn_upload_begin(struct prn_rpc_call *call, struct prn_bytes *message);
void prn_upload_message(struct prn_rpc_call *call, struct prn_bytes *message);
void prn_upload_ended(struct prn_rpc_call *call, bool cancelled);
void prn_load_cached(struct prn_rpc_call *call, struct prn_bytes *message);

/* tasks.c */

void prn_load_model(struct prn_rpc_call *call, struct prn_bytes *message);
void prn_run(struct prn_rpc_call *call, struct prn_bytes *message);
void prn_runs_begin(struct prn_rpc_call *call, struct prn_bytes *message);
void prn_runs_message(struct prn_rpc_call *call, struct prn_bytes *message);
void prn_runs_sent(struct prn_rpc_call *call, bool ok);
void prn_measure_model(struct prn_rpc_call *call, struct prn_bytes *message);
void prn_task_sent(struct prn_rpc_call *call, bool ok);
void prn_task_ended(struct prn_rpc_call *call, bool cancelled);
/* With the lock, which is given up meanwhile: all backends of the part are done. */
void prn_part_done(struct prn_part *part);
/* Which backend of the host's is next: they take turns in coming first. */
size_t prn_part_backend(const struct prn_part *part);
/* All that the part would still do. */
void prn_part_fail_all(struct prn_part *part, int code, const char *text);
/* What went wrong on a backend, without paths. */
void prn_task_fail(struct prn_part *part, size_t backend, int code, const char *text);
/* With the lock: an event of a measurement; it stays the caller's. */
void prn_task_event(struct prn_part *part, const Prony__MeasureEvent *report);
/* Everything that a session's host had to do fails: it is lost, or the session closed. */
void prn_held_abandon(struct prn_held *held, int code, const char *text);

/* hosts.c */

void prn_attach_begin(struct prn_rpc_call *call, struct prn_bytes *message);
void prn_attach_message(struct prn_rpc_call *call, struct prn_bytes *message);
void prn_attach_sent(struct prn_rpc_call *call, bool ok);
void prn_attach_ended(struct prn_rpc_call *call, bool cancelled);
void prn_fetch_begin(struct prn_rpc_call *call, struct prn_bytes *message);
void prn_fetch_sent(struct prn_rpc_call *call, bool ok);
void prn_fetch_ended(struct prn_rpc_call *call, bool cancelled);

/* With the lock. Gives the part to the host: its thread, or its worker. */
void prn_host_work(struct prn_held *held, struct prn_part *part);
/* With the lock. Nobody wants what is under way. */
void prn_host_cancel(struct prn_held *held);
/* With the lock. The session is closed: what is under way is cancelled, and the host given back. */
void prn_host_end(struct prn_held *held);
void prn_host_send_end(struct prn_held *held);
/* With the lock. The host is gone, and its session has to do without. */
void prn_host_lose(struct prn_host *host);
/* With the lock. Has the worker measure; returns the command's id, 0: the host is gone. */
uint64_t prn_host_measure(struct prn_part *part);
/* With the lock. Sends a command; `wait` says who gets the answer, and is the host's. Returns its
 * id; 0: the host is gone. */
uint64_t prn_host_command(struct prn_host *host, Prony__WorkerCommand *command,
                          const struct prn_command_wait *wait);
/* With the lock, which is given up meanwhile: waits for the answer to a command. NULL: the host is
 * gone, or it took longer; or an error of the worker's, in `err`. */
Prony__WorkerReport *prn_host_call(struct prn_host *host, Prony__WorkerCommand *command,
                                   double timeout_s, struct prony_error *err);
/* Tells the worker of the session, if it doesn't know. */
PRONY_MUST_CHECK int prn_host_begin(struct prn_held *held, struct prony_error *err);
void prn_host_unref(struct prn_host *host);
/* A spec as a message, which borrows its texts; lists belong to `arena`. */
PRONY_MUST_CHECK int prn_spec_message(struct prn_arena *arena, const struct prn_spec *spec,
                                      OctomlProfile__BackendSpec *message);
int64_t prn_hosts_tick(struct prn_service *s, int64_t now_ns);

/* local.c */

PRONY_MUST_CHECK int prn_locals_start(struct prn_service *s, struct prony_error *err);
/* From the thread that started them: starts those that are missing, reaps those that ended; returns
 * when to look again. */
int64_t prn_locals_tick(struct prn_service *s, int64_t now_ns);
void prn_locals_stop(struct prn_service *s);
void prn_locals_free(struct prn_service *s);
/* The worker that has this key; NULL: none. */
struct prn_local *prn_local_find(struct prn_service *s, const char *key);
/* With the lock: the thread of a host. */
PRONY_MUST_CHECK int prn_local_attach(struct prn_host *host, struct prony_error *err);
void prn_local_wake(struct prn_host *host);
/* A part was put first in line; or it wasn't, and waits. */
void prn_local_work(struct prn_held *held, struct prn_part *part);

/* lists.c */

void prn_ping(struct prn_rpc_call *call, struct prn_bytes *message);
void prn_list_backends(struct prn_rpc_call *call, struct prn_bytes *message);
/* With the lock: a host that has this software, or NULL; and the reason, when `err` isn't NULL, why
 * a session can't have the backend. */
PRONY_MUST_CHECK int prn_backend_check(struct prn_service *s, const struct prn_spec *spec,
                                       struct prony_error *err);

/* status.c */

void prn_status(struct prn_rpc_call *call, struct prn_bytes *message);
/* Without the lock: the same as JSON, for the page. */
PRONY_MUST_CHECK int prn_status_write(struct prn_service *s, const struct prn_identity *identity,
                                      const char *signed_in_by, struct prn_buffer *out,
                                      struct prony_error *err);

/* dashboard.c */

/* The HTTP server: metrics, and the page with what it asks for. */
PRONY_MUST_CHECK int prn_dashboard_start(struct prn_service *s, const struct prn_http_tls *tls,
                                         struct prony_error *err);
void prn_dashboard_stop(struct prn_service *s); /* more than once is fine */

/* service.c */

/* With the lock: the timer must look by then. */
void prn_service_look_by(struct prn_service *s, int64_t ns);

/* `prony serve`, for struct prn_net. */
int prn_serve(const struct prn_serve_options *options, struct prony_error *err);

#endif
