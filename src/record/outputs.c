/* The public functions for outputs, and comparing them with what the caller computed. */
#include "record/graph.h"

#include "base/io.h"
#include "measure/measure.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Numbers of 16 bits and fewer have no more than two or three digits. */
#define TOLERANCE_HALF 2e-2

int prony_outputs_get(const struct prony_outputs *outputs, size_t index,
                      struct prony_tensor *ret_tensor)
{
    if (!outputs || !ret_tensor)
        return PRONY_EUSAGE;
    if (index >= outputs->n)
        return PRONY_ENOENT;
    const struct prn_place *place = &outputs->places[index];
    *ret_tensor = (struct prony_tensor){
        .name = place->name,
        .dtype = place->dtype,
        .rank = place->rank,
        .dims = place->dims,
        .data = outputs->data + place->offset,
        .bytes = place->bytes,
    };
    return 0;
}

int prony_outputs_find(const struct prony_outputs *outputs, const char *name,
                       struct prony_tensor *ret_tensor)
{
    if (!outputs || !name)
        return PRONY_EUSAGE;
    for (size_t i = 0; i < outputs->n; i++)
        if (strcmp(outputs->places[i].name, name) == 0)
            return prony_outputs_get(outputs, i, ret_tensor);
    return PRONY_ENOENT;
}

const char *prony_outputs_backend(const struct prony_outputs *outputs)
{
    return outputs ? outputs->backend : NULL;
}

void prony_outputs_free(struct prony_outputs *outputs)
{
    if (!outputs)
        return;
    prn_arena_release(&outputs->arena);
    free(outputs->data);
    free(outputs);
}

/* ---- Comparing ---- */

/* Tensors in shared memory, which is where prn_outputs_compare() reads them. */
struct held {
    int fd;
    struct prn_place *places; /* heap */
};

static void drop(struct held *held)
{
    if (held->fd >= 0)
        close(held->fd);
    free(held->places);
}

static int hold(const struct prony_tensor *tensors, size_t n, struct held *ret_held,
                struct prony_error *err)
{
    struct held held = {.fd = memfd_create("prony-expected", MFD_CLOEXEC),
                        .places = calloc(n + 1, sizeof *held.places)};
    int code = 0;
    size_t offset = 0;
    if (held.fd < 0)
        code = prn_fail_errno(err, errno, "create", "shared memory");
    else if (!held.places)
        code = prn_fail_memory(err);
    for (size_t i = 0; code == 0 && i < n; i++) {
        const struct prony_tensor *t = &tensors[i];
        held.places[i] = (struct prn_place){.name = t->name,
                                            .dtype = t->dtype,
                                            .rank = t->rank,
                                            .offset = offset,
                                            .bytes = t->bytes};
        if (t->rank > 0)
            memcpy(held.places[i].dims, t->dims, t->rank * sizeof *t->dims);
        if (prn_pwrite_all(held.fd, t->data, t->bytes, offset) < 0)
            code = prn_fail_errno(err, errno, "write", "shared memory");
        offset += t->bytes;
    }
    if (code < 0)
        drop(&held);
    else
        *ret_held = held;
    return code;
}

static int hold_outputs(const struct prony_outputs *outputs, struct held *ret_held,
                        struct prony_error *err)
{
    struct prony_tensor *tensors = calloc(outputs->n + 1, sizeof *tensors);
    int code = tensors ? 0 : prn_fail_memory(err);
    for (size_t i = 0; code == 0 && i < outputs->n; i++)
        code = prony_outputs_get(outputs, i, &tensors[i]);
    if (code == 0)
        code = hold(tensors, outputs->n, ret_held, err);
    free(tensors);
    return code;
}

/* A backend that was told to compute with fewer digits gives no more of them. */
static bool computes_in_half(const struct prn_spec *backend)
{
    for (size_t i = 0; i < backend->n_options; i++)
        if (strcmp(backend->options[i].key, "fp16") == 0 ||
            strcmp(backend->options[i].key, "bf16") == 0)
            return true;
    return false;
}

static double tolerance_of(const struct prn_spec *backend, int dtype)
{
    return prn_dtype_bits(dtype) < 32 || computes_in_half(backend) ? TOLERANCE_HALF
                                                                   : PRN_TOLERANCE_DEFAULT;
}

static int compare_held(struct prony_graph *graph, size_t backend, const struct held *expected,
                        size_t n, const struct held *given, struct prony_error *err)
{
    struct prn_graph_check *check = &graph->on[backend].check;
    int code = prn_outputs_compare(expected->fd, expected->places, given->fd, given->places, n,
                                   &graph->arena, &check->outputs, err);
    if (code < 0)
        return code;
    check->n_outputs = n;
    prn_outputs_allow(check->outputs, expected->places, n, 1, false);
    for (size_t i = 0; i < n; i++)
        check->mismatch |=
            prn_output_differs(&check->outputs[i], tolerance_of(&graph->host->backends[backend],
                                                                expected->places[i].dtype));
    return 0;
}

static int compare_on(struct prony_graph *graph, size_t backend, const struct held *expected,
                      size_t n, struct prony_error *err)
{
    struct prony_outputs *outputs;
    struct held given;
    int code = prn_graph_outputs(graph, backend, &outputs, err);
    if (code < 0)
        return code;
    if (outputs->n != n)
        code = prn_fail(err, PRONY_ERUNTIME, "it gave %zu outputs instead of %zu", outputs->n, n);
    if (code == 0)
        code = hold_outputs(outputs, &given, err);
    if (code == 0) {
        code = compare_held(graph, backend, expected, n, &given, err);
        drop(&given);
    }
    prony_outputs_free(outputs);
    return code;
}

int prn_graph_compare(struct prony_graph *graph, const struct prony_tensor *expected, size_t n,
                      struct prony_error *err)
{
    struct held held;
    int code = hold(expected, n, &held, err);
    if (code < 0)
        return code;
    for (size_t i = 0; code == 0 && i < graph->host->n_backends; i++) {
        struct prn_graph_backend *on = &graph->on[i];
        struct prony_error reason;
        if (!on->loaded || on->failure.code < 0 || on->check.compared)
            continue;
        on->check.compared = true;
        if (compare_on(graph, i, &held, n, &reason) == 0)
            continue;
        on->check.failure = prn_arena_strdup(&graph->arena, reason.text);
        if (!on->check.failure)
            code = prn_fail_memory(err);
    }
    drop(&held);
    return code;
}
