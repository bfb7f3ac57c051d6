#include "pipeline/device_types.h"

#include "base/text.h"
#include "format/yaml_write.h"
#include "pipeline/fields.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TYPES_MAX 10000

/* Entry of a list of profiles with this dtype and batch size; the list's length when there is none.
 */
static int find_profile(const struct prn_yaml_reader *f, const struct prn_yaml_node *list,
                        const char *dtype, int64_t batch_size, size_t *ret_index)
{
    size_t found = list->n;
    for (size_t i = 0; i < list->n; i++) {
        const char *text = NULL;
        int64_t size = 0;
        int code = prn_fields_dtype(f, list->items[i], &text);
        if (code == 0)
            code = prn_fields_integer(f, list->items[i], "batch_size", 1, PRN_PIPELINE_BATCH_MAX,
                                      &size);
        if (code < 0)
            return code;
        if (strcmp(text, dtype) != 0 || size != batch_size)
            continue;
        if (found < list->n)
            return prn_yaml_fail(f->yaml, list->items[i], f->err,
                                 "'dtype' %s and 'batch_size' %lld are there twice", dtype,
                                 (long long)batch_size);
        found = i;
    }
    *ret_index = found;
    return 0;
}

/* The list of a model's profiles under a type; NULL when there is none. */
static int find_model(const struct prn_yaml_reader *f, const struct prn_yaml_node *type,
                      const char *model_name, const struct prn_yaml_node **ret_list)
{
    const struct prn_yaml_node *profiles = prn_yaml_get(type, "model_profiles");
    *ret_list = NULL;
    if (prn_yaml_is_null(profiles))
        return 0;
    if (profiles->kind != PRN_YAML_MAP)
        return prn_yaml_fail(f->yaml, profiles, f->err, "'model_profiles' is not a map");
    const struct prn_yaml_node *list = prn_yaml_get(profiles, model_name);
    if (prn_yaml_is_null(list))
        return 0;
    if (list->kind != PRN_YAML_LIST)
        return prn_yaml_fail(f->yaml, list, f->err, "'%s' under 'model_profiles' is not a list",
                             model_name);
    *ret_list = list;
    return 0;
}

/* ---- Reading ---- */

/* With `gaps`, of some layers the figure may not be known. */
static int read_times(const struct prn_yaml_reader *f, const struct prn_yaml_node *profile,
                      const char *key, bool gaps, size_t layers, const double **ret_times)
{
    double *times;
    size_t n;
    int code = gaps ? prn_fields_known(f, profile, key, &times, &n)
                    : prn_fields_reals(f, profile, key, false, &times, &n);
    if (code < 0)
        return code;
    if (n != layers)
        return prn_yaml_fail(f->yaml, prn_yaml_get(profile, key), f->err,
                             "'%s' has %zu items, but the model has %zu layers", key, n, layers);
    *ret_times = times;
    return 0;
}

static int read_profile(const struct prn_yaml_reader *f, const struct prn_yaml_node *entry,
                        const struct prn_device_query *query, struct prn_device_type *type)
{
    const struct prn_yaml_node *list = NULL;
    size_t index;
    int code = find_model(f, entry, query->model_name, &list);
    if (code < 0 || !list)
        return code;
    type->has_model = list->n > 0;
    code = find_profile(f, list, query->dtype, query->batch_size, &index);
    if (code < 0 || index == list->n)
        return code;
    const struct prn_yaml_node *profile = list->items[index];
    code = read_times(f, profile, "time_s", false, query->layers, &type->time_s);
    if (code == 0 && !prn_yaml_is_null(prn_yaml_get(profile, "time_ci_s")))
        code = read_times(f, profile, "time_ci_s", true, query->layers, &type->time_ci_s);
    return code;
}

static int read_type(const struct prn_yaml_reader *f, const char *name,
                     const struct prn_yaml_node *entry, const struct prn_device_query *query,
                     struct prn_device_type *ret_type)
{
    struct prn_device_type type = {.usd_per_hour = NAN};
    if (!prn_text_is_name(name))
        return prn_yaml_fail(f->yaml, entry, f->err, "the name of a type is empty or unprintable");
    int code = prn_fields_real(f, entry, "mem_MB", &type.mem_mb);
    if (code == 0)
        code = prn_fields_real(f, entry, "bw_Mbps", &type.bw_mbps);
    if (code == 0 && !prn_yaml_is_null(prn_yaml_get(entry, "usd_per_hour")))
        code = prn_fields_real(f, entry, "usd_per_hour", &type.usd_per_hour);
    if (code == 0)
        code = read_profile(f, entry, query, &type);
    if (code < 0)
        return code;
    type.name = prn_arena_strdup(f->arena, name);
    if (!type.name)
        return prn_fail_memory(f->err);
    *ret_type = type;
    return 0;
}

static int compare_types(const void *a, const void *b)
{
    return strcmp(((const struct prn_device_type *)a)->name,
                  ((const struct prn_device_type *)b)->name);
}

static int read_types(const struct prn_yaml_reader *f, const char *path,
                      const struct prn_device_query *query, struct prn_device_type **ret_types,
                      size_t *ret_n)
{
    const struct prn_yaml_node *root = NULL;
    int code = prn_fields_root(f, "device types", &root);
    if (code < 0)
        return code;
    if (!root)
        return prn_fail(f->err, PRONY_EFORMAT, "'%s' has no device types", path);
    if (root->n > TYPES_MAX)
        return prn_yaml_fail(f->yaml, root, f->err, "more than %d device types", TYPES_MAX);
    struct prn_device_type *types = PRN_ARENA_ARRAY(f->arena, root->n, struct prn_device_type);
    if (!types)
        return prn_fail_memory(f->err);
    for (size_t i = 0; i < root->n && code == 0; i++)
        code = read_type(f, root->keys[i], root->items[i], query, &types[i]);
    if (code < 0)
        return code;
    qsort(types, root->n, sizeof *types, compare_types);
    *ret_types = types;
    *ret_n = root->n;
    return 0;
}

int prn_device_types_read(const char *path, const struct prn_device_query *query,
                          struct prn_arena *arena, struct prn_device_type **ret_types,
                          size_t *ret_n, struct prony_error *err)
{
    struct prn_yaml *yaml;
    int code = prn_fields_open(path, false, &yaml, err);
    if (code < 0)
        return code;
    struct prn_yaml_reader f = {yaml, arena, err, ""};
    code = read_types(&f, path, query, ret_types, ret_n);
    prn_yaml_free(yaml);
    return code;
}

/* ---- Extending ---- */

struct extension {
    struct prn_yaml_reader fields;
    const struct prn_device_properties *properties;
    const struct prn_layer_profile *profile;
    bool overwrite;
};

static int new_type(const struct extension *x, const struct prn_yaml_node **ret_type)
{
    const struct prn_device_properties *p = x->properties;
    struct prn_arena *a = x->fields.arena;
    if (p->mem_mb < 0 || p->bw_mbps < 0)
        return prn_fail(x->fields.err, PRONY_EFORMAT, "device type '%s' is new: it needs %s",
                        p->name,
                        p->mem_mb < 0 ? "its memory (--dev-type-mem MB)"
                                      : "its bandwidth (--dev-type-bw MBPS)");
    const struct prn_yaml_node *type = prn_yaml_new_map(a);
    type = prn_yaml_with(a, type, "bw_Mbps", prn_yaml_new_integer(a, p->bw_mbps));
    type = prn_yaml_with(a, type, "mem_MB", prn_yaml_new_integer(a, p->mem_mb));
    *ret_type = type;
    return 0;
}

static int check_same(const struct extension *x, const struct prn_yaml_node *type, const char *key,
                      int64_t given)
{
    double there;
    int code = prn_fields_real(&x->fields, type, key, &there);
    if (code < 0 || given < 0 || there == (double)given)
        return code;
    return prn_yaml_fail(x->fields.yaml, prn_yaml_get(type, key), x->fields.err,
                         "'%s' of device type '%s' is %s, not %lld", key, x->properties->name,
                         prn_yaml_get(type, key)->text, (long long)given);
}

static int check_type(const struct extension *x, const struct prn_yaml_node *type)
{
    const struct prn_yaml_node *price = prn_yaml_get(type, "usd_per_hour");
    int code = check_same(x, type, "mem_MB", x->properties->mem_mb);
    if (code == 0)
        code = check_same(x, type, "bw_Mbps", x->properties->bw_mbps);
    if (code < 0 || isnan(x->properties->usd_per_hour) || prn_yaml_is_null(price) || x->overwrite)
        return code;
    double there;
    code = prn_fields_real(&x->fields, type, "usd_per_hour", &there);
    if (code == 0 && there != x->properties->usd_per_hour)
        code = prn_yaml_fail(x->fields.yaml, price, x->fields.err,
                             "'usd_per_hour' of device type '%s' is %s; -f replaces it",
                             x->properties->name, price->text);
    return code;
}

/* Whether an entry has an interval. Of those that have none the list says null. */
static bool has_intervals(const struct prn_layer_profile *profile)
{
    for (size_t i = 0; i < prn_layer_profile_count(profile); i++)
        if (isfinite(prn_layer_profile_entry(profile, i)->time_ci_s))
            return true;
    return false;
}

static const struct prn_yaml_node *profile_node(struct prn_arena *a,
                                                const struct prn_layer_profile *profile)
{
    size_t n = prn_layer_profile_count(profile);
    const struct prn_layer_head *head = prn_layer_profile_head(profile);
    const struct prn_yaml_node **times = PRN_ARENA_ARRAY(a, n, const struct prn_yaml_node *);
    const struct prn_yaml_node **intervals = PRN_ARENA_ARRAY(a, n, const struct prn_yaml_node *);
    if (!times || !intervals)
        return NULL;
    bool with_intervals = has_intervals(profile);
    for (size_t i = 0; i < n; i++) {
        const struct prn_layer_entry *e = prn_layer_profile_entry(profile, i);
        times[i] = prn_yaml_new_real(a, e->time_s);
        intervals[i] =
            isfinite(e->time_ci_s) ? prn_yaml_new_real(a, e->time_ci_s) : prn_yaml_new_null(a);
    }
    const struct prn_yaml_node *node = prn_yaml_new_map(a);
    node = prn_yaml_with(a, node, "batch_size", prn_yaml_new_integer(a, head->batch_size));
    node = prn_yaml_with(a, node, "dtype", prn_yaml_new_text(a, head->dtype));
    node = prn_yaml_with(a, node, "time_s", prn_yaml_new_list(a, times, n));
    if (with_intervals)
        node = prn_yaml_with(a, node, "time_ci_s", prn_yaml_new_list(a, intervals, n));
    return node;
}

/* The type with the profile in it. */
static int add_profile(const struct extension *x, const struct prn_yaml_node *type,
                       const struct prn_yaml_node **ret_type)
{
    struct prn_arena *a = x->fields.arena;
    const struct prn_layer_head *head = prn_layer_profile_head(x->profile);
    const struct prn_yaml_node *list = NULL;
    size_t index = 0;
    int code = find_model(&x->fields, type, head->model_name, &list);
    if (code == 0 && list)
        code = find_profile(&x->fields, list, head->dtype, head->batch_size, &index);
    if (code < 0)
        return code;
    if (list && index < list->n && !x->overwrite)
        return prn_yaml_fail(x->fields.yaml, list->items[index], x->fields.err,
                             "device type '%s' already has a profile of '%s' with %s and batch "
                             "size %lld; -f replaces it",
                             x->properties->name, head->model_name, head->dtype,
                             (long long)head->batch_size);
    if (!list)
        list = prn_yaml_new_list(a, NULL, 0);
    list = prn_yaml_with_item(a, list, index, profile_node(a, x->profile));
    const struct prn_yaml_node *profiles = prn_yaml_get(type, "model_profiles");
    if (prn_yaml_is_null(profiles))
        profiles = prn_yaml_new_map(a);
    profiles = prn_yaml_with(a, profiles, head->model_name, list);
    type = prn_yaml_with(a, type, "model_profiles", profiles);
    if (!isnan(x->properties->usd_per_hour))
        type = prn_yaml_with(a, type, "usd_per_hour",
                             prn_yaml_new_real(a, x->properties->usd_per_hour));
    *ret_type = type;
    return type ? 0 : prn_fail_memory(x->fields.err);
}

static int extend(const struct extension *x, struct prn_buffer *out)
{
    const struct prn_yaml_node *root = NULL;
    int code = prn_fields_root(&x->fields, "device types", &root);
    if (code < 0)
        return code;
    const struct prn_yaml_node *type = prn_yaml_get(root, x->properties->name);
    code = type ? check_type(x, type) : new_type(x, &type);
    if (code == 0)
        code = type ? add_profile(x, type, &type) : prn_fail_memory(x->fields.err);
    if (code < 0)
        return code;
    if (!root)
        root = prn_yaml_new_map(x->fields.arena);
    root = prn_yaml_with(x->fields.arena, root, x->properties->name, type);
    return root ? prn_yaml_write(root, out, x->fields.err) : prn_fail_memory(x->fields.err);
}

int prn_device_types_extend(const char *path, const struct prn_device_properties *properties,
                            const struct prn_layer_profile *profile, bool overwrite,
                            struct prn_buffer *out, struct prony_error *err)
{
    struct prn_yaml *yaml;
    if (!prn_text_is_name(properties->name))
        return prn_fail(err, PRONY_EUSAGE, "'%s' is not a valid name for a device type",
                        properties->name);
    int code = prn_layer_profile_complete(profile, err);
    if (code == 0)
        code = prn_fields_open(path, true, &yaml, err);
    if (code < 0)
        return code;
    struct prn_arena arena = PRN_ARENA_INIT(PRN_PIPELINE_ARENA_MAX);
    struct extension x = {{yaml, &arena, err, ""}, properties, profile, overwrite};
    code = extend(&x, out);
    prn_arena_release(&arena);
    prn_yaml_free(yaml);
    return code;
}
