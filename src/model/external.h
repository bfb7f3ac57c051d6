/*
 * Files in which a model keeps tensors outside of its own file. They must lie beneath the model's
 * folder and be reached without symbolic links; the kernel checks that while it opens the file
 * (openat2), so there is no moment in which a path could change between check and use.
 */
#ifndef PRN_MODEL_EXTERNAL_H
#define PRN_MODEL_EXTERNAL_H

#include "base/error.h"

/* The folder of a model, to be closed. */
PRONY_MUST_CHECK int prn_external_folder(const char *model_path, int *ret_fd,
                                         struct prony_error *err);

/* A file beneath it, to be read and closed; -1 with errno, ELOOP and EXDEV for the rules above. */
int prn_external_open(int folder_fd, const char *location);

#endif
