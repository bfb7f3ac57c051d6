#include "model/external.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

int prn_external_folder(const char *model_path, int *ret_fd, struct prony_error *err)
{
    const char *slash = strrchr(model_path, '/');
    size_t len = !slash ? 0 : slash == model_path ? 1 : (size_t)(slash - model_path);
    char *folder = slash ? strndup(model_path, len) : strdup(".");
    if (!folder)
        return prn_fail_memory(err);
    int fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int code = fd < 0 ? prn_fail_errno(err, errno, "open folder", folder) : 0;
    free(folder);
    if (code == 0)
        *ret_fd = fd;
    return code;
}

int prn_external_open(int folder_fd, const char *location)
{
    struct open_how how = {.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};
    return (int)syscall(SYS_openat2, folder_fd, location, &how, sizeof how);
}
