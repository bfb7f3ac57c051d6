/* What a service offers, and how it is: messages to plain data in an arena. */
#include "rpc/remote.h"
#include "rpc/remote_parts.h"

#include "base/buffer.h"
#include "base/text.h"

#include <remote_inference.pb-c.h>
#include <math.h>
#include <string.h>

#define LIST_MAX 10000 /* of anything that a service lists */

/* Copies texts; after a failure nothing more is copied, and it is asked about once. */
struct keeper {
    struct prn_arena *arena;
    bool failed;
};

static const char *keep(struct keeper *k, const char *text)
{
    const char *copy = text ? prn_arena_strdup(k->arena, text) : NULL;
    k->failed |= text && !copy;
    return copy;
}

static const char *const *keep_all(struct keeper *k, char *const *texts, size_t n)
{
    const char **copies = PRN_ARENA_ARRAY(k->arena, n + 1, const char *);
    k->failed |= !copies;
    for (size_t i = 0; copies && i < n; i++)
        copies[i] = keep(k, texts[i]);
    return copies;
}

static void *keep_room(struct keeper *k, size_t n, size_t size)
{
    void *room = n <= LIST_MAX ? prn_arena_array(k->arena, n + 1, size) : NULL;
    k->failed |= !room;
    return room;
}

static int64_t known(protobuf_c_boolean has, uint64_t value)
{
    return has && value <= INT64_MAX ? (int64_t)value : -1;
}

/* ---- The offer ---- */

/* Names of the wire go through the same check as those of people. */
static int read_spec(const struct prn_remote *r, const OctomlProfile__BackendSpec *wire,
                     struct prn_arena *arena, struct prn_spec *ret_spec, struct prony_error *err)
{
    struct prn_buffer text = PRN_BUFFER_INIT((size_t)1 << 16);
    struct prony_error fault;
    prn_buffer_printf(&text, "%s/%s", wire->hardware_platform, wire->software_backend);
    for (size_t i = 0; i < wire->n_backend_options; i++) {
        const OctomlProfile__BackendOption *o = wire->backend_options[i];
        prn_buffer_printf(&text, "%s%s%s%s", i > 0 ? "," : "[", o->key, o->value[0] ? "=" : "",
                          o->value);
    }
    if (wire->n_backend_options > 0)
        prn_buffer_add_char(&text, ']');
    int code = prn_buffer_error(&text, err);
    if (code == 0 && prn_spec_parse(prn_buffer_text(&text), false, arena, ret_spec, &fault) < 0)
        code = prn_fail(err, PRONY_EFORMAT, "'%s' lists something that is not a backend: %s",
                        r->config.address, fault.text);
    prn_buffer_release(&text);
    return code;
}

static void add_details(struct keeper *k, struct prn_remote_backend *b,
                        const OctomlProfile__ListSupportedBackendsReply *reply)
{
    b->usd_per_hour = NAN;
    b->hosts = b->free = -1;
    for (size_t i = 0; i < reply->n_details; i++) {
        const OctomlProfile__BackendDetails *d = reply->details[i];
        if (strcmp(d->hardware_platform, b->spec.hardware) != 0 ||
            strcmp(d->software_backend, b->spec.software) != 0)
            continue;
        b->processor = keep(k, d->processor);
        b->version = keep(k, d->runtime_version);
        if (d->has_usd_per_hour && isfinite(d->usd_per_hour) && d->usd_per_hour >= 0)
            b->usd_per_hour = d->usd_per_hour;
        b->options = keep_all(k, d->options, d->n_options);
        b->n_options = b->options ? d->n_options : 0;
        b->hosts = known(d->has_hosts, d->hosts);
        b->free = known(d->has_free, d->free);
        return;
    }
}

static int read_offer(const struct prn_remote *r, struct keeper *k,
                      const OctomlProfile__ListSupportedBackendsReply *reply,
                      struct prn_remote_offer *offer, struct prony_error *err)
{
    int code = 0;
    offer->backends = keep_room(k, reply->n_backends, sizeof *offer->backends);
    offer->presets = keep_room(k, reply->n_presets, sizeof *offer->presets);
    if (k->failed)
        return prn_fail_memory(err);
    for (; code == 0 && offer->n_backends < reply->n_backends; offer->n_backends++) {
        struct prn_remote_backend *b = &offer->backends[offer->n_backends];
        code = read_spec(r, reply->backends[offer->n_backends], k->arena, &b->spec, err);
        if (code == 0)
            add_details(k, b, reply);
    }
    for (; code == 0 && offer->n_presets < reply->n_presets; offer->n_presets++) {
        const OctomlProfile__BackendPreset *from = reply->presets[offer->n_presets];
        struct prn_remote_preset *to = &offer->presets[offer->n_presets];
        to->name = keep(k, from->preset_name);
        to->backends = keep_room(k, from->n_backends, sizeof *to->backends);
        for (; code == 0 && to->backends && to->n_backends < from->n_backends; to->n_backends++)
            code = read_spec(r, from->backends[to->n_backends], k->arena,
                             &to->backends[to->n_backends], err);
    }
    return code == 0 && k->failed ? prn_fail_memory(err) : code;
}

int prn_remote_list(struct prn_remote *r, struct prn_arena *arena,
                    struct prn_remote_offer *ret_offer, struct prony_error *err)
{
    OctomlProfile__ListSupportedBackendsRequest request =
        OCTOML_PROFILE__LIST_SUPPORTED_BACKENDS_REQUEST__INIT;
    struct prn_remote_offer offer = {0};
    struct keeper k = {.arena = arena};
    ProtobufCMessage *reply = NULL;
    int code = prn_remote_call(r, PRN_REMOTE_METHOD("ListSupportedBackends"), &request.base,
                               &octoml_profile__list_supported_backends_reply__descriptor,
                               PRN_REMOTE_CALL_S, &reply, NULL, err);
    if (code < 0)
        return code;
    code = read_offer(r, &k, (OctomlProfile__ListSupportedBackendsReply *)reply, &offer, err);
    protobuf_c_message_free_unpacked(reply, NULL);
    if (code == 0)
        *ret_offer = offer;
    return code;
}

/* ---- Status ---- */

static void read_hardware(struct keeper *k, const Prony__HardwareStatus *from,
                          struct prn_remote_hardware *to)
{
    *to = (struct prn_remote_hardware){
        .name = keep(k, from->name),
        .processor = keep(k, from->processor),
        .note = keep(k, from->note),
        .usd_per_hour = from->has_usd_per_hour ? from->usd_per_hour : NAN,
        .hosts = known(from->has_hosts, from->hosts),
        .free = known(from->has_free, from->free),
        .waiting = known(from->has_waiting, from->waiting),
        .paused = from->has_paused && from->paused,
    };
}

static void read_session(struct keeper *k, const Prony__SessionStatus *from,
                         struct prn_remote_session *to)
{
    *to = (struct prn_remote_session){
        .id = keep(k, from->id),
        .user = keep(k, from->user),
        .yours = -1,
        .state = keep(k, from->state),
        .note = keep(k, from->note),
        .n_backends = from->n_backends,
        .backends = keep_all(k, from->backends, from->n_backends),
        .age_ms = known(from->has_age_ms, from->age_ms),
        .waited_ms = known(from->has_waited_ms, from->waited_ms),
        .idle_ms = known(from->has_idle_ms, from->idle_ms),
        .place = known(from->has_place, from->place),
        .models = known(from->has_models, from->models),
        .runs = known(from->has_runs, from->runs),
    };
}

static void read_worker(struct keeper *k, const Prony__WorkerStatus *from,
                        struct prn_remote_worker *to)
{
    *to = (struct prn_remote_worker){
        .id = keep(k, from->id),
        .name = keep(k, from->name),
        .hardware = keep(k, from->hardware),
        .state = keep(k, from->state),
        .sandbox = keep(k, from->sandbox),
        .session = keep(k, from->session),
        .user = keep(k, from->user),
        .note = keep(k, from->note),
        .n_software = from->n_software,
        .software = keep_all(k, from->software, from->n_software),
        .connected_ms = known(from->has_connected_ms, from->connected_ms),
        .held_ms = known(from->has_held_ms, from->held_ms),
    };
}

static void read_reservation(struct keeper *k, const Prony__ReservationStatus *from,
                             struct prn_remote_reservation *to)
{
    *to = (struct prn_remote_reservation){
        .id = (int64_t)from->id,
        .target = keep(k, from->target),
        .user = keep(k, from->user),
        .hosts = known(from->has_hosts, from->hosts),
        .from_ms = from->from_ms,
        .to_ms = from->to_ms,
        .active = from->active,
    };
}

static void read_cache(const Prony__CacheStatus *from, struct prn_remote_status *to)
{
    to->has_cache = from != NULL;
    if (!from)
        return;
    to->blobs = known(from->has_blobs, from->blobs);
    to->blob_bytes = known(from->has_bytes, from->bytes);
    to->blob_limit_bytes = known(from->has_limit_bytes, from->limit_bytes);
    to->hits = known(from->has_hits, from->hits);
    to->misses = known(from->has_misses, from->misses);
}

int prn_remote_read_status(const Prony__StatusReply *from, struct prn_arena *arena,
                           struct prn_remote_status *ret_status, struct prony_error *err)
{
    struct keeper keeper = {.arena = arena};
    struct keeper *k = &keeper;
    struct prn_remote_status status = {
        .time_ms = -1, .sessions_left_out = -1, .workers_left_out = -1};
    struct prn_remote_status *to = &status;
    to->version = keep(k, from->version);
    to->notice = keep(k, from->notice);
    to->uptime_ms = known(from->has_uptime_ms, from->uptime_ms);
    to->draining = from->has_draining && from->draining;
    to->sessions_others = known(from->has_sessions_others, from->sessions_others);
    to->session_memory_bytes = known(from->has_session_memory_bytes, from->session_memory_bytes);
    to->run_timeout_s = from->has_run_timeout_s ? from->run_timeout_s : NAN;
    to->hardware = keep_room(k, from->n_hardware, sizeof *to->hardware);
    to->sessions = keep_room(k, from->n_sessions, sizeof *to->sessions);
    to->workers = keep_room(k, from->n_workers, sizeof *to->workers);
    to->reservations = keep_room(k, from->n_reservations, sizeof *to->reservations);
    if (k->failed)
        return prn_fail_memory(err);
    for (; to->n_hardware < from->n_hardware; to->n_hardware++)
        read_hardware(k, from->hardware[to->n_hardware], &to->hardware[to->n_hardware]);
    for (; to->n_sessions < from->n_sessions; to->n_sessions++)
        read_session(k, from->sessions[to->n_sessions], &to->sessions[to->n_sessions]);
    for (; to->n_workers < from->n_workers; to->n_workers++)
        read_worker(k, from->workers[to->n_workers], &to->workers[to->n_workers]);
    for (; to->n_reservations < from->n_reservations; to->n_reservations++)
        read_reservation(k, from->reservations[to->n_reservations],
                         &to->reservations[to->n_reservations]);
    read_cache(from->cache, to);
    if (k->failed)
        return prn_fail_memory(err);
    *ret_status = status;
    return 0;
}

int prn_remote_status(struct prn_remote *r, struct prn_arena *arena,
                      struct prn_remote_status *ret_status, struct prony_error *err)
{
    Prony__StatusRequest request = PRONY__STATUS_REQUEST__INIT;
    ProtobufCMessage *reply = NULL;
    int code =
        prn_remote_call(r, "/prony.Prony/Status", &request.base, &prony__status_reply__descriptor,
                        PRN_REMOTE_CALL_S, &reply, NULL, err);
    if (code < 0)
        return code;
    code = prn_remote_read_status((Prony__StatusReply *)reply, arena, ret_status, err);
    protobuf_c_message_free_unpacked(reply, NULL);
    return code;
}

int prn_remote_usage(struct prn_remote *r, const char *since, struct prn_arena *arena,
                     struct prn_remote_usage *ret_usage, struct prony_error *err)
{
    Prony__UsageRequest request = PRONY__USAGE_REQUEST__INIT;
    ProtobufCMessage *reply = NULL;
    struct keeper k = {.arena = arena};
    request.since = (char *)(uintptr_t)since;
    int code =
        prn_remote_call(r, "/prony.Prony/Usage", &request.base, &prony__usage_reply__descriptor,
                        PRN_REMOTE_CALL_S, &reply, NULL, err);
    if (code < 0)
        return code;
    const Prony__UsageReply *from = (const Prony__UsageReply *)reply;
    struct prn_remote_usage usage = {.uses = keep_room(&k, from->n_uses, sizeof *usage.uses)};
    for (; !k.failed && usage.n < from->n_uses; usage.n++) {
        const Prony__Use *use = from->uses[usage.n];
        usage.uses[usage.n] = (struct prn_remote_use){.month = keep(&k, use->month),
                                                      .user = keep(&k, use->user),
                                                      .hardware = keep(&k, use->hardware),
                                                      .sessions = (int64_t)use->sessions,
                                                      .host_s = use->host_s,
                                                      .usd = use->usd};
    }
    protobuf_c_message_free_unpacked(reply, NULL);
    if (k.failed)
        return prn_fail_memory(err);
    *ret_usage = usage;
    return 0;
}

int prn_remote_admin(struct prn_remote *r, const struct prn_remote_order *order,
                     struct prn_buffer *out, struct prony_error *err)
{
    Prony__AdminRequest request = PRONY__ADMIN_REQUEST__INIT;
    ProtobufCMessage *reply = NULL;
    request.action = (char *)(uintptr_t)order->action;
    request.target = (char *)(uintptr_t)order->target;
    request.text = (char *)(uintptr_t)order->text;
    request.user = (char *)(uintptr_t)order->user;
    request.has_from_ms = request.has_to_ms = order->user != NULL;
    request.from_ms = order->from_ms;
    request.to_ms = order->to_ms;
    request.has_hosts = order->hosts > 0;
    request.hosts = order->hosts;
    int code =
        prn_remote_call(r, "/prony.Prony/Admin", &request.base, &prony__admin_reply__descriptor,
                        PRN_REMOTE_CALL_S, &reply, NULL, err);
    if (code < 0)
        return code;
    prn_text_clean(out, ((Prony__AdminReply *)reply)->done);
    prn_buffer_add_char(out, '\n');
    protobuf_c_message_free_unpacked(reply, NULL);
    return prn_buffer_error(out, err);
}
