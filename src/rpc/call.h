/*
 * A call on the server, from the moment that gRPC is asked for one.
 *
 * Events of a call, what gRPC has done for it, are handed to its method's functions one after
 * another: the thread that gets an event while another one is busy with the call leaves it to that
 * one. No lock is held while gRPC or a method's function runs, because either may call back.
 */
#ifndef PRN_RPC_CALL_H
#define PRN_RPC_CALL_H

#include "rpc/core.h"
#include "rpc/server.h"

#include <pthread.h>
#include <stdatomic.h>

enum prn_call_event {
    PRN_CALL_BEGUN,
    PRN_CALL_CLOSED, /* the last thing that gRPC says, after finishing or cancellation */
    PRN_CALL_READ,
    PRN_CALL_SENT,
    PRN_CALL_FINISHED,
    PRN_CALL_EVENTS,
};

/* What a batch is known by. */
struct prn_call_tag {
    struct prn_rpc_call *call;
    enum prn_call_event event;
};

/* A method as gRPC knows it; `handle` NULL: any that isn't in the table. */
struct prn_call_slot {
    const struct prn_method *method;
    void *handle;
};

struct prn_call_entry {
    const char *key, *value;
};

struct prn_rpc_call {
    struct prn_server *server;
    const struct prn_call_slot *slot;
    const struct prn_method *method; /* the slot's, or one that refuses */
    grpc_call *core;                 /* NULL when the call has ended */
    void *data;
    atomic_size_t refs;

    gpr_timespec deadline;
    grpc_metadata_array received;
    grpc_call_details details; /* of a method that isn't in the table */
    char *peer;
    char user[68];
    int64_t begun_ns;
    char *text; /* holds the entries' texts */
    struct prn_call_entry *entries;
    size_t n_entries;

    pthread_mutex_t lock; /* guards what follows */
    bool busy;            /* a thread hands events to the method */
    unsigned outstanding; /* events that gRPC will tell, as bits */
    unsigned pending;     /* events to hand on, as bits */
    bool closed, finished;
    bool close_asked;       /* whether the client is still there, of gRPC */
    bool close_with_finish; /* PRN_CALL_FINISHED tells that too */
    bool read_failed, send_failed;

    int cancelled; /* written by gRPC until PRN_CALL_CLOSED */
    grpc_byte_buffer *message;
    /* To be sent first, in the order in which they came; gRPC needs it until it is sent. */
    grpc_metadata *metadata;
    size_t n_metadata;
    bool metadata_sent;
    /* How the call ends, kept while a message is still being sent. */
    grpc_byte_buffer *last;
    enum prn_status status;
    grpc_slice status_text;

    struct prn_call_tag tags[PRN_CALL_EVENTS];
};

struct prn_watcher;

/* An address with TLS. */
struct prn_server_port {
    struct prn_server *server;
    unsigned version; /* of the certificate that gRPC was told last */
    struct prn_server_port *next;
};

struct prn_server {
    struct prn_server_config config;
    grpc_server *core;
    grpc_completion_queue *queue;
    struct prn_call_slot *slots; /* the table's methods, the health service's, any other */
    size_t n_slots;
    pthread_t *threads;
    size_t n_threads;
    struct prn_call_tag stopped_tag;

    atomic_bool polling;  /* a thread waits for gRPC */
    int timer;            /* wakes another one */
    int64_t timer_set_ns; /* of the thread that polls */

    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    size_t n_calls; /* begun and not ended */
    bool stopped;   /* gRPC has said so */
    char *certificate, *key;
    unsigned tls_version; /* counts up with each certificate */
    struct prn_server_port *ports;

    pthread_mutex_t health_lock; /* guards what follows */
    bool serving;
    struct prn_watcher *watchers;
};

/* Asks gRPC for the next call of a method. */
void prn_call_request(struct prn_server *server, const struct prn_call_slot *slot);

/* An event of a call has come, from one of the server's threads. */
void prn_call_event(struct prn_call_tag *tag, bool ok);

/* Refuses what isn't in the table. */
extern const struct prn_method prn_call_unknown;

/* The health service, answered by the server: a table like any other. */
extern const struct prn_method prn_health_methods[];

#endif
