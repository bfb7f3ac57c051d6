/* Where this program or library itself lies. */
#ifndef PRN_BASE_SELF_H
#define PRN_BASE_SELF_H

#include <limits.h>
#include <stdbool.h>

/* Below the extension of the Python package, which has the library inside: an installation, or, in
 * a build folder, links that look like one. */
#define PRN_BUNDLE "_bundle/"

/* The folder of the file that this code was loaded from: of libprony.so, or of the program where
 * the library is part of it. False when that can't be known. */
bool prn_own_folder(char folder[PATH_MAX]);

#endif
