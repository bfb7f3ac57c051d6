/*
 * JSON: a streaming writer of our own, because numbers must read back exactly and files be stable
 * to the byte, and a reader on Jansson.
 *
 * Writer: keys come in the order of the calls, two spaces of indent, short arrays of numbers on one
 * line. Non-finite numbers become null. Text that isn't UTF-8 is written with U+FFFD in place of
 * the bad bytes.
 *
 *     struct prn_json_writer w = prn_json_writer_init(&buffer);
 *     prn_json_object(&w, NULL);
 *     prn_json_text(&w, "name", "mlp");
 *     prn_json_array(&w, "samples_ns");
 *     prn_json_integer(&w, NULL, 12);
 *     prn_json_end(&w);
 *     prn_json_end(&w);
 */
#ifndef PRN_FORMAT_JSON_H
#define PRN_FORMAT_JSON_H

#include "base/buffer.h"

#include <jansson.h>

#define PRN_JSON_DEPTH_MAX 32

/* Arrays and objects, and commas, of a text that the reader takes. */
#define PRN_JSON_CONTAINERS_MAX 1000000
#define PRN_JSON_VALUES_MAX 30000000

struct prn_json_writer {
    struct prn_buffer *out;
    unsigned without; /* rules of what isn't written (format/schema.h) */
    int depth;
    struct {
        char close;   /* ']' or '}' */
        bool empty;   /* nothing written yet */
        bool compact; /* on one line */
    } levels[PRN_JSON_DEPTH_MAX];
};

struct prn_json_writer prn_json_writer_init(struct prn_buffer *out);

/* `key` is NULL inside arrays and at the top. */
void prn_json_object(struct prn_json_writer *w, const char *key);
void prn_json_array(struct prn_json_writer *w, const char *key);
void prn_json_array_compact(struct prn_json_writer *w, const char *key);
void prn_json_end(struct prn_json_writer *w);
void prn_json_text(struct prn_json_writer *w, const char *key, const char *text); /* NULL: null */
void prn_json_integer(struct prn_json_writer *w, const char *key, int64_t value);
void prn_json_number(struct prn_json_writer *w, const char *key, double value);
void prn_json_bool(struct prn_json_writer *w, const char *key, bool value);
void prn_json_null(struct prn_json_writer *w, const char *key);
/* `json` is JSON that a writer made. */
void prn_json_raw(struct prn_json_writer *w, const char *key, const char *json);

/* Appends text as a JSON string, quotes and all. */
void prn_json_quote(struct prn_buffer *out, const char *text);

/*
 * Reader: the whole text as a tree, freed with json_decref(). Duplicate keys and trailing text are
 * faults; a fault names the line and column.
 */
PRONY_MUST_CHECK int prn_json_parse(const char *text, size_t len, const char *name,
                                    json_t **ret_root, struct prony_error *err);
/* `path` may be "-" for standard input. At most `limit` bytes. */
PRONY_MUST_CHECK int prn_json_read(const char *path, size_t limit, json_t **ret_root,
                                   struct prony_error *err);

#endif
