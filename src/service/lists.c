/* What there is: backends and presets. */
#include "service/host/host.h"

#include "runtime/runtime.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ARENA_BYTES ((size_t)16 << 20)
/* For the service's own workers to say what they have, after pools were started. */
#define JOIN_NS ((int64_t)20 * 1000000000)

void prn_ping(struct prn_rpc_call *call, struct prn_bytes *message)
{
    OctomlProfile__PingReply reply = OCTOML_PROFILE__PING_REPLY__INIT;
    struct prn_identity identity;
    prn_bytes_free(message);
    if (prn_access(call, &identity))
        prn_reply(call, &reply.base);
}

/* ---- Backends ---- */

static const Prony__Software *find_software(const Prony__Hello *hello, const char *name)
{
    for (size_t i = 0; hello && i < hello->n_software; i++)
        if (strcmp(hello->software[i]->name, name) == 0)
            return hello->software[i];
    return NULL;
}

static bool offered(const struct prn_service *s, const char *hardware, const char *software)
{
    const struct prn_config_pool *pool = prn_config_pool(&s->config, hardware);
    return !pool || prn_config_pool_offers(pool, software);
}

/* The software, of a host that has it or, without any, as it was known; NULL: none has. `ret_any`:
 * something is known of the hardware. */
static const Prony__Software *look_up_locked(const struct prn_service *s, const char *hardware,
                                             const char *software, bool *ret_any)
    PRN_HOLDS(prn_service)
{
    struct prn_queue_host *place = NULL;
    const Prony__Software *found = NULL;
    *ret_any = false;
    while (!found && (place = prn_queue_next_host(s->queue, hardware, place))) {
        const struct prn_host *host = prn_queue_host_data(place);
        *ret_any = true;
        found = find_software(host->hello, software);
    }
    const Prony__Hello *known = *ret_any ? NULL : prn_known_find_locked(s, hardware);
    if (known) {
        *ret_any = true;
        found = find_software(known, software);
    }
    return offered(s, hardware, software) ? found : NULL;
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

int prn_backend_check_locked(struct prn_service *s, const struct prn_spec *spec,
                             struct prony_error *err)
{
    bool any = false;
    if (!prn_queue_has(s->queue, spec->hardware))
        return prn_fail(err, PRONY_EUNAVAILABLE, "backend '%s': there is no hardware '%s' here",
                        spec->name, spec->hardware);
    const Prony__Software *software = look_up_locked(s, spec->hardware, spec->software, &any);
    if (software)
        return check_options(spec, software, err);
    /* Of hardware that never had a worker, nobody knows more than its pool says. */
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

/* One that a host has, or had; or that a pool promises, and nobody could say more: no `hello`. */
static int add_backend_locked(struct list *list, const Prony__Hello *hello, const char *hardware,
                              const Prony__Software *have) PRN_HOLDS(prn_service)
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
    const char *found = hello ? hello->processor : NULL;
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

static int add_all_locked(struct list *list, const Prony__Hello *hello) PRN_HOLDS(prn_service)
{
    for (size_t i = 0; i < hello->n_software; i++)
        if (!listed(list, hello->hardware, hello->software[i]->name) &&
            offered(list->service, hello->hardware, hello->software[i]->name) &&
            add_backend_locked(list, hello, hello->hardware, hello->software[i]) < 0)
            return PRONY_ENOMEM;
    return 0;
}

/* Hosts that aren't there have nobody to speak for them. */
static int add_promised_locked(struct list *list, const struct prn_config_pool *pool)
    PRN_HOLDS(prn_service)
{
    for (size_t i = 0; i < pool->n_software; i++) {
        Prony__Software software = PRONY__SOFTWARE__INIT;
        software.name = (char *)(uintptr_t)pool->software[i];
        if (!listed(list, pool->hardware, software.name) &&
            add_backend_locked(list, NULL, pool->hardware, &software) < 0)
            return PRONY_ENOMEM;
    }
    return 0;
}

/* What a pool offers beside what its workers do that are here. */
static int add_absent_locked(struct list *list, const struct prn_config_pool *pool)
    PRN_HOLDS(prn_service)
{
    const struct prn_service *s = list->service;
    const Prony__Hello *known = prn_known_find_locked(s, pool->hardware);
    bool here = prn_queue_next_host(s->queue, pool->hardware, NULL);
    if (!prn_queue_has(s->queue, pool->hardware)) /* its workers don't start */
        return 0;
    int code = known && !here ? add_all_locked(list, known) : 0;
    if (code == 0 && (pool->type == PRN_POOL_SLURM || (!known && !here)))
        code = add_promised_locked(list, pool);
    return code;
}

static size_t count_most_locked(const struct prn_service *s) PRN_HOLDS(prn_service)
{
    size_t most = 1;
    for (size_t i = 0; i < s->config.n_pools; i++) {
        const Prony__Hello *known = prn_known_find_locked(s, s->config.pools[i].hardware);
        most += s->config.pools[i].n_software + (known ? known->n_software : 0);
    }
    for (const struct prn_host *host = s->hosts; host; host = host->next)
        most += host->hello ? host->hello->n_software : 0;
    return most;
}

static int fill_list_locked(struct list *list) PRN_HOLDS(prn_service)
{
    const struct prn_config *config = &list->service->config;
    size_t most = count_most_locked(list->service);
    list->specs = PRN_ARENA_ARRAY(&list->arena, most, OctomlProfile__BackendSpec *);
    list->details = PRN_ARENA_ARRAY(&list->arena, most, OctomlProfile__BackendDetails *);
    if (!list->specs || !list->details)
        return PRONY_ENOMEM;
    for (const struct prn_host *host = list->service->hosts; host; host = host->next)
        if (host->hello && add_all_locked(list, host->hello) < 0)
            return PRONY_ENOMEM;
    for (size_t i = 0; i < config->n_pools; i++)
        if (add_absent_locked(list, &config->pools[i]) < 0)
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

static void answer_list_locked(struct prn_service *s, struct prn_rpc_call *call)
    PRN_HOLDS(prn_service)
{
    OctomlProfile__ListSupportedBackendsReply reply =
        OCTOML_PROFILE__LIST_SUPPORTED_BACKENDS_REPLY__INIT;
    struct list list = {.service = s, .arena = PRN_ARENA_INIT(ARENA_BYTES)};
    int code = fill_list_locked(&list);
    if (code == 0)
        code = fill_presets(&list, &reply);
    reply.n_backends = reply.n_details = list.n;
    reply.backends = list.specs;
    reply.details = list.details;
    if (code == 0)
        prn_reply(call, &reply.base);
    else
        prn_refuse(call, PRN_STATUS_RESOURCE_EXHAUSTED, "the service is out of memory");
    prn_arena_release(&list.arena);
}

/* ---- Waiting for one's own workers ---- */

struct prn_list_wait {
    struct prn_rpc_call *call;
    struct prn_list_wait *next;
};

/* Whether a pool's first worker is about to say what it has, and nothing else does. */
static bool is_awaited_locked(const struct prn_service *s, const struct prn_config_pool *pool)
    PRN_HOLDS(prn_service)
{
    return pool->local.count > 0 && pool->n_software == 0 &&
           prn_queue_has(s->queue, pool->hardware) &&
           !prn_queue_next_host(s->queue, pool->hardware, NULL) &&
           !prn_known_find_locked(s, pool->hardware);
}

static bool must_wait_locked(const struct prn_service *s, int64_t now_ns) PRN_HOLDS(prn_service)
{
    if (s->draining || now_ns >= s->pools_ns + JOIN_NS)
        return false;
    for (size_t i = 0; i < s->config.n_pools; i++)
        if (is_awaited_locked(s, &s->config.pools[i]))
            return true;
    return false;
}

static bool wait_locked(struct prn_service *s, struct prn_rpc_call *call) PRN_HOLDS(prn_service)
{
    struct prn_list_wait *wait = malloc(sizeof *wait);
    if (!wait)
        return false;
    *wait = (struct prn_list_wait){prn_rpc_call_ref(call), s->list_waits};
    s->list_waits = wait;
    prn_service_look_by_locked(s, s->pools_ns + JOIN_NS);
    return true;
}

int64_t prn_lists_tick_locked(struct prn_service *s, int64_t now_ns)
{
    if (s->list_waits && must_wait_locked(s, now_ns))
        return s->pools_ns + JOIN_NS;
    while (s->list_waits) {
        struct prn_list_wait *wait = s->list_waits;
        s->list_waits = wait->next;
        answer_list_locked(s, wait->call);
        prn_rpc_call_unref(wait->call);
        free(wait);
    }
    return INT64_MAX;
}

void prn_list_backends(struct prn_rpc_call *call, struct prn_bytes *message)
{
    struct prn_service *s = prn_rpc_call_service(call);
    struct prn_identity identity;
    prn_bytes_free(message);
    if (!prn_access(call, &identity))
        return;
    prn_service_lock(s);
    if (!must_wait_locked(s, prn_monotonic_ns()) || !wait_locked(s, call))
        answer_list_locked(s, call);
    prn_service_unlock(s);
}
