#include "trace/lane.h"

#include <pthread.h>
#include <stdlib.h>

#define EVENTS_MAX 16384
#define SYMBOLS_MAX 16384

enum job { JOB_NONE, JOB_PARSE, JOB_READ, JOB_QUIT };

/* The reader's symbols for the lane's, by id; NULL: not looked up yet. */
struct twins {
    const struct prn_symbol **ops, **providers, **shapes, **dimensions;
    struct prn_trace_name **names;
};

struct prn_lane {
    struct prn_event_parser parser; /* of the lane's own, so that no text is shared */
    struct twins twins;
    struct prn_trace_event *events;
    const char *begin;
    struct prn_window *window;
    struct prn_lane_batch batch;
    pthread_t thread;
    bool has_thread;
    pthread_mutex_t mutex; /* guards `job`; the rest belongs to whoever's turn it is */
    pthread_cond_t changed;
    enum job job;
};

/* From the end of one event to the beginning of the next; NULL: there is none here. */
static const char *next_event(const char *at, const char *end)
{
    struct prn_scan s = {.at = at, .end = end};
    prn_scan_space(&s);
    if (*s.at != ',')
        return NULL;
    s.at++;
    prn_scan_space(&s);
    return *s.at == '{' ? s.at : NULL;
}

static void parse(struct prn_lane *l)
{
    struct prn_lane_batch batch = {.events = l->events, .stop = l->begin};
    const char *end = l->window->data + l->window->len;
    const char *at = l->begin < end ? l->begin : NULL;
    l->parser.anchor = NULL;
    while (at && batch.n < EVENTS_MAX) {
        struct prn_scan s = {.at = at, .end = end};
        struct prn_trace_event *event = &l->events[batch.n];
        /* A name that isn't remembered is gone with the next event. */
        if (!prn_event_parse(&l->parser, &s, event) || (event->name && event->name->transient))
            break;
        batch.n++;
        batch.stop = s.at;
        at = next_event(s.at, end);
    }
    l->parser.error = 0;
    l->batch = batch;
}

/* Goes on to the next step, unless the lane is to end. */
static void change_job(struct prn_lane *l, enum job job)
{
    pthread_mutex_lock(&l->mutex);
    l->job = l->job == JOB_QUIT ? JOB_QUIT : job;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->mutex);
}

static enum job wait_for_job(struct prn_lane *l)
{
    pthread_mutex_lock(&l->mutex);
    while (l->job == JOB_NONE)
        pthread_cond_wait(&l->changed, &l->mutex);
    enum job job = l->job;
    pthread_mutex_unlock(&l->mutex);
    return job;
}

static void *lane_work(void *context)
{
    struct prn_lane *l = context;
    while (wait_for_job(l) != JOB_QUIT) {
        parse(l);
        change_job(l, JOB_READ);
        prn_window_read_ahead(l->window);
        change_job(l, JOB_NONE);
    }
    return NULL;
}

static int start_thread(struct prn_lane *l)
{
    int code = pthread_create(&l->thread, NULL, lane_work, l);
    l->has_thread = code == 0;
    return code;
}

int prn_lane_new(const struct prn_trace_reader_options *options, struct prn_lane **ret_lane,
                 struct prony_error *err)
{
    struct prn_lane *l = calloc(1, sizeof *l);
    if (!l)
        return prn_fail_memory(err);
    size_t n = options->symbols_max < SYMBOLS_MAX ? options->symbols_max : SYMBOLS_MAX;
    prn_event_parser_init(&l->parser, options, n);
    pthread_mutex_init(&l->mutex, NULL);
    pthread_cond_init(&l->changed, NULL);
    l->events = calloc(EVENTS_MAX, sizeof *l->events);
    l->twins.ops = calloc(n, sizeof(struct prn_symbol *));
    l->twins.providers = calloc(n, sizeof(struct prn_symbol *));
    l->twins.shapes = calloc(n, sizeof(struct prn_symbol *));
    l->twins.dimensions = calloc(n, sizeof(struct prn_symbol *));
    l->twins.names = calloc(n, sizeof(struct prn_trace_name *));
    if (!l->events || !l->twins.ops || !l->twins.providers || !l->twins.shapes ||
        !l->twins.dimensions || !l->twins.names || start_thread(l) != 0) {
        prn_lane_free(l);
        return prn_fail_memory(err);
    }
    *ret_lane = l;
    return 0;
}

void prn_lane_free(struct prn_lane *l)
{
    if (!l)
        return;
    if (l->has_thread) {
        change_job(l, JOB_QUIT);
        pthread_join(l->thread, NULL);
    }
    pthread_cond_destroy(&l->changed);
    pthread_mutex_destroy(&l->mutex);
    prn_event_parser_release(&l->parser);
    free(l->twins.ops);
    free(l->twins.providers);
    free(l->twins.shapes);
    free(l->twins.dimensions);
    free(l->twins.names);
    free(l->events);
    free(l);
}

void prn_lane_start(struct prn_lane *l, const char *begin, struct prn_window *window)
{
    l->begin = begin;
    l->window = window;
    change_job(l, JOB_PARSE);
}

const char *prn_lane_begin(const struct prn_lane *l)
{
    return l->begin;
}

void prn_lane_finish(struct prn_lane *l, struct prn_lane_batch *ret_batch, bool *ret_waited)
{
    pthread_mutex_lock(&l->mutex);
    *ret_waited = l->job == JOB_PARSE;
    while (l->job == JOB_PARSE)
        pthread_cond_wait(&l->changed, &l->mutex);
    pthread_mutex_unlock(&l->mutex);
    l->begin = NULL;
    *ret_batch = l->batch;
}

void prn_lane_wait(struct prn_lane *l)
{
    pthread_mutex_lock(&l->mutex);
    while (l->job != JOB_NONE)
        pthread_cond_wait(&l->changed, &l->mutex);
    pthread_mutex_unlock(&l->mutex);
    l->begin = NULL;
}

/* The reader's symbol for one of the lane's; `kind` is what there are too many of if it fails. */
static bool adopt(struct prn_event_parser *parser, struct prn_symbols *table, const char *kind,
                  const struct prn_symbol **twins, const struct prn_symbol **symbol)
{
    if (!*symbol)
        return true;
    const struct prn_symbol **twin = &twins[(*symbol)->id];
    if (!*twin) {
        parser->error = prn_symbols_get(table, (*symbol)->text, (*symbol)->len, twin);
        parser->over = kind;
        if (parser->error < 0)
            return false;
    }
    *symbol = *twin;
    return true;
}

int prn_lane_adopt(struct prn_lane *l, struct prn_event_parser *parser,
                   struct prn_trace_event *event)
{
    if (!event->name)
        return 0;
    struct prn_trace_name **name = &l->twins.names[event->name->symbol.id];
    if (!*name) {
        struct prn_trace_name *own;
        int code = prn_event_name(parser, event->name->symbol.text, event->name->symbol.len, &own);
        if (code < 0)
            return code;
        /* One that the reader doesn't remember may not be kept here either. */
        if (own->transient)
            event->name = own;
        else
            *name = own;
    }
    if (*name)
        event->name = *name;
    if (adopt(parser, &parser->ops, PRN_EVENT_OPS, l->twins.ops, &event->op) &&
        adopt(parser, &parser->providers, PRN_EVENT_PROVIDERS, l->twins.providers,
              &event->provider) &&
        adopt(parser, &parser->shapes, PRN_EVENT_SHAPES, l->twins.shapes, &event->shape) &&
        adopt(parser, &parser->dimensions, PRN_EVENT_DIMENSIONS, l->twins.dimensions,
              &event->dimensions))
        return 0;
    return parser->error;
}
