#include "record/session.h"

#include "base/clock.h"
#include "exec/program.h"
#include "measure/measure.h"
#include "record/connect.h"
#include "exec/scratch.h"
#include "record/temporary.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARENA_BYTES ((size_t)64 << 20)

/* ---- Opening and closing ---- */

static int copy_text(struct prn_arena *arena, const char *text, const char **ret_copy,
                     struct prony_error *err)
{
    const char *copy = text ? prn_arena_strdup(arena, text) : NULL;
    if (text && !copy)
        return prn_fail_memory(err);
    *ret_copy = copy;
    return 0;
}

/* ---- On this machine ---- */

static int open_here(struct prony_session *s, const struct prn_session_config *config,
                     const struct prn_named_texts *given, struct prony_error *err)
{
    struct prn_spec *backends;
    char program[PATH_MAX];
    s->host.ops = &prn_host_local;
    int code = prn_program_find(config->program, program, err);
    s->host.library.option = config->library.option;
    if (code == 0)
        code = copy_text(&s->arena, program, &s->host.program, err);
    if (code == 0)
        code = copy_text(&s->arena, config->library.path, &s->host.library.path, err);
    if (code == 0)
        code = prn_backends_resolve(
            &given->texts,
            &(struct prn_backends_here){.library = s->host.library, .program = s->host.program},
            &s->arena, &backends, &s->host.n_backends, err);
    if (code < 0)
        return code;
    s->host.backends = backends;
    s->host.order = PRN_ARENA_ARRAY(&s->arena, s->host.n_backends, size_t);
    if (!s->host.order)
        return prn_fail_memory(err);
    code = prn_backends_describe(backends, s->host.n_backends, config->hardware_file, s->head, err);
    return code == 0 ? prn_backends_name(given, backends, s->head, err) : code;
}

/* ---- On a service ---- */

static void tell_queued(void *context, const struct prn_remote_place *place)
{
    const struct prony_session *s = context;
    struct prony_notice notice = {
        .kind = PRONY_NOTICE_QUEUED,
        .subject = place->hardware,
        .place = place->place,
        .waited_s = place->waited_s,
        .holders = (const char *const *)place->holders,
        .n_holders = place->n_holders,
    };
    s->notice(s->context, &notice);
}

static void tell_uploading(void *context, const char *file, uint64_t done, uint64_t total)
{
    const struct prony_session *s = context;
    struct prony_notice notice = {
        .kind = PRONY_NOTICE_UPLOADING, .subject = file, .done_bytes = done, .total_bytes = total};
    s->notice(s->context, &notice);
}

static int ask_interrupted(void *context)
{
    const struct prony_session *s = context;
    return s->interrupted(s->context);
}

static int connect_to(struct prony_session *s, const struct prn_session_config *config,
                      struct prony_error *err)
{
    struct prn_remote_config remote = {
        .address = config->server,
        .insecure = config->insecure,
        .ca_file = config->ca_file,
        .cancelled = config->cancelled,
        .interrupted = config->interrupted ? ask_interrupted : NULL,
        .queued = config->notice ? tell_queued : NULL,
        .uploading = config->notice ? tell_uploading : NULL,
        .context = s,
    };
    s->notice = config->notice;
    s->interrupted = config->interrupted;
    s->context = config->context;
    return prn_connect_as_user(&remote, config->token, &s->host.remote, &s->host.connection, err);
}

static int open_there(struct prony_session *s, const struct prn_session_config *config,
                      const struct prn_named_texts *given, struct prony_error *err)
{
    struct prn_remote_offer offer;
    struct prn_spec *backends;
    const char *preset;
    s->host.ops = &prn_host_remote;
    int code = connect_to(s, config, err);
    if (code == 0)
        code = s->host.remote->list(s->host.connection, &s->arena, &offer, err);
    if (code == 0)
        code = prn_remote_choose(&offer, &given->texts, config->server, &s->arena, &backends,
                                 &s->host.n_backends, &preset, err);
    if (code < 0)
        return code;
    s->host.backends = backends;
    code = prn_remote_describe(&offer, backends, s->host.n_backends, config->hardware_file, s->head,
                               err);
    if (code == 0)
        code = prn_backends_name(given, backends, s->head, err);
    return code < 0 ? code
                    : s->host.remote->open(s->host.connection, backends, s->host.n_backends, err);
}

/* "local instead of r6i.large", and `rest`. */
static int name_label(struct prn_arena *arena, const struct prn_spec *spec, const char *instead_of,
                      const char *rest, const char **ret_text, struct prony_error *err)
{
    static const char between[] = " instead of ";
    size_t room = strlen(spec->hardware) + sizeof between + strlen(instead_of) + strlen(rest);
    char *text = PRN_ARENA_ARRAY(arena, room, char);
    if (!text)
        return prn_fail_memory(err);
    snprintf(text, room, "%s%s%s%s", spec->hardware, between, instead_of, rest);
    *ret_text = text;
    return 0;
}

/* Calls backends that take another hardware's place so. Its price isn't theirs, and theirs isn't
 * what was asked for. The service has been told their own names. */
static int label(struct prony_session *s, const char *const *instead_of, struct prony_error *err)
{
    for (size_t i = 0; i < s->host.n_backends; i++) {
        struct prn_spec *spec = &s->host.backends[i];
        struct prn_result *result = &s->head->results[i];
        const char *hardware;
        const char *name = spec->name;
        if (!*instead_of[i])
            continue;
        int code = name_label(&s->arena, spec, instead_of[i], "", &hardware, err);
        /* A name that the user gave stays. */
        if (code == 0 && !result->spec)
            code = name_label(&s->arena, spec, instead_of[i], spec->name + strlen(spec->hardware),
                              &name, err);
        if (code == 0)
            code = copy_text(&s->head->arena, hardware, &result->hardware, err);
        if (code == 0)
            code = copy_text(&s->head->arena, name, &result->name, err);
        if (code < 0)
            return code;
        spec->hardware = hardware;
        spec->name = name;
        result->usd_per_hour = NAN;
    }
    return 0;
}

static int open_backends(struct prony_session *s, const struct prn_session_config *config,
                         struct prony_error *err)
{
    s->head = prn_profile_new();
    if (!s->head)
        return prn_fail_memory(err);
    struct prn_named_texts given;
    int code = prn_backends_split(&config->backends, &s->arena, &given, err);
    if (code == 0)
        code =
            config->server ? open_there(s, config, &given, err) : open_here(s, config, &given, err);
    if (code == 0 && config->instead_of && config->backends.n != s->host.n_backends)
        code = prn_fail(err, PRONY_EUSAGE, "'instead_of' needs one text for each backend");
    if (code == 0 && config->instead_of)
        code = label(s, config->instead_of, err);
    if (code < 0)
        return code;
    s->noted = PRN_ARENA_ARRAY(&s->arena, s->host.n_backends, bool);
    return s->noted ? 0 : prn_fail_memory(err);
}

static void disconnect(struct prony_session *s)
{
    if (s->host.connection)
        s->host.remote->free(s->host.connection);
}

int prn_session_open(const struct prn_session_config *config, struct prony_session **ret_session,
                     struct prony_error *err)
{
    struct prony_session *s = calloc(1, sizeof *s);
    if (!s)
        return prn_fail_memory(err);
    s->arena = PRN_ARENA_INIT(ARENA_BYTES);
    s->strict = config->strict;
    s->host.timeout_s = config->timeout_s;
    s->host.cancelled = config->cancelled;
    s->host.repeats = (size_t)config->repeats;
    s->host.warmups = (size_t)config->warmups;
    prn_random_seed(&s->host.random, 0);
    if (getloadavg(&s->load_before, 1) != 1)
        s->load_before = NAN;
    int code = open_backends(s, config, err);
    if (code < 0) {
        disconnect(s);
        prn_profile_free(s->head);
        prn_arena_release(&s->arena);
        free(s);
        return code;
    }
    s->regions = PRN_REGIONS_INIT(s->host.n_backends, config->repeats);
    s->turn = PRN_TURN_INIT;
    *ret_session = s;
    return 0;
}

void prn_session_close(struct prony_session *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->n_graphs; i++)
        prn_graph_free(s->graphs[i]);
    free(s->graphs);
    disconnect(s);
    prn_regions_release(&s->regions);
    prn_profile_free(s->head);
    prn_turn_release(&s->turn);
    prn_arena_release(&s->arena);
    free(s);
}

static int restart(struct prony_session *s, int64_t repeats, struct prony_error *err)
{
    for (size_t i = 0; i < s->n_graphs; i++)
        if (prn_graph_reserve(s->graphs[i], (size_t)repeats) < 0)
            return prn_fail_memory(err);
    return prn_regions_restart(&s->regions, repeats, err);
}

int prn_session_restart(struct prony_session *s, int64_t repeats, int64_t warmups, bool strict,
                        struct prony_error *err)
{
    int code = prn_turn_take(&s->turn, err);
    if (code < 0)
        return code;
    code = restart(s, repeats, err);
    if (code == 0) {
        s->host.repeats = (size_t)repeats;
        s->host.warmups = (size_t)warmups;
        s->strict = strict;
    }
    prn_turn_give(&s->turn);
    return code;
}

/* ---- Loading ---- */

/* What a backend says about its runtime is known from the first graph on. */
static int note_runtimes(struct prony_session *s, const struct prony_graph *graph,
                         struct prony_error *err)
{
    struct prn_arena *arena = &s->head->arena;
    for (size_t i = 0; i < s->host.n_backends; i++) {
        const struct prn_graph_backend *on = &graph->on[i];
        struct prn_result *result = &s->head->results[i];
        if (!on->loaded || s->noted[i])
            continue;
        int code = copy_text(arena, on->library, &result->runtime_library, err);
        if (code == 0)
            code = copy_text(arena, on->sandbox, &s->head->environment.sandbox, err);
        if (code == 0 && on->version)
            code = copy_text(arena, on->version, &result->runtime_version, err);
        if (code < 0)
            return code;
        s->noted[i] = true;
    }
    return 0;
}

/* Where a graph comes from: a file, forms in memory, or nowhere. */
struct source {
    const char *name, *path;
    const struct prony_graph_form *forms;
    size_t n_forms;
    const char *const *refusals;
    const char *local_reason;
};

static int make_graph(struct prony_session *s, const struct source *from,
                      struct prony_graph **ret_graph, struct prony_error *err)
{
    if (from->path)
        return prn_graph_load(&s->host, from->path, from->name, ret_graph, err);
    if (from->forms)
        return prn_graph_load_forms(&s->host, from->name, from->forms, from->n_forms,
                                    from->refusals, ret_graph, err);
    return prn_graph_new_local(&s->host, from->name, from->local_reason, ret_graph, err);
}

static int add_graph(struct prony_session *s, const struct source *from,
                     struct prony_graph **ret_graph, struct prony_error *err)
{
    struct prony_graph *graph;
    if (s->n_graphs >= PRN_SESSION_GRAPHS_MAX)
        return prn_fail(err, PRONY_ELIMIT, "a session has at most %d graphs",
                        PRN_SESSION_GRAPHS_MAX);
    struct prony_graph **graphs = prn_array_grow(s->graphs, s->n_graphs, sizeof *graphs);
    if (!graphs)
        return prn_fail_memory(err);
    s->graphs = graphs;
    int code = make_graph(s, from, &graph, err);
    if (code < 0)
        return code;
    code = note_runtimes(s, graph, err);
    if (code == 0 && s->strict && !from->local_reason)
        code = prn_graph_failure(graph, false, err);
    if (code < 0) {
        prn_graph_free(graph);
        return code;
    }
    graph->session = s;
    graphs[s->n_graphs++] = graph;
    graph->id = (int64_t)s->n_graphs;
    *ret_graph = graph;
    return 0;
}

/* In its turn. What it takes is no local code, but makes the call one that compiled. */
static int session_load(struct prony_session *s, const struct source *from,
                        struct prony_graph **ret_graph, struct prony_error *err)
{
    struct prn_region *region = prn_region_pause(&s->regions);
    prn_region_compiled(region);
    int code = prn_turn_take(&s->turn, err);
    if (code == 0) {
        code = add_graph(s, from, ret_graph, err);
        prn_turn_give(&s->turn);
    }
    prn_region_resume(region);
    return code;
}

int prn_session_load(struct prony_session *s, const char *path, struct prony_graph **ret_graph,
                     struct prony_error *err)
{
    const char *slash = strrchr(path, '/');
    return session_load(s, &(struct source){.path = path, .name = slash ? slash + 1 : path},
                        ret_graph, err);
}

int prn_session_load_forms(struct prony_session *s, const char *name,
                           const struct prony_graph_form *forms, size_t n_forms,
                           const char *const *refusals, struct prony_graph **ret_graph,
                           struct prony_error *err)
{
    const struct source from = {
        .name = name, .forms = forms, .n_forms = n_forms, .refusals = refusals};
    int code = session_load(s, &from, ret_graph, err);
    return code < 0 ? prn_fail_in(err, code, "graph '%s'", name) : 0;
}

int prn_session_add_local(struct prony_session *s, const char *name, const char *reason,
                          struct prony_graph **ret_graph, struct prony_error *err)
{
    return session_load(s, &(struct source){.name = name, .local_reason = reason}, ret_graph, err);
}

int prn_session_load_memory(struct prony_session *s, const char *name, const void *data,
                            size_t size, struct prony_graph **ret_graph, struct prony_error *err)
{
    struct prn_temporary file;
    struct prn_region *region = prn_region_pause(&s->regions);
    int code = prn_temporary_write(&file, "model.onnx", data, size, err);
    if (code == 0) {
        code = session_load(s, &(struct source){.path = file.path, .name = name}, ret_graph, err);
        /* Every runtime has read it; nobody starts another one of this graph. */
        prn_scratch_remove(file.folder);
        if (code < 0)
            prn_fail_in(err, code, "graph '%s'", name);
    }
    prn_region_resume(region);
    return code;
}

/* ---- Running ---- */

static int find_backend(const struct prony_session *s, const char *text, size_t *ret_index,
                        struct prony_error *err)
{
    struct prn_arena arena = PRN_ARENA_INIT(ARENA_BYTES);
    struct prn_spec wanted;
    const size_t n = s->host.n_backends;
    size_t i = 0;
    int code = 0;
    while (i < n && strcmp(s->host.backends[i].name, text) != 0)
        i++;
    if (i == n) {
        code = prn_spec_parse(text, true, &arena, &wanted, err);
        for (i = 0; code == 0 && i < n && !prn_spec_equal(&s->host.backends[i], &wanted);)
            i++;
    }
    prn_arena_release(&arena);
    if (code == 0 && i == n)
        return prn_fail(err, PRONY_EUSAGE, "the session has no backend '%s'; its first is '%s'",
                        text, s->host.backends[0].name);
    if (code == 0)
        *ret_index = i;
    return code;
}

/* What the run as a whole comes to, and whose outputs are wanted: `*backend` is that one's index,
 * or the number of backends for whichever is the first to have succeeded. */
static int judge(const struct prony_graph *graph, size_t *backend, struct prony_error *err)
{
    const struct prn_graph_host *host = graph->host;
    if (graph->session->strict) {
        int code = prn_graph_failure(graph, false, err);
        if (code < 0)
            return code;
    }
    if (*backend == host->n_backends) {
        size_t i = 0;
        while (i < host->n_backends && graph->on[i].failure.code < 0)
            i++;
        *backend = i;
        return i < host->n_backends ? 0 : prn_graph_failure(graph, true, err);
    }
    const struct prony_error *failure = &graph->on[*backend].failure;
    if (failure->code == 0)
        return 0;
    return prn_fail(err, failure->code, "%s: %s", host->backends[*backend].name, failure->text);
}

static void spoil(struct prn_region *region, const char *why)
{
    struct prony_error reason;
    prn_fail(&reason, PRONY_ECANCELED, "%s", why);
    prn_region_spoil(region, &reason);
}

/* One turn: runs everywhere, records, and fetches outputs before anybody else can run the graph. */
static int session_run(const struct prony_run *started, struct prn_region *region, size_t backend,
                       struct prony_outputs **ret_outputs, struct prony_error *err)
{
    struct prony_graph *graph = started->graph;
    int code = prn_graph_run(graph, started->inputs, started->n_inputs, started->outputs, err);
    if (code < 0) {
        spoil(region, "it was interrupted");
        return code;
    }
    code = prn_region_graph(region, graph->id, started->own_ns, graph->outcomes, err);
    if (code == 0 && started->expected)
        code = prn_graph_compare(graph, started->expected, started->n_expected, err);
    if (code == 0)
        code = judge(graph, &backend, err);
    if (code == 0 && ret_outputs)
        code = prn_graph_outputs(graph, backend, ret_outputs, err);
    return code < 0 ? prn_fail_in(err, code, "graph '%s'", graph->name) : 0;
}

/* Lets it run from now on, if that is possible. */
static int session_begin(struct prony_run *run, struct prony_error *err)
{
    struct prn_turn *turn = &run->graph->session->turn;
    int code = prn_turn_take(turn, err);
    if (code < 0)
        return code;
    code =
        prn_graph_begin(run->graph, run->inputs, run->n_inputs, run->outputs, &run->has_turn, err);
    if (code < 0)
        spoil(run->region, "it was interrupted");
    if (!run->has_turn)
        prn_turn_give(turn);
    return code;
}

int prn_run_start(struct prony_graph *graph, const struct prony_tensor *inputs, size_t n_inputs,
                  bool outputs, bool overlap, struct prony_run **ret_run, struct prony_error *err)
{
    struct prn_region *region = prn_region_pause(&graph->session->regions);
    struct prony_run *run = malloc(sizeof *run);
    int code = run ? prn_graph_check_inputs(graph, inputs, n_inputs, err) : prn_fail_memory(err);
    if (code == 0)
        code = prn_region_check(region, err);
    if (code == 0) {
        *run = (struct prony_run){.graph = graph,
                                  .inputs = inputs,
                                  .n_inputs = n_inputs,
                                  .outputs = outputs,
                                  .own_ns = -1,
                                  .region = region,
                                  .region_number = prn_region_number(region)};
        code = overlap ? session_begin(run, err) : 0;
    }
    if (code < 0) {
        prn_region_resume(region);
        free(run);
        return code;
    }
    run->started_ns = prn_clock_ns();
    *ret_run = run;
    return 0;
}

void prn_run_computed(struct prony_run *run)
{
    run->own_ns = prn_clock_ns() - run->started_ns;
}

void prn_run_cancel(struct prony_run *run)
{
    struct prn_region *region = prn_region_if(run->region, run->region_number);
    if (run->has_turn) {
        prn_graph_abandon(run->graph);
        prn_turn_give(&run->graph->session->turn);
    }
    spoil(region, "a run of a graph was cancelled");
    prn_region_resume(region);
    free(run);
}

int prn_run_finish(struct prony_run *started, const char *backend,
                   struct prony_outputs **ret_outputs, struct prony_error *err)
{
    struct prony_session *s = started->graph->session;
    struct prn_region *region = prn_region_if(started->region, started->region_number);
    size_t wanted = s->host.n_backends;
    int code = backend ? find_backend(s, backend, &wanted, err) : 0;
    if (code == 0 && ret_outputs && !started->outputs)
        code = prn_fail(err, PRONY_EUSAGE, "the run was started without outputs");
    if (code == 0 && !started->has_turn)
        code = prn_turn_take(&s->turn, err);
    if (code < 0) {
        prn_run_cancel(started);
        return code;
    }
    code = session_run(started, region, wanted, ret_outputs, err);
    prn_turn_give(&s->turn);
    prn_region_resume(region);
    free(started);
    return code;
}

int prn_session_run(struct prony_graph *graph, const struct prony_tensor *inputs, size_t n_inputs,
                    const char *backend, struct prony_outputs **ret_outputs,
                    struct prony_error *err)
{
    struct prony_run *started;
    size_t ignored;
    int code = backend ? find_backend(graph->session, backend, &ignored, err) : 0;
    if (code == 0)
        code = prn_run_start(graph, inputs, n_inputs, ret_outputs != NULL, false, &started, err);
    return code < 0 ? code : prn_run_finish(started, backend, ret_outputs, err);
}

/* ---- The profile ---- */

static int copy_results(const struct prn_profile *from, struct prn_profile *to,
                        struct prony_error *err)
{
    struct prn_arena *arena = &to->arena;
    to->n_results = from->n_results;
    to->results = PRN_ARENA_ARRAY(arena, from->n_results + 1, struct prn_result);
    if (!to->results)
        return prn_fail_memory(err);
    for (size_t i = 0; i < from->n_results; i++) {
        const struct prn_result *r = &from->results[i];
        struct prn_result *copy = &to->results[i];
        *copy = *r;
        int code = copy_text(arena, r->name, &copy->name, err);
        if (code == 0)
            code = copy_text(arena, r->hardware, &copy->hardware, err);
        if (code == 0)
            code = copy_text(arena, r->software, &copy->software, err);
        if (code == 0)
            code = copy_text(arena, r->processor, &copy->processor, err);
        if (code == 0)
            code = copy_text(arena, r->runtime_version, &copy->runtime_version, err);
        if (code == 0)
            code = copy_text(arena, r->runtime_library, &copy->runtime_library, err);
        if (code < 0)
            return code;
    }
    return 0;
}

static int copy_check(struct prn_arena *arena, const struct prn_graph_check *from,
                      struct prn_graph_check *to, struct prony_error *err)
{
    *to = *from;
    to->outputs = PRN_ARENA_ARRAY(arena, from->n_outputs + 1, struct prn_output_check);
    if (!to->outputs)
        return prn_fail_memory(err);
    int code = copy_text(arena, from->failure, &to->failure, err);
    for (size_t i = 0; code == 0 && i < from->n_outputs; i++) {
        to->outputs[i] = from->outputs[i];
        code = copy_text(arena, from->outputs[i].name, &to->outputs[i].name, err);
    }
    return code;
}

static int copy_checks(const struct prony_graph *graph, struct prn_recorded_graph *to,
                       struct prn_profile *profile, struct prony_error *err)
{
    const size_t n = graph->host->n_backends;
    bool any = false;
    for (size_t i = 0; i < n; i++)
        any |= graph->on[i].check.compared;
    if (!any)
        return 0;
    to->checks = PRN_ARENA_ARRAY(&profile->arena, n + 1, struct prn_graph_check);
    if (!to->checks)
        return prn_fail_memory(err);
    to->n_checks = n;
    int code = 0;
    for (size_t i = 0; code == 0 && i < n; i++)
        code = copy_check(&profile->arena, &graph->on[i].check, &to->checks[i], err);
    return code;
}

static int64_t known(int64_t ns)
{
    return ns > 0 ? ns : -1;
}

static int copy_start(const struct prony_graph *graph, struct prn_recorded_graph *to,
                      struct prn_profile *profile, struct prony_error *err)
{
    const size_t n = graph->host->n_backends;
    if (graph->local_reason)
        return 0;
    struct prn_graph_launch *launches =
        PRN_ARENA_ARRAY(&profile->arena, n + 1, struct prn_graph_launch);
    if (!launches)
        return prn_fail_memory(err);
    to->start = (struct prn_graph_start){.capture_ns = -1,
                                         .lower_ns = -1,
                                         .export_ns = -1,
                                         .upload_ns = known(graph->upload_ns),
                                         .load_ns = known(graph->load_ns),
                                         .n_launches = n,
                                         .launches = launches};
    for (size_t i = 0; i < n; i++)
        launches[i] = (struct prn_graph_launch){known(graph->on[i].launch.load_ns),
                                                known(graph->on[i].launch.prepare_ns)};
    return 0;
}

static int copy_graphs(const struct prony_session *s, struct prn_profile *to,
                       struct prony_error *err)
{
    to->graphs = PRN_ARENA_ARRAY(&to->arena, s->n_graphs + 1, struct prn_recorded_graph);
    if (!to->graphs)
        return prn_fail_memory(err);
    for (size_t i = 0; i < s->n_graphs; i++) {
        struct prn_recorded_graph *copy = &to->graphs[to->n_graphs++];
        copy->id = s->graphs[i]->id;
        int code = copy_text(&to->arena, s->graphs[i]->name, &copy->name, err);
        if (code == 0)
            code = copy_text(&to->arena, s->graphs[i]->local_reason, &copy->local_reason, err);
        if (code == 0)
            code = copy_checks(s->graphs[i], copy, to, err);
        if (code == 0)
            code = copy_start(s->graphs[i], copy, to, err);
        if (code < 0)
            return code;
    }
    return 0;
}

/* A backend with one wrong graph in what was recorded is flagged as a whole. */
static void flag_results(struct prn_profile *p)
{
    for (size_t i = 0; i < p->n_profiles; i++)
        for (size_t b = 0; b < p->n_results; b++)
            p->results[b].flags |= p->profiles[i].totals[b].flags & PRN_FLAG_MISMATCH;
}

static int fill_profile(struct prony_session *s, struct prn_profile *p, struct prony_error *err)
{
    int code = prn_profile_stamp(p, err);
    if (code == 0)
        code = copy_results(s->head, p, err);
    if (code == 0)
        code = copy_graphs(s, p, err);
    if (code == 0 && s->head->environment.sandbox)
        code = copy_text(&p->arena, s->head->environment.sandbox, &p->environment.sandbox, err);
    if (code == 0)
        code = prn_regions_fill(&s->regions, p, err);
    if (code < 0)
        return code;
    flag_results(p);
    p->environment.load_after = p->environment.load_before;
    p->environment.load_before = s->load_before;
    p->timer_ns = prn_clock_cost_ns();
    p->settings = (struct prn_settings){.precision = NAN,
                                        .smallest_difference = NAN,
                                        .max_time_s = NAN,
                                        .tolerance = NAN,
                                        .launches = 1,
                                        .repeats = (int64_t)s->host.repeats,
                                        .warmups = (int64_t)s->host.warmups};
    return 0;
}

int prn_session_profile(struct prony_session *s, struct prn_profile **ret_profile,
                        struct prony_error *err)
{
    struct prn_profile *p = prn_profile_new();
    if (!p)
        return prn_fail_memory(err);
    /* Whoever measures now isn't disturbed; the region of this thread isn't either. */
    struct prn_region *region = prn_region_pause(&s->regions);
    int code = prn_turn_take(&s->turn, err);
    if (code == 0) {
        code = fill_profile(s, p, err);
        prn_turn_give(&s->turn);
    }
    prn_region_resume(region);
    if (code < 0)
        prn_profile_free(p);
    else
        *ret_profile = p;
    return code;
}
