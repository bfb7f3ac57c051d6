#include "format/json.h"

#include "base/format.h"
#include "base/text.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct prn_json_writer prn_json_writer_init(struct prn_buffer *out)
{
    return (struct prn_json_writer){.out = out};
}

static void newline(struct prn_json_writer *w)
{
    prn_buffer_add_char(w->out, '\n');
    for (int i = 0; i < w->depth; i++)
        prn_buffer_add(w->out, "  ");
}

void prn_json_quote(struct prn_buffer *out, const char *text)
{
    prn_buffer_add_char(out, '"');
    for (const char *p = text; *p;) {
        size_t n = prn_utf8_length(p);
        if (n == 0) {
            prn_buffer_add(out, "\xef\xbf\xbd");
            p++;
            continue;
        }
        if (*p == '"' || *p == '\\')
            prn_buffer_printf(out, "\\%c", *p);
        else if (*p == '\n')
            prn_buffer_add(out, "\\n");
        else if (*p == '\t')
            prn_buffer_add(out, "\\t");
        else if (n == 1 && !prn_utf8_printable(p))
            prn_buffer_printf(out, "\\u%04x", *p);
        else
            prn_buffer_append(out, p, n);
        p += n;
    }
    prn_buffer_add_char(out, '"');
}

/* Everything that stands before a value: comma, line, key. */
static void json_begin(struct prn_json_writer *w, const char *key)
{
    if (w->depth > 0) {
        int top = w->depth - 1;
        if (!w->levels[top].empty)
            prn_buffer_add_char(w->out, ',');
        if (!w->levels[top].compact)
            newline(w);
        else if (!w->levels[top].empty)
            prn_buffer_add_char(w->out, ' ');
        w->levels[top].empty = false;
    }
    if (key) {
        prn_json_quote(w->out, key);
        prn_buffer_add(w->out, ": ");
    }
}

static void push(struct prn_json_writer *w, const char *key, char open, char close, bool compact)
{
    assert(w->depth < PRN_JSON_DEPTH_MAX);
    json_begin(w, key);
    prn_buffer_add_char(w->out, open);
    w->levels[w->depth].close = close;
    w->levels[w->depth].empty = true;
    w->levels[w->depth].compact = compact;
    w->depth++;
}

void prn_json_object(struct prn_json_writer *w, const char *key)
{
    push(w, key, '{', '}', false);
}

void prn_json_array(struct prn_json_writer *w, const char *key)
{
    push(w, key, '[', ']', false);
}

void prn_json_array_compact(struct prn_json_writer *w, const char *key)
{
    push(w, key, '[', ']', true);
}

void prn_json_end(struct prn_json_writer *w)
{
    assert(w->depth > 0);
    w->depth--;
    if (!w->levels[w->depth].empty && !w->levels[w->depth].compact)
        newline(w);
    prn_buffer_add_char(w->out, w->levels[w->depth].close);
    if (w->depth == 0)
        prn_buffer_add_char(w->out, '\n');
}

void prn_json_raw(struct prn_json_writer *w, const char *key, const char *json)
{
    json_begin(w, key);
    prn_buffer_add(w->out, json);
}

void prn_json_text(struct prn_json_writer *w, const char *key, const char *text)
{
    json_begin(w, key);
    if (text)
        prn_json_quote(w->out, text);
    else
        prn_buffer_add(w->out, "null");
}

void prn_json_integer(struct prn_json_writer *w, const char *key, int64_t value)
{
    json_begin(w, key);
    prn_buffer_printf(w->out, "%lld", (long long)value);
}

void prn_json_number(struct prn_json_writer *w, const char *key, double value)
{
    char text[PRN_FORMAT_SIZE];
    json_begin(w, key);
    prn_buffer_add(w->out, isfinite(value) ? prn_format_shortest(text, value) : "null");
}

void prn_json_bool(struct prn_json_writer *w, const char *key, bool value)
{
    json_begin(w, key);
    prn_buffer_add(w->out, value ? "true" : "false");
}

void prn_json_null(struct prn_json_writer *w, const char *key)
{
    prn_json_text(w, key, NULL);
}

/* A tree costs up to fifty times its text. Counting what would become arrays and values is cheap
 * and bounds it beforehand. */
static int check_size(const char *text, size_t len, const char *name, struct prony_error *err)
{
    size_t containers = 0;
    size_t values = 0;
    for (size_t i = 0; i < len; i++) {
        containers += text[i] == '[' || text[i] == '{';
        values += text[i] == ',';
    }
    if (containers > PRN_JSON_CONTAINERS_MAX || values > PRN_JSON_VALUES_MAX)
        return prn_fail(err, PRONY_ELIMIT, "cannot read '%s': too many values", name);
    return 0;
}

int prn_json_parse(const char *text, size_t len, const char *name, json_t **ret_root,
                   struct prony_error *err)
{
    json_error_t fault;
    int code = check_size(text, len, name, err);
    if (code < 0)
        return code;
    json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &fault);
    /* Jansson has a code for this, but at some places only fails without a text. */
    if (!root && (json_error_code(&fault) == json_error_out_of_memory || !fault.text[0]))
        return prn_fail_memory(err);
    if (!root)
        return prn_fail(err, PRONY_EFORMAT, "'%s' is not valid JSON: line %d, column %d: %s", name,
                        fault.line, fault.column, fault.text);
    *ret_root = root;
    return 0;
}

int prn_json_read(const char *path, size_t limit, json_t **ret_root, struct prony_error *err)
{
    bool standard_input = strcmp(path, "-") == 0;
    const char *name = standard_input ? "standard input" : path;
    int fd = standard_input ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return prn_fail_errno(err, errno, "open", path);
    struct prn_buffer text = PRN_BUFFER_INIT(limit);
    int code = prn_buffer_read_fd(&text, fd, name, err);
    if (code == 0)
        code = prn_json_parse(prn_buffer_text(&text), text.len, name, ret_root, err);
    prn_buffer_release(&text);
    if (!standard_input)
        close(fd);
    return code;
}
