/*
 * Maps of YAML files, read by tables: each row knows a key, how its value is read and where it
 * goes. Whatever is wrong fails with the file, the line and the key. Files that say how something
 * is done (prony serve, prony check) are read by tables; those of pipelines, which are data, field
 * by field (pipeline/fields.h).
 *
 *     static const struct prn_yaml_key keys[] = {
 *         PRN_YAML_KEY("lease", prn_yaml_read_duration, offsetof(struct config, lease_s),
 *                      PRN_YAML_RANGE(0.1, 3600)),
 *     };
 *     code = prn_yaml_read_map(&reader, "the file", root, keys, PRN_ARRAY_SIZE(keys), &config);
 *
 * Results live in the reader's arena.
 */
#ifndef PRN_FORMAT_YAML_FIELDS_H
#define PRN_FORMAT_YAML_FIELDS_H

#include "base/arena.h"
#include "format/yaml.h"

struct prn_yaml_reader {
    const struct prn_yaml *yaml;
    struct prn_arena *arena;
    struct prony_error *err;
    const char *folder; /* where relative paths begin, with its '/'; "": the current one */
};

struct prn_yaml_key;

/* Reads `node`, which isn't null, into `into`. */
typedef int prn_yaml_read_value(const struct prn_yaml_reader *r, const struct prn_yaml_key *key,
                                const struct prn_yaml_node *node, void *into);

struct prn_yaml_key {
    const char *name;
    prn_yaml_read_value *read;
    size_t offset;    /* of what it is read into, from what the map is read into */
    double min, max;  /* of numbers */
    bool may_be_none; /* "none" stands for `none` */
    uint64_t none;
    const struct prn_yaml_key *keys; /* of a section */
    size_t n_keys;
    /* For whoever compares two files. */
    bool text;         /* fills a const char *, which the function doesn't tell */
    bool restart;      /* a reload keeps the old value */
    const char *unset; /* what NULL or 0 is called */
};

/* A row, and what may stand behind its first three. */
#define PRN_YAML_KEY(text, how, where, ...)                           \
    {                                                                 \
        .name = (text), .read = (how), .offset = (where), __VA_ARGS__ \
    }
#define PRN_YAML_RANGE(low, high) .min = (low), .max = (high)
#define PRN_YAML_OR_NONE(value) .may_be_none = true, .none = (value)
#define PRN_YAML_RESTART(unset_text) .restart = true, .unset = (unset_text)

/* A map inside: its rows count from `where`. */
#define PRN_YAML_SECTION(text, rows, where) \
    PRN_YAML_KEY(text, prn_yaml_read_section, where, .keys = (rows), .n_keys = PRN_ARRAY_SIZE(rows))

/* Keys whose value is null are as if they weren't there. `what` is the map's own key. */
PRONY_MUST_CHECK int prn_yaml_read_map(const struct prn_yaml_reader *r, const char *what,
                                       const struct prn_yaml_node *node,
                                       const struct prn_yaml_key *keys, size_t n_keys, void *into);

/* "'file', line 3: 'key': …" */
int prn_yaml_fail_at(const struct prn_yaml_reader *r, const struct prn_yaml_node *node,
                     const char *key, const char *format, ...) PRN_PRINTF(4, 5);
/* "… 'key': 'value' is not a size such as 20 GiB": `wanted` is what it should be. */
int prn_yaml_fail_value(const struct prn_yaml_reader *r, const struct prn_yaml_key *key,
                        const struct prn_yaml_node *node, const char *wanted);

/* Rows' functions, by the type of what they fill. */
prn_yaml_read_value prn_yaml_read_text;     /* const char * */
prn_yaml_read_value prn_yaml_read_path;     /* const char * */
prn_yaml_read_value prn_yaml_read_count;    /* size_t: a whole number */
prn_yaml_read_value prn_yaml_read_integer;  /* int64_t */
prn_yaml_read_value prn_yaml_read_size;     /* uint64_t: "20 GiB" */
prn_yaml_read_value prn_yaml_read_duration; /* double, in seconds: "30s" */
prn_yaml_read_value prn_yaml_read_percent;  /* double, a fraction: "3%", "+3 %" */
prn_yaml_read_value prn_yaml_read_real;     /* double */
prn_yaml_read_value prn_yaml_read_section;
prn_yaml_read_value prn_yaml_read_node; /* const struct prn_yaml_node *, for later */

/* ---- Values, wherever they stand; `key` is for the error ---- */

/* Not empty, no control characters. */
PRONY_MUST_CHECK int prn_yaml_text(const struct prn_yaml_reader *r, const char *key,
                                   const struct prn_yaml_node *node, const char **ret_text);
/* The list under a key, or a single text as a list of one; `ret_items` are borrowed from it. */
PRONY_MUST_CHECK int prn_yaml_list(const struct prn_yaml_reader *r, const char *key,
                                   const struct prn_yaml_node *node, size_t most,
                                   const struct prn_yaml_node *const **ret_items, size_t *ret_n);
/* The same as texts. */
PRONY_MUST_CHECK int prn_yaml_texts(const struct prn_yaml_reader *r, const char *key,
                                    const struct prn_yaml_node *node, size_t most,
                                    const char ***ret_texts, size_t *ret_n);

/* Three texts as one. */
PRONY_MUST_CHECK int prn_yaml_join(const struct prn_yaml_reader *r, const char *before,
                                   const char *middle, const char *after, const char **ret_text);
/* A path of the file, from the current folder. */
PRONY_MUST_CHECK int prn_yaml_place(const struct prn_yaml_reader *r, const char *path,
                                    const char **ret_path);
/* The `folder` of a reader, for the file at `path`; NULL without memory. */
const char *prn_yaml_folder(struct prn_arena *arena, const char *path);

#endif
