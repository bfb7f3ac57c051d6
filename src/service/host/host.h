/*
 * Hosts: workers that are connected, here and elsewhere, and the commands that they get.
 *
 * A host serves one session at a time. What a session's host has to do is a row of parts
 * (session/session.h), done one after the other.
 */
#ifndef PRN_SERVICE_HOST_HOST_H
#define PRN_SERVICE_HOST_HOST_H

#include "service/session/session.h"

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
    struct prn_queue_host *
        place PRN_GUARDED(prn_service); /* NULL before its hello PRN_LOCKED, and once it is gone */
    Prony__Hello *hello;
    int64_t connected_ns;
    uint64_t number;                  /* of all that ever said hello, from 1; 0: it hasn't */
    struct prn_held *held PRN_LOCKED; /* the session that has it */
    struct prn_local *local;          /* a worker of this machine's; NULL: elsewhere */
    pthread_cond_t work;              /* of its thread */
    bool parked PRN_LOCKED;           /* its executors are stopped, and its thread waits for work */
    int64_t worked_ns PRN_LOCKED;     /* when another thread worked for it (prn_local_work) */
    uint64_t next_id PRN_LOCKED;
    struct prn_command_wait *waits PRN_LOCKED;
    pthread_cond_t answered;
    struct prn_event *first_out PRN_LOCKED,
        *last_out PRN_LOCKED; /* commands on their way, one under way */
    bool sending PRN_LOCKED;
    bool gone PRN_LOCKED;         /* its call is over */
    bool leave PRN_LOCKED;        /* it is to leave once no session has it */
    char why[128];                /* what is known of why; "": nothing */
    size_t references PRN_LOCKED; /* the list's, its thread's */
    /* Until when it must have said hello, or answered End; 0: nothing is due. */
    int64_t due_ns PRN_LOCKED;
    TAILQ_ENTRY(prn_host) in_due; /* of those that are silent, or ending */
    struct prn_host *next PRN_LOCKED;
};

/* hosts.c */

void prn_attach_begin(struct prn_rpc_call *call, struct prn_bytes *message);
void prn_attach_message(struct prn_rpc_call *call, struct prn_bytes *message);
void prn_attach_sent(struct prn_rpc_call *call, bool ok);
void prn_attach_ended(struct prn_rpc_call *call, bool cancelled);
void prn_fetch_begin(struct prn_rpc_call *call, struct prn_bytes *message);
void prn_fetch_sent(struct prn_rpc_call *call, bool ok);
void prn_fetch_ended(struct prn_rpc_call *call, bool cancelled);

/* Gives the part to the host: its thread, or its worker. True: it has begun, and is the caller's to
 * finish (prn_local_finish). */
bool prn_host_work_locked(struct prn_held *held, struct prn_part *part) PRN_HOLDS(prn_service);
/* What a measurement asks for that the worker, of an older version, can't do; NULL: nothing. */
const char *prn_host_beyond_locked(const struct prn_held *held, const Prony__MeasureRequest *what)
    PRN_HOLDS(prn_service);
/* Nobody wants what is under way. */
void prn_host_cancel_locked(struct prn_held *held) PRN_HOLDS(prn_service);
/* "w3": names of hosts may be several workers'. Returns `ret_id`. */
#define PRN_HOST_ID_SIZE 24
const char *prn_host_id(const struct prn_host *host, char ret_id[PRN_HOST_ID_SIZE]);
/* The worker leaves: now, or when its session has ended. */
void prn_host_leave_locked(struct prn_host *host) PRN_HOLDS(prn_service);
/* No session has it any more. */
void prn_host_freed_locked(struct prn_host *host) PRN_HOLDS(prn_service);
/* The session is closed: what is under way is cancelled, and the host given back. */
void prn_host_end_locked(struct prn_held *held) PRN_HOLDS(prn_service);
void prn_host_send_end_locked(struct prn_held *held) PRN_HOLDS(prn_service);
/* The host is gone, and its session has to do without. */
void prn_host_lose_locked(struct prn_host *host) PRN_HOLDS(prn_service);
/* Has the worker measure; returns the command's id, 0: the host is gone. */
uint64_t prn_host_measure_locked(struct prn_part *part) PRN_HOLDS(prn_service);
/* Sends a command; `wait` says who gets the answer, and is the host's. Returns its
 * id; 0: the host is gone. */
uint64_t prn_host_command_locked(struct prn_host *host, Prony__WorkerCommand *command,
                                 const struct prn_command_wait *wait) PRN_HOLDS(prn_service);
/* Waits for the answer to a command, and the lock is free meanwhile. NULL: the host is gone, or it
 * took longer; or an error of the worker's, in `err`. */
Prony__WorkerReport *prn_host_call_locked(struct prn_host *host, Prony__WorkerCommand *command,
                                          double timeout_s, struct prony_error *err)
    PRN_HOLDS(prn_service);
/* Tells the worker of the session, if it doesn't know. */
PRONY_MUST_CHECK int prn_host_begin_locked(struct prn_held *held, struct prony_error *err)
    PRN_HOLDS(prn_service);
void prn_host_unref_locked(struct prn_host *host) PRN_HOLDS(prn_service);
/* A spec as a message, which borrows its texts; lists belong to `arena`. */
PRONY_MUST_CHECK int prn_spec_message(struct prn_arena *arena, const struct prn_spec *spec,
                                      OctomlProfile__BackendSpec *message);
int64_t prn_hosts_tick_locked(struct prn_service *s, int64_t now_ns) PRN_HOLDS(prn_service);

/* ../known.c: what hardware offered when its workers were last connected */

PRONY_MUST_CHECK int prn_known_open(struct prn_service *s, struct prony_error *err) PRN_ALONE;
void prn_known_close(struct prn_service *s) PRN_ALONE; /* when the pool has ended */
/* NULL: it never had one. */
const Prony__Hello *prn_known_find_locked(const struct prn_service *s, const char *hardware)
    PRN_HOLDS(prn_service);
/* A worker has joined, and is in the list. */
void prn_known_learn_locked(struct prn_service *s, const Prony__Hello *newest)
    PRN_HOLDS(prn_service);

/* local.c */

PRONY_MUST_CHECK int prn_locals_start_locked(struct prn_service *s, struct prony_error *err)
    PRN_HOLDS(prn_service);
/* From the thread that started them: starts those that are missing, reaps those that ended; returns
 * when to look again. */
int64_t prn_locals_tick_locked(struct prn_service *s, int64_t now_ns) PRN_HOLDS(prn_service);
void prn_locals_stop(struct prn_service *s);
/* When all threads have ended. */
void prn_locals_free(struct prn_service *s) PRN_ALONE;
/* The worker that has this key; NULL: none. */
struct prn_local *prn_local_find_locked(struct prn_service *s, const char *key)
    PRN_HOLDS(prn_service);
/* The thread of a host. */
PRONY_MUST_CHECK int prn_local_attach_locked(struct prn_host *host, struct prony_error *err)
    PRN_HOLDS(prn_service);
void prn_local_wake(struct prn_host *host);
/* Its connection has ended: should the process be left, it hangs, and is replaced. */
void prn_local_lost_locked(struct prn_host *host) PRN_HOLDS(prn_service);
/* A part was put first in line; or it wasn't, and waits. True: a quick run has begun. */
bool prn_local_work_locked(struct prn_held *held, struct prn_part *part) PRN_HOLDS(prn_service);
/* Without the lock: takes its result, unless it takes long. */
void prn_local_finish(struct prn_part *part);

#endif
