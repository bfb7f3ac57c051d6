/* The configuration of the service. What was accepted must be fit for serving, whatever the file
 * said; what was refused must be one line that names it. */
#include "service/config/config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void need(bool holds)
{
    if (!holds)
        abort();
}

static size_t changes(const struct prn_config *before, const struct prn_config *after)
{
    struct prn_arena arena = PRN_ARENA_INIT((size_t)16 << 20);
    struct prn_config_change *list = NULL;
    struct prony_error err;
    size_t n = 0;
    need(prn_config_compare(before, after, &arena, &list, &n, &err) == 0);
    for (size_t i = 0; i < n; i++)
        need(strlen(list[i].text) > 0 && !strchr(list[i].text, '\n'));
    prn_arena_release(&arena);
    return n;
}

static void check(const struct prn_config *config)
{
    struct prn_config standard;
    need(config->n_listen > 0 && config->n_pools > 0);
    for (size_t i = 0; i < config->n_listen; i++)
        need(config->listen[i].local || config->listen[i].tls);
    for (size_t i = 0; i < config->n_pools; i++) {
        const struct prn_config_pool *pool = &config->pools[i];
        need(prn_config_pool(config, pool->hardware) == pool);
        need(isnan(pool->usd_per_hour) || pool->usd_per_hour >= 0);
    }
    for (size_t i = 0; i < config->n_presets; i++) {
        const struct prn_config_preset *preset = &config->presets[i];
        need(prn_config_preset(config, preset->name) == preset && preset->n > 0);
        for (size_t k = 0; k < preset->n; k++)
            need(prn_config_pool(config, preset->specs[k].hardware) != NULL);
    }
    for (size_t i = 0; i < config->n_quotas; i++)
        need(prn_config_quota(config, config->quotas[i].user) == config->quotas[i].backends);
    need(config->lease_s > 0 && config->limits.run_timeout_s > 0);
    need(config->limits.message_bytes > 0 && config->limits.message_bytes <= INT32_MAX);
    need(changes(config, config) == 0);
    need(prn_config_load(NULL, &standard, NULL) == 0);
    changes(&standard, config);
    changes(config, &standard);
    prn_config_release(&standard);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct prn_config config;
    struct prony_error err = {0};
    if (prn_config_parse((const char *)data, size, "fuzz", NULL, &config, &err) == 0) {
        check(&config);
        prn_config_release(&config);
    } else {
        need(strstr(err.text, "'fuzz'") && !strchr(err.text, '\n'));
    }
    return 0;
}
