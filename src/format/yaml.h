/*
 * YAML: a whole document as a tree, read with libyaml. Every node knows its line, so that whoever
 * checks the content can say where it is wrong (prn_yaml_fail).
 *
 * The tree is bounded: depth, bytes, and nodes counted with aliases expanded, so that walking it is
 * bounded too. An alias shares the node of its anchor; one inside its own anchor is a fault. Keys
 * are scalars and don't repeat within a map; texts contain no NUL. Tags other than those of YAML's
 * scalars are ignored. Several documents in one file are a fault, and so is the merge key "<<".
 *
 *     struct prn_yaml *file;
 *     if (prn_yaml_read("hosts.yaml", 1 << 20, &file, err) == 0) {
 *         const struct prn_yaml_node *name = prn_yaml_get(prn_yaml_root(file), "name");
 *         ...
 *         prn_yaml_free(file);
 *     }
 */
#ifndef PRN_FORMAT_YAML_H
#define PRN_FORMAT_YAML_H

#include "base/buffer.h"

enum prn_yaml_kind {
    PRN_YAML_SCALAR,
    PRN_YAML_LIST,
    PRN_YAML_MAP,
};

struct prn_yaml_node {
    enum prn_yaml_kind kind;
    bool quoted;      /* scalar: text by its style or tag, even where it looks like a number */
    size_t line;      /* from 1 */
    const char *text; /* scalar */
    size_t n;         /* entries of a list or map */
    const struct prn_yaml_node *const *items;
    const char *const *keys; /* of a map, in the file's order */
    const bool *keys_quoted; /* of a map: what `quoted` says of a scalar */
    const size_t *key_lines; /* of a map: where its keys stand; a value may begin below */
    size_t weight;           /* nodes of this subtree, aliases expanded */
};

struct prn_yaml; /* a document */

PRONY_MUST_CHECK int prn_yaml_parse(const char *text, size_t len, const char *name,
                                    struct prn_yaml **ret_yaml, struct prony_error *err);
/* At most `limit` bytes. */
PRONY_MUST_CHECK int prn_yaml_read(const char *path, size_t limit, struct prn_yaml **ret_yaml,
                                   struct prony_error *err);
void prn_yaml_free(struct prn_yaml *yaml);

/* NULL when the file has no content. */
const struct prn_yaml_node *prn_yaml_root(const struct prn_yaml *yaml);

/* The value under `key`; NULL when there is none or the node isn't a map. */
const struct prn_yaml_node *prn_yaml_get(const struct prn_yaml_node *map, const char *key);

/* Nothing, "~" or "null". */
bool prn_yaml_is_null(const struct prn_yaml_node *node);

/* A finite decimal number; false when the node isn't one. */
bool prn_yaml_number(const struct prn_yaml_node *node, double *ret_number);

/* "'file', line 3: …" with PRONY_EFORMAT. */
int prn_yaml_fail(const struct prn_yaml *yaml, const struct prn_yaml_node *node,
                  struct prony_error *err, const char *format, ...) PRN_PRINTF(4, 5);

#endif
