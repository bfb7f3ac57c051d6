/*
 * A folder for what is needed as long as prony runs. Only this user can look into it, and it is
 * gone when prony is, however prony ends: a process of its own waits for that and removes it.
 *
 *     struct prn_scratch scratch;
 *     prn_scratch_open(NULL, &scratch, err);
 *     …                                  (anything, in scratch.folder)
 *     prn_scratch_close(&scratch);
 */
#ifndef PRN_EXEC_SCRATCH_H
#define PRN_EXEC_SCRATCH_H

#include "base/error.h"

#include <limits.h>
#include <sys/types.h>

struct prn_scratch {
    char folder[PATH_MAX]; /* absolute */
    int end_fd;            /* closed when prony ends */
    pid_t keeper;
};

/* In `parent`, an absolute path; NULL: in TMPDIR if that is one, or in /tmp. */
PRONY_MUST_CHECK int prn_scratch_open(const char *parent, struct prn_scratch *ret_scratch,
                                      struct prony_error *err);

/* Removes the folder with what is in it. */
void prn_scratch_close(struct prn_scratch *scratch);

/* The same without that process, for whoever sees to its end. */
PRONY_MUST_CHECK int prn_scratch_make(const char *parent, char ret_path[PATH_MAX],
                                      struct prony_error *err);
void prn_scratch_remove(const char *path);

#endif
