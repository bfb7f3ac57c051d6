/*
 * A small HTTP server: a table of pages. What is quick is answered by its one thread; what waits
 * for the disk or computes for long is done in lanes, a thread each, while the connection waits. A
 * client that is slow, sends rubbish or holds connections open costs a bounded amount of memory and
 * is cut off.
 *
 * What the server itself refuses is a line of text, and below "/api/" a JSON object, {"error": …}.
 */
#ifndef PRN_SERVICE_WEB_HTTP_H
#define PRN_SERVICE_WEB_HTTP_H

#include "base/buffer.h"

struct prn_http_request;
/* Fills `out` and returns the HTTP status, 200 if all is well. */
typedef unsigned prn_http_page(struct prn_http_request *request, void *context,
                               struct prn_buffer *out);

enum prn_http_lane {
    PRN_HTTP_AT_ONCE, /* by the server's thread; it must not block */
    PRN_HTTP_DISK,    /* reads a little */
    PRN_HTTP_LONG,    /* reads much, and computes */
    PRN_HTTP_LANES,
};

struct prn_http_route {
    const char *path;  /* "/metrics" */
    const char *media; /* "text/plain; charset=utf-8" */
    prn_http_page *page;
    enum prn_http_lane lane;
    bool post; /* POST with a body, instead of GET and HEAD */
    bool open; /* whatever host was asked for, and also where the rest is refused */
};

/* A parameter, header or cookie of the request; NULL: none. */
const char *prn_http_parameter(const struct prn_http_request *request, const char *name);
const char *prn_http_header(const struct prn_http_request *request, const char *name);
const char *prn_http_cookie(const struct prn_http_request *request, const char *name);
/* Of a POST, with a NUL behind it that `ret_length` doesn't count. */
const char *prn_http_body(const struct prn_http_request *request, size_t *ret_length);
/* The other end, as gRPC would say it: "ipv4:127.0.0.1:40112", "ipv6:%5B::1%5D:40112"; "" if it
 * isn't known. Returns the port of this end. */
#define PRN_HTTP_PEER_SIZE 80
int prn_http_peer(const struct prn_http_request *request, char ret_peer[PRN_HTTP_PEER_SIZE]);

/* For the answer: its type instead of the route's, its Content-Security-Policy instead of the
 * server's, and one more header. All but the last header's value must outlive the server. */
#define PRN_HTTP_VALUE_SIZE 256
void prn_http_set_media(struct prn_http_request *request, const char *media);
void prn_http_set_policy(struct prn_http_request *request, const char *policy);
void prn_http_set_header(struct prn_http_request *request, const char *name, const char *value);

struct prn_http;

struct prn_http_tls {
    const char *certificate, *key; /* PEM */
};

struct prn_http_config {
    const char *address;                 /* "127.0.0.1:9464", "[::1]:0" */
    const struct prn_http_route *routes; /* ending in a NULL path; must outlive the server */
    void *context;
    const char *policy; /* Content-Security-Policy of all answers; NULL: none */
    /* Refuses requests for another host than this machine: those of a page that made a browser
     * believe that its own name is here. */
    bool loopback_only;
    const char *refusal;            /* why there is nothing but what is open; NULL: there is */
    const struct prn_http_tls *tls; /* NULL: without */
};

/* Most that a page may have, that a client may send, and that it may take to do so. */
#define PRN_HTTP_PAGE_MAX ((size_t)64 << 20)
#define PRN_HTTP_BODY_MAX ((size_t)4 << 10)
#define PRN_HTTP_BODY_MAX_S 10

PRONY_MUST_CHECK int prn_http_start(const struct prn_http_config *config,
                                    struct prn_http **ret_http, struct prony_error *err);
int prn_http_port(const struct prn_http *http);
/* Of a server with TLS: new connections get another certificate, those that are there end. */
PRONY_MUST_CHECK int prn_http_set_tls(struct prn_http *http, const struct prn_http_tls *tls,
                                      struct prony_error *err);
void prn_http_stop(struct prn_http *http); /* waits for pages under way; NULL does nothing */

#endif
