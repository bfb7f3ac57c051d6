#include "service/log.h"

#include "base/clock.h"
#include "base/lock.h"
#include "base/buffer.h"
#include "base/text.h"
#include "format/json.h"

#include <ctype.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LINE_MAX_BYTES (16 << 10)
#define VALUE_MAX_BYTES 1024

/* An event may come so often at once, then so many times a second. */
#define BURST 100
#define RATE 10

/* Events that are told apart when they repeat; those beyond share the last. */
#define EVENTS_MAX 128

#define TOKEN_PREFIX "prony_"
#define TOKEN_SECRET 43

struct event {
    const char *name;
    double allowance; /* lines that may be written now */
    double at_s;      /* when that was */
    uint64_t suppressed;
};

PRN_LOCK(events);

struct prn_log {
    pthread_mutex_t lock;
    int fd;
    enum prn_log_format format;
    bool keeps_all;
    atomic_uint_fast64_t lost;
    size_t n_events PRN_GUARDED(events);
    struct event events[EVENTS_MAX] PRN_GUARDED(events);
};

PRN_LOCK_FUNCTIONS(events, struct prn_log, lock)

static const char *const level_names[] = {"info", "warning", "error"};
static const char *const format_names[] = {"text", "json"};

struct prn_log *prn_log_new(int fd, enum prn_log_format format)
{
    struct prn_log *log = calloc(1, sizeof *log);
    if (!log)
        return NULL;
    pthread_mutex_init(&log->lock, NULL);
    log->fd = fd;
    log->format = format;
    return log;
}

void prn_log_free(struct prn_log *log)
{
    if (!log)
        return;
    pthread_mutex_destroy(&log->lock);
    free(log);
}

void prn_log_keep_all(struct prn_log *log)
{
    log->keeps_all = true;
}

uint64_t prn_log_lost(const struct prn_log *log)
{
    return atomic_load_explicit(&log->lost, memory_order_relaxed);
}

int prn_log_format_parse(const char *text, enum prn_log_format *ret_format, struct prony_error *err)
{
    for (size_t i = 0; i < PRN_ARRAY_SIZE(format_names); i++) {
        if (strcmp(text, format_names[i]) == 0) {
            *ret_format = (enum prn_log_format)i;
            return 0;
        }
    }
    return prn_fail(err, PRONY_EUSAGE, "unknown log format '%s': text or json", text);
}

static struct event *event_of_locked(struct prn_log *log, const char *name, double now_s)
    PRN_HOLDS(events)
{
    size_t i = 0;
    while (i < log->n_events && strcmp(log->events[i].name, name) != 0)
        i++;
    if (i == EVENTS_MAX)
        return &log->events[EVENTS_MAX - 1];
    if (i == log->n_events) {
        log->events[i] = (struct event){.name = name, .allowance = BURST, .at_s = now_s};
        log->n_events++;
    }
    return &log->events[i];
}

/* Whether the event may be written; `ret_suppressed` is how many before it weren't. */
static bool allow(struct prn_log *log, const char *name, uint64_t *ret_suppressed)
{
    double now_s = (double)prn_monotonic_ns() * 1e-9;
    events_lock(log);
    struct event *event = event_of_locked(log, name, now_s);
    event->allowance = fmin(event->allowance + (now_s - event->at_s) * RATE, BURST);
    event->at_s = now_s;
    bool allowed = event->allowance >= 1;
    if (allowed) {
        event->allowance -= 1;
        *ret_suppressed = event->suppressed;
        event->suppressed = 0;
    } else
        event->suppressed++;
    events_unlock(log);
    return allowed;
}

/* Copies a value, at most as much as is shown, with every token masked. */
static void add_masked(struct prn_buffer *out, const char *text)
{
    size_t length = strnlen(text, VALUE_MAX_BYTES);
    bool cut = text[length] != '\0';
    for (size_t i = 0; i < length;) {
        size_t secret = 0;
        if (strncmp(text + i, TOKEN_PREFIX, strlen(TOKEN_PREFIX)) == 0) {
            const char *after = text + i + strlen(TOKEN_PREFIX);
            while (isalnum((unsigned char)after[secret]) || after[secret] == '-' ||
                   after[secret] == '_')
                secret++;
        }
        /* Half a token is half a secret. */
        if (secret >= TOKEN_SECRET / 2) {
            prn_buffer_add(out, TOKEN_PREFIX "***");
            i += strlen(TOKEN_PREFIX) + secret;
        } else
            prn_buffer_add_char(out, text[i++]);
    }
    if (cut)
        prn_buffer_add(out, "...");
}

/* Text as it is where that is one word, else in quotes with escapes, as JSON has them. */
static void add_value(struct prn_buffer *out, enum prn_log_format format, const char *text)
{
    struct prn_buffer value = PRN_BUFFER_INIT(2 * VALUE_MAX_BYTES);
    add_masked(&value, text);
    const char *masked = prn_buffer_text(&value);
    bool plain = format == PRN_LOG_FORMAT_TEXT && *masked;
    for (const char *c = masked; plain && *c; c += prn_utf8_length(c))
        plain = prn_utf8_printable(c) && !strchr(" \"\\=", *c);
    if (plain)
        prn_buffer_add(out, masked);
    else
        prn_json_quote(out, masked);
    prn_buffer_release(&value);
}

static void add_key(struct prn_buffer *out, enum prn_log_format format, const char *key)
{
    prn_buffer_printf(out, format == PRN_LOG_FORMAT_JSON ? ",\"%s\":" : " %s=", key);
}

static void add_field(struct prn_buffer *out, enum prn_log_format format,
                      const struct prn_log_field *field)
{
    bool texts = field->kind == PRN_LOG_FIELD_TEXT;
    if (texts && !field->text)
        return;
    add_key(out, format, field->key);
    if (texts)
        add_value(out, format, field->text);
    else if (field->kind == PRN_LOG_FIELD_INTEGER)
        prn_buffer_printf(out, "%lld", (long long)field->integer);
    else if (isfinite(field->number))
        prn_buffer_printf(out, "%.6g", field->number);
    else
        prn_buffer_add(out, "null");
}

static void add_head(struct prn_buffer *out, enum prn_log_format format, enum prn_log_level level,
                     const char *event)
{
    int64_t now_ms = prn_wall_clock_ms();
    time_t now = now_ms / 1000;
    struct tm tm;
    char time[32] = "";
    if (gmtime_r(&now, &tm))
        strftime(time, sizeof time, "%Y-%m-%dT%H:%M:%S", &tm);
    prn_buffer_printf(out,
                      format == PRN_LOG_FORMAT_JSON
                          ? "{\"time\":\"%s.%03dZ\",\"level\":\"%s\",\"event\":\"%s\""
                          : "%s.%03dZ %s %s",
                      time, (int)(now_ms % 1000), level_names[level], event);
}

void prn_log_write(struct prn_log *log, enum prn_log_level level, const char *event,
                   const struct prn_log_field *fields, size_t n)
{
    uint64_t suppressed = 0;
    if (!log || (!log->keeps_all && !allow(log, event, &suppressed)))
        return;
    struct prn_buffer line = PRN_BUFFER_INIT(LINE_MAX_BYTES);
    add_head(&line, log->format, level, event);
    for (size_t i = 0; i < n; i++)
        add_field(&line, log->format, &fields[i]);
    if (suppressed > 0)
        add_field(&line, log->format, &PRN_LOG_INTEGER("suppressed", suppressed));
    prn_buffer_add(&line, log->format == PRN_LOG_FORMAT_JSON ? "}\n" : "\n");
    /* One write, so that lines of several threads and processes don't mix. */
    if (line.error || write(log->fd, line.data, line.len) != (ssize_t)line.len)
        atomic_fetch_add_explicit(&log->lost, 1, memory_order_relaxed);
    prn_buffer_release(&line);
}
