/*
 * Finds the shared libraries that Python packages bring along (onnxruntime, openvino) in the
 * environments that the user works in, without starting Python:
 *
 *   1. the one that prony's own Python package is installed in, if this program is a part of it,
 *   2. the virtual environment that is active (VIRTUAL_ENV), with what its pyvenv.cfg adds,
 *   3. the conda environment that is active (CONDA_PREFIX), packages of conda's own included,
 *   4. the `python3` on PATH: a virtual environment's, pyenv's or the system's, with the user's own
 *      packages (~/.local).
 *
 * A program that gains privileges when it is started takes none of them.
 */
#ifndef PRN_RUNTIME_SITE_H
#define PRN_RUNTIME_SITE_H

#include <stdbool.h>

struct prn_site_file {
    const char *folder; /* below site-packages: "onnxruntime/capi" */
    const char *name;   /* how the file's name begins: "libonnxruntime.so"; the newest is taken */
};

/* Gets a file that exists and where it comes from, a static text like "VIRTUAL_ENV". True ends the
 * search. */
typedef bool prn_site_visit(void *context, const char *path, const char *origin);

/* Whether a visit ended the search. */
bool prn_site_search(const struct prn_site_file *file, prn_site_visit *visit, void *context);

#endif
