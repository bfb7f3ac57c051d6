#include "record/remote.h"

#include "base/buffer.h"

#include <arpa/inet.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NAMES_MAX 1024

/* ---- Addresses ---- */

/* A name that only begins like a loopback address isn't one. */
static bool is_loopback(const char *address)
{
    char host[INET6_ADDRSTRLEN];
    struct in_addr four;
    const char *colon = strrchr(address, ':');
    size_t len = colon ? (size_t)(colon - address) : strlen(address);
    if (strncmp(address, "unix:", 5) == 0)
        return true;
    if (len >= sizeof host)
        return false;
    memcpy(host, address, len);
    host[len] = '\0';
    if (strcmp(host, "localhost") == 0 || strcmp(host, "[::1]") == 0)
        return true;
    return inet_pton(AF_INET, host, &four) == 1 && ntohl(four.s_addr) >> 24 == 127;
}

const char *prn_remote_ca(const char *address, bool insecure, const char *given)
{
    const char *named = secure_getenv("PRONY_CA");
    if (given || insecure || !named || !*named || strncmp(address, "unix:", 5) == 0)
        return given;
    return named;
}

bool prn_remote_is_secure(const char *address, bool insecure, const char *ca_file)
{
    return !insecure && (prn_remote_ca(address, insecure, ca_file) || !is_loopback(address));
}

/* ---- Backends ---- */

const struct prn_remote_backend *prn_remote_find(const struct prn_remote_offer *offer,
                                                 const struct prn_spec *spec)
{
    for (size_t i = 0; i < offer->n_backends; i++) {
        const struct prn_spec *offered = &offer->backends[i].spec;
        if (strcmp(offered->hardware, spec->hardware) == 0 &&
            strcmp(offered->software, spec->software) == 0)
            return &offer->backends[i];
    }
    return NULL;
}

static int fail_not_offered(const struct prn_remote_offer *offer, const struct prn_spec *spec,
                            const char *address, struct prony_error *err)
{
    struct prn_buffer names = PRN_BUFFER_INIT(NAMES_MAX);
    for (size_t i = 0; i < offer->n_backends; i++)
        prn_buffer_printf(&names, "%s%s", i > 0 ? ", " : "", offer->backends[i].spec.name);
    int code = prn_fail(err, PRONY_EUNAVAILABLE, "'%s' has no backend '%s/%s'; it has %s", address,
                        spec->hardware, spec->software,
                        names.len ? prn_buffer_text(&names) : "none at all");
    prn_buffer_release(&names);
    return code;
}

static const struct prn_remote_preset *find_preset(const struct prn_remote_offer *offer,
                                                   const char *name)
{
    for (size_t i = 0; i < offer->n_presets; i++)
        if (strcmp(offer->presets[i].name, name) == 0 && offer->presets[i].n_backends > 0)
            return &offer->presets[i];
    return NULL;
}

int prn_remote_choose(const struct prn_remote_offer *offer, const struct prn_texts *texts,
                      const char *address, struct prn_arena *arena, struct prn_spec **ret_backends,
                      size_t *ret_n, const char **ret_preset, struct prony_error *err)
{
    *ret_preset = NULL;
    if (texts->n == 0) {
        const struct prn_remote_preset *preset = find_preset(offer, "all");
        preset = preset ? preset : find_preset(offer, "default");
        if (!preset)
            return prn_fail(err, PRONY_EUNAVAILABLE,
                            "'%s' has no preset of backends; name the backends", address);
        *ret_backends = preset->backends;
        *ret_n = preset->n_backends;
        *ret_preset = preset->name;
        return 0;
    }
    struct prn_spec *backends = PRN_ARENA_ARRAY(arena, texts->n + 1, struct prn_spec);
    if (!backends)
        return prn_fail_memory(err);
    for (size_t i = 0; i < texts->n; i++) {
        int code = prn_spec_parse(texts->items[i], true, arena, &backends[i], err);
        if (code == 0 && !prn_remote_find(offer, &backends[i]))
            code = fail_not_offered(offer, &backends[i], address, err);
        if (code < 0)
            return code;
    }
    *ret_backends = backends;
    *ret_n = texts->n;
    return 0;
}

int prn_remote_describe(const struct prn_remote_offer *offer, const struct prn_spec *backends,
                        size_t n, const char *hardware_file, struct prn_profile *profile,
                        struct prony_error *err)
{
    int code = prn_backends_describe(backends, n, hardware_file, profile, err);
    for (size_t i = 0; code == 0 && i < n; i++) {
        const struct prn_remote_backend *b = prn_remote_find(offer, &backends[i]);
        struct prn_result *r = &profile->results[i];
        /* "local" is the service's machine, not this one. */
        r->processor = b && b->processor ? prn_arena_strdup(&profile->arena, b->processor) : NULL;
        r->runtime_version = b && b->version ? prn_arena_strdup(&profile->arena, b->version) : NULL;
        if (b && isfinite(b->usd_per_hour) && (!hardware_file || isnan(r->usd_per_hour)))
            r->usd_per_hour = b->usd_per_hour;
        if (b && ((b->processor && !r->processor) || (b->version && !r->runtime_version)))
            code = prn_fail_memory(err);
    }
    return code;
}

/* The first backend of the same hardware. */
static size_t first_of(const struct prn_spec *backends, size_t backend)
{
    size_t first = 0;
    while (strcmp(backends[first].hardware, backends[backend].hardware) != 0)
        first++;
    return first;
}

size_t prn_remote_host(const struct prn_spec *backends, size_t backend)
{
    size_t first = first_of(backends, backend);
    size_t host = 0;
    for (size_t i = 0; i < first; i++)
        host += first_of(backends, i) == i;
    return host;
}

const char *prn_remote_hardware(const struct prn_spec *backends, size_t n, size_t host)
{
    for (size_t i = 0; i < n; i++)
        if (prn_remote_host(backends, i) == host)
            return backends[i].hardware;
    return NULL;
}
