/*
 * Inside the service: what its rooms share.
 *
 *     config/   the configuration: read, checked, compared with the one before
 *     store/    what survives a restart: tokens, uploads, history, accounts, open sessions
 *     session/  sessions: the queue, leases, models, and the calls that hosts work on
 *     host/     workers that are connected, and the service's own
 *     slurm/    workers in jobs of Slurm, which come and go with those who wait
 *     web/      HTTP: the page, sign-ins, metrics
 *
 * and beside them `service` (set-up, timer, reload, drain), `access` (who calls), `lists` (what
 * there is), `known` (what there was), `status` (how it is), `admin` (what an administrator
 * orders), `bookings` (reservations), `usage` (what users had), `watch` (metrics), `log`, `audit`,
 * and `pool`, the threads for disk work.
 *
 * One lock guards all that changes. It is never held while something is waited for: the network's
 * threads answer and go, disk work is the pool's, and each host of this machine has a thread of its
 * own that waits for its executors. No function gives the lock up for its caller: calls that are to
 * be answered without it stand in a list, and prn_service_unlock() answers them.
 */
#ifndef PRN_SERVICE_SERVICE_H
#define PRN_SERVICE_SERVICE_H

#include "service/config/config.h"
#include "base/clock.h"
#include "service/log.h"
#include "service/pool.h"
#include "service/session/lease.h"
#include "service/store/tokens.h"

#include "base/lock.h"
#include "rpc/server.h"

#include <limits.h>
#include <protobuf-c/protobuf-c.h>
#include <pthread.h>
#include <sys/queue.h>

#define PRN_SESSION_BUCKETS 4096
#define PRN_NOTICE_SIZE 1024
#define PRN_ENDED_KEPT 256

struct prn_accounts;
struct prn_audit;
struct prn_blobs;
struct prn_history;
struct prn_host;
struct prn_http;
struct prn_known_hardware;
struct prn_late;
struct prn_list_wait;
struct prn_lasting;
struct prn_local;
struct prn_meter;
struct prn_metrics;
struct prn_pool;
struct prn_queue;
struct prn_reserved;
struct prn_queue_hardware;
struct prn_session;
struct prn_signins;
struct prn_slurm;
struct prn_state;
struct prn_task;
struct prn_tries;
struct prn_unbooked;

/* The lock of the service, and what it guards. */
PRN_LOCK(prn_service);
PRN_LOCK(prn_seen);
#define PRN_LOCKED PRN_GUARDED(prn_service)

/* Calls that a session answers later. */
enum prn_ask_kind {
    PRN_ASK_READY, /* WaitUntilSessionReady */
    PRN_ASK_CLOSE, /* CloseSession, until the hosts are back */
};
#define PRN_ASK_KINDS 2

TAILQ_HEAD(prn_session_list, prn_session);

TAILQ_HEAD(prn_host_list, prn_host);

struct prn_service {
    pthread_mutex_t lock;
    pthread_cond_t wake;         /* of the timer */
    int64_t timer_ns PRN_LOCKED; /* when it looks again by itself */
    struct prn_config config PRN_LOCKED;
    bool tls; /* of the configuration, what doesn't change: read without the lock */
    const struct prn_serve_options *options;
    struct prn_state *state;
    struct prn_tokens *tokens;
    struct prn_blobs *blobs;
    struct prn_history *history;
    struct prn_accounts *accounts;
    struct prn_lasting *lasting; /* sessions for the next process; NULL: none are kept */
    struct prn_job_line lasting_line;
    bool restoring PRN_LOCKED;                /* those of the process before aren't back yet */
    struct prn_unbooked *unbooked PRN_LOCKED; /* usage.c: not in the accounts yet */
    size_t n_unbooked PRN_LOCKED;
    struct prn_reserved *reserved PRN_LOCKED; /* bookings.c: by when they begin */
    struct prn_log *log;
    struct prn_audit *audit; /* NULL: none is kept */
    struct prn_metrics *metrics;
    struct prn_http *http;
    struct prn_signins *signins;
    char page[300]; /* its URL; "": there is no page */
    struct prn_server *server;
    int *ports; /* where it listens; in the configuration's arena */
    size_t n_ports;
    struct prn_pool *pool;
    struct prn_queue *queue PRN_LOCKED;
    struct prn_leases leases PRN_LOCKED;
    struct prn_leases times PRN_LOCKED; /* limits of time of sessions */
    int sessions_fd;
    char sessions_folder[PATH_MAX];
    char cache[PATH_MAX];          /* folder of what its one user's compilers made; "": none */
    char worker_address[PATH_MAX]; /* where workers of this machine connect */
    struct prn_session *buckets[PRN_SESSION_BUCKETS] PRN_LOCKED;
    size_t n_sessions PRN_LOCKED;               /* in the table */
    struct prn_session_list closing PRN_LOCKED; /* not in it, but not gone either */
    /* What the timer looks at, so that it needn't look at all sessions and hosts: each list is in
     * order of time, so the first in it is the first that is due. */
    struct prn_session_list asks[PRN_ASK_KINDS] PRN_LOCKED;
    struct prn_host_list silent PRN_LOCKED, ending PRN_LOCKED;
    struct prn_host *hosts PRN_LOCKED;
    struct prn_local *locals PRN_LOCKED;
    struct prn_task *done PRN_LOCKED, **done_end PRN_LOCKED; /* to be answered without the lock */
    struct prn_slurm *slurm;                                 /* jobs that bring hosts */
    struct prn_known_hardware *known;
    struct prn_list_wait *list_waits PRN_LOCKED; /* lists that are asked for (lists.c) */
    int64_t pools_ns PRN_LOCKED;                 /* when pools were last started */
    size_t n_threads PRN_LOCKED;                 /* of hosts */
    pthread_mutex_t seen_lock;
    struct prn_seen_peer {
        char peer[80];
        int64_t until_ns;
    } seen[64] PRN_GUARDED(prn_seen); /* connections of this user (access.c) */
    struct prn_old_config {
        struct prn_config config;
        struct prn_old_config *next;
    } * old_configs;                  /* whose texts may still be in use */
    struct prn_tries *tries;          /* wrong tokens, by address */
    struct prn_late *late PRN_LOCKED; /* answers to them that are held back (access.c) */
    size_t n_late PRN_LOCKED;
    bool draining PRN_LOCKED;                /* takes no new sessions */
    bool stopping PRN_LOCKED;                /* starts no workers */
    bool ended PRN_LOCKED;                   /* the timer's end */
    int64_t start_ns, start_ms;              /* the same moment, since 1970 */
    uint64_t n_attached PRN_LOCKED;          /* workers, ever */
    char notice[PRN_NOTICE_SIZE] PRN_LOCKED; /* an administrator's, to all; "": none */
    /* Of the last sessions that ended, why: their clients ask. */
    struct prn_ended {
        uint8_t id[16];
        char why[96];
    } ended_last[PRN_ENDED_KEPT] PRN_LOCKED;
    size_t n_ended PRN_LOCKED; /* ever */
    struct {
        struct prn_meter *created, *uploads, *uploaded, *lost, *runs, *slowed;
        struct prn_metric *ended, *granted, *tasks, *deaths, *refused, *tokens, *certificates;
    } counted;
};

PRN_LOCK_FUNCTIONS(prn_seen, struct prn_service, seen_lock)

/* access.c */

/* Who calls; false: the call was refused, and is finished. */
bool prn_access(struct prn_rpc_call *call, struct prn_identity *ret_identity);
bool prn_access_worker(struct prn_rpc_call *call, struct prn_identity *ret_identity);
/* Without TLS the service is its user's own: a connection of that user's within this machine needs
 * no token, and whoever else is on the machine is kept out. Who may use a socket in the file system
 * is for its folder to say. `peer` is as gRPC says it, `ports` are those it may have come to. */
bool prn_access_own(struct prn_service *s, const char *peer, const int *ports, size_t n_ports,
                    struct prn_identity *ret_identity);
/* Answers those that were held back long enough; returns when to look again. */
int64_t prn_access_tick_locked(struct prn_service *s, int64_t now_ns) PRN_HOLDS(prn_service);
/* Finishes the call with what the error says, without paths. */
void prn_refuse(struct prn_rpc_call *call, enum prn_status status, const char *format, ...)
    PRN_PRINTF(3, 4);
/* Unpacks, or refuses the call and returns NULL. Consumes the message. */
void *prn_unpack(struct prn_rpc_call *call, struct prn_bytes *message,
                 const ProtobufCMessageDescriptor *type);
/* The same of a user's call, and who that is. */
void *prn_request(struct prn_rpc_call *call, struct prn_bytes *message,
                  const ProtobufCMessageDescriptor *type, struct prn_identity *ret_identity);
/* Packs, and finishes the call. */
void prn_reply(struct prn_rpc_call *call, const ProtobufCMessage *message);

/* lists.c */

void prn_ping(struct prn_rpc_call *call, struct prn_bytes *message);
void prn_list_backends(struct prn_rpc_call *call, struct prn_bytes *message);
/* Whether a session can have the backend, and if not, why. */
PRONY_MUST_CHECK int prn_backend_check_locked(struct prn_service *s, const struct prn_spec *spec,
                                              struct prony_error *err) PRN_HOLDS(prn_service);

/* Answers lists that wait for workers to say what they have; returns when to look again. */
int64_t prn_lists_tick_locked(struct prn_service *s, int64_t now_ns) PRN_HOLDS(prn_service);

/* status.c */

void prn_status(struct prn_rpc_call *call, struct prn_bytes *message);
/* Why nobody gets a host of it now, where that isn't the queue; NULL: nothing is to be said. */
char *prn_hardware_note_locked(const struct prn_service *s, const struct prn_queue_hardware *counts,
                               struct prn_arena *arena) PRN_HOLDS(prn_service);
/* Without the lock: the same as JSON, for the page. */
PRONY_MUST_CHECK int prn_status_write(struct prn_service *s, const struct prn_identity *identity,
                                      const char *signed_in_by, struct prn_buffer *out,
                                      struct prony_error *err);

/* admin.c */

struct prn_admin_order {
    const char *action;        /* of the table there */
    const char *target, *text; /* NULL: none */
    /* Of a reservation. */
    const char *user;
    int64_t from_ms, to_ms; /* since 1970 */
    uint64_t hosts;         /* 0: one */
};

void prn_admin(struct prn_rpc_call *call, struct prn_bytes *message);
/* Without the lock: for an administrator; PRONY_EDENIED for others. Appends a line, without its
 * end, that says what was done. */
PRONY_MUST_CHECK int prn_admin_do(struct prn_service *s, const struct prn_identity *who,
                                  const char *from, const struct prn_admin_order *what,
                                  struct prn_buffer *done, struct prony_error *err);

/* bookings.c: reservations */

/* Without the lock: `prony admin reserve` and `cancel`. */
PRONY_MUST_CHECK int prn_booking_make(struct prn_service *s, const struct prn_admin_order *order,
                                      struct prn_buffer *done, struct prony_error *err);
PRONY_MUST_CHECK int prn_booking_cancel(struct prn_service *s, const struct prn_admin_order *order,
                                        struct prn_buffer *done, struct prony_error *err);
/* Those in the database that aren't over, at the start. */
PRONY_MUST_CHECK int prn_bookings_load_locked(struct prn_service *s, struct prony_error *err)
    PRN_HOLDS(prn_service);
void prn_bookings_free(struct prn_service *s);
/* They begin and end; returns when the next one will. */
int64_t prn_bookings_tick_locked(struct prn_service *s, int64_t now_ns) PRN_HOLDS(prn_service);
/* A worker has joined that may be reserved. */
void prn_bookings_host_locked(struct prn_host *host) PRN_HOLDS(prn_service);
/* What somebody who waits is told, in `arena`; NULL: nothing is reserved for others. */
char *prn_bookings_note_locked(struct prn_service *s, const char *hardware, const char *user,
                               struct prn_arena *arena) PRN_HOLDS(prn_service);

/* usage.c: what users had of the hosts */

void prn_usage(struct prn_rpc_call *call, struct prn_bytes *message);
void prn_usage_granted_locked(const struct prn_session *session) PRN_HOLDS(prn_service);
/* What its hosts took since they were granted, or since the last time, is its user's. */
void prn_usage_charge_locked(struct prn_session *session) PRN_HOLDS(prn_service);
void prn_usage_charge_all_locked(struct prn_service *s) PRN_HOLDS(prn_service);
/* Without the lock: what isn't in the database yet. */
void prn_usage_flush(struct prn_service *s);

/* watch.c: metrics of the service itself */

void prn_watch_start(struct prn_service *s);
/* For struct prn_server_config. */
void prn_watch_call(struct prn_rpc_call *call, enum prn_status status, const char *text,
                    int64_t took_ns);
/* The one in use, PEM; NULL: none. */
void prn_watch_certificate(struct prn_service *s, const char *pem);
/* It was read again; `error` NULL: and is in use. */
void prn_watch_reloaded(struct prn_service *s, const char *pem, const char *error);
/* For prn_tokens_watch(): `prony token` did that. */
void prn_watch_token(void *service, const char *what, const struct prn_identity *whose,
                     const char *id);
void prn_watch_granted_locked(const struct prn_session *session) PRN_HOLDS(prn_service);
/* `usd` NAN: not known. */
void prn_watch_charged_locked(struct prn_service *s, const char *user, const char *hardware,
                              double held_s, double usd) PRN_HOLDS(prn_service);
/* All of its parts are done. */
void prn_watch_task_locked(const struct prn_task *task) PRN_HOLDS(prn_service);

/* service.c */

void prn_service_lock(struct prn_service *s) PRN_TAKES(prn_service);
/* And answers the tasks that are done. */
void prn_service_unlock(struct prn_service *s) PRN_GIVES(prn_service);
/* Like pthread_cond_timedwait(), which may return early, too; INT64_MAX: for ever. False: the time
 * is up. */
bool prn_service_wait_locked(struct prn_service *s, pthread_cond_t *condition, int64_t until_ns)
    PRN_HOLDS(prn_service);
/* The timer must look by then. */
void prn_service_look_by_locked(struct prn_service *s, int64_t ns) PRN_HOLDS(prn_service);

/* `prony serve`, for struct prn_net. */
int prn_serve(const struct prn_serve_options *options, struct prony_error *err) PRN_ALONE;

/* `prony serve --backup` and `--restore`, for struct prn_net. */
int prn_backup_command(const struct prn_serve_options *options, const char *file, bool restore,
                       struct prn_buffer *out, struct prony_error *err);

#endif
