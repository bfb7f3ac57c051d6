/* Who calls, and how calls are refused. */
#include "service/service.h"

#include "base/clock.h"
#include "service/peer.h"
#include "service/slurm/slurm.h"
#include "service/tries.h"
#include "service/web/metrics.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void prn_refuse(struct prn_rpc_call *call, enum prn_status status, const char *format, ...)
{
    struct prony_error err;
    va_list args;
    va_start(args, format);
    prn_vfail(&err, PRONY_EUSAGE, format, args);
    va_end(args);
    prn_rpc_call_fail(call, status, err.text);
}

void *prn_unpack(struct prn_rpc_call *call, struct prn_bytes *message,
                 const ProtobufCMessageDescriptor *type)
{
    ProtobufCMessage *unpacked = NULL;
    struct prony_error err;
    int code = prn_rpc_unpack(message, type, &unpacked, &err);
    prn_bytes_free(message);
    if (code < 0)
        prn_refuse(call, prn_status_of(code), "%s", err.text);
    return code < 0 ? NULL : unpacked;
}

void *prn_request(struct prn_rpc_call *call, struct prn_bytes *message,
                  const ProtobufCMessageDescriptor *type, struct prn_identity *ret_identity)
{
    if (prn_access(call, ret_identity))
        return prn_unpack(call, message, type);
    prn_bytes_free(message);
    return NULL;
}

void prn_reply(struct prn_rpc_call *call, const ProtobufCMessage *message)
{
    struct prn_out *out = prn_rpc_pack(message);
    if (out)
        prn_rpc_call_finish(call, out);
    else
        prn_refuse(call, PRN_STATUS_RESOURCE_EXHAUSTED, "the service is out of memory");
}

/* Asking the kernel takes longer than a small call. A connection that was this user's a moment ago
 * still is: nobody else can have its port so soon. */
#define SEEN_NS 1000000000

static bool seen(struct prn_service *s, const char *peer, bool add)
{
    size_t hash = 5381;
    for (const char *c = peer; *c; c++)
        hash = hash * 33 + (unsigned char)*c;
    struct prn_seen_peer *p = &s->seen[hash % PRN_ARRAY_SIZE(s->seen)];
    int64_t now_ns = prn_monotonic_ns();
    prn_seen_lock(s);
    bool found = now_ns < p->until_ns && strcmp(p->peer, peer) == 0;
    if (add) {
        memcpy(p->peer, peer, strlen(peer) + 1);
        p->until_ns = now_ns + SEEN_NS;
    }
    prn_seen_unlock(s);
    return found;
}

bool prn_access_own(struct prn_service *s, const char *peer, const int *ports, size_t n_ports,
                    struct prn_identity *ret_identity)
{
    uid_t user;
    /* One port of the peer's may be connected to several of ours, by different users. */
    char key[sizeof s->seen[0].peer];
    int length = snprintf(key, sizeof key, "%s>%d", peer, n_ports > 0 ? ports[0] : 0);
    bool own = strncmp(peer, "unix:", 5) == 0;
    if (!own && s->tls)
        return false;
    if (!own && length < (int)sizeof key)
        own = seen(s, key, false);
    if (!own && prn_peer_is_local(peer) && prn_peer_user(peer, ports, n_ports, &user) &&
        (user == geteuid() || user == getuid())) {
        own = true;
        if (length < (int)sizeof key)
            seen(s, key, true);
    }
    if (own)
        *ret_identity = (struct prn_identity){.user = "local", .role = PRN_ROLE_ADMIN};
    return own;
}

/* ---- Wrong tokens ---- */

#define LATE_MAX 1000 /* answers that are held back at a time */
#define LATE_MAX_S 5.0

struct prn_late {
    struct prn_rpc_call *call;
    int64_t due_ns;
    char text[PRONY_ERROR_TEXT_SIZE];
    struct prn_late *next;
};

/* The address of a peer, without its port. */
static void place_of(const char *peer, char ret_place[80])
{
    snprintf(ret_place, 80, "%s", peer);
    char *port = strrchr(ret_place, ':');
    if (port)
        *port = '\0';
}

/* False: it must be answered now. */
static bool hold_back(struct prn_service *s, struct prn_rpc_call *call, const char *text,
                      double wait_s)
{
    struct prn_late *late = calloc(1, sizeof *late);
    if (!late)
        return false;
    wait_s = wait_s < LATE_MAX_S ? wait_s : LATE_MAX_S;
    late->due_ns = prn_monotonic_ns() + (int64_t)(wait_s * 1e9);
    snprintf(late->text, sizeof late->text, "%s", text);
    prn_service_lock(s);
    bool room = s->n_late < LATE_MAX && !s->draining;
    if (room) {
        late->call = prn_rpc_call_ref(call);
        late->next = s->late;
        s->late = late;
        s->n_late++;
        prn_service_look_by_locked(s, late->due_ns);
    }
    prn_service_unlock(s);
    if (!room)
        free(late);
    return room;
}

/* Who sends many wrong ones waits for the answers; a right one is never held back. */
static void refuse_token(struct prn_service *s, struct prn_rpc_call *call, const char *text)
{
    char place[80];
    int64_t now_ns = prn_monotonic_ns();
    place_of(prn_rpc_call_peer(call), place);
    double wait_s = prn_tries_wait_s(s->tries, place, now_ns);
    prn_tries_was_wrong(s->tries, place, now_ns);
    if (wait_s > 0)
        prn_meter_add(s->counted.slowed, 1);
    if (wait_s <= 0)
        prn_refuse(call, PRN_STATUS_UNAUTHENTICATED, "%s", text);
    else if (!hold_back(s, call, text, wait_s))
        prn_refuse(call, PRN_STATUS_RESOURCE_EXHAUSTED, "too many wrong tokens; wait a moment");
}

int64_t prn_access_tick_locked(struct prn_service *s, int64_t now_ns)
{
    int64_t next_ns = INT64_MAX;
    for (struct prn_late **at = &s->late; *at;) {
        struct prn_late *late = *at;
        if (late->due_ns > now_ns && !s->draining) {
            next_ns = late->due_ns < next_ns ? late->due_ns : next_ns;
            at = &late->next;
            continue;
        }
        *at = late->next;
        s->n_late--;
        prn_refuse(late->call, PRN_STATUS_UNAUTHENTICATED, "%s", late->text);
        prn_rpc_call_unref(late->call);
        free(late);
    }
    return next_ns;
}

/* ---- Who calls ---- */

static bool authenticate(struct prn_rpc_call *call, struct prn_identity *ret_identity)
{
    struct prn_service *s = prn_rpc_call_service(call);
    const char *header = prn_rpc_call_metadata(call, "authorization");
    const char *token = header ? prn_token_of_header(header) : NULL;
    struct prony_error err;
    if (!token && prn_access_own(s, prn_rpc_call_peer(call), s->ports, s->n_ports, ret_identity))
        return true;
    if (!token) {
        prn_refuse(call, PRN_STATUS_UNAUTHENTICATED, "%s",
                   s->tls
                       ? "a token is needed"
                       : "this service is for the user who started it; with TLS and tokens it can "
                         "be for others too");
        return false;
    }
    int code = prn_tokens_check(s->tokens, token, ret_identity, &err);
    if (code == PRONY_EDENIED && prn_slurm_identify(s, token, ret_identity))
        return true;
    if (code == PRONY_EDENIED)
        refuse_token(s, call, err.text);
    else if (code < 0)
        prn_refuse(call, PRN_STATUS_UNAVAILABLE, "cannot check tokens at the moment");
    return code == 0;
}

bool prn_access(struct prn_rpc_call *call, struct prn_identity *ret_identity)
{
    if (!authenticate(call, ret_identity))
        return false;
    prn_rpc_call_set_user(call, ret_identity->user);
    if (ret_identity->role != PRN_ROLE_WORKER)
        return true;
    prn_refuse(call, PRN_STATUS_PERMISSION_DENIED, "the token is a worker's, not a user's");
    return false;
}

bool prn_access_worker(struct prn_rpc_call *call, struct prn_identity *ret_identity)
{
    if (!authenticate(call, ret_identity))
        return false;
    prn_rpc_call_set_user(call, ret_identity->user);
    /* Workers of the service's own user need no token. */
    if (ret_identity->role == PRN_ROLE_WORKER || !prn_rpc_call_metadata(call, "authorization"))
        return true;
    prn_refuse(call, PRN_STATUS_PERMISSION_DENIED,
               "the token isn't a worker's; make one with 'prony token add --worker'");
    return false;
}
