/*
 * Reads the configuration: the file's values go into a draft by tables of keys, those that depend
 * on others (addresses on TLS, presets on pools) wait until all are there, then options take the
 * place of values, and what is left open gets its default.
 */
#include "service/config/config.h"

#include "base/text.h"
#include "format/yaml_fields.h"
#include "runtime/runtime.h"
#include "service/config/address.h"
#include "service/config/slurm_pool.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_MAX ((size_t)1 << 20)
#define ARENA_MAX ((size_t)64 << 20)
#define ADDRESSES_MAX 64
#define POOLS_MAX 1000
#define WORKERS_MAX 1000 /* of one pool, on this machine */
#define SOFTWARE_MAX 64
#define PRESETS_MAX 100
#define PRESET_SPECS_MAX 200
#define USERS_MAX 10000
#define NAME_MAX_BYTES 200
#define USD_PER_HOUR_MAX 1e6
#define HALF_DAY_S 43200.0
#define DAY_S 86400.0
#define WEEK_S 604800.0
#define YEAR_S 31536000.0

struct draft {
    struct prn_config config; /* first, so that keys fill that as well */
    const struct prn_yaml_node *listen, *http, *pools, *presets, *users, *per_user;
    const struct prn_yaml_node *shares, *priorities;
};

/* Of users that the file says nothing of, where there are several: with TLS. */
#define QUOTA 128
#define QUOTA_WAITING 50
#define NOT_GIVEN (SIZE_MAX - 1)

static const struct prn_config defaults = {
    .quota_default = NOT_GIVEN,
    .quota_waiting = NOT_GIVEN,
    .queue = "first-come",
    .fair = {.window_s = DAY_S},
    .lease_s = 30,
    .cache_bytes = (uint64_t)20 << 30,
    .limits = {.message_bytes = (uint64_t)1 << 30,
               .model_bytes = (uint64_t)16 << 30,
               .run_timeout_s = 600,
               .sessions = 10000,
               .models_per_session = 1000},
    .log_format = "text",
};

/* ---- Sections ---- */

#define INTO(member) offsetof(struct draft, member)

static const struct prn_yaml_key tls_keys[] = {
    PRN_YAML_KEY("certificate", prn_yaml_read_path, INTO(config.tls_certificate)),
    PRN_YAML_KEY("key", prn_yaml_read_path, INTO(config.tls_key)),
};

static const struct prn_yaml_key quota_keys[] = {
    PRN_YAML_KEY("default", prn_yaml_read_count, INTO(config.quota_default), PRN_YAML_RANGE(0, 1e6),
                 PRN_YAML_OR_NONE(PRN_CONFIG_NO_LIMIT)),
    PRN_YAML_KEY("waiting", prn_yaml_read_count, INTO(config.quota_waiting), PRN_YAML_RANGE(0, 1e6),
                 PRN_YAML_OR_NONE(PRN_CONFIG_NO_LIMIT)),
    PRN_YAML_KEY("users", prn_yaml_read_node, INTO(users)),
};

static const struct prn_yaml_key fair_keys[] = {
    PRN_YAML_KEY("window", prn_yaml_read_duration, INTO(config.fair.window_s),
                 PRN_YAML_RANGE(60, YEAR_S)),
    PRN_YAML_KEY("shares", prn_yaml_read_node, INTO(shares)),
    PRN_YAML_KEY("priorities", prn_yaml_read_node, INTO(priorities)),
};

static int read_queue(const struct prn_yaml_reader *r, const struct prn_yaml_key *key,
                      const struct prn_yaml_node *node, void *into)
{
    const char *policy = NULL;
    int code = prn_yaml_text(r, key->name, node, &policy);
    if (code == 0 && strcmp(policy, "first-come") != 0 && strcmp(policy, "fair") != 0)
        code = prn_yaml_fail_at(r, node, key->name,
                                "'%.100s' is not an order (known: first-come, fair)", policy);
    if (code == 0)
        *(const char **)into = policy;
    return code;
}

static const struct prn_yaml_key cache_keys[] = {
    PRN_YAML_KEY("folder", prn_yaml_read_path, INTO(config.cache_folder),
                 PRN_YAML_RESTART("in the state folder")),
    PRN_YAML_KEY("size", prn_yaml_read_size, INTO(config.cache_bytes), PRN_YAML_RANGE(0, 0x1p60)),
};

#define TIME_KEYS(session, idle)                                                              \
    PRN_YAML_KEY("session_time", prn_yaml_read_duration, session, PRN_YAML_RANGE(1, YEAR_S),  \
                 PRN_YAML_OR_NONE(0), .unset = "none"),                                       \
        PRN_YAML_KEY("session_idle", prn_yaml_read_duration, idle, PRN_YAML_RANGE(1, YEAR_S), \
                     PRN_YAML_OR_NONE(0), .unset = "none")

static const struct prn_yaml_key limits_keys[] = {
    /* gRPC counts a message's bytes in an int. */
    PRN_YAML_KEY("message", prn_yaml_read_size, INTO(config.limits.message_bytes),
                 PRN_YAML_RANGE(0x1p16, 0x1p31 - 1), PRN_YAML_RESTART(NULL)),
    PRN_YAML_KEY("model", prn_yaml_read_size, INTO(config.limits.model_bytes),
                 PRN_YAML_RANGE(0x1p10, 0x1p60)),
    PRN_YAML_KEY("session_memory", prn_yaml_read_size, INTO(config.limits.session_memory_bytes),
                 PRN_YAML_RANGE(0x1p20, 0x1p60), PRN_YAML_OR_NONE(0), .unset = "none"),
    PRN_YAML_KEY("run_timeout", prn_yaml_read_duration, INTO(config.limits.run_timeout_s),
                 PRN_YAML_RANGE(0.01, WEEK_S)),
    PRN_YAML_KEY("sessions", prn_yaml_read_count, INTO(config.limits.sessions),
                 PRN_YAML_RANGE(1, 1e6)),
    PRN_YAML_KEY("models_per_session", prn_yaml_read_count, INTO(config.limits.models_per_session),
                 PRN_YAML_RANGE(1, 1e6)),
    TIME_KEYS(INTO(config.limits.times.session_s), INTO(config.limits.times.idle_s)),
    PRN_YAML_KEY("per_user", prn_yaml_read_node, INTO(per_user)),
};

static bool is_log_format(const char *text)
{
    return strcmp(text, "text") == 0 || strcmp(text, "json") == 0;
}

static int read_log(const struct prn_yaml_reader *r, const struct prn_yaml_key *key,
                    const struct prn_yaml_node *node, void *into)
{
    const char *format = NULL;
    int code = prn_yaml_text(r, key->name, node, &format);
    if (code == 0 && !is_log_format(format))
        code = prn_yaml_fail_at(r, node, key->name, "'%.100s' is not a format (known: text, json)",
                                format);
    if (code == 0)
        *(const char **)into = format;
    return code;
}

static const struct prn_yaml_key file_keys[] = {
    PRN_YAML_KEY("listen", prn_yaml_read_node, INTO(listen)),
    PRN_YAML_SECTION("tls", tls_keys, 0),
    PRN_YAML_KEY("http", prn_yaml_read_node, INTO(http)),
    PRN_YAML_KEY("pools", prn_yaml_read_node, INTO(pools)),
    PRN_YAML_KEY("presets", prn_yaml_read_node, INTO(presets)),
    PRN_YAML_SECTION("quota", quota_keys, 0),
    PRN_YAML_KEY("queue", read_queue, INTO(config.queue), .text = true),
    PRN_YAML_SECTION("fair", fair_keys, 0),
    PRN_YAML_KEY("lease", prn_yaml_read_duration, INTO(config.lease_s),
                 PRN_YAML_RANGE(0.1, HALF_DAY_S)),
    PRN_YAML_KEY("python", prn_yaml_read_path, INTO(config.python),
                 PRN_YAML_RESTART("as PRONY_PYTHON says")),
    PRN_YAML_KEY("state", prn_yaml_read_path, INTO(config.state_folder),
                 PRN_YAML_RESTART("the user's own")),
    PRN_YAML_SECTION("cache", cache_keys, 0),
    PRN_YAML_SECTION("limits", limits_keys, 0),
    PRN_YAML_KEY("audit", prn_yaml_read_path, INTO(config.audit_file), PRN_YAML_RESTART("none")),
    PRN_YAML_KEY("log", read_log, INTO(config.log_format), .text = true, PRN_YAML_RESTART(NULL)),
};

const struct prn_yaml_key *prn_config_keys(size_t *ret_n)
{
    *ret_n = PRN_ARRAY_SIZE(file_keys);
    return file_keys;
}

/* ---- Pools ---- */

/* Whether a name can stand in a spec, as hardware or as software, and means itself there. */
static int check_spec_part(const struct prn_yaml_reader *r, const char *key,
                           const struct prn_yaml_node *node, const char *text, bool hardware)
{
    char spec_text[3 * NAME_MAX_BYTES];
    struct prn_spec spec;
    struct prony_error fault;
    if (strlen(text) > NAME_MAX_BYTES)
        return prn_yaml_fail_at(r, node, key, "longer than %d bytes", NAME_MAX_BYTES);
    snprintf(spec_text, sizeof spec_text, "%s/%s", hardware ? text : "local",
             hardware ? "onnxrt-cpu" : text);
    int code = prn_spec_parse(spec_text, false, r->arena, &spec, &fault);
    if (code == PRONY_ENOMEM)
        return prn_fail_memory(r->err);
    if (code == 0 && spec.n_options == 0 &&
        strcmp(hardware ? spec.hardware : spec.software, text) == 0)
        return 0;
    return prn_yaml_fail_at(r, node, key, "'%s' cannot be part of a backend (hardware/software)",
                            text);
}

static int check_software(const struct prn_yaml_reader *r, const char *key,
                          const struct prn_yaml_node *node, const char *software)
{
    if (prn_runtime_find(software))
        return 0;
    struct prn_buffer known = PRN_BUFFER_INIT(400);
    prn_runtime_list(&known, false);
    int code = prn_yaml_fail_at(r, node, key, "unknown software '%.100s' (known: %s)", software,
                                prn_buffer_text(&known));
    prn_buffer_release(&known);
    return code;
}

static int read_hardware(const struct prn_yaml_reader *r, const struct prn_yaml_key *key,
                         const struct prn_yaml_node *node, void *into)
{
    const char *name = NULL;
    int code = prn_yaml_text(r, key->name, node, &name);
    if (code == 0)
        code = check_spec_part(r, key->name, node, name, true);
    if (code == 0)
        *(const char **)into = name;
    return code;
}

static int read_software(const struct prn_yaml_reader *r, const struct prn_yaml_key *key,
                         const struct prn_yaml_node *node, void *into)
{
    struct prn_config_pool *pool = into;
    const struct prn_yaml_node *const *items = NULL;
    size_t n = 0;
    int code = prn_yaml_list(r, key->name, node, SOFTWARE_MAX, &items, &n);
    if (code < 0)
        return code;
    const char **software = PRN_ARENA_ARRAY(r->arena, n, const char *);
    if (!software)
        return prn_fail_memory(r->err);
    for (size_t i = 0; i < n; i++) {
        code = prn_yaml_text(r, key->name, items[i], &software[i]);
        if (code == 0)
            code = check_spec_part(r, key->name, items[i], software[i], false);
        if (code == 0)
            code = check_software(r, key->name, items[i], software[i]);
        for (size_t k = 0; code == 0 && k < i; k++)
            if (strcmp(software[k], software[i]) == 0)
                code =
                    prn_yaml_fail_at(r, items[i], key->name, "'%s' is listed twice", software[i]);
        if (code < 0)
            return code;
    }
    pool->software = software;
    pool->n_software = n;
    return 0;
}

/* The type was read before the other keys. */
static int read_nothing(const struct prn_yaml_reader *r, const struct prn_yaml_key *key,
                        const struct prn_yaml_node *node, void *into)
{
    (void)r;
    (void)key;
    (void)node;
    (void)into;
    return 0;
}

#define OF_POOL(member) offsetof(struct prn_config_pool, member)

/* What every type of pool has, in front of its own keys. */
#define POOL_KEYS                                                                                  \
    PRN_YAML_KEY("name", read_hardware, OF_POOL(hardware)), PRN_YAML_KEY("type", read_nothing, 0), \
        PRN_YAML_KEY("processor", prn_yaml_read_text, OF_POOL(processor)),                         \
        PRN_YAML_KEY("usd_per_hour", prn_yaml_read_real, OF_POOL(usd_per_hour),                    \
                     PRN_YAML_RANGE(0, USD_PER_HOUR_MAX)),                                         \
        PRN_YAML_KEY("software", read_software, 0),                                                \
        TIME_KEYS(OF_POOL(times.session_s), OF_POOL(times.idle_s))

static const struct prn_yaml_key local_keys[] = {
    POOL_KEYS,
    PRN_YAML_KEY("count", prn_yaml_read_count, OF_POOL(local.count),
                 PRN_YAML_RANGE(0, WORKERS_MAX)),
};

static const struct prn_yaml_key slurm_keys[] = {POOL_KEYS, PRN_CONFIG_SLURM_KEYS};

static const struct pool_type {
    const char *name;
    const struct prn_yaml_key *keys;
    size_t n_keys;
} pool_types[] = {
    [PRN_POOL_LOCAL] = {"local", local_keys, PRN_ARRAY_SIZE(local_keys)},
    [PRN_POOL_SLURM] = {"slurm", slurm_keys, PRN_ARRAY_SIZE(slurm_keys)},
};

const char *prn_pool_type_name(enum prn_pool_type type)
{
    return pool_types[type].name;
}

const struct prn_yaml_key *prn_config_pool_keys(enum prn_pool_type type, size_t *ret_n)
{
    *ret_n = pool_types[type].n_keys;
    return pool_types[type].keys;
}

static int read_type(const struct prn_yaml_reader *r, const struct prn_yaml_node *node,
                     enum prn_pool_type *ret_type)
{
    const struct prn_yaml_node *type = prn_yaml_get(node, "type");
    const char *name = NULL;
    if (prn_yaml_is_null(type))
        return 0;
    int code = prn_yaml_text(r, "type", type, &name);
    if (code < 0)
        return code;
    struct prn_buffer known = PRN_BUFFER_INIT(PRONY_ERROR_TEXT_SIZE);
    size_t found = PRN_ARRAY_SIZE(pool_types);
    for (size_t i = 0; i < PRN_ARRAY_SIZE(pool_types); i++) {
        if (strcmp(pool_types[i].name, name) == 0)
            found = i;
        prn_buffer_printf(&known, "%s%s", i ? ", " : "", pool_types[i].name);
    }
    if (found == PRN_ARRAY_SIZE(pool_types))
        code = prn_yaml_fail_at(r, type, "type", "unknown type of pool '%.100s' (known: %s)", name,
                                prn_buffer_text(&known));
    else
        *ret_type = (enum prn_pool_type)found;
    prn_buffer_release(&known);
    return code;
}

static int read_pool(const struct prn_yaml_reader *r, const struct prn_yaml_node *node,
                     struct prn_config_pool *ret_pool)
{
    struct prn_config_pool pool = {.line = node->line, .usd_per_hour = NAN};
    if (node->kind != PRN_YAML_MAP)
        return prn_yaml_fail_at(r, node, "pools", "not a map with 'name' and more");
    int code = read_type(r, node, &pool.type);
    if (code == 0 && prn_yaml_is_null(prn_yaml_get(node, "name")))
        code =
            prn_yaml_fail_at(r, node, "pools", "a pool needs a 'name': the name of its hardware");
    if (code == 0)
        code = prn_yaml_read_map(r, "pools", node, pool_types[pool.type].keys,
                                 pool_types[pool.type].n_keys, &pool);
    if (code == 0 && pool.type == PRN_POOL_SLURM)
        code = prn_config_slurm_complete(r, node, &pool);
    if (code == 0)
        *ret_pool = pool;
    return code;
}

/* What the file leaves open and prony knows. */
static int complete_pools(struct prn_config *config, struct prn_config_pool *pools, size_t n,
                          struct prony_error *err)
{
    struct prn_hardware_table table;
    int code = prn_hardware_load(NULL, &table, err);
    if (code < 0)
        return code;
    for (size_t i = 0; i < n && code == 0; i++) {
        struct prn_config_pool *pool = &pools[i];
        struct prn_hardware known = prn_hardware_find(&table, pool->hardware);
        /* `local` is this machine only where the service starts the worker. */
        bool elsewhere = strcmp(pool->hardware, "local") == 0 && pool->local.count == 0;
        if (isnan(pool->usd_per_hour))
            pool->usd_per_hour = known.usd_per_hour;
        if (pool->processor || !known.processor || elsewhere)
            continue;
        pool->processor = prn_arena_strdup(&config->arena, known.processor);
        if (!pool->processor)
            code = prn_fail_memory(err);
    }
    prn_hardware_release(&table);
    if (code == 0) {
        config->pools = pools;
        config->n_pools = n;
    }
    return code;
}

static int read_pools(const struct prn_yaml_reader *r, struct draft *draft)
{
    const struct prn_yaml_node *list = draft->pools;
    if (list && list->kind != PRN_YAML_LIST)
        return prn_yaml_fail_at(r, list, "pools", "not a list");
    if (list && list->n == 0)
        return prn_yaml_fail_at(r, list, "pools",
                                "an empty list; leave it out to serve this machine");
    if (list && list->n > POOLS_MAX)
        return prn_yaml_fail_at(r, list, "pools", "more than %d pools", POOLS_MAX);
    size_t n = list ? list->n : 1;
    struct prn_config_pool *pools = PRN_ARENA_ARRAY(r->arena, n, struct prn_config_pool);
    if (!pools)
        return prn_fail_memory(r->err);
    pools[0] =
        (struct prn_config_pool){.hardware = "local", .usd_per_hour = NAN, .local = {.count = 1}};
    for (size_t i = 0; list && i < n; i++) {
        int code = read_pool(r, list->items[i], &pools[i]);
        for (size_t k = 0; code == 0 && k < i; k++)
            if (strcmp(pools[k].hardware, pools[i].hardware) == 0)
                code = prn_yaml_fail_at(r, list->items[i], "pools", "'%s' is listed twice",
                                        pools[i].hardware);
        if (code < 0)
            return code;
    }
    return complete_pools(&draft->config, pools, n, r->err);
}

/* ---- Presets ---- */

static int check_preset_spec(const struct prn_yaml_reader *r, const struct prn_config *config,
                             const char *preset, const struct prn_yaml_node *node,
                             const struct prn_spec *spec)
{
    const struct prn_config_pool *pool = prn_config_pool(config, spec->hardware);
    if (!pool)
        return prn_yaml_fail_at(r, node, preset, "no pool has the hardware of '%.200s'",
                                spec->name);
    if (!prn_config_pool_offers(pool, spec->software))
        return prn_yaml_fail_at(r, node, preset, "the pool '%s' doesn't offer '%.100s'",
                                pool->hardware, spec->software);
    if (strcmp(preset, "default") == 0 && !prn_config_in_default(spec->software))
        return prn_yaml_fail_at(r, node, preset,
                                "octoml-profile's client asks for this preset and can't use "
                                "'%.100s'; put it into another",
                                spec->name);
    return check_software(r, preset, node, spec->software);
}

static int read_preset(const struct prn_yaml_reader *r, const struct prn_config *config,
                       const char *name, const struct prn_yaml_node *node,
                       struct prn_config_preset *ret_preset)
{
    const struct prn_yaml_node *const *items = NULL;
    size_t n = 0;
    if (!prn_text_is_name(name))
        return prn_yaml_fail_at(r, node, "presets", "a name is empty or has control characters");
    int code = prn_yaml_list(r, name, node, PRESET_SPECS_MAX, &items, &n);
    if (code < 0)
        return code;
    struct prn_spec *specs = PRN_ARENA_ARRAY(r->arena, n, struct prn_spec);
    const char *copy = prn_arena_strdup(r->arena, name);
    if (!specs || !copy)
        return prn_fail_memory(r->err);
    for (size_t i = 0; i < n; i++) {
        const char *text = NULL;
        struct prony_error fault;
        code = prn_yaml_text(r, name, items[i], &text);
        if (code == 0)
            code = prn_spec_parse(text, false, r->arena, &specs[i], &fault);
        if (code == PRONY_EUSAGE)
            code = prn_yaml_fail_at(r, items[i], name, "%s", fault.text);
        else if (code == PRONY_ENOMEM)
            code = prn_fail_memory(r->err);
        else if (code == 0)
            code = check_preset_spec(r, config, name, items[i], &specs[i]);
        for (size_t k = 0; code == 0 && k < i; k++)
            if (prn_spec_equal(&specs[k], &specs[i]))
                code = prn_yaml_fail_at(r, items[i], name, "'%.200s' is listed twice", text);
        if (code < 0)
            return code;
    }
    *ret_preset = (struct prn_config_preset){.name = copy, .n = n, .specs = specs};
    return 0;
}

static int read_presets(const struct prn_yaml_reader *r, struct draft *draft)
{
    const struct prn_yaml_node *map = draft->presets;
    if (!map)
        return 0;
    if (map->kind != PRN_YAML_MAP)
        return prn_yaml_fail_at(r, map, "presets", "not a map of names and lists of backends");
    if (map->n > PRESETS_MAX)
        return prn_yaml_fail_at(r, map, "presets", "more than %d presets", PRESETS_MAX);
    struct prn_config_preset *presets = PRN_ARENA_ARRAY(r->arena, map->n, struct prn_config_preset);
    if (!presets)
        return prn_fail_memory(r->err);
    for (size_t i = 0; i < map->n; i++) {
        int code = read_preset(r, &draft->config, map->keys[i], map->items[i], &presets[i]);
        if (code < 0)
            return code;
    }
    draft->config.presets = presets;
    draft->config.n_presets = map->n;
    return 0;
}

/* ---- Users ---- */

static int compare_users(const void *a, const void *b)
{
    return strcmp(((const struct prn_config_quota *)a)->user,
                  ((const struct prn_config_quota *)b)->user);
}

static int read_users(const struct prn_yaml_reader *r, struct draft *draft)
{
    static const struct prn_yaml_key row = {
        .read = prn_yaml_read_count, .max = 1e6, .may_be_none = true, .none = PRN_CONFIG_NO_LIMIT};
    const struct prn_yaml_node *map = draft->users;
    if (!map)
        return 0;
    if (map->kind != PRN_YAML_MAP)
        return prn_yaml_fail_at(r, map, "users", "not a map of users and numbers of backends");
    if (map->n > USERS_MAX)
        return prn_yaml_fail_at(r, map, "users", "more than %d users", USERS_MAX);
    struct prn_config_quota *quotas = PRN_ARENA_ARRAY(r->arena, map->n, struct prn_config_quota);
    if (!quotas)
        return prn_fail_memory(r->err);
    for (size_t i = 0; i < map->n; i++) {
        struct prn_yaml_key key = row;
        key.name = map->keys[i];
        if (!prn_text_is_name(key.name))
            return prn_yaml_fail_at(r, map->items[i], "users",
                                    "a name is empty or has control characters");
        int code = key.read(r, &key, map->items[i], &quotas[i].backends);
        if (code < 0)
            return code;
        quotas[i].user = prn_arena_strdup(r->arena, key.name);
        if (!quotas[i].user)
            return prn_fail_memory(r->err);
    }
    qsort(quotas, map->n, sizeof *quotas, compare_users);
    draft->config.quotas = quotas;
    draft->config.n_quotas = map->n;
    return 0;
}

static int read_user_times(const struct prn_yaml_reader *r, struct draft *draft)
{
#define OF_TIMES(member) offsetof(struct prn_config_times, member)
    static const struct prn_yaml_key keys[] = {TIME_KEYS(OF_TIMES(session_s), OF_TIMES(idle_s))};
    const struct prn_yaml_node *map = draft->per_user;
    if (!map)
        return 0;
    if (map->kind != PRN_YAML_MAP)
        return prn_yaml_fail_at(r, map, "per_user", "not a map of users and their limits");
    if (map->n > USERS_MAX)
        return prn_yaml_fail_at(r, map, "per_user", "more than %d users", USERS_MAX);
    struct prn_config_user_times *all =
        PRN_ARENA_ARRAY(r->arena, map->n, struct prn_config_user_times);
    if (!all)
        return prn_fail_memory(r->err);
    for (size_t i = 0; i < map->n; i++) {
        if (!prn_text_is_name(map->keys[i]))
            return prn_yaml_fail_at(r, map->items[i], "per_user",
                                    "a name is empty or has control characters");
        all[i].times = (struct prn_config_times){NAN, NAN};
        int code = prn_yaml_read_map(r, map->keys[i], map->items[i], keys, PRN_ARRAY_SIZE(keys),
                                     &all[i].times);
        if (code < 0)
            return code;
        all[i].user = prn_arena_strdup(r->arena, map->keys[i]);
        if (!all[i].user)
            return prn_fail_memory(r->err);
    }
    draft->config.user_times = all;
    draft->config.n_user_times = map->n;
    return 0;
}

/* A number for each user. */
static int read_weights(const struct prn_yaml_reader *r, const struct prn_yaml_key *key,
                        const struct prn_yaml_node *map, const struct prn_config_weight **ret_list,
                        size_t *ret_n)
{
    if (!map)
        return 0;
    if (map->kind != PRN_YAML_MAP)
        return prn_yaml_fail_at(r, map, key->name, "not a map of users and numbers");
    if (map->n > USERS_MAX)
        return prn_yaml_fail_at(r, map, key->name, "more than %d users", USERS_MAX);
    struct prn_config_weight *list = PRN_ARENA_ARRAY(r->arena, map->n, struct prn_config_weight);
    if (!list)
        return prn_fail_memory(r->err);
    for (size_t i = 0; i < map->n; i++) {
        struct prn_yaml_key row = *key;
        row.name = map->keys[i];
        if (!prn_text_is_name(row.name))
            return prn_yaml_fail_at(r, map->items[i], key->name,
                                    "a name is empty or has control characters");
        int code = prn_yaml_read_real(r, &row, map->items[i], &list[i].value);
        if (code < 0)
            return code;
        list[i].user = prn_arena_strdup(r->arena, row.name);
        if (!list[i].user)
            return prn_fail_memory(r->err);
    }
    *ret_list = list;
    *ret_n = map->n;
    return 0;
}

static int read_fair(const struct prn_yaml_reader *r, struct draft *draft)
{
    static const struct prn_yaml_key share = {.name = "shares", PRN_YAML_RANGE(0.01, 100)};
    static const struct prn_yaml_key step = {.name = "priorities", PRN_YAML_RANGE(-10, 10)};
    struct prn_config_fair *fair = &draft->config.fair;
    int code = read_weights(r, &share, draft->shares, &fair->shares, &fair->n_shares);
    if (code == 0)
        code = read_weights(r, &step, draft->priorities, &fair->priorities, &fair->n_priorities);
    for (size_t i = 0; code == 0 && i < fair->n_priorities; i++)
        if (fair->priorities[i].value != floor(fair->priorities[i].value))
            code = prn_yaml_fail_at(r, draft->priorities, "priorities",
                                    "that of '%.100s' is not a whole number",
                                    fair->priorities[i].user);
    return code;
}

static double weight_of(const struct prn_config_weight *list, size_t n, const char *user,
                        double otherwise)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(list[i].user, user) == 0)
            return list[i].value;
    return otherwise;
}

double prn_config_share(const struct prn_config *config, const char *user)
{
    return weight_of(config->fair.shares, config->fair.n_shares, user, 1);
}

int prn_config_priority(const struct prn_config *config, const char *user)
{
    return (int)weight_of(config->fair.priorities, config->fair.n_priorities, user, 0);
}

bool prn_config_is_fair(const struct prn_config *config)
{
    return strcmp(config->queue, "fair") == 0;
}

static double stricter(double limit, double other)
{
    return limit > 0 && !(other > 0 && other < limit) ? limit : other;
}

struct prn_config_times prn_config_times(const struct prn_config *config, const char *user,
                                         const char *const *hardware, size_t n)
{
    struct prn_config_times times = config->limits.times;
    for (size_t i = 0; i < config->n_user_times; i++) {
        const struct prn_config_user_times *own = &config->user_times[i];
        if (strcmp(own->user, user) != 0)
            continue;
        times.session_s = isnan(own->times.session_s) ? times.session_s : own->times.session_s;
        times.idle_s = isnan(own->times.idle_s) ? times.idle_s : own->times.idle_s;
    }
    for (size_t i = 0; i < n; i++) {
        const struct prn_config_pool *pool = prn_config_pool(config, hardware[i]);
        if (!pool)
            continue;
        times.session_s = stricter(times.session_s, pool->times.session_s);
        times.idle_s = stricter(times.idle_s, pool->times.idle_s);
    }
    return times;
}

/* ---- Addresses ---- */

/* Where a value comes from: a line of the file, or an option. */
struct origin {
    const struct prn_yaml_reader *reader;
    const struct prn_yaml_node *node; /* NULL: an option, or a default */
    const char *key, *option;
};

static int fail_at(const struct origin *from, const char *format, ...) PRN_PRINTF(2, 3);

static int fail_at(const struct origin *from, const char *format, ...)
{
    struct prony_error fault;
    va_list args;
    va_start(args, format);
    prn_vfail(&fault, PRONY_EUSAGE, format, args);
    va_end(args);
    return from->node
               ? prn_yaml_fail_at(from->reader, from->node, from->key, "%s", fault.text)
               : prn_fail(from->reader->err, PRONY_EUSAGE, "%s: %s", from->option, fault.text);
}

static int check_listen(const struct origin *from, const char *text, bool tls,
                        struct prn_config_address *ret_address)
{
    struct prn_address address;
    const char *fault = prn_address_parse(text, &address);
    if (fault)
        return fail_at(from, "bad address '%.200s': %s", text, fault);
    if (!address.local && !tls)
        return fail_at(from,
                       "'%.200s' is reached from other machines, so it needs a certificate and a "
                       "key; without them only loopback is served, such as 127.0.0.1:0",
                       text);
    *ret_address = (struct prn_config_address){
        .text = text, .local = address.local, .tls = tls && !address.socket_file};
    return 0;
}

static int read_listen(const struct prn_yaml_reader *r, struct draft *draft,
                       const struct prn_serve_options *options)
{
    static const char *const on_loopback[] = {"127.0.0.1:0"};
    const struct prn_yaml_node *const *items = NULL;
    const char *const *texts = on_loopback;
    size_t n = 1;
    int code = 0;
    if (options->n_listen > 0) {
        texts = options->listen;
        n = options->n_listen;
    } else if (draft->listen) {
        code = prn_yaml_list(r, "listen", draft->listen, ADDRESSES_MAX, &items, &n);
        if (code < 0)
            return code;
    }
    struct prn_config_address *listen = PRN_ARENA_ARRAY(r->arena, n, struct prn_config_address);
    if (!listen)
        return prn_fail_memory(r->err);
    for (size_t i = 0; i < n; i++) {
        struct origin from = {r, items ? items[i] : NULL, "listen", "--listen"};
        const char *text = NULL;
        if (items)
            code = prn_yaml_text(r, "listen", items[i], &text);
        else if (!(text = prn_arena_strdup(r->arena, texts[i])))
            code = prn_fail_memory(r->err);
        if (code == 0)
            code = check_listen(&from, text, draft->config.tls_certificate != NULL, &listen[i]);
        for (size_t k = 0; code == 0 && k < i; k++)
            if (strcmp(listen[k].text, listen[i].text) == 0)
                code = fail_at(&from, "'%s' is listed twice", listen[i].text);
        if (code < 0)
            return code;
    }
    draft->config.listen = listen;
    draft->config.n_listen = n;
    return 0;
}

static int read_http(const struct prn_yaml_reader *r, struct draft *draft,
                     const struct prn_serve_options *options)
{
    struct origin from = {r, options->http ? NULL : draft->http, "http", "--http"};
    const char *text = NULL;
    int code = 0;
    if (options->http && !(text = prn_arena_strdup(r->arena, options->http)))
        code = prn_fail_memory(r->err);
    else if (from.node)
        code = prn_yaml_text(r, "http", from.node, &text);
    if (code < 0 || !text)
        return code;
    struct prn_address address;
    const char *fault = prn_address_parse(text, &address);
    if (fault || address.socket_file)
        return fail_at(&from, "bad address '%.200s': %s", text,
                       fault ? fault : "it must have a port");
    draft->config.http = text;
    return 0;
}

/* ---- All of it ---- */

static int take_option(struct prn_arena *arena, const char *option, const char **into,
                       struct prony_error *err)
{
    if (!option)
        return 0;
    *into = prn_arena_strdup(arena, option);
    return *into ? 0 : prn_fail_memory(err);
}

static int take_options(const struct prn_yaml_reader *r, struct prn_config *config,
                        const struct prn_serve_options *options)
{
    int code = take_option(r->arena, options->tls_certificate, &config->tls_certificate, r->err);
    if (code == 0)
        code = take_option(r->arena, options->tls_key, &config->tls_key, r->err);
    if (code == 0)
        code = take_option(r->arena, options->python, &config->python, r->err);
    if (code == 0)
        code = take_option(r->arena, options->state_folder, &config->state_folder, r->err);
    if (code == 0)
        code = take_option(r->arena, options->log_format, &config->log_format, r->err);
    if (code == 0 && !is_log_format(config->log_format))
        code = prn_fail(r->err, PRONY_EUSAGE, "--log-format: '%.100s' is not text or json",
                        config->log_format);
    return code;
}

static int check_tls(const struct prn_yaml_reader *r, const struct draft *draft,
                     const struct prn_serve_options *options)
{
    const struct prn_config *config = &draft->config;
    bool by_option = options->tls_certificate || options->tls_key;
    struct origin from = {r, by_option ? NULL : prn_yaml_get(prn_yaml_root(r->yaml), "tls"), "tls",
                          "--tls-cert, --tls-key"};
    if (!config->tls_certificate != !config->tls_key)
        return fail_at(&from, "a %s without a %s", config->tls_key ? "key" : "certificate",
                       config->tls_key ? "certificate" : "key");
    char *certificate = NULL;
    char *key = NULL;
    struct prony_error fault;
    int code = prn_config_read_tls(config, &certificate, &key, &fault);
    if (code < 0)
        return code == PRONY_ENOMEM ? prn_fail_memory(r->err) : fail_at(&from, "%s", fault.text);
    free(certificate);
    free(key);
    return 0;
}

static void fill_quotas(struct prn_config *config)
{
    bool many = config->tls_certificate;
    if (config->quota_default == NOT_GIVEN)
        config->quota_default = many ? QUOTA : PRN_CONFIG_NO_LIMIT;
    if (config->quota_waiting == NOT_GIVEN)
        config->quota_waiting = many ? QUOTA_WAITING : PRN_CONFIG_NO_LIMIT;
}

static int read_all(const struct prn_yaml_reader *r, struct draft *draft,
                    const struct prn_serve_options *options)
{
    const struct prn_yaml_node *root = prn_yaml_root(r->yaml);
    int code = 0;
    if (root && !prn_yaml_is_null(root))
        code =
            prn_yaml_read_map(r, "prony serve", root, file_keys, PRN_ARRAY_SIZE(file_keys), draft);
    if (code == 0)
        code = take_options(r, &draft->config, options);
    if (code == 0)
        code = check_tls(r, draft, options);
    if (code == 0)
        code = read_listen(r, draft, options);
    if (code == 0)
        code = read_http(r, draft, options);
    if (code == 0)
        code = read_pools(r, draft);
    if (code == 0)
        code = read_presets(r, draft);
    if (code == 0)
        code = read_users(r, draft);
    if (code == 0)
        code = read_user_times(r, draft);
    if (code == 0)
        code = read_fair(r, draft);
    fill_quotas(&draft->config);
    return code;
}

static int build(const struct prn_yaml *yaml, const char *name,
                 const struct prn_serve_options *options, struct prn_config *ret_config,
                 struct prony_error *err)
{
    static const struct prn_serve_options none;
    struct draft draft = {.config = defaults};
    draft.config.arena = PRN_ARENA_INIT(ARENA_MAX);
    struct prn_yaml_reader r = {yaml, &draft.config.arena, err,
                                prn_yaml_folder(&draft.config.arena, name)};
    int code = r.folder ? read_all(&r, &draft, options ? options : &none) : prn_fail_memory(err);
    if (code < 0)
        prn_config_release(&draft.config);
    else
        *ret_config = draft.config;
    return code;
}

int prn_config_parse(const char *text, size_t len, const char *name,
                     const struct prn_serve_options *options, struct prn_config *ret_config,
                     struct prony_error *err)
{
    struct prn_yaml *yaml;
    int code = prn_yaml_parse(text, len, name, &yaml, err);
    if (code < 0)
        return code;
    code = build(yaml, name, options, ret_config, err);
    prn_yaml_free(yaml);
    return code;
}

int prn_config_load(const struct prn_serve_options *options, struct prn_config *ret_config,
                    struct prony_error *err)
{
    if (!options || !options->config_file)
        return prn_config_parse("", 0, "", options, ret_config, err);
    struct prn_yaml *yaml;
    int code = prn_yaml_read(options->config_file, FILE_MAX, &yaml, err);
    if (code < 0)
        return code;
    code = build(yaml, options->config_file, options, ret_config, err);
    prn_yaml_free(yaml);
    return code;
}

void prn_config_release(struct prn_config *config)
{
    prn_arena_release(&config->arena);
    *config = (struct prn_config){0};
}

/* ---- Questions ---- */

const struct prn_config_pool *prn_config_pool(const struct prn_config *config, const char *hardware)
{
    for (size_t i = 0; i < config->n_pools; i++)
        if (strcmp(config->pools[i].hardware, hardware) == 0)
            return &config->pools[i];
    return NULL;
}

bool prn_config_pool_offers(const struct prn_config_pool *pool, const char *software)
{
    bool found = pool->n_software == 0;
    for (size_t i = 0; i < pool->n_software; i++)
        found = found || strcmp(pool->software[i], software) == 0;
    return found;
}

size_t prn_config_pool_promises(const struct prn_config_pool *pool)
{
    if (pool->type == PRN_POOL_SLURM)
        return pool->slurm.hosts;
    return pool->local.count > 0 ? pool->local.count : 1;
}

const struct prn_config_preset *prn_config_preset(const struct prn_config *config, const char *name)
{
    for (size_t i = 0; i < config->n_presets; i++)
        if (strcmp(config->presets[i].name, name) == 0)
            return &config->presets[i];
    return NULL;
}

bool prn_config_in_default(const char *software)
{
    const struct prn_runtime_ops *runtime = prn_runtime_find(software);
    return runtime && runtime->in_default;
}

size_t prn_config_quota(const struct prn_config *config, const char *user)
{
    const struct prn_config_quota wanted = {.user = user};
    const struct prn_config_quota *found = config->n_quotas > 0
                                               ? bsearch(&wanted, config->quotas, config->n_quotas,
                                                         sizeof *config->quotas, compare_users)
                                               : NULL;
    return found ? found->backends : config->quota_default;
}
