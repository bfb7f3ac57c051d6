/*
 * Structured logs: one line per event, as text
 *
 *     2031-04-05T06:07:08.901Z info session.ready user=ann backends=2 waited_ms=15
 *
 * or as JSON. Values are escaped, so a line stays a line; what looks like a token is masked. An
 * event that repeats quickly is held back after 100, and comes with `suppressed=N` afterwards, 10 a
 * second.
 *
 *     PRN_LOG(log, PRN_LOG_INFO, "session.ready", PRN_LOG_TEXT("user", user),
 *             PRN_LOG_INTEGER("backends", n));
 *
 * May be called from several threads. A log that can't be written to is dropped silently: nobody is
 * left to tell. `log` NULL does nothing.
 */
#ifndef PRN_SERVICE_LOG_H
#define PRN_SERVICE_LOG_H

#include "base/error.h"

#include <stdbool.h>

enum prn_log_level {
    PRN_LOG_INFO,
    PRN_LOG_WARNING,
    PRN_LOG_ERROR,
};

enum prn_log_format {
    PRN_LOG_FORMAT_TEXT,
    PRN_LOG_FORMAT_JSON,
};

struct prn_log_field {
    const char *key;
    enum {
        PRN_LOG_FIELD_TEXT,
        PRN_LOG_FIELD_INTEGER,
        PRN_LOG_FIELD_NUMBER,
    } kind;
    const char *text; /* NULL: the field is left out */
    int64_t integer;
    double number;
};

#define PRN_LOG_TEXT(name, value) \
    ((struct prn_log_field){.key = (name), .kind = PRN_LOG_FIELD_TEXT, .text = (value)})
#define PRN_LOG_INTEGER(name, value) \
    ((struct prn_log_field){         \
        .key = (name), .kind = PRN_LOG_FIELD_INTEGER, .integer = (int64_t)(value)})
#define PRN_LOG_NUMBER(name, value) \
    ((struct prn_log_field){.key = (name), .kind = PRN_LOG_FIELD_NUMBER, .number = (value)})

struct prn_log;

/* Lines go to `fd`, each with one write; it isn't closed. NULL: out of memory. */
struct prn_log *prn_log_new(int fd, enum prn_log_format format);
void prn_log_free(struct prn_log *log); /* NULL does nothing */

/* Nothing is held back, however often it comes. Before the first line. */
void prn_log_keep_all(struct prn_log *log);
/* Lines that couldn't be written, whole. */
uint64_t prn_log_lost(const struct prn_log *log);

/* "text" or "json". */
PRONY_MUST_CHECK int prn_log_format_parse(const char *text, enum prn_log_format *ret_format,
                                          struct prony_error *err);

/* `event` is a constant text. */
void prn_log_write(struct prn_log *log, enum prn_log_level level, const char *event,
                   const struct prn_log_field *fields, size_t n);

#define PRN_LOG(log, level, event, ...)                                                 \
    prn_log_write((log), (level), (event), (const struct prn_log_field[]){__VA_ARGS__}, \
                  sizeof((const struct prn_log_field[]){__VA_ARGS__}) /                 \
                      sizeof(struct prn_log_field))

#endif
