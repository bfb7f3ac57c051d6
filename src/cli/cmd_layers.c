/*
 * `prony layers`: cuts a model into layers that run one after the other, and measures them, shows
 * them, or writes each as a model of its own.
 */
#include "cli/layers_measure.h"

#include "cli/output.h"
#include "base/map.h"
#include "exec/scratch.h"
#include "pipeline/limits.h"
#include "report/layers/cuts.h"
#include "report/saved.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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
                            "--extract: '%s' contains '%s', which is not one of these layers; name "
                            "a new folder or empty this one",
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
    struct prn_look look = prn_output_look(o->output, false, PRN_COLOUR_AUTO);
    struct prn_buffer out = PRN_BUFFER_INIT(PRN_REPORT_MAX);
    int code = prn_cuts_report(model, cuts, (enum prn_report_format)o->format, &look, &out, err);
    if (code == 0)
        code = prn_output(o->output, &out, err);
    prn_buffer_release(&out);
    return code;
}

static int check_use(const struct prn_layers_options *o, const struct prn_strings *arguments,
                     const char **ret_path, struct prony_error *err)
{
    const struct prn_synth_network *network = arguments->n == 0 ? prn_layers_network(o) : NULL;
    if (arguments->n == 0 && !o->model_file && !network)
        return o->model_name ? prn_fail(err, PRONY_EUSAGE,
                                        "a model is missing: '%s' isn't one of the networks that "
                                        "'prony synth --list' shows",
                                        o->model_name)
                             : prn_fail(err, PRONY_EUSAGE,
                                        "a model is missing: give a file, or with -m a network "
                                        "that 'prony synth --list' shows");
    if (arguments->n > 0 && o->model_file)
        return prn_fail(err, PRONY_EUSAGE, "'%s' and -M '%s' both name a model; give one",
                        arguments->items[0], o->model_file);
    if (!o->list && o->extract && o->output)
        return prn_fail(err, PRONY_EUSAGE, "--output cannot be combined with --extract");
    if (o->extract && !*o->extract)
        return prn_fail(err, PRONY_EUSAGE, "--extract: the folder's name is empty");
    *ret_path = network ? network->name : arguments->n > 0 ? arguments->items[0] : o->model_file;
    int code = prn_output_check_format((enum prn_report_format)o->format, err);
    if (code == 0)
        code = prn_layers_check_server(o, err);
    if (code == 0 && (o->list || o->extract))
        code = prn_layers_check_idle(o, err);
    return code == 0 ? prn_output_spares(o->output, *ret_path, err) : code;
}

/* Said before something is measured for an hour. */
static void tell_hint(const struct prn_cut_hint *hint)
{
    if (hint->max_tensors > 0)
        prn_warn("layer %zu has %.1f %% of the work; --max-cut-tensors %zu would make %zu layers, "
                 "of which the largest has %.1f %%",
                 hint->layer, 100 * hint->larger, hint->max_tensors, hint->n_layers,
                 100 * hint->share);
}

static int use(const struct prn_layers_options *o, const struct prn_layer_texts *texts,
               const struct prn_layer_plan *plan, const char *shown, struct prn_arena *arena,
               struct prony_error *err)
{
    int code = 0;
    tell_hint(&plan->cuts->hint);
    if (o->extract)
        code = extract(o, plan->model, plan->cuts, arena, err);
    struct prn_model named = *plan->model;
    named.path = shown ? shown : named.path;
    if (code == 0 && o->list)
        code = list(o, &named, plan->cuts, err);
    if (code == 0 && !o->list && !o->extract)
        code = prn_layers_run(o, texts, plan, shown, arena, err);
    return code;
}

/* ---- Networks by name ---- */

/* PipeEdge's networks have their weights in such a file; ours have random ones. */
static bool holds_weights(const char *path)
{
    const size_t len = strlen(path);
    return len > 4 && strcmp(path + len - 4, ".npz") == 0;
}

const struct prn_synth_network *prn_layers_network(const struct prn_layers_options *o)
{
    if (!o->model_name || (o->model_file && !holds_weights(o->model_file)))
        return NULL;
    const char *slash = strrchr(o->model_name, '/');
    return prn_synth_find(slash ? slash + 1 : o->model_name);
}

/* Writes it into a folder that is gone when prony is. */
static int make_network(const struct prn_synth_network *network, struct prn_scratch *scratch,
                        char path[PATH_MAX], struct prony_error *err)
{
    const struct prn_synth_options options = {.batch = PRN_SYNTH_DYNAMIC, .large = true};
    int code = prn_scratch_open(NULL, scratch, err);
    if (code < 0)
        return code;
    snprintf(path, PATH_MAX, "%.*s/%s.onnx", PATH_MAX - 128, scratch->folder, network->name);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    code = fd < 0 ? prn_fail_errno(err, errno, "create", path)
                  : prn_synth_write(network, &options, fd, path, err);
    if (fd >= 0 && close(fd) < 0 && code == 0)
        code = prn_fail_errno(err, errno, "write", path);
    if (code < 0)
        prn_scratch_close(scratch);
    return code;
}

static int layers_work(const struct prn_layers_options *o, const char *path, const char *shown,
                       const char *cuts, struct prony_error *err)
{
    struct prn_arena arena = PRN_ARENA_INIT((size_t)1 << 30);
    struct prn_layer_texts texts = {.dims = {o->dims.items, o->dims.n},
                                    .shapes = {o->shapes.items, o->shapes.n},
                                    .cuts = cuts,
                                    .max_tensors = o->max_tensors,
                                    .batch = o->batch};
    struct prn_model *model = NULL;
    int code = prn_model_open(path, &model, err);
    if (code == 0 && o->shapes_in.n > 0 && o->layer_start <= 1)
        code = prn_layers_input_shapes(o, model, &arena, &texts.shapes, err);
    if (code == 0) {
        struct prn_layer_plan plan;
        code = prn_layer_plan_make(model, &texts, &arena, &plan, err);
        if (code == 0) {
            code = use(o, &texts, &plan, shown, &arena, err);
            prn_layer_plan_release(&plan);
        }
    }
    prn_model_free(model);
    prn_arena_release(&arena);
    return code;
}

static int layers_run(const void *opaque, const struct prn_strings *arguments,
                      struct prony_error *err)
{
    const struct prn_layers_options *o = opaque;
    const struct prn_synth_network *network = arguments->n == 0 ? prn_layers_network(o) : NULL;
    struct prn_scratch scratch;
    char made[PATH_MAX];
    const char *path = NULL;
    int code = check_use(o, arguments, &path, err);
    if (code < 0 || !network)
        return code < 0 ? code : layers_work(o, path, NULL, o->cuts, err);
    if (o->model_file)
        prn_warn("'%s' is not read: the network has random weights", o->model_file);
    code = make_network(network, &scratch, made, err);
    if (code < 0)
        return code;
    code = layers_work(o, made, network->name, o->cuts ? o->cuts : network->cuts, err);
    prn_scratch_close(&scratch);
    return code;
}

#define FIELD(name) offsetof(struct prn_layers_options, name)

static void layers_defaults(void *opaque)
{
    struct prn_layers_options *o = opaque;
    o->seed = -1;
    o->precision = o->max_time_s = o->timeout_s = NAN;
}

static const struct prn_option option_table[] = {
    PRN_OPTION(TEXT, 'M', "model-file", "MODEL.onnx", FIELD(model_file),
               "the model, instead of the argument"),
    PRN_OPTION_HEADING("Where to cut"),
    PRN_OPTION(TEXT, 0, "cuts", "auto|N|NAME,...", FIELD(cuts),
               "between operators with weights; the same, joined to N layers of balanced work; or "
               "at tensors "
               "or after nodes of these names, in which * ? [a-z] are wildcards (default auto)"),
    PRN_OPTION(COUNT, 0, "max-cut-tensors", "N", FIELD(max_tensors),
               "most tensors that may cross an automatic cut; tiny ones don't count (default 2)",
               PRN_OPTION_RANGE(1, PRN_LAYER_CUT_TENSORS_MAX)),
    PRN_OPTION_HEADING("Sizes"),
    PRN_OPTION(COUNT, 'b', "batch-size", "N", FIELD(batch),
               "size of the inputs' outer dimension, where the model leaves it open (default 8)",
               PRN_OPTION_RANGE(1, PRN_PIPELINE_BATCH_MAX)),
    PRN_OPTION(LIST, 0, "dim", "NAME=SIZE", FIELD(dims),
               "size of another open dimension, repeatable (default 1)"),
    PRN_OPTION(LIST, 0, "shape", "INPUT=SIZES", FIELD(shapes),
               "shape of an input, repeatable, e.g. x=1x3x224x224"),
    PRN_OPTION_HEADING("What to measure"),
    PRN_OPTION(TEXT, 'd', "device", "DEVICE", FIELD(device),
               "cpu, cuda or cuda:N, with ONNX Runtime (default cpu)"),
    PRN_OPTION(
        TEXT, 0, "backend", "SPEC", FIELD(backend),
        "any backend instead, e.g. 'openvino-cpu' or 'onnxrt-cpu[threads=1]', with --server also "
        "HARDWARE/SOFTWARE ('prony backends' lists them)"),
    PRN_LIBRARY_ROW(struct prn_layers_options),
    PRN_OPTION(COUNT, 'l', "layer-start", "N", FIELD(layer_start),
               "first layer to measure (default 1)", PRN_OPTION_RANGE(1, PRN_PIPELINE_LAYERS_MAX)),
    PRN_OPTION(COUNT, 'L', "layer-end", "N", FIELD(layer_end),
               "last layer to measure (default: the last)",
               PRN_OPTION_RANGE(1, PRN_PIPELINE_LAYERS_MAX)),
    PRN_OPTION(
        LIST, 's', "shape-input", "SIZES", FIELD(shapes_in),
        "shape of an input of the first layer to measure, without the batch, e.g. 3,224,224; once "
        "for "
        "each. From layer 2 on its inputs are random then, and the layers before aren't run"),
    PRN_OPTION(
        LIST, 0, "input", "INPUT=VALUE", FIELD(inputs),
        "ones, zeros, random, a number, or @FILE (.npy, .pb, .raw), repeatable (default: as 'prony "
        "profile')"),
    PRN_OPTION(COUNT, 0, "seed", "N", FIELD(seed), "seed of random inputs (default 0)",
               PRN_OPTION_RANGE(0, 9e15)),
    PRN_OPTION_HEADING("How to measure"),
    PRN_OPTION(FLAG, 'w', "warmup", NULL, FIELD(warmup),
               "warm up until times settle (the default)"),
    PRN_OPTION(FLAG, 0, "no-warmup", NULL, FIELD(no_warmup),
               "time everything but the first run of a process"),
    PRN_OPTION(COUNT, 'i', "iterations", "N", FIELD(iterations),
               "exactly N timed runs per layer (default: as many as the precision needs)",
               PRN_OPTION_RANGE(1, 1e7)),
    PRN_OPTION(PERCENT, 0, "precision", "P", FIELD(precision),
               "stop when the 95 % interval of the median is within ±P (default 1%)",
               PRN_OPTION_RANGE(1e-4, 1)),
    PRN_OPTION(COUNT, 0, "launches", "N", FIELD(launches),
               "fresh processes per layer (default: 5, up to 20 while precision needs them)",
               PRN_OPTION_RANGE(1, 1000)),
    PRN_OPTION(SECONDS, 0, "max-time", "TIME", FIELD(max_time_s),
               "stop measuring a layer after this time; the whole model gets as long as its layers "
               "(default 10)",
               PRN_OPTION_RANGE(0.1, 1e6)),
    PRN_OPTION(SECONDS, 0, "timeout", "TIME", FIELD(timeout_s),
               "give up when loading or one run takes longer (default 120)",
               PRN_OPTION_RANGE(0.1, 1e6)),
    PRN_OPTION_HEADING("On another machine"),
    PRN_SERVER_ROWS(struct prn_layers_options),
    PRN_OPTION_HEADING("Results"),
    PRN_OPTION(TEXT, 'o', "results-yml", "FILE", FIELD(results),
               "results per layer; extended if it exists (default profiler_results.yml)"),
    PRN_OPTION(TEXT, 'm', "model-name", "NAME", FIELD(model_name),
               "name of the model in the results (default: its file name without .onnx). Without a "
               "file, a network that 'prony synth --list' shows, with or without a '.../' before "
               "it: it is made, with random weights, and cut where PipeEdge cuts it"),
    PRN_OPTION(FLAG, 0, "resume", NULL, FIELD(resume),
               "keep the layers already in the results, and measure the others"),
    PRN_OPTION(CHOICE, 0, "format", "FORMAT", FIELD(format),
               "of the report or the list: text, json, csv, md, or html: a page with charts "
               "(default text)",
               .choices = prn_report_formats),
    PRN_OPTION(TEXT, 0, "output", "FILE", FIELD(output),
               "write the report or the list to FILE instead of standard output"),
    PRN_OPTION_HEADING("Instead of measuring"),
    PRN_OPTION(FLAG, 0, "list", NULL, FIELD(list),
               "show the layers: the tensors passed between them, parameters and work"),
    PRN_OPTION(TEXT, 0, "extract", "FOLDER", FIELD(extract),
               "write each layer as a separate model: layer_01.onnx, ..."),
    {0},
};

const struct prn_command prn_command_layers = {
    .name = "layers",
    .arguments = "MODEL.onnx",
    .summary = "cut a model into layers and measure each",
    .description =
        "Cuts a model where few tensors cross: one layer per group of operators with weights, "
        "cut where the fewest bytes are alive. A transformer gets four layers per block. Run "
        "in sequence, the layers give the model's outputs.\n"
        "Measures the time, memory and shapes of each layer, in separate processes and on the "
        "real outputs of the previous layer, and writes a results file for 'prony models' and "
        "'prony device-types'. The whole model is measured too, for comparison. Ctrl-C loses "
        "only the layer being measured; --resume continues.\n"
        "--list and --extract run nothing; --list reads no weights.",
    .examples =
        "# what each layer takes\n"
        "prony layers vit.onnx -m google/vit-base-patch16-224\n"
        "# on another runtime, resuming after Ctrl-C\n"
        "prony layers vit.onnx --backend openvino-cpu -o openvino.yml --resume\n"
        "# on hardware of a service\n"
        "prony layers vit.onnx --server prony.example.org:443 --backend r6i.large/onnxrt-cpu\n"
        "# where a model would be cut\n"
        "prony layers vit.onnx --list\n"
        "# four layers of about the same work, as models\n"
        "prony layers vit.onnx --cuts 4 --extract vit-layers",
    .options = option_table,
    .options_size = sizeof(struct prn_layers_options),
    .defaults = layers_defaults,
    .max_arguments = 1,
    .takes = PRN_SAVED_BIT(MODEL),
    .run = layers_run,
};
