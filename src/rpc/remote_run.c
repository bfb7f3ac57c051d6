/* Runs on a service: inputs go out of the caller's memory, outputs are copied once, to where they
 * stay. */
#include "rpc/remote_parts.h"

#include "base/clock.h"
#include "record/graph.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ARENA_BYTES ((size_t)256 << 20)
#define ALIGNMENT 64
#define TIMEOUT_MAX_S 604800.0
#define STREAM_IDLE_NS 100000000

struct prn_remote_reply {
    struct prn_arena arena;
    struct prn_bytes *bytes;
    size_t n_results;
    struct prn_rpc_result *results;
};

void prn_remote_reply_free(struct prn_remote_reply *reply)
{
    if (!reply)
        return;
    prn_bytes_free(reply->bytes);
    prn_arena_release(&reply->arena);
    free(reply);
}

static int fill_request(const struct prn_remote *r, const struct prn_remote_run *run,
                        struct prn_arena *arena, struct prn_rpc_run *ret_request,
                        struct prony_error *err)
{
    struct prn_rpc_run request = {
        .model_id = run->model,
        .n_inputs = run->n_inputs,
        .inputs = PRN_ARENA_ARRAY(arena, run->n_inputs + 1, struct prn_rpc_tensor),
        .n_maps = r->n_backends,
        .maps = PRN_ARENA_ARRAY(arena, r->n_backends, struct prn_rpc_map),
        .repeats = run->repeats,
        .has_repeats = true,
        .warmups = run->warmups,
        .inference = run->outputs,
    };
    if (!request.inputs || !request.maps)
        return prn_fail_memory(err);
    memcpy(request.session, r->session, sizeof request.session);
    for (size_t i = 0; i < run->n_inputs; i++) {
        const struct prony_tensor *t = &run->inputs[i];
        request.inputs[i] = (struct prn_rpc_tensor){.dtype = t->dtype,
                                                    .rank = t->rank,
                                                    .dims = t->dims,
                                                    .data = t->data,
                                                    .bytes = t->bytes};
    }
    for (size_t i = 0; i < r->n_backends; i++)
        request.maps[i] =
            (struct prn_rpc_map){run->maps[i].n, (int32_t *)(uintptr_t)run->maps[i].indices};
    *ret_request = request;
    return 0;
}

/* All backends of a host take turns, so their times add up. */
static double timeout_of(const struct prn_remote *r, const struct prn_remote_run *run)
{
    double runs = (double)(run->warmups + run->repeats) * (double)r->n_backends;
    return fmin(PRN_REMOTE_CALL_S + run->timeout_s * runs, TIMEOUT_MAX_S);
}

void prn_remote_end_runs(struct prn_remote *r)
{
    prn_stream_free(r->runs);
    r->runs = NULL;
}

/* A call for each run, as the contract has it. */
static int ask_by_call(struct prn_remote *r, struct prn_out *out, double timeout_s,
                       struct prn_remote_reply *reply, struct prony_error *err)
{
    struct prn_answer answer = {0};
    int code = prn_channel_call(r->calls, PRN_REMOTE_METHOD("Run"), out, timeout_s, &reply->bytes,
                                &answer, err);
    return code < 0 ? prn_remote_denied(r, answer.status, code, err) : 0;
}

/* Runs that come close upon each other go through one stream, because to begin and to end a call
 * takes gRPC longer than to carry a message. One that has been idle is replaced: nobody has looked
 * whether its connection is still there. */
static int open_runs(struct prn_remote *r, struct prony_error *err)
{
    if (r->runs && prn_clock_ns() - r->ran_ns > STREAM_IDLE_NS)
        prn_remote_end_runs(r);
    return r->runs ? 0 : prn_stream_open(r->calls, "/prony.Prony/Runs", 0, &r->runs, err);
}

/* What came, or didn't, in the stream of runs. */
static int end_run(struct prn_remote *r, const struct prn_remote_reply *reply, int code,
                   struct prony_error *err)
{
    r->ran_ns = prn_clock_ns();
    if (code == 0 && reply->bytes)
        return 0;
    enum prn_status status = prn_stream_status(r->runs);
    prn_remote_end_runs(r);
    return code < 0 ? prn_remote_denied(r, status, code, err)
                    : prn_remote_odd(r, "without a message", err);
}

static int ask_by_stream(struct prn_remote *r, struct prn_out *out, double timeout_s,
                         struct prn_remote_reply *reply, struct prony_error *err)
{
    int code = open_runs(r, err);
    if (code < 0) {
        prn_out_free(out);
        return code;
    }
    code = prn_stream_ask(r->runs, out, timeout_s, &reply->bytes, err);
    return end_run(r, reply, code, err);
}

static int call(struct prn_remote *r, const struct prn_remote_run *run,
                struct prn_remote_reply *reply, struct prony_error *err)
{
    struct prn_loan loan = PRN_LOAN_INIT;
    struct prn_rpc_run request;
    int code = fill_request(r, run, &reply->arena, &request, err);
    if (code == 0) {
        prn_loan_take(&loan);
        struct prn_out *out = prn_rpc_write_run(&request, prn_loan_return, &loan);
        code = (r->has_runs ? ask_by_stream : ask_by_call)(r, out, timeout_of(r, run), reply, err);
    }
    prn_loan_settle(&loan);
    return code;
}

static int take_result(const struct prn_rpc_result *from, struct prn_arena *arena,
                       struct prn_remote_result *to, struct prony_error *err)
{
    *to = (struct prn_remote_result){.error = from->error};
    if (from->error) {
        to->error_code = prn_remote_error_code(from->error_code);
        return 0;
    }
    to->prepare_ns = from->prepare_ns <= INT64_MAX ? (int64_t)from->prepare_ns : INT64_MAX;
    to->samples_ns = PRN_ARENA_ARRAY(arena, from->n_times + 1, int64_t);
    if (!to->samples_ns)
        return prn_fail_memory(err);
    for (; to->n_samples < from->n_times; to->n_samples++) {
        uint64_t ns = from->times_ns[to->n_samples];
        to->samples_ns[to->n_samples] = ns <= INT64_MAX ? (int64_t)ns : INT64_MAX;
    }
    return 0;
}

static struct prn_remote_reply *new_reply(void)
{
    struct prn_remote_reply *reply = calloc(1, sizeof *reply);
    if (reply)
        reply->arena = PRN_ARENA_INIT(ARENA_BYTES);
    return reply;
}

/* Reads what came. The reply is the caller's only on success. */
static int take_reply(const struct prn_remote *r, struct prn_remote_reply *reply, int code,
                      struct prn_remote_result *results, struct prn_remote_reply **ret_reply,
                      struct prony_error *err)
{
    if (code == 0 && prn_rpc_read_results(reply->bytes, &reply->arena, &reply->results,
                                          &reply->n_results, err) < 0)
        code = prn_remote_odd(r, "what aren't results of a run", err);
    if (code == 0 && reply->n_results != r->n_backends)
        code = prn_remote_odd(r, "for another number of backends", err);
    for (size_t i = 0; code == 0 && i < r->n_backends; i++)
        code = take_result(&reply->results[i], &reply->arena, &results[i], err);
    if (code < 0)
        prn_remote_reply_free(reply);
    else
        *ret_reply = reply;
    return code;
}

int prn_remote_run(struct prn_remote *r, const struct prn_remote_run *run,
                   struct prn_remote_result *results, struct prn_remote_reply **ret_reply,
                   struct prony_error *err)
{
    struct prn_remote_reply *reply = new_reply();
    if (!reply)
        return prn_fail_memory(err);
    return take_reply(r, reply, call(r, run, reply, err), results, ret_reply, err);
}

/* ---- In two halves ---- */

struct prn_remote_begun {
    struct prn_remote *remote;
    struct prn_remote_reply *reply;
    struct prn_stream *stream; /* of this run alone; NULL: it is in the stream of runs */
    double timeout_s;
    struct prn_loan loan; /* of the inputs */
};

/* Without the reply. */
static void free_begun(struct prn_remote_begun *begun)
{
    prn_stream_free(begun->stream);
    prn_loan_settle(&begun->loan);
    free(begun);
}

void prn_remote_abandon(struct prn_remote_begun *begun)
{
    if (!begun)
        return;
    if (!begun->stream)
        prn_remote_end_runs(begun->remote);
    prn_remote_reply_free(begun->reply);
    free_begun(begun);
}

static int send_request(struct prn_remote *r, const struct prn_remote_run *run,
                        struct prn_remote_begun *begun, struct prony_error *err)
{
    struct prn_rpc_run request;
    double timeout_s = begun->timeout_s = timeout_of(r, run);
    int code = fill_request(r, run, &begun->reply->arena, &request, err);
    if (code == 0)
        code = r->has_runs ? open_runs(r, err)
                           : prn_stream_open(r->calls, PRN_REMOTE_METHOD("Run"), timeout_s,
                                             &begun->stream, err);
    if (code < 0)
        return code;
    prn_loan_take(&begun->loan);
    struct prn_out *out = prn_rpc_write_run(&request, prn_loan_return, &begun->loan);
    code = prn_stream_send(r->has_runs ? r->runs : begun->stream, out, timeout_s, err);
    return code == 0 && begun->stream ? prn_stream_end(begun->stream, err) : code;
}

int prn_remote_begin(struct prn_remote *r, const struct prn_remote_run *run,
                     struct prn_remote_begun **ret_begun, struct prony_error *err)
{
    struct prn_remote_begun *begun = calloc(1, sizeof *begun);
    if (!begun)
        return prn_fail_memory(err);
    *begun = (struct prn_remote_begun){.remote = r, .reply = new_reply(), .loan = PRN_LOAN_INIT};
    int code = begun->reply ? send_request(r, run, begun, err) : prn_fail_memory(err);
    if (code < 0)
        prn_remote_abandon(begun);
    else
        *ret_begun = begun;
    return code;
}

/* A call of its own has ended well only when nothing else comes. */
static int finish_alone(struct prn_remote *r, struct prn_remote_begun *begun,
                        struct prony_error *err)
{
    struct prn_bytes *more = NULL;
    int code = prn_stream_receive(begun->stream, 0, &begun->reply->bytes, err);
    if (code == 0 && !begun->reply->bytes)
        code = prn_remote_odd(r, "without a message", err);
    if (code == 0)
        code = prn_stream_receive(begun->stream, 0, &more, err);
    prn_bytes_free(more);
    return code;
}

int prn_remote_finish(struct prn_remote *r, struct prn_remote_begun *begun,
                      struct prn_remote_result *results, struct prn_remote_reply **ret_reply,
                      struct prony_error *err)
{
    struct prn_remote_reply *reply = begun->reply;
    int code;
    if (begun->stream) {
        code = finish_alone(r, begun, err);
    } else {
        code = prn_stream_receive(r->runs, begun->timeout_s, &reply->bytes, err);
        code = end_run(r, reply, code, err);
    }
    free_begun(begun);
    return take_reply(r, reply, code, results, ret_reply, err);
}

/* ---- Outputs ---- */

static int place_output(const struct prn_rpc_tensor *t, const char *name, size_t *offset,
                        struct prn_arena *arena, struct prn_place *ret_place,
                        struct prony_error *err)
{
    if (t->rank > PRN_RUNTIME_RANK_MAX)
        return prn_fail(err, PRONY_ELIMIT, "an output has more than %d dimensions",
                        PRN_RUNTIME_RANK_MAX);
    struct prn_place place = {.name = prn_arena_strdup(arena, name),
                              .dtype = t->dtype,
                              .rank = t->rank,
                              .offset = *offset,
                              .bytes = t->range.length};
    if (!place.name)
        return prn_fail_memory(err);
    if (t->rank > 0)
        memcpy(place.dims, t->dims, t->rank * sizeof *t->dims);
    *offset = (*offset + place.bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    *ret_place = place;
    return 0;
}

static int fill_outputs(const struct prn_remote_reply *reply, const struct prn_rpc_result *result,
                        const char *const *names, size_t n_names, struct prony_outputs *outputs,
                        struct prony_error *err)
{
    size_t offset = 0;
    int code = 0;
    outputs->places = PRN_ARENA_ARRAY(&outputs->arena, result->n_outputs + 1, struct prn_place);
    if (!outputs->places)
        return prn_fail_memory(err);
    for (size_t i = 0; code == 0 && i < result->n_outputs; i++) {
        const char *name = result->names ? result->names[i] : i < n_names ? names[i] : "";
        code = place_output(&result->outputs[i], name, &offset, &outputs->arena,
                            &outputs->places[i], err);
    }
    if (code < 0)
        return code;
    outputs->data = malloc(offset + 1);
    if (!outputs->data)
        return prn_fail_memory(err);
    for (; outputs->n < result->n_outputs; outputs->n++)
        prn_bytes_copy(reply->bytes, result->outputs[outputs->n].range,
                       outputs->data + outputs->places[outputs->n].offset);
    return 0;
}

int prn_remote_outputs(const struct prn_remote_reply *reply, size_t backend,
                       const char *const *names, size_t n_names, struct prony_outputs **ret_outputs,
                       struct prony_error *err)
{
    struct prony_outputs *outputs = calloc(1, sizeof *outputs);
    if (!outputs)
        return prn_fail_memory(err);
    outputs->arena = PRN_ARENA_INIT(ARENA_BYTES);
    int code = fill_outputs(reply, &reply->results[backend], names, n_names, outputs, err);
    if (code < 0)
        prony_outputs_free(outputs);
    else
        *ret_outputs = outputs;
    return code;
}
