/*
 * A profile is the tree that was read and, beside it, what its fields mean. Writing puts the
 * entries' nodes, old and new, into a copy of that tree, so that nothing gets lost that prony
 * doesn't know.
 */
#include "pipeline/layers/profile.h"

#include "base/array.h"
#include "format/yaml_write.h"
#include "pipeline/fields.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct slot {
    struct prn_layer_entry entry;
    const struct prn_yaml_node *node;
};

struct prn_layer_profile {
    struct prn_arena arena;
    struct prn_yaml *yaml;
    const char *path;
    const struct prn_yaml_node *root;
    struct prn_layer_head head;
    struct slot *slots; /* by layer */
    size_t n;
};

/* ---- Reading ---- */

static int read_shape(const struct prn_yaml_reader *f, const struct prn_yaml_node *node,
                      const char *key, struct prn_layer_shape *ret_shape)
{
    if (node->kind != PRN_YAML_LIST || node->n > PRN_LAYER_RANK_MAX)
        return prn_yaml_fail(f->yaml, node, f->err,
                             "'%s' is not a list of lists of up to %d numbers", key,
                             PRN_LAYER_RANK_MAX);
    int64_t *dims = PRN_ARENA_ARRAY(f->arena, node->n, int64_t);
    if (!dims)
        return prn_fail_memory(f->err);
    int code = 0;
    for (size_t i = 0; i < node->n && code == 0; i++) {
        double dim = 0;
        code = prn_fields_whole(f, node->items[i], key, PRN_PIPELINE_COUNT_MAX, &dim);
        dims[i] = (int64_t)dim;
    }
    if (code == 0)
        *ret_shape = (struct prn_layer_shape){dims, node->n};
    return code;
}

static int read_shapes(const struct prn_yaml_reader *f, const struct prn_yaml_node *item,
                       const char *key, const struct prn_layer_shape **ret_shapes, size_t *ret_n)
{
    const struct prn_yaml_node *list = NULL;
    int code = prn_fields_list(f, item, key, &list);
    if (code < 0)
        return code;
    if (list->n > PRN_LAYER_TENSORS_MAX)
        return prn_yaml_fail(f->yaml, list, f->err, "'%s' has more than %d tensors", key,
                             PRN_LAYER_TENSORS_MAX);
    struct prn_layer_shape *shapes = PRN_ARENA_ARRAY(f->arena, list->n, struct prn_layer_shape);
    if (!shapes)
        return prn_fail_memory(f->err);
    for (size_t i = 0; i < list->n && code == 0; i++)
        code = read_shape(f, list->items[i], key, &shapes[i]);
    double elements;
    if (code == 0 && prn_layer_shapes_count(shapes, list->n, &elements) < 0)
        code = prn_yaml_fail(f->yaml, list, f->err, "'%s' has more than 2^53 elements", key);
    if (code < 0)
        return code;
    *ret_shapes = shapes;
    *ret_n = list->n;
    return 0;
}

static int read_entry(const struct prn_yaml_reader *f, const struct prn_yaml_node *item,
                      int64_t layers, struct prn_layer_entry *entry)
{
    *entry = (struct prn_layer_entry){.memory_fixed_mb = NAN, .time_ci_s = NAN};
    int code = prn_fields_integer(f, item, "layer", 1, layers, &entry->layer);
    if (code == 0)
        code = prn_fields_real(f, item, "memory", &entry->memory_mb);
    if (code == 0 && prn_yaml_get(item, "memory_fixed"))
        code = prn_fields_real(f, item, "memory_fixed", &entry->memory_fixed_mb);
    if (code == 0)
        code = read_shapes(f, item, "shape_in", &entry->in, &entry->n_in);
    if (code == 0)
        code = read_shapes(f, item, "shape_out", &entry->out, &entry->n_out);
    if (code == 0)
        code = prn_fields_real(f, item, "time", &entry->time_s);
    if (code == 0 && prn_yaml_get(item, "time_ci"))
        code = prn_fields_real(f, item, "time_ci", &entry->time_ci_s);
    return code;
}

/* Where the layer is, or would be. */
static size_t place_of(const struct prn_layer_profile *p, int64_t layer)
{
    size_t at = p->n;
    while (at > 0 && p->slots[at - 1].entry.layer >= layer)
        at--;
    return at;
}

static int insert(struct prn_layer_profile *p, const struct slot *slot, struct prony_error *err)
{
    struct slot *grown = prn_array_grow(p->slots, p->n, sizeof *grown);
    if (!grown)
        return prn_fail_memory(err);
    p->slots = grown;
    size_t at = place_of(p, slot->entry.layer);
    memmove(p->slots + at + 1, p->slots + at, (p->n - at) * sizeof *p->slots);
    p->slots[at] = *slot;
    p->n++;
    return 0;
}

static int read_entries(const struct prn_yaml_reader *f, struct prn_layer_profile *p)
{
    const struct prn_yaml_node *list = NULL;
    int code = prn_fields_list(f, p->root, "profile_data", &list);
    for (size_t i = 0; code == 0 && i < list->n; i++) {
        struct slot slot = {.node = list->items[i]};
        code = read_entry(f, slot.node, p->head.layers, &slot.entry);
        if (code == 0 && prn_layer_profile_find(p, slot.entry.layer))
            code = prn_yaml_fail(f->yaml, slot.node, f->err, "'layer': %lld is there twice",
                                 (long long)slot.entry.layer);
        if (code == 0)
            code = insert(p, &slot, f->err);
    }
    return code;
}

static int read_all(struct prn_layer_profile *p, struct prony_error *err)
{
    struct prn_yaml_reader f = {p->yaml, &p->arena, err, ""};
    int code =
        prn_fields_root(&f, "model_name, dtype, batch_size, layers and profile_data", &p->root);
    if (code < 0)
        return code;
    if (!p->root)
        return prn_fail(err, PRONY_EFORMAT, "'%s' is empty", p->path);
    code = prn_fields_text(&f, p->root, "model_name", &p->head.model_name);
    if (code == 0)
        code = prn_fields_dtype(&f, p->root, &p->head.dtype);
    if (code == 0)
        code = prn_fields_integer(&f, p->root, "batch_size", 1, PRN_PIPELINE_BATCH_MAX,
                                  &p->head.batch_size);
    if (code == 0)
        code =
            prn_fields_integer(&f, p->root, "layers", 0, PRN_PIPELINE_LAYERS_MAX, &p->head.layers);
    return code < 0 ? code : read_entries(&f, p);
}

static int new_profile(const char *path, struct prn_layer_profile **ret_profile,
                       struct prony_error *err)
{
    struct prn_layer_profile *p = calloc(1, sizeof *p);
    if (!p)
        return prn_fail_memory(err);
    p->arena = PRN_ARENA_INIT(PRN_PIPELINE_ARENA_MAX);
    p->path = prn_arena_strdup(&p->arena, path);
    if (!p->path) {
        prn_layer_profile_free(p);
        return prn_fail_memory(err);
    }
    *ret_profile = p;
    return 0;
}

int prn_layer_profile_read(const char *path, struct prn_layer_profile **ret_profile,
                           struct prony_error *err)
{
    struct prn_layer_profile *p;
    int code = new_profile(path, &p, err);
    if (code < 0)
        return code;
    code = prn_fields_open(path, false, &p->yaml, err);
    if (code == 0)
        code = read_all(p, err);
    if (code < 0)
        prn_layer_profile_free(p);
    else
        *ret_profile = p;
    return code;
}

void prn_layer_profile_free(struct prn_layer_profile *p)
{
    if (!p)
        return;
    prn_yaml_free(p->yaml);
    prn_arena_release(&p->arena);
    free(p->slots);
    free(p);
}

/* ---- Extending ---- */

static int profile_begin(struct prn_layer_profile *p, const struct prn_layer_head *head,
                         struct prony_error *err)
{
    struct prn_arena *a = &p->arena;
    const struct prn_yaml_node *root = prn_yaml_new_map(a);
    p->head = *head;
    p->head.model_name = prn_arena_strdup(a, head->model_name);
    p->head.dtype = prn_arena_strdup(a, head->dtype);
    root = prn_yaml_with(a, root, "batch_size", prn_yaml_new_integer(a, head->batch_size));
    root = prn_yaml_with(a, root, "dtype", prn_yaml_new_text(a, head->dtype));
    root = prn_yaml_with(a, root, "layers", prn_yaml_new_integer(a, head->layers));
    root = prn_yaml_with(a, root, "model_name", prn_yaml_new_text(a, head->model_name));
    p->root = prn_yaml_with(a, root, "profile_data", prn_yaml_new_list(a, NULL, 0));
    return p->root && p->head.model_name && p->head.dtype ? 0 : prn_fail_memory(err);
}

static int fail_text(const struct prn_layer_profile *p, const char *key, const char *there,
                     const char *new, struct prony_error *err)
{
    return prn_yaml_fail(p->yaml, prn_yaml_get(p->root, key), err,
                         "'%s' is '%s', but the new results have '%s'", key, there, new);
}

static int fail_count(const struct prn_layer_profile *p, const char *key, int64_t there,
                      int64_t new, struct prony_error *err)
{
    return prn_yaml_fail(p->yaml, prn_yaml_get(p->root, key), err,
                         "'%s' is %lld, but the new results have %lld", key, (long long)there,
                         (long long)new);
}

static int check_head(const struct prn_layer_profile *p, const struct prn_layer_head *new,
                      struct prony_error *err)
{
    const struct prn_layer_head *there = &p->head;
    if (strcmp(there->model_name, new->model_name) != 0)
        return fail_text(p, "model_name", there->model_name, new->model_name, err);
    if (strcmp(there->dtype, new->dtype) != 0)
        return fail_text(p, "dtype", there->dtype, new->dtype, err);
    if (there->batch_size != new->batch_size)
        return fail_count(p, "batch_size", there->batch_size, new->batch_size, err);
    if (there->layers != new->layers)
        return fail_count(p, "layers", there->layers, new->layers, err);
    return 0;
}

int prn_layer_profile_open(const char *path, const struct prn_layer_head *head,
                           struct prn_layer_profile **ret_profile, struct prony_error *err)
{
    struct prn_layer_profile *p;
    int code = new_profile(path, &p, err);
    if (code < 0)
        return code;
    code = prn_fields_open(path, true, &p->yaml, err);
    if (code == 0 && !prn_yaml_root(p->yaml))
        code = profile_begin(p, head, err);
    else if (code == 0)
        code = read_all(p, err);
    if (code == 0)
        code = check_head(p, head, err);
    if (code < 0)
        prn_layer_profile_free(p);
    else
        *ret_profile = p;
    return code;
}

int prn_layer_profile_new(const char *name, const struct prn_layer_head *head,
                          struct prn_layer_profile **ret_profile, struct prony_error *err)
{
    struct prn_layer_profile *p;
    int code = new_profile(name, &p, err);
    if (code < 0)
        return code;
    code = profile_begin(p, head, err);
    if (code < 0)
        prn_layer_profile_free(p);
    else
        *ret_profile = p;
    return code;
}

int prn_layer_profile_measure_with(struct prn_layer_profile *p, const char *text,
                                   struct prony_error *err)
{
    static const char key[] = "measured_with";
    const struct prn_yaml_node *there = prn_yaml_get(p->root, key);
    if (p->n == 0) {
        const struct prn_yaml_node *root =
            prn_yaml_with(&p->arena, p->root, key, prn_yaml_new_text(&p->arena, text));
        p->root = root ? root : p->root;
        return root ? 0 : prn_fail_memory(err);
    }
    /* Of a file without it, PipeEdge's for example, nothing is known. */
    if (prn_yaml_is_null(there) || (there->kind == PRN_YAML_SCALAR && !strcmp(there->text, text)))
        return 0;
    return prn_yaml_fail(p->yaml, there, err,
                         "its layers were measured with '%s', not with '%s'; name another file "
                         "with -o",
                         there->kind == PRN_YAML_SCALAR ? there->text : "...", text);
}

static const struct prn_yaml_node *shapes_node(struct prn_arena *a,
                                               const struct prn_layer_shape *shapes, size_t n)
{
    const struct prn_yaml_node *list = prn_yaml_new_list(a, NULL, 0);
    for (size_t i = 0; i < n; i++) {
        const struct prn_yaml_node *dims = prn_yaml_new_list(a, NULL, 0);
        for (size_t k = 0; k < shapes[i].rank; k++)
            dims = prn_yaml_with_item(a, dims, k, prn_yaml_new_integer(a, shapes[i].dims[k]));
        list = prn_yaml_with_item(a, list, i, dims);
    }
    return list;
}

static const struct prn_yaml_node *entry_node(struct prn_arena *a, const struct prn_layer_entry *e)
{
    const struct prn_yaml_node *node = prn_yaml_new_map(a);
    node = prn_yaml_with(a, node, "layer", prn_yaml_new_integer(a, e->layer));
    node = prn_yaml_with(a, node, "memory", prn_yaml_new_real(a, e->memory_mb));
    if (isfinite(e->memory_fixed_mb))
        node = prn_yaml_with(a, node, "memory_fixed", prn_yaml_new_real(a, e->memory_fixed_mb));
    node = prn_yaml_with(a, node, "shape_in", shapes_node(a, e->in, e->n_in));
    node = prn_yaml_with(a, node, "shape_out", shapes_node(a, e->out, e->n_out));
    node = prn_yaml_with(a, node, "time", prn_yaml_new_real(a, e->time_s));
    if (isfinite(e->time_ci_s))
        node = prn_yaml_with(a, node, "time_ci", prn_yaml_new_real(a, e->time_ci_s));
    return node;
}

static const struct prn_layer_shape *copy_shapes(struct prn_arena *a,
                                                 const struct prn_layer_shape *shapes, size_t n)
{
    struct prn_layer_shape *copies = PRN_ARENA_ARRAY(a, n, struct prn_layer_shape);
    for (size_t i = 0; copies && i < n; i++) {
        int64_t *dims = PRN_ARENA_ARRAY(a, shapes[i].rank, int64_t);
        if (!dims)
            return NULL;
        for (size_t k = 0; k < shapes[i].rank; k++)
            dims[k] = shapes[i].dims[k];
        copies[i] = (struct prn_layer_shape){dims, shapes[i].rank};
    }
    return copies;
}

static bool is_measured(double value)
{
    return isfinite(value) && value >= 0;
}

int prn_layer_profile_add(struct prn_layer_profile *p, const struct prn_layer_entry *entry,
                          struct prony_error *err)
{
    if (entry->layer < 1 || entry->layer > p->head.layers || !is_measured(entry->memory_mb) ||
        !is_measured(entry->time_s))
        return prn_fail(err, PRONY_EUSAGE,
                        "layer %lld of %lld: its number, memory or time is out of range",
                        (long long)entry->layer, (long long)p->head.layers);
    if (prn_layer_profile_find(p, entry->layer))
        return prn_fail(err, PRONY_EFORMAT, "'%s' already has layer %lld", p->path,
                        (long long)entry->layer);
    struct slot slot = {.entry = *entry, .node = entry_node(&p->arena, entry)};
    slot.entry.in = copy_shapes(&p->arena, entry->in, entry->n_in);
    slot.entry.out = copy_shapes(&p->arena, entry->out, entry->n_out);
    if (!slot.node || !slot.entry.in || !slot.entry.out)
        return prn_fail_memory(err);
    return insert(p, &slot, err);
}

/* ---- Using ---- */

const struct prn_layer_head *prn_layer_profile_head(const struct prn_layer_profile *profile)
{
    return &profile->head;
}

const char *prn_layer_profile_path(const struct prn_layer_profile *profile)
{
    return profile->path;
}

size_t prn_layer_profile_count(const struct prn_layer_profile *profile)
{
    return profile->n;
}

const struct prn_layer_entry *prn_layer_profile_entry(const struct prn_layer_profile *profile,
                                                      size_t index)
{
    return &profile->slots[index].entry;
}

const struct prn_layer_entry *prn_layer_profile_find(const struct prn_layer_profile *profile,
                                                     int64_t layer)
{
    size_t at = place_of(profile, layer);
    bool found = at < profile->n && profile->slots[at].entry.layer == layer;
    return found ? &profile->slots[at].entry : NULL;
}

int prn_layer_profile_complete(const struct prn_layer_profile *p, struct prony_error *err)
{
    if (p->n == 0)
        return prn_yaml_fail(p->yaml, prn_yaml_get(p->root, "profile_data"), err,
                             "'profile_data' is empty");
    if ((int64_t)p->n != p->head.layers)
        return prn_yaml_fail(p->yaml, prn_yaml_get(p->root, "layers"), err,
                             "'layers' is %lld, but 'profile_data' has %zu of them",
                             (long long)p->head.layers, p->n);
    return 0;
}

int prn_layer_shapes_count(const struct prn_layer_shape *shapes, size_t n, double *ret_elements)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        double product = 1;
        for (size_t k = 0; k < shapes[i].rank; k++)
            product *= (double)shapes[i].dims[k];
        sum += product;
        if (!(sum <= PRN_PIPELINE_COUNT_MAX))
            return PRONY_ELIMIT;
    }
    *ret_elements = sum;
    return 0;
}

int prn_layer_profile_write(const struct prn_layer_profile *p, struct prn_buffer *out,
                            struct prony_error *err)
{
    struct prn_arena scratch = PRN_ARENA_INIT(PRN_PIPELINE_ARENA_MAX);
    const struct prn_yaml_node **nodes =
        PRN_ARENA_ARRAY(&scratch, p->n, const struct prn_yaml_node *);
    const struct prn_yaml_node *root = NULL;
    if (nodes) {
        for (size_t i = 0; i < p->n; i++)
            nodes[i] = p->slots[i].node;
        root = prn_yaml_with(&scratch, p->root, "profile_data",
                             prn_yaml_new_list(&scratch, nodes, p->n));
    }
    int code = root ? prn_yaml_write(root, out, err) : prn_fail_memory(err);
    prn_arena_release(&scratch);
    return code;
}
