#include "report/status_json.h"

#include "format/json.h"

#include <string.h>

static void known(struct prn_json_writer *w, const char *key, int64_t value)
{
    if (value < 0)
        prn_json_null(w, key);
    else
        prn_json_integer(w, key, value);
}

static void write_texts(struct prn_json_writer *w, const char *key, const char *const *texts,
                        size_t n)
{
    prn_json_array(w, key);
    for (size_t i = 0; i < n; i++)
        prn_json_text(w, NULL, texts[i]);
    prn_json_end(w);
}

static void write_hardware(struct prn_json_writer *w, const struct prn_remote_hardware *h)
{
    prn_json_object(w, NULL);
    prn_json_text(w, "name", h->name);
    prn_json_text(w, "processor", h->processor);
    prn_json_number(w, "usd_per_hour", h->usd_per_hour);
    known(w, "hosts", h->hosts);
    known(w, "free", h->free);
    known(w, "waiting", h->waiting);
    prn_json_bool(w, "paused", h->paused);
    prn_json_text(w, "note", h->note);
    prn_json_end(w);
}

static void write_session(struct prn_json_writer *w, const struct prn_remote_session *s,
                          const struct prn_status_viewer *viewer)
{
    prn_json_object(w, NULL);
    prn_json_text(w, "id", s->id);
    prn_json_text(w, "user", s->user);
    if (viewer)
        prn_json_bool(w, "yours", s->user && strcmp(s->user, viewer->user) == 0);
    prn_json_text(w, "state", s->state);
    write_texts(w, "backends", s->backends, s->n_backends);
    known(w, "age_ms", s->age_ms);
    known(w, "waited_ms", s->waited_ms);
    known(w, "idle_ms", s->idle_ms);
    known(w, "place", s->place);
    known(w, "models", s->models);
    known(w, "runs", s->runs);
    prn_json_text(w, "note", s->note);
    prn_json_end(w);
}

static void write_worker(struct prn_json_writer *w, const struct prn_remote_worker *k)
{
    prn_json_object(w, NULL);
    prn_json_text(w, "id", k->id);
    prn_json_text(w, "name", k->name);
    prn_json_text(w, "hardware", k->hardware);
    prn_json_text(w, "state", k->state);
    write_texts(w, "software", k->software, k->n_software);
    prn_json_text(w, "sandbox", k->sandbox);
    known(w, "connected_ms", k->connected_ms);
    prn_json_text(w, "session", k->session);
    prn_json_text(w, "user", k->user);
    known(w, "held_ms", k->held_ms);
    prn_json_text(w, "note", k->note);
    prn_json_end(w);
}

static void write_viewer(struct prn_json_writer *w, const struct prn_status_viewer *viewer)
{
    prn_json_integer(w, "time_ms", viewer->time_ms);
    prn_json_object(w, "you");
    prn_json_text(w, "user", viewer->user);
    prn_json_bool(w, "admin", viewer->admin);
    prn_json_text(w, "signed_in_by", viewer->signed_in_by);
    prn_json_end(w);
}

static void write_cache(struct prn_json_writer *w, const struct prn_remote_status *s)
{
    if (!s->has_cache) {
        prn_json_null(w, "cache");
        return;
    }
    prn_json_object(w, "cache");
    known(w, "blobs", s->blobs);
    known(w, "bytes", s->blob_bytes);
    known(w, "limit_bytes", s->blob_limit_bytes);
    known(w, "hits", s->hits);
    known(w, "misses", s->misses);
    prn_json_end(w);
}

void prn_status_write_json(const struct prn_remote_status *status,
                           const struct prn_status_viewer *viewer, struct prn_buffer *out)
{
    const struct prn_remote_status *s = status;
    struct prn_json_writer w = prn_json_writer_init(out);
    prn_json_object(&w, NULL);
    prn_json_text(&w, "schema", "prony.status/1");
    prn_json_text(&w, "version", s->version);
    known(&w, "uptime_ms", s->uptime_ms);
    prn_json_bool(&w, "draining", s->draining);
    prn_json_text(&w, "notice", s->notice);
    if (viewer)
        write_viewer(&w, viewer);
    prn_json_array(&w, "hardware");
    for (size_t i = 0; i < s->n_hardware; i++)
        write_hardware(&w, &s->hardware[i]);
    prn_json_end(&w);
    prn_json_array(&w, "sessions");
    for (size_t i = 0; i < s->n_sessions; i++)
        write_session(&w, &s->sessions[i], viewer);
    prn_json_end(&w);
    if (viewer)
        prn_json_integer(&w, "sessions_left_out", (int64_t)viewer->sessions_left_out);
    known(&w, "sessions_others", s->sessions_others);
    prn_json_object(&w, "limits");
    known(&w, "session_memory_bytes", s->session_memory_bytes);
    prn_json_number(&w, "run_timeout_s", s->run_timeout_s);
    prn_json_end(&w);
    prn_json_array(&w, "workers");
    for (size_t i = 0; i < s->n_workers; i++)
        write_worker(&w, &s->workers[i]);
    prn_json_end(&w);
    if (viewer)
        prn_json_integer(&w, "workers_left_out", (int64_t)viewer->workers_left_out);
    write_cache(&w, s);
    prn_json_end(&w);
}
