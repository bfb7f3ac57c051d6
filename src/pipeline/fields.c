#include "pipeline/fields.h"

#include "pipeline/torch_dtype.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

int prn_fields_open(const char *path, bool may_be_new, struct prn_yaml **ret_yaml,
                    struct prony_error *err)
{
    bool new =
        may_be_new && (strcmp(path, "-") == 0 || (access(path, F_OK) < 0 && errno == ENOENT));
    return new ? prn_yaml_parse("", 0, path, ret_yaml, err)
               : prn_yaml_read(path, PRN_PIPELINE_FILE_MAX, ret_yaml, err);
}

int prn_fields_root(const struct prn_yaml_reader *f, const char *what,
                    const struct prn_yaml_node **ret_root)
{
    const struct prn_yaml_node *root = prn_yaml_root(f->yaml);
    if (root && root->kind != PRN_YAML_MAP && !prn_yaml_is_null(root))
        return prn_yaml_fail(f->yaml, root, f->err, "not a map of %s", what);
    *ret_root = root && root->kind == PRN_YAML_MAP ? root : NULL;
    return 0;
}

/* A value that must be there. */
static int get(const struct prn_yaml_reader *f, const struct prn_yaml_node *map, const char *key,
               const struct prn_yaml_node **ret_node)
{
    if (map->kind != PRN_YAML_MAP)
        return prn_yaml_fail(f->yaml, map, f->err, "not a map with '%s'", key);
    const struct prn_yaml_node *node = prn_yaml_get(map, key);
    if (!node)
        return prn_yaml_fail(f->yaml, map, f->err, "key '%s' is missing", key);
    *ret_node = node;
    return 0;
}

int prn_fields_list(const struct prn_yaml_reader *f, const struct prn_yaml_node *map,
                    const char *key, const struct prn_yaml_node **ret_list)
{
    const struct prn_yaml_node *node = NULL;
    int code = get(f, map, key, &node);
    if (code < 0)
        return code;
    if (node->kind != PRN_YAML_LIST)
        return prn_yaml_fail(f->yaml, node, f->err, "'%s' is not a list", key);
    *ret_list = node;
    return 0;
}

int prn_fields_text(const struct prn_yaml_reader *f, const struct prn_yaml_node *map,
                    const char *key, const char **ret_text)
{
    const struct prn_yaml_node *node = NULL;
    int code = get(f, map, key, &node);
    return code < 0 ? code : prn_yaml_text(f, key, node, ret_text);
}

int prn_fields_whole(const struct prn_yaml_reader *f, const struct prn_yaml_node *node,
                     const char *key, double max, double *ret)
{
    double value;
    if (!prn_yaml_number(node, &value) || value < 0 || value != floor(value) || value > max)
        return prn_yaml_fail(f->yaml, node, f->err,
                             "'%s': %s%s%s is not a whole number from 0 to %.0f", key,
                             node->kind == PRN_YAML_SCALAR ? "'" : "",
                             node->kind == PRN_YAML_SCALAR ? node->text : "a list or map",
                             node->kind == PRN_YAML_SCALAR ? "'" : "", max);
    *ret = value;
    return 0;
}

int prn_fields_dtype(const struct prn_yaml_reader *f, const struct prn_yaml_node *map,
                     const char **ret_dtype)
{
    const char *text;
    int code = prn_fields_text(f, map, "dtype", &text);
    if (code == 0 && prn_torch_dtype_bytes(text) == 0)
        code = prn_yaml_fail(f->yaml, prn_yaml_get(map, "dtype"), f->err,
                             "'dtype': '%s' is not a PyTorch type", text);
    if (code == 0)
        *ret_dtype = text;
    return code;
}

int prn_fields_integer(const struct prn_yaml_reader *f, const struct prn_yaml_node *map,
                       const char *key, int64_t min, int64_t max, int64_t *ret)
{
    const struct prn_yaml_node *node = NULL;
    double value = 0;
    int code = get(f, map, key, &node);
    if (code == 0)
        code = prn_fields_whole(f, node, key, (double)max, &value);
    if (code < 0)
        return code;
    if (value < (double)min)
        return prn_yaml_fail(f->yaml, node, f->err, "'%s' is less than %lld", key, (long long)min);
    *ret = (int64_t)value;
    return 0;
}

static int read_real(const struct prn_yaml_reader *f, const struct prn_yaml_node *node,
                     const char *key, double *ret)
{
    double value;
    if (node->kind != PRN_YAML_SCALAR)
        return prn_yaml_fail(f->yaml, node, f->err, "'%s' is not a number", key);
    if (!prn_yaml_number(node, &value))
        return prn_yaml_fail(f->yaml, node, f->err, "'%s': '%s' is not a finite number", key,
                             node->text);
    if (value < 0)
        return prn_yaml_fail(f->yaml, node, f->err, "'%s': %s is negative", key, node->text);
    *ret = value;
    return 0;
}

int prn_fields_real(const struct prn_yaml_reader *f, const struct prn_yaml_node *map,
                    const char *key, double *ret)
{
    const struct prn_yaml_node *node = NULL;
    int code = get(f, map, key, &node);
    return code < 0 ? code : read_real(f, node, key, ret);
}

typedef int read_number(const struct prn_yaml_reader *f, const struct prn_yaml_node *node,
                        const char *key, double *ret);

static int read_whole(const struct prn_yaml_reader *f, const struct prn_yaml_node *node,
                      const char *key, double *ret)
{
    return prn_fields_whole(f, node, key, PRN_PIPELINE_COUNT_MAX, ret);
}

static int read_known(const struct prn_yaml_reader *f, const struct prn_yaml_node *node,
                      const char *key, double *ret)
{
    *ret = NAN;
    return prn_yaml_is_null(node) ? 0 : read_real(f, node, key, ret);
}

static int read_numbers(const struct prn_yaml_reader *f, const struct prn_yaml_node *map,
                        const char *key, read_number *read, double **ret, size_t *ret_n)
{
    const struct prn_yaml_node *list = NULL;
    int code = prn_fields_list(f, map, key, &list);
    if (code < 0)
        return code;
    if (list->n > PRN_PIPELINE_LAYERS_MAX)
        return prn_yaml_fail(f->yaml, list, f->err, "'%s' has more than %d items", key,
                             PRN_PIPELINE_LAYERS_MAX);
    double *values = PRN_ARENA_ARRAY(f->arena, list->n, double);
    if (!values)
        return prn_fail_memory(f->err);
    for (size_t i = 0; i < list->n && code == 0; i++)
        code = read(f, list->items[i], key, &values[i]);
    if (code < 0)
        return code;
    *ret = values;
    *ret_n = list->n;
    return 0;
}

int prn_fields_reals(const struct prn_yaml_reader *f, const struct prn_yaml_node *map,
                     const char *key, bool whole, double **ret, size_t *ret_n)
{
    return read_numbers(f, map, key, whole ? read_whole : read_real, ret, ret_n);
}

int prn_fields_known(const struct prn_yaml_reader *f, const struct prn_yaml_node *map,
                     const char *key, double **ret, size_t *ret_n)
{
    return read_numbers(f, map, key, read_known, ret, ret_n);
}
