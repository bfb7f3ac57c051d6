/*
 * `prony layers`: cuts a model into layers that run one after the other, and measures them, shows
 * them, or writes each as a model of its own.
 */
#include "cli/layers.h"

#include "base/map.h"
#include "pipeline/limits.h"
#include "report/cuts_report.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- Layers as files ---- */

struct extraction {
    struct prn_cuts *cuts;
    const char *folder;
    const char *model;
    int digits;
    struct prn_arena *arena;
};

/* "FOLDER/layer_03.onnx", with ".data" behind it for weights apart; NULL: out of memory. */
static const char *layer_path(const struct extraction *x, size_t layer, bool data)
{
    size_t size = strlen(x->folder) + 64;
    char *path = prn_arena_alloc(x->arena, size);
    if (path)
        snprintf(path, size, "%s/layer_%0*zu.onnx%s", x->folder, x->digits, layer + 1,
                 data ? ".data" : "");
    return path;
}

static const char *base_name(const char *path)
{
    return strrchr(path, '/') + 1;
}

/* The names that the layers will have. */
static int name_layers(const struct extraction *x, struct prn_map *names, struct prony_error *err)
{
    for (size_t i = 0; i < x->cuts->n_layers; i++)
        for (int data = 0; data <= prn_cut_needs_data(x->cuts, i); data++) {
            const char *path = layer_path(x, i, data);
            if (!path || prn_map_set(names, base_name(path), 0) < 0)
                return prn_fail_memory(err);
            int code = prn_output_spares(path, x->model, err);
            if (code < 0)
                return code;
        }
    return 0;
}

/* A folder is used if all that it holds are layers that will be replaced: what else lies there
 * would look like a part of the model. */
static int check_entries(const struct extraction *x, DIR *folder, struct prony_error *err)
{
    struct prn_map names = PRN_MAP_INIT;
    int code = name_layers(x, &names, err);
    errno = 0;
    for (const struct dirent *e; code == 0 && (e = readdir(folder)); errno = 0) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        if (prn_map_get(&names, e->d_name) == PRN_MAP_NONE)
            code = prn_fail(err, PRONY_EUSAGE,
                            "--extract: '%s' has '%s', which is none of these layers; name a new "
                            "folder or empty this one",
                            x->folder, e->d_name);
    }
    if (code == 0 && errno)
        code = prn_fail_errno(err, errno, "read", x->folder);
    prn_map_release(&names);
    return code;
}

static int prepare_folder(const struct extraction *x, struct prony_error *err)
{
    if (mkdir(x->folder, 0777) == 0)
        return 0;
    if (errno != EEXIST)
        return prn_fail_errno(err, errno, "create", x->folder);
    DIR *folder = opendir(x->folder);
    if (!folder)
        return prn_fail_errno(err, errno, "open folder", x->folder);
    int code = check_entries(x, folder, err);
    closedir(folder);
    return code;
}

struct part {
    struct prn_cuts *cuts;
    size_t layer;
    const char *data_name; /* NULL: weights are in the file */
};

static int produce_layer(int fd, const char *name, void *context, struct prony_error *err)
{
    const struct part *part = context;
    return prn_cut_write(part->cuts, part->layer, part->data_name, fd, name, err);
}

static int produce_data(int fd, const char *name, void *context, struct prony_error *err)
{
    const struct part *part = context;
    return prn_cut_write_data(part->cuts, part->layer, fd, name, err);
}

static int extract_layer(const struct extraction *x, size_t layer, struct prony_error *err)
{
    struct part part = {.cuts = x->cuts, .layer = layer};
    const char *path = layer_path(x, layer, false);
    if (!path)
        return prn_fail_memory(err);
    if (prn_cut_needs_data(x->cuts, layer)) {
        const char *data = layer_path(x, layer, true);
        if (!data)
            return prn_fail_memory(err);
        part.data_name = base_name(data);
        int code = prn_output_stream(data, produce_data, &part, err);
        if (code < 0)
            return code;
    }
    return prn_output_stream(path, produce_layer, &part, err);
}

static int extract(const struct prn_layers_options *o, const struct prn_model *model,
                   struct prn_cuts *cuts, struct prn_arena *arena, struct prony_error *err)
{
    char digits[24];
    int n = snprintf(digits, sizeof digits, "%zu", cuts->n_layers);
    struct extraction x = {.cuts = cuts,
                           .folder = o->extract,
                           .model = model->path,
                           .digits = n < 2 ? 2 : n,
                           .arena = arena};
    int code = prepare_folder(&x, err);
    for (size_t i = 0; i < cuts->n_layers && code == 0; i++)
        code = extract_layer(&x, i, err);
    return code;
}

/* ---- The command ---- */

static int list(const struct prn_layers_options *o, const struct prn_model *model,
                const struct prn_cuts *cuts, struct prony_error *err)
{
    struct prn_buffer out = PRN_BUFFER_INIT(PRN_REPORT_MAX);
    int code = prn_cuts_report(model, cuts, (enum prn_report_format)o->format, &out, err);
    if (code == 0)
        code = prn_output(o->output, &out, err);
    prn_buffer_release(&out);
    return code;
}

static int check_use(const struct prn_layers_options *o, const struct prn_strings *arguments,
                     const char **ret_path, struct prony_error *err)
{
    if (arguments->n == 0 && !o->model_file)
        return prn_fail(err, PRONY_EUSAGE, "a model is missing");
    if (arguments->n > 0 && o->model_file)
        return prn_fail(err, PRONY_EUSAGE, "'%s' and -M '%s' are two models; one is cut at a time",
                        arguments->items[0], o->model_file);
    if (!o->list && o->extract && o->output)
        return prn_fail(err, PRONY_EUSAGE,
                        "--output is where a list or a report goes, and --extract makes neither");
    if (o->extract && !*o->extract)
        return prn_fail(err, PRONY_EUSAGE, "--extract: the folder's name is empty");
    *ret_path = o->model_file ? o->model_file : arguments->items[0];
    int code = prn_output_check_format((enum prn_report_format)o->format, err);
    if (code == 0)
        code = prn_layers_check_server(o, err);
    if (code == 0 && (o->list || o->extract))
        code = prn_layers_check_idle(o, err);
    return code == 0 ? prn_output_spares(o->output, *ret_path, err) : code;
}

static int use(const struct prn_layers_options *o, const struct prn_layer_texts *texts,
               const struct prn_layer_plan *plan, struct prn_arena *arena, struct prony_error *err)
{
    int code = 0;
    if (o->extract)
        code = extract(o, plan->model, plan->cuts, arena, err);
    if (code == 0 && o->list)
        code = list(o, plan->model, plan->cuts, err);
    if (code == 0 && !o->list && !o->extract)
        code = prn_layers_run(o, texts, plan, arena, err);
    return code;
}

static int run(const void *opaque, const struct prn_strings *arguments, struct prony_error *err)
{
    const struct prn_layers_options *o = opaque;
    struct prn_arena arena = PRN_ARENA_INIT((size_t)1 << 30);
    struct prn_layer_texts texts = {.dims = {o->dims.items, o->dims.n},
                                    .shapes = {o->shapes.items, o->shapes.n},
                                    .cuts = o->cuts,
                                    .max_tensors = o->max_tensors,
                                    .batch = o->batch};
    struct prn_model *model = NULL;
    const char *path = NULL;
    int code = check_use(o, arguments, &path, err);
    if (code == 0)
        code = prn_model_open(path, &model, err);
    if (code == 0 && o->shapes_in.n > 0 && o->layer_start <= 1)
        code = prn_layers_input_shapes(o, model, &arena, &texts.shapes, err);
    if (code == 0) {
        struct prn_layer_plan plan;
        code = prn_layer_plan_make(model, &texts, &arena, &plan, err);
        if (code == 0) {
            code = use(o, &texts, &plan, &arena, err);
            prn_layer_plan_release(&plan);
        }
    }
    prn_model_free(model);
    prn_arena_release(&arena);
    return code;
}

#define FIELD(name) offsetof(struct prn_layers_options, name)

static void set_defaults(void *opaque)
{
    struct prn_layers_options *o = opaque;
    o->seed = -1;
    o->precision = o->max_time_s = o->timeout_s = NAN;
}

static const struct prn_option option_table[] = {
    {PRN_OPTION_TEXT, 'M', "model-file", "MODEL.onnx", "the model, instead of the argument",
     FIELD(model_file), 0, 0, NULL},
    {PRN_OPTION_GROUP, 0, NULL, NULL, "Where to cut", 0, 0, 0, NULL},
    {PRN_OPTION_TEXT, 0, "cuts", "auto|N|NAME,...",
     "between operators with weights; the same, joined to N layers of balanced work; or at tensors "
     "or behind nodes of these names, in which * ? [a-z] are wildcards (default auto)",
     FIELD(cuts), 0, 0, NULL},
    {PRN_OPTION_COUNT, 0, "max-cut-tensors", "N",
     "most tensors that may pass a cut that isn't named (default 2)", FIELD(max_tensors), 1,
     PRN_LAYER_CUT_TENSORS_MAX, NULL},
    {PRN_OPTION_GROUP, 0, NULL, NULL, "Sizes", 0, 0, 0, NULL},
    {PRN_OPTION_COUNT, 'b', "batch-size", "N",
     "size of the inputs' outer dimension, where the model leaves it open (default 8)",
     FIELD(batch), 1, PRN_PIPELINE_BATCH_MAX, NULL},
    {PRN_OPTION_LIST, 0, "dim", "NAME=SIZE",
     "size of another open dimension, repeatable (default 1)", FIELD(dims), 0, 0, NULL},
    {PRN_OPTION_LIST, 0, "shape", "INPUT=SIZES",
     "shape of an input, repeatable, e.g. x=1x3x224x224", FIELD(shapes), 0, 0, NULL},
    {PRN_OPTION_GROUP, 0, NULL, NULL, "What to measure", 0, 0, 0, NULL},
    {PRN_OPTION_TEXT, 'd', "device", "DEVICE",
     "cpu, cuda or cuda:N, with ONNX Runtime (default cpu)", FIELD(device), 0, 0, NULL},
    {PRN_OPTION_TEXT, 0, "backend", "SPEC",
     "any backend instead, e.g. 'openvino-cpu' or 'onnxrt-cpu[threads=1]', with --server also "
     "HARDWARE/SOFTWARE ('prony backends' lists them)",
     FIELD(backend), 0, 0, NULL},
    {PRN_OPTION_TEXT, 0, "ort-lib", "FILE", "ONNX Runtime library to load (libonnxruntime.so)",
     FIELD(ort_lib), 0, 0, NULL},
    {PRN_OPTION_COUNT, 'l', "layer-start", "N", "first layer to measure (default 1)",
     FIELD(layer_start), 1, PRN_PIPELINE_LAYERS_MAX, NULL},
    {PRN_OPTION_COUNT, 'L', "layer-end", "N", "last layer to measure (default: the last)",
     FIELD(layer_end), 1, PRN_PIPELINE_LAYERS_MAX, NULL},
    {PRN_OPTION_LIST, 's', "shape-input", "SIZES",
     "shape of an input of the first layer to measure, without the batch, e.g. 3,224,224; once for "
     "each. From layer 2 on its inputs are random then, and the layers before aren't run",
     FIELD(shapes_in), 0, 0, NULL},
    {PRN_OPTION_LIST, 0, "input", "INPUT=VALUE",
     "ones, zeros, random, a number, or @FILE (.npy, .pb, .raw), repeatable (default: as 'prony "
     "profile')",
     FIELD(inputs), 0, 0, NULL},
    {PRN_OPTION_COUNT, 0, "seed", "N", "seed of random inputs (default 0)", FIELD(seed), 0, 9e15,
     NULL},
    {PRN_OPTION_GROUP, 0, NULL, NULL, "How to measure", 0, 0, 0, NULL},
    {PRN_OPTION_FLAG, 'w', "warmup", NULL, "warm up until times settle (the default)",
     FIELD(warmup), 0, 0, NULL},
    {PRN_OPTION_FLAG, 0, "no-warmup", NULL, "time everything but the first run of a process",
     FIELD(no_warmup), 0, 0, NULL},
    {PRN_OPTION_COUNT, 'i', "iterations", "N",
     "exactly N timed runs per layer (default: as many as the precision needs)", FIELD(iterations),
     1, 1e7, NULL},
    {PRN_OPTION_PERCENT, 0, "precision", "P",
     "stop when the 95 % interval of the median is within ±P (default 1%)", FIELD(precision), 1e-4,
     1, NULL},
    {PRN_OPTION_COUNT, 0, "launches", "N",
     "fresh processes per layer (default: 5, up to 20 while precision needs them)", FIELD(launches),
     1, 1000, NULL},
    {PRN_OPTION_NUMBER, 0, "max-time", "SECONDS",
     "stop measuring a layer after this time; the whole model gets as long as its layers "
     "(default 10)",
     FIELD(max_time_s), 0.1, 1e6, NULL},
    {PRN_OPTION_NUMBER, 0, "timeout", "SECONDS",
     "give up when loading or one run takes longer (default 120)", FIELD(timeout_s), 0.1, 1e6,
     NULL},
    {PRN_OPTION_GROUP, 0, NULL, NULL, "On another machine", 0, 0, 0, NULL},
    PRN_SERVER_ROWS(struct prn_layers_options),
    {PRN_OPTION_GROUP, 0, NULL, NULL, "Results", 0, 0, 0, NULL},
    {PRN_OPTION_TEXT, 'o', "results-yml", "FILE",
     "results per layer; extended if it exists (default profiler_results.yml)", FIELD(results), 0,
     0, NULL},
    {PRN_OPTION_TEXT, 'm', "model-name", "NAME",
     "what the results call the model (default: its file without .onnx)", FIELD(model_name), 0, 0,
     NULL},
    {PRN_OPTION_FLAG, 0, "resume", NULL,
     "keep the layers that the results have, and measure the others", FIELD(resume), 0, 0, NULL},
    {PRN_OPTION_CHOICE, 0, "format", "FORMAT",
     "of the report or the list: text, json, csv, md, or html: a page with pictures (default "
     "text)",
     FIELD(format), 0, 0, prn_report_formats},
    {PRN_OPTION_TEXT, 0, "output", "FILE",
     "write the report or the list to FILE instead of standard output", FIELD(output), 0, 0, NULL},
    {PRN_OPTION_GROUP, 0, NULL, NULL, "Instead of measuring", 0, 0, 0, NULL},
    {PRN_OPTION_FLAG, 0, "list", NULL,
     "show the layers: what passes between them, parameters and work", FIELD(list), 0, 0, NULL},
    {PRN_OPTION_TEXT, 0, "extract", "FOLDER",
     "write each layer as a model of its own: layer_01.onnx, ...", FIELD(extract), 0, 0, NULL},
    {0},
};

const struct prn_command prn_command_layers = {
    .name = "layers",
    .arguments = "MODEL.onnx",
    .summary = "cut a model into layers that run one after the other, and measure each",
    .description =
        "Cuts a model where few tensors pass: a layer per group of operators that have weights, "
        "and between two of them the place where the fewest bytes are alive. In a transformer that "
        "is four layers per block. Layers that run one after the other, each with what the one "
        "before hands on, give the model's outputs.\n"
        "Measures the time, memory and shapes of each layer, in processes of its own and with the "
        "real outputs of the layer before, into a file of results, which 'prony models' and "
        "'prony device-types' read. The whole model is measured beside them. Ctrl-C loses the "
        "layer that is being measured; --resume goes on.\n"
        "With --list or --extract nothing is run, and with --list no weight is read.",
    .examples = "# what each layer takes\n"
                "prony layers vit.onnx -m google/vit-base-patch16-224\n"
                "# on another runtime, and go on after Ctrl-C\n"
                "prony layers vit.onnx --backend openvino-cpu -o openvino.yml --resume\n"
                "# on hardware of a service\n"
                "prony layers vit.onnx --server prony.example.org:443 --backend "
                "r6i.large/onnxrt-cpu\n"
                "# where a model would be cut\n"
                "prony layers vit.onnx --list\n"
                "# four layers of about the same work, as models\n"
                "prony layers vit.onnx --cuts 4 --extract vit-layers",
    .options = option_table,
    .options_size = sizeof(struct prn_layers_options),
    .defaults = set_defaults,
    .max_arguments = 1,
    .run = run,
};
