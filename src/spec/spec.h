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
    const char *name;                      /* canonical text: hardware/software[a,b=c] */
};

/* White space around keys and values is trimmed. Errors name the text and the fault: no '/', an
 * empty part, a ']' without '[', text behind ']', a second '=', an empty or repeated key, control
 * characters. Strings belong to `arena`. `allow_short`: "onnxrt-cpu" means "local/onnxrt-cpu". */
PRONY_MUST_CHECK int prn_spec_parse(const char *text, bool allow_short, struct prn_arena *arena,
                                    struct prn_spec *ret_spec, struct prony_error *err);

/* Most specs that the lists of one text may make. */
#define PRN_SPEC_EXPANSION_MAX 1000

/* A text in which values of options may be lists, "onnxrt-cpu[threads=1|2|4]", as texts without:
 * all combinations, the last list changing fastest. Empty and repeated items of a list are faults.
 * No option has a value with a '|' in it, so there is no escape; prn_spec_parse itself knows no
 * lists. `allow_short` as there; the texts belong to `arena`. */
PRONY_MUST_CHECK int prn_spec_expand(const char *text, bool allow_short, struct prn_arena *arena,
                                     const char ***ret_texts, size_t *ret_n,
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
