/*
 * Builds the tree from libyaml's events with a stack of open lists and maps instead of recursion.
 * The entries of all open ones lie on one shared array; when one closes, its part is copied to the
 * arena and taken off.
 */
#include "format/yaml.h"

#include "base/array.h"
#include "base/arena.h"
#include "base/map.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <yaml.h>

#define YAML_DEPTH_MAX 64
#define YAML_WEIGHT_MAX ((size_t)1 << 20)
#define YAML_ARENA_MAX ((size_t)256 << 20)

struct prn_yaml {
    struct prn_arena arena;
    const char *name;
    const struct prn_yaml_node *root;
};

struct entry {
    const char *key; /* NULL in lists; an anchor by its name */
    bool key_quoted;
    size_t key_line;
    const struct prn_yaml_node *node;
};

/* An open list or map. */
struct level {
    struct prn_yaml_node *node;
    const char *anchor;
    const char *key; /* map: key that waits for its value */
    bool key_quoted;
    size_t key_line;
    size_t first; /* its first entry */
};

struct builder {
    struct prn_yaml *yaml;
    struct level levels[YAML_DEPTH_MAX];
    size_t depth;
    struct entry *entries;
    size_t n_entries, capacity;
    struct prn_map anchors; /* to indices of `anchored` */
    struct entry *anchored;
    size_t n_anchored;
    size_t documents;
    struct prony_error *err;
};

static int fail_at(const struct builder *b, size_t line, const char *what)
{
    return prn_fail(b->err, PRONY_EFORMAT, "'%s', line %zu: %s", b->yaml->name, line, what);
}

static int add_entry(struct builder *b, struct entry entry)
{
    if (b->n_entries == b->capacity) {
        size_t capacity = b->capacity ? 2 * b->capacity : 64;
        struct entry *entries = realloc(b->entries, capacity * sizeof *entries);
        if (!entries)
            return prn_fail_memory(b->err);
        b->entries = entries;
        b->capacity = capacity;
    }
    b->entries[b->n_entries++] = entry;
    return 0;
}

/* Puts a finished node where it belongs: into the open list or map, or at the root. */
static int attach(struct builder *b, const struct prn_yaml_node *node, size_t line)
{
    if (b->depth == 0) {
        b->yaml->root = node;
        return 0;
    }
    struct level *top = &b->levels[b->depth - 1];
    if (__builtin_add_overflow(top->node->weight, node->weight, &top->node->weight) ||
        top->node->weight > YAML_WEIGHT_MAX)
        return fail_at(b, line, "too many values");
    if (top->node->kind == PRN_YAML_LIST)
        return add_entry(b, (struct entry){.node = node});
    if (!top->key) {
        if (node->kind != PRN_YAML_SCALAR)
            return fail_at(b, line, "a list or map can't be a key");
        if (!node->quoted && strcmp(node->text, "<<") == 0)
            return fail_at(b, line, "merge keys ('<<') are not supported; write the values out");
        top->key = node->text;
        top->key_quoted = node->quoted;
        top->key_line = line;
        return 0;
    }
    int code = add_entry(b, (struct entry){top->key, top->key_quoted, top->key_line, node});
    top->key = NULL;
    return code;
}

static int set_anchor(struct builder *b, const char *anchor, const struct prn_yaml_node *node)
{
    if (!anchor)
        return 0;
    size_t n = b->n_anchored;
    struct entry *grown = prn_array_grow(b->anchored, n, sizeof *grown);
    if (!grown)
        return prn_fail_memory(b->err);
    b->anchored = grown;
    b->anchored[b->n_anchored++] = (struct entry){.key = anchor, .node = node};
    return prn_map_set(&b->anchors, anchor, n) < 0 ? prn_fail_memory(b->err) : 0;
}

static const char *copy_anchor(struct builder *b, const yaml_char_t *anchor)
{
    return anchor ? prn_arena_strdup(&b->yaml->arena, (const char *)anchor) : NULL;
}

static struct prn_yaml_node *new_node(struct builder *b, enum prn_yaml_kind kind, size_t line)
{
    struct prn_yaml_node *node = PRN_ARENA_NEW(&b->yaml->arena, struct prn_yaml_node);
    if (node)
        *node = (struct prn_yaml_node){.kind = kind, .line = line, .weight = 1};
    return node;
}

/* A tag of YAML's own says what a scalar is, whatever its style. */
static bool is_text(const yaml_event_t *event)
{
    static const char *const others[] = {YAML_INT_TAG, YAML_FLOAT_TAG, YAML_BOOL_TAG,
                                         YAML_NULL_TAG};
    const char *tag = (const char *)event->data.scalar.tag;
    for (size_t i = 0; tag && i < PRN_ARRAY_SIZE(others); i++)
        if (strcmp(tag, others[i]) == 0)
            return false;
    return event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE ||
           (tag && strcmp(tag, YAML_STR_TAG) == 0);
}

static int on_scalar(struct builder *b, const yaml_event_t *event, size_t line)
{
    const char *value = (const char *)event->data.scalar.value;
    size_t len = event->data.scalar.length;
    const yaml_char_t *anchor = event->data.scalar.anchor;
    if (memchr(value, 0, len))
        return fail_at(b, line, "text contains a NUL");
    struct prn_yaml_node *node = new_node(b, PRN_YAML_SCALAR, line);
    const char *text = prn_arena_strndup(&b->yaml->arena, value, len);
    const char *anchor_copy = copy_anchor(b, anchor);
    if (!node || !text || (anchor && !anchor_copy))
        return prn_fail_memory(b->err);
    node->text = text;
    node->quoted = is_text(event);
    int code = set_anchor(b, anchor_copy, node);
    return code < 0 ? code : attach(b, node, line);
}

static int on_alias(struct builder *b, const yaml_event_t *event, size_t line)
{
    size_t i = prn_map_get(&b->anchors, (const char *)event->data.alias.anchor);
    if (i >= b->n_anchored)
        return fail_at(b, line, "an alias to nothing, or to what it is part of");
    return attach(b, b->anchored[i].node, line);
}

static int on_open(struct builder *b, enum prn_yaml_kind kind, const yaml_char_t *anchor,
                   size_t line)
{
    if (b->depth == YAML_DEPTH_MAX)
        return fail_at(b, line, "nested too deep");
    struct prn_yaml_node *node = new_node(b, kind, line);
    const char *anchor_copy = copy_anchor(b, anchor);
    if (!node || (anchor && !anchor_copy))
        return prn_fail_memory(b->err);
    b->levels[b->depth++] =
        (struct level){.node = node, .anchor = anchor_copy, .first = b->n_entries};
    return 0;
}

static int check_keys(struct builder *b, const char *const *keys, const size_t *lines, size_t n)
{
    int code = 0;
    struct prn_map seen = PRN_MAP_INIT;
    for (size_t i = 0; i < n && code == 0; i++) {
        if (prn_map_get(&seen, keys[i]) != PRN_MAP_NONE)
            code = prn_fail(b->err, PRONY_EFORMAT, "'%s', line %zu: key '%s' twice", b->yaml->name,
                            lines[i], keys[i]);
        else if (prn_map_set(&seen, keys[i], i) < 0)
            code = prn_fail_memory(b->err);
    }
    prn_map_release(&seen);
    return code;
}

static int on_close(struct builder *b, size_t line)
{
    assert(b->depth > 0 && b->levels[b->depth - 1].node);
    struct level top = b->levels[--b->depth];
    size_t n = b->n_entries - top.first;
    const struct prn_yaml_node **items =
        PRN_ARENA_ARRAY(&b->yaml->arena, n, const struct prn_yaml_node *);
    const char **keys = PRN_ARENA_ARRAY(&b->yaml->arena, n, const char *);
    bool *keys_quoted = PRN_ARENA_ARRAY(&b->yaml->arena, n, bool);
    size_t *key_lines = PRN_ARENA_ARRAY(&b->yaml->arena, n, size_t);
    if (!items || !keys || !keys_quoted || !key_lines)
        return prn_fail_memory(b->err);
    for (size_t i = 0; i < n; i++) {
        items[i] = b->entries[top.first + i].node;
        keys[i] = b->entries[top.first + i].key;
        keys_quoted[i] = b->entries[top.first + i].key_quoted;
        key_lines[i] = b->entries[top.first + i].key_line;
    }
    b->n_entries = top.first;
    top.node->n = n;
    top.node->items = items;
    int code = 0;
    if (top.node->kind == PRN_YAML_MAP) {
        top.node->keys = keys;
        top.node->keys_quoted = keys_quoted;
        top.node->key_lines = key_lines;
        code = check_keys(b, keys, key_lines, n);
    }
    if (code == 0)
        code = set_anchor(b, top.anchor, top.node);
    return code < 0 ? code : attach(b, top.node, line);
}

static int on_event(struct builder *b, const yaml_event_t *event)
{
    size_t line = event->start_mark.line + 1;
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        return b->documents++ == 0 ? 0 : fail_at(b, line, "a second document");
    case YAML_SCALAR_EVENT:
        return on_scalar(b, event, line);
    case YAML_ALIAS_EVENT:
        return on_alias(b, event, line);
    case YAML_SEQUENCE_START_EVENT:
        return on_open(b, PRN_YAML_LIST, event->data.sequence_start.anchor, line);
    case YAML_MAPPING_START_EVENT:
        return on_open(b, PRN_YAML_MAP, event->data.mapping_start.anchor, line);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        return on_close(b, line);
    default:
        return 0;
    }
}

static int syntax_fault(const struct builder *b, const yaml_parser_t *parser)
{
    if (parser->error == YAML_MEMORY_ERROR)
        return prn_fail_memory(b->err);
    size_t line = parser->problem_mark.line + 1;
    return prn_fail(b->err, PRONY_EFORMAT, "'%s' is not valid YAML: line %zu: %s", b->yaml->name,
                    line, parser->problem ? parser->problem : "unreadable");
}

static int build(struct builder *b, const char *text, size_t len)
{
    yaml_parser_t parser;
    if (!yaml_parser_initialize(&parser))
        return prn_fail_memory(b->err);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, len);
    int code = 0;
    for (bool end = false; code == 0 && !end;) {
        yaml_event_t event;
        if (!yaml_parser_parse(&parser, &event)) {
            code = syntax_fault(b, &parser);
            break;
        }
        end = event.type == YAML_STREAM_END_EVENT;
        code = on_event(b, &event);
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&parser);
    return code;
}

int prn_yaml_parse(const char *text, size_t len, const char *name, struct prn_yaml **ret_yaml,
                   struct prony_error *err)
{
    struct prn_yaml *yaml = calloc(1, sizeof *yaml);
    if (!yaml)
        return prn_fail_memory(err);
    yaml->arena = PRN_ARENA_INIT(YAML_ARENA_MAX);
    yaml->name = prn_arena_strdup(&yaml->arena, name);
    struct builder b = {.yaml = yaml, .anchors = PRN_MAP_INIT, .err = err};
    int code = yaml->name ? build(&b, text, len) : prn_fail_memory(err);
    prn_map_release(&b.anchors);
    free(b.anchored);
    free(b.entries);
    if (code < 0)
        prn_yaml_free(yaml);
    else
        *ret_yaml = yaml;
    return code;
}

int prn_yaml_read(const char *path, size_t limit, struct prn_yaml **ret_yaml,
                  struct prony_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return prn_fail_errno(err, errno, "open", path);
    struct prn_buffer text = PRN_BUFFER_INIT(limit);
    int code = prn_buffer_read_fd(&text, fd, path, err);
    if (code == 0)
        code = prn_yaml_parse(prn_buffer_text(&text), text.len, path, ret_yaml, err);
    prn_buffer_release(&text);
    close(fd);
    return code;
}

void prn_yaml_free(struct prn_yaml *yaml)
{
    if (!yaml)
        return;
    prn_arena_release(&yaml->arena);
    free(yaml);
}

const struct prn_yaml_node *prn_yaml_root(const struct prn_yaml *yaml)
{
    return yaml->root;
}

const struct prn_yaml_node *prn_yaml_get(const struct prn_yaml_node *map, const char *key)
{
    for (size_t i = 0; map && map->kind == PRN_YAML_MAP && i < map->n; i++)
        if (strcmp(map->keys[i], key) == 0)
            return map->items[i];
    return NULL;
}

bool prn_yaml_is_null(const struct prn_yaml_node *node)
{
    if (!node)
        return true;
    if (node->kind != PRN_YAML_SCALAR || node->quoted)
        return false;
    return node->text[0] == '\0' || strcmp(node->text, "~") == 0 || strcmp(node->text, "null") == 0;
}

bool prn_yaml_number(const struct prn_yaml_node *node, double *ret_number)
{
    if (node->kind != PRN_YAML_SCALAR || node->quoted || node->text[0] == '\0' ||
        node->text[strspn(node->text, "0123456789+-.eE")] != '\0')
        return false;
    char *end;
    double number = strtod(node->text, &end);
    if (*end || !isfinite(number))
        return false;
    *ret_number = number;
    return true;
}

int prn_yaml_fail(const struct prn_yaml *yaml, const struct prn_yaml_node *node,
                  struct prony_error *err, const char *format, ...)
{
    struct prn_buffer text = PRN_BUFFER_INIT(PRONY_ERROR_TEXT_SIZE * 4);
    va_list args;
    va_start(args, format);
    prn_buffer_vprintf(&text, format, args);
    va_end(args);
    int code = prn_fail(err, PRONY_EFORMAT, "'%s', line %zu: %s", yaml->name, node->line,
                        prn_buffer_text(&text));
    prn_buffer_release(&text);
    return code;
}
