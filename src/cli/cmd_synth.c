/* `prony synth`: writes a standard network with random weights. */
#include "cli/command.h"

#include "cli/output.h"
#include "base/format.h"
#include "base/table.h"
#include "base/text.h"
#include "model/synth/synth.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BATCH_MAX 65536
#define SEQ_MAX 65536

struct options {
    const char *output;
    const char *batch;
    const char *seq;
    int64_t seed;
    int64_t hidden, layers;
    bool list;
};

/* "8" or "dynamic". */
static int parse_dim(const char *option, const char *text, int64_t most, int64_t *ret_dim,
                     struct prony_error *err)
{
    if (!text)
        return 0;
    if (strcmp(text, "dynamic") == 0) {
        *ret_dim = PRN_SYNTH_DYNAMIC;
        return 0;
    }
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end == text || *end || errno || value < 1 || value > most)
        return prn_fail(err, PRONY_EUSAGE, "--%s: '%s' is neither 'dynamic' nor from 1 to %lld",
                        option, text, (long long)most);
    *ret_dim = value;
    return 0;
}

static int parse_options(const struct options *o, struct prn_synth_options *ret_options,
                         struct prony_error *err)
{
    struct prn_synth_options options = {
        .hidden = o->hidden, .layers = o->layers, .seed = (uint64_t)o->seed};
    int code = parse_dim("batch", o->batch, BATCH_MAX, &options.batch, err);
    if (code == 0)
        code = parse_dim("seq", o->seq, SEQ_MAX, &options.seq, err);
    if (code == 0)
        *ret_options = options;
    return code;
}

static int list(struct prony_error *err)
{
    struct prn_table *table = prn_table_new();
    const struct prn_look look = prn_output_look(NULL, false, PRN_COLOUR_NEVER);
    prn_table_columns(table, "Network|>Parameters|>File|Input");
    prn_table_wrap(table);
    prn_table_width(table, look.width);
    int code = 0;
    for (const struct prn_synth_network *n = prn_synth_networks; n->name && code == 0; n++) {
        struct prn_synth_facts facts;
        char count[PRN_FORMAT_SIZE], bytes[PRN_FORMAT_SIZE];
        code = prn_synth_describe(n, &(struct prn_synth_options){0}, &facts, err);
        if (code < 0)
            break;
        prn_table_cell(table, "%s", n->name);
        prn_table_cell(table, "%s", prn_format_integer(count, facts.parameters));
        prn_table_cell(table, "%s", prn_format_bytes(bytes, (double)facts.file_bytes));
        prn_table_cell(table, "%s", facts.inputs);
    }
    struct prn_buffer out = PRN_BUFFER_INIT((size_t)1 << 20);
    if (code == 0)
        code = prn_table_write(table, PRN_TABLE_STYLE_TEXT, &out, err);
    prn_text_wrap(&out,
                  "Parameters are the trainable ones. The running means and variances of "
                  "BatchNormalization are in the file but not counted.",
                  0, 0, look.width);
    if (code == 0)
        code = prn_output(NULL, &out, err);
    prn_buffer_release(&out);
    prn_table_free(table);
    return code;
}

static int unknown_network(const char *name, struct prony_error *err)
{
    struct prn_buffer names = PRN_BUFFER_INIT(1024);
    for (const struct prn_synth_network *n = prn_synth_networks; n->name; n++)
        prn_buffer_printf(&names, "%s%s", n == prn_synth_networks ? "" : ", ", n->name);
    int code = prn_fail(err, PRONY_EUSAGE, "unknown network '%s'; there are %s", name,
                        prn_buffer_text(&names));
    prn_buffer_release(&names);
    return code;
}

struct job {
    const struct prn_synth_network *network;
    struct prn_synth_options options;
};

static int produce(int fd, const char *name, void *context, struct prony_error *err)
{
    const struct job *job = context;
    return prn_synth_write(job->network, &job->options, fd, name, err);
}

static int synth_run(const void *options, const struct prn_strings *arguments,
                     struct prony_error *err)
{
    const struct options *o = options;
    if (o->list) {
        if (arguments->n > 0)
            return prn_fail(err, PRONY_EUSAGE, "--list takes no network");
        return list(err);
    }
    if (arguments->n == 0)
        return prn_fail(err, PRONY_EUSAGE, "a network is missing; 'prony synth --list' shows all");
    struct job job = {.network = prn_synth_find(arguments->items[0])};
    if (!job.network)
        return unknown_network(arguments->items[0], err);
    int code = parse_options(o, &job.options, err);
    if (code == 0)
        code = prn_synth_check(job.network, &job.options, err);
    if (code < 0)
        return code;
    if (!o->output)
        return prn_fail(err, PRONY_EUSAGE, "-o FILE is missing ('-' is standard output)");
    if (strcmp(o->output, "-") == 0 && isatty(STDOUT_FILENO))
        return prn_fail(err, PRONY_EUSAGE,
                        "-o -: standard output is a terminal, and the model is binary");
    return prn_output_stream(o->output, produce, &job, err);
}

#define FIELD(name) offsetof(struct options, name)

static const struct prn_option option_table[] = {
    PRN_OPTION(TEXT, 'o', "output", "FILE", FIELD(output),
               "where the model goes; '-' is standard output"),
    PRN_OPTION(TEXT, 0, "batch", "N|dynamic", FIELD(batch), "batch size, or left open (default 1)"),
    PRN_OPTION(TEXT, 0, "seq", "N|dynamic", FIELD(seq),
               "tokens per sequence, or left open (default 128); networks for text only"),
    PRN_OPTION(COUNT, 0, "seed", "N", FIELD(seed), "seed of the random weights (default 0)",
               PRN_OPTION_RANGE(0, 0x1p53)),
    PRN_OPTION(COUNT, 0, "hidden", "N", FIELD(hidden), "width of mlp's hidden layers (default 200)",
               PRN_OPTION_RANGE(1, 65536)),
    PRN_OPTION(COUNT, 0, "layers", "N", FIELD(layers), "number of mlp's hidden layers (default 1)",
               PRN_OPTION_RANGE(1, 10000)),
    PRN_OPTION(FLAG, 0, "list", NULL, FIELD(list),
               "show the networks, their parameters and inputs"),
    {0},
};

const struct prn_command prn_command_synth = {
    .name = "synth",
    .arguments = "NAME",
    .summary = "write a standard network with random weights",
    .description =
        "Writes a standard architecture as an ONNX file with random weights, so that it can be "
        "measured without a download. The same options and seed give the same file.\n"
        "NAME is mlp, resnet50, mobilenet-v2, vit-base-patch16-224, bert-base, gpt2-small or "
        "another "
        "that --list shows.",
    .examples = "# an image classifier for batches of any size\n"
                "prony synth resnet50 --batch dynamic -o resnet50.onnx\n"
                "# a plain network of about 10 ms\n"
                "prony synth mlp --hidden 2048 --layers 10 -o mlp.onnx",
    .options = option_table,
    .options_size = sizeof(struct options),
    .max_arguments = 1,
    .run = synth_run,
};
