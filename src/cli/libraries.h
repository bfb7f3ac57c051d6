/* The options that name libraries of runtimes, --ort-lib and its like: one for each that a
 * runtime's row describes (runtime/library.h). */
#ifndef PRN_CLI_LIBRARIES_H
#define PRN_CLI_LIBRARIES_H

#include "cli/command.h"
#include "runtime/library.h"

/* Paths, in the order of prn_runtime_libraries(); NULL: not given. */
struct prn_library_files {
    const char *paths[PRN_RUNTIME_LIBRARIES_MAX];
};

/* Row of an option table, for the field `libraries` of the command's options struct. */
#define PRN_LIBRARY_ROW(type)                                             \
    {                                                                     \
        .kind = PRN_OPTION_LIBRARIES, .offset = offsetof(type, libraries) \
    }

/* The option of the first file that is given; NULL: none is. */
const char *prn_libraries_option(const struct prn_library_files *files);

/* Has this process and those that it starts load them. Fails when a file isn't there, or when there
 * is one and a server, too (NULL: none). */
PRONY_MUST_CHECK int prn_libraries_use(const struct prn_library_files *files, const char *server,
                                       struct prony_error *err);

#endif
