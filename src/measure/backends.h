/*
 * What every front end does before it measures: from the texts that a user gives to backends that
 * exist, from a model's path to what an executor may read, and the head of the profile.
 */
#ifndef PRN_MEASURE_BACKENDS_H
#define PRN_MEASURE_BACKENDS_H

#include "measure/profile.h"
#include "runtime/library.h"
#include "spec/spec.h"

#include <limits.h>

struct prn_texts {
    const char *const *items;
    size_t n;
};

/* What the backends of this machine have in common. */
struct prn_backends_here {
    const char *hardware; /* what this machine is called; NULL: "local" */
    const char *program;  /* of the executors; NULL: this one */
    struct prn_library_choice library;
};

/* Parses and checks specs; without any, finds every runtime that works here, with its defaults. All
 * memory belongs to `arena`. */
PRONY_MUST_CHECK int prn_backends_resolve(const struct prn_texts *texts,
                                          const struct prn_backends_here *here,
                                          struct prn_arena *arena, struct prn_spec **ret_backends,
                                          size_t *ret_n, struct prony_error *err);

/* Fills profile->results with what the backends are, processors and prices from the built-in table
 * and from `hardware_file` (NULL: none). */
PRONY_MUST_CHECK int prn_backends_describe(const struct prn_spec *backends, size_t n,
                                           const char *hardware_file, struct prn_profile *profile,
                                           struct prony_error *err);

/* Texts of backends, without lists and names, and the names that the user gave. */
struct prn_named_texts {
    struct prn_texts texts;
    const char *const *names; /* one for each text; NULL where none was given */
};

/* Splits "NAME=SPEC" in texts without lists. */
PRONY_MUST_CHECK int prn_backends_split(const struct prn_texts *given, struct prn_arena *arena,
                                        struct prn_named_texts *ret_texts, struct prony_error *err);

/* Calls backends and their results what the user does, once both are made. Two of the same name
 * are refused. */
PRONY_MUST_CHECK int prn_backends_name(const struct prn_named_texts *given,
                                       struct prn_spec *backends, struct prn_profile *profile,
                                       struct prony_error *err);

/* Says in the profile who made it, when, and on what machine. */
PRONY_MUST_CHECK int prn_profile_stamp(struct prn_profile *profile, struct prony_error *err);

struct prn_model_place {
    char path[PATH_MAX];
    char folder[PATH_MAX]; /* "" without external data */
};

/* Makes the path absolute. With external data its last part stays as it is: a symbolic link's data
 * lies beside the link, not beside what it points to. */
PRONY_MUST_CHECK int prn_model_locate(const char *path, bool external,
                                      struct prn_model_place *ret_place, struct prony_error *err);

#endif
