#include "trace/repair.h"

#include "trace/scan.h"

#include <string.h>

static const char event_begin[] = "{\"cat\" : \"";
static const char name_begin[] = "\"ph\" : \"X\",\"name\" :\"";
static const char name_end[] = "\",\"args\" : {";
static const char key_end[] = "\" : ";

/* How far from the event's beginning its name is. */
#define HEAD_BYTES_MAX 256

/* The longest key of an argument that is looked for. */
#define KEY_BYTES_MAX 64

#define LENGTH(text) (sizeof(text) - 1)

struct repair {
    const char *at, *end;
    const char *text_end; /* behind `end`: the padding is there */
    enum prn_repair lack; /* what it is when the text ends: MORE or NONE */
    struct prn_buffer *out;
};

static bool begins_with(const struct repair *r, const char *at, const char *text, size_t len)
{
    return (size_t)(r->end - at) >= len && memcmp(at, text, len) == 0;
}

static void add_escaped(struct prn_buffer *out, const char *text, const char *end)
{
    for (const char *p = text; p < end; p++) {
        if (*p == '"' || *p == '\\')
            prn_buffer_printf(out, "\\%c", *p);
        else if ((unsigned char)*p < 0x20)
            prn_buffer_printf(out, "\\u%04x", (unsigned)*p);
        else
            prn_buffer_add_char(out, *p);
    }
}

/* Up to the beginning of the name, as it stands. */
static enum prn_repair copy_head(struct repair *r)
{
    size_t len = (size_t)(r->end - r->at);
    if (len < LENGTH(event_begin))
        return r->lack;
    size_t most = len < HEAD_BYTES_MAX ? len : HEAD_BYTES_MAX;
    const char *name = memmem(r->at, most, name_begin, LENGTH(name_begin));
    if (!name)
        return most < HEAD_BYTES_MAX ? r->lack : PRN_REPAIR_NONE;
    name += LENGTH(name_begin);
    prn_buffer_append(r->out, r->at, (size_t)(name - r->at));
    r->at = name;
    return PRN_REPAIR_DONE;
}

/* The name, and what stands behind it. */
static enum prn_repair copy_name(struct repair *r)
{
    const char *end = memmem(r->at, (size_t)(r->end - r->at), name_end, LENGTH(name_end));
    if (!end)
        return r->lack;
    add_escaped(r->out, r->at, end);
    prn_buffer_append(r->out, name_end, LENGTH(name_end));
    r->at = end + LENGTH(name_end);
    return PRN_REPAIR_DONE;
}

/* What is at `at`: a key with what follows it. `*ret_end` is where its value begins. */
static enum prn_repair find_key(const struct repair *r, const char *at, const char **ret_end)
{
    const char *p = at + 1;
    if (at == r->end)
        return r->lack;
    if (*at != '"')
        return PRN_REPAIR_NONE;
    while (p < r->end && p - at < KEY_BYTES_MAX &&
           (*p == '_' || (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') ||
            prn_scan_is_digit(*p)))
        p++;
    if ((size_t)(r->end - p) < LENGTH(key_end))
        return r->lack;
    if (p == at + 1 || !begins_with(r, p, key_end, LENGTH(key_end)))
        return PRN_REPAIR_NONE;
    *ret_end = p + LENGTH(key_end);
    return PRN_REPAIR_DONE;
}

/* Whether the quote at `quote` ends a value: the event's end or another key follows. */
static enum prn_repair ends_value(const struct repair *r, const char *quote)
{
    const char *ignored;
    if (r->end - quote < 4)
        return r->lack == PRN_REPAIR_MORE         ? PRN_REPAIR_MORE
               : begins_with(r, quote, "\"}}", 3) ? PRN_REPAIR_DONE
                                                  : PRN_REPAIR_NONE;
    if (quote[1] == '}' && quote[2] == '}')
        return strchr(",] \r\n", quote[3]) ? PRN_REPAIR_DONE : PRN_REPAIR_NONE;
    return quote[1] == ',' ? find_key(r, quote + 2, &ignored) : PRN_REPAIR_NONE;
}

/* A text between quotes, of which some may be its own. */
static enum prn_repair copy_text(struct repair *r)
{
    for (const char *p = r->at + 1;; p++) {
        p = memchr(p, '"', (size_t)(r->end - p));
        if (!p)
            return r->lack;
        enum prn_repair found = ends_value(r, p);
        if (found == PRN_REPAIR_NONE)
            continue;
        if (found == PRN_REPAIR_DONE) {
            prn_buffer_add_char(r->out, '"');
            add_escaped(r->out, r->at + 1, p);
            prn_buffer_add_char(r->out, '"');
            r->at = p + 1;
        }
        return found;
    }
}

/* A list or an object, which ONNX Runtime makes itself: as it stands. */
static enum prn_repair copy_nested(struct repair *r)
{
    struct prn_scan s = {.at = r->at, .end = r->text_end};
    if (!prn_scan_value(&s))
        return s.fault ? PRN_REPAIR_NONE : r->lack;
    if (s.at > r->end)
        return PRN_REPAIR_NONE;
    prn_buffer_append(r->out, r->at, (size_t)(s.at - r->at));
    r->at = s.at;
    return PRN_REPAIR_DONE;
}

static enum prn_repair copy_argument(struct repair *r)
{
    const char *value;
    enum prn_repair found = find_key(r, r->at, &value);
    if (found != PRN_REPAIR_DONE)
        return found;
    prn_buffer_append(r->out, r->at, (size_t)(value - r->at));
    r->at = value;
    if (r->at == r->end)
        return r->lack;
    if (*r->at == '"')
        return copy_text(r);
    return *r->at == '[' || *r->at == '{' ? copy_nested(r) : PRN_REPAIR_NONE;
}

static enum prn_repair copy_arguments(struct repair *r)
{
    for (;;) {
        if (r->end - r->at < 2)
            return r->lack;
        if (memcmp(r->at, "}}", 2) == 0)
            break;
        enum prn_repair found = copy_argument(r);
        if (found != PRN_REPAIR_DONE)
            return found;
        if (r->at == r->end)
            return r->lack;
        if (*r->at == ',') {
            prn_buffer_add_char(r->out, ',');
            r->at++;
        } else if (*r->at != '}') {
            return PRN_REPAIR_NONE;
        }
    }
    prn_buffer_add(r->out, "}}");
    r->at += 2;
    return PRN_REPAIR_DONE;
}

enum prn_repair prn_repair_event(const char *text, size_t len, bool ended, struct prn_buffer *out,
                                 size_t *ret_used)
{
    static const char padding[PRN_SCAN_PADDING];
    if (len >= LENGTH(event_begin) && memcmp(text, event_begin, LENGTH(event_begin)) != 0)
        return PRN_REPAIR_NONE;
    size_t most = len < PRN_REPAIR_BYTES_MAX ? len : PRN_REPAIR_BYTES_MAX;
    const char *next =
        most > 0 ? memmem(text + 1, most - 1, event_begin, LENGTH(event_begin)) : NULL;
    bool whole = next || ended || len >= PRN_REPAIR_BYTES_MAX;
    struct repair r = {.at = text,
                       .end = next ? next : text + most,
                       .text_end = text + len,
                       .lack = whole ? PRN_REPAIR_NONE : PRN_REPAIR_MORE,
                       .out = out};
    prn_buffer_clear(out);
    enum prn_repair found = copy_head(&r);
    if (found == PRN_REPAIR_DONE)
        found = copy_name(&r);
    if (found == PRN_REPAIR_DONE)
        found = copy_arguments(&r);
    if (found != PRN_REPAIR_DONE)
        return found;
    size_t used = out->len;
    prn_buffer_append(out, padding, sizeof padding);
    if (out->error)
        return PRN_REPAIR_NONE;
    out->len = used;
    *ret_used = (size_t)(r.at - text);
    return PRN_REPAIR_DONE;
}
