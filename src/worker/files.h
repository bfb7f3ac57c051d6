/*
 * The files of a session on a worker: a private folder, in which every file lies once, under its
 * SHA-256, and is linked to wherever a model wants it. What isn't there is fetched from the
 * service, hashed while it comes, and visible only if it is right.
 */
#ifndef PRN_WORKER_FILES_H
#define PRN_WORKER_FILES_H

#include "rpc/client.h"

#include <limits.h>

#include <prony.pb-c.h>

#define PRN_WORKER_FILES_MAX 4096 /* of one model */

struct prn_worker_files;

/* In TMPDIR, or in /tmp. */
PRONY_MUST_CHECK int prn_worker_files_new(struct prn_channel *channel,
                                          const volatile int *cancelled,
                                          struct prn_worker_files **ret_files,
                                          struct prony_error *err);
/* Removes all of it. NULL does nothing. */
void prn_worker_files_free(struct prn_worker_files *files);

const char *prn_worker_files_folder(const struct prn_worker_files *files);

/* Makes a folder `name`, anew if it is there, with these files in it; `local`: a file with a path
 * is taken from there. `ret_path` is the folder's. After a failure there is no such folder. */
PRONY_MUST_CHECK int prn_worker_files_place(struct prn_worker_files *files, const char *name,
                                            Prony__ModelFile *const *list, size_t n, bool local,
                                            char ret_path[PATH_MAX], struct prony_error *err);

#endif
