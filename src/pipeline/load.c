#include "pipeline/load.h"

#include "base/text.h"
#include "pipeline/device_types.h"
#include "pipeline/devices.h"
#include "pipeline/fields.h"
#include "pipeline/models.h"
#include "pipeline/torch_dtype.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct load {
    const struct prn_pipeline_request *request;
    prn_pipeline_warn *warn;
    struct prn_arena *arena;
    struct prn_pipeline pipeline;
    struct choice *choices; /* of hosts */
    size_t n_choices;
    struct prony_error *err;
};

/* One item of the list of hosts, up to a comma. */
struct choice {
    const char *pattern;
    bool limits; /* TYPE=N */
    size_t most;
    bool used;
};

/* ---- The model ---- */

static int load_model(struct load *l)
{
    const struct prn_pipeline_request *r = l->request;
    struct prn_pipeline *p = &l->pipeline;
    struct prn_pipeline_model model;
    size_t element = prn_torch_dtype_bytes(r->dtype);
    if (element == 0)
        return prn_fail(l->err, PRONY_EUSAGE,
                        "--dtype: '%s' is none of PyTorch's types (torch.float32, torch.int8, ...)",
                        r->dtype);
    int code = prn_models_read(r->models_file, r->model_name, l->arena, &model, l->err);
    if (code < 0)
        return code;
    double *bytes_out = PRN_ARENA_ARRAY(l->arena, model.layers, double);
    if (!bytes_out)
        return prn_fail_memory(l->err);
    if (model.n_parameters_out < model.layers)
        l->warn("'%s': 'parameters_out' of '%s' has %zu items for %zu layers; they are repeated",
                r->models_file, r->model_name, model.n_parameters_out, model.layers);
    double per_parameter = (double)element * (double)r->batch_size;
    double copies = (double)r->buffers_in + (double)r->buffers_out + 4;
    p->bytes_in = model.parameters_in * per_parameter;
    double most = p->bytes_in;
    for (size_t j = 0; j < model.layers; j++) {
        bytes_out[j] = model.parameters_out[j % model.n_parameters_out] * per_parameter;
        most = fmax(most, bytes_out[j]);
    }
    if (most * copies > PRN_PIPELINE_COUNT_MAX)
        return prn_fail(l->err, PRONY_ELIMIT,
                        "'%s': a batch of '%s' with its buffers is more than 2^53 bytes",
                        r->models_file, r->model_name);
    p->n_layers = model.layers;
    p->layer_mem_mb = model.mem_mb;
    p->bytes_out = bytes_out;
    return 0;
}

/* ---- Device types ---- */

static bool is_usable(const struct load *l, const struct prn_device_type *type)
{
    const struct prn_pipeline_request *r = l->request;
    if (!type->time_s && !type->has_model)
        l->warn("device type '%s' has no profile of '%s': it is left out", type->name,
                r->model_name);
    else if (!type->time_s)
        l->warn("device type '%s' has no profile of '%s' with %s and batch size %lld: it is left "
                "out",
                type->name, r->model_name, r->dtype, (long long)r->batch_size);
    else if (r->priced && isnan(type->usd_per_hour))
        l->warn("device type '%s' has no price (usd_per_hour): it is left out", type->name);
    else
        return true;
    return false;
}

static int load_types(struct load *l)
{
    const struct prn_pipeline_request *r = l->request;
    struct prn_pipeline *p = &l->pipeline;
    struct prn_device_query query = {r->model_name, r->dtype, r->batch_size, p->n_layers};
    struct prn_device_type *all;
    size_t n;
    int code = prn_device_types_read(r->types_file, &query, l->arena, &all, &n, l->err);
    if (code < 0)
        return code;
    p->types = PRN_ARENA_ARRAY(l->arena, n, struct prn_pipeline_type);
    if (!p->types)
        return prn_fail_memory(l->err);
    for (size_t i = 0; i < n; i++)
        if (is_usable(l, &all[i]))
            p->types[p->n_types++] = (struct prn_pipeline_type){.name = all[i].name,
                                                                .mem_mb = all[i].mem_mb,
                                                                .bw_mbps = all[i].bw_mbps,
                                                                .usd_per_hour = all[i].usd_per_hour,
                                                                .time_s = all[i].time_s,
                                                                .time_ci_s = all[i].time_ci_s};
    if (p->n_types == 0)
        return prn_fail(l->err, PRONY_ENOENT,
                        "'%s': no device type under which 'model_profiles' has '%s' with %s and "
                        "batch size %lld%s",
                        r->types_file, r->model_name, r->dtype, (long long)r->batch_size,
                        r->priced ? ", and that has a price" : "");
    return 0;
}

/* ---- Hosts ---- */

static int parse_choice(struct load *l, const char *text, size_t len, struct choice *ret_choice)
{
    char *copy = prn_arena_strndup(l->arena, text, len);
    if (!copy)
        return prn_fail_memory(l->err);
    struct choice choice = {.pattern = copy};
    char *equals = strrchr(copy, '=');
    if (equals) {
        char *end;
        errno = 0;
        choice.most = strtoul(equals + 1, &end, 10);
        choice.limits = true;
        if (equals[1] < '0' || equals[1] > '9' || *end || errno)
            return prn_fail(l->err, PRONY_EUSAGE, "--hosts: '%s' is not TYPE=NUMBER", copy);
        *equals = '\0';
    }
    if (!copy[0])
        return prn_fail(l->err, PRONY_EUSAGE, "--hosts: an empty name");
    *ret_choice = choice;
    return 0;
}

static int parse_choices(struct load *l)
{
    const struct prn_pipeline_request *r = l->request;
    size_t n = 0;
    for (size_t i = 0; i < r->n_hosts; i++) {
        n++;
        for (const char *c = r->hosts[i]; *c; c++)
            n += *c == ',';
    }
    struct choice *choices = PRN_ARENA_ARRAY(l->arena, n, struct choice);
    if (!choices)
        return prn_fail_memory(l->err);
    n = 0;
    for (size_t i = 0; i < r->n_hosts; i++)
        for (const char *at = r->hosts[i];; at++) {
            size_t len = strcspn(at, ",");
            int code = parse_choice(l, at, len, &choices[n++]);
            if (code < 0)
                return code;
            at += len;
            if (!*at)
                break;
        }
    l->choices = choices;
    l->n_choices = n;
    return 0;
}

static bool may_take_part(struct load *l, const char *host)
{
    bool any_pattern = false;
    bool matches = false;
    for (size_t i = 0; i < l->n_choices; i++) {
        if (l->choices[i].limits)
            continue;
        any_pattern = true;
        if (prn_text_glob(l->choices[i].pattern, host))
            matches = l->choices[i].used = true;
    }
    return matches || !any_pattern;
}

/* `type` is NULL when its hosts are of no use; then it only matters which choices they match. */
static int choose_hosts(struct load *l, const struct prn_device_hosts *all,
                        struct prn_pipeline_type *type)
{
    const char **hosts = PRN_ARENA_ARRAY(l->arena, all->n, const char *);
    if (!hosts)
        return prn_fail_memory(l->err);
    size_t most = all->n;
    for (size_t i = 0; i < l->n_choices; i++)
        if (l->choices[i].limits && prn_text_glob(l->choices[i].pattern, all->type)) {
            l->choices[i].used = true;
            most = l->choices[i].most < most ? l->choices[i].most : most;
        }
    size_t n = 0;
    for (size_t i = 0; i < all->n; i++)
        if (may_take_part(l, all->hosts[i]) && n < most)
            hosts[n++] = all->hosts[i];
    if (type) {
        type->hosts = hosts;
        type->n_hosts = n;
    }
    return 0;
}

static struct prn_pipeline_type *find_type(const struct prn_pipeline *p, const char *name)
{
    for (size_t t = 0; t < p->n_types; t++)
        if (strcmp(p->types[t].name, name) == 0)
            return &p->types[t];
    return NULL;
}

static int load_hosts(struct load *l)
{
    struct prn_device_hosts *all = NULL;
    size_t n = 0;
    int code = prn_devices_read(l->request->devices_file, l->arena, &all, &n, l->err);
    for (size_t i = 0; code == 0 && i < n; i++)
        code = choose_hosts(l, &all[i], find_type(&l->pipeline, all[i].type));
    for (size_t i = 0; code == 0 && i < l->n_choices; i++)
        if (!l->choices[i].used)
            code = prn_fail(l->err, PRONY_EUSAGE, "--hosts: '%s' has no %s '%s'",
                            l->request->devices_file, l->choices[i].limits ? "type" : "host",
                            l->choices[i].pattern);
    return code;
}

int prn_pipeline_load(const struct prn_pipeline_request *request, prn_pipeline_warn *warn,
                      struct prn_arena *arena, struct prn_pipeline *ret_pipeline,
                      struct prony_error *err)
{
    struct load l = {.request = request, .warn = warn, .arena = arena, .err = err};
    l.pipeline = (struct prn_pipeline){.batch_size = request->batch_size,
                                       .buffers_in = request->buffers_in,
                                       .buffers_out = request->buffers_out};
    l.pipeline.model_name = prn_arena_strdup(arena, request->model_name);
    l.pipeline.dtype = prn_arena_strdup(arena, request->dtype);
    if (!l.pipeline.model_name || !l.pipeline.dtype)
        return prn_fail_memory(err);
    int code = parse_choices(&l);
    if (code == 0)
        code = load_model(&l);
    if (code == 0)
        code = load_types(&l);
    if (code == 0)
        code = load_hosts(&l);
    if (code == 0)
        *ret_pipeline = l.pipeline;
    return code;
}
