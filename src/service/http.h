/*
 * A small HTTP server for machines that watch the service: a table of pages, GET and HEAD only. It
 * has one thread; a client that is slow, sends rubbish or holds connections open costs a bounded
 * amount of memory and is cut off.
 */
#ifndef PRN_SERVICE_HTTP_H
#define PRN_SERVICE_HTTP_H

#include "base/buffer.h"

struct prn_http_request;
/* Fills `out` and returns the HTTP status, 200 if all is well. It must not block. */
typedef unsigned prn_http_page(const struct prn_http_request *request, void *context,
                               struct prn_buffer *out);

struct prn_http_route {
    const char *path;  /* "/metrics" */
    const char *media; /* "text/plain; charset=utf-8" */
    prn_http_page *page;
};

/* A parameter or header of the request; NULL: none. */
const char *prn_http_parameter(const struct prn_http_request *request, const char *name);
const char *prn_http_header(const struct prn_http_request *request, const char *name);

struct prn_http;

struct prn_http_config {
    const char *address;                 /* "127.0.0.1:9464", "[::1]:0" */
    const struct prn_http_route *routes; /* ending in a NULL path; must outlive the server */
    void *context;
    const char *policy; /* Content-Security-Policy of all answers; NULL: none */
    /* Refuses requests for another host than this machine: those of a page that made a browser
     * believe that its own name is here. */
    bool loopback_only;
};

/* Most that a page may have. */
#define PRN_HTTP_PAGE_MAX ((size_t)64 << 20)

PRONY_MUST_CHECK int prn_http_start(const struct prn_http_config *config,
                                    struct prn_http **ret_http, struct prony_error *err);
int prn_http_port(const struct prn_http *http);
void prn_http_stop(struct prn_http *http); /* waits for pages under way; NULL does nothing */

#endif
