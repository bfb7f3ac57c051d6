#include "service/web/view.h"

#include "service/web/http.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static unsigned send_page(struct prn_http_request *request, void *context, struct prn_buffer *out)
{
    (void)request;
    const struct prn_view_options *options = context;
    prn_buffer_append(out, options->page, options->length);
    return 200;
}

static const struct prn_http_route routes[] = {
    {.path = "/", .media = "text/html; charset=utf-8", .page = send_page},
    {0},
};

/* Loopback only: what is shown is the user's own business, and nobody signs in. */
static int check(const struct prn_view_options *options, struct prony_error *err)
{
    static const char *const places[] = {"127.0.0.1:", "localhost:", "[::1]:"};
    bool local = false;
    for (size_t i = 0; i < PRN_ARRAY_SIZE(places); i++)
        local |= strncmp(options->address, places[i], strlen(places[i])) == 0;
    if (!local)
        return prn_fail(err, PRONY_EUSAGE,
                        "'%s' is not an address of this machine alone, such as 127.0.0.1:8080",
                        options->address);
    if (options->length > PRN_HTTP_PAGE_MAX)
        return prn_fail(err, PRONY_ELIMIT, "the page has %zu MB; view fewer files at a time",
                        options->length >> 20);
    return 0;
}

/* "http://127.0.0.1:8080/", with the port that it got. */
static void tell(const struct prn_view_options *options, const struct prn_http *http)
{
    char url[64];
    int host = (int)(strrchr(options->address, ':') - options->address);
    snprintf(url, sizeof url, "http://%.*s:%d/", host, options->address, prn_http_port(http));
    options->ready(url);
}

int prn_view_serve(const struct prn_view_options *options, struct prony_error *err)
{
    static const int ending[] = {SIGINT, SIGTERM, SIGHUP};
    struct prn_view_options copy = *options;
    struct prn_http *http;
    sigset_t signals;
    sigset_t former;
    int code = check(options, err);
    if (code < 0)
        return code;
    /* Blocked before there are threads, so that it is this one that gets them. */
    sigemptyset(&signals);
    for (size_t i = 0; i < PRN_ARRAY_SIZE(ending); i++)
        sigaddset(&signals, ending[i]);
    pthread_sigmask(SIG_BLOCK, &signals, &former);
    const struct prn_http_config config = {.address = options->address,
                                           .routes = routes,
                                           .context = &copy,
                                           .policy = options->policy,
                                           .loopback_only = true};
    code = prn_http_start(&config, &http, err);
    if (code == 0) {
        int number;
        tell(options, http);
        sigwait(&signals, &number);
        prn_http_stop(http);
    }
    pthread_sigmask(SIG_SETMASK, &former, NULL);
    return code;
}
