/* Makes nodes, and writes them with libyaml's emitter. */
#include "format/yaml_write.h"

#include "base/format.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <yaml.h>

/* ---- Nodes ---- */

static const struct prn_yaml_node *new_scalar(struct prn_arena *arena, const char *text,
                                              bool quoted)
{
    struct prn_yaml_node *node = PRN_ARENA_NEW(arena, struct prn_yaml_node);
    const char *copy = prn_arena_strdup(arena, text);
    if (!node || !copy)
        return NULL;
    *node = (struct prn_yaml_node){
        .kind = PRN_YAML_SCALAR, .quoted = quoted, .text = copy, .weight = 1};
    return node;
}

const struct prn_yaml_node *prn_yaml_new_null(struct prn_arena *arena)
{
    return new_scalar(arena, "null", false);
}

const struct prn_yaml_node *prn_yaml_new_text(struct prn_arena *arena, const char *text)
{
    return new_scalar(arena, text, true);
}

const struct prn_yaml_node *prn_yaml_new_integer(struct prn_arena *arena, int64_t value)
{
    char text[PRN_FORMAT_SIZE];
    snprintf(text, sizeof text, "%" PRId64, value);
    return new_scalar(arena, text, false);
}

const struct prn_yaml_node *prn_yaml_new_real(struct prn_arena *arena, double value)
{
    char number[PRN_FORMAT_SIZE], text[PRN_FORMAT_SIZE + 2];
    prn_format_shortest(number, value);
    int mantissa = (int)strcspn(number, "e");
    bool point = memchr(number, '.', (size_t)mantissa) != NULL;
    snprintf(text, sizeof text, "%.*s%s%s", mantissa, number, point ? "" : ".0", number + mantissa);
    return new_scalar(arena, text, false);
}

/* A list or map of `n` entries, to be filled. `keys` is NULL for a list. */
static struct prn_yaml_node *new_collection(struct prn_arena *arena, enum prn_yaml_kind kind,
                                            size_t n, const struct prn_yaml_node ***ret_items,
                                            const char ***ret_keys, bool **ret_keys_quoted)
{
    struct prn_yaml_node *node = PRN_ARENA_NEW(arena, struct prn_yaml_node);
    *ret_items = PRN_ARENA_ARRAY(arena, n, const struct prn_yaml_node *);
    *ret_keys = PRN_ARENA_ARRAY(arena, n, const char *);
    *ret_keys_quoted = PRN_ARENA_ARRAY(arena, n, bool);
    if (!node || !*ret_items || !*ret_keys || !*ret_keys_quoted)
        return NULL;
    *node = (struct prn_yaml_node){.kind = kind, .n = n, .items = *ret_items, .weight = 1};
    if (kind == PRN_YAML_MAP) {
        node->keys = *ret_keys;
        node->keys_quoted = *ret_keys_quoted;
    }
    return node;
}

static const struct prn_yaml_node *weighed(struct prn_yaml_node *node)
{
    for (size_t i = 0; i < node->n; i++) {
        if (!node->items[i])
            return NULL;
        node->weight += node->items[i]->weight;
    }
    return node;
}

const struct prn_yaml_node *prn_yaml_new_list(struct prn_arena *arena,
                                              const struct prn_yaml_node *const *items, size_t n)
{
    const struct prn_yaml_node **copies;
    const char **keys;
    bool *keys_quoted;
    struct prn_yaml_node *node =
        new_collection(arena, PRN_YAML_LIST, n, &copies, &keys, &keys_quoted);
    if (!node)
        return NULL;
    for (size_t i = 0; i < n; i++)
        copies[i] = items[i];
    return weighed(node);
}

const struct prn_yaml_node *prn_yaml_new_map(struct prn_arena *arena)
{
    const struct prn_yaml_node **items;
    const char **keys;
    bool *keys_quoted;
    return new_collection(arena, PRN_YAML_MAP, 0, &items, &keys, &keys_quoted);
}

/* A copy with `value` at `index`, which may be the end; `key` is for maps. */
static const struct prn_yaml_node *with_entry(struct prn_arena *arena,
                                              const struct prn_yaml_node *old, size_t index,
                                              const char *key, const struct prn_yaml_node *value)
{
    const struct prn_yaml_node **items;
    const char **keys;
    bool *keys_quoted;
    size_t n = index < old->n ? old->n : old->n + 1;
    struct prn_yaml_node *node = new_collection(arena, old->kind, n, &items, &keys, &keys_quoted);
    if (!node)
        return NULL;
    for (size_t i = 0; i < old->n; i++) {
        items[i] = old->items[i];
        keys[i] = old->keys ? old->keys[i] : NULL;
        keys_quoted[i] = old->keys && old->keys_quoted[i];
    }
    items[index] = value;
    if (index == old->n) {
        keys[index] = key;
        keys_quoted[index] = true;
    }
    return weighed(node);
}

const struct prn_yaml_node *prn_yaml_with(struct prn_arena *arena, const struct prn_yaml_node *map,
                                          const char *key, const struct prn_yaml_node *value)
{
    if (!map || !value)
        return NULL;
    assert(map->kind == PRN_YAML_MAP);
    size_t index = 0;
    while (index < map->n && strcmp(map->keys[index], key) != 0)
        index++;
    const char *copy = prn_arena_strdup(arena, key);
    return copy ? with_entry(arena, map, index, copy, value) : NULL;
}

const struct prn_yaml_node *prn_yaml_with_item(struct prn_arena *arena,
                                               const struct prn_yaml_node *list, size_t index,
                                               const struct prn_yaml_node *item)
{
    if (!list || !item)
        return NULL;
    assert(list->kind == PRN_YAML_LIST && index <= list->n);
    return with_entry(arena, list, index, NULL, item);
}

/* ---- Writing ---- */

/* Whether a plain scalar might be read as a number, a time, a truth value or nothing. Quoting a
 * text too many does no harm. */
static bool looks_special(const char *text)
{
    static const char *const words[] = {"",   "~",    "null", "true",  "false", "yes",
                                        "no", "on",   "off",  "y",     "n",     "=",
                                        "<<", ".inf", ".nan", "-.inf", "+.inf"};
    for (size_t i = 0; i < PRN_ARRAY_SIZE(words); i++)
        if (strcasecmp(text, words[i]) == 0)
            return true;
    return strchr("+-.0123456789", text[0]) &&
           !text[strspn(text, "+-.:_ 0123456789abcdefoxtzABCDEFOXTZ")];
}

static bool is_simple(const struct prn_yaml_node *node)
{
    for (size_t i = 0; i < node->n; i++)
        if (node->items[i]->kind != PRN_YAML_SCALAR)
            return false;
    return true;
}

static int append(void *context, unsigned char *data, size_t size)
{
    struct prn_buffer *out = context;
    prn_buffer_append(out, data, size);
    return !out->error;
}

/* Emits an event that libyaml made, if it could. */
static bool emit(yaml_emitter_t *emitter, int made, yaml_event_t *event)
{
    return made && yaml_emitter_emit(emitter, event);
}

static bool emit_scalar(yaml_emitter_t *emitter, const char *text, bool quoted)
{
    yaml_event_t event;
    const char *value = !quoted && !text[0] ? "null" : text;
    return emit(emitter,
                yaml_scalar_event_initialize(&event, NULL, NULL, (const yaml_char_t *)value,
                                             (int)strlen(value), !quoted || !looks_special(text), 1,
                                             YAML_ANY_SCALAR_STYLE),
                &event);
}

struct map_entry {
    const char *key;
    bool quoted;
    const struct prn_yaml_node *value;
};

static int compare_entries(const void *a, const void *b)
{
    return strcmp(((const struct map_entry *)a)->key, ((const struct map_entry *)b)->key);
}

static bool emit_node(yaml_emitter_t *emitter, const struct prn_yaml_node *node);

static bool emit_entries(yaml_emitter_t *emitter, const struct prn_yaml_node *map)
{
    struct map_entry *entries = calloc(map->n + 1, sizeof *entries);
    if (!entries) {
        emitter->error = YAML_MEMORY_ERROR;
        return false;
    }
    for (size_t i = 0; i < map->n; i++)
        entries[i] = (struct map_entry){map->keys[i], map->keys_quoted[i], map->items[i]};
    qsort(entries, map->n, sizeof *entries, compare_entries);
    bool done = true;
    for (size_t i = 0; i < map->n && done; i++)
        done = emit_scalar(emitter, entries[i].key, entries[i].quoted) &&
               emit_node(emitter, entries[i].value);
    free(entries);
    return done;
}

static bool emit_map(yaml_emitter_t *emitter, const struct prn_yaml_node *map)
{
    yaml_event_t event;
    yaml_mapping_style_t style =
        is_simple(map) ? YAML_FLOW_MAPPING_STYLE : YAML_BLOCK_MAPPING_STYLE;
    return emit(emitter, yaml_mapping_start_event_initialize(&event, NULL, NULL, 1, style),
                &event) &&
           emit_entries(emitter, map) &&
           emit(emitter, yaml_mapping_end_event_initialize(&event), &event);
}

static bool emit_list(yaml_emitter_t *emitter, const struct prn_yaml_node *list)
{
    yaml_event_t event;
    yaml_sequence_style_t style =
        is_simple(list) ? YAML_FLOW_SEQUENCE_STYLE : YAML_BLOCK_SEQUENCE_STYLE;
    bool done =
        emit(emitter, yaml_sequence_start_event_initialize(&event, NULL, NULL, 1, style), &event);
    for (size_t i = 0; i < list->n && done; i++)
        done = emit_node(emitter, list->items[i]);
    return done && emit(emitter, yaml_sequence_end_event_initialize(&event), &event);
}

static bool emit_node(yaml_emitter_t *emitter, const struct prn_yaml_node *node)
{
    switch (node->kind) {
    case PRN_YAML_LIST:
        return emit_list(emitter, node);
    case PRN_YAML_MAP:
        return emit_map(emitter, node);
    default:
        return emit_scalar(emitter, node->text, node->quoted);
    }
}

static bool emit_document(yaml_emitter_t *emitter, const struct prn_yaml_node *root)
{
    yaml_event_t event;
    return emit(emitter, yaml_stream_start_event_initialize(&event, YAML_UTF8_ENCODING), &event) &&
           emit(emitter, yaml_document_start_event_initialize(&event, NULL, NULL, NULL, 1),
                &event) &&
           emit_node(emitter, root) &&
           emit(emitter, yaml_document_end_event_initialize(&event, 1), &event) &&
           emit(emitter, yaml_stream_end_event_initialize(&event), &event);
}

int prn_yaml_write(const struct prn_yaml_node *root, struct prn_buffer *out,
                   struct prony_error *err)
{
    yaml_emitter_t emitter;
    if (!yaml_emitter_initialize(&emitter))
        return prn_fail_memory(err);
    yaml_emitter_set_output(&emitter, append, out);
    yaml_emitter_set_unicode(&emitter, 1);
    bool done = emit_document(&emitter, root);
    /* libyaml refuses texts that aren't UTF-8 without a word, as it does when out of memory. */
    bool text_fault = emitter.error == YAML_NO_ERROR;
    yaml_emitter_delete(&emitter);
    int code = prn_buffer_error(out, err);
    if (code < 0 || done)
        return code;
    if (text_fault)
        return prn_fail(err, PRONY_EFORMAT, "cannot write YAML: a text is not UTF-8");
    return prn_fail_memory(err);
}
