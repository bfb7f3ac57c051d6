/* What a reload changes, in words. Single values are compared by the tables of keys; lists by what
 * a person would call the same entry: the hardware of a pool, the name of a preset, a user. */
#include "service/config/config.h"

#include "base/array.h"
#include "base/format.h"
#include "format/yaml_fields.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct differ {
    const struct prn_config *before, *after;
    struct prn_arena *arena;
    struct prn_config_change *changes;
    size_t n;
    int error; /* the first one sticks */
};

static void note(struct differ *d, bool restart, const char *format, ...) PRN_PRINTF(3, 4);

static void note(struct differ *d, bool restart, const char *format, ...)
{
    struct prony_error text;
    va_list args;
    va_start(args, format);
    prn_vfail(&text, PRONY_OK, format, args);
    va_end(args);
    struct prn_config_change *changes = prn_array_grow(d->changes, d->n, sizeof *changes);
    const char *copy = changes ? prn_arena_strdup(d->arena, text.text) : NULL;
    d->changes = changes ? changes : d->changes;
    if (!copy) {
        d->error = PRONY_ENOMEM;
        return;
    }
    changes[d->n++] = (struct prn_config_change){restart, copy};
}

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

/* ---- Single values ---- */

enum kind {
    KIND_NONE, /* a list or a section */
    KIND_TEXT,
    KIND_COUNT,
    KIND_BYTES,
    KIND_SECONDS,
    KIND_PRICE,
};

static enum kind kind_of(const struct prn_yaml_key *key)
{
    if (key->text || key->read == prn_yaml_read_text || key->read == prn_yaml_read_path)
        return KIND_TEXT;
    return key->read == prn_yaml_read_count      ? KIND_COUNT
           : key->read == prn_yaml_read_size     ? KIND_BYTES
           : key->read == prn_yaml_read_duration ? KIND_SECONDS
           : key->read == prn_yaml_read_real     ? KIND_PRICE
                                                 : KIND_NONE;
}

static const size_t kind_bytes[] = {[KIND_NONE] = 0,
                                    [KIND_TEXT] = sizeof(const char *),
                                    [KIND_COUNT] = sizeof(size_t),
                                    [KIND_BYTES] = sizeof(uint64_t),
                                    [KIND_SECONDS] = sizeof(double),
                                    [KIND_PRICE] = sizeof(double)};

static const char *count_text(char buffer[PRN_FORMAT_SIZE], size_t count)
{
    return count == PRN_CONFIG_NO_LIMIT ? "none" : prn_format_integer(buffer, count);
}

static const char *value_text(const struct prn_yaml_key *key, const void *at,
                              char buffer[PRN_FORMAT_SIZE])
{
    const char *unset = key->unset ? key->unset : "";
    switch (kind_of(key)) {
    case KIND_TEXT:
        return *(const char *const *)at ? *(const char *const *)at : unset;
    case KIND_COUNT:
        return count_text(buffer, *(const size_t *)at);
    case KIND_BYTES: {
        uint64_t bytes = *(const uint64_t *)at;
        return bytes == 0 && key->unset ? unset : prn_format_bytes(buffer, (double)bytes);
    }
    case KIND_SECONDS: {
        double seconds = *(const double *)at;
        return !(seconds > 0) && key->unset ? unset : prn_format_duration(buffer, seconds * 1e9);
    }
    case KIND_PRICE:
        return isnan(*(const double *)at) ? "not known"
                                          : prn_format_shortest(buffer, *(const double *)at);
    case KIND_NONE:
        break;
    }
    return "";
}

static bool same_value(enum kind kind, const void *a, const void *b)
{
    if (kind == KIND_TEXT)
        return same_text(*(const char *const *)a, *(const char *const *)b);
    if (kind == KIND_PRICE && isnan(*(const double *)a))
        return isnan(*(const double *)b);
    return memcmp(a, b, kind_bytes[kind]) == 0;
}

/* `name` and `colon` stand in front of the values: "lease: ", "pool 'a': count ". */
static void compare_value(struct differ *d, const struct prn_yaml_key *key, const void *before,
                          const void *after, const char *name, const char *colon)
{
    char old_text[PRN_FORMAT_SIZE];
    char new_text[PRN_FORMAT_SIZE];
    const enum kind kind = kind_of(key);
    const char *old = (const char *)before + key->offset;
    const char *new = (const char *)after + key->offset;
    /* A pool's texts may be empty. */
    const char *quote = kind == KIND_TEXT && !*colon ? "'" : "";
    if (!same_value(kind, old, new))
        note(d, key->restart, "%s%s%s %s%s%s instead of %s%s%s", name, key->name, colon, quote,
             value_text(key, new, new_text), quote, quote, value_text(key, old, old_text), quote);
}

/* ---- Addresses and TLS ---- */

static bool listens_on(const struct prn_config *config, const char *address)
{
    bool found = false;
    for (size_t i = 0; i < config->n_listen; i++)
        found = found || strcmp(config->listen[i].text, address) == 0;
    return found;
}

static void compare_listen(struct differ *d)
{
    for (size_t i = 0; i < d->after->n_listen; i++)
        if (!listens_on(d->before, d->after->listen[i].text))
            note(d, true, "listen: %s is new", d->after->listen[i].text);
    for (size_t i = 0; i < d->before->n_listen; i++)
        if (!listens_on(d->after, d->before->listen[i].text))
            note(d, true, "listen: %s is gone", d->before->listen[i].text);
}

static void compare_tls(struct differ *d)
{
    const struct prn_config *before = d->before;
    const struct prn_config *after = d->after;
    if (!before->tls_certificate != !after->tls_certificate) {
        note(d, true, "tls: %s", after->tls_certificate ? "turned on" : "turned off");
        return;
    }
    if (!same_text(before->tls_certificate, after->tls_certificate))
        note(d, false, "tls.certificate: %s instead of %s", after->tls_certificate,
             before->tls_certificate);
    if (!same_text(before->tls_key, after->tls_key))
        note(d, false, "tls.key: %s instead of %s", after->tls_key, before->tls_key);
}

/* ---- Pools, presets, quotas ---- */

static bool same_software(const struct prn_config_pool *a, const struct prn_config_pool *b)
{
    bool same = a->n_software == b->n_software;
    for (size_t i = 0; same && i < a->n_software; i++)
        same = prn_config_pool_offers(b, a->software[i]);
    return same;
}

static bool same_list(const char *const *a, size_t n_a, const char *const *b, size_t n_b)
{
    bool same = n_a == n_b;
    for (size_t i = 0; same && i < n_a; i++)
        same = strcmp(a[i], b[i]) == 0;
    return same;
}

static void compare_pool(struct differ *d, const struct prn_config_pool *before,
                         const struct prn_config_pool *after)
{
    char name[PRONY_ERROR_TEXT_SIZE];
    size_t n;
    const bool same_type = before->type == after->type;
    const struct prn_yaml_key *keys =
        prn_config_pool_keys(same_type ? after->type : PRN_POOL_LOCAL, &n);
    const struct prn_config_slurm *old = &before->slurm;
    const struct prn_config_slurm *new = &after->slurm;
    snprintf(name, sizeof name, "pool '%s': ", after->hardware);
    if (!same_type)
        note(d, false, "%stype %s instead of %s", name, prn_pool_type_name(after->type),
             prn_pool_type_name(before->type));
    for (size_t i = 0; i < n; i++)
        if (strcmp(keys[i].name, "software") != 0)
            compare_value(d, &keys[i], before, after, name, "");
        else if (!same_software(before, after))
            note(d, false, "%sother software", name);
    if (same_type && !same_list(old->options, old->n_options, new->options, new->n_options))
        note(d, false, "%sother options", name);
    if (same_type &&
        !same_list(old->environment, old->n_environment, new->environment, new->n_environment))
        note(d, false, "%sanother environment", name);
}

static void compare_pools(struct differ *d)
{
    for (size_t i = 0; i < d->after->n_pools; i++) {
        const struct prn_config_pool *pool = &d->after->pools[i];
        const struct prn_config_pool *old = prn_config_pool(d->before, pool->hardware);
        if (old)
            compare_pool(d, old, pool);
        else
            note(d, false, "pool '%s' is new", pool->hardware);
    }
    for (size_t i = 0; i < d->before->n_pools; i++)
        if (!prn_config_pool(d->after, d->before->pools[i].hardware))
            note(d, false, "pool '%s' is gone", d->before->pools[i].hardware);
}

/* The order counts: a session's backends keep it. */
static bool same_preset(const struct prn_config_preset *a, const struct prn_config_preset *b)
{
    bool same = a->n == b->n;
    for (size_t i = 0; same && i < a->n; i++)
        same = strcmp(a->specs[i].name, b->specs[i].name) == 0;
    return same;
}

static void compare_presets(struct differ *d)
{
    for (size_t i = 0; i < d->after->n_presets; i++) {
        const struct prn_config_preset *preset = &d->after->presets[i];
        const struct prn_config_preset *old = prn_config_preset(d->before, preset->name);
        if (!old)
            note(d, false, "preset '%s' is new", preset->name);
        else if (!same_preset(old, preset))
            note(d, false, "preset '%s' has other backends", preset->name);
    }
    for (size_t i = 0; i < d->before->n_presets; i++)
        if (!prn_config_preset(d->after, d->before->presets[i].name))
            note(d, false, "preset '%s' is gone", d->before->presets[i].name);
}

static bool has_user(const struct prn_config *config, const char *user)
{
    bool found = false;
    for (size_t i = 0; i < config->n_quotas; i++)
        found = found || strcmp(config->quotas[i].user, user) == 0;
    return found;
}

/* What a user may have, whether the file names them or not. */
static void compare_user(struct differ *d, const char *user)
{
    char old_text[PRN_FORMAT_SIZE];
    char new_text[PRN_FORMAT_SIZE];
    size_t before = prn_config_quota(d->before, user);
    size_t after = prn_config_quota(d->after, user);
    if (before != after)
        note(d, false, "quota of '%s': %s instead of %s", user, count_text(new_text, after),
             count_text(old_text, before));
}

static void compare_quotas(struct differ *d)
{
    for (size_t i = 0; i < d->after->n_quotas; i++)
        compare_user(d, d->after->quotas[i].user);
    for (size_t i = 0; i < d->before->n_quotas; i++)
        if (!has_user(d->after, d->before->quotas[i].user))
            compare_user(d, d->before->quotas[i].user);
}

static void compare_times_of(struct differ *d, const char *user)
{
    struct prn_config_times before = prn_config_times(d->before, user, NULL, 0);
    struct prn_config_times after = prn_config_times(d->after, user, NULL, 0);
    if (before.session_s != after.session_s || before.idle_s != after.idle_s)
        note(d, false, "limits.per_user: other limits of time for '%s'", user);
}

static void compare_times(struct differ *d)
{
    for (size_t i = 0; i < d->after->n_user_times; i++)
        compare_times_of(d, d->after->user_times[i].user);
    for (size_t i = 0; i < d->before->n_user_times; i++) {
        size_t k = 0;
        while (k < d->after->n_user_times &&
               strcmp(d->after->user_times[k].user, d->before->user_times[i].user) != 0)
            k++;
        if (k == d->after->n_user_times)
            compare_times_of(d, d->before->user_times[i].user);
    }
}

static void compare_share(struct differ *d, const char *user)
{
    double before = prn_config_share(d->before, user);
    double after = prn_config_share(d->after, user);
    if (before != after)
        note(d, false, "share of '%s': %g instead of %g", user, after, before);
}

static void compare_priority(struct differ *d, const char *user)
{
    int before = prn_config_priority(d->before, user);
    int after = prn_config_priority(d->after, user);
    if (before != after)
        note(d, false, "priority of '%s': %d instead of %d", user, after, before);
}

/* Everybody whom either of the lists names, once. */
static void compare_weights(struct differ *d, const struct prn_config_weight *before, size_t n,
                            const struct prn_config_weight *after, size_t n_after,
                            void (*compare)(struct differ *d, const char *user))
{
    for (size_t i = 0; i < n_after; i++)
        compare(d, after[i].user);
    for (size_t i = 0; i < n; i++) {
        size_t k = 0;
        while (k < n_after && strcmp(after[k].user, before[i].user) != 0)
            k++;
        if (k == n_after)
            compare(d, before[i].user);
    }
}

static void compare_shares(struct differ *d)
{
    compare_weights(d, d->before->fair.shares, d->before->fair.n_shares, d->after->fair.shares,
                    d->after->fair.n_shares, compare_share);
}

static void compare_priorities(struct differ *d)
{
    compare_weights(d, d->before->fair.priorities, d->before->fair.n_priorities,
                    d->after->fair.priorities, d->after->fair.n_priorities, compare_priority);
}

static void compare_http(struct differ *d)
{
    const char *before = d->before->http;
    const char *after = d->after->http;
    if (!same_text(before, after))
        note(d, true, "http: %s instead of %s", after ? after : "none", before ? before : "none");
}

/* Keys whose values aren't single ones, or are read later. */
static const struct {
    const char *key;
    void (*compare)(struct differ *d);
} others[] = {
    {"listen", compare_listen},  {"tls", compare_tls},         {"http", compare_http},
    {"pools", compare_pools},    {"presets", compare_presets}, {"users", compare_quotas},
    {"per_user", compare_times}, {"shares", compare_shares},   {"priorities", compare_priorities},
};

static void compare_keys(struct differ *d, const char *section, const struct prn_yaml_key *keys,
                         size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t k = 0;
        while (k < PRN_ARRAY_SIZE(others) && strcmp(others[k].key, keys[i].name) != 0)
            k++;
        if (k < PRN_ARRAY_SIZE(others)) {
            others[k].compare(d);
        } else if (keys[i].keys) {
            char name[64];
            snprintf(name, sizeof name, "%s.", keys[i].name);
            compare_keys(d, name, keys[i].keys, keys[i].n_keys);
        } else {
            compare_value(d, &keys[i], d->before, d->after, section, ":");
        }
    }
}

int prn_config_compare(const struct prn_config *before, const struct prn_config *after,
                       struct prn_arena *arena, struct prn_config_change **ret_changes,
                       size_t *ret_n, struct prony_error *err)
{
    struct differ d = {.before = before, .after = after, .arena = arena};
    size_t n;
    const struct prn_yaml_key *keys = prn_config_keys(&n);
    compare_keys(&d, "", keys, n);
    struct prn_config_change *changes = PRN_ARENA_ARRAY(arena, d.n, struct prn_config_change);
    if (changes && d.n > 0)
        memcpy(changes, d.changes, d.n * sizeof *changes);
    free(d.changes);
    if (d.error || !changes)
        return prn_fail_memory(err);
    *ret_changes = changes;
    *ret_n = d.n;
    return 0;
}

static void keep_values(const struct prn_config *before, struct prn_config *after,
                        const struct prn_yaml_key *keys, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (keys[i].keys)
            keep_values(before, after, keys[i].keys, keys[i].n_keys);
        if (keys[i].restart)
            memcpy((char *)after + keys[i].offset, (const char *)before + keys[i].offset,
                   kind_bytes[kind_of(&keys[i])]);
    }
}

void prn_config_keep(const struct prn_config *before, struct prn_config *after)
{
    after->listen = before->listen;
    after->n_listen = before->n_listen;
    /* Whether there is TLS at all stays; which files it is of doesn't matter here. */
    after->tls_certificate = before->tls_certificate;
    after->tls_key = before->tls_key;
    after->http = before->http;
    size_t n;
    const struct prn_yaml_key *keys = prn_config_keys(&n);
    keep_values(before, after, keys, n);
}
