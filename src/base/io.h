/* Writing all of something to a descriptor, through short writes and signals, or into a file that
 * is replaced as a whole, and reading it. */
#ifndef PRN_BASE_IO_H
#define PRN_BASE_IO_H

#include "base/error.h"

#include <sys/types.h>

/* 0, or -1 with errno. */
int prn_write_all(int fd, const void *data, size_t len);
int prn_pwrite_all(int fd, const void *data, size_t len, size_t offset);

/* The same for reading; ENODATA when the file ends before. */
int prn_pread_all(int fd, void *data, size_t len, size_t offset);

/* Writes it all to the descriptor; `name` is for its errors. */
typedef int prn_write_producer(int fd, const char *name, void *context, struct prony_error *err);

/* Has a new file `temporary` written and renames it to `path`; after a failure neither is touched.
 */
PRONY_MUST_CHECK int prn_write_and_rename(const char *path, const char *temporary, mode_t mode,
                                          prn_write_producer *produce, void *context,
                                          struct prony_error *err);

/* Makes a folder and those above it that are missing, for this user alone; `path` is as it was
 * afterwards. */
PRONY_MUST_CHECK int prn_make_folders(char *path, struct prony_error *err);

#endif
