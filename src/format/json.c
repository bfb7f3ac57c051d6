#include "format/json.h"

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

/* Length of the valid UTF-8 sequence at p, or 0. */
static size_t utf8_length(const unsigned char *p)
{
    if (p[0] < 0x80)
        return 1;
    size_t n = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
    if (p[0] < 0xc2 || p[0] > 0xf4)
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ||
        (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f))
        return 0;
    return n;
}

static void quoted(struct prn_buffer *out, const char *text)
{
    prn_buffer_add_char(out, '"');
    for (const unsigned char *p = (const unsigned char *)text; *p;) {
        size_t n = utf8_length(p);
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
        else if (*p < 0x20 || *p == 0x7f)
            prn_buffer_printf(out, "\\u%04x", *p);
        else
            prn_buffer_append(out, p, n);
        p += n;
    }
    prn_buffer_add_char(out, '"');
}

/* Everything that stands before a value: comma, line, key. */
static void begin(struct prn_json_writer *w, const char *key)
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
        quoted(w->out, key);
        prn_buffer_add(w->out, ": ");
    }
}

static void push(struct prn_json_writer *w, const char *key, char open, char close, bool compact)
{
    assert(w->depth < PRN_JSON_DEPTH_MAX);
    begin(w, key);
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

void prn_json_text(struct prn_json_writer *w, const char *key, const char *text)
{
    begin(w, key);
    if (text)
        quoted(w->out, text);
    else
        prn_buffer_add(w->out, "null");
}

void prn_json_integer(struct prn_json_writer *w, const char *key, int64_t value)
{
    begin(w, key);
    prn_buffer_printf(w->out, "%lld", (long long)value);
}

const char *prn_json_shortest(char buffer[32], double value)
{
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(buffer, 32, "%.*g", digits, value);
        if (strtod(buffer, NULL) == value)
            break;
    }
    return buffer;
}

void prn_json_number(struct prn_json_writer *w, const char *key, double value)
{
    char text[32];
    begin(w, key);
    prn_buffer_add(w->out, isfinite(value) ? prn_json_shortest(text, value) : "null");
}

void prn_json_bool(struct prn_json_writer *w, const char *key, bool value)
{
    begin(w, key);
    prn_buffer_add(w->out, value ? "true" : "false");
}

void prn_json_null(struct prn_json_writer *w, const char *key)
{
    prn_json_text(w, key, NULL);
}

int prn_json_parse(const char *text, size_t len, const char *name, json_t **ret_root,
                   struct prony_error *err)
{
    json_error_t fault;
    json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &fault);
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
