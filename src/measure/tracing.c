#include "measure/tracing.h"

#include "exec/scratch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void remove_folder(struct prn_tracing *t)
{
    if (t->folder[0])
        prn_scratch_remove(t->folder);
    t->folder[0] = '\0';
}

/* Opens the trace that the runtime has open for writing, whatever it is called; -1: there is none.
 * Neither a link nor a pipe will do, in case somebody else wrote it. */
static int open_trace(const char *folder)
{
    DIR *entries = opendir(folder);
    int fd = -1;
    for (struct dirent *entry; entries && fd < 0 && (entry = readdir(entries));) {
        if (entry->d_name[0] == '.')
            continue;
        struct stat status;
        fd = openat(dirfd(entries), entry->d_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        if (fd >= 0 && (fstat(fd, &status) < 0 || !S_ISREG(status.st_mode))) {
            close(fd);
            fd = -1;
        }
    }
    if (entries)
        closedir(entries);
    return fd;
}

int prn_tracing_begin(struct prn_tracing *t, struct prony_error *err)
{
    *t = (struct prn_tracing){.fd = -1};
    return prn_scratch_make(NULL, t->folder, err);
}

int prn_tracing_catch(struct prn_tracing *t, struct prony_error *err)
{
    t->fd = open_trace(t->folder);
    remove_folder(t);
    return t->fd < 0 ? prn_fail(err, PRONY_ERUNTIME, "its profiler opened no file to write to") : 0;
}

int prn_tracing_open(const struct prn_tracing *t, struct prn_source **ret_source,
                     struct prony_error *err)
{
    struct stat status;
    struct prn_source *source = NULL;
    if (fstat(t->fd, &status) < 0)
        return prn_fail_errno(err, errno, "read", "the trace");
    if (status.st_size >= PRN_TRACING_BYTES_MAX)
        return prn_fail(err, PRONY_ELIMIT, "its trace is larger than %lld MiB",
                        (long long)(PRN_TRACING_BYTES_MAX >> 20));
    if (status.st_size == 0)
        return prn_fail(err, PRONY_ERUNTIME, "its profiler left an empty trace");
    int code = prn_source_open_fd(t->fd, "its trace", &source, err);
    /* A compressed one would be as large as it likes. */
    if (code == 0 && strcmp(prn_source_encoding(source), "plain") != 0)
        code = prn_fail(err, PRONY_EFORMAT, "its trace is compressed");
    if (code == 0)
        *ret_source = source;
    else
        prn_source_close(source);
    return code;
}

void prn_tracing_end(struct prn_tracing *t)
{
    remove_folder(t);
    if (t->fd >= 0)
        close(t->fd);
    t->fd = -1;
}
