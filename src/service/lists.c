/* What there is: backends, presets, sessions, hosts, the cache. */
#include "service/service.h"

#include "runtime/runtime.h"
#include "service/slurm.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARENA_BYTES ((size_t)16 << 20)
#define MS(ns) ((uint64_t)((ns) / 1000000))

void prn_ping(struct prn_rpc_call *call, struct prn_bytes *message)
{
    OctomlProfile__PingReply reply = OCTOML_PROFILE__PING_REPLY__INIT;
    struct prn_identity identity;
    prn_bytes_free(message);
    if (prn_access(call, &identity))
        prn_reply(call, &reply.base);
}

/* ---- Backends ---- */

static const Prony__Software *find_software(const struct prn_host *host, const char *name)
{
    for (size_t i = 0; host->hello && i < host->hello->n_software; i++)
        if (strcmp(host->hello->software[i]->name, name) == 0)
            return host->hello->software[i];
    return NULL;
}

static bool offered(const struct prn_service *s, const char *hardware, const char *software)
{
    const struct prn_config_pool *pool = prn_config_pool(&s->config, hardware);
    return !pool || prn_config_pool_offers(pool, software);
}

/* A host that has the backend, as far as it is offered; NULL: none is connected. */
static const struct prn_host *find_host(const struct prn_service *s, const char *hardware,
                                        const char *software, bool *ret_any)
{
    struct prn_queue_host *place = NULL;
    *ret_any = false;
    while ((place = prn_queue_next_host(s->queue, hardware, place))) {
        const struct prn_host *host = prn_queue_host_data(place);
        *ret_any = true;
        if (find_software(host, software) && offered(s, hardware, software))
            return host;
    }
    return NULL;
}

/* "ort.*" stands for all that begin with "ort.". */
static bool option_fits(const char *known, const char *key)
{
    size_t n = strcspn(known, "*");
    return known[n] ? strncmp(known, key, n) == 0 && key[n] : strcmp(known, key) == 0;
}

static int check_options(const struct prn_spec *spec, const Prony__Software *software,
                         struct prony_error *err)
{
    const struct prn_runtime_ops *ops = prn_runtime_find(spec->software);
    for (size_t i = 0; i < spec->n_options; i++) {
        bool known = false;
        for (size_t k = 0; !known && k < software->n_options; k++)
            known = option_fits(software->options[k], spec->options[i].key);
        if (!known)
            return prn_fail(err, PRONY_EUNAVAILABLE, "backend '%s': no option '%s'", spec->name,
                            spec->options[i].key);
    }
    return ops ? prn_runtime_check_options(ops, spec->options, spec->n_options, err) : 0;
}

int prn_backend_check(struct prn_service *s, const struct prn_spec *spec, struct prony_error *err)
{
    bool any = false;
    if (!prn_queue_has(s->queue, spec->hardware))
        return prn_fail(err, PRONY_EUNAVAILABLE, "backend '%s': there is no hardware '%s' here",
                        spec->name, spec->hardware);
    const struct prn_host *host = find_host(s, spec->hardware, spec->software, &any);
    if (host)
        return check_options(spec, find_software(host, spec->software), err);
    /* Of hardware that is only promised, nobody knows more than its pool says. */
    if (!any && offered(s, spec->hardware, spec->software))
        return 0;
    return prn_fail(err, PRONY_EUNAVAILABLE, "backend '%s': '%s' has no software '%s' here",
                    spec->name, spec->hardware, spec->software);
}

/* ---- The list of them ---- */

struct list {
    struct prn_service *service;
    struct prn_arena arena;
    size_t n;
    OctomlProfile__BackendSpec **specs;
    OctomlProfile__BackendDetails **details;
};

static bool listed(const struct list *list, const char *hardware, const char *software)
{
    for (size_t i = 0; i < list->n; i++)
        if (strcmp(list->specs[i]->hardware_platform, hardware) == 0 &&
            strcmp(list->specs[i]->software_backend, software) == 0)
            return true;
    return false;
}

/* One that a host has; or that a pool promises, without a host that could say more. */
static int add_backend(struct list *list, const struct prn_host *host, const char *hardware,
                       const Prony__Software *have)
{
    struct prn_service *s = list->service;
    const struct prn_config_pool *pool = prn_config_pool(&s->config, hardware);
    struct prn_queue_hardware counts = {0};
    OctomlProfile__BackendSpec *spec = PRN_ARENA_NEW(&list->arena, OctomlProfile__BackendSpec);
    OctomlProfile__BackendDetails *details =
        PRN_ARENA_NEW(&list->arena, OctomlProfile__BackendDetails);
    if (!spec || !details)
        return PRONY_ENOMEM;
    octoml_profile__backend_spec__init(spec);
    octoml_profile__backend_details__init(details);
    spec->hardware_platform = details->hardware_platform = (char *)(uintptr_t)hardware;
    spec->software_backend = details->software_backend = have->name;
    const char *found = host ? host->hello->processor : NULL;
    const char *processor = pool && pool->processor ? pool->processor : found;
    details->processor = (char *)(uintptr_t)processor;
    details->has_usd_per_hour = pool && !isnan(pool->usd_per_hour);
    details->usd_per_hour = details->has_usd_per_hour ? pool->usd_per_hour : 0;
    details->runtime_version = have->version;
    details->n_options = have->n_options;
    details->options = have->options;
    if (prn_queue_find_hardware(s->queue, hardware, &counts)) {
        details->has_hosts = details->has_free = true;
        details->hosts = counts.hosts;
        details->free = counts.free;
    }
    list->specs[list->n] = spec;
    list->details[list->n++] = details;
    return 0;
}

/* In the order of pools, then of the software that a host has. */
static int by_name(const void *a, const void *b)
{
    const OctomlProfile__BackendSpec *x = *(OctomlProfile__BackendSpec *const *)a;
    const OctomlProfile__BackendSpec *y = *(OctomlProfile__BackendSpec *const *)b;
    int hardware = strcmp(x->hardware_platform, y->hardware_platform);
    return hardware ? hardware : strcmp(x->software_backend, y->software_backend);
}

static int details_by_name(const void *a, const void *b)
{
    const OctomlProfile__BackendDetails *x = *(OctomlProfile__BackendDetails *const *)a;
    const OctomlProfile__BackendDetails *y = *(OctomlProfile__BackendDetails *const *)b;
    int hardware = strcmp(x->hardware_platform, y->hardware_platform);
    return hardware ? hardware : strcmp(x->software_backend, y->software_backend);
}

/* Hosts that come when somebody waits have nobody to speak for them before. */
static int add_promised(struct list *list, const struct prn_config_pool *pool)
{
    for (size_t i = 0; i < pool->n_software; i++) {
        Prony__Software software = PRONY__SOFTWARE__INIT;
        software.name = (char *)(uintptr_t)pool->software[i];
        if (!listed(list, pool->hardware, software.name) &&
            add_backend(list, NULL, pool->hardware, &software) < 0)
            return PRONY_ENOMEM;
    }
    return 0;
}

static int fill_list(struct list *list)
{
    const struct prn_config *config = &list->service->config;
    size_t most = 1;
    for (size_t i = 0; i < config->n_pools; i++)
        most += config->pools[i].n_software;
    for (const struct prn_host *host = list->service->hosts; host; host = host->next)
        most += host->hello ? host->hello->n_software : 0;
    list->specs = PRN_ARENA_ARRAY(&list->arena, most, OctomlProfile__BackendSpec *);
    list->details = PRN_ARENA_ARRAY(&list->arena, most, OctomlProfile__BackendDetails *);
    if (!list->specs || !list->details)
        return PRONY_ENOMEM;
    for (const struct prn_host *host = list->service->hosts; host; host = host->next)
        for (size_t i = 0; host->hello && i < host->hello->n_software; i++) {
            const Prony__Software *have = host->hello->software[i];
            if (!listed(list, host->hello->hardware, have->name) &&
                offered(list->service, host->hello->hardware, have->name) &&
                add_backend(list, host, host->hello->hardware, have) < 0)
                return PRONY_ENOMEM;
        }
    for (size_t i = 0; i < config->n_pools; i++)
        if (config->pools[i].type == PRN_POOL_SLURM && add_promised(list, &config->pools[i]) < 0)
            return PRONY_ENOMEM;
    qsort(list->specs, list->n, sizeof *list->specs, by_name);
    qsort(list->details, list->n, sizeof *list->details, details_by_name);
    return 0;
}

/* A preset that the file doesn't give is made of what there is. */
static int make_preset(struct list *list, const char *name, bool everything,
                       OctomlProfile__BackendPreset *preset)
{
    octoml_profile__backend_preset__init(preset);
    preset->preset_name = (char *)(uintptr_t)name;
    preset->backends = PRN_ARENA_ARRAY(&list->arena, list->n + 1, OctomlProfile__BackendSpec *);
    if (!preset->backends)
        return PRONY_ENOMEM;
    for (size_t i = 0; i < list->n; i++)
        if (everything || prn_config_in_default(list->specs[i]->software_backend))
            preset->backends[preset->n_backends++] = list->specs[i];
    return 0;
}

static int copy_preset(struct list *list, const struct prn_config_preset *from,
                       OctomlProfile__BackendPreset *preset)
{
    octoml_profile__backend_preset__init(preset);
    preset->preset_name = (char *)(uintptr_t)from->name;
    OctomlProfile__BackendSpec *specs =
        PRN_ARENA_ARRAY(&list->arena, from->n + 1, OctomlProfile__BackendSpec);
    preset->backends = PRN_ARENA_ARRAY(&list->arena, from->n + 1, OctomlProfile__BackendSpec *);
    if (!specs || !preset->backends)
        return PRONY_ENOMEM;
    for (size_t i = 0; i < from->n; i++) {
        preset->backends[i] = &specs[i];
        if (prn_spec_message(&list->arena, &from->specs[i], &specs[i]) < 0)
            return PRONY_ENOMEM;
    }
    preset->n_backends = from->n;
    return 0;
}

static int fill_presets(struct list *list, OctomlProfile__ListSupportedBackendsReply *reply)
{
    const struct prn_config *config = &list->service->config;
    OctomlProfile__BackendPreset *presets =
        PRN_ARENA_ARRAY(&list->arena, config->n_presets + 2, OctomlProfile__BackendPreset);
    reply->presets =
        PRN_ARENA_ARRAY(&list->arena, config->n_presets + 2, OctomlProfile__BackendPreset *);
    int code = presets && reply->presets ? 0 : PRONY_ENOMEM;
    size_t n = 0;
    if (code == 0 && !prn_config_preset(config, "default"))
        code = make_preset(list, "default", false, &presets[n++]);
    if (code == 0 && !prn_config_preset(config, "all"))
        code = make_preset(list, "all", true, &presets[n++]);
    for (size_t i = 0; code == 0 && i < config->n_presets; i++)
        code = copy_preset(list, &config->presets[i], &presets[n++]);
    for (size_t i = 0; code == 0 && i < n; i++)
        reply->presets[i] = &presets[i];
    reply->n_presets = n;
    return code;
}

void prn_list_backends(struct prn_rpc_call *call, struct prn_bytes *message)
{
    struct prn_service *s = prn_rpc_call_service(call);
    OctomlProfile__ListSupportedBackendsReply reply =
        OCTOML_PROFILE__LIST_SUPPORTED_BACKENDS_REPLY__INIT;
    struct list list = {.service = s, .arena = PRN_ARENA_INIT(ARENA_BYTES)};
    struct prn_identity identity;
    prn_bytes_free(message);
    if (!prn_access(call, &identity))
        return;
    pthread_mutex_lock(&s->lock);
    int code = fill_list(&list);
    if (code == 0)
        code = fill_presets(&list, &reply);
    reply.n_backends = reply.n_details = list.n;
    reply.backends = list.specs;
    reply.details = list.details;
    if (code == 0)
        prn_reply(call, &reply.base);
    else
        prn_refuse(call, PRN_STATUS_RESOURCE_EXHAUSTED, "the service is out of memory");
    pthread_mutex_unlock(&s->lock);
    prn_arena_release(&list.arena);
}

/* ---- Status ---- */

struct report {
    struct prn_service *service;
    struct prn_arena arena;
    const struct prn_identity *identity;
    int64_t now_ns;
    Prony__StatusReply reply;
};

static int report_hardware(struct report *r)
{
    struct prn_queue_hardware counts;
    size_t n = 0;
    while (prn_queue_hardware(r->service->queue, n, &counts))
        n++;
    Prony__HardwareStatus *rows = PRN_ARENA_ARRAY(&r->arena, n + 1, Prony__HardwareStatus);
    r->reply.hardware = PRN_ARENA_ARRAY(&r->arena, n + 1, Prony__HardwareStatus *);
    if (!rows || !r->reply.hardware)
        return PRONY_ENOMEM;
    for (size_t i = 0; prn_queue_hardware(r->service->queue, i, &counts); i++) {
        const struct prn_config_pool *pool = prn_config_pool(&r->service->config, counts.name);
        Prony__HardwareStatus *row = r->reply.hardware[i] = &rows[i];
        prony__hardware_status__init(row);
        row->name = prn_arena_strdup(&r->arena, counts.name);
        row->processor = pool ? (char *)(uintptr_t)pool->processor : NULL;
        row->has_usd_per_hour = pool && !isnan(pool->usd_per_hour);
        row->usd_per_hour = row->has_usd_per_hour ? pool->usd_per_hour : 0;
        row->has_hosts = row->has_free = row->has_waiting = true;
        row->hosts = counts.hosts;
        row->free = counts.free;
        row->waiting = counts.waiting;
        row->note = prn_slurm_note(r->service, counts.name, &r->arena);
        r->reply.n_hardware++;
    }
    return 0;
}

static int report_session(struct report *r, const struct prn_session *session,
                          Prony__SessionStatus *row)
{
    prony__session_status__init(row);
    row->id = (char *)(uintptr_t)session->label;
    row->user = (char *)(uintptr_t)session->owner.user;
    row->state = session->state == PRN_SESSION_READY ? (char[]){"ready"} : (char[]){"waiting"};
    row->state = prn_arena_strdup(&r->arena, row->state);
    row->backends = PRN_ARENA_ARRAY(&r->arena, session->n_backends, char *);
    if (!row->state || !row->backends)
        return PRONY_ENOMEM;
    for (size_t i = 0; i < session->n_backends; i++)
        row->backends[row->n_backends++] = (char *)(uintptr_t)session->backends[i].name;
    row->has_age_ms = row->has_waited_ms = row->has_models = row->has_runs = row->has_idle_ms =
        true;
    row->age_ms = MS(r->now_ns - session->created_ns);
    row->waited_ms = MS(prn_queue_session_waited_ns(session->place, r->now_ns));
    row->has_place = session->state == PRN_SESSION_WAITING;
    row->place = row->has_place ? prn_queue_session_worst_place(session->place) : 0;
    const char *hardware = NULL;
    for (size_t i = 0;
         row->has_place && !row->note && (hardware = prn_queue_session_hardware(session->place, i));
         i++)
        row->note = prn_slurm_place_note(
            r->service, hardware, prn_queue_session_place(session->place, hardware), &r->arena);
    row->models = session->n_models;
    row->runs = session->runs;
    row->idle_ms = session->open_calls ? 0 : MS(r->now_ns - session->life_ns);
    return 0;
}

static int report_sessions(struct report *r)
{
    struct prn_service *s = r->service;
    Prony__SessionStatus *rows =
        PRN_ARENA_ARRAY(&r->arena, s->n_sessions + 1, Prony__SessionStatus);
    r->reply.sessions = PRN_ARENA_ARRAY(&r->arena, s->n_sessions + 1, Prony__SessionStatus *);
    if (!rows || !r->reply.sessions)
        return PRONY_ENOMEM;
    for (size_t i = 0; i < PRN_SESSION_BUCKETS; i++)
        for (const struct prn_session *session = s->buckets[i]; session; session = session->next) {
            bool own = strcmp(session->owner.user, r->identity->user) == 0;
            if (!own && r->identity->role != PRN_ROLE_ADMIN) {
                r->reply.has_sessions_others = true;
                r->reply.sessions_others++;
                continue;
            }
            size_t n = r->reply.n_sessions;
            if (report_session(r, session, &rows[n]) < 0)
                return PRONY_ENOMEM;
            r->reply.sessions[n] = &rows[n];
            r->reply.n_sessions++;
        }
    return 0;
}

static int report_worker(struct report *r, const struct prn_host *host, Prony__WorkerStatus *row)
{
    const Prony__Hello *hello = host->hello;
    prony__worker_status__init(row);
    row->name = hello->host;
    row->hardware = hello->hardware;
    row->state = prn_arena_strdup(&r->arena, host->held ? "held" : "free");
    row->sandbox = hello->sandbox;
    row->note = prn_slurm_worker_note(host, &r->arena);
    row->has_connected_ms = true;
    row->connected_ms = MS(r->now_ns - host->connected_ns);
    if (host->held)
        row->session = (char *)(uintptr_t)host->held->session->label;
    row->software = PRN_ARENA_ARRAY(&r->arena, hello->n_software + 1, char *);
    if (!row->state || !row->software)
        return PRONY_ENOMEM;
    for (size_t i = 0; i < hello->n_software; i++) {
        struct prn_buffer text = PRN_BUFFER_INIT(4096);
        const Prony__Software *have = hello->software[i];
        prn_buffer_printf(&text, "%s %s", have->name, have->version ? have->version : "");
        row->software[i] = prn_arena_strdup(&r->arena, prn_buffer_text(&text));
        prn_buffer_release(&text);
        if (!row->software[i])
            return PRONY_ENOMEM;
        row->n_software++;
    }
    return 0;
}

static int report_workers(struct report *r)
{
    size_t n = 0;
    for (const struct prn_host *host = r->service->hosts; host; host = host->next)
        n++;
    Prony__WorkerStatus *rows = PRN_ARENA_ARRAY(&r->arena, n + 1, Prony__WorkerStatus);
    r->reply.workers = PRN_ARENA_ARRAY(&r->arena, n + 1, Prony__WorkerStatus *);
    if (!rows || !r->reply.workers)
        return PRONY_ENOMEM;
    for (const struct prn_host *host = r->service->hosts; host; host = host->next) {
        size_t i = r->reply.n_workers;
        if (!host->hello)
            continue;
        if (report_worker(r, host, &rows[i]) < 0)
            return PRONY_ENOMEM;
        r->reply.workers[i] = &rows[i];
        r->reply.n_workers++;
    }
    return 0;
}

void prn_status(struct prn_rpc_call *call, struct prn_bytes *message)
{
    struct prn_service *s = prn_rpc_call_service(call);
    struct prn_identity identity;
    struct prn_blobs_stats stats;
    Prony__CacheStatus cache = PRONY__CACHE_STATUS__INIT;
    prn_bytes_free(message);
    if (!prn_access(call, &identity))
        return;
    struct report r = {.service = s,
                       .arena = PRN_ARENA_INIT(ARENA_BYTES),
                       .identity = &identity,
                       .now_ns = prn_service_now(),
                       .reply = PRONY__STATUS_REPLY__INIT};
    prn_blobs_stats(s->blobs, &stats);
    cache.has_blobs = cache.has_bytes = cache.has_limit_bytes = cache.has_hits = cache.has_misses =
        true;
    cache.blobs = stats.blobs;
    cache.bytes = stats.bytes;
    cache.limit_bytes = stats.limit_bytes;
    cache.hits = stats.hits;
    cache.misses = stats.misses;
    r.reply.cache = &cache;
    r.reply.version = (char *)(uintptr_t)prony_version();
    r.reply.has_uptime_ms = r.reply.has_draining = true;
    r.reply.uptime_ms = MS(r.now_ns - s->start_ns);
    pthread_mutex_lock(&s->lock);
    r.reply.draining = s->draining;
    int code = report_hardware(&r);
    if (code == 0)
        code = report_sessions(&r);
    if (code == 0)
        code = report_workers(&r);
    if (code == 0)
        prn_reply(call, &r.reply.base);
    else
        prn_refuse(call, PRN_STATUS_RESOURCE_EXHAUSTED, "the service is out of memory");
    pthread_mutex_unlock(&s->lock);
    prn_arena_release(&r.arena);
}
