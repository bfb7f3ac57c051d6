/* Calls while they happen, and the tallies that they are added to. */
#include "record/record.h"

#include <stdlib.h>
#include <string.h>

/* What one backend made of a graph, while the call is open. */
struct call_result {
    size_t first, n; /* samples */
    char *failure;   /* heap; NULL: none */
};

struct prn_call {
    struct prn_recorder_function *function;
    struct prn_call *next; /* of those to be used again */
    size_t n_backends;
    bool compiled;
    size_t n_graphs, n_samples, samples_capacity;
    int64_t *graphs;   /* the footprint */
    int64_t *local_ns; /* before each graph */
    int64_t *own_ns;   /* what the program took to compute it; -1: it didn't */
    struct call_result *results;
    int64_t *samples;
};

static const char other_failures[] = "(further failures, with other messages)";

/* ---- Calls ---- */

static void call_clear(struct prn_call *call)
{
    for (size_t i = 0; i < call->n_graphs * call->n_backends; i++)
        free(call->results[i].failure);
    call->n_graphs = 0;
    call->n_samples = 0;
    call->compiled = false;
}

static void call_free(struct prn_call *call)
{
    call_clear(call);
    free(call->graphs);
    free(call->local_ns);
    free(call->own_ns);
    free(call->results);
    free(call->samples);
    free(call);
}

const char *prn_call_function(const struct prn_call *call)
{
    return call->function->name;
}

void prn_call_compiled(struct prn_call *call)
{
    call->compiled = true;
}

int prn_call_check(const struct prn_call *call, struct prony_error *err)
{
    if (call->n_graphs >= PRN_RECORD_GRAPHS_MAX)
        return prn_fail(err, PRONY_ELIMIT,
                        "a call of '%s' runs more than %d graphs; record smaller regions",
                        call->function->name, PRN_RECORD_GRAPHS_MAX);
    return 0;
}

/* Room for one more graph; the call is as it was when that fails. */
static int call_grow(struct prn_call *call, size_t samples)
{
    size_t n = call->n_graphs;
    int64_t *graphs = prn_array_grow(call->graphs, n, sizeof *graphs);
    if (graphs)
        call->graphs = graphs;
    int64_t *local_ns = prn_array_grow(call->local_ns, n, sizeof *local_ns);
    if (local_ns)
        call->local_ns = local_ns;
    int64_t *own_ns = prn_array_grow(call->own_ns, n, sizeof *own_ns);
    if (own_ns)
        call->own_ns = own_ns;
    struct call_result *results =
        prn_array_grow(call->results, n, call->n_backends * sizeof *results);
    if (results)
        call->results = results;
    size_t needed = call->n_samples + samples;
    if (needed > call->samples_capacity) {
        int64_t *all = reallocarray(call->samples, 2 * needed, sizeof *all);
        if (!all)
            return PRONY_ENOMEM;
        call->samples = all;
        call->samples_capacity = 2 * needed;
    }
    return graphs && local_ns && own_ns && results ? 0 : PRONY_ENOMEM;
}

static int copy_failures(struct call_result *results, const struct prn_graph_outcome *outcomes,
                         size_t n)
{
    for (size_t i = 0; i < n; i++)
        results[i] = (struct call_result){0};
    for (size_t i = 0; i < n; i++) {
        if (!outcomes[i].failure)
            continue;
        results[i].failure = strdup(outcomes[i].failure);
        if (!results[i].failure) {
            for (size_t k = 0; k < i; k++)
                free(results[k].failure);
            return PRONY_ENOMEM;
        }
    }
    return 0;
}

int prn_call_graph(struct prn_call *call, int64_t local_ns, int64_t graph, int64_t own_ns,
                   const struct prn_graph_outcome *outcomes, struct prony_error *err)
{
    int code = prn_call_check(call, err);
    if (code < 0)
        return code;
    size_t samples = 0;
    for (size_t i = 0; i < call->n_backends; i++)
        samples += outcomes[i].n_samples;
    if (samples > PRN_RECORD_SAMPLES_MAX - call->n_samples)
        return prn_fail(err, PRONY_ELIMIT,
                        "a call of '%s' has more than %d samples; fewer repeats help",
                        call->function->name, PRN_RECORD_SAMPLES_MAX);
    if (call_grow(call, samples) < 0)
        return prn_fail_memory(err);
    struct call_result *results = call->results + call->n_graphs * call->n_backends;
    if (copy_failures(results, outcomes, call->n_backends) < 0)
        return prn_fail_memory(err);
    for (size_t i = 0; i < call->n_backends; i++) {
        if (outcomes[i].failure || outcomes[i].n_samples == 0)
            continue;
        results[i].first = call->n_samples;
        results[i].n = outcomes[i].n_samples;
        memcpy(call->samples + call->n_samples, outcomes[i].samples_ns,
               outcomes[i].n_samples * sizeof *call->samples);
        call->n_samples += outcomes[i].n_samples;
    }
    call->graphs[call->n_graphs] = graph;
    call->local_ns[call->n_graphs] = local_ns;
    call->own_ns[call->n_graphs] = own_ns;
    call->n_graphs++;
    return 0;
}

/* ---- Functions and footprints ---- */

/* Tells a full arena from a machine without memory. */
static int fail_full(const struct prn_recorder *r, size_t bytes, struct prony_error *err)
{
    if (prn_arena_has_room(&r->arena, bytes))
        return prn_fail_memory(err);
    return prn_fail(err, PRONY_ELIMIT, "the recording takes more than %zu MiB",
                    PRN_RECORD_BYTES_MAX >> 20);
}

static int add_function(struct prn_recorder *r, const char *name, size_t len, size_t *ret_index,
                        struct prony_error *err)
{
    if (r->n_functions >= PRN_RECORD_FUNCTIONS_MAX)
        return prn_fail(err, PRONY_ELIMIT, "more than %d different regions are recorded",
                        PRN_RECORD_FUNCTIONS_MAX);
    struct prn_recorder_function *f = PRN_ARENA_NEW(&r->arena, struct prn_recorder_function);
    char *copy = prn_arena_strndup(&r->arena, name, len);
    if (!f || !copy)
        return fail_full(r, sizeof *f + len + 1, err);
    struct prn_recorder_function **functions =
        prn_array_grow(r->functions, r->n_functions, sizeof *functions);
    if (!functions)
        return prn_fail_memory(err);
    r->functions = functions;
    f->name = copy;
    if (prn_map_set_n(&r->names, copy, len, r->n_functions) < 0)
        return prn_fail_memory(err);
    functions[r->n_functions] = f;
    *ret_index = r->n_functions++;
    return 0;
}

int prn_recorder_begin(struct prn_recorder *r, const char *name, struct prn_call **ret_call,
                       struct prony_error *err)
{
    size_t len = strlen(name);
    size_t index = prn_map_get_n(&r->names, name, len);
    if (index == PRN_MAP_NONE) {
        if (len == 0 || len > PRN_RECORD_NAME_MAX)
            return prn_fail(err, PRONY_EUSAGE, "a region's name has 1 to %d bytes, not %zu",
                            PRN_RECORD_NAME_MAX, len);
        int code = add_function(r, name, len, &index, err);
        if (code < 0)
            return code;
    }
    struct prn_call *call = r->idle;
    if (call) {
        r->idle = call->next;
    } else {
        call = calloc(1, sizeof *call);
        if (!call)
            return prn_fail_memory(err);
        call->n_backends = r->n_backends;
    }
    call->function = r->functions[index];
    *ret_call = call;
    return 0;
}

void prn_recorder_cancel(struct prn_recorder *r, struct prn_call *call)
{
    call_clear(call);
    call->next = r->idle;
    r->idle = call;
}

static struct prn_tally *new_tally(struct prn_recorder *r, const struct prn_call *call)
{
    size_t n = call->n_graphs;
    struct prn_tally *tally = PRN_ARENA_NEW(&r->arena, struct prn_tally);
    int64_t *graphs = PRN_ARENA_ARRAY(&r->arena, n + 1, int64_t);
    if (!tally || !graphs)
        return NULL;
    tally->local = PRN_ARENA_ARRAY(&r->arena, n + 1, struct prn_series_builder);
    tally->own = PRN_ARENA_ARRAY(&r->arena, n + 1, struct prn_series_builder);
    tally->results = PRN_ARENA_ARRAY(&r->arena, n * r->n_backends + 1, struct prn_tally_result);
    if (!tally->local || !tally->own || !tally->results)
        return NULL;
    if (n > 0)
        memcpy(graphs, call->graphs, n * sizeof *graphs);
    tally->graphs = graphs;
    tally->n_graphs = n;
    return tally;
}

static int add_tally(struct prn_recorder *r, const struct prn_call *call,
                     struct prn_tally **ret_tally, struct prony_error *err)
{
    struct prn_recorder_function *f = call->function;
    if (f->n_tallies >= PRN_RECORD_FOOTPRINTS_MAX)
        return prn_fail(err, PRONY_ELIMIT,
                        "'%s' has run more than %d different sequences of graphs; record smaller "
                        "regions",
                        f->name, PRN_RECORD_FOOTPRINTS_MAX);
    struct prn_tally *tally = new_tally(r, call);
    if (!tally)
        return fail_full(r, call->n_graphs * r->n_backends * sizeof(struct prn_tally_result), err);
    struct prn_tally **tallies = prn_array_grow(f->tallies, f->n_tallies, sizeof *tallies);
    if (!tallies)
        return prn_fail_memory(err);
    f->tallies = tallies;
    if (prn_map_set_n(&f->footprints, (const char *)tally->graphs,
                      tally->n_graphs * sizeof *tally->graphs, f->n_tallies) < 0)
        return prn_fail_memory(err);
    tallies[f->n_tallies++] = tally;
    *ret_tally = tally;
    return 0;
}

static bool has_footprint(const struct prn_tally *tally, const struct prn_call *call)
{
    size_t n = call->n_graphs;
    return tally->n_graphs == n &&
           (n == 0 || memcmp(tally->graphs, call->graphs, n * sizeof *call->graphs) == 0);
}

static int find_tally(struct prn_recorder *r, const struct prn_call *call,
                      struct prn_tally **ret_tally, struct prony_error *err)
{
    struct prn_recorder_function *f = call->function;
    int code = 0;
    if (!f->last || !has_footprint(f->last, call)) {
        const char *key = call->n_graphs ? (const char *)call->graphs : "";
        size_t index = prn_map_get_n(&f->footprints, key, call->n_graphs * sizeof *call->graphs);
        struct prn_tally *tally = index == PRN_MAP_NONE ? NULL : f->tallies[index];
        if (!tally)
            code = add_tally(r, call, &tally, err);
        if (code < 0)
            return code;
        f->last = tally;
    }
    *ret_tally = f->last;
    return 0;
}

/* ---- Adding a call up ---- */

/* The entry of a message, made if need be; NULL when out of memory. */
static struct prn_failure *find_failure(struct prn_recorder *r, struct prn_tally_result *result,
                                        const char *message)
{
    for (size_t i = 0; i < result->n_failures; i++)
        if (strcmp(result->failures[i].message, message) == 0)
            return &result->failures[i];
    struct prn_failure *last = &result->failures[PRN_RECORD_MESSAGES_MAX];
    if (result->n_failures > PRN_RECORD_MESSAGES_MAX)
        return last;
    bool distinct = result->n_failures < PRN_RECORD_MESSAGES_MAX;
    const char *copy = distinct ? prn_arena_strdup(&r->arena, message) : other_failures;
    if (!copy)
        return NULL;
    struct prn_failure *failure = &result->failures[result->n_failures++];
    *failure = (struct prn_failure){.message = copy};
    return failure;
}

/* Everything that can fail, before anything is added. */
static int reserve(struct prn_recorder *r, struct prn_tally *tally, const struct prn_call *call,
                   struct prony_error *err)
{
    for (size_t i = 0; i <= tally->n_graphs; i++)
        if (prn_series_reserve(&tally->local[i], 1, &r->budget) < 0 ||
            prn_series_reserve(&tally->own[i], i < tally->n_graphs && call->own_ns[i] >= 0,
                               &r->budget) < 0)
            return prn_fail_memory(err);
    for (size_t i = 0; i < tally->n_graphs * r->n_backends; i++) {
        const struct call_result *from = &call->results[i];
        if (from->failure && !find_failure(r, &tally->results[i], from->failure))
            return fail_full(r, strlen(from->failure) + 1, err);
        if (prn_series_reserve(&tally->results[i].times, from->n, &r->budget) < 0)
            return prn_fail_memory(err);
    }
    return 0;
}

static void add(struct prn_recorder *r, struct prn_tally *tally, const struct prn_call *call,
                int64_t last_local_ns)
{
    for (size_t i = 0; i < tally->n_graphs; i++) {
        prn_series_add(&tally->local[i], call->local_ns[i]);
        if (call->own_ns[i] >= 0)
            prn_series_add(&tally->own[i], call->own_ns[i]);
    }
    prn_series_add(&tally->local[tally->n_graphs], last_local_ns);
    for (size_t i = 0; i < tally->n_graphs * r->n_backends; i++) {
        const struct call_result *from = &call->results[i];
        if (from->failure)
            find_failure(r, &tally->results[i], from->failure)->count += r->repeats;
        for (size_t k = 0; k < from->n; k++)
            prn_series_add(&tally->results[i].times, call->samples[from->first + k]);
    }
    tally->runs++;
}

/* The runs so far compiled, and now there is one that didn't: it takes their place. */
static void replace(struct prn_recorder *r, struct prn_tally *tally)
{
    for (size_t i = 0; i <= tally->n_graphs; i++) {
        prn_series_clear(&tally->local[i]);
        prn_series_clear(&tally->own[i]);
    }
    for (size_t i = 0; i < tally->n_graphs * r->n_backends; i++) {
        prn_series_clear(&tally->results[i].times);
        for (size_t k = 0; k < tally->results[i].n_failures; k++)
            tally->results[i].failures[k].count = 0;
    }
    tally->discarded += tally->runs;
    tally->runs = 0;
}

static int add_call(struct prn_recorder *r, const struct prn_call *call, int64_t last_local_ns,
                    struct prony_error *err)
{
    struct prn_tally *tally = NULL;
    int code = find_tally(r, call, &tally, err);
    if (code < 0)
        return code;
    if (call->compiled && tally->runs > 0 && !tally->compiled) {
        tally->discarded++;
        return 0;
    }
    code = reserve(r, tally, call, err);
    if (code < 0)
        return code;
    if (!call->compiled && tally->compiled)
        replace(r, tally);
    tally->compiled = call->compiled;
    add(r, tally, call, last_local_ns);
    return 0;
}

int prn_recorder_end(struct prn_recorder *r, struct prn_call *call, int64_t local_ns,
                     struct prony_error *err)
{
    int code = add_call(r, call, local_ns, err);
    prn_recorder_cancel(r, call);
    return code;
}

static void release_tally(const struct prn_recorder *r, struct prn_tally *tally)
{
    for (size_t i = 0; i <= tally->n_graphs; i++) {
        prn_series_release(&tally->local[i]);
        prn_series_release(&tally->own[i]);
    }
    for (size_t i = 0; i < tally->n_graphs * r->n_backends; i++)
        prn_series_release(&tally->results[i].times);
}

void prn_recorder_release(struct prn_recorder *r)
{
    for (size_t i = 0; i < r->n_functions; i++) {
        struct prn_recorder_function *f = r->functions[i];
        for (size_t k = 0; k < f->n_tallies; k++)
            release_tally(r, f->tallies[k]);
        free(f->tallies);
        prn_map_release(&f->footprints);
    }
    free(r->functions);
    prn_map_release(&r->names);
    while (r->idle) {
        struct prn_call *call = r->idle;
        r->idle = call->next;
        call_free(call);
    }
    prn_arena_release(&r->arena);
    *r = (struct prn_recorder){0};
}
