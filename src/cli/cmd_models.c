/* `prony models`: from results per layer to what a scheduler knows of models. */
#include "cli/command.h"

#include "cli/output.h"
#include "pipeline/models.h"

struct options {
    const char *results, *models;
    bool overwrite;
};

static void models_defaults(void *options)
{
    struct options *o = options;
    o->results = "profiler_results.yml";
    o->models = "models.yml";
}

static int models_run(const void *options, const struct prn_strings *arguments,
                      struct prony_error *err)
{
    const struct options *o = options;
    (void)arguments;
    struct prn_layer_profile *profile;
    int code = prn_output_spares(o->models, o->results, err);
    if (code == 0)
        code = prn_layer_profile_read(o->results, &profile, err);
    if (code < 0)
        return code;
    struct prn_buffer out = PRN_BUFFER_INIT(PRN_LAYER_PROFILE_TEXT_MAX);
    code = prn_models_extend(o->models, profile, o->overwrite, &out, err);
    if (code == 0)
        code = prn_output(o->models, &out, err);
    prn_buffer_release(&out);
    prn_layer_profile_free(profile);
    return code;
}

#define FIELD(name) offsetof(struct options, name)

static const struct prn_option option_table[] = {
    PRN_OPTION(TEXT, 'i', "results-yml", "FILE", FIELD(results),
               "results per layer (default profiler_results.yml)"),
    PRN_OPTION(TEXT, 'o', "models-yml", "FILE", FIELD(models),
               "models; extended if it exists (default models.yml)"),
    PRN_OPTION(FLAG, 'f', "overwrite", NULL, FIELD(overwrite),
               "replace an existing model of that name"),
    {0},
};

const struct prn_command prn_command_models = {
    .name = "models",
    .arguments = "",
    .summary = "add measured layers to the models that can be scheduled",
    .description =
        "Takes results per layer and writes what the scheduler needs to know about the model: "
        "the memory of each layer and how much data leaves it.\n"
        "Other models in the file are kept. Nothing is written on an error.",
    .examples = "# from profiler_results.yml to models.yml\n"
                "prony models\n"
                "# measured again\n"
                "prony models -i vit.yml -o cluster/models.yml --overwrite",
    .options = option_table,
    .options_size = sizeof(struct options),
    .defaults = models_defaults,
    .run = models_run,
};
