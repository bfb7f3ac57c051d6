#include "cli/libraries.h"

const char *prn_libraries_option(const struct prn_library_files *files)
{
    const struct prn_library_search *libraries[PRN_RUNTIME_LIBRARIES_MAX];
    const size_t n = prn_runtime_libraries(libraries);
    for (size_t i = 0; i < n; i++)
        if (files->paths[i])
            return libraries[i]->option;
    return NULL;
}

int prn_libraries_use(const struct prn_library_files *files, const char *server,
                      struct prony_error *err)
{
    const struct prn_library_search *libraries[PRN_RUNTIME_LIBRARIES_MAX];
    const size_t n = prn_runtime_libraries(libraries);
    const char *option = prn_libraries_option(files);
    if (server && option)
        return prn_fail(err, PRONY_EUSAGE, "--%s cannot be combined with --server", option);
    int code = 0;
    for (size_t i = 0; code == 0 && i < n; i++)
        if (files->paths[i])
            code = prn_library_choose(libraries[i], files->paths[i], err);
    return code;
}
