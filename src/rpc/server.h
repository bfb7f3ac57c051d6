/*
 * A gRPC server: a table of methods, and a few threads that turn what comes from the network into
 * calls of the table's functions. These functions must not block, for they hold up other calls;
 * they may leave a call unanswered and answer it later, from any thread.
 *
 * Life of a call:
 * - unary:         begin(call, message) … prn_rpc_call_finish(call, …) … ended(call)
 * - client stream: begin(call, NULL) … prn_rpc_call_read(call) → message(call, bytes) …
 * message(call, NULL) at the client's end … prn_rpc_call_finish … ended
 * - server stream: begin(call, message) … prn_rpc_call_send(call, out) → sent(call, ok) … finish …
 * ended
 * - both:          begin(call, NULL), read and send as above
 *
 * ended() comes exactly once for every begin(), after finish, or when the client has gone, its
 * deadline has passed, or the server is shut down; `cancelled` tells. Until it has been called and
 * prn_rpc_call_unref() too, the call may be used; sending or finishing one that is over does
 * nothing.
 */
#ifndef PRN_RPC_SERVER_H
#define PRN_RPC_SERVER_H

#include "rpc/bytes.h"

/* gRPC's own codes. */
enum prn_status {
    PRN_STATUS_OK = 0,
    PRN_STATUS_CANCELLED = 1,
    PRN_STATUS_UNKNOWN = 2,
    PRN_STATUS_INVALID_ARGUMENT = 3,
    PRN_STATUS_DEADLINE_EXCEEDED = 4,
    PRN_STATUS_NOT_FOUND = 5,
    PRN_STATUS_ALREADY_EXISTS = 6,
    PRN_STATUS_PERMISSION_DENIED = 7,
    PRN_STATUS_RESOURCE_EXHAUSTED = 8,
    PRN_STATUS_FAILED_PRECONDITION = 9,
    PRN_STATUS_ABORTED = 10,
    PRN_STATUS_OUT_OF_RANGE = 11,
    PRN_STATUS_UNIMPLEMENTED = 12,
    PRN_STATUS_INTERNAL = 13,
    PRN_STATUS_UNAVAILABLE = 14,
    PRN_STATUS_DATA_LOSS = 15,
    PRN_STATUS_UNAUTHENTICATED = 16,
};

struct prn_server;
struct prn_rpc_call;

/* How long a connection may be silent, pings unanswered, before it is given up. */
#define PRN_SERVER_SILENCE_MS 10000

enum prn_method_kind {
    PRN_METHOD_UNARY,
    PRN_METHOD_CLIENT_STREAM,
    PRN_METHOD_SERVER_STREAM,
    PRN_METHOD_BOTH,
};

struct prn_method {
    const char *name; /* "/octoml_profile.RemoteInference/Run" */
    enum prn_method_kind kind;
    /* `message` belongs to the function; NULL for streams of the client. */
    void (*begin)(struct prn_rpc_call *call, struct prn_bytes *message);
    /* Answers prn_rpc_call_read(); `message` belongs to the function, NULL: the client has sent
     * all. */
    void (*message)(struct prn_rpc_call *call, struct prn_bytes *message);
    /* Answers prn_rpc_call_send(); not `ok`: the call is over. May be NULL. */
    void (*sent)(struct prn_rpc_call *call, bool ok);
    /* The last one. May be NULL. */
    void (*ended)(struct prn_rpc_call *call, bool cancelled);
};

/* Certificate and key in PEM; both NULL: no TLS. */
struct prn_server_tls {
    const char *certificate, *key;
};

struct prn_server_config {
    const struct prn_method *methods; /* ending in a NULL name */
    void *service;                    /* what prn_rpc_call_service() gives */
    size_t threads;                   /* 0: 2 */
    size_t message_max;               /* bytes of one message that is accepted */
    /* Each call, once, when it is answered, or when its client has gone before:
     * PRN_STATUS_CANCELLED. Called by whoever answers, with whatever locks that has. May be NULL.
     */
    void (*finished)(struct prn_rpc_call *call, enum prn_status status, const char *text,
                     int64_t took_ns);
};

PRONY_MUST_CHECK int prn_server_new(const struct prn_server_config *config,
                                    struct prn_server **ret_server, struct prony_error *err);

/* Before start. "127.0.0.1:0", "[::1]:50051", "unix:/path"; `ret_port` is the one that it got. */
PRONY_MUST_CHECK int prn_server_listen(struct prn_server *server, const char *address,
                                       const struct prn_server_tls *tls, int *ret_port,
                                       struct prony_error *err);
/* Whether both are what they should be and belong together. `files` are where they come from, for
 * errors; NULL: not known. */
PRONY_MUST_CHECK int prn_server_check_tls(const struct prn_server_tls *tls,
                                          const struct prn_server_tls *files,
                                          struct prony_error *err);
/* Another certificate for new connections, of all addresses with TLS; open ones keep theirs. */
PRONY_MUST_CHECK int prn_server_set_tls(struct prn_server *server, const struct prn_server_tls *tls,
                                        struct prony_error *err);
PRONY_MUST_CHECK int prn_server_start(struct prn_server *server, struct prony_error *err);

/* Accepts nothing more, cancels what is left after `grace_s`, waits for every ended(), and ends the
 * threads. */
void prn_server_stop(struct prn_server *server, double grace_s);
void prn_server_free(struct prn_server *server); /* stops it first; NULL does nothing */

void *prn_rpc_call_service(const struct prn_rpc_call *call);
const struct prn_method *prn_rpc_call_method(const struct prn_rpc_call *call);

/* The call's own data, for the table's functions. */
void prn_rpc_call_set_data(struct prn_rpc_call *call, void *data);
void *prn_rpc_call_data(const struct prn_rpc_call *call);

/* A value of the client's metadata ("authorization", "cookie"); NULL: none. Lives as long as the
 * call. */
const char *prn_rpc_call_metadata(const struct prn_rpc_call *call, const char *key);
/* "ipv4:127.0.0.1:40112", for logs. */
const char *prn_rpc_call_peer(const struct prn_rpc_call *call);
/* Who calls, once that is known, for those who watch; "": not known. Cut where it is too long. */
void prn_rpc_call_set_user(struct prn_rpc_call *call, const char *user);
const char *prn_rpc_call_user(const struct prn_rpc_call *call);
/* On CLOCK_MONOTONIC, in ns; INT64_MAX: none. */
int64_t prn_rpc_call_deadline_ns(const struct prn_rpc_call *call);
bool prn_rpc_call_over(const struct prn_rpc_call *call);

/* Before the first message or finish: initial metadata. Copied. */
void prn_rpc_call_add_metadata(struct prn_rpc_call *call, const char *key, const char *value);

/* A call is kept for those who answer later. begin() may use it without. */
struct prn_rpc_call *prn_rpc_call_ref(struct prn_rpc_call *call);
void prn_rpc_call_unref(struct prn_rpc_call *call);

/* Asks for the client's next message; one at a time. */
void prn_rpc_call_read(struct prn_rpc_call *call);
/* Sends a message, which is consumed; one at a time, the next after sent(). */
void prn_rpc_call_send(struct prn_rpc_call *call, struct prn_out *out);
/* Ends the call, once: with a last message (NULL: none), or a status and text. Later ones do
 * nothing. `text` is copied; NULL: "". */
void prn_rpc_call_finish(struct prn_rpc_call *call, struct prn_out *out);
void prn_rpc_call_fail(struct prn_rpc_call *call, enum prn_status status, const char *text);

/* "OK", "NOT_FOUND". */
const char *prn_status_name(enum prn_status status);

/* Health of services as grpc.health.v1 has it, answered by the server itself; without a name: all
 * of it. */
void prn_server_set_serving(struct prn_server *server, bool serving);

/* The one mapping from prony's errors to gRPC's codes, and back. */
enum prn_status prn_status_of(int code);
int prn_status_code(enum prn_status status);

#endif
