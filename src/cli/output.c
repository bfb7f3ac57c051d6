/* What goes to the terminal or a file: warnings, results, exit statuses. */
#include "cli/command.h"

#include "base/io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int prn_exit_status(int code)
{
    switch (code) {
    case 0:
        return 0;
    case PRONY_EUSAGE:
        return 2;
    case PRONY_ECANCELED:
        return 130;
    default:
        return 1;
    }
}

void prn_warn(const char *format, ...)
{
    struct prony_error message; /* a warning is as safe to print as an error */
    va_list args;
    va_start(args, format);
    prn_vfail(&message, 0, format, args);
    va_end(args);
    fprintf(stderr, "prony: warning: %s\n", message.text);
}

/* Writes to a temporary file beside `path`, then renames it. */
static int replace_file(const char *path, mode_t mode, const struct prn_buffer *out,
                        struct prony_error *err)
{
    struct prn_buffer temporary = PRN_BUFFER_INIT(8192);
    prn_buffer_printf(&temporary, "%s.%ld.tmp", path, (long)getpid());
    int code = prn_buffer_error(&temporary, err);
    if (code < 0) {
        prn_buffer_release(&temporary);
        return code;
    }
    const char *name = prn_buffer_text(&temporary);
    /* O_EXCL: in a folder that others can write to, the name may be a trap. */
    int fd = open(name, O_WRONLY | O_CLOEXEC | O_CREAT | O_EXCL, mode);
    if (fd < 0) {
        code = prn_fail_errno(err, errno, "create", path);
        prn_buffer_release(&temporary);
        return code;
    }
    int failed = prn_write_all(fd, prn_buffer_text(out), out->len) < 0 ? -errno : 0;
    if (!failed && fsync(fd) < 0)
        failed = -errno;
    if (close(fd) < 0 && !failed)
        failed = -errno;
    if (!failed && rename(name, path) < 0)
        failed = -errno;
    if (failed) {
        code = prn_fail_errno(err, -failed, "write", path);
        unlink(name);
    }
    prn_buffer_release(&temporary);
    return code;
}

/* Devices and pipes can't be replaced by renaming a file over them. */
static int write_special(const char *path, const struct prn_buffer *out, struct prony_error *err)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return prn_fail_errno(err, errno, "create", path);
    int failed = prn_write_all(fd, prn_buffer_text(out), out->len) < 0 ? -errno : 0;
    if (close(fd) < 0 && !failed)
        failed = -errno;
    return failed ? prn_fail_errno(err, -failed, "write", path) : 0;
}

int prn_output(const char *path, const struct prn_buffer *out, struct prony_error *err)
{
    int code = prn_buffer_error(out, err);
    if (code < 0)
        return code;
    if (!path || strcmp(path, "-") == 0) {
        code = prn_write_all(STDOUT_FILENO, prn_buffer_text(out), out->len) < 0 ? -errno : 0;
        return code < 0 ? prn_fail_errno(err, -code, "write", "standard output") : 0;
    }
    struct stat status;
    bool exists = stat(path, &status) == 0;
    if (exists && !S_ISREG(status.st_mode))
        return write_special(path, out, err);
    /* A symbolic link stays, and what it points to is replaced. */
    char *target = exists ? realpath(path, NULL) : NULL;
    code = replace_file(target ? target : path, exists ? status.st_mode & 0777 : 0666, out, err);
    free(target);
    return code;
}
