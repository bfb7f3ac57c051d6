/* The file of `prony check`. What was accepted must be fit for measuring, whatever the file said;
 * what was refused must be one line that names it. */
#include "measure/check/config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void need(bool holds)
{
    if (!holds)
        abort();
}

static void need_texts(const struct prn_texts *texts)
{
    for (size_t i = 0; i < texts->n; i++)
        need(texts->items[i] != NULL);
}

static void check(const struct prn_check_config *config)
{
    need(config->n_models > 0 && config->timeout_s > 0);
    for (size_t i = 0; i < config->n_models; i++) {
        const struct prn_check_model *m = &config->models[i];
        const struct prn_check_limits *l = &m->limits;
        need(m->name[0] && m->path[0] && m->written[0]);
        need(!isnan(l->time) || !isnan(l->memory) || !isnan(l->size) || l->outputs);
        need(!(l->time < 0) && !(l->memory < 0) && !(l->size < 0) && !(l->tolerance < 0));
        need(m->old.source != PRN_CHECK_SOURCE_GIT || m->old.revision);
        need(m->old.source == PRN_CHECK_SOURCE_NONE || m->old.revision || m->old.path);
        need_texts(&m->backends);
        need_texts(&m->dims);
        need_texts(&m->shapes);
        need_texts(&m->inputs);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct prn_check_config config;
    struct prony_error err = {0};
    if (prn_check_config_parse((const char *)data, size, "fuzz", &config, &err) == 0) {
        check(&config);
        prn_check_config_release(&config);
    } else {
        need(strstr(err.text, "'fuzz'") && !strchr(err.text, '\n'));
    }
    return 0;
}
