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

/* With --neighbours; what is searched grows with two to the power of that. */
#define PAIRED_HOSTS_MAX 4096

struct load {
    const struct prn_pipeline_request *request;
    prn_pipeline_warn *warn;
    struct prn_arena *arena;
    struct prn_pipeline pipeline;
    struct prn_device_type *entries; /* of the file of types, those left out included */
    size_t n_entries;
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
                        "--dtype: '%s' is not a PyTorch type (torch.float32, torch.int8, ...)",
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
    if (r->link_bits > 0)
        p->link_share = fmin(1, (double)r->link_bits / (8 * (double)element));
    p->n_layers = model.layers;
    p->layer_mem_mb = model.mem_mb;
    p->fixed_mem_mb = model.mem_fixed_mb;
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
    int code =
        prn_device_types_read(r->types_file, &query, l->arena, &l->entries, &l->n_entries, l->err);
    if (code < 0)
        return code;
    p->types = PRN_ARENA_ARRAY(l->arena, l->n_entries, struct prn_pipeline_type);
    if (!p->types)
        return prn_fail_memory(l->err);
    const struct prn_device_type *all = l->entries;
    for (size_t i = 0; i < l->n_entries; i++)
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

static bool has_entry(const struct load *l, const char *type)
{
    for (size_t i = 0; i < l->n_entries; i++)
        if (strcmp(l->entries[i].name, type) == 0)
            return true;
    return false;
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
    } else if (n > 0 && !has_entry(l, all->type)) {
        l->warn("device type '%s' of '%s' is not in '%s': its %zu host%s left out", all->type,
                l->request->devices_file, l->request->types_file, n, n == 1 ? " is" : "s are");
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

/* ---- Pairs of hosts ---- */

/* A type for each host, so that links between two of them can differ. */
static int divide_types(struct load *l)
{
    struct prn_pipeline *p = &l->pipeline;
    size_t n = 0;
    for (size_t t = 0; t < p->n_types; t++)
        n += p->types[t].n_hosts;
    if (n > PAIRED_HOSTS_MAX)
        return prn_fail(l->err, PRONY_ELIMIT,
                        "--neighbours: %zu hosts are more than %d; --hosts chooses some", n,
                        PAIRED_HOSTS_MAX);
    struct prn_pipeline_type *types = PRN_ARENA_ARRAY(l->arena, n + 1, struct prn_pipeline_type);
    if (!types)
        return prn_fail_memory(l->err);
    n = 0;
    for (size_t t = 0; t < p->n_types; t++)
        for (size_t i = 0; i < p->types[t].n_hosts; i++) {
            types[n] = p->types[t];
            types[n].hosts = &p->types[t].hosts[i];
            types[n++].n_hosts = 1;
        }
    p->types = types;
    p->n_types = n;
    return 0;
}

static int read_pairs(struct load *l, const struct prn_yaml_reader *f, double *mbps)
{
    struct prn_pipeline *p = &l->pipeline;
    const struct prn_yaml_node *root = NULL;
    int code = prn_fields_root(f, "hosts, each with a map of its neighbours", &root);
    for (size_t u = 0; code == 0 && root && u < p->n_types; u++) {
        const struct prn_yaml_node *own = prn_yaml_get(root, p->types[u].hosts[0]);
        if (prn_yaml_is_null(own))
            continue;
        if (own->kind != PRN_YAML_MAP)
            return prn_yaml_fail(f->yaml, own, l->err, "'%s' is not a map of its neighbours",
                                 p->types[u].hosts[0]);
        for (size_t v = 0; v < p->n_types && code == 0; v++) {
            const struct prn_yaml_node *link = prn_yaml_get(own, p->types[v].hosts[0]);
            if (link)
                code = prn_fields_real(f, link, "bw_Mbps", &mbps[u * p->n_types + v]);
        }
    }
    return code;
}

static int load_pairs(struct load *l)
{
    struct prn_yaml *yaml;
    int code = divide_types(l);
    if (code < 0)
        return code;
    size_t n = l->pipeline.n_types;
    double *mbps = PRN_ARENA_ARRAY(l->arena, n * n + 1, double);
    if (!mbps)
        return prn_fail_memory(l->err);
    code = prn_fields_open(l->request->neighbours_file, false, &yaml, l->err);
    if (code < 0)
        return code;
    struct prn_yaml_reader f = {yaml, l->arena, l->err, ""};
    code = read_pairs(l, &f, mbps);
    prn_yaml_free(yaml);
    l->pipeline.pair_mbps = mbps;
    return code;
}

/* ---- A given split ---- */

static int fail_partition(struct load *l)
{
    return prn_fail(l->err, PRONY_EUSAGE,
                    "--partition '%s' is not a list of first and last layers of stages that follow "
                    "one another, from 1 to %zu, such as 1,%zu,%zu,%zu",
                    l->request->partition, l->pipeline.n_layers, l->pipeline.n_layers / 2,
                    l->pipeline.n_layers / 2 + 1, l->pipeline.n_layers);
}

static int parse_partition(struct load *l)
{
    size_t layers = l->pipeline.n_layers;
    bool *ends = PRN_ARENA_ARRAY(l->arena, layers, bool);
    if (!ends)
        return prn_fail_memory(l->err);
    size_t done = 0;
    for (const char *at = l->request->partition; done < layers; at++) {
        char *end;
        errno = 0;
        unsigned long first = *at >= '0' && *at <= '9' ? strtoul(at, &end, 10) : 0;
        if (first != done + 1 || errno || *end != ',')
            return fail_partition(l);
        at = end + 1;
        unsigned long last = *at >= '0' && *at <= '9' ? strtoul(at, &end, 10) : 0;
        if (last < first || last > layers || errno || *end != (last < layers ? ',' : '\0'))
            return fail_partition(l);
        ends[last - 1] = true;
        done = last;
        at = end;
    }
    l->pipeline.ends = ends;
    return 0;
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
    if (code == 0 && request->neighbours_file)
        code = load_pairs(&l);
    if (code == 0 && request->partition)
        code = parse_partition(&l);
    if (code == 0)
        *ret_pipeline = l.pipeline;
    return code;
}
