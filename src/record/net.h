/*
 * The half of prony that talks to other machines: client, service and worker. It lives in a library
 * of its own, libprony_net.so, which is loaded when it is first needed, because gRPC alone would
 * make every start of the program ten times as long.
 */
#ifndef PRN_RECORD_NET_H
#define PRN_RECORD_NET_H

#include "base/error.h"

#include <stdbool.h>

struct prn_remote_ops; /* record/remote.h */

/* `prony serve` */
struct prn_serve_options {
    const char *config_file; /* NULL: none */
    const char *const *listen;
    size_t n_listen;
    const char *http; /* address of the page and the metrics; NULL: none */
    const char *tls_certificate, *tls_key;
    const char *state_folder; /* NULL: the user's own */
    const char *python;       /* the interpreter that has torch; NULL: as PRONY_PYTHON says */
    const char *log_format;   /* "text" or "json" */
    bool keeps_compiled;      /* for its one user, in the cache folder (instance/cache.h) */
    bool ends_with_input;     /* also ends, at once, when standard input does */
    /* Told once, when it serves: where, as a client must be told, and where its page is; NULL: it
     * has none. */
    void (*ready)(const char *const *addresses, size_t n, const char *page);
    void (*logs_json)(void); /* told once it is known that its log is JSON; may be NULL */
};

/* `prony worker` */
struct prn_worker_options {
    const char *server;
    const char *hardware;
    const char *token_file;
    const char *join_file; /* a key that is good for one worker, once; "-": standard input */
    const char *ca_file;
    bool insecure;      /* no TLS */
    const char *python; /* the interpreter that has torch; NULL: as PRONY_PYTHON says */
    double idle_s;      /* leaves after so long without a session; 0: never */
    const char
        *peers; /* where other stages of a pipeline reach it, "auto", "none"; NULL: default */
    const char *log_format; /* "text" or "json"; NULL: text */
};

/* `prony token` */
struct prn_token_options {
    const char *action; /* "add", "list" or "revoke" */
    const char *user;
    const char *state_folder;
    bool admin, worker; /* what the new token is for */
};

/* `prony view`: one page, served to this machine. */
struct prn_view_options {
    const char *address; /* "127.0.0.1:0" */
    const char *page;
    size_t length;
    const char *policy; /* Content-Security-Policy */
    /* Told once, when it is served. */
    void (*ready)(const char *url);
};

struct prn_buffer;

struct prn_net {
    const char *version;
    const struct prn_remote_ops *remote;
    /* Until a signal ends it. */
    int (*serve)(const struct prn_serve_options *options, struct prony_error *err);
    /* Saves its state to a file, or makes it of one; what was done is appended to `out`. */
    int (*backup)(const struct prn_serve_options *options, const char *file, bool restore,
                  struct prn_buffer *out, struct prony_error *err);
    int (*work)(const struct prn_worker_options *options, struct prony_error *err);
    /* A measurement for a worker, which has put a job on a descriptor. */
    int (*job)(struct prony_error *err);
    /* Until a signal ends it. */
    int (*view)(const struct prn_view_options *options, struct prony_error *err);
    /* What it has to say is appended to `out`. */
    int (*token)(const struct prn_token_options *options, struct prn_buffer *out,
                 struct prony_error *err);
};

/* The symbol that the library exports. */
#define PRN_NET_SYMBOL "prn_net"

/* Loads the library: where PRONY_NET_LIB says, beside the program or the library that asks, or in
 * the folder of the same installation. It stays loaded. */
PRONY_MUST_CHECK int prn_net_load(const struct prn_net **ret_net, struct prony_error *err);

#endif
