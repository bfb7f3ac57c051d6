/*
 * ONNX Runtime behind prony's vtable. A run is one call of the C API's Run, as most programs make
 * it: inputs exist before, outputs are made by the runtime, and let go between runs, outside the
 * clock. (An I/O binding that keeps the output buffers is faster by a tenth on a model of 3 µs, so
 * it would promise what those programs don't get; io_binding=on is for those that have one.)
 */
#include "runtime/onnxrt/parts.h"
#include "runtime/strings.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ONNX Runtime's messages name the place in its own source, "/src/x.cc:12 ns::F(const T&) reason":
 * what follows matters to a user. Cuts the first such place out. */
static void cut_source_place(char *text)
{
    char *mark = strstr(text, ".cc:");
    if (!mark)
        return;
    char *begin = mark;
    while (begin > text && !strchr(" :[", begin[-1]))
        begin--;
    char *end = mark + 4;
    end += strspn(end, "0123456789 ");
    char *open = end + strcspn(end, "(\n");
    int depth = 0;
    do {
        depth += (*open == '(') - (*open == ')');
    } while (depth > 0 && *++open);
    if (*open != ')')
        return;
    open += 1 + strspn(open + 1, " ");
    memmove(begin, open, strlen(open) + 1);
}

int ort_check(struct prn_runtime *r, OrtStatus *status, int code, struct prony_error *err)
{
    if (!status)
        return 0;
    char *text = strdup(r->library.api.GetErrorMessage(status));
    if (text)
        cut_source_place(text);
    prn_fail(err, code, "%s", text ? text : "out of memory");
    free(text);
    r->library.api.ReleaseStatus(status);
    return code;
}

/* Its trace is opened when the session is made, under a name that begins like this. */
static int set_profiling(struct prn_runtime *r, const char *folder, struct prony_error *err)
{
    char prefix[PATH_MAX];
    if (snprintf(prefix, sizeof prefix, "%s/trace", folder) >= (int)sizeof prefix)
        return prn_fail(err, PRONY_ELIMIT, "'%s' is too long a path", folder);
    return ort_check(r, r->library.api.EnableProfiling(r->options, prefix), PRONY_ERUNTIME, err);
}

static void ort_close(struct prn_runtime *r);

static int ort_open(const struct prn_runtime_config *config, struct prn_runtime **ret_runtime,
                    struct prony_error *err)
{
    struct prn_runtime *r = calloc(1, sizeof *r);
    if (!r)
        return prn_fail_memory(err);
    r->optimised_fd = -1;
    int code = ort_library_load(&r->library, config, err);
    if (code < 0) {
        free(r);
        return code;
    }
    const struct ort_api *api = &r->library.api;
    snprintf(r->version, sizeof r->version, "ONNX Runtime %s", r->library.version);
    code = ort_check(r, api->CreateEnv(ORT_LOGGING_ERROR, "prony", &r->env), PRONY_ERUNTIME, err);
    if (code == 0)
        code = ort_check(r, api->CreateSessionOptions(&r->options), PRONY_ERUNTIME, err);
    if (code == 0)
        code =
            ort_check(r, api->GetAllocatorWithDefaultOptions(&r->allocator), PRONY_ERUNTIME, err);
    if (code == 0)
        code =
            ort_check(r, api->CreateCpuMemoryInfo(ORT_ARENA_ALLOCATOR, ORT_MEMORY_DEFAULT, &r->cpu),
                      PRONY_ERUNTIME, err);
    for (size_t i = 0; code == 0 && i < config->n_options; i++)
        code = ort_set_option(r, &config->options[i], err);
    if (code == 0)
        code = ort_set_provider(r, config, err);
    if (code == 0 && config->profile_folder)
        code = set_profiling(r, config->profile_folder, err);
    if (code < 0) {
        ort_close(r);
        return code;
    }
    *ret_runtime = r;
    return 0;
}

static const char *ort_version(const struct prn_runtime *r)
{
    return r->version;
}

static const char *ort_library(const struct prn_runtime *r)
{
    return r->library.loaded.path;
}

static const char *ort_origin(const struct prn_runtime *r)
{
    return r->library.loaded.origin;
}

static int ort_load(struct prn_runtime *r, const char *model_path, struct prony_error *err)
{
    const struct ort_api *api = &r->library.api;
    int code = ort_check(r, api->CreateSession(r->env, model_path, r->options, &r->session),
                         PRONY_ERUNTIME, err);
    size_t n = 0;
    r->is_saved = code == 0 && r->optimised_fd >= 0;
    if (code == 0)
        code = ort_check(r, api->SessionGetOutputCount(r->session, &n), PRONY_ERUNTIME, err);
    if (code == 0) {
        r->output_names = calloc(n + 1, sizeof *r->output_names);
        r->outputs = calloc(n + 1, sizeof(OrtValue *));
        if (!r->output_names || !r->outputs)
            code = prn_fail_memory(err);
    }
    for (; code == 0 && r->n_outputs < n; r->n_outputs++)
        code = ort_check(r,
                         api->SessionGetOutputName(r->session, r->n_outputs, r->allocator,
                                                   &r->output_names[r->n_outputs]),
                         PRONY_ERUNTIME, err);
    return code;
}

static int make_strings(struct prn_runtime *r, const struct prn_runtime_tensor *t,
                        OrtValue **ret_value, struct prony_error *err)
{
    const struct ort_api *api = &r->library.api;
    const char **texts;
    size_t n;
    OrtValue *value = NULL;
    int code = prn_runtime_strings(t, &texts, &n, err);
    if (code < 0)
        return code;
    code =
        ort_check(r, api->CreateTensorAsOrtValue(r->allocator, t->dims, t->rank, t->dtype, &value),
                  PRONY_ERUNTIME, err);
    if (code == 0 && n > 0)
        code = ort_check(r, api->FillStringTensor(value, texts, n), PRONY_ERUNTIME, err);
    free(texts);
    if (code == 0)
        *ret_value = value;
    else if (value)
        api->ReleaseValue(value);
    return code;
}

static int make_input(struct prn_runtime *r, const struct prn_runtime_tensor *t,
                      OrtValue **ret_value, struct prony_error *err)
{
    if (t->dtype == PRN_DTYPE_STRING)
        return make_strings(r, t, ret_value, err);
    if (t->dtype == PRN_DTYPE_COMPLEX64 || t->dtype == PRN_DTYPE_COMPLEX128)
        return prn_fail(err, PRONY_EUNSUPPORTED, "ONNX Runtime takes no inputs of type %s",
                        prn_dtype_name(t->dtype)); /* it would name a number */
    return ort_check(
        r,
        r->library.api.CreateTensorWithDataAsOrtValue(r->cpu, (void *)(uintptr_t)t->data, t->bytes,
                                                      t->dims, t->rank, t->dtype, ret_value),
        PRONY_ERUNTIME, err);
}

/* Lets go of the last run's outputs. */
static int ort_prepare(struct prn_runtime *r, struct prony_error *err)
{
    (void)err;
    for (size_t i = 0; i < r->n_outputs; i++) {
        if (r->outputs[i])
            r->library.api.ReleaseValue(r->outputs[i]);
        r->outputs[i] = NULL;
    }
    return 0;
}

static void release_inputs(struct prn_runtime *r)
{
    for (size_t i = 0; i < r->n_inputs; i++) {
        r->library.api.ReleaseValue(r->inputs[i]);
        free(r->input_names[i]);
    }
    free(r->inputs);
    free(r->input_names);
    r->inputs = NULL;
    r->input_names = NULL;
    r->n_inputs = 0;
}

static int bind_inputs(struct prn_runtime *r, const struct prn_runtime_tensor *inputs,
                       size_t n_inputs, struct prony_error *err)
{
    r->inputs = calloc(n_inputs + 1, sizeof(OrtValue *));
    r->input_names = calloc(n_inputs + 1, sizeof *r->input_names);
    if (!r->inputs || !r->input_names)
        return prn_fail_memory(err);
    for (; r->n_inputs < n_inputs; r->n_inputs++) {
        const struct prn_runtime_tensor *t = &inputs[r->n_inputs];
        int code = make_input(r, t, &r->inputs[r->n_inputs], err);
        if (code < 0)
            return prn_fail_in(err, code, "input '%s'", t->name);
        r->input_names[r->n_inputs] = strdup(t->name);
        if (!r->input_names[r->n_inputs]) {
            r->library.api.ReleaseValue(r->inputs[r->n_inputs]);
            return prn_fail_memory(err);
        }
    }
    return 0;
}

static int make_binding(struct prn_runtime *r, struct prony_error *err)
{
    const struct ort_api *api = &r->library.api;
    int code = ort_check(r, api->CreateIoBinding(r->session, &r->binding), PRONY_ERUNTIME, err);
    for (size_t i = 0; code == 0 && i < r->n_inputs; i++)
        code = ort_check(r, api->BindInput(r->binding, r->input_names[i], r->inputs[i]),
                         PRONY_ERUNTIME, err);
    for (size_t i = 0; code == 0 && i < r->n_outputs; i++)
        code = ort_check(r, api->BindOutputToDevice(r->binding, r->output_names[i], r->cpu),
                         PRONY_ERUNTIME, err);
    return code;
}

static void release_binding(struct prn_runtime *r)
{
    if (r->binding)
        r->library.api.ReleaseIoBinding(r->binding);
    r->binding = NULL;
}

static int ort_bind(struct prn_runtime *r, const struct prn_runtime_tensor *inputs, size_t n_inputs,
                    struct prony_error *err)
{
    /* An output may be a view of an input, so those go first. */
    ort_prepare(r, NULL);
    release_binding(r);
    release_inputs(r);
    int code = bind_inputs(r, inputs, n_inputs, err);
    if (code == 0 && r->io_binding)
        code = make_binding(r, err);
    if (code < 0) {
        release_binding(r);
        release_inputs(r);
    }
    return code;
}

static int ort_run(struct prn_runtime *r, struct prony_error *err)
{
    OrtStatus *status =
        r->binding
            ? r->library.api.RunWithBinding(r->session, NULL, r->binding)
            : r->library.api.Run(r->session, NULL, (const char *const *)r->input_names,
                                 (const OrtValue *const *)r->inputs, r->n_inputs,
                                 (const char *const *)r->output_names, r->n_outputs, r->outputs);
    return status ? ort_check(r, status, PRONY_ERUNTIME, err) : 0;
}

/* Run may be called by several threads at once, and it only reads the inputs. */
static int ort_lane(struct prn_runtime *r, struct prn_runtime **ret_lane, struct prony_error *err)
{
    struct prn_runtime *lane = malloc(sizeof *lane);
    OrtValue **outputs = calloc(r->n_outputs + 1, sizeof(OrtValue *));
    if (!lane || !outputs) {
        free(lane);
        free(outputs);
        return prn_fail_memory(err);
    }
    *lane = *r;
    lane->is_lane = true;
    lane->outputs = outputs;
    lane->strings = NULL;
    lane->binding = NULL;
    int code = r->binding ? make_binding(lane, err) : 0;
    if (code < 0)
        ort_close(lane);
    else
        *ret_lane = lane;
    return code;
}

static size_t ort_output_count(const struct prn_runtime *r)
{
    return r->n_outputs;
}

/* Strings out again: offsets, one more than there are elements, then the characters. */
static int read_strings(struct prn_runtime *r, const OrtValue *value,
                        struct prn_runtime_tensor *tensor, struct prony_error *err)
{
    const struct ort_api *api = &r->library.api;
    int64_t elements;
    size_t len = 0;
    if (prn_dims_elements(tensor->dims, tensor->rank, &elements) < 0)
        return prn_fail(err, PRONY_ELIMIT, "output '%s' is too large", tensor->name);
    size_t n = (size_t)elements;
    int code = ort_check(r, api->GetStringTensorDataLength(value, &len), PRONY_ERUNTIME, err);
    if (code < 0)
        return code;
    size_t bytes = (n + 1) * sizeof(uint64_t) + len;
    free(r->strings);
    r->strings = calloc(1, bytes);
    if (!r->strings)
        return prn_fail_memory(err);
    uint64_t *offsets = (uint64_t *)(void *)r->strings;
    _Static_assert(sizeof(size_t) == sizeof(uint64_t), "offsets are written in place");
    if (n > 0)
        code = ort_check(
            r, api->GetStringTensorContent(value, offsets + n + 1, len, (size_t *)offsets, n),
            PRONY_ERUNTIME, err);
    offsets[n] = len;
    tensor->data = r->strings;
    tensor->bytes = bytes;
    return code;
}

/* What the binding holds after a run; the handles are ours, the buffers stay the binding's. */
static int take_bound(struct prn_runtime *r, struct prony_error *err)
{
    const struct ort_api *api = &r->library.api;
    OrtValue **values = NULL;
    size_t n = 0;
    if (!r->binding || r->n_outputs == 0 || r->outputs[0])
        return 0;
    int code = ort_check(r, api->GetBoundOutputValues(r->binding, r->allocator, &values, &n),
                         PRONY_ERUNTIME, err);
    for (size_t i = 0; code == 0 && i < n && i < r->n_outputs; i++)
        r->outputs[i] = values[i];
    return code == 0 ? ort_check(r, api->AllocatorFree(r->allocator, values), PRONY_ERUNTIME, err)
                     : code;
}

static int ort_output(struct prn_runtime *r, size_t index, struct prn_runtime_tensor *ret_tensor,
                      struct prony_error *err)
{
    const struct ort_api *api = &r->library.api;
    int code = take_bound(r, err);
    if (code < 0)
        return code;
    OrtValue *value = index < r->n_outputs ? r->outputs[index] : NULL;
    if (!value)
        return prn_fail(err, PRONY_ERUNTIME, "there is no output %zu", index);
    struct prn_runtime_tensor tensor = {.name = r->output_names[index], .dims = r->dims};
    int type = 0;
    code = ort_check(r, api->GetValueType(value, &type), PRONY_ERUNTIME, err);
    if (code == 0 && type != ORT_TYPE_TENSOR) {
        *ret_tensor = tensor; /* a sequence or map: it has been timed, but isn't compared */
        return 0;
    }
    OrtTensorTypeAndShapeInfo *info = NULL;
    if (code == 0)
        code = ort_check(r, api->GetTensorTypeAndShape(value, &info), PRONY_ERUNTIME, err);
    if (code == 0)
        code = ort_check(r, api->GetTensorElementType(info, &tensor.dtype), PRONY_ERUNTIME, err);
    if (code == 0)
        code = ort_check(r, api->GetDimensionsCount(info, &tensor.rank), PRONY_ERUNTIME, err);
    if (code == 0 && tensor.rank > PRN_RUNTIME_RANK_MAX)
        code =
            prn_fail(err, PRONY_ELIMIT, "output '%s' has %zu dimensions", tensor.name, tensor.rank);
    if (code == 0)
        code = ort_check(r, api->GetDimensions(info, r->dims, tensor.rank), PRONY_ERUNTIME, err);
    if (code == 0 && tensor.dtype == PRN_DTYPE_STRING) {
        code = read_strings(r, value, &tensor, err);
    } else if (code == 0) {
        void *data = NULL;
        code = ort_check(r, api->GetTensorMutableData(value, &data), PRONY_ERUNTIME, err);
        tensor.data = data;
        if (code == 0 && prn_dtype_bytes(tensor.dtype, r->dims, tensor.rank, &tensor.bytes) < 0)
            code = prn_fail(err, PRONY_EUNSUPPORTED, "output '%s' has %s", tensor.name,
                            prn_dtype_name(tensor.dtype));
    }
    if (info)
        api->ReleaseTensorTypeAndShapeInfo(info);
    if (code == 0)
        *ret_tensor = tensor;
    return code;
}

static int ort_end_profiling(struct prn_runtime *r, struct prony_error *err)
{
    const struct ort_api *api = &r->library.api;
    char *name = NULL;
    int code = ort_check(r, api->SessionEndProfiling(r->session, r->allocator, &name),
                         PRONY_ERUNTIME, err);
    if (code == 0)
        api->AllocatorFree(r->allocator, name);
    return code;
}

/* The optimised model, where it was to be saved. */
static int ort_made(struct prn_runtime *r)
{
    int fd = r->is_saved ? dup(r->optimised_fd) : -1;
    r->is_saved = false;
    return fd;
}

/* What a lane borrows. */
static void release_model(struct prn_runtime *r)
{
    const struct ort_api *api = &r->library.api;
    release_inputs(r);
    for (size_t i = 0; i < r->n_outputs; i++)
        api->AllocatorFree(r->allocator, r->output_names[i]);
    if (r->session)
        api->ReleaseSession(r->session);
    if (r->cpu)
        api->ReleaseMemoryInfo(r->cpu);
    if (r->options)
        api->ReleaseSessionOptions(r->options);
    if (r->env)
        api->ReleaseEnv(r->env);
    if (r->optimised_fd >= 0)
        close(r->optimised_fd);
    free(r->output_names);
}

static void ort_close(struct prn_runtime *r)
{
    if (!r)
        return;
    ort_prepare(r, NULL);
    release_binding(r);
    if (!r->is_lane)
        release_model(r);
    free(r->outputs);
    free(r->strings);
    free(r);
}

/* Options of the CPU's backend, which all others have too. */
#define SESSION_OPTIONS                                                                            \
    {"threads", "N", "threads inside an operator (0: one per core, the default)", false},          \
        {"inter_threads", "N", "threads between operators; more than one runs them in parallel",   \
         false},                                                                                   \
        {"opt", "off|basic|extended|all", "graph optimisation (default all)", false},              \
        {"arena", "on|off", "memory arena (default on)", false},                                   \
        {"mem_pattern", "on|off", "one piece of memory for all activations (default on)", false},  \
        {"spin", "on|off", "threads spin while they wait (default on)", false},                    \
        {"denormals", "keep|zero", "tiny numbers, kept or flushed to zero (default keep)", false}, \
        {"affinity", "CPUS", "CPUs of each thread but the first: 1;2-3+5", false},                 \
        {"io_binding", "on|off", "outputs stay in buffers that are bound once (default off)",      \
         false},                                                                                   \
        {"custom_ops", "FILE", "a library of custom operators", true},                             \
        {"save_optimised", "FILE", "writes the model as the session optimised it", true},          \
        {"lib", "FILE", "the libonnxruntime.so to load, to compare versions", true},               \
        {"ort.*", "VALUE", "any session config key of ONNX Runtime, passed on", false}, {0},
#define PROVIDER_OPTIONS                                               \
    {                                                                  \
        "ep.*", "VALUE", "any option of the provider, passed on", true \
    }

static const struct prn_runtime_option cpu_options[] = {SESSION_OPTIONS};
static const struct prn_runtime_option numbered_options[] = {
    {"device", "N", "which GPU (default 0)", false}, PROVIDER_OPTIONS, SESSION_OPTIONS};
static const struct prn_runtime_option device_options[] = {
    {PRN_RUNTIME_DEVICE, "cpu|gpu|npu", "which kind of device (default cpu)", false},
    PROVIDER_OPTIONS,
    SESSION_OPTIONS};
static const struct prn_runtime_option plain_options[] = {PROVIDER_OPTIONS, SESSION_OPTIONS};
static const struct prn_runtime_option plugin_options[] = {
    {"ep", "FILE", "the plugin, a library of execution providers", true},
    {"provider", "NAME", "which of the plugin's providers (default: the first)", false},
    {PRN_RUNTIME_DEVICE, "cpu|gpu|npu", "which kind of device (default cpu)", false},
    PROVIDER_OPTIONS,
    SESSION_OPTIONS};

#define ONNXRT(symbol, name, text, row_options, ...)                           \
    extern const struct prn_runtime_ops symbol;                                \
    const struct prn_runtime_ops symbol = {.software = name,                   \
                                           .title = text,                      \
                                           .keeps_reshapes = true,             \
                                           .search = &ort_search,              \
                                           .options = row_options,             \
                                           .open = ort_open,                   \
                                           .version = ort_version,             \
                                           .library = ort_library,             \
                                           .origin = ort_origin,               \
                                           .offers = ort_offers,               \
                                           .readable = ort_readable,           \
                                           .load = ort_load,                   \
                                           .bind = ort_bind,                   \
                                           .prepare = ort_prepare,             \
                                           .run = ort_run,                     \
                                           .lane = ort_lane,                   \
                                           .output_count = ort_output_count,   \
                                           .output = ort_output,               \
                                           .end_profiling = ort_end_profiling, \
                                           .placement = ort_placement,         \
                                           .made = ort_made,                   \
                                           .close = ort_close,                 \
                                           __VA_ARGS__}

ONNXRT(prn_onnxrt_cpu, "onnxrt-cpu", "ONNX Runtime, CPU", cpu_options, .in_default = true);
ONNXRT(prn_onnxrt_cuda, "onnxrt-cuda", "ONNX Runtime, CUDA", numbered_options, .gpu = true,
       .in_default = true);
ONNXRT(prn_onnxrt_tensorrt, "onnxrt-tensorrt", "ONNX Runtime, TensorRT", numbered_options,
       .gpu = true, .in_default = true);
ONNXRT(prn_onnxrt_plugin, "onnxrt-plugin", "ONNX Runtime with a plugin", plugin_options,
       .named_only = true);
ONNXRT(prn_onnxrt_cann, "onnxrt-cann", "ONNX Runtime, CANN", numbered_options, .gpu = true,
       .listed_only = true);
ONNXRT(prn_onnxrt_dnnl, "onnxrt-dnnl", "ONNX Runtime, oneDNN", plain_options, .listed_only = true);
ONNXRT(prn_onnxrt_migraphx, "onnxrt-migraphx", "ONNX Runtime, MIGraphX", numbered_options,
       .gpu = true, .listed_only = true);
ONNXRT(prn_onnxrt_openvino, "onnxrt-openvino", "ONNX Runtime, OpenVINO", device_options,
       .listed_only = true);
ONNXRT(prn_onnxrt_qnn, "onnxrt-qnn", "ONNX Runtime, QNN", plain_options, .gpu = true,
       .listed_only = true);
ONNXRT(prn_onnxrt_rocm, "onnxrt-rocm", "ONNX Runtime, ROCm", numbered_options, .gpu = true,
       .listed_only = true);
ONNXRT(prn_onnxrt_vitisai, "onnxrt-vitisai", "ONNX Runtime, Vitis AI", plain_options, .gpu = true,
       .listed_only = true);
ONNXRT(prn_onnxrt_webgpu, "onnxrt-webgpu", "ONNX Runtime, WebGPU", numbered_options, .gpu = true,
       .listed_only = true);
ONNXRT(prn_onnxrt_xnnpack, "onnxrt-xnnpack", "ONNX Runtime, XNNPACK", plain_options,
       .listed_only = true);
