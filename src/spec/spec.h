/*
 * Backend specs, "hardware/software[opt,key=value,…]", and what prony knows of hardware.
 */
#ifndef PRN_SPEC_SPEC_H
#define PRN_SPEC_SPEC_H

#include "base/arena.h"
#include "base/buffer.h"

struct prn_spec_option {
    const char *key;
    const char *value; /* "" for a bare key */
};

struct prn_spec {
    const char *hardware; /* "local" where it was left out and that was allowed */
    const char *software;
    size_t n_options;
    const struct prn_spec_option *options; /* in the order written */
    const char *name; /* canonical text, hardware/software[a,b=c], or the name that a user gave */
};

/* White space around keys and values is trimmed. Errors name the text and the fault: no '/', an
 * empty part, a ']' without '[', text after ']', a second '=', an empty or repeated key, control
 * characters, a name before the spec. Strings belong to `arena`. `allow_short`: "onnxrt-cpu" means
 * "local/onnxrt-cpu". */
PRONY_MUST_CHECK int prn_spec_parse(const char *text, bool allow_short, struct prn_arena *arena,
                                    struct prn_spec *ret_spec, struct prony_error *err);

/* Most specs that the lists of one text may make. */
#define PRN_SPEC_EXPANSION_MAX 1000

/* A spec as a user gives it, and what the user calls it. */
struct prn_named_spec {
    const char *name; /* NULL: none was given */
    const char *text; /* for prn_spec_parse() */
};

/* Splits "NAME=SPEC" or "SPEC". The name is everything before the last '=' that comes before the
 * options; it is not empty. Strings belong to `arena`. */
PRONY_MUST_CHECK int prn_spec_split(const char *text, struct prn_arena *arena,
                                    struct prn_named_spec *ret_spec, struct prony_error *err);

/* A text that may begin with a name, and in which values of options may be lists,
 * "onnxrt-cpu[threads=1|2|4]", as specs without lists: all combinations, the last list changing
 * fastest. With lists, the name is followed by the values that it stands for: "new threads=2".
 * Empty and repeated items of a list are faults. No option has a value with a '|' in it, so there
 * is no escape; prn_spec_parse itself accepts no lists. `allow_short` as there; the strings belong
 * to `arena`. */
PRONY_MUST_CHECK int prn_spec_expand(const char *text, bool allow_short, struct prn_arena *arena,
                                     struct prn_named_spec **ret_specs, size_t *ret_n,
                                     struct prony_error *err);

/* The value of an option, or NULL. */
const char *prn_spec_option(const struct prn_spec *spec, const char *key);

/* Equal hardware and software, and options equal as a map. */
bool prn_spec_equal(const struct prn_spec *a, const struct prn_spec *b);

/* ---- Hardware ---- */

struct prn_hardware {
    const char *name;      /* "r6i.large", or a family "r6i.*" from a file */
    const char *processor; /* "Intel Ice Lake CPU"; NULL when not known */
    double usd_per_hour;   /* NAN when not known */
};

struct prn_hardware_table {
    struct prn_arena arena;
    size_t n;
    struct prn_hardware *entries;
};

/* The built-in table; a file's entries (YAML: a list of maps with name, processor, usd_per_hour)
 * go before it and win. `path` may be NULL. A bad file is an error with its line. */
PRONY_MUST_CHECK int prn_hardware_load(const char *path, struct prn_hardware_table *ret_table,
                                       struct prony_error *err);
void prn_hardware_release(struct prn_hardware_table *table);

/* Processor by the family before the dot, price by the full name; fields of the result that aren't
 * known are NULL and NAN. For "local" the processor is this machine's CPU (from /proc/cpuinfo)
 * unless the file says otherwise. */
struct prn_hardware prn_hardware_find(const struct prn_hardware_table *table, const char *name);

/* Cost of a million requests of `ns` each, in dollars; NAN when the price isn't known. */
double prn_cost_per_million(double usd_per_hour, double ns);

#endif
