/*
 * grpc.health.v1.Health. Its messages have one field each: the name of a service, and a state; they
 * are read and written here by hand.
 */
#include "rpc/call.h"

#include <stdlib.h>
#include <string.h>

#define NAME_MAX_BYTES ((size_t)1 << 10)

enum state {
    STATE_SERVING = 1,
    STATE_NOT_SERVING = 2,
    STATE_SERVICE_UNKNOWN = 3,
};

/* A call of Watch, in a list of the server's. */
struct prn_watcher {
    struct prn_watcher *next;
    struct prn_rpc_call *call;
    bool known;   /* the service that is watched */
    bool sending; /* a state is under way */
    enum state told;
};

/* The name in HealthCheckRequest, "" when it has none; false: it isn't such a message. */
static bool read_name(struct prn_bytes *message, char name[NAME_MAX_BYTES])
{
    uint8_t data[NAME_MAX_BYTES];
    size_t length = prn_bytes_length(message);
    bool fits = length < sizeof data;
    if (fits)
        prn_bytes_copy(message, (struct prn_range){0, length}, data);
    prn_bytes_free(message);
    name[0] = '\0';
    if (!fits)
        return false;
    if (length == 0)
        return true;
    /* Field 1, bytes; then a length of one or two bytes of seven bits. */
    size_t announced = length > 1 ? data[1] : 0;
    size_t start = 2;
    if (announced >= 0x80 && length > 2) {
        announced = (announced & 0x7f) | (size_t)data[2] << 7;
        start = 3;
    }
    if (data[0] != 0x0a || length < start || announced != length - start ||
        memchr(data + start, 0, announced))
        return false;
    memcpy(name, data + start, announced);
    name[announced] = '\0';
    return true;
}

static struct prn_out *write_state(enum state state)
{
    struct prn_out *out = prn_out_new();
    prn_out_copy(out, (uint8_t[]){0x08, (uint8_t)state}, 2);
    return out;
}

/* "" is the server, the others are what stands before the last slash of a method. */
static bool is_known(const struct prn_server *server, const char *name)
{
    size_t length = strlen(name);
    if (length == 0)
        return true;
    for (size_t i = 0; i < server->n_slots; i++) {
        const char *method = server->slots[i].method->name;
        if (method[0] == '/' && strncmp(method + 1, name, length) == 0 && method[length + 1] == '/')
            return true;
    }
    return false;
}

static void check(struct prn_rpc_call *call, struct prn_bytes *message)
{
    struct prn_server *server = call->server;
    char name[NAME_MAX_BYTES];
    if (!read_name(message, name)) {
        prn_rpc_call_fail(call, PRN_STATUS_INVALID_ARGUMENT, "not a HealthCheckRequest");
        return;
    }
    if (!is_known(server, name)) {
        prn_rpc_call_fail(call, PRN_STATUS_NOT_FOUND, "unknown service");
        return;
    }
    pthread_mutex_lock(&server->health_lock);
    bool serving = server->serving;
    pthread_mutex_unlock(&server->health_lock);
    prn_rpc_call_finish(call, write_state(serving ? STATE_SERVING : STATE_NOT_SERVING));
}

/* Whether the watcher has to be told of a state; then it counts as told. The lock is held. */
static bool news(struct prn_server *server, struct prn_watcher *watcher)
{
    enum state state = server->serving ? STATE_SERVING : STATE_NOT_SERVING;
    if (!watcher->known)
        state = STATE_SERVICE_UNKNOWN;
    if (watcher->sending || watcher->told == state)
        return false;
    watcher->told = state;
    watcher->sending = true;
    return true;
}

static void watch(struct prn_rpc_call *call, struct prn_bytes *message)
{
    struct prn_server *server = call->server;
    char name[NAME_MAX_BYTES];
    struct prn_watcher *watcher = calloc(1, sizeof *watcher);
    bool read = read_name(message, name);
    if (!read || !watcher) {
        free(watcher);
        prn_rpc_call_fail(call, read ? PRN_STATUS_RESOURCE_EXHAUSTED : PRN_STATUS_INVALID_ARGUMENT,
                          read ? "out of memory" : "not a HealthCheckRequest");
        return;
    }
    watcher->call = call;
    watcher->known = is_known(server, name);
    prn_rpc_call_set_data(call, watcher);
    pthread_mutex_lock(&server->health_lock);
    watcher->next = server->watchers;
    server->watchers = watcher;
    news(server, watcher);
    enum state state = watcher->told;
    pthread_mutex_unlock(&server->health_lock);
    prn_rpc_call_send(call, write_state(state));
}

/* The state may have changed while the last one was under way. */
static void watch_sent(struct prn_rpc_call *call, bool ok)
{
    struct prn_watcher *watcher = prn_rpc_call_data(call);
    pthread_mutex_lock(&call->server->health_lock);
    watcher->sending = false;
    bool again = ok && news(call->server, watcher);
    enum state state = watcher->told;
    pthread_mutex_unlock(&call->server->health_lock);
    if (again)
        prn_rpc_call_send(call, write_state(state));
}

static void watch_ended(struct prn_rpc_call *call, bool cancelled)
{
    (void)cancelled;
    struct prn_watcher *watcher = prn_rpc_call_data(call);
    if (!watcher)
        return;
    pthread_mutex_lock(&call->server->health_lock);
    struct prn_watcher **at = &call->server->watchers;
    while (*at != watcher)
        at = &(*at)->next;
    *at = watcher->next;
    pthread_mutex_unlock(&call->server->health_lock);
    free(watcher);
}

const struct prn_method prn_health_methods[] = {
    {.name = "/grpc.health.v1.Health/Check", .kind = PRN_METHOD_UNARY, .begin = check},
    {.name = "/grpc.health.v1.Health/Watch",
     .kind = PRN_METHOD_SERVER_STREAM,
     .begin = watch,
     .sent = watch_sent,
     .ended = watch_ended},
    {0},
};

void prn_server_set_serving(struct prn_server *server, bool serving)
{
    pthread_mutex_lock(&server->health_lock);
    server->serving = serving;
    for (;;) {
        struct prn_watcher *watcher = server->watchers;
        while (watcher && !news(server, watcher))
            watcher = watcher->next;
        if (!watcher)
            break;
        /* Sending under the lock would hold up whoever is told of what was sent. */
        struct prn_rpc_call *call = prn_rpc_call_ref(watcher->call);
        enum state state = watcher->told;
        pthread_mutex_unlock(&server->health_lock);
        prn_rpc_call_send(call, write_state(state));
        prn_rpc_call_unref(call);
        pthread_mutex_lock(&server->health_lock);
    }
    pthread_mutex_unlock(&server->health_lock);
}
