/*
 * YAML to be written: nodes made in an arena, changed copies of nodes that were read, and the
 * writer. Nodes never change, so what was read and what is to be written may share them; a shared
 * node must outlive the writing.
 *
 * The functions that make nodes return NULL when out of memory, and when a node that they are given
 * is NULL: whoever builds a tree checks once, at its root.
 *
 *     const struct prn_yaml_node *host = prn_yaml_new_map(&arena);
 *     host = prn_yaml_with(&arena, host, "cores", prn_yaml_new_integer(&arena, 4));
 *     root = prn_yaml_with(&arena, root, "host-1", host);
 *     if (!root)
 *         return prn_fail_memory(err);
 *     return prn_yaml_write(root, &out, err);
 */
#ifndef PRN_FORMAT_YAML_WRITE_H
#define PRN_FORMAT_YAML_WRITE_H

#include "base/arena.h"
#include "format/yaml.h"

const struct prn_yaml_node *prn_yaml_new_null(struct prn_arena *arena);
const struct prn_yaml_node *prn_yaml_new_text(struct prn_arena *arena, const char *text);
const struct prn_yaml_node *prn_yaml_new_integer(struct prn_arena *arena, int64_t value);

/* The shortest decimal that reads back as the same number, always with a point: a number without
 * one is an integer to YAML, and one with only an exponent a text. */
const struct prn_yaml_node *prn_yaml_new_real(struct prn_arena *arena, double value);

/* The array is copied, its nodes aren't. */
const struct prn_yaml_node *prn_yaml_new_list(struct prn_arena *arena,
                                              const struct prn_yaml_node *const *items, size_t n);
const struct prn_yaml_node *prn_yaml_new_map(struct prn_arena *arena);

/* A copy of `map` in which `key` has this value, whether it was there or not. */
const struct prn_yaml_node *prn_yaml_with(struct prn_arena *arena, const struct prn_yaml_node *map,
                                          const char *key, const struct prn_yaml_node *value);

/* A copy of `list` with another item at `index`; behind the last it is appended. */
const struct prn_yaml_node *prn_yaml_with_item(struct prn_arena *arena,
                                               const struct prn_yaml_node *list, size_t index,
                                               const struct prn_yaml_node *item);

/*
 * Appends a document as PyYAML's safe_dump(default_flow_style=None) lays it out: keys in
 * alphabetical order, lists and maps of scalars on one line that is wrapped past 80 columns, all
 * others in block style. Texts are quoted where they would be read as something else.
 */
PRONY_MUST_CHECK int prn_yaml_write(const struct prn_yaml_node *root, struct prn_buffer *out,
                                    struct prony_error *err);

#endif
