/* Certificate and key: read as they are, and parsed once so that what is wrong with them is said
 * here and not by the first client. */
#include "service/config/config.h"

#include "rpc/server.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define PEM_MAX ((size_t)1 << 20)

static int read_pem(const char *path, struct prn_buffer *out, struct prony_error *err)
{
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return prn_fail_errno(err, errno, "open", path);
    int code = 0;
    if (fstat(fd, &status) < 0)
        code = prn_fail_errno(err, errno, "read", path);
    else if (!S_ISREG(status.st_mode))
        code = prn_fail(err, PRONY_EIO, "cannot read '%s': not a regular file", path);
    else
        code = prn_buffer_read_fd(out, fd, path, err);
    close(fd);
    return code;
}

int prn_config_read_tls(const struct prn_config *config, char **ret_certificate, char **ret_key,
                        struct prony_error *err)
{
    if (!config->tls_certificate) {
        *ret_certificate = NULL;
        *ret_key = NULL;
        return 0;
    }
    struct prn_buffer certificate = PRN_BUFFER_INIT(PEM_MAX);
    struct prn_buffer key = PRN_BUFFER_INIT(PEM_MAX);
    int code = read_pem(config->tls_certificate, &certificate, err);
    if (code == 0)
        code = read_pem(config->tls_key, &key, err);
    if (code == 0)
        code = prn_server_check_tls(
            &(struct prn_server_tls){prn_buffer_text(&certificate), prn_buffer_text(&key)},
            &(struct prn_server_tls){config->tls_certificate, config->tls_key}, err);
    if (code == 0) {
        *ret_certificate = prn_buffer_detach(&certificate);
        *ret_key = prn_buffer_detach(&key);
    }
    prn_buffer_release(&certificate);
    prn_buffer_release(&key);
    return code;
}
