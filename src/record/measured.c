/* A run by itself, whose times and outputs the caller gets from every backend. */
#include "record/session.h"

#include <stdlib.h>
#include <string.h>

#define ARENA_BYTES 4096

struct measured_backend {
    const char *failure; /* NULL: it succeeded */
    size_t n;
    int64_t *times;
    struct prony_outputs *outputs; /* NULL: not wanted */
};

struct prony_measured {
    struct prn_arena arena;
    size_t n;
    struct measured_backend *on;
};

static int keep_failure(struct prony_measured *m, size_t index, const char *text,
                        struct prony_error *err)
{
    m->on[index].failure = prn_arena_strdup(&m->arena, text);
    return m->on[index].failure ? 0 : prn_fail_memory(err);
}

/* Outputs that can't be had are a failure of their backend. */
static int keep_backend(struct prony_graph *graph, size_t index, bool outputs,
                        struct prony_measured *m, struct prony_error *err)
{
    const struct prn_graph_outcome *from = &graph->outcomes[index];
    struct measured_backend *to = &m->on[index];
    struct prony_error failure;
    if (from->failure)
        return keep_failure(m, index, from->failure, err);
    if (!graph->on[index].loaded)
        return keep_failure(m, index, graph->local_reason ? graph->local_reason : "not loaded",
                            err);
    to->times = PRN_ARENA_ARRAY(&m->arena, from->n_samples + 1, int64_t);
    if (!to->times)
        return prn_fail_memory(err);
    memcpy(to->times, from->samples_ns, from->n_samples * sizeof *to->times);
    to->n = from->n_samples;
    if (!outputs || prn_graph_outputs(graph, index, &to->outputs, &failure) == 0)
        return 0;
    return keep_failure(m, index, failure.text, err);
}

static int keep(struct prony_graph *graph, bool outputs, struct prony_measured **ret_measured,
                struct prony_error *err)
{
    struct prony_measured *m = calloc(1, sizeof *m);
    if (!m)
        return prn_fail_memory(err);
    m->arena = PRN_ARENA_INIT(ARENA_BYTES);
    m->n = graph->host->n_backends;
    m->on = PRN_ARENA_ARRAY(&m->arena, m->n, struct measured_backend);
    int code = m->on ? 0 : prn_fail_memory(err);
    for (size_t i = 0; code == 0 && i < m->n; i++)
        code = keep_backend(graph, i, outputs, m, err);
    if (code < 0) {
        prony_measured_free(m);
        return code;
    }
    *ret_measured = m;
    return 0;
}

/* With the caller's own repeats and warm-ups; those of the session come back. */
static int measure_locked(struct prony_graph *graph, const struct prony_tensor *inputs,
                          size_t n_inputs, const struct prn_measured_wish *wish,
                          struct prony_measured **ret_measured, struct prony_error *err)
{
    struct prn_graph_host *host = graph->host;
    const size_t repeats = host->repeats;
    const size_t warmups = host->warmups;
    if (prn_graph_reserve(graph, wish->repeats) < 0)
        return prn_fail_memory(err);
    host->repeats = wish->repeats;
    host->warmups = wish->warmups;
    int code = prn_graph_run(graph, inputs, n_inputs, wish->outputs, err);
    if (code == 0)
        code = keep(graph, wish->outputs, ret_measured, err);
    host->repeats = repeats;
    host->warmups = warmups;
    return code;
}

int prn_session_measure(struct prony_graph *graph, const struct prony_tensor *inputs,
                        size_t n_inputs, const struct prn_measured_wish *wish,
                        struct prony_measured **ret_measured, struct prony_error *err)
{
    struct prony_session *s = graph->session;
    struct prn_region *region = prn_region_pause(&s->regions);
    int code = prn_graph_check_inputs(graph, inputs, n_inputs, err);
    if (code == 0)
        code = prn_turn_take(&s->turn, err);
    if (code == 0) {
        code = measure_locked(graph, inputs, n_inputs, wish, ret_measured, err);
        prn_turn_give(&s->turn);
    }
    prn_region_resume(region);
    return code;
}

const char *prony_measured_failure(const struct prony_measured *m, size_t index)
{
    return m && index < m->n ? m->on[index].failure : NULL;
}

const int64_t *prony_measured_times(const struct prony_measured *m, size_t index, size_t *ret_n)
{
    if (!m || index >= m->n || m->on[index].failure || !ret_n)
        return NULL;
    *ret_n = m->on[index].n;
    return m->on[index].times;
}

const struct prony_outputs *prony_measured_outputs(const struct prony_measured *m, size_t index)
{
    return m && index < m->n && !m->on[index].failure ? m->on[index].outputs : NULL;
}

void prony_measured_free(struct prony_measured *m)
{
    if (!m)
        return;
    for (size_t i = 0; m->on && i < m->n; i++)
        prony_outputs_free(m->on[i].outputs);
    prn_arena_release(&m->arena);
    free(m);
}
