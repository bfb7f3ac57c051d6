/*
 * Names from the wire, and folders that they are put into. A name is a relative path such as
 * "weights/0"; one that was checked can't leave its folder, and folders are walked part by part
 * without following links, so nothing that lies in them can lead out either.
 */
#ifndef PRN_INSTANCE_NAMES_H
#define PRN_INSTANCE_NAMES_H

#include "base/error.h"

#define PRN_NAME_MAX 1024     /* bytes in all */
#define PRN_NAME_PART_MAX 255 /* bytes between two slashes */
#define PRN_NAME_DEPTH_MAX 16 /* parts */

/* PRONY_EFORMAT, with a text that says what is wrong. `length` bytes, which may hold anything. */
PRONY_MUST_CHECK int prn_name_check(const char *name, size_t length, struct prony_error *err);

/* Checks a name, makes the folders in front of its last part beneath `folder_fd` (mode 0700), and
 * opens the last of them; `ret_last` points into `name`. */
PRONY_MUST_CHECK int prn_name_folder(int folder_fd, const char *name, int *ret_fd,
                                     const char **ret_last, struct prony_error *err);

/* Opens a file beneath `folder_fd` for reading, following no link. */
PRONY_MUST_CHECK int prn_name_open(int folder_fd, const char *name, int *ret_fd,
                                   struct prony_error *err);

/* Makes a folder (mode 0700) that must not be there yet, and opens it; `name` is a single part. */
PRONY_MUST_CHECK int prn_folder_make(int parent_fd, const char *name, int *ret_fd,
                                     struct prony_error *err);

/* Removes a folder of a single part's name with all that is in it, however deep, links but never
 * what they lead to. None of that name: 0. */
PRONY_MUST_CHECK int prn_folder_remove(int parent_fd, const char *name, struct prony_error *err);

#endif
