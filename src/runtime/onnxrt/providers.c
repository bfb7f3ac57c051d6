/*
 * Execution providers, which take a model's nodes from the CPU's own: those that are part of the
 * library, by the name of the backend, and those of a plugin, a library that an option names.
 */
#include "base/buffer.h"
#include "runtime/onnxrt/parts.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OPTIONS_MAX 64
#define PLUGIN "onnxrt-plugin"
#define RECORDING "session.record_ep_graph_assignment_info"

/* Options of a provider, as the C API takes them. */
struct pairs {
    const char *keys[OPTIONS_MAX + 1];
    const char *values[OPTIONS_MAX + 1];
    size_t n;
};

/* ---- Providers of the library ---- */

/* Some have a type for their options, and functions for that. */
#define APPENDING(name, type)                                                                \
    static OrtStatus *append_##name(struct prn_runtime *r, const struct pairs *p)            \
    {                                                                                        \
        const struct ort_api *api = &r->library.api;                                         \
        type *options = NULL;                                                                \
        OrtStatus *status = api->Create##name##ProviderOptions(&options);                    \
        if (!status && p->n > 0)                                                             \
            status = api->Update##name##ProviderOptions(options, p->keys, p->values, p->n);  \
        if (!status)                                                                         \
            status = api->SessionOptionsAppendExecutionProvider_##name(r->options, options); \
        if (options)                                                                         \
            api->Release##name##ProviderOptions(options);                                    \
        return status;                                                                       \
    }
#define SessionOptionsAppendExecutionProvider_CUDA SessionOptionsAppendExecutionProvider_CUDA_V2
#define SessionOptionsAppendExecutionProvider_TensorRT \
    SessionOptionsAppendExecutionProvider_TensorRT_V2
APPENDING(CUDA, OrtCUDAProviderOptionsV2)
APPENDING(TensorRT, OrtTensorRTProviderOptionsV2)
APPENDING(ROCM, OrtROCMProviderOptions)
APPENDING(CANN, OrtCANNProviderOptions)
APPENDING(Dnnl, OrtDnnlProviderOptions)

struct provider {
    const char *software;
    const char *name; /* with "ExecutionProvider" behind it the library lists it */
    const char *call; /* what it is appended by; NULL: by a function of its own */
    OrtStatus *(*append)(struct prn_runtime *, const struct pairs *);
    const char *device_key; /* of its options; NULL: none */
};

static const struct provider providers[] = {
    {"onnxrt-cuda", "CUDA", NULL, append_CUDA, "device_id"},
    {"onnxrt-tensorrt", "Tensorrt", NULL, append_TensorRT, "device_id"},
    {"onnxrt-rocm", "ROCM", NULL, append_ROCM, "device_id"},
    {"onnxrt-cann", "CANN", NULL, append_CANN, "device_id"},
    {"onnxrt-dnnl", "Dnnl", NULL, append_Dnnl, NULL},
    {"onnxrt-openvino", "OpenVINO", "OpenVINO", NULL, "device_type"},
    {"onnxrt-migraphx", "MIGraphX", "MIGraphX", NULL, "device_id"},
    {"onnxrt-qnn", "QNN", "QNN", NULL, NULL},
    {"onnxrt-vitisai", "VitisAI", "VitisAI", NULL, NULL},
    {"onnxrt-webgpu", "WebGpu", "WebGPU", NULL, "deviceId"},
    {"onnxrt-xnnpack", "Xnnpack", "XNNPACK", NULL, NULL},
};

static const struct provider *find_provider(const char *software)
{
    for (size_t i = 0; i < PRN_ARRAY_SIZE(providers); i++)
        if (strcmp(providers[i].software, software) == 0)
            return &providers[i];
    return NULL;
}

static bool is_called(const char *listed, const struct provider *p)
{
    size_t len = strlen(p->name);
    return strncmp(listed, p->name, len) == 0 && strcmp(listed + len, "ExecutionProvider") == 0;
}

/* The backends of the providers that the library lists, "onnxrt-cuda,onnxrt-openvino". It lists
 * some that it can't load. */
const char *ort_offers(const struct prn_runtime *r)
{
    static char text[512];
    char **names = NULL;
    int n = 0;
    text[0] = '\0';
    OrtStatus *status = r->library.api.GetAvailableProviders(&names, &n);
    if (status) {
        r->library.api.ReleaseStatus(status);
        return text;
    }
    for (int i = 0; i < n; i++)
        for (size_t k = 0; k < PRN_ARRAY_SIZE(providers); k++) {
            size_t len = strlen(text);
            if (is_called(names[i], &providers[k]))
                snprintf(text + len, sizeof text - len, "%s%s", len ? "," : "",
                         providers[k].software);
        }
    status = r->library.api.ReleaseAvailableProviders(names, n);
    if (status)
        r->library.api.ReleaseStatus(status);
    return text;
}

/* "0", or "cpu" as the provider writes it. */
static const char *device_value(const char *device)
{
    static const char *const kinds[][2] = {{"cpu", "CPU"}, {"gpu", "GPU"}, {"npu", "NPU"}};
    for (size_t i = 0; i < PRN_ARRAY_SIZE(kinds); i++)
        if (strcmp(kinds[i][0], device) == 0)
            return kinds[i][1];
    return device;
}

static void collect(const struct prn_runtime_config *config, struct pairs *pairs)
{
    for (size_t i = 0; i < config->n_options && pairs->n < OPTIONS_MAX; i++)
        if (strncmp(config->options[i].key, "ep.", 3) == 0) {
            pairs->keys[pairs->n] = config->options[i].key + 3;
            pairs->values[pairs->n++] = config->options[i].value;
        }
}

static bool is_nvidia(const struct provider *p)
{
    return p->append == append_CUDA || p->append == append_TensorRT;
}

/* The library lists providers that it can't load: only appending one tells. */
static int append_listed(struct prn_runtime *r, const struct provider *p,
                         const struct prn_runtime_config *config, struct prony_error *err)
{
    struct pairs pairs = {.n = 0};
    /* Which of them it takes by itself depends on how it was built. */
    const char *device =
        prn_runtime_option_of(config, "device", strcmp(p->name, "OpenVINO") == 0 ? "cpu" : NULL);
    if (device && p->device_key) {
        pairs.keys[0] = p->device_key;
        pairs.values[0] = device_value(device);
        pairs.n = 1;
    }
    collect(config, &pairs);
    OrtStatus *status = p->append ? p->append(r, &pairs)
                                  : r->library.api.SessionOptionsAppendExecutionProvider(
                                        r->options, p->call, pairs.keys, pairs.values, pairs.n);
    int code = ort_check(r, status, PRONY_EUNAVAILABLE, err);
    if (code == 0)
        return 0;
    if (is_nvidia(p) && access("/dev/nvidiactl", F_OK) != 0)
        return prn_fail(err, code, "an NVIDIA GPU is needed, and none was found here");
    return prn_fail_in(err, code, "needs a build of ONNX Runtime with %s; %s says",
                       strcmp(p->name, "Tensorrt") == 0 ? "TensorRT" : p->name, r->version);
}

/* ---- Plugins ---- */

/* An executor has one plugin, for all of its sessions. It stays, as all libraries do: so one
 * environment is kept that nobody releases. */
static struct {
    OrtEnv *env;
    const OrtEpDevice *const *devices; /* those of the plugin are behind the `own` first ones */
    size_t own, n;
    char folder[PATH_MAX];
    const char *readable[2];
} plugin;

static const char *kind_name(int kind)
{
    static const char *const names[ORT_DEVICE_KINDS] = {"cpu", "gpu", "npu"};
    return kind >= 0 && kind < ORT_DEVICE_KINDS ? names[kind] : "another";
}

static int register_plugin(struct prn_runtime *r, const char *path, struct prony_error *err)
{
    const struct ort_api *api = &r->library.api;
    const OrtEpDevice *const *devices;
    size_t own = 0;
    OrtEnv *env = NULL;
    int code = ort_check(r, api->CreateEnv(ORT_LOGGING_ERROR, "prony", &env), PRONY_ERUNTIME, err);
    if (code == 0)
        code = ort_check(r, api->GetEpDevices(env, &devices, &own), PRONY_ERUNTIME, err);
    if (code == 0)
        code = ort_check(r, api->RegisterExecutionProviderLibrary(env, "prony", path),
                         PRONY_EUNAVAILABLE, err);
    if (code == 0)
        code =
            ort_check(r, api->GetEpDevices(env, &plugin.devices, &plugin.n), PRONY_ERUNTIME, err);
    if (code < 0) {
        if (env)
            api->ReleaseEnv(env);
        return code;
    }
    plugin.env = env;
    plugin.own = own;
    snprintf(plugin.folder, sizeof plugin.folder, "%s", path);
    *strrchr(plugin.folder, '/') = '\0';
    plugin.readable[0] = plugin.folder;
    return 0;
}

static const char *kind_of(const struct prn_runtime *r, const OrtEpDevice *device)
{
    return kind_name(r->library.api.HardwareDevice_Type(r->library.api.EpDevice_Device(device)));
}

/* "cpu (AMD)": what ONNX Runtime found on this machine, by the devices of its own providers. */
static int fail_without_devices(const struct prn_runtime *r, const char *path,
                                struct prony_error *err)
{
    const struct ort_api *api = &r->library.api;
    struct prn_buffer list = PRN_BUFFER_INIT(1000);
    for (size_t i = 0; i < plugin.own; i++)
        prn_buffer_printf(&list, "%s%s (%s)", i ? ", " : "", kind_of(r, plugin.devices[i]),
                          api->HardwareDevice_Vendor(api->EpDevice_Device(plugin.devices[i])));
    int code = prn_fail(err, PRONY_EUNAVAILABLE,
                        "the plugin '%s' has no provider for this machine's devices: %s", path,
                        prn_buffer_text(&list));
    prn_buffer_release(&list);
    return code;
}

static int fail_without_provider(const struct prn_runtime *r, const char *path, const char *wanted,
                                 const char *kind, struct prony_error *err)
{
    struct prn_buffer list = PRN_BUFFER_INIT(1000);
    for (size_t i = plugin.own; i < plugin.n; i++)
        prn_buffer_printf(&list, "%s%s (%s)", i > plugin.own ? ", " : "",
                          r->library.api.EpDevice_EpName(plugin.devices[i]),
                          kind_of(r, plugin.devices[i]));
    int code = prn_fail(err, PRONY_EUNAVAILABLE,
                        "the plugin '%s' has no provider%s%s for device=%s; it has: %s", path,
                        wanted ? " " : "", wanted ? wanted : "", kind, prn_buffer_text(&list));
    prn_buffer_release(&list);
    return code;
}

/* The first device of the plugin that is as the options say. */
static const OrtEpDevice *choose_device(const struct prn_runtime *r, const char *wanted,
                                        const char *kind)
{
    for (size_t i = plugin.own; i < plugin.n; i++) {
        const OrtEpDevice *device = plugin.devices[i];
        if (strcmp(kind_of(r, device), kind) == 0 &&
            (!wanted || strcmp(wanted, r->library.api.EpDevice_EpName(device)) == 0))
            return device;
    }
    return NULL;
}

/* OpenVINO's would compute in bf16 where the processor has it. Every runtime here computes in f32
 * unless told otherwise. */
static void ask_for_f32(const char *provider, struct pairs *pairs)
{
    if (strcmp(provider, "OpenVINOExecutionProvider") != 0 || pairs->n == OPTIONS_MAX)
        return;
    for (size_t i = 0; i < pairs->n; i++)
        if (strcmp(pairs->keys[i], "load_config") == 0)
            return;
    pairs->keys[pairs->n] = "load_config";
    pairs->values[pairs->n++] = "{\"CPU\":{\"INFERENCE_PRECISION_HINT\":\"f32\"}}";
}

static int append_plugin(struct prn_runtime *r, const char *path,
                         const struct prn_runtime_config *config, struct prony_error *err)
{
    const struct ort_api *api = &r->library.api;
    const char *kind = prn_runtime_option_of(config, "device", "cpu");
    const char *wanted = prn_runtime_option_of(config, "provider", NULL);
    struct pairs pairs = {.n = 0};
    if (plugin.n == plugin.own)
        return fail_without_devices(r, path, err);
    const OrtEpDevice *device = choose_device(r, wanted, kind);
    if (!device)
        return fail_without_provider(r, path, wanted, kind, err);
    collect(config, &pairs);
    const char *version = api->GetKeyValue(api->EpDevice_EpMetadata(device), "version");
    r->provider = api->EpDevice_EpName(device);
    ask_for_f32(r->provider, &pairs);
    snprintf(r->version, sizeof r->version, "ONNX Runtime %s, %.*s %s", r->library.version,
             (int)(strlen(r->provider) - strlen(ort_provider_rest(r->provider))), r->provider,
             version ? version : "");
    return ort_check(r,
                     api->SessionOptionsAppendExecutionProvider_V2(
                         r->options, r->env, &device, 1, pairs.keys, pairs.values, pairs.n),
                     PRONY_EUSAGE, err);
}

static int open_plugin(struct prn_runtime *r, const struct prn_runtime_config *config,
                       struct prony_error *err)
{
    char path[PATH_MAX]; /* without a folder in it the loader would search for the file */
    const char *file = prn_runtime_option_of(config, "ep", NULL);
    if (!file)
        return prn_fail(err, PRONY_EUNAVAILABLE, "needs the file of a plugin: " PLUGIN "[ep=FILE]");
    if (!r->library.api.RegisterExecutionProviderLibrary)
        return prn_fail(err, PRONY_EUNAVAILABLE, "%s knows no plugins, 1.22 or newer is needed",
                        r->version);
    if (!realpath(file, path))
        return prn_fail_errno(err, errno, "load the plugin", file);
    int code = plugin.env ? 0 : register_plugin(r, path, err);
    if (code < 0)
        return prn_fail_in(err, code, "cannot load the plugin '%s'", file);
    return append_plugin(r, file, config, err);
}

const char *const *ort_readable(const struct prn_runtime *r)
{
    (void)r;
    return plugin.readable;
}

/* ---- For all ---- */

const char *ort_provider_rest(const char *name)
{
    const char *rest = strstr(name, "ExecutionProvider");
    return rest && rest > name ? rest : name + strlen(name);
}

int ort_set_provider(struct prn_runtime *r, const struct prn_runtime_config *config,
                     struct prony_error *err)
{
    const struct provider *p = find_provider(config->software);
    int code = 0;
    if (strcmp(config->software, PLUGIN) == 0)
        code = open_plugin(r, config, err);
    else if (p)
        code = append_listed(r, p, config, err);
    if (code == 0 && p) {
        snprintf(r->provider_name, sizeof r->provider_name, "%sExecutionProvider", p->name);
        r->provider = r->provider_name;
    }
    /* It keeps a list of all nodes for that, so only where it will be asked. */
    r->records_placement = r->provider && config->profile_folder &&
                           r->library.api.Session_GetEpGraphAssignmentInfo != NULL;
    if (code == 0 && r->records_placement)
        code = ort_check(r, r->library.api.AddSessionConfigEntry(r->options, RECORDING, "1"),
                         PRONY_ERUNTIME, err);
    return code;
}

/* ---- Which nodes each got ---- */

struct placing {
    struct prn_placed *rows;
    size_t n, room;
};

static int add_placed(struct placing *p, const char *provider, const char *op, int64_t nodes)
{
    size_t i = 0;
    while (i < p->n &&
           (strcmp(p->rows[i].provider, provider) != 0 || strcmp(p->rows[i].op, op) != 0))
        i++;
    if (i == p->n && p->n == p->room) {
        size_t room = p->room ? 2 * p->room : 64;
        struct prn_placed *rows = realloc(p->rows, room * sizeof *rows);
        if (!rows)
            return PRONY_ENOMEM;
        p->rows = rows;
        p->room = room;
    }
    if (i == p->n)
        p->rows[p->n++] = (struct prn_placed){provider, op, 0};
    p->rows[i].nodes += nodes;
    return 0;
}

static int add_subgraph(struct prn_runtime *r, const OrtEpAssignedSubgraph *subgraph,
                        struct placing *p, struct prony_error *err)
{
    const struct ort_api *api = &r->library.api;
    const OrtEpAssignedNode *const *nodes;
    const char *provider = NULL;
    const char *op = NULL;
    size_t n = 0;
    int code =
        ort_check(r, api->EpAssignedSubgraph_GetEpName(subgraph, &provider), PRONY_ERUNTIME, err);
    if (code == 0)
        code = ort_check(r, api->EpAssignedSubgraph_GetNodes(subgraph, &nodes, &n), PRONY_ERUNTIME,
                         err);
    for (size_t i = 0; code == 0 && i < n; i++) {
        code =
            ort_check(r, api->EpAssignedNode_GetOperatorType(nodes[i], &op), PRONY_ERUNTIME, err);
        if (code == 0 && add_placed(p, provider, op, 1) < 0)
            code = prn_fail_memory(err);
    }
    return code;
}

int ort_placement(struct prn_runtime *r, struct prn_placed **ret_rows, size_t *ret_n,
                  struct prony_error *err)
{
    struct placing p = {0};
    const OrtEpAssignedSubgraph *const *subgraphs;
    size_t n = 0;
    int code = 0;
    if (r->provider && add_placed(&p, r->provider, "", 0) < 0)
        code = prn_fail_memory(err);
    if (code == 0 && r->records_placement)
        code = ort_check(
            r, r->library.api.Session_GetEpGraphAssignmentInfo(r->session, &subgraphs, &n),
            PRONY_ERUNTIME, err);
    for (size_t i = 0; code == 0 && i < n; i++)
        code = add_subgraph(r, subgraphs[i], &p, err);
    if (code < 0) {
        free(p.rows);
        return code;
    }
    *ret_rows = p.rows;
    *ret_n = p.n;
    return 0;
}
