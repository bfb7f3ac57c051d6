#include "record/temporary.h"

#include "base/io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int write_file(const char *path, const void *data, size_t size)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return errno;
    int error = prn_write_all(fd, data, size) < 0 ? errno : 0;
    if (close(fd) < 0 && !error)
        error = errno;
    return error;
}

int prn_temporary_folder(char ret_folder[PATH_MAX], struct prony_error *err)
{
    const char *parent = secure_getenv("TMPDIR");
    parent = parent && *parent ? parent : "/tmp";
    if (snprintf(ret_folder, PATH_MAX, "%s/prony-XXXXXX", parent) >= PATH_MAX)
        return prn_fail_errno(err, ENAMETOOLONG, "create a folder in", parent);
    return mkdtemp(ret_folder) ? 0 : prn_fail_errno(err, errno, "create a folder in", parent);
}

int prn_temporary_write(struct prn_temporary *ret_file, const char *name, const void *data,
                        size_t size, struct prony_error *err)
{
    int code = prn_temporary_folder(ret_file->folder, err);
    if (code < 0)
        return code;
    const char *folder = ret_file->folder;
    int n = snprintf(ret_file->path, sizeof ret_file->path, "%s/%s", folder, name);
    int error =
        n < (int)sizeof ret_file->path ? write_file(ret_file->path, data, size) : ENAMETOOLONG;
    if (error) {
        prn_temporary_remove(ret_file);
        return prn_fail_errno(err, error, "write a model to", folder);
    }
    return 0;
}

void prn_temporary_remove(const struct prn_temporary *file)
{
    unlink(file->path);
    rmdir(file->folder);
}
