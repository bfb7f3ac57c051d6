#include "base/io.h"

#include <errno.h>
#include <stdbool.h>
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
