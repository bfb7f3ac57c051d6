/* What goes to the terminal or a file: warnings, results, exit statuses. */
#include "cli/command.h"

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
    struct prn_buffer text = PRN_BUFFER_INIT(4096);
    va_list args;
    va_start(args, format);
    prn_buffer_vprintf(&text, format, args);
    va_end(args);
    fprintf(stderr, "prony: warning: %s\n", prn_buffer_text(&text));
    prn_buffer_release(&text);
}

static int write_all(int fd, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, data, len);
        if (n < 0 && errno != EINTR)
            return -errno;
        if (n > 0) {
            data += n;
            len -= (size_t)n;
        }
    }
    return 0;
}

int prn_output(const char *path, const struct prn_buffer *out, struct prony_error *err)
{
    int code = prn_buffer_error(out, err);
    if (code < 0)
        return code;
    if (!path || strcmp(path, "-") == 0) {
        code = write_all(STDOUT_FILENO, prn_buffer_text(out), out->len);
        return code < 0 ? prn_fail_errno(err, -code, "write", "standard output") : 0;
    }
    /* Devices and pipes can't be replaced by renaming a file over them. */
    struct stat status;
    bool special = stat(path, &status) == 0 && !S_ISREG(status.st_mode);
    struct prn_buffer temporary = PRN_BUFFER_INIT(8192);
    prn_buffer_printf(&temporary, "%s.%ld.tmp", path, (long)getpid());
    code = prn_buffer_error(&temporary, err);
    if (code < 0)
        goto done;
    const char *name = special ? path : prn_buffer_text(&temporary);
    int fd = open(name, O_WRONLY | O_CLOEXEC | (special ? 0 : O_CREAT | O_TRUNC), 0666);
    if (fd < 0) {
        code = prn_fail_errno(err, errno, "create", path);
        goto done;
    }
    int failed = write_all(fd, prn_buffer_text(out), out->len);
    if (!failed && !special && fsync(fd) < 0)
        failed = -errno;
    if (close(fd) < 0 && !failed)
        failed = -errno;
    if (!failed && !special && rename(name, path) < 0)
        failed = -errno;
    if (failed) {
        code = prn_fail_errno(err, -failed, "write", path);
        if (!special)
            unlink(name);
    }
done:
    prn_buffer_release(&temporary);
    return code;
}
