/*
 * What compilers made of models, kept in the user's cache folder for the next session.
 *
 * - A file for each model on a backend. Its name is a hash of the model, the backend, the runtime's
 *   version, prony's and the processor: whatever else was made, it isn't found.
 * - Executors, which nobody trusts, may read the folder and never write to it. What one has made it
 *   hands over as a descriptor, and prony copies that under the name that prony computed.
 * - It is for one user: the folder is that user's alone, or there is none. A service with many
 * users has none.
 */
#ifndef PRN_INSTANCE_CACHE_H
#define PRN_INSTANCE_CACHE_H

#include "runtime/runtime.h"

#include <limits.h>

#define PRN_CACHE_FILE_BYTES_MAX ((int64_t)64 << 20)
#define PRN_CACHE_BYTES_MAX ((int64_t)512 << 20)

/* This user's: PRONY_CACHE, or prony/compiled in XDG_CACHE_HOME or in ~/.cache. Made if need be.
 * False: there is none, or it isn't this user's alone. */
bool prn_cache_folder(char ret_folder[PATH_MAX]);

/* The path of a model's file, whether or not it exists. False: the model can't be read. */
bool prn_cache_path(const char *folder, const struct prn_runtime_config *config,
                    const char *version, const char *model_path, char ret_path[PATH_MAX]);

/* Keeps a copy of the file in the place of `path`, and forgets those that were used longest ago
 * when all are more than `bytes_max`. What can't be kept isn't. */
void prn_cache_keep(const char *path, int fd, int64_t bytes_max);
/* It was used. */
void prn_cache_touch(const char *path);

#endif
