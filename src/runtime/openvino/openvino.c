/*
 * OpenVINO behind prony's vtable. A run is one synchronous inference of one request: inputs are
 * tensors over the shared memory, outputs are kept by the request.
 *
 * - It computes in f32 unless asked otherwise: left alone it takes bf16 where the processor has it,
 *   and its outputs would not be those of the model.
 * - Other precisions are proven when the runtime is opened: a small product of matrices must come
 *   out differently than in f32, otherwise the option is refused.
 * - Its counters become a trace that prony reads (profiler.h).
 * - The core, and with it the processor's plugin, is made before the sandbox closes.
 */
#include "model/dtype.h"
#include "runtime/openvino/api.h"
#include "runtime/openvino/precision.h"
#include "runtime/openvino/profiler.h"
#include "runtime/runtime.h"
#include "runtime/strings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEVICE "CPU"
#define INPUTS_MAX 1024

struct prn_runtime {
    struct ov_library library;
    char version[64];
    ov_core_t *core;
    ov_compiled_model_t *compiled;
    ov_infer_request_t *request;
    size_t n_ports; /* inputs of the compiled model */
    ov_tensor_t **inputs;
    int *places; /* of the inputs among the ports */
    size_t n_inputs;
    char **output_names;
    size_t n_outputs;
    /* what the last output() call handed out */
    ov_tensor_t *output;
    int64_t dims[PRN_RUNTIME_RANK_MAX];
    char *profile_folder;         /* NULL: no profiler */
    struct ov_profiler *profiler; /* since load */
    bool is_lane;                 /* all but the request and the output is borrowed */
};

/* "Exception from src/core/src/x.cpp:12:\nCheck 'a == b' failed at src/y.cpp:3:\nreason": what
 * follows the places in its own source matters to a user. */
static void cut_source_places(char *text)
{
    for (;;) {
        char *mark = strstr(text, ".cpp:");
        if (!mark)
            return;
        char *begin = mark;
        while (begin > text && begin[-1] != '\n')
            begin--;
        char *end = mark + 5;
        end += strspn(end, "0123456789:\n ");
        memmove(begin, end, strlen(end) + 1);
    }
}

/* Lines become one; what was cut leaves blanks. */
static void join_lines(char *text)
{
    char *to = text;
    for (const char *from = text; *from; from++) {
        bool blank = *from == '\n' || *from == ' ' || *from == '\t';
        if (!blank)
            *to++ = *from;
        else if (to > text && to[-1] != ' ')
            *to++ = ' ';
    }
    while (to > text && to[-1] == ' ')
        to--;
    *to = '\0';
}

static int check(const struct prn_runtime *r, int status, int code, struct prony_error *err)
{
    if (status == 0)
        return 0;
    const struct ov_api *api = &r->library.api;
    /* Of what the C API itself refuses there is no message; the last one is of something else. */
    const char *message = status > OV_INVALID_C_PARAM ? api->ov_get_last_err_msg() : NULL;
    char *text = strdup(message && message[0] ? message : api->ov_get_error_info(status));
    if (text) {
        cut_source_places(text);
        join_lines(text);
    }
    prn_fail(err, code, "%s", text && text[0] ? text : api->ov_get_error_info(status));
    free(text);
    return code;
}

/* ---- Options ---- */

static int set_property(struct prn_runtime *r, const char *key, const char *value,
                        struct prony_error *err)
{
    int code = check(r, r->library.api.ov_core_set_property(r->core, DEVICE, key, value),
                     PRONY_EUSAGE, err);
    return code < 0 ? prn_fail_in(err, code, "%s=%s", key, value) : 0;
}

static int set_option(struct prn_runtime *r, const struct prn_spec_option *o,
                      struct prony_error *err)
{
    if (strcmp(o->key, "threads") == 0)
        return set_property(r, "INFERENCE_NUM_THREADS", o->value, err);
    if (strcmp(o->key, "streams") == 0)
        return set_property(r, "NUM_STREAMS", o->value, err);
    if (strcmp(o->key, "hint") == 0)
        return set_property(r, "PERFORMANCE_HINT",
                            strcmp(o->value, "latency") == 0 ? "LATENCY" : "THROUGHPUT", err);
    if (strcmp(o->key, "ov.INFERENCE_PRECISION_HINT") == 0)
        return prn_fail(err, PRONY_EUSAGE, "'%s' is set by precision=, which proves it", o->key);
    if (strncmp(o->key, "ov.", 3) == 0)
        return set_property(r, o->key + 3, o->value, err);
    return 0; /* lib and precision were used before */
}

static void ov_close(struct prn_runtime *r);

static int open_core(struct prn_runtime *r, const struct prn_runtime_config *config,
                     struct prony_error *err)
{
    const struct ov_api *api = &r->library.api;
    const char *precision = prn_runtime_option_of(config, "precision", "f32");
    char *device = NULL;
    int code = check(r, api->ov_core_create(&r->core), PRONY_ERUNTIME, err);
    /* The plugin is loaded when it is first asked something; an unknown property is told then. */
    if (code == 0)
        code = check(r, api->ov_core_get_property(r->core, DEVICE, "FULL_DEVICE_NAME", &device),
                     PRONY_EUNAVAILABLE, err);
    if (device)
        api->ov_free(device);
    if (code == 0)
        code = set_property(r, "INFERENCE_PRECISION_HINT", precision, err);
    for (size_t i = 0; code == 0 && i < config->n_options; i++)
        code = set_option(r, &config->options[i], err);
    if (code == 0 && config->profile_folder) {
        r->profile_folder = strdup(config->profile_folder);
        code = r->profile_folder ? set_property(r, "PERF_COUNT", "YES", err) : prn_fail_memory(err);
    }
    if (code == 0 && strcmp(precision, "f32") != 0)
        code = ov_precision_prove(api, r->core, precision, err);
    return code;
}

static int ov_open(const struct prn_runtime_config *config, struct prn_runtime **ret_runtime,
                   struct prony_error *err)
{
    struct prn_runtime *r = calloc(1, sizeof *r);
    if (!r)
        return prn_fail_memory(err);
    int code = ov_library_load(&r->library, config, err);
    if (code == 0) {
        snprintf(r->version, sizeof r->version, "OpenVINO %s", r->library.version);
        code = open_core(r, config, err);
    }
    if (code < 0) {
        ov_close(r);
        return code;
    }
    *ret_runtime = r;
    return 0;
}

static const char *ov_version(const struct prn_runtime *r)
{
    return r->version;
}

static const char *ov_library(const struct prn_runtime *r)
{
    return r->library.loaded.path;
}

static const char *ov_origin(const struct prn_runtime *r)
{
    return r->library.loaded.origin;
}

/* ---- Loading ---- */

static int name_outputs(struct prn_runtime *r, const ov_model_t *model, struct prony_error *err)
{
    const struct ov_api *api = &r->library.api;
    size_t n = 0;
    int code = check(r, api->ov_model_outputs_size(model, &n), PRONY_ERUNTIME, err);
    if (code < 0)
        return code;
    r->output_names = calloc(n + 1, sizeof *r->output_names);
    if (!r->output_names)
        return prn_fail_memory(err);
    for (; r->n_outputs < n; r->n_outputs++) {
        ov_output_const_port_t *port = NULL;
        char *name = NULL;
        code = check(r, api->ov_model_const_output_by_index(model, r->n_outputs, &port),
                     PRONY_ERUNTIME, err);
        if (code < 0)
            return code;
        /* An output that has lost its name in a transformation still has its place. */
        if (api->ov_port_get_any_name(port, &name) == 0) {
            r->output_names[r->n_outputs] = strdup(name);
            api->ov_free(name);
        } else {
            r->output_names[r->n_outputs] = strdup("");
        }
        api->ov_output_const_port_free(port);
        if (!r->output_names[r->n_outputs])
            return prn_fail_memory(err);
    }
    return 0;
}

static int ov_load(struct prn_runtime *r, const char *model_path, struct prony_error *err)
{
    const struct ov_api *api = &r->library.api;
    ov_model_t *model = NULL;
    int code =
        check(r, api->ov_core_read_model(r->core, model_path, NULL, &model), PRONY_ERUNTIME, err);
    if (code == 0)
        code = name_outputs(r, model, err);
    if (code == 0)
        code = check(r, api->ov_core_compile_model(r->core, model, DEVICE, 0, &r->compiled),
                     PRONY_ERUNTIME, err);
    if (code == 0)
        code = check(r, api->ov_compiled_model_create_infer_request(r->compiled, &r->request),
                     PRONY_ERUNTIME, err);
    if (model)
        api->ov_model_free(model);
    if (code == 0 && r->profile_folder)
        code = ov_profiler_new(r->profile_folder, &r->profiler, err);
    return code;
}

/* ---- Inputs ---- */

static int make_strings(const struct prn_runtime *r, const struct prn_runtime_tensor *t,
                        ov_shape_t shape, ov_tensor_t **ret_tensor, struct prony_error *err)
{
    const char **texts;
    size_t n;
    int code = prn_runtime_strings(t, &texts, &n, err);
    if (code < 0)
        return code;
    code = check(r, r->library.api.ov_tensor_create_from_string_array(texts, n, shape, ret_tensor),
                 PRONY_ERUNTIME, err);
    free(texts);
    return code;
}

static int make_input(const struct prn_runtime *r, const struct prn_runtime_tensor *t,
                      ov_tensor_t **ret_tensor, struct prony_error *err)
{
    const struct ov_api *api = &r->library.api;
    static unsigned char nothing[64]; /* a tensor without elements still wants an address */
    int element = ov_element_of(t->dtype);
    if (element < 0)
        return prn_fail(err, PRONY_EUNSUPPORTED, "OpenVINO has no type for %s",
                        prn_dtype_name(t->dtype));
    const ov_shape_t shape = {(int64_t)t->rank, (int64_t *)(uintptr_t)t->dims};
    if (t->dtype == PRN_DTYPE_STRING)
        return make_strings(r, t, shape, ret_tensor, err);
    void *data = t->bytes ? (void *)(uintptr_t)t->data : nothing;
    return check(r,
                 api->ov_tensor_create_from_host_ptr((OV_ELEMENT)element, shape, data, ret_tensor),
                 PRONY_ERUNTIME, err);
}

static void release_inputs(struct prn_runtime *r)
{
    for (size_t i = 0; i < r->n_inputs; i++)
        r->library.api.ov_tensor_free(r->inputs[i]);
    free(r->inputs);
    free(r->places);
    r->inputs = NULL;
    r->places = NULL;
    r->n_inputs = 0;
}

/* A name of the port, or NULL; frees the port. To be freed. */
static char *take_port_name(const struct prn_runtime *r, ov_output_const_port_t *port)
{
    const struct ov_api *api = &r->library.api;
    char *name = NULL;
    char *copy = NULL;
    if (api->ov_port_get_any_name(port, &name) == 0) {
        copy = strdup(name);
        api->ov_free(name);
    }
    api->ov_output_const_port_free(port);
    return copy;
}

/* The index of the compiled model's input that has this name, or -1. A port doesn't tell all of its
 * names, but always the same one. */
static int find_input(const struct prn_runtime *r, const char *name)
{
    const struct ov_api *api = &r->library.api;
    ov_output_const_port_t *port = NULL;
    int found = -1;
    if (api->ov_compiled_model_input_by_name(r->compiled, name, &port) != 0)
        return -1;
    char *wanted = take_port_name(r, port);
    for (size_t i = 0; wanted && found < 0 && i < r->n_ports; i++) {
        if (api->ov_compiled_model_input_by_index(r->compiled, i, &port) != 0)
            break;
        char *own = take_port_name(r, port);
        if (own && strcmp(own, wanted) == 0)
            found = (int)i;
        free(own);
    }
    free(wanted);
    return found;
}

/* Finds the place of each input in the compiled model; -1 for one that nothing depends on, which is
 * gone. An input that is also an output goes by the output's name alone: those that are left over
 * on both sides, equally many, are each other's in their order. */
static int place_inputs(struct prn_runtime *r, const struct prn_runtime_tensor *inputs, size_t n,
                        int *places, struct prony_error *err)
{
    bool taken[INPUTS_MAX] = {false};
    size_t missing = 0;
    int code = check(r, r->library.api.ov_compiled_model_inputs_size(r->compiled, &r->n_ports),
                     PRONY_ERUNTIME, err);
    if (code < 0)
        return code;
    if (r->n_ports > INPUTS_MAX)
        return prn_fail(err, PRONY_ELIMIT, "the model has %zu inputs", r->n_ports);
    size_t free_ports = r->n_ports;
    for (size_t i = 0; i < n; i++) {
        places[i] = find_input(r, inputs[i].name);
        missing += places[i] < 0;
        if (places[i] >= 0 && !taken[places[i]]) {
            taken[places[i]] = true;
            free_ports--;
        }
    }
    if (free_ports == 0)
        return 0;
    if (free_ports != missing)
        return prn_fail(err, PRONY_ERUNTIME,
                        "%zu inputs of the compiled model have names that the model lacks",
                        free_ports);
    size_t port = 0;
    for (size_t i = 0; i < n; i++) {
        if (places[i] >= 0)
            continue;
        while (taken[port])
            port++;
        places[i] = (int)port++;
    }
    return 0;
}

static int feed(const struct prn_runtime *r, size_t input, struct prony_error *err)
{
    return check(r,
                 r->library.api.ov_infer_request_set_input_tensor_by_index(
                     r->request, (size_t)r->places[input], r->inputs[input]),
                 PRONY_ERUNTIME, err);
}

static int bind_inputs(struct prn_runtime *r, const struct prn_runtime_tensor *inputs, size_t n,
                       const int *places, struct prony_error *err)
{
    for (size_t i = 0; i < n; i++) {
        if (places[i] < 0)
            continue;
        int code = make_input(r, &inputs[i], &r->inputs[r->n_inputs], err);
        if (code == 0) {
            r->places[r->n_inputs++] = places[i];
            code = feed(r, r->n_inputs - 1, err);
        }
        if (code < 0)
            return prn_fail_in(err, code, "input '%s'", inputs[i].name);
    }
    return 0;
}

static int ov_bind(struct prn_runtime *r, const struct prn_runtime_tensor *inputs, size_t n_inputs,
                   struct prony_error *err)
{
    release_inputs(r);
    r->inputs = calloc(n_inputs + 1, sizeof(ov_tensor_t *));
    r->places = calloc(n_inputs + 1, sizeof *r->places);
    int *places = calloc(n_inputs + 1, sizeof *places);
    int code = r->inputs && r->places && places ? place_inputs(r, inputs, n_inputs, places, err)
                                                : prn_fail_memory(err);
    if (code == 0)
        code = bind_inputs(r, inputs, n_inputs, places, err);
    if (code < 0)
        release_inputs(r);
    free(places);
    return code;
}

static int ov_run(struct prn_runtime *r, struct prony_error *err)
{
    if (r->profiler)
        ov_profiler_before_run(r->profiler);
    int status = r->library.api.ov_infer_request_infer(r->request);
    if (r->profiler)
        ov_profiler_after_run(r->profiler);
    return status ? check(r, status, PRONY_ERUNTIME, err) : 0;
}

static int ov_begin_profiling(struct prn_runtime *r, struct prony_error *err)
{
    return ov_profiler_begin(r->profiler, &r->library.api, r->request, err);
}

static int ov_end_profiling(struct prn_runtime *r, struct prony_error *err)
{
    return ov_profiler_end(r->profiler, &r->library.api, r->request, err);
}

static int ov_lane(struct prn_runtime *r, struct prn_runtime **ret_lane, struct prony_error *err)
{
    struct prn_runtime *lane = malloc(sizeof *lane);
    if (!lane)
        return prn_fail_memory(err);
    *lane = *r;
    lane->is_lane = true;
    lane->request = NULL;
    lane->output = NULL;
    lane->profiler = NULL;
    int code =
        check(r, r->library.api.ov_compiled_model_create_infer_request(r->compiled, &lane->request),
              PRONY_ERUNTIME, err);
    for (size_t i = 0; code == 0 && i < lane->n_inputs; i++)
        code = feed(lane, i, err);
    if (code < 0)
        ov_close(lane);
    else
        *ret_lane = lane;
    return code;
}

/* ---- Outputs ---- */

static size_t ov_output_count(const struct prn_runtime *r)
{
    return r->n_outputs;
}

static int read_shape(struct prn_runtime *r, struct prn_runtime_tensor *tensor,
                      struct prony_error *err)
{
    const struct ov_api *api = &r->library.api;
    ov_shape_t shape = {0};
    size_t elements = 0;
    int status = api->ov_tensor_get_shape(r->output, &shape);
    /* The shape of a scalar is one that the C API doesn't hand out. */
    bool scalar = status == OV_INVALID_C_PARAM &&
                  api->ov_tensor_get_size(r->output, &elements) == 0 && elements == 1;
    int code = scalar ? 0 : check(r, status, PRONY_ERUNTIME, err);
    if (code < 0)
        return code;
    if (shape.rank > PRN_RUNTIME_RANK_MAX)
        code = prn_fail(err, PRONY_ELIMIT, "output '%s' has %lld dimensions", tensor->name,
                        (long long)shape.rank);
    for (int64_t i = 0; code == 0 && i < shape.rank; i++)
        r->dims[i] = shape.dims[i];
    tensor->rank = (size_t)shape.rank;
    tensor->dims = r->dims;
    if (!scalar)
        api->ov_shape_free(&shape);
    return code;
}

static int ov_output(struct prn_runtime *r, size_t index, struct prn_runtime_tensor *ret_tensor,
                     struct prony_error *err)
{
    const struct ov_api *api = &r->library.api;
    struct prn_runtime_tensor tensor = {.name = r->output_names[index]};
    OV_ELEMENT element = 0;
    void *data = NULL;
    if (r->output)
        api->ov_tensor_free(r->output);
    r->output = NULL;
    int code =
        check(r, api->ov_infer_request_get_output_tensor_by_index(r->request, index, &r->output),
              PRONY_ERUNTIME, err);
    if (code == 0)
        code = check(r, api->ov_tensor_get_element_type(r->output, &element), PRONY_ERUNTIME, err);
    if (code == 0)
        code = read_shape(r, &tensor, err);
    if (code < 0)
        return code;
    tensor.dtype = ov_element_dtype((int)element);
    if (tensor.dtype == PRN_DTYPE_STRING || tensor.dtype == PRN_DTYPE_UNDEFINED)
        return prn_fail(err, PRONY_EUNSUPPORTED, "output '%s' has a type that OpenVINO's C API %s",
                        tensor.name,
                        tensor.dtype ? "doesn't hand out (string)" : "has but ONNX lacks");
    code = prn_dtype_bytes(tensor.dtype, r->dims, tensor.rank, &tensor.bytes);
    if (code < 0)
        return prn_fail(err, code, "output '%s' is too large", tensor.name);
    if (tensor.bytes > 0)
        code = check(r, api->ov_tensor_data(r->output, &data), PRONY_ERUNTIME, err);
    tensor.data = data;
    if (code == 0)
        *ret_tensor = tensor;
    return code;
}

/* What a lane borrows. */
static void release_model(struct prn_runtime *r)
{
    const struct ov_api *api = &r->library.api;
    release_inputs(r);
    ov_profiler_free(r->profiler);
    free(r->profile_folder);
    for (size_t i = 0; i < r->n_outputs; i++)
        free(r->output_names[i]);
    free(r->output_names);
    if (r->compiled)
        api->ov_compiled_model_free(r->compiled);
    if (r->core)
        api->ov_core_free(r->core);
}

static void ov_close(struct prn_runtime *r)
{
    if (!r)
        return;
    const struct ov_api *api = &r->library.api;
    if (r->output)
        api->ov_tensor_free(r->output);
    if (r->request)
        api->ov_infer_request_free(r->request);
    if (!r->is_lane)
        release_model(r);
    free(r);
}

static const struct prn_runtime_option ov_options[] = {
    {"threads", "N", "threads of an inference (0: one per core, the default)", false},
    {"streams", "N", "inferences at a time that the threads are divided over", false},
    {"hint", "latency|throughput", "what to optimise for (default latency)", false},
    {"precision", "f32|bf16|f16", "to compute in (default f32); refused where it has no effect",
     false},
    {"lib", "FILE", "the libopenvino_c.so to load, to compare versions", true},
    {"ov.*", "VALUE", "any property of OpenVINO's CPU device, passed on", false},
    {0},
};

extern const struct prn_runtime_ops prn_openvino_cpu;

const struct prn_runtime_ops prn_openvino_cpu = {
    .software = "openvino-cpu",
    .title = "OpenVINO, CPU",
    .search = &ov_search,
    .options = ov_options,
    .open = ov_open,
    .version = ov_version,
    .library = ov_library,
    .origin = ov_origin,
    .load = ov_load,
    .bind = ov_bind,
    .run = ov_run,
    .lane = ov_lane,
    .output_count = ov_output_count,
    .output = ov_output,
    .end_profiling = ov_end_profiling,
    .begin_profiling = ov_begin_profiling,
    .close = ov_close,
};
