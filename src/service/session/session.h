/*
 * Sessions, their models, and the calls that their hosts work on.
 *
 * A session is in the table until it is closed; it is freed when nobody works for it any more and
 * its hosts have been given back. Whoever keeps a pointer to one across an unlock holds a
 * reference.
 *
 * A task is a client's call that hosts work on. It has a part for each of the session's hosts; a
 * host does its parts one after the other, and the last one that is done answers the client.
 *
 * So a Run waits for, in this order:
 * - earlier tasks of its session on the same host: parts stand in a row (prn_held.first), and one
 * of them is being worked on (prn_held.now);
 * - other backends of the session on that host, which take turns inside of the part (prn_part.at);
 * - the executor, which may have to be started again (instance/instance.h), and its run;
 * - the slowest host, because the last part answers.
 * It never waits for a host to become free: before the session is ready it is refused
 * (prn_session_find_ready_locked), and WaitUntilSessionReady is what waits (queue.h).
 */
#ifndef PRN_SERVICE_SESSION_SESSION_H
#define PRN_SERVICE_SESSION_SESSION_H

#include "service/service.h"

#include "instance/instance.h"
#include "rpc/messages.h"
#include "service/session/queue.h"
#include "service/store/blobs.h"

#include <inference_base.pb-c.h>
#include <prony.pb-c.h>
#include <remote_inference.pb-c.h>

#define PRN_SESSION_ID_BYTES 16
#define PRN_SESSION_BACKENDS_MAX 64
#define PRN_LINK_SECRET_BYTES 32

struct prn_task;

struct prn_session_file {
    char *name;
    struct prn_blob *blob;
    const struct prn_session_file *next;
};

/* A model on one backend: formats may differ, and so may the files. */
struct prn_model_on {
    const struct prn_session_file *files;
    bool loaded;
    char *error;     /* why not; NULL: nobody asked for it */
    size_t n_inputs; /* names that LoadModel gave; 0: the graph's own */
};

struct prn_session_model {
    uint64_t id;
    uint64_t bytes;          /* of all files, once each */
    struct prn_model_on *on; /* one per backend of the session */
    struct prn_session_model *next;
};

/* A host of a session. */
struct prn_held {
    struct prn_session *session;
    struct prn_host *host PRN_LOCKED; /* NULL: not granted yet, or lost */
    const char *hardware;
    size_t n_backends;
    size_t *backends; /* of the session */
    /* On this machine: what runs them, one per backend; for the thread of the host, and for who
     * brings it work while it has none (prn_local_work). */
    struct prn_instance **instances;
    volatile int cancelled; /* ends what is under way there */
    bool told PRN_LOCKED;   /* the worker knows the session */
    bool settled;           /* all of its executors were waited for, once; by the host's thread */
    bool ended PRN_LOCKED;  /* and has forgotten it again, or there was nothing to do yet */
    struct prn_part *first PRN_LOCKED, *last PRN_LOCKED; /* waiting, first comes first */
    struct prn_part *now PRN_LOCKED;                     /* being worked on, in no row any more */
    bool ending PRN_LOCKED;                              /* closing is under way */
    char lost[128] PRN_LOCKED; /* why the host was; "": it wasn't, or nobody knows */
};

enum prn_session_state {
    PRN_SESSION_WAITING,
    PRN_SESSION_READY,
    PRN_SESSION_CLOSED, /* not in the table any more */
};

/* A load from before a restart, to be done again. */
struct prn_reload {
    OctomlProfile__LoadModelRequest *request;
    struct prn_reload *next;
};

struct prn_session {
    struct prn_service *service;
    uint8_t id[PRN_SESSION_ID_BYTES];
    char name[2 * PRN_SESSION_ID_BYTES + 1]; /* its id, as its folder is called */
    char label[13];                          /* a hash of it, for others to see */
    struct prn_identity owner;
    struct prn_arena arena;
    enum prn_session_state state PRN_LOCKED;
    size_t references PRN_LOCKED;
    size_t n_backends;
    struct prn_spec *backends;
    size_t *held_of; /* the host of each backend */
    size_t n_held;
    struct prn_held *held;
    bool own_hosts;                             /* each backend has one */
    struct prn_queue_session *place PRN_LOCKED; /* NULL once the hosts are given back */
    struct prn_config_limits limits;            /* as they were when it was created */
    struct prn_lease lease PRN_LOCKED;
    struct prn_config_times times;                      /* as they were when it was created */
    struct prn_lease limit PRN_LOCKED;                  /* when the first of these ends it */
    int64_t worked_ns PRN_LOCKED, worked_ms PRN_LOCKED; /* last, once it has its hosts */
    int64_t lease_ns;
    size_t open_calls PRN_LOCKED; /* while there are any, it lives, unless it beats */
    int64_t beat_ns PRN_LOCKED;   /* the last heartbeat; 0: none yet */
    bool beats PRN_LOCKED;        /* its client said so, or two came within half a lease */
    struct prn_session_model *models PRN_LOCKED;
    size_t n_models PRN_LOCKED;
    int folder_fd; /* -1: not made yet */
    struct {
        struct prn_rpc_call *call; /* NULL: nobody asks */
        int64_t due_ns;            /* when it is answered in any case */
        TAILQ_ENTRY(prn_session) in;
    } ask[PRN_ASK_KINDS] PRN_LOCKED;
    int64_t created_ms, ready_ms PRN_LOCKED, ended_ms PRN_LOCKED;
    int64_t created_ns, ready_ns PRN_LOCKED, life_ns PRN_LOCKED;
    int64_t charged_ns PRN_LOCKED;  /* until when its hosts are accounted for */
    uint64_t runs PRN_LOCKED;       /* and measurements */
    const char *outcome PRN_LOCKED; /* a constant, or the arena's */
    bool from_before;               /* a restart of the service */
    bool restored;                  /* and had its hosts then */
    bool kept; /* it ends with this process only, and goes on in the next one */
    struct prn_reload *reloads PRN_LOCKED; /* once it has its hosts again */
    struct prn_session *next PRN_LOCKED;   /* in its bucket */
    TAILQ_ENTRY(prn_session) in_closing;
};

enum prn_task_kind {
    PRN_TASK_LOAD,
    PRN_TASK_RUN,
    PRN_TASK_MEASURE,
};

/*
 * A task on one host. Whoever works on it, it goes the same way (tasks.c):
 *
 *     prn_part_wait ──► in line (first … last) ──────────────► failed: the session is closed,
 *                            │        ▲                        or the host lost (prn_held_abandon)
 *              prn_part_take │        │ prn_part_put_back: it takes long
 *                            ▼        │
 *                        the host's `now` ── prn_part_next: a backend's turn ──┐
 *                            │        ▲                                        │
 *                            │        └──────── its outcome, or failure ◄──────┘
 *               prn_part_end ▼ (none is left)
 *                          done; after a task's last one the client is answered, by whoever gives
 *                          the service's lock up next (prn_service_unlock)
 *
 * The turns of a worker elsewhere are commands and reports (hosts.c). On this machine it is the
 * host's thread that loads and runs, or for a quick run the network's (local.c); only whoever has
 * made it `now` touches the instances.
 */
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
    size_t references PRN_LOCKED; /* the call's, and the parts' */
    struct prn_arena arena;
    uint64_t model_id;
    /* What was asked for: LoadModel and Measure, or the bytes of a Run. */
    ProtobufCMessage *request;
    const OctomlProfile__LoadModelRequest *load;
    Prony__MeasureRequest *measure;
    uint8_t secret[PRN_LINK_SECRET_BYTES]; /* Measure: of the stages of a pipeline */
    struct prn_bytes *bytes;
    struct prn_rpc_run run;
    const struct prn_session_file **files; /* LoadModel, Measure: of each backend */
    int64_t deadline_ns;
    int64_t start_ns;
    bool over PRN_LOCKED; /* the call has ended */
    bool gone PRN_LOCKED; /* and by the client, or with it */
    bool one_of_many;     /* Run: others come after it in the same call */
    bool wanted;          /* the client was there when the last part was done */
    struct prn_task *next_done PRN_LOCKED;
    size_t parts_left PRN_LOCKED;
    struct prn_part *parts;
    struct prn_task_outcome *outcomes; /* per backend */
    /* Measure: events on their way to the client, one under way */
    struct prn_event {
        struct prn_out *out;
        struct prn_event *next;
    } * first_event PRN_LOCKED, *last_event PRN_LOCKED;
    bool sending PRN_LOCKED;
};

/* Of bookings.c: for `prony status`; PRONY_ENOMEM. */
PRONY_MUST_CHECK int prn_bookings_report_locked(struct prn_service *s,
                                                const struct prn_identity *viewer,
                                                struct prn_arena *arena, Prony__StatusReply *reply)
    PRN_HOLDS(prn_service);

/* sessions.c */

/* The caller's session, with a sign of life, once it has its hosts. NULL: the call was refused, and
 * is finished. */
struct prn_session *prn_session_find_ready_locked(struct prn_service *s, struct prn_rpc_call *call,
                                                  const struct prn_identity *identity,
                                                  const uint8_t *id, size_t id_length)
    PRN_HOLDS(prn_service);
/* A call is open, or over again. As long as one is, the session of a client that sends no
 * heartbeats lives; one that sends them has to go on with it. `gone`: the client's connection was
 * lost. */
void prn_session_enter_locked(struct prn_session *session) PRN_HOLDS(prn_service);
void prn_session_exit_locked(struct prn_session *session, bool gone) PRN_HOLDS(prn_service);
/* A sign of life: a message of an upload, for example. */
void prn_session_live_locked(struct prn_session *session) PRN_HOLDS(prn_service);
struct prn_session *prn_session_ref_locked(struct prn_session *session) PRN_HOLDS(prn_service);
void prn_session_unref_locked(struct prn_session *session) PRN_HOLDS(prn_service);
void prn_session_close_locked(struct prn_session *session, const char *outcome)
    PRN_HOLDS(prn_service);
/* A host of it has forgotten it. */
void prn_session_host_back_locked(struct prn_held *held) PRN_HOLDS(prn_service);
/* Grants and failures of the queue take effect. */
void prn_sessions_settle_locked(struct prn_service *s) PRN_HOLDS(prn_service);
/* Leases and calls whose time has come; returns when the next one's will. */
int64_t prn_sessions_tick_locked(struct prn_service *s, int64_t now_ns) PRN_HOLDS(prn_service);
void prn_sessions_close_all_locked(struct prn_service *s, const char *outcome)
    PRN_HOLDS(prn_service);

/* Which limit of time is the next to end it, and when; in `arena`, NULL: none will. */
char *prn_session_limit_note_locked(const struct prn_session *session, struct prn_arena *arena)
    PRN_HOLDS(prn_service);
/* By what others see of its id; NULL: none. */
struct prn_session *prn_session_find_label_locked(struct prn_service *s, const char *label)
    PRN_HOLDS(prn_service);
/* Without the lock: closes a user's own session, by its label. PRONY_ENOENT: there is none;
 * PRONY_EDENIED: it is somebody else's. */
PRONY_MUST_CHECK int prn_session_close_own(struct prn_service *s,
                                           const struct prn_identity *identity, const char *label);

void prn_create_session(struct prn_rpc_call *call, struct prn_bytes *message);
void prn_wait_until_ready(struct prn_rpc_call *call, struct prn_bytes *message);
void prn_heartbeat(struct prn_rpc_call *call, struct prn_bytes *message);
void prn_close_session(struct prn_rpc_call *call, struct prn_bytes *message);
/* Of the two that wait. */
void prn_ask_ended(struct prn_rpc_call *call, bool cancelled);

/* One from before a restart: it waits again, before all others if it had its hosts. */
PRONY_MUST_CHECK int prn_session_restore_locked(struct prn_service *s,
                                                const OctomlProfile__CreateSessionRequest *request,
                                                const struct prn_identity *owner,
                                                int64_t created_ms, int64_t ready_ms,
                                                struct prn_session **ret_session,
                                                struct prony_error *err) PRN_HOLDS(prn_service);

/* keep.c: what survives a restart of the service */

void prn_keep_open_locked(const struct prn_session *session,
                          const OctomlProfile__CreateSessionRequest *request)
    PRN_HOLDS(prn_service);
void prn_keep_ready_locked(const struct prn_session *session) PRN_HOLDS(prn_service);
void prn_keep_file_locked(const struct prn_session *session, uint64_t model_id, const char *name,
                          const struct prn_blob *blob, const bool *skip) PRN_HOLDS(prn_service);
void prn_keep_load_locked(const struct prn_session *session,
                          const OctomlProfile__LoadModelRequest *request) PRN_HOLDS(prn_service);
void prn_keep_end_locked(const struct prn_session *session) PRN_HOLDS(prn_service);
/* At the start: those of the process before. */
PRONY_MUST_CHECK int prn_keep_restore_locked(struct prn_service *s, struct prony_error *err)
    PRN_HOLDS(prn_service);

/* models.c */

/* A file from the cache becomes a part of a model. */
PRONY_MUST_CHECK int prn_model_attach_locked(struct prn_session *session, uint64_t model_id,
                                             char *name, const bool *skip, struct prn_blob *blob,
                                             struct prony_error *err) PRN_HOLDS(prn_service);

/* NULL: there is none. */
struct prn_session_model *prn_model_find_locked(const struct prn_session *session, uint64_t id)
    PRN_HOLDS(prn_service);
/* Makes the session's folder, if it isn't there. */
PRONY_MUST_CHECK int prn_session_folder_locked(struct prn_session *session, struct prony_error *err)
    PRN_HOLDS(prn_service);
/* Puts files of a model where the backend finds them. `ret_path` is the model's own. A
 * list of files only grows at its head, so a head that was read once is a list for good. */
PRONY_MUST_CHECK int prn_model_place(const struct prn_session *session,
                                     const struct prn_session_file *files, uint64_t model_id,
                                     size_t backend, int format, char ret_path[PATH_MAX],
                                     struct prony_error *err);
void prn_models_free(struct prn_session *session) PRN_ALONE;
/* Which backends the mask leaves out; false: the call was refused. */
bool prn_skip_mask(struct prn_rpc_call *call, const struct prn_session *session,
                   const uint8_t *mask, size_t length, bool *skip);

void prn_upload_begin(struct prn_rpc_call *call, struct prn_bytes *message);
void prn_upload_message(struct prn_rpc_call *call, struct prn_bytes *message);
void prn_upload_ended(struct prn_rpc_call *call, bool cancelled);
void prn_load_cached(struct prn_rpc_call *call, struct prn_bytes *message);

/* tasks.c */

/* What was loaded before a restart is loaded again; later tasks wait for it. */
void prn_tasks_reload_locked(struct prn_session *session) PRN_HOLDS(prn_service);
void prn_load_model(struct prn_rpc_call *call, struct prn_bytes *message);
void prn_run(struct prn_rpc_call *call, struct prn_bytes *message);
void prn_runs_begin(struct prn_rpc_call *call, struct prn_bytes *message);
void prn_runs_message(struct prn_rpc_call *call, struct prn_bytes *message);
void prn_runs_sent(struct prn_rpc_call *call, bool ok);
void prn_measure_model(struct prn_rpc_call *call, struct prn_bytes *message);
void prn_task_sent(struct prn_rpc_call *call, bool ok);
void prn_task_ended(struct prn_rpc_call *call, bool cancelled);
/* Without the lock: answers those whose last part is done (prn_service_unlock). */
void prn_tasks_answer(struct prn_task *done) PRN_ALONE;
/* The last in line of its host. */
void prn_part_wait_locked(struct prn_part *part) PRN_HOLDS(prn_service);
/* The first in line is `now`; NULL: there is none. */
struct prn_part *prn_part_take_locked(struct prn_held *held) PRN_HOLDS(prn_service);
/* `now` is the first in line again. */
void prn_part_put_back_locked(struct prn_part *part) PRN_HOLDS(prn_service);
/* Whether a backend is to work, which is prn_part_backend(). Others are passed over. */
bool prn_part_next_locked(struct prn_part *part) PRN_HOLDS(prn_service);
/* Nothing is left to do, and `now` is nothing. */
void prn_part_end_locked(struct prn_part *part) PRN_HOLDS(prn_service);
/* Which backend of the host's is next: they take turns in coming first. */
size_t prn_part_backend(const struct prn_part *part);
/* All that the part would still do. */
void prn_part_fail_all_locked(struct prn_part *part, int code, const char *text)
    PRN_HOLDS(prn_service);
/* What went wrong on a backend, without paths. */
void prn_task_fail(struct prn_part *part, size_t backend, int code, const char *text);
/* An event of a measurement; it stays the caller's. */
void prn_task_event_locked(struct prn_part *part, const Prony__MeasureEvent *report)
    PRN_HOLDS(prn_service);
/* Everything that a session's host had to do fails: it is lost, or the session closed. */
void prn_held_abandon_locked(struct prn_held *held, int code, const char *text)
    PRN_HOLDS(prn_service);

#endif
