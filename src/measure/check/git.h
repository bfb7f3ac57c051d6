/*
 * The old version of a model, out of git: its file at a revision, and the files of its external
 * data at the same one, as a checkout would give them (with filters, such as that of Git LFS). The
 * work tree isn't touched.
 */
#ifndef PRN_MEASURE_CHECK_GIT_H
#define PRN_MEASURE_CHECK_GIT_H

#include "base/arena.h"
#include "base/error.h"

struct prn_git_file {
    const char *repository; /* a folder in its work tree */
    const char *path;       /* absolute, or relative to that folder */
    const char *revision;
};

/* Writes it into `folder`, which is empty. Texts belong to `arena`: the path of the model, and the
 * revision's commit. */
PRONY_MUST_CHECK int prn_git_model(const struct prn_git_file *file, const char *folder,
                                   const volatile int *cancelled, struct prn_arena *arena,
                                   const char **ret_path, const char **ret_commit,
                                   struct prony_error *err);

/* Fails when a file is what Git LFS leaves in its place; `path` is read, `name` told. */
PRONY_MUST_CHECK int prn_git_refuse_pointer(const char *path, const char *name, const char *advice,
                                            struct prony_error *err);

#endif
