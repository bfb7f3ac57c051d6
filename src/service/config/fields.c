#include "service/config/fields.h"

#include "base/format.h"
#include "base/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MAX 4096

int prn_config_fail(const struct prn_config_reader *r, const struct prn_yaml_node *node,
                    const char *key, const char *format, ...)
{
    struct prn_buffer text = PRN_BUFFER_INIT(PRONY_ERROR_TEXT_SIZE * 4);
    va_list args;
    va_start(args, format);
    prn_buffer_vprintf(&text, format, args);
    va_end(args);
    int code = prn_yaml_fail(r->yaml, node, r->err, "'%s': %s", key, prn_buffer_text(&text));
    prn_buffer_release(&text);
    return code;
}

static int fail_unknown(const struct prn_config_reader *r, const struct prn_yaml_node *map,
                        size_t at, const struct prn_config_key *keys, size_t n_keys)
{
    const struct prn_yaml_node key = {.line = map->key_lines[at]};
    struct prn_buffer known = PRN_BUFFER_INIT(PRONY_ERROR_TEXT_SIZE);
    for (size_t i = 0; i < n_keys; i++)
        prn_buffer_printf(&known, "%s%s", i ? ", " : "", keys[i].name);
    int code = prn_yaml_fail(r->yaml, &key, r->err, "unknown key '%.100s' (known: %s)",
                             map->keys[at], prn_buffer_text(&known));
    prn_buffer_release(&known);
    return code;
}

int prn_config_read_map(const struct prn_config_reader *r, const char *what,
                        const struct prn_yaml_node *node, const struct prn_config_key *keys,
                        size_t n_keys, void *into)
{
    if (node->kind != PRN_YAML_MAP)
        return prn_config_fail(r, node, what, "not a map of keys and values");
    int code = 0;
    for (size_t i = 0; i < node->n && code == 0; i++) {
        size_t k = 0;
        while (k < n_keys && strcmp(keys[k].name, node->keys[i]) != 0)
            k++;
        if (k == n_keys)
            return fail_unknown(r, node, i, keys, n_keys);
        if (!prn_yaml_is_null(node->items[i]))
            code = keys[k].read(r, &keys[k], node->items[i], (char *)into + keys[k].offset);
    }
    return code;
}

int prn_config_text(const struct prn_config_reader *r, const char *key,
                    const struct prn_yaml_node *node, const char **ret_text)
{
    if (node->kind != PRN_YAML_SCALAR || prn_yaml_is_null(node))
        return prn_config_fail(r, node, key, "not a text");
    if (!prn_text_is_name(node->text))
        return prn_config_fail(r, node, key, "%s",
                               node->text[0] ? "a text with control characters" : "empty");
    if (strlen(node->text) > TEXT_MAX)
        return prn_config_fail(r, node, key, "longer than %d bytes", TEXT_MAX);
    const char *copy = prn_arena_strdup(r->arena, node->text);
    if (!copy)
        return prn_fail_memory(r->err);
    *ret_text = copy;
    return 0;
}

int prn_config_read_text(const struct prn_config_reader *r, const struct prn_config_key *key,
                         const struct prn_yaml_node *node, void *into)
{
    return prn_config_text(r, key->name, node, (const char **)into);
}

int prn_config_read_path(const struct prn_config_reader *r, const struct prn_config_key *key,
                         const struct prn_yaml_node *node, void *into)
{
    const char *path = NULL;
    int code = prn_config_text(r, key->name, node, &path);
    if (code < 0)
        return code;
    if (path[0] != '/' && r->folder[0]) {
        size_t size = strlen(r->folder) + strlen(path) + 1;
        char *joined = prn_arena_alloc(r->arena, size);
        if (!joined)
            return prn_fail_memory(r->err);
        snprintf(joined, size, "%s%s", r->folder, path);
        path = joined;
    }
    *(const char **)into = path;
    return 0;
}

/* What stands there, for a message. */
static const char *shown(const struct prn_yaml_node *node)
{
    return node->kind == PRN_YAML_SCALAR ? node->text : "a list or map";
}

static bool is_none(const struct prn_config_key *key, const struct prn_yaml_node *node)
{
    return key->may_be_none && node->kind == PRN_YAML_SCALAR && strcmp(node->text, "none") == 0;
}

int prn_config_read_count(const struct prn_config_reader *r, const struct prn_config_key *key,
                          const struct prn_yaml_node *node, void *into)
{
    double value = 0;
    if (is_none(key, node)) {
        *(size_t *)into = (size_t)key->none;
        return 0;
    }
    if (!prn_yaml_number(node, &value) || value != floor(value) || value < key->min ||
        value > key->max)
        return prn_config_fail(r, node, key->name,
                               "'%.100s' is not a whole number from %.0f to %.0f%s", shown(node),
                               key->min, key->max, key->may_be_none ? ", or none" : "");
    *(size_t *)into = (size_t)value;
    return 0;
}

int prn_config_read_real(const struct prn_config_reader *r, const struct prn_config_key *key,
                         const struct prn_yaml_node *node, void *into)
{
    double value = 0;
    if (!prn_yaml_number(node, &value) || value < key->min || value > key->max)
        return prn_config_fail(r, node, key->name, "'%.100s' is not a number from %g to %g",
                               shown(node), key->min, key->max);
    *(double *)into = value;
    return 0;
}

struct unit {
    const char *name;
    double factor;
};

/* A decimal number, white space if any, and a unit; NAN when it is anything else. */
static double measured(const struct prn_yaml_node *node, const struct unit *units, size_t n)
{
    if (node->kind != PRN_YAML_SCALAR)
        return NAN;
    size_t len = strspn(node->text, "0123456789.");
    char number[32];
    if (len == 0 || len >= sizeof number)
        return NAN;
    memcpy(number, node->text, len);
    number[len] = '\0';
    char *end;
    double value = strtod(number, &end);
    const char *unit = node->text + len + strspn(node->text + len, " \t");
    for (size_t i = 0; *end == '\0' && i < n; i++)
        if (strcmp(unit, units[i].name) == 0)
            return value * units[i].factor;
    return NAN;
}

int prn_config_read_size(const struct prn_config_reader *r, const struct prn_config_key *key,
                         const struct prn_yaml_node *node, void *into)
{
    static const struct unit units[] = {
        {"", 1},         {"B", 1},    {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30},
        {"TiB", 0x1p40}, {"kB", 1e3}, {"MB", 1e6},     {"GB", 1e9},     {"TB", 1e12},
    };
    if (is_none(key, node)) {
        *(uint64_t *)into = key->none;
        return 0;
    }
    double bytes = measured(node, units, PRN_ARRAY_SIZE(units));
    if (isnan(bytes))
        return prn_config_fail(r, node, key->name, "'%.100s' is not a size such as 20 GiB%s",
                               shown(node), key->may_be_none ? ", or none" : "");
    char low[PRN_FORMAT_SIZE];
    char high[PRN_FORMAT_SIZE];
    if (bytes < key->min || bytes > key->max)
        return prn_config_fail(r, node, key->name, "'%.100s' is not between %s and %s", shown(node),
                               prn_format_bytes(low, key->min), prn_format_bytes(high, key->max));
    *(uint64_t *)into = (uint64_t)bytes;
    return 0;
}

int prn_config_read_duration(const struct prn_config_reader *r, const struct prn_config_key *key,
                             const struct prn_yaml_node *node, void *into)
{
    static const struct unit units[] = {{"", 1},   {"ms", 1e-3}, {"s", 1},
                                        {"m", 60}, {"min", 60},  {"h", 3600}};
    if (key->may_be_none && node->kind == PRN_YAML_SCALAR && strcmp(node->text, "none") == 0) {
        *(double *)into = (double)key->none;
        return 0;
    }
    double seconds = measured(node, units, PRN_ARRAY_SIZE(units));
    if (isnan(seconds))
        return prn_config_fail(r, node, key->name, "'%.100s' is not a duration such as 30s or 10m",
                               shown(node));
    if (seconds < key->min || seconds > key->max)
        return prn_config_fail(r, node, key->name, "'%.100s' is not between %.10g s and %.10g s",
                               shown(node), key->min, key->max);
    *(double *)into = seconds;
    return 0;
}

int prn_config_read_section(const struct prn_config_reader *r, const struct prn_config_key *key,
                            const struct prn_yaml_node *node, void *into)
{
    return prn_config_read_map(r, key->name, node, key->keys, key->n_keys, into);
}

int prn_config_read_node(const struct prn_config_reader *r, const struct prn_config_key *key,
                         const struct prn_yaml_node *node, void *into)
{
    (void)r;
    (void)key;
    *(const struct prn_yaml_node **)into = node;
    return 0;
}

int prn_config_list(const struct prn_config_reader *r, const char *key,
                    const struct prn_yaml_node *node, size_t most,
                    const struct prn_yaml_node *const **ret_items, size_t *ret_n)
{
    if (node->kind == PRN_YAML_MAP)
        return prn_config_fail(r, node, key, "not a list");
    if (node->kind == PRN_YAML_LIST && node->n == 0)
        return prn_config_fail(r, node, key, "an empty list");
    if (node->kind == PRN_YAML_LIST && node->n > most)
        return prn_config_fail(r, node, key, "more than %zu items", most);
    if (node->kind == PRN_YAML_LIST) {
        *ret_items = node->items;
        *ret_n = node->n;
        return 0;
    }
    const struct prn_yaml_node **one = PRN_ARENA_NEW(r->arena, const struct prn_yaml_node *);
    if (!one)
        return prn_fail_memory(r->err);
    *one = node;
    *ret_items = one;
    *ret_n = 1;
    return 0;
}
