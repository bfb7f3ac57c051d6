/*
 * The client's side of gRPC: blocking calls with a limit on time and a way to end them. A channel
 * may be used by several threads; a stream by one that sends and one that receives.
 *
 * Errors of the service become PRONY_E… by prn_status_code(), and its text is the error's; the code
 * itself is in `ret_status` where one is asked for. A service that can't be reached, or that goes
 * away, is PRONY_EUNAVAILABLE and names the address.
 */
#ifndef PRN_RPC_CLIENT_H
#define PRN_RPC_CLIENT_H

#include "rpc/bytes.h"
#include "rpc/server.h"

struct prn_channel;

struct prn_channel_config {
    const char *address; /* "host:port" or "unix:/path" */
    bool tls;
    const char *ca;    /* PEM of who signs the service's certificate; NULL: the system's */
    const char *token; /* sent as "authorization: Bearer …"; NULL: none */
    const volatile int *cancelled; /* becomes non-zero to end waiting; NULL: never */
    /* Asked by whoever waits, now and then; not 0 ends waiting, too. NULL: nobody. */
    int (*interrupted)(void *context);
    void *context;
};

PRONY_MUST_CHECK int prn_channel_open(const struct prn_channel_config *config,
                                      struct prn_channel **ret_channel, struct prony_error *err);
void prn_channel_close(struct prn_channel *channel); /* NULL does nothing */

/* Sent with every later call of the channel; the value NULL takes it away. Copied. */
PRONY_MUST_CHECK int prn_channel_set_metadata(struct prn_channel *channel, const char *key,
                                              const char *value, struct prony_error *err);

/* What came with an answer, and is wanted. */
struct prn_answer {
    enum prn_status status;
    char cookie[512]; /* "set-cookie" of the initial metadata; "": none */
};

/* A call of one message and one answer. `out` is consumed, whatever is returned; `answer` may be
 * NULL. */
PRONY_MUST_CHECK int prn_channel_call(struct prn_channel *channel, const char *method,
                                      struct prn_out *out, double timeout_s,
                                      struct prn_bytes **ret_reply, struct prn_answer *answer,
                                      struct prony_error *err);

struct prn_stream;

/* Any other call. `timeout_s` is for all of it; 0: none. */
PRONY_MUST_CHECK int prn_stream_open(struct prn_channel *channel, const char *method,
                                     double timeout_s, struct prn_stream **ret_stream,
                                     struct prony_error *err);
/* Waits until the message is under way, at most `timeout_s` (0: as long as the stream); `out` is
 * consumed. When the service has ended the call, the error is its. */
PRONY_MUST_CHECK int prn_stream_send(struct prn_stream *stream, struct prn_out *out,
                                     double timeout_s, struct prony_error *err);
/* No more will be sent. */
PRONY_MUST_CHECK int prn_stream_end(struct prn_stream *stream, struct prony_error *err);
/* The next message; NULL at the end, when the call has ended well. `timeout_s`: 0: as long as the
 * stream; PRONY_ETIMEDOUT leaves the stream as it is, and the message will come to a later call. */
PRONY_MUST_CHECK int prn_stream_receive(struct prn_stream *stream, double timeout_s,
                                        struct prn_bytes **ret_message, struct prony_error *err);
/* Sends a message and waits for one: a question and its answer, for less than the two above cost.
 * In a stream in which nothing else is done. After a failure it can only be freed. */
PRONY_MUST_CHECK int prn_stream_ask(struct prn_stream *stream, struct prn_out *out,
                                    double timeout_s, struct prn_bytes **ret_message,
                                    struct prony_error *err);
/* Of a call that has failed: what the service said. */
enum prn_status prn_stream_status(const struct prn_stream *stream);
/* Ends the call from any thread: whoever waits in it returns PRONY_ECANCELED. */
void prn_stream_cancel(struct prn_stream *stream);
void prn_stream_free(struct prn_stream *stream); /* cancels it first; NULL does nothing */

#endif
