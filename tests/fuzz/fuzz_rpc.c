/* Messages from the network: the first byte says of which kind, and in pieces of how many bytes the
 * rest comes. What could be read is written again, and must then read the same. */
#include "rpc/messages.h"

#include <inference_base.pb-c.h>
#include <prony.pb-c.h>
#include <remote_inference.pb-c.h>

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct prn_bytes *in_pieces(const uint8_t *data, size_t size, size_t step)
{
    struct prn_out *out = prn_out_new();
    for (size_t at = 0; at < size; at += step)
        prn_out_borrow(out, data + at, at + step < size ? step : size - at, NULL, NULL);
    return prn_bytes_from(out);
}

/* Every byte of a tensor is read, into a block that becomes the data of the one to be written. */
static void fetch(const struct prn_bytes *bytes, struct prn_arena *arena,
                  struct prn_rpc_tensor *tensor)
{
    void *copy = prn_arena_alloc(arena, tensor->bytes + 1);
    if (!copy || tensor->bytes != tensor->range.length)
        abort();
    prn_bytes_copy(bytes, tensor->range, copy);
    tensor->data = copy;
}

static void same_tensor(const struct prn_rpc_tensor *a, const struct prn_rpc_tensor *b)
{
    if (a->dtype != b->dtype || a->rank != b->rank || a->bytes != b->bytes ||
        (a->rank && memcmp(a->dims, b->dims, a->rank * sizeof *a->dims) != 0))
        abort();
}

static void check_run(const struct prn_bytes *bytes, struct prn_arena *arena)
{
    struct prn_rpc_run run;
    struct prn_rpc_run again;
    struct prony_error err;
    if (prn_rpc_read_run(bytes, arena, &run, &err) < 0)
        return;
    for (size_t i = 0; i < run.n_inputs; i++)
        fetch(bytes, arena, &run.inputs[i]);
    struct prn_bytes *written = prn_bytes_from(prn_rpc_write_run(&run, NULL, NULL));
    if (prn_rpc_read_run(written, arena, &again, &err) < 0 || again.n_inputs != run.n_inputs ||
        again.n_maps != run.n_maps || again.model_id != run.model_id ||
        again.inference != run.inference || again.repeats != run.repeats)
        abort();
    for (size_t i = 0; i < run.n_inputs; i++)
        same_tensor(&run.inputs[i], &again.inputs[i]);
    for (size_t i = 0; i < run.n_maps; i++)
        for (size_t k = 0; k < run.maps[i].n; k++)
            if (run.maps[i].indices[k] < 0 || (size_t)run.maps[i].indices[k] >= run.n_inputs)
                abort();
    prn_bytes_free(written);
}

static void check_results(const struct prn_bytes *bytes, struct prn_arena *arena)
{
    struct prn_rpc_result *results;
    struct prn_rpc_result *again;
    struct prony_error err;
    size_t n;
    size_t n_again;
    if (prn_rpc_read_results(bytes, arena, &results, &n, &err) < 0)
        return;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < results[i].n_outputs; k++)
            fetch(bytes, arena, &results[i].outputs[k]);
    struct prn_bytes *written = prn_bytes_from(prn_rpc_write_results(results, n, NULL, NULL));
    if (prn_rpc_read_results(written, arena, &again, &n_again, &err) < 0 || n_again != n)
        abort();
    for (size_t i = 0; i < n; i++) {
        if (!results[i].error != !again[i].error || results[i].n_times != again[i].n_times ||
            results[i].n_outputs != again[i].n_outputs)
            abort();
        for (size_t k = 0; k < results[i].n_outputs; k++)
            same_tensor(&results[i].outputs[k], &again[i].outputs[k]);
    }
    prn_bytes_free(written);
}

static void check_component(const struct prn_bytes *bytes, struct prn_arena *arena)
{
    struct prn_rpc_component component;
    struct prn_rpc_component again;
    struct prony_error err;
    if (prn_rpc_read_component(bytes, arena, &component, &err) < 0)
        return;
    void *chunk = prn_arena_alloc(arena, component.chunk.length + 1);
    if (!chunk)
        abort();
    prn_bytes_copy(bytes, component.chunk, chunk);
    struct prn_bytes *written = prn_bytes_from(
        prn_rpc_write_component(&component, chunk, component.chunk.length, NULL, NULL));
    if (prn_rpc_read_component(written, arena, &again, &err) < 0 ||
        again.first != component.first || again.chunk.length != component.chunk.length ||
        (again.first && strcmp(again.filename, component.filename) != 0))
        abort();
    prn_bytes_free(written);
}

static void check_other(const struct prn_bytes *bytes, const ProtobufCMessageDescriptor *type)
{
    ProtobufCMessage *message;
    struct prony_error err;
    if (prn_rpc_unpack(bytes, type, &message, &err) < 0)
        return;
    prn_out_free(prn_rpc_pack(message));
    protobuf_c_message_free_unpacked(message, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const ProtobufCMessageDescriptor *const types[] = {
        &octoml_profile__create_session_request__descriptor,
        &octoml_profile__load_model_request__descriptor,
        &octoml_profile__list_supported_backends_reply__descriptor,
        &prony__worker_command__descriptor,
        &prony__worker_report__descriptor,
    };
    if (size == 0)
        return 0;
    struct prn_arena arena = PRN_ARENA_INIT((size_t)64 << 20);
    size_t kind = data[0] % 8;
    struct prn_bytes *bytes = in_pieces(data + 1, size - 1, (size_t)data[0] / 8 + 1);
    if (kind == 0)
        check_run(bytes, &arena);
    else if (kind == 1)
        check_results(bytes, &arena);
    else if (kind == 2)
        check_component(bytes, &arena);
    else
        check_other(bytes, types[kind - 3]);
    prn_bytes_free(bytes);
    prn_arena_release(&arena);
    return 0;
}
