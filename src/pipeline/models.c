#include "pipeline/models.h"

#include "format/yaml_write.h"
#include "pipeline/fields.h"

#include <math.h>

/* ---- Reading ---- */

static int read_model(const struct prn_yaml_reader *f, const struct prn_yaml_node *entry,
                      struct prn_pipeline_model *ret_model)
{
    struct prn_pipeline_model model = {0};
    int64_t layers = 0;
    int64_t parameters_in = 0;
    double *mem_mb = NULL, *parameters_out = NULL;
    size_t n_mem = 0;
    int code = prn_fields_integer(f, entry, "layers", 0, PRN_PIPELINE_LAYERS_MAX, &layers);
    if (code == 0)
        code = prn_fields_reals(f, entry, "mem_MB", false, &mem_mb, &n_mem);
    if (code == 0 && !prn_yaml_is_null(prn_yaml_get(entry, "mem_fixed_MB")))
        code = prn_fields_real(f, entry, "mem_fixed_MB", &model.mem_fixed_mb);
    if (code == 0)
        code = prn_fields_integer(f, entry, "parameters_in", 0, (int64_t)PRN_PIPELINE_COUNT_MAX,
                                  &parameters_in);
    if (code == 0)
        code = prn_fields_reals(f, entry, "parameters_out", true, &parameters_out,
                                &model.n_parameters_out);
    if (code < 0)
        return code;
    model.layers = (size_t)layers;
    model.parameters_in = (double)parameters_in;
    model.mem_mb = mem_mb;
    model.parameters_out = parameters_out;
    if (layers == 0)
        return prn_yaml_fail(f->yaml, prn_yaml_get(entry, "layers"), f->err,
                             "'layers' is 0: there is nothing to schedule");
    if (n_mem != model.layers)
        return prn_yaml_fail(f->yaml, prn_yaml_get(entry, "mem_MB"), f->err,
                             "'mem_MB' has %zu items for %zu layers", n_mem, model.layers);
    if (model.n_parameters_out > model.layers || model.n_parameters_out == 0)
        return prn_yaml_fail(f->yaml, prn_yaml_get(entry, "parameters_out"), f->err,
                             "'parameters_out' has %zu items for %zu layers",
                             model.n_parameters_out, model.layers);
    *ret_model = model;
    return 0;
}

int prn_models_read(const char *path, const char *model_name, struct prn_arena *arena,
                    struct prn_pipeline_model *ret_model, struct prony_error *err)
{
    struct prn_yaml *yaml;
    int code = prn_fields_open(path, false, &yaml, err);
    if (code < 0)
        return code;
    struct prn_yaml_reader f = {yaml, arena, err, ""};
    const struct prn_yaml_node *root = NULL;
    code = prn_fields_root(&f, "model names", &root);
    const struct prn_yaml_node *entry = code == 0 ? prn_yaml_get(root, model_name) : NULL;
    if (code == 0 && !entry)
        code = prn_fail(err, PRONY_ENOENT,
                        "'%s' has no model '%s'; 'prony models' adds one, -m chooses another", path,
                        model_name);
    if (code == 0)
        code = read_model(&f, entry, ret_model);
    prn_yaml_free(yaml);
    return code;
}

/* ---- Extending ---- */

/* What the runtime takes of every layer's memory; 0 when it isn't known of all. */
static double fixed_memory(const struct prn_layer_profile *profile)
{
    double least = INFINITY;
    for (size_t i = 0; i < prn_layer_profile_count(profile); i++) {
        double fixed = prn_layer_profile_entry(profile, i)->memory_fixed_mb;
        if (isnan(fixed))
            return 0;
        least = fmin(least, fixed);
    }
    return isfinite(least) ? least : 0;
}

static const struct prn_yaml_node *model_node(struct prn_arena *a,
                                              const struct prn_layer_profile *profile)
{
    size_t n = prn_layer_profile_count(profile);
    const struct prn_yaml_node **mem = PRN_ARENA_ARRAY(a, n, const struct prn_yaml_node *);
    const struct prn_yaml_node **leaving = PRN_ARENA_ARRAY(a, n, const struct prn_yaml_node *);
    double elements = 0;
    if (!mem || !leaving)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        const struct prn_layer_entry *e = prn_layer_profile_entry(profile, i);
        if (prn_layer_shapes_count(e->out, e->n_out, &elements) < 0)
            return NULL;
        mem[i] = prn_yaml_new_real(a, e->memory_mb);
        leaving[i] = prn_yaml_new_integer(a, (int64_t)elements);
    }
    const struct prn_layer_entry *first = prn_layer_profile_entry(profile, 0);
    if (prn_layer_shapes_count(first->in, first->n_in, &elements) < 0)
        return NULL;
    const struct prn_yaml_node *node = prn_yaml_new_map(a);
    node = prn_yaml_with(a, node, "layers", prn_yaml_new_integer(a, (int64_t)n));
    node = prn_yaml_with(a, node, "mem_MB", prn_yaml_new_list(a, mem, n));
    double fixed = fixed_memory(profile);
    if (fixed > 0)
        node = prn_yaml_with(a, node, "mem_fixed_MB", prn_yaml_new_real(a, fixed));
    node = prn_yaml_with(a, node, "parameters_in", prn_yaml_new_integer(a, (int64_t)elements));
    return prn_yaml_with(a, node, "parameters_out", prn_yaml_new_list(a, leaving, n));
}

static int extend(const struct prn_yaml_reader *f, const struct prn_layer_profile *profile,
                  bool overwrite, struct prn_buffer *out)
{
    const char *name = prn_layer_profile_head(profile)->model_name;
    const struct prn_yaml_node *root = NULL;
    int code = prn_fields_root(f, "model names", &root);
    if (code < 0)
        return code;
    const struct prn_yaml_node *there = prn_yaml_get(root, name);
    if (there && !overwrite)
        return prn_yaml_fail(f->yaml, there, f->err, "model '%s' already exists; -f replaces it",
                             name);
    if (!root)
        root = prn_yaml_new_map(f->arena);
    root = prn_yaml_with(f->arena, root, name, model_node(f->arena, profile));
    return root ? prn_yaml_write(root, out, f->err) : prn_fail_memory(f->err);
}

int prn_models_extend(const char *path, const struct prn_layer_profile *profile, bool overwrite,
                      struct prn_buffer *out, struct prony_error *err)
{
    struct prn_yaml *yaml;
    int code = prn_layer_profile_complete(profile, err);
    if (code == 0)
        code = prn_fields_open(path, true, &yaml, err);
    if (code < 0)
        return code;
    struct prn_arena arena = PRN_ARENA_INIT(PRN_PIPELINE_ARENA_MAX);
    struct prn_yaml_reader f = {yaml, &arena, err, ""};
    code = extend(&f, profile, overwrite, out);
    prn_arena_release(&arena);
    prn_yaml_free(yaml);
    return code;
}
