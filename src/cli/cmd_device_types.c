/* `prony device-types`: from results per layer to what a scheduler knows of types of devices. */
#include "cli/command.h"

#include "cli/output.h"
#include "pipeline/device_types.h"

#include <math.h>

struct options {
    const char *results, *types;
    int64_t mem_mb, bw_mbps;
    double price;
    bool overwrite;
};

static void device_types_defaults(void *options)
{
    struct options *o = options;
    o->results = "profiler_results.yml";
    o->types = "device_types.yml";
    o->mem_mb = -1;
    o->bw_mbps = -1;
    o->price = NAN;
}

static int device_types_run(const void *options, const struct prn_strings *arguments,
                            struct prony_error *err)
{
    const struct options *o = options;
    struct prn_device_properties properties = {arguments->items[0], o->mem_mb, o->bw_mbps,
                                               o->price};
    struct prn_layer_profile *profile;
    int code = prn_output_spares(o->types, o->results, err);
    if (code == 0)
        code = prn_layer_profile_read(o->results, &profile, err);
    if (code < 0)
        return code;
    struct prn_buffer out = PRN_BUFFER_INIT(PRN_LAYER_PROFILE_TEXT_MAX);
    code = prn_device_types_extend(o->types, &properties, profile, o->overwrite, &out, err);
    if (code == 0)
        code = prn_output(o->types, &out, err);
    prn_buffer_release(&out);
    prn_layer_profile_free(profile);
    return code;
}

#define FIELD(name) offsetof(struct options, name)

static const struct prn_option option_table[] = {
    PRN_OPTION(TEXT, 'i', "results-yml", "FILE", FIELD(results),
               "results per layer (default profiler_results.yml)"),
    PRN_OPTION(TEXT, 'o', "dev-types-yml", "FILE", FIELD(types),
               "device types; extended if it exists (default device_types.yml)"),
    PRN_OPTION(COUNT, 0, "dev-type-mem", "MB", FIELD(mem_mb),
               "memory of a device that models may use; needed for a new type",
               PRN_OPTION_RANGE(0, 1e12)),
    PRN_OPTION(COUNT, 0, "dev-type-bw", "MBPS", FIELD(bw_mbps),
               "bandwidth of a device's network; needed for a new type", PRN_OPTION_RANGE(0, 1e12)),
    PRN_OPTION(NUMBER, 0, "price", "USD", FIELD(price),
               "what a device costs per hour, for 'prony schedule --objective cost'",
               PRN_OPTION_RANGE(0, 1e6)),
    PRN_OPTION(FLAG, 'f', "overwrite", NULL, FIELD(overwrite), "replace existing times and prices"),
    {0},
};

static const struct prn_option_alias option_aliases[] = {
    {"dtm", "dev-type-mem"},
    {"dtb", "dev-type-bw"},
    {0},
};

const struct prn_command prn_command_device_types = {
    .name = "device-types",
    .arguments = "DEV_TYPE",
    .summary = "add measured layers to the device types of a schedule",
    .description =
        "Takes results per layer that were measured on a device of type DEV_TYPE and adds "
        "their times to that type.\n"
        "MB and MBPS are in units of 2^20 bytes and bits per second. Values given for an "
        "existing type must match the file. Everything else in the file is kept. Nothing is "
        "written on an error.",
    .examples = "# a new type\n"
                "prony device-types minnowboard -dtm 1500 -dtb 1000 --price 0.02\n"
                "# another model on the same type\n"
                "prony device-types minnowboard -i bert.yml",
    .options = option_table,
    .aliases = option_aliases,
    .options_size = sizeof(struct options),
    .defaults = device_types_defaults,
    .min_arguments = 1,
    .max_arguments = 1,
    .run = device_types_run,
};
