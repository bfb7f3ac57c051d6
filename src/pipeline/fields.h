/*
 * Fields of the pipeline's YAML files, trusted in nothing: every function checks what is there and
 * fails with the file, the line and the key. Results live in the arena. Used inside src/pipeline
 * only.
 */
#ifndef PRN_PIPELINE_FIELDS_H
#define PRN_PIPELINE_FIELDS_H

#include "format/yaml_fields.h"
#include "pipeline/limits.h"

/* Of a file; a results file of 4096 layers takes about one. */
#define PRN_PIPELINE_FILE_MAX ((size_t)64 << 20)
#define PRN_PIPELINE_ARENA_MAX ((size_t)256 << 20)

/* Counts of elements and bytes are exact as doubles, here and in whatever reads the files. */
#define PRN_PIPELINE_COUNT_MAX 0x1p53

/* Reads `path`; a file that doesn't exist, and "-", are like an empty one if `may_be_new`. */
PRONY_MUST_CHECK int prn_fields_open(const char *path, bool may_be_new, struct prn_yaml **ret_yaml,
                                     struct prony_error *err);

/* The root, which must be a map; NULL when the file is empty. `what` says of what. */
PRONY_MUST_CHECK int prn_fields_root(const struct prn_yaml_reader *f, const char *what,
                                     const struct prn_yaml_node **ret_root);

/* A list that must be there. */
PRONY_MUST_CHECK int prn_fields_list(const struct prn_yaml_reader *f,
                                     const struct prn_yaml_node *map, const char *key,
                                     const struct prn_yaml_node **ret_list);

/* A text with something in it, without control characters. */
PRONY_MUST_CHECK int prn_fields_text(const struct prn_yaml_reader *f,
                                     const struct prn_yaml_node *map, const char *key,
                                     const char **ret_text);

/* The text of "dtype", which must be one of PyTorch's names. */
PRONY_MUST_CHECK int prn_fields_dtype(const struct prn_yaml_reader *f,
                                      const struct prn_yaml_node *map, const char **ret_dtype);

PRONY_MUST_CHECK int prn_fields_integer(const struct prn_yaml_reader *f,
                                        const struct prn_yaml_node *map, const char *key,
                                        int64_t min, int64_t max, int64_t *ret);

/* A finite number of at least 0. */
PRONY_MUST_CHECK int prn_fields_real(const struct prn_yaml_reader *f,
                                     const struct prn_yaml_node *map, const char *key, double *ret);

/* A list of such numbers; with `whole`, of whole ones up to PRN_PIPELINE_COUNT_MAX. */
PRONY_MUST_CHECK int prn_fields_reals(const struct prn_yaml_reader *f,
                                      const struct prn_yaml_node *map, const char *key, bool whole,
                                      double **ret, size_t *ret_n);

/* The same with NAN for null: what isn't known of some. */
PRONY_MUST_CHECK int prn_fields_known(const struct prn_yaml_reader *f,
                                      const struct prn_yaml_node *map, const char *key,
                                      double **ret, size_t *ret_n);

/* One scalar, wherever it stands; `key` is for the error. */
PRONY_MUST_CHECK int prn_fields_whole(const struct prn_yaml_reader *f,
                                      const struct prn_yaml_node *node, const char *key, double max,
                                      double *ret);

#endif
