#include "base/self.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool prn_own_folder(char folder[PATH_MAX])
{
    Dl_info info;
    if (!dladdr((void *)(uintptr_t)prn_own_folder, &info) || !realpath(info.dli_fname, folder)) {
        ssize_t n = readlink("/proc/self/exe", folder, PATH_MAX - 1);
        if (n <= 0)
            return false;
        folder[n] = '\0';
    }
    char *slash = strrchr(folder, '/');
    if (!slash)
        return false;
    *slash = '\0';
    return true;
}
