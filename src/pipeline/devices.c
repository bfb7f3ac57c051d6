#include "pipeline/devices.h"

#include "base/map.h"
#include "pipeline/fields.h"

#define HOSTS_MAX 100000

struct reader {
    struct prn_yaml_reader fields;
    struct prn_map seen; /* hosts to their lines */
};

static int read_hosts(struct reader *r, const char *type, const struct prn_yaml_node *list,
                      struct prn_device_hosts *ret_hosts)
{
    const struct prn_yaml_reader *f = &r->fields;
    if (list->kind != PRN_YAML_LIST && !prn_yaml_is_null(list))
        return prn_yaml_fail(f->yaml, list, f->err, "'%s' is not a list of hosts", type);
    size_t n = list->kind == PRN_YAML_LIST ? list->n : 0;
    if (n > HOSTS_MAX)
        return prn_yaml_fail(f->yaml, list, f->err, "'%s' has more than %d hosts", type, HOSTS_MAX);
    const char **hosts = PRN_ARENA_ARRAY(f->arena, n, const char *);
    const char *type_copy = prn_arena_strdup(f->arena, type);
    if (!hosts || !type_copy)
        return prn_fail_memory(f->err);
    for (size_t i = 0; i < n; i++) {
        int code = prn_yaml_text(f, type, list->items[i], &hosts[i]);
        if (code < 0)
            return code;
        if (prn_map_get(&r->seen, hosts[i]) != PRN_MAP_NONE)
            return prn_yaml_fail(f->yaml, list->items[i], f->err,
                                 "'%s': host '%s' is there twice (first in line %zu)", type,
                                 hosts[i], prn_map_get(&r->seen, hosts[i]));
        if (prn_map_set(&r->seen, hosts[i], list->items[i]->line) < 0)
            return prn_fail_memory(f->err);
    }
    *ret_hosts = (struct prn_device_hosts){type_copy, hosts, n};
    return 0;
}

static int read_types(struct reader *r, struct prn_device_hosts **ret_types, size_t *ret_n)
{
    const struct prn_yaml_node *root = NULL;
    int code = prn_fields_root(&r->fields, "device types, each with a list of hosts", &root);
    if (code < 0)
        return code;
    size_t n = root ? root->n : 0;
    struct prn_device_hosts *types = PRN_ARENA_ARRAY(r->fields.arena, n, struct prn_device_hosts);
    if (!types)
        return prn_fail_memory(r->fields.err);
    for (size_t i = 0; i < n && code == 0; i++)
        code = read_hosts(r, root->keys[i], root->items[i], &types[i]);
    if (code < 0)
        return code;
    *ret_types = types;
    *ret_n = n;
    return 0;
}

int prn_devices_read(const char *path, struct prn_arena *arena, struct prn_device_hosts **ret_types,
                     size_t *ret_n, struct prony_error *err)
{
    struct prn_yaml *yaml;
    int code = prn_fields_open(path, false, &yaml, err);
    if (code < 0)
        return code;
    struct reader r = {.fields = {.yaml = yaml, .arena = arena, .err = err}, .seen = PRN_MAP_INIT};
    code = read_types(&r, ret_types, ret_n);
    prn_map_release(&r.seen);
    prn_yaml_free(yaml);
    return code;
}
