#include "base/io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int write_all(int fd, const char *data, size_t len, size_t offset, bool positioned)
{
    while (len > 0) {
        ssize_t n = positioned ? pwrite(fd, data, len, (off_t)offset) : write(fd, data, len);
        if (n < 0 && errno != EINTR)
            return -1;
        if (n > 0) {
            data += n;
            offset += (size_t)n;
            len -= (size_t)n;
        }
    }
    return 0;
}

int prn_write_all(int fd, const void *data, size_t len)
{
    return write_all(fd, data, len, 0, false);
}

int prn_pwrite_all(int fd, const void *data, size_t len, size_t offset)
{
    return write_all(fd, data, len, offset, true);
}

int prn_pread_all(int fd, void *data, size_t len, size_t offset)
{
    for (char *at = data; len > 0;) {
        ssize_t n = pread(fd, at, len, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            errno = n < 0 ? errno : ENODATA;
            return -1;
        }
        at += n;
        offset += (size_t)n;
        len -= (size_t)n;
    }
    return 0;
}

int prn_write_and_rename(const char *path, const char *temporary, mode_t mode,
                         prn_write_producer *produce, void *context, struct prony_error *err)
{
    /* O_EXCL: in a folder that others can write to, the name may be a trap. */
    int fd = open(temporary, O_WRONLY | O_CLOEXEC | O_CREAT | O_EXCL, mode);
    if (fd < 0)
        return prn_fail_errno(err, errno, "create", path);
    int code = produce(fd, path, context, err);
    if (code == 0 && fsync(fd) < 0)
        code = prn_fail_errno(err, errno, "write", path);
    if (close(fd) < 0 && code == 0)
        code = prn_fail_errno(err, errno, "write", path);
    if (code == 0 && rename(temporary, path) < 0)
        code = prn_fail_errno(err, errno, "write", path);
    if (code < 0)
        unlink(temporary);
    return code;
}

int prn_make_folders(char *path, struct prony_error *err)
{
    int code = 0;
    for (char *slash = path; code == 0 && slash;) {
        slash = strchr(slash + 1, '/');
        if (slash)
            *slash = '\0';
        if (mkdir(path, 0700) < 0 && errno != EEXIST)
            code = prn_fail_errno(err, errno, "create folder", path);
        if (slash)
            *slash = '/';
    }
    return code;
}
