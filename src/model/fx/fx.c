#include "model/fx/fx.h"

#include "base/io.h"
#include "model/external.h"
#include "format/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEPTH_MAX 64
#define FIELDS_MAX ((size_t)1 << 20)

/* ---- From bytes ---- */

static size_t count_outputs(const OctomlFxproto__Value *value)
{
    size_t n = 0;
    switch (value->value_case) {
    case OCTOML_FXPROTO__VALUE__VALUE_NODE_NAME:
    case OCTOML_FXPROTO__VALUE__VALUE_TENSOR:
        return 1;
    case OCTOML_FXPROTO__VALUE__VALUE_LIST:
    case OCTOML_FXPROTO__VALUE__VALUE_TUPLE:
        /* The two share their place. */
        for (size_t i = 0; i < value->list->n_items; i++)
            n += count_outputs(value->list->items[i]);
        return n;
    default:
        return 0;
    }
}

static int describe(struct prn_fx *fx, struct prony_error *err)
{
    const OctomlFxproto__Graph *graph = fx->model->graph;
    fx->inputs = calloc(graph->n_nodes + 1, sizeof *fx->inputs);
    if (!fx->inputs)
        return prn_fail_memory(err);
    for (size_t i = fx->model->n_fixed_inputs; i < graph->n_nodes; i++)
        if (graph->nodes[i]->kind_case == OCTOML_FXPROTO__NODE__KIND_PLACEHOLDER)
            fx->inputs[fx->n_inputs++] = graph->nodes[i]->name;
    fx->n_outputs = count_outputs(graph->nodes[graph->n_nodes - 1]->output->result);
    return 0;
}

void prn_fx_free(struct prn_fx *fx)
{
    if (!fx)
        return;
    if (fx->model)
        protobuf_c_message_free_unpacked(&fx->model->base, NULL);
    free(fx->inputs);
    free(fx);
}

static int unpack(const void *data, size_t bytes, struct prn_fx *fx, struct prony_error *err)
{
    const uint8_t *from = data;
    if (bytes > PRN_FX_BYTES_MAX)
        return prn_fail(err, PRONY_ELIMIT, "it has more than %zu bytes", PRN_FX_BYTES_MAX);
    int code =
        prn_wire_check((struct prn_wire){from, from + bytes}, &octoml_fxproto__model__descriptor,
                       (struct prn_wire_limits){DEPTH_MAX, FIELDS_MAX}, err);
    if (code < 0)
        return code;
    fx->model = octoml_fxproto__model__unpack(NULL, bytes, data);
    if (!fx->model)
        return prn_fail(err, PRONY_EFORMAT, "a field is of the wrong kind");
    code = prn_fx_check(fx->model, err);
    return code < 0 ? code : describe(fx, err);
}

int prn_fx_unpack(const void *data, size_t bytes, struct prn_fx **ret_fx, struct prony_error *err)
{
    struct prn_fx *fx = calloc(1, sizeof *fx);
    if (!fx)
        return prn_fail_memory(err);
    int code = unpack(data, bytes, fx, err);
    if (code < 0) {
        prn_fx_free(fx);
        return prn_fail_in(err, code, "the FXPROTO graph can't be read");
    }
    *ret_fx = fx;
    return 0;
}

/* ---- From files ---- */

/* Sizes of the files of weights, looked up once each. */
struct weights {
    int folder_fd;
    int64_t sizes[PRN_FX_FILES_MAX]; /* 0: not looked at yet; else one more than the size */
    struct prony_error *err;
};

static int size_of_file(struct weights *w, size_t index, int64_t *ret_bytes)
{
    if (w->sizes[index] == 0) {
        char name[64];
        struct stat status;
        snprintf(name, sizeof name, "weights/%zu", index);
        int fd = prn_external_open(w->folder_fd, name);
        int error = fd < 0 || fstat(fd, &status) < 0 ? errno : 0;
        if (fd >= 0)
            close(fd);
        if (error)
            return prn_fail_errno(w->err, error, "open", name);
        if (!S_ISREG(status.st_mode))
            return prn_fail(w->err, PRONY_EFORMAT, "'%s' isn't a file", name);
        w->sizes[index] = status.st_size + 1;
    }
    *ret_bytes = w->sizes[index] - 1;
    return 0;
}

static int check_value(struct weights *w, const OctomlFxproto__Value *value);

static int check_items(struct weights *w, OctomlFxproto__Value *const *items, size_t n)
{
    int code = 0;
    for (size_t i = 0; code == 0 && i < n; i++)
        code = check_value(w, items[i]);
    return code;
}

static int check_value(struct weights *w, const OctomlFxproto__Value *value)
{
    if (value->value_case == OCTOML_FXPROTO__VALUE__VALUE_LIST ||
        value->value_case == OCTOML_FXPROTO__VALUE__VALUE_TUPLE)
        return check_items(w, value->list->items, value->list->n_items);
    if (value->value_case != OCTOML_FXPROTO__VALUE__VALUE_TENSOR)
        return 0;
    const OctomlFxproto__TensorValue *t = value->tensor;
    int64_t bytes = 0;
    int code = size_of_file(w, (size_t)t->weight_file_index, &bytes);
    if (code < 0)
        return code;
    if (t->weight_file_offset > bytes || t->size_bytes > bytes - t->weight_file_offset)
        return prn_fail(w->err, PRONY_EFORMAT,
                        "a tensor of %lld bytes at %lld lies outside of 'weights/%lld', which has "
                        "%lld",
                        (long long)t->size_bytes, (long long)t->weight_file_offset,
                        (long long)t->weight_file_index, (long long)bytes);
    return 0;
}

static int check_call(struct weights *w, const OctomlFxproto__CallFunctionNode *call)
{
    int code = check_items(w, call->args, call->n_args);
    for (size_t i = 0; code == 0 && i < call->n_kwargs; i++)
        code = check_value(w, call->kwargs[i]->value);
    return code;
}

static int check_weights(const OctomlFxproto__Model *model, struct weights *w)
{
    int code = 0;
    for (size_t i = 0; code == 0 && i < model->n_fixed_inputs; i++)
        code = check_value(w, model->fixed_inputs[i]->value);
    for (size_t i = 0; code == 0 && i < model->graph->n_nodes; i++) {
        const OctomlFxproto__Node *node = model->graph->nodes[i];
        if (node->kind_case == OCTOML_FXPROTO__NODE__KIND_CALL_FUNCTION)
            code = check_call(w, node->call_function);
        else if (node->kind_case == OCTOML_FXPROTO__NODE__KIND_OUTPUT)
            code = check_value(w, node->output->result);
    }
    return code;
}

static int check_files(const char *path, const struct prn_fx *fx, struct prony_error *err)
{
    struct weights *w = calloc(1, sizeof *w);
    if (!w)
        return prn_fail_memory(err);
    w->err = err;
    int code = prn_external_folder(path, &w->folder_fd, err);
    if (code == 0) {
        code = check_weights(fx->model, w);
        close(w->folder_fd);
    }
    free(w);
    return code;
}

static int read_file(const char *path, void **ret_data, size_t *ret_bytes, struct prony_error *err)
{
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return prn_fail_errno(err, errno, "open", path);
    int code = 0;
    void *data = NULL;
    if (fstat(fd, &status) < 0)
        code = prn_fail_errno(err, errno, "read", path);
    else if (!S_ISREG(status.st_mode))
        code = prn_fail(err, PRONY_EFORMAT, "'%s' isn't a file", path);
    else if ((uint64_t)status.st_size > PRN_FX_BYTES_MAX)
        code = prn_fail(err, PRONY_ELIMIT, "'%s' has more than %zu bytes", path, PRN_FX_BYTES_MAX);
    else if (!(data = malloc((size_t)status.st_size + 1)))
        code = prn_fail_memory(err);
    else if (prn_pread_all(fd, data, (size_t)status.st_size, 0) < 0)
        code = prn_fail_errno(err, errno, "read", path);
    close(fd);
    if (code < 0) {
        free(data);
        return code;
    }
    *ret_data = data;
    *ret_bytes = (size_t)status.st_size;
    return 0;
}

int prn_fx_open(const char *path, struct prn_fx **ret_fx, struct prony_error *err)
{
    void *data = NULL;
    size_t bytes = 0;
    struct prn_fx *fx;
    int code = read_file(path, &data, &bytes, err);
    if (code < 0)
        return code;
    code = prn_fx_unpack(data, bytes, &fx, err);
    free(data);
    if (code < 0)
        return code;
    code = check_files(path, fx, err);
    if (code < 0)
        prn_fx_free(fx);
    else
        *ret_fx = fx;
    return code;
}
