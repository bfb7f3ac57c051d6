/* What a reload changes, in words. Single values are compared by a table; lists by what a person
 * would call the same entry: the hardware of a pool, the name of a preset, a user. */
#include "service/config.h"

#include "base/array.h"
#include "base/format.h"

#include <math.h>
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
    KIND_TEXT,
    KIND_COUNT,
    KIND_BYTES,
    KIND_SECONDS,
};

struct value {
    const char *name;
    enum kind kind;
    size_t offset;
    bool restart;
    const char *unset; /* what NULL, no limit or 0 bytes is called */
};

#define VALUE(member) offsetof(struct prn_config, member)

static const struct value values_in_front[] = {
    {"http", KIND_TEXT, VALUE(http), true, "none"},
};

static const struct value values_behind[] = {
    {"lease", KIND_SECONDS, VALUE(lease_s), false, NULL},
    {"python", KIND_TEXT, VALUE(python), true, "as PRONY_PYTHON says"},
    {"state", KIND_TEXT, VALUE(state_folder), true, "the user's own"},
    {"cache.folder", KIND_TEXT, VALUE(cache_folder), true, "in the state folder"},
    {"cache.size", KIND_BYTES, VALUE(cache_bytes), false, "0 B"},
    {"limits.message", KIND_BYTES, VALUE(limits.message_bytes), true, NULL},
    {"limits.model", KIND_BYTES, VALUE(limits.model_bytes), false, NULL},
    {"limits.session_memory", KIND_BYTES, VALUE(limits.session_memory_bytes), false, "none"},
    {"limits.run_timeout", KIND_SECONDS, VALUE(limits.run_timeout_s), false, NULL},
    {"limits.sessions", KIND_COUNT, VALUE(limits.sessions), false, NULL},
    {"limits.models_per_session", KIND_COUNT, VALUE(limits.models_per_session), false, NULL},
    {"log", KIND_TEXT, VALUE(log_format), true, NULL},
};

static const char *count_text(char buffer[PRN_FORMAT_SIZE], size_t count)
{
    return count == PRN_CONFIG_NO_LIMIT ? "none" : prn_format_integer(buffer, count);
}

static const char *value_text(const struct value *v, const struct prn_config *config,
                              char buffer[PRN_FORMAT_SIZE])
{
    const char *at = (const char *)config + v->offset;
    switch (v->kind) {
    case KIND_TEXT: {
        const char *text = *(const char *const *)at;
        return text ? text : v->unset;
    }
    case KIND_COUNT:
        return count_text(buffer, *(const size_t *)at);
    case KIND_BYTES: {
        uint64_t bytes = *(const uint64_t *)at;
        return bytes == 0 && v->unset ? v->unset : prn_format_bytes(buffer, (double)bytes);
    }
    case KIND_SECONDS:
        return prn_format_duration(buffer, *(const double *)at * 1e9);
    }
    return "";
}

static bool same_value(const struct value *v, const struct prn_config *a,
                       const struct prn_config *b)
{
    const char *left = (const char *)a + v->offset;
    const char *right = (const char *)b + v->offset;
    switch (v->kind) {
    case KIND_TEXT:
        return same_text(*(const char *const *)left, *(const char *const *)right);
    case KIND_COUNT:
        return *(const size_t *)left == *(const size_t *)right;
    case KIND_BYTES:
        return *(const uint64_t *)left == *(const uint64_t *)right;
    case KIND_SECONDS:
        return *(const double *)left == *(const double *)right;
    }
    return true;
}

static void compare_values(struct differ *d, const struct value *values, size_t n)
{
    char old_text[PRN_FORMAT_SIZE];
    char new_text[PRN_FORMAT_SIZE];
    for (size_t i = 0; i < n; i++)
        if (!same_value(&values[i], d->before, d->after))
            note(d, values[i].restart, "%s: %s instead of %s", values[i].name,
                 value_text(&values[i], d->after, new_text),
                 value_text(&values[i], d->before, old_text));
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

static const char *price_text(char buffer[PRN_FORMAT_SIZE], double usd_per_hour)
{
    return isnan(usd_per_hour) ? "not known" : prn_format_shortest(buffer, usd_per_hour);
}

static bool same_software(const struct prn_config_pool *a, const struct prn_config_pool *b)
{
    bool same = a->n_software == b->n_software;
    for (size_t i = 0; same && i < a->n_software; i++)
        same = prn_config_pool_offers(b, a->software[i]);
    return same;
}

static void compare_slurm_text(struct differ *d, const char *name, const char *key,
                               const char *before, const char *after)
{
    if (!same_text(before, after))
        note(d, false, "pool '%s': %s '%s' instead of '%s'", name, key, after ? after : "",
             before ? before : "");
}

static bool same_list(const char *const *a, size_t n_a, const char *const *b, size_t n_b)
{
    bool same = n_a == n_b;
    for (size_t i = 0; same && i < n_a; i++)
        same = strcmp(a[i], b[i]) == 0;
    return same;
}

static void compare_slurm(struct differ *d, const char *name, const struct prn_config_slurm *before,
                          const struct prn_config_slurm *after)
{
    static const struct {
        const char *key;
        size_t offset;
        bool seconds;
    } keys[] = {
#define SLURM(member) offsetof(struct prn_config_slurm, member)
        {"partition", SLURM(partition.text), false},
        {"constraint", SLURM(constraint.text), false},
        {"gres", SLURM(gres.text), false},
        {"account", SLURM(account.text), false},
        {"qos", SLURM(qos.text), false},
        {"time", SLURM(time_s), true},
        {"session", SLURM(session_s), true},
        {"idle", SLURM(idle_s), true},
        {"join", SLURM(join_s), true},
        {"poll", SLURM(poll_s), true},
        {"server", SLURM(server), false},
        {"ca", SLURM(ca), false},
        {"program", SLURM(program), false},
        {"output", SLURM(output), false},
#undef SLURM
    };
    char old_text[PRN_FORMAT_SIZE];
    char new_text[PRN_FORMAT_SIZE];
    for (size_t i = 0; i < PRN_ARRAY_SIZE(keys); i++) {
        const char *old = (const char *)before + keys[i].offset;
        const char *new = (const char *)after + keys[i].offset;
        if (!keys[i].seconds)
            compare_slurm_text(d, name, keys[i].key, *(const char *const *)old,
                               *(const char *const *)new);
        else if (*(const double *)old != *(const double *)new)
            note(d, false, "pool '%s': %s %s instead of %s", name, keys[i].key,
                 prn_format_duration(new_text, *(const double *)new * 1e9),
                 prn_format_duration(old_text, *(const double *)old * 1e9));
    }
    if (before->hosts != after->hosts)
        note(d, false, "pool '%s': hosts %zu instead of %zu", name, after->hosts, before->hosts);
    if (!same_list(before->options, before->n_options, after->options, after->n_options))
        note(d, false, "pool '%s': other options", name);
    if (!same_list(before->environment, before->n_environment, after->environment,
                   after->n_environment))
        note(d, false, "pool '%s': another environment", name);
}

static void compare_pool(struct differ *d, const struct prn_config_pool *before,
                         const struct prn_config_pool *after)
{
    char old_text[PRN_FORMAT_SIZE];
    char new_text[PRN_FORMAT_SIZE];
    const char *name = after->hardware;
    if (before->type != after->type)
        note(d, false, "pool '%s': type %s instead of %s", name, prn_pool_type_name(after->type),
             prn_pool_type_name(before->type));
    else if (after->type == PRN_POOL_SLURM)
        compare_slurm(d, name, &before->slurm, &after->slurm);
    if (!same_text(before->processor, after->processor))
        note(d, false, "pool '%s': processor '%s' instead of '%s'", name,
             after->processor ? after->processor : "", before->processor ? before->processor : "");
    bool known = !isnan(before->usd_per_hour) && !isnan(after->usd_per_hour);
    if (known ? before->usd_per_hour != after->usd_per_hour
              : isnan(before->usd_per_hour) != isnan(after->usd_per_hour))
        note(d, false, "pool '%s': usd_per_hour %s instead of %s", name,
             price_text(new_text, after->usd_per_hour), price_text(old_text, before->usd_per_hour));
    if (!same_software(before, after))
        note(d, false, "pool '%s': other software", name);
    if (before->local.count != after->local.count)
        note(d, false, "pool '%s': count %zu instead of %zu", name, after->local.count,
             before->local.count);
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
    char old_text[PRN_FORMAT_SIZE];
    char new_text[PRN_FORMAT_SIZE];
    if (d->before->quota_default != d->after->quota_default)
        note(d, false, "quota.default: %s instead of %s",
             count_text(new_text, d->after->quota_default),
             count_text(old_text, d->before->quota_default));
    for (size_t i = 0; i < d->after->n_quotas; i++)
        compare_user(d, d->after->quotas[i].user);
    for (size_t i = 0; i < d->before->n_quotas; i++)
        if (!has_user(d->after, d->before->quotas[i].user))
            compare_user(d, d->before->quotas[i].user);
}

int prn_config_compare(const struct prn_config *before, const struct prn_config *after,
                       struct prn_arena *arena, struct prn_config_change **ret_changes,
                       size_t *ret_n, struct prony_error *err)
{
    struct differ d = {.before = before, .after = after, .arena = arena};
    compare_listen(&d);
    compare_tls(&d);
    compare_values(&d, values_in_front, PRN_ARRAY_SIZE(values_in_front));
    compare_pools(&d);
    compare_presets(&d);
    compare_quotas(&d);
    compare_values(&d, values_behind, PRN_ARRAY_SIZE(values_behind));
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
