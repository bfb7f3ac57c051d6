/* Files that only this user can read, in a new folder of their own, for a runtime to load. */
#ifndef PRN_RECORD_TEMPORARY_H
#define PRN_RECORD_TEMPORARY_H

#include "base/error.h"

#include <limits.h>

struct prn_temporary {
    char folder[PATH_MAX];
    char path[PATH_MAX];
};

/* One file. After a failure nothing is left behind; else the folder is the caller's to remove
 * (prn_scratch_remove). */
PRONY_MUST_CHECK int prn_temporary_write(struct prn_temporary *ret_file, const char *name,
                                         const void *data, size_t size, struct prony_error *err);

/* Several files, of which `path` is the first. Names are relative, and have no "..". */
PRONY_MUST_CHECK int prn_temporary_write_all(struct prn_temporary *ret_files,
                                             const struct prony_file *files, size_t n,
                                             struct prony_error *err);

#endif
