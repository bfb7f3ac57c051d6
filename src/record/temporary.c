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

int prn_temporary_write(struct prn_temporary *ret_file, const char *name, const void *data,
                        size_t size, struct prony_error *err)
{
    const char *parent = secure_getenv("TMPDIR");
    char folder[PATH_MAX];
    if (snprintf(folder, sizeof folder, "%s/prony-XXXXXX", parent && *parent ? parent : "/tmp") >=
        (int)sizeof folder)
        return prn_fail_errno(err, ENAMETOOLONG, "create a folder in", parent);
    if (!mkdtemp(folder))
        return prn_fail_errno(err, errno, "create", folder);
    snprintf(ret_file->folder, sizeof ret_file->folder, "%s", folder);
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
