/*
 * Finds and loads the shared library of a runtime: the file that the backend or the session asks
 * for, else the one that the command line or the environment names, else the copy beside the
 * program, else the one in the Python environment that the user works in (site.h), else what the
 * loader finds. It stays in the process: threads of runtimes don't survive being unloaded.
 */
#ifndef PRN_RUNTIME_LIBRARY_H
#define PRN_RUNTIME_LIBRARY_H

#include "runtime/runtime.h"
#include "runtime/site.h"

#define PRN_LIBRARY_NAMES_MAX 2

struct prn_library_search {
    const char *title;                        /* "ONNX Runtime", for people */
    const char *option;                       /* of the command line: "ort-lib" */
    const char *help;                         /* for that option */
    const char *variable;                     /* of the environment: "PRONY_ORT_LIB" */
    const char *names[PRN_LIBRARY_NAMES_MAX]; /* file names; the first one is what set-up fetches */
    const char *folder;                       /* where set-up puts it: "onnxruntime" */
    struct prn_site_file site;                /* where its Python package has it */
    const char *how_to_get;                   /* one line */
};

struct prn_library {
    void *handle;
    char path[4096]; /* of the file that was loaded */
    char origin[64]; /* who named it or where it was found: "--ort-lib", "beside prony" */
};

/* The error says how to get one, and what was found and can't be loaded. A file that was asked for
 * is the only one tried. */
PRONY_MUST_CHECK int prn_library_load(const struct prn_library_search *search,
                                      const struct prn_runtime_config *config,
                                      struct prn_library *ret_library, struct prony_error *err);

/* The file that the command line names, for this process and those that it starts, which find it in
 * their environment. To be called before there are threads. */
PRONY_MUST_CHECK int prn_library_choose(const struct prn_library_search *search, const char *path,
                                        struct prony_error *err);
/* Whether the command line or the environment names a file. */
bool prn_library_is_chosen(const struct prn_library_search *search);

/* A file that a program asks for in its session, and the `option` of what it is. */
struct prn_library_choice {
    const char *option, *path; /* no path: none */
};

/* The path, if it is for that runtime; else NULL. */
const char *prn_library_chosen_for(const struct prn_library_choice *choice,
                                   const struct prn_runtime_ops *ops);

#endif
