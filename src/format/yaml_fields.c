#include "format/yaml_fields.h"

#include "base/format.h"
#include "base/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MAX 4096

int prn_yaml_fail_at(const struct prn_yaml_reader *r, const struct prn_yaml_node *node,
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

int prn_yaml_fail_value(const struct prn_yaml_reader *r, const struct prn_yaml_key *key,
                        const struct prn_yaml_node *node, const char *wanted)
{
    return prn_yaml_fail_at(r, node, key->name, "'%.100s' is not %s%s",
                            node->kind == PRN_YAML_SCALAR ? node->text : "a list or map", wanted,
                            key->may_be_none ? ", or none" : "");
}

static int fail_unknown(const struct prn_yaml_reader *r, const struct prn_yaml_node *map, size_t at,
                        const struct prn_yaml_key *keys, size_t n_keys)
{
    const struct prn_yaml_node place = {.line = map->key_lines[at]};
    const char **names = PRN_ARENA_ARRAY(r->arena, n_keys, const char *);
    if (!names)
        return prn_fail_memory(r->err);
    struct prn_buffer known = PRN_BUFFER_INIT(PRONY_ERROR_TEXT_SIZE);
    for (size_t i = 0; i < n_keys; i++) {
        names[i] = keys[i].name;
        prn_buffer_printf(&known, "%s%s", i ? ", " : "", names[i]);
    }
    const char *nearest = prn_text_nearest(map->keys[at], names, n_keys);
    int code = prn_yaml_fail(r->yaml, &place, r->err, "unknown key '%.100s'%s%s%s (known: %s)",
                             map->keys[at], nearest ? "; did you mean '" : "",
                             nearest ? nearest : "", nearest ? "'?" : "", prn_buffer_text(&known));
    prn_buffer_release(&known);
    return code;
}

int prn_yaml_read_map(const struct prn_yaml_reader *r, const char *what,
                      const struct prn_yaml_node *node, const struct prn_yaml_key *keys,
                      size_t n_keys, void *into)
{
    if (node->kind != PRN_YAML_MAP)
        return prn_yaml_fail_at(r, node, what, "not a map of keys and values");
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

int prn_yaml_text(const struct prn_yaml_reader *r, const char *key,
                  const struct prn_yaml_node *node, const char **ret_text)
{
    if (node->kind != PRN_YAML_SCALAR || prn_yaml_is_null(node))
        return prn_yaml_fail(r->yaml, node, r->err, "'%s' is not a text", key);
    if (!prn_text_is_name(node->text))
        return prn_yaml_fail(r->yaml, node, r->err, "'%s' is %s", key,
                             node->text[0] ? "a text with control characters" : "empty");
    if (strlen(node->text) > TEXT_MAX)
        return prn_yaml_fail_at(r, node, key, "longer than %d bytes", TEXT_MAX);
    const char *copy = prn_arena_strdup(r->arena, node->text);
    if (!copy)
        return prn_fail_memory(r->err);
    *ret_text = copy;
    return 0;
}

int prn_yaml_join(const struct prn_yaml_reader *r, const char *before, const char *middle,
                  const char *after, const char **ret_text)
{
    char *text = prn_arena_alloc(r->arena, strlen(before) + strlen(middle) + strlen(after) + 1);
    if (!text)
        return prn_fail_memory(r->err);
    stpcpy(stpcpy(stpcpy(text, before), middle), after);
    *ret_text = text;
    return 0;
}

int prn_yaml_place(const struct prn_yaml_reader *r, const char *path, const char **ret_path)
{
    return prn_yaml_join(r, path[0] == '/' ? "" : r->folder, "", path, ret_path);
}

const char *prn_yaml_folder(struct prn_arena *arena, const char *path)
{
    const char *slash = strrchr(path, '/');
    return prn_arena_strndup(arena, path, slash ? (size_t)(slash + 1 - path) : 0);
}

int prn_yaml_read_text(const struct prn_yaml_reader *r, const struct prn_yaml_key *key,
                       const struct prn_yaml_node *node, void *into)
{
    return prn_yaml_text(r, key->name, node, (const char **)into);
}

int prn_yaml_read_path(const struct prn_yaml_reader *r, const struct prn_yaml_key *key,
                       const struct prn_yaml_node *node, void *into)
{
    const char *path = NULL;
    int code = prn_yaml_text(r, key->name, node, &path);
    return code == 0 ? prn_yaml_place(r, path, into) : code;
}

static bool is_none(const struct prn_yaml_key *key, const struct prn_yaml_node *node)
{
    return key->may_be_none && node->kind == PRN_YAML_SCALAR && strcmp(node->text, "none") == 0;
}

static int read_whole(const struct prn_yaml_reader *r, const struct prn_yaml_key *key,
                      const struct prn_yaml_node *node, double *ret_value)
{
    char wanted[100];
    if (prn_yaml_number(node, ret_value) && *ret_value == floor(*ret_value) &&
        *ret_value >= key->min && *ret_value <= key->max)
        return 0;
    snprintf(wanted, sizeof wanted, "a whole number from %.0f to %.0f", key->min, key->max);
    return prn_yaml_fail_value(r, key, node, wanted);
}

int prn_yaml_read_count(const struct prn_yaml_reader *r, const struct prn_yaml_key *key,
                        const struct prn_yaml_node *node, void *into)
{
    double value = 0;
    bool none = is_none(key, node);
    int code = none ? 0 : read_whole(r, key, node, &value);
    if (code == 0)
        *(size_t *)into = none ? (size_t)key->none : (size_t)value;
    return code;
}

int prn_yaml_read_integer(const struct prn_yaml_reader *r, const struct prn_yaml_key *key,
                          const struct prn_yaml_node *node, void *into)
{
    double value = 0;
    int code = read_whole(r, key, node, &value);
    if (code == 0)
        *(int64_t *)into = (int64_t)value;
    return code;
}

int prn_yaml_read_real(const struct prn_yaml_reader *r, const struct prn_yaml_key *key,
                       const struct prn_yaml_node *node, void *into)
{
    char wanted[100];
    double value = 0;
    snprintf(wanted, sizeof wanted, "a number from %g to %g", key->min, key->max);
    if (!prn_yaml_number(node, &value) || value < key->min || value > key->max)
        return prn_yaml_fail_value(r, key, node, wanted);
    *(double *)into = value;
    return 0;
}

struct unit {
    const char *name;
    double factor;
};

/* A decimal number, white space if any, and a unit; NAN when it is anything else. */
static double measured(const char *text, const struct unit *units, size_t n)
{
    size_t len = strspn(text, "0123456789.");
    char number[32];
    if (len == 0 || len >= sizeof number)
        return NAN;
    memcpy(number, text, len);
    number[len] = '\0';
    char *end;
    double value = strtod(number, &end);
    const char *unit = text + len + strspn(text + len, " \t");
    for (size_t i = 0; *end == '\0' && i < n; i++)
        if (strcmp(unit, units[i].name) == 0)
            return value * units[i].factor;
    return NAN;
}

/* What stands there, "" when it is no scalar. */
static const char *text_of(const struct prn_yaml_node *node)
{
    return node->kind == PRN_YAML_SCALAR ? node->text : "";
}

int prn_yaml_read_size(const struct prn_yaml_reader *r, const struct prn_yaml_key *key,
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
    double bytes = measured(text_of(node), units, PRN_ARRAY_SIZE(units));
    if (isnan(bytes))
        return prn_yaml_fail_value(r, key, node, "a size such as 20 GiB");
    char low[PRN_FORMAT_SIZE];
    char high[PRN_FORMAT_SIZE];
    if (bytes < key->min || bytes > key->max)
        return prn_yaml_fail_at(r, node, key->name, "'%.100s' is not between %s and %s", node->text,
                                prn_format_bytes(low, key->min), prn_format_bytes(high, key->max));
    *(uint64_t *)into = (uint64_t)bytes;
    return 0;
}

int prn_yaml_read_duration(const struct prn_yaml_reader *r, const struct prn_yaml_key *key,
                           const struct prn_yaml_node *node, void *into)
{
    static const struct unit units[] = {{"", 1},   {"ms", 1e-3}, {"s", 1},
                                        {"m", 60}, {"min", 60},  {"h", 3600}};
    if (is_none(key, node)) {
        *(double *)into = (double)key->none;
        return 0;
    }
    double seconds = measured(text_of(node), units, PRN_ARRAY_SIZE(units));
    if (isnan(seconds))
        return prn_yaml_fail_value(r, key, node, "a duration such as 30s or 10m");
    if (seconds < key->min || seconds > key->max)
        return prn_yaml_fail_at(r, node, key->name, "'%.100s' is not between %.10g s and %.10g s",
                                node->text, key->min, key->max);
    *(double *)into = seconds;
    return 0;
}

/* A bare 3 might be meant as 3 % or as three times as much. */
int prn_yaml_read_percent(const struct prn_yaml_reader *r, const struct prn_yaml_key *key,
                          const struct prn_yaml_node *node, void *into)
{
    static const struct unit percent = {"%", 1e-2};
    const char *text = text_of(node);
    double fraction = measured(text + (text[0] == '+'), &percent, 1);
    if (!(fraction >= key->min && fraction <= key->max))
        return prn_yaml_fail_value(r, key, node, "a percentage such as 3%");
    *(double *)into = fraction;
    return 0;
}

int prn_yaml_read_section(const struct prn_yaml_reader *r, const struct prn_yaml_key *key,
                          const struct prn_yaml_node *node, void *into)
{
    return prn_yaml_read_map(r, key->name, node, key->keys, key->n_keys, into);
}

int prn_yaml_read_node(const struct prn_yaml_reader *r, const struct prn_yaml_key *key,
                       const struct prn_yaml_node *node, void *into)
{
    (void)r;
    (void)key;
    *(const struct prn_yaml_node **)into = node;
    return 0;
}

int prn_yaml_list(const struct prn_yaml_reader *r, const char *key,
                  const struct prn_yaml_node *node, size_t most,
                  const struct prn_yaml_node *const **ret_items, size_t *ret_n)
{
    if (node->kind == PRN_YAML_MAP)
        return prn_yaml_fail_at(r, node, key, "not a list");
    if (node->kind == PRN_YAML_LIST && node->n == 0)
        return prn_yaml_fail_at(r, node, key, "an empty list");
    if (node->kind == PRN_YAML_LIST && node->n > most)
        return prn_yaml_fail_at(r, node, key, "more than %zu items", most);
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

int prn_yaml_texts(const struct prn_yaml_reader *r, const char *key,
                   const struct prn_yaml_node *node, size_t most, const char ***ret_texts,
                   size_t *ret_n)
{
    const struct prn_yaml_node *const *items = NULL;
    size_t n = 0;
    int code = prn_yaml_list(r, key, node, most, &items, &n);
    const char **texts = code == 0 ? PRN_ARENA_ARRAY(r->arena, n, const char *) : NULL;
    if (code == 0 && !texts)
        return prn_fail_memory(r->err);
    for (size_t i = 0; i < n && code == 0; i++)
        code = prn_yaml_text(r, key, items[i], &texts[i]);
    if (code < 0)
        return code;
    *ret_texts = texts;
    *ret_n = n;
    return 0;
}
