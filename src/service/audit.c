#include "service/audit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

struct prn_audit {
    const char *path;
    int fd; /* the same number for ever; a reopened file takes its place */
    struct prn_log *log;
};

static int open_file(const char *path, int *ret_fd, struct prony_error *err)
{
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0600);
    if (fd < 0)
        return prn_fail_errno(err, errno, "open", path);
    *ret_fd = fd;
    return 0;
}

int prn_audit_open(const char *path, struct prn_audit **ret_audit, struct prony_error *err)
{
    if (!path) {
        *ret_audit = NULL;
        return 0;
    }
    struct prn_audit *audit = calloc(1, sizeof *audit);
    if (!audit)
        return prn_fail_memory(err);
    audit->path = path;
    int code = open_file(path, &audit->fd, err);
    if (code < 0) {
        free(audit);
        return code;
    }
    audit->log = prn_log_new(audit->fd, PRN_LOG_FORMAT_JSON);
    if (!audit->log) {
        prn_audit_close(audit);
        return prn_fail_memory(err);
    }
    prn_log_keep_all(audit->log);
    *ret_audit = audit;
    return 0;
}

void prn_audit_close(struct prn_audit *audit)
{
    if (!audit)
        return;
    prn_log_free(audit->log);
    close(audit->fd);
    free(audit);
}

int prn_audit_reopen(struct prn_audit *audit, struct prony_error *err)
{
    int fd = -1;
    if (!audit)
        return 0;
    int code = open_file(audit->path, &fd, err);
    if (code < 0)
        return code;
    /* At once: a line is written to the one or to the other. */
    if (dup3(fd, audit->fd, O_CLOEXEC) < 0)
        code = prn_fail_errno(err, errno, "open", audit->path);
    close(fd);
    return code;
}

uint64_t prn_audit_lost(const struct prn_audit *audit)
{
    return audit ? prn_log_lost(audit->log) : 0;
}

void prn_audit_write(struct prn_audit *audit, const char *event, const struct prn_log_field *fields,
                     size_t n)
{
    if (audit)
        prn_log_write(audit->log, PRN_LOG_INFO, event, fields, n);
}
