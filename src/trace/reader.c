/*
 * The frame around the events: an array, or an object whose `traceEvents` is one. Each step takes
 * one whole token, or nothing: when the window ends too early, more is read and the step is tried
 * again, so that it doesn't matter where the stream was cut into pieces.
 */
#include "trace/reader.h"

#include "base/text.h"
#include "trace/lane.h"
#include "trace/repair.h"
#include "trace/window.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW_BYTES ((size_t)256 << 10)

/* What recovery may read twice whatever the trace's length, so that time stays in proportion to it
 * when brackets are left open on purpose. */
#define REREAD_BYTES_FREE ((uint64_t)64 << 20)

/* With two threads, so much that waiting for each other is rare. */
#define WIDE_WINDOW_BYTES ((size_t)4 << 20)

enum state {
    STATE_BEGIN,
    STATE_FIRST_MEMBER, /* of the object, behind '{' */
    STATE_MEMBER,       /* behind ',' */
    STATE_AFTER_MEMBER,
    STATE_FIRST_EVENT, /* behind '[' */
    STATE_EVENT,       /* behind ',' */
    STATE_AFTER_EVENT,
    STATE_AFTER_TRACE,
    STATE_END,
};

struct prn_trace_reader {
    struct prn_window window;
    struct prn_event_parser parser;
    enum state state;
    bool in_object;
    bool seen_events; /* the array has begun */
    bool recover;
    struct prn_trace_reader_counts counts;
    struct prn_trace_reader_counts before; /* of the streams before this one */
    uint64_t reread_bytes;                 /* of events that were lost */
    struct prony_error first_fault;        /* code 0: none */
    struct prony_error broken;             /* why the stream ended too early; code 0: it didn't */
    struct prn_buffer repaired;            /* the last event that was */
    struct prn_lane *lane;                 /* NULL: one thread */
    struct prn_lane_batch batch;           /* what it parsed, as far as it isn't handed out */
    double share;                          /* of a window that the reader parses itself */
    bool is_kineto;                        /* the object has what PyTorch's profiler writes */
    char what[160];                        /* what it is that isn't a trace; "": not known */
};

int prn_trace_reader_new(struct prn_source *source, const struct prn_trace_reader_options *options,
                         struct prn_trace_reader **ret_reader, struct prony_error *err)
{
    struct prn_trace_reader *r = calloc(1, sizeof *r);
    if (!r)
        return prn_fail_memory(err);
    size_t bytes = options->window_bytes  ? options->window_bytes
                   : options->two_threads ? WIDE_WINDOW_BYTES
                                          : WINDOW_BYTES;
    int code = prn_window_init(&r->window, source, bytes, PRN_TRACE_EVENT_MAX, err);
    prn_event_parser_init(&r->parser, options, options->symbols_max);
    r->repaired = PRN_BUFFER_INIT(8 * PRN_REPAIR_BYTES_MAX);
    r->recover = options->recover;
    if (code == 0 && options->two_threads) {
        r->window.wanted = bytes / 2;
        r->share = 0.5;
        code = prn_window_add_spare(&r->window, err);
        if (code == 0)
            code = prn_lane_new(options, &r->lane, err);
    }
    if (code < 0)
        prn_trace_reader_free(r);
    else
        *ret_reader = r;
    return code;
}

void prn_trace_reader_free(struct prn_trace_reader *r)
{
    if (!r)
        return;
    prn_lane_free(r->lane);
    prn_window_release(&r->window);
    prn_event_parser_release(&r->parser);
    prn_buffer_release(&r->repaired);
    free(r);
}

void prn_trace_reader_continue(struct prn_trace_reader *r, struct prn_source *source)
{
    if (r->lane)
        prn_lane_wait(r->lane);
    r->batch = (struct prn_lane_batch){0};
    prn_window_restart(&r->window, source);
    r->parser.anchor = NULL;
    r->state = STATE_BEGIN;
    r->in_object = r->seen_events = r->is_kineto = false;
    r->before = r->counts;
    r->reread_bytes = 0;
    r->broken = (struct prony_error){0};
    r->what[0] = '\0';
}

const struct prn_trace_reader_counts *prn_trace_reader_counts(const struct prn_trace_reader *r)
{
    return &r->counts;
}

bool prn_trace_reader_is_kineto(const struct prn_trace_reader *r)
{
    return r->is_kineto;
}

const char *prn_trace_reader_first_fault(const struct prn_trace_reader *r)
{
    return r->first_fault.code ? r->first_fault.text : NULL;
}

/* ---- Steps ---- */

static struct prn_scan scan_here(const struct prn_trace_reader *r)
{
    return (struct prn_scan){.at = r->window.data + r->window.at,
                             .end = r->window.data + r->window.len};
}

/* So many bytes tell what a file is. */
#define KIND_BYTES 264

/* Says what the bytes are instead. */
static bool fail_kind(struct prn_trace_reader *r, struct prn_scan *s)
{
    size_t len = (size_t)(s->end - s->at);
    if (len < KIND_BYTES && !r->window.ended) {
        s->at = s->end;
        return false;
    }
    const char *kind = prn_file_kind(s->at, len);
    /* The first field of a model is its IR version, a small number. */
    if (len > 2 && s->at[0] == 8 && s->at[1] > 0 && s->at[1] < 32)
        kind = "an ONNX model";
    if (!kind || strcmp(kind, "text") == 0)
        return prn_scan_fail(s, "not a trace: it is neither a JSON array nor an object");
    snprintf(r->what, sizeof r->what, "not a trace: it is %s", kind);
    return prn_scan_fail(s, r->what);
}

/* What a member of the object that isn't the events tells about the file. */
static void note_member(struct prn_trace_reader *r, const struct prn_scan_string *key,
                        const char *value, size_t len)
{
    static const char report[] = "\"prony.";
    if (key->len == 6 && memcmp(key->text, "schema", 6) == 0 && len > sizeof report &&
        memcmp(value, report, sizeof report - 1) == 0)
        snprintf(r->what, sizeof r->what, "not a trace: it is saved by prony (%.*s)",
                 (int)(len < 60 ? len : 60) - 2, value + 1);
    r->is_kineto = r->is_kineto || (key->len == 16 && !memcmp(key->text, "deviceProperties", 16)) ||
                   (key->len == 13 && !memcmp(key->text, "schemaVersion", 13));
}

static bool fail_no_events(const struct prn_trace_reader *r, struct prn_scan *s)
{
    return prn_scan_fail(s, r->what[0] ? r->what : "not a trace: it has no \"traceEvents\"");
}

static bool begin_trace(struct prn_trace_reader *r, struct prn_scan *s)
{
    if ((unsigned char)s->at[0] == 0xef) { /* a byte order mark, as some editors write */
        if (s->end - s->at < 3) {
            s->at = s->end;
            return false;
        }
        if (memcmp(s->at, "\xef\xbb\xbf", 3) == 0)
            s->at += 3;
    }
    prn_scan_space(s);
    if (*s->at != '[' && *s->at != '{')
        return fail_kind(r, s);
    r->in_object = *s->at++ == '{';
    r->seen_events = !r->in_object;
    r->state = r->in_object ? STATE_FIRST_MEMBER : STATE_FIRST_EVENT;
    return true;
}

static bool is_trace_events(const struct prn_scan_string *key)
{
    static const char name[] = "traceEvents";
    char text[6 * sizeof name]; /* each character may be an escape of six */
    return key->len < sizeof text && prn_scan_decode(key, text) == sizeof name - 1 &&
           memcmp(text, name, sizeof name - 1) == 0;
}

/* A member of the object around the events; only `traceEvents` matters. */
static bool take_member(struct prn_trace_reader *r, struct prn_scan *s)
{
    struct prn_scan_string key;
    prn_scan_space(s);
    if (*s->at == '}' && r->state == STATE_FIRST_MEMBER)
        return fail_no_events(r, s);
    const char *begin = s->at;
    if (!prn_scan_key(s, &key))
        return false;
    if (!is_trace_events(&key)) {
        r->state = STATE_AFTER_MEMBER;
        const char *value = s->at;
        if (!prn_scan_value(s) || s->at == s->end)
            return false;
        note_member(r, &key, value, (size_t)(s->at - value));
        return true;
    }
    if (r->seen_events) {
        s->at = begin;
        return prn_scan_fail(s, "a duplicate key");
    }
    if (*s->at != '[')
        return prn_scan_fail(s, "\"traceEvents\" is not an array");
    s->at++;
    r->seen_events = true;
    r->state = STATE_FIRST_EVENT;
    return true;
}

static bool after_member(struct prn_trace_reader *r, struct prn_scan *s)
{
    prn_scan_space(s);
    if (*s->at == '}' && !r->seen_events)
        return fail_no_events(r, s);
    if (*s->at != ',' && *s->at != '}')
        return prn_scan_fail(s, "expected ',' or '}' here");
    r->state = *s->at++ == ',' ? STATE_MEMBER : STATE_AFTER_TRACE;
    return true;
}

static void end_events(struct prn_trace_reader *r)
{
    r->state = r->in_object ? STATE_AFTER_MEMBER : STATE_AFTER_TRACE;
}

static bool after_event(struct prn_trace_reader *r, struct prn_scan *s)
{
    prn_scan_space(s);
    if (*s->at != ',' && *s->at != ']')
        return prn_scan_fail(s, "expected ',' or ']' here");
    if (*s->at++ == ',')
        r->state = STATE_EVENT;
    else
        end_events(r);
    return true;
}

/* The event at `begin`, which was found broken at `s->at`. */
static bool repair_event(struct prn_trace_reader *r, const char *begin, struct prn_scan *s,
                         struct prn_trace_event *ret_event)
{
    size_t used;
    if (!s->fault || r->parser.error)
        return false;
    enum prn_repair found =
        prn_repair_event(begin, (size_t)(s->end - begin), r->window.ended, &r->repaired, &used);
    if (found == PRN_REPAIR_MORE) {
        s->at = s->end;
        s->fault = NULL;
        return false;
    }
    struct prn_scan whole = {.at = r->repaired.data, .end = r->repaired.data + r->repaired.len};
    if (found != PRN_REPAIR_DONE || !prn_event_parse(&r->parser, &whole, ret_event) ||
        whole.at != whole.end)
        return false;
    s->at = begin + used;
    s->fault = NULL;
    r->counts.repaired++;
    return true;
}

static bool take_event(struct prn_trace_reader *r, struct prn_scan *s,
                       struct prn_trace_event *ret_event, bool *ret_event_there)
{
    prn_scan_space(s);
    if (*s->at == ']' && r->state == STATE_FIRST_EVENT) {
        s->at++;
        end_events(r);
        return true;
    }
    const char *begin = s->at;
    if (!prn_event_parse(&r->parser, s, ret_event) && !repair_event(r, begin, s, ret_event))
        return false;
    r->state = STATE_AFTER_EVENT;
    *ret_event_there = true;
    return true;
}

static bool after_trace(struct prn_scan *s)
{
    prn_scan_space(s);
    return s->at == s->end || prn_scan_fail(s, "there is text after the end of the trace");
}

/* One step. The state is put back when it fails, so that it can be tried again. */
static bool step(struct prn_trace_reader *r, struct prn_scan *s, struct prn_trace_event *ret_event,
                 bool *ret_event_there)
{
    enum state before = r->state;
    bool ok;
    switch (r->state) {
    case STATE_BEGIN:
        ok = begin_trace(r, s);
        break;
    case STATE_FIRST_MEMBER:
    case STATE_MEMBER:
        ok = take_member(r, s);
        break;
    case STATE_AFTER_MEMBER:
        ok = after_member(r, s);
        break;
    case STATE_AFTER_EVENT:
        ok = after_event(r, s);
        break;
    case STATE_AFTER_TRACE:
        ok = after_trace(s);
        break;
    default:
        ok = take_event(r, s, ret_event, ret_event_there);
    }
    if (!ok)
        r->state = before;
    return ok;
}

/* ---- The second thread ---- */

/* How much has to be there behind a '{' to tell whether an event begins with it. */
#define EVENT_HEAD_BYTES 64

/* Whether an event may begin at `p`, which is a '{': behind it stands a key that events have. Looks
 * at EVENT_HEAD_BYTES and no further, so that it doesn't matter where the window ends. */
static bool looks_like_event(const char *p)
{
    static const char *const keys[] = {"\"cat\"", "\"pid\"", "\"tid\"",  "\"dur\"",
                                       "\"ts\"",  "\"ph\"",  "\"name\"", "\"args\""};
    struct prn_scan s = {.at = p + 1};
    prn_scan_space(&s);
    for (size_t i = 0; i < PRN_ARRAY_SIZE(keys); i++)
        if ((size_t)(s.at - p) + strlen(keys[i]) <= EVENT_HEAD_BYTES &&
            strncmp(s.at, keys[i], strlen(keys[i])) == 0)
            return true;
    return false;
}

/* A likely beginning of an event behind `from`: '{' after "},", with a key of events inside. */
static const char *guess_event(const char *from, const char *end)
{
    const char *p = from;
    while ((p = memchr(p, '{', (size_t)(end - p))) != NULL) {
        const char *before = p - 1;
        while (before > from && (*before == ' ' || *before == '\n' || *before == '\r'))
            before--;
        if (*before == ',' && before > from && before[-1] == '}' && looks_like_event(p))
            return p;
        p++;
    }
    return NULL;
}

/* Gives the lane the last part of a window that was filled. */
static void share_window(struct prn_trace_reader *r)
{
    const char *at = r->window.data + r->window.at;
    const char *end = r->window.data + r->window.len;
    if (!r->lane || !r->seen_events || r->window.ended || (size_t)(end - at) < r->window.wanted)
        return;
    const char *guess = guess_event(at + (size_t)((double)(end - at) * r->share), end);
    prn_lane_start(r->lane, guess ? guess : end, &r->window);
}

static int fill_window(struct prn_trace_reader *r, struct prony_error *err)
{
    if (r->lane)
        prn_lane_wait(r->lane);
    int code = prn_window_more(&r->window, err);
    if (code == 0)
        share_window(r);
    return code;
}

/* Takes over what the lane parsed, if it began where the reader is now. */
static void take_batch(struct prn_trace_reader *r)
{
    struct prn_scan s = scan_here(r);
    prn_scan_space(&s);
    if (s.at != prn_lane_begin(r->lane))
        return;
    bool waited;
    prn_lane_finish(r->lane, &r->batch, &waited);
    if (r->batch.n == 0)
        return;
    /* Whoever had to wait gets more of the next window. */
    const double least = 0.2;
    const double most = 0.7;
    r->share += waited ? 0.02 : -0.02;
    r->share = r->share < least ? least : r->share > most ? most : r->share;
    r->window.at = (size_t)(r->batch.stop - r->window.data);
    r->state = STATE_AFTER_EVENT;
}

/* ---- Faults ---- */

static int fail_at(const struct prn_trace_reader *r, const char *at, const char *fault, int code,
                   struct prony_error *err)
{
    size_t offset = (size_t)(at - r->window.data);
    uint64_t events = r->counts.events - r->before.events;
    return prn_fail(err, code,
                    "'%s': byte %" PRIu64 ", line %" PRIu64 ": %s; %" PRIu64 " event%s before it%s",
                    prn_source_name(r->window.source), r->window.base + offset,
                    prn_window_line(&r->window, offset), fault, events, events == 1 ? "" : "s",
                    r->recover || !r->seen_events ? "" : " (--recover skips broken events)");
}

/* What to say of a fault. In a stream that is broken further on, that is likely its reason. */
static int tell(const struct prn_trace_reader *r, const char *at, const char *fault, int code,
                struct prony_error *err)
{
    if (!r->broken.code)
        return fail_at(r, at, fault, code, err);
    if (err)
        *err = r->broken;
    return r->broken.code;
}

/* The first fault that is skipped is kept. */
static void note(struct prn_trace_reader *r, const char *at, const char *fault, int code)
{
    if (!r->first_fault.code)
        tell(r, at, fault, code, &r->first_fault);
}

/* Reads on. A stream that fails ends there, and tells why when all that came before is read.
 * PRONY_ELIMIT, without a message, when what is in the window fills it. */
static int read_on(struct prn_trace_reader *r)
{
    int code = fill_window(r, &r->broken);
    if (code == PRONY_ELIMIT && r->window.len >= r->window.limit)
        return code;
    r->window.ended |= code < 0;
    return 0;
}

/* Moves the window on to the next place where an event may begin; at the stream's end to that. */
static int skip_to_event(struct prn_trace_reader *r)
{
    r->parser.anchor = NULL;
    for (;;) {
        const char *data = r->window.data;
        const char *end = data + r->window.len;
        for (const char *p = data + r->window.at; p < end; p++) {
            p = memchr(p, '{', (size_t)(end - p));
            if (!p)
                break;
            r->window.at = (size_t)(p - data);
            /* Too close to the end of the window to tell. */
            if (end - p < EVENT_HEAD_BYTES && !r->window.ended)
                goto more;
            if (looks_like_event(p)) {
                r->state = STATE_EVENT;
                return 0;
            }
        }
        r->window.at = r->window.len;
        if (r->window.ended) {
            r->state = STATE_AFTER_TRACE;
            return 0;
        }
    more:;
        int code = read_on(r);
        if (code < 0)
            return code;
    }
}

/* Goes on behind the beginning of the event that the window is at, and that was read up to
 * `read_to`: what it hid is read again. Where that happened too often, it goes on there instead. */
static int lose_event(struct prn_trace_reader *r, const char *read_to)
{
    size_t offset = (size_t)(read_to - r->window.data);
    r->reread_bytes += offset > r->window.at ? offset - r->window.at : 0;
    bool too_often = r->reread_bytes > REREAD_BYTES_FREE + 4 * (r->window.base + r->window.at);
    r->counts.lost++;
    r->window.at = too_often && offset > r->window.at ? offset : r->window.at + 1;
    return skip_to_event(r);
}

/* Whatever is wrong there, the events are read. */
static bool is_behind_events(const struct prn_trace_reader *r)
{
    return r->state == STATE_AFTER_TRACE || r->state == STATE_AFTER_MEMBER ||
           r->state == STATE_MEMBER;
}

/* An event, or what is between events, is broken at `at`. */
static int recover(struct prn_trace_reader *r, const char *at, const char *fault)
{
    note(r, at, fault, PRONY_EFORMAT);
    if (is_behind_events(r)) {
        r->state = STATE_END;
        return 0;
    }
    struct prn_scan s = scan_here(r);
    prn_scan_space(&s);
    r->window.at = (size_t)(s.at - r->window.data);
    /* A comma too few or too many breaks no event. */
    if (s.at == at && (*at == '{' || *at == ']' || *at == ','))
        return skip_to_event(r);
    return lose_event(r, at);
}

/* What begins here fills the window, and doesn't end in it. */
static int oversized(struct prn_trace_reader *r, struct prony_error *err)
{
    const char *fault =
        r->seen_events ? "an event of over 16 MiB" : "a value of over 16 MiB before any event";
    struct prn_scan s = scan_here(r);
    prn_scan_space(&s);
    if (!r->recover || !r->seen_events)
        return fail_at(r, s.at, fault, PRONY_ELIMIT, err);
    note(r, s.at, fault, PRONY_ELIMIT);
    if (is_behind_events(r)) {
        r->state = STATE_END;
        return 0;
    }
    r->window.at = (size_t)(s.at - r->window.data) - (s.at == s.end);
    return lose_event(r, s.end);
}

/* The window ends before the token does, and so does the stream. */
static int cut_off(struct prn_trace_reader *r, const char *end, struct prony_error *err)
{
    if (r->state == STATE_AFTER_TRACE && !r->broken.code) {
        r->state = STATE_END;
        return 0;
    }
    bool in_event = r->state == STATE_EVENT || r->state == STATE_FIRST_EVENT;
    const char *fault = r->state == STATE_BEGIN ? "the file is empty"
                        : in_event              ? "the trace is cut off inside an event"
                                                : "the trace is cut off";
    /* Damaged compressed data can be done without; a disk that fails is another matter. */
    bool bearable = !r->broken.code || r->broken.code == PRONY_EFORMAT;
    if (!r->recover || !r->seen_events || !bearable)
        return tell(r, end, fault, PRONY_EFORMAT, err);
    note(r, end, fault, PRONY_EFORMAT);
    struct prn_scan s = scan_here(r);
    prn_scan_space(&s);
    r->window.at = (size_t)(s.at - r->window.data);
    /* A bracket that was never closed may have hidden events. */
    if (in_event && s.at < s.end)
        return lose_event(r, s.end);
    r->state = STATE_END; /* nothing is lost where an event hadn't begun */
    return 0;
}

static int more(struct prn_trace_reader *r, struct prony_error *err)
{
    if (r->window.ended)
        return cut_off(r, r->window.data + r->window.len, err);
    int code = read_on(r);
    return code == PRONY_ELIMIT ? oversized(r, err) : code;
}

static int parser_failed(const struct prn_trace_reader *r, struct prony_error *err)
{
    if (r->parser.error != PRONY_ELIMIT)
        return prn_fail_memory(err);
    size_t symbols_max = r->parser.symbols_max;
    return prn_fail(
        err, PRONY_ELIMIT,
        "'%s': over %zu distinct %s, or %zu MiB of texts; --max-groups raises the limit",
        prn_source_name(r->window.source), symbols_max, r->parser.over,
        PRN_TRACE_TEXTS_MAX(symbols_max) >> 20);
}

static int fault(struct prn_trace_reader *r, const struct prn_scan *s, struct prony_error *err)
{
    if (r->parser.error)
        return parser_failed(r, err);
    if (!s->fault)
        return more(r, err);
    if (r->recover && r->seen_events)
        return recover(r, s->at, s->fault);
    return tell(r, s->at, s->fault, PRONY_EFORMAT, err);
}

static int hand_out(struct prn_trace_reader *r, const struct prn_trace_event *event)
{
    r->counts.events++;
    r->counts.passed_over += event->category == PRN_TRACE_NONE;
    return 1;
}

static int next_of_batch(struct prn_trace_reader *r, struct prn_trace_event *ret_event,
                         struct prony_error *err)
{
    struct prn_trace_event *event = r->batch.events++;
    r->batch.n--;
    if (prn_lane_adopt(r->lane, &r->parser, event) < 0)
        return parser_failed(r, err);
    *ret_event = *event;
    return hand_out(r, event);
}

int prn_trace_reader_next(struct prn_trace_reader *r, struct prn_trace_event *ret_event,
                          struct prony_error *err)
{
    if (r->batch.n > 0)
        return next_of_batch(r, ret_event, err);
    while (r->state != STATE_END) {
        if (r->lane && r->state == STATE_EVENT && prn_lane_begin(r->lane)) {
            take_batch(r);
            if (r->batch.n > 0)
                return next_of_batch(r, ret_event, err);
        }
        struct prn_scan s = scan_here(r);
        bool there = false;
        if (!step(r, &s, ret_event, &there)) {
            int code = fault(r, &s, err);
            if (code < 0)
                return code;
            continue;
        }
        r->window.at = (size_t)(s.at - r->window.data);
        if (r->state == STATE_AFTER_TRACE && s.at == s.end) {
            int code = more(r, err);
            if (code < 0)
                return code;
        }
        if (there)
            return hand_out(r, ret_event);
    }
    r->counts.bytes = r->before.bytes + r->window.base + r->window.len;
    return 0;
}
