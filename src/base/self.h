/* Where this program or library itself lies. */
#ifndef PRN_BASE_SELF_H
#define PRN_BASE_SELF_H

#include <limits.h>
#include <stdbool.h>

/* The folder of the file that this code was loaded from: of libprony.so, or of the program where
 * the library is part of it. False when that can't be known. */
bool prn_own_folder(char folder[PATH_MAX]);

#endif
