/* The public functions for sessions, graphs and regions. */
#include "record/api.h"

#include "record/session.h"

#include <stdlib.h>
#include <string.h>

#define WARMUPS_MAX 1000000
#define TIMEOUT_MAX_S 1e6
#define FILE_NAME_MAX 4096
/* Longer lists of names aren't searched for the same one twice; whoever loads them will. */
#define NAMES_COMPARED_MAX 4096

/* What a program that was built with an earlier header doesn't have is 0. */
static int copy_options(const struct prony_session_options *from, struct prony_session_options *to,
                        struct prony_error *err)
{
    static const struct prony_session_options defaults = PRONY_SESSION_OPTIONS_INIT;
    const size_t first = offsetof(struct prony_session_options, server);
    const size_t second = offsetof(struct prony_session_options, interrupted);
    const size_t third = offsetof(struct prony_session_options, instead_of);
    *to = defaults;
    if (from && from->struct_size != sizeof *to && from->struct_size != first &&
        from->struct_size != second && from->struct_size != third)
        return prn_fail(err, PRONY_EUSAGE,
                        "struct prony_session_options has another size: begin with "
                        "PRONY_SESSION_OPTIONS_INIT");
    if (from)
        memcpy(to, from, from->struct_size);
    return 0;
}

static int check_runs(int64_t repeats, int64_t warmups, struct prony_error *err)
{
    if (repeats < 1 || repeats > PRN_EXECUTOR_SAMPLES_MAX)
        return prn_fail(err, PRONY_EUSAGE, "'repeats' must be from 1 to %d",
                        PRN_EXECUTOR_SAMPLES_MAX);
    if (warmups < 0 || warmups > WARMUPS_MAX)
        return prn_fail(err, PRONY_EUSAGE, "'warmups' must be from 0 to %d", WARMUPS_MAX);
    return 0;
}

static int check_options(const struct prony_session_options *o, struct prony_error *err)
{
    int code = check_runs(o->repeats, o->warmups, err);
    if (code < 0)
        return code;
    if (!(o->timeout_s > 0 && o->timeout_s <= TIMEOUT_MAX_S))
        return prn_fail(err, PRONY_EUSAGE, "'timeout_s' must be above 0 and at most %g",
                        TIMEOUT_MAX_S);
    for (size_t i = 0; i < o->n_backends; i++)
        if (!o->backends || !o->backends[i])
            return prn_fail(err, PRONY_EUSAGE, "'backends' is NULL, or one of them");
    for (size_t i = 0; o->instead_of && i < o->n_backends; i++)
        if (!o->instead_of[i])
            return prn_fail(err, PRONY_EUSAGE, "'instead_of' has a NULL");
    return 0;
}

int prony_session_open(const struct prony_session_options *options,
                       struct prony_session **ret_session, struct prony_error *err)
{
    struct prony_session_options chosen;
    const struct prony_session_options *o = &chosen;
    if (!ret_session)
        return prn_fail(err, PRONY_EUSAGE, "ret_session is needed");
    int code = copy_options(options, &chosen, err);
    if (code == 0)
        code = check_options(o, err);
    if (code < 0)
        return code;
    struct prn_session_config config = {
        .backends = {o->backends, o->n_backends},
        .library = {"ort-lib", o->ort_library},
        .instead_of = o->instead_of,
        .hardware_file = o->hardware_file,
        .program = o->program,
        .repeats = o->repeats,
        .warmups = o->warmups,
        .timeout_s = o->timeout_s,
        .strict = o->strict != 0,
        .cancelled = o->cancelled,
        .server = o->server,
        .token = o->token,
        .ca_file = o->ca_file,
        .insecure = o->insecure != 0,
        .notice = o->notice,
        .interrupted = o->interrupted,
        .context = o->context,
    };
    return prn_session_open(&config, ret_session, err);
}

int prony_session_restart(struct prony_session *session, int64_t repeats, int64_t warmups,
                          int strict, struct prony_error *err)
{
    if (!session)
        return prn_fail(err, PRONY_EUSAGE, "session is needed");
    int code = check_runs(repeats, warmups, err);
    return code < 0 ? code : prn_session_restart(session, repeats, warmups, strict != 0, err);
}

void prony_session_close(struct prony_session *session)
{
    prn_session_close(session);
}

const char *prony_session_backend(const struct prony_session *session, size_t index)
{
    return session && index < session->host.n_backends ? session->host.backends[index].name : NULL;
}

int prony_graph_load(struct prony_session *session, const char *path,
                     struct prony_graph **ret_graph, struct prony_error *err)
{
    if (!session || !path || !ret_graph)
        return prn_fail(err, PRONY_EUSAGE, "session, path and ret_graph are needed");
    return prn_session_load(session, path, ret_graph, err);
}

int prony_graph_load_memory(struct prony_session *session, const char *name, const void *data,
                            size_t size, struct prony_graph **ret_graph, struct prony_error *err)
{
    if (!session || !name || (size > 0 && !data) || !ret_graph)
        return prn_fail(err, PRONY_EUSAGE, "session, name, data and ret_graph are needed");
    return prn_session_load_memory(session, name, data, size, ret_graph, err);
}

/* ---- Forms ---- */

/* Whether a file of that name stays in the folder of its graph. */
static bool stays_inside(const char *name)
{
    if (!name || !*name || *name == '/' || strlen(name) >= FILE_NAME_MAX)
        return false;
    for (const char *part = name; part; part = strchr(part, '/')) {
        part += *part == '/';
        size_t len = strcspn(part, "/");
        if (len == 0 || strncmp(part, ".", len) == 0 || (len == 2 && strncmp(part, "..", 2) == 0))
            return false;
    }
    return true;
}

static int check_names(const char *const *names, size_t n, const char *what,
                       struct prony_error *err)
{
    for (size_t i = 0; i < n; i++) {
        if (!names || !names[i])
            return prn_fail(err, PRONY_EUSAGE, "the names of %s are NULL, or one of them", what);
        for (size_t k = 0; k < i && n < NAMES_COMPARED_MAX; k++)
            if (strcmp(names[k], names[i]) == 0)
                return prn_fail(err, PRONY_EUSAGE, "two %s are called '%s'", what, names[i]);
    }
    return 0;
}

static int check_form(const struct prony_graph_form *form, struct prony_error *err)
{
    if (form->format != PRONY_FORMAT_ONNX && form->format != PRONY_FORMAT_FXPROTO)
        return prn_fail(err, PRONY_EUSAGE, "a form has the unknown format %d", form->format);
    if (form->failure)
        return 0;
    if (form->n_files == 0 || !form->files)
        return prn_fail(err, PRONY_EUSAGE, "a form has neither files nor a failure");
    for (size_t i = 0; i < form->n_files; i++) {
        const struct prony_file *file = &form->files[i];
        if (!stays_inside(file->name))
            return prn_fail(err, PRONY_EUSAGE, "a file can't be called '%s'",
                            file->name ? file->name : "");
        if (file->bytes > 0 && !file->data)
            return prn_fail(err, PRONY_EUSAGE, "file '%s' has no data", file->name);
    }
    int code = check_names(form->input_names, form->n_inputs, "inputs", err);
    return code < 0 ? code : check_names(form->output_names, form->n_outputs, "outputs", err);
}

int prony_graph_load_forms(struct prony_session *session, const char *name,
                           const struct prony_graph_form *forms, size_t n_forms,
                           struct prony_graph **ret_graph, struct prony_error *err)
{
    return prony_graph_load_forms_except(session, name, forms, n_forms, NULL, ret_graph, err);
}

int prony_graph_load_forms_except(struct prony_session *session, const char *name,
                                  const struct prony_graph_form *forms, size_t n_forms,
                                  const char *const *refusals, struct prony_graph **ret_graph,
                                  struct prony_error *err)
{
    if (!session || !name || !forms || n_forms == 0 || !ret_graph)
        return prn_fail(err, PRONY_EUSAGE, "session, name, forms and ret_graph are needed");
    for (size_t i = 0; i < n_forms; i++) {
        int code = check_form(&forms[i], err);
        for (size_t k = 0; code == 0 && k < i; k++)
            if (forms[k].format == forms[i].format)
                code = prn_fail(err, PRONY_EUSAGE, "two forms have the same format");
        if (code < 0)
            return prn_fail_in(err, code, "graph '%s'", name);
    }
    return prn_session_load_forms(session, name, forms, n_forms, refusals, ret_graph, err);
}

int prony_graph_local(struct prony_session *session, const char *name, const char *reason,
                      struct prony_graph **ret_graph, struct prony_error *err)
{
    if (!session || !name || !reason || !ret_graph)
        return prn_fail(err, PRONY_EUSAGE, "session, name, reason and ret_graph are needed");
    return prn_session_add_local(session, name, reason, ret_graph, err);
}

int64_t prony_graph_id(const struct prony_graph *graph)
{
    return graph ? graph->id : 0;
}

const char *prony_graph_failure(const struct prony_graph *graph, size_t backend)
{
    return graph && backend < graph->host->n_backends ? graph->on[backend].load_failure : NULL;
}

const char *prony_graph_local_reason(const struct prony_graph *graph)
{
    return graph ? graph->local_reason : NULL;
}

/* ---- Running ---- */

int prony_graph_start(struct prony_graph *graph, const struct prony_tensor *inputs, size_t n_inputs,
                      int want_outputs, int overlap, struct prony_run **ret_run,
                      struct prony_error *err)
{
    if (!graph || (n_inputs > 0 && !inputs) || !ret_run)
        return prn_fail(err, PRONY_EUSAGE, "graph, inputs and ret_run are needed");
    return prn_run_start(graph, inputs, n_inputs, want_outputs != 0, overlap != 0, ret_run, err);
}

void prony_run_computed(struct prony_run *run)
{
    if (run)
        prn_run_computed(run);
}

/* Whether these can be outputs. */
static int check_expected(const struct prony_tensor *t, struct prony_error *err)
{
    size_t bytes;
    if (!t->name || t->rank > PRN_RUNTIME_RANK_MAX || (t->rank > 0 && !t->dims) ||
        (t->bytes > 0 && !t->data))
        return prn_fail(err, PRONY_EUSAGE,
                        "an expected output has no name, dims or data, or too many dimensions");
    if (prn_dtype_bytes(t->dtype, t->dims, t->rank, &bytes) < 0 || bytes != t->bytes)
        return prn_fail(err, PRONY_EUSAGE,
                        "expected output '%s' has a type, shape or size that can't be", t->name);
    return 0;
}

int prony_run_expect(struct prony_run *run, const struct prony_tensor *expected, size_t n_expected,
                     struct prony_error *err)
{
    if (!run || !expected)
        return prn_fail(err, PRONY_EUSAGE, "run and expected are needed");
    if (!run->outputs)
        return prn_fail(err, PRONY_EUSAGE, "the run was started without outputs");
    for (size_t i = 0; i < n_expected; i++) {
        int code = check_expected(&expected[i], err);
        if (code < 0)
            return code;
    }
    run->expected = expected;
    run->n_expected = n_expected;
    return 0;
}

int prony_run_finish(struct prony_run *run, const char *backend, struct prony_outputs **ret_outputs,
                     struct prony_error *err)
{
    if (!run)
        return prn_fail(err, PRONY_EUSAGE, "run is needed");
    return prn_run_finish(run, backend, ret_outputs, err);
}

void prony_run_cancel(struct prony_run *run)
{
    if (run)
        prn_run_cancel(run);
}

int prony_graph_run(struct prony_graph *graph, const struct prony_tensor *inputs, size_t n_inputs,
                    const char *backend, struct prony_outputs **ret_outputs,
                    struct prony_error *err)
{
    if (!graph || (n_inputs > 0 && !inputs))
        return prn_fail(err, PRONY_EUSAGE, "graph and inputs are needed");
    return prn_session_run(graph, inputs, n_inputs, backend, ret_outputs, err);
}

int prony_graph_measure(struct prony_graph *graph, const struct prony_tensor *inputs,
                        size_t n_inputs, int64_t repeats, int64_t warmups, int want_outputs,
                        struct prony_measured **ret_measured, struct prony_error *err)
{
    if (!graph || (n_inputs > 0 && !inputs) || !ret_measured)
        return prn_fail(err, PRONY_EUSAGE, "graph, inputs and ret_measured are needed");
    int code = check_runs(repeats, warmups, err);
    return code < 0 ? code
                    : prn_session_measure(graph, inputs, n_inputs,
                                          &(struct prn_measured_wish){.repeats = (size_t)repeats,
                                                                      .warmups = (size_t)warmups,
                                                                      .outputs = want_outputs != 0},
                                          ret_measured, err);
}

int prony_region_begin(struct prony_session *session, const char *name, struct prony_error *err)
{
    if (!session || !name)
        return prn_fail(err, PRONY_EUSAGE, "session and name are needed");
    return prn_region_begin(&session->regions, name, err);
}

int prony_region_end(struct prony_session *session, struct prony_error *err)
{
    if (!session)
        return prn_fail(err, PRONY_EUSAGE, "session is needed");
    return prn_region_end(&session->regions, err);
}

void prony_region_cancel(struct prony_session *session)
{
    if (session)
        prn_region_cancel(&session->regions);
}

void prony_region_compiled(struct prony_session *session)
{
    if (!session)
        return;
    struct prn_region *region = prn_region_pause(&session->regions);
    prn_region_compiled(region);
    prn_region_resume(region);
}

int prony_session_profile(struct prony_session *session, struct prony_profile **ret_profile,
                          struct prony_error *err)
{
    if (!session || !ret_profile)
        return prn_fail(err, PRONY_EUSAGE, "session and ret_profile are needed");
    struct prony_profile *profile = calloc(1, sizeof *profile);
    if (!profile)
        return prn_fail_memory(err);
    int code = prn_session_profile(session, &profile->inside, err);
    if (code < 0)
        free(profile);
    else
        *ret_profile = profile;
    return code;
}

void prony_profile_free(struct prony_profile *profile)
{
    if (!profile)
        return;
    prn_profile_free(profile->inside);
    free(profile);
}

int prony_profile_recording(const struct prony_profile *profile, size_t index,
                            struct prony_recording *ret_recording)
{
    if (!profile || !ret_recording)
        return PRONY_EUSAGE;
    if (index >= profile->inside->n_profiles)
        return PRONY_ENOENT;
    const struct prn_recorded *p = &profile->inside->profiles[index];
    *ret_recording = (struct prony_recording){
        .region = p->function,
        .runs = p->runs,
        .discarded = p->discarded,
        .compiled = p->compiled,
        .n_graphs = p->n_segments / 2,
        .local_ns = p->local_ns,
    };
    return 0;
}

int prony_profile_total(const struct prony_profile *profile, size_t recording, size_t backend,
                        struct prony_recording_total *ret_total)
{
    if (!profile || !ret_total)
        return PRONY_EUSAGE;
    const struct prn_profile *inside = profile->inside;
    if (recording >= inside->n_profiles || backend >= inside->n_results)
        return PRONY_ENOENT;
    const struct prn_recorded *p = &inside->profiles[recording];
    const struct prn_recorded_total *total = &p->totals[backend];
    struct prony_recording_total result = {
        .backend = inside->results[backend].name,
        .graphs_ns = total->backend_ns,
        .total_ns = total->total_ns,
        .usd_per_million = total->usd_per_million,
    };
    for (size_t i = 1; i < p->n_segments; i += 2) {
        result.samples += p->segments[i].results[backend].times.count;
        result.failures += p->segments[i].results[backend].failed;
    }
    *ret_total = result;
    return 0;
}
