#include "exec/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define DESCRIPTORS 16 /* open at once while a folder is removed */

static int remove_entry(const char *path, const struct stat *status, int kind, struct FTW *at)
{
    (void)status;
    (void)kind;
    (void)at;
    remove(path);
    return 0;
}

/* From the inside out; symbolic links are removed, not followed, and what is mounted there stays.
 */
void prn_scratch_remove(const char *path)
{
    nftw(path, remove_entry, DESCRIPTORS, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

/* A folder that others resolve from elsewhere must be absolute. */
static const char *parent_of(const char *wanted)
{
    const char *parent = wanted ? wanted : secure_getenv("TMPDIR");
    return parent && parent[0] == '/' ? parent : "/tmp";
}

int prn_scratch_make(const char *parent, char ret_path[PATH_MAX], struct prony_error *err)
{
    char path[PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/prony-XXXXXX", parent_of(parent));
    int error = n >= (int)sizeof path ? ENAMETOOLONG : mkdtemp(path) ? 0 : errno;
    if (error)
        return prn_fail_errno(err, error, "create a folder in", parent_of(parent));
    memcpy(ret_path, path, sizeof path);
    return 0;
}

/* In a session of its own, so that Ctrl-C and a closed terminal don't reach it, and without
 * anything of prony's open, so that nobody waits for it. */
static void keep(const char *path, int fd)
{
    char byte;
    setsid();
    close_range(0, (unsigned)fd - 1, 0);
    close_range((unsigned)fd + 1, ~0U, 0);
    while (read(fd, &byte, 1) < 0 && errno == EINTR)
        ;
    prn_scratch_remove(path);
    _exit(0);
}

static int start_keeper(struct prn_scratch *s, struct prony_error *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return prn_fail_errno(err, errno, "create", "a pipe");
    s->keeper = fork();
    if (s->keeper == 0)
        keep(s->folder, ends[0]);
    int failed = s->keeper < 0 ? errno : 0;
    close(ends[0]);
    s->end_fd = ends[1];
    if (failed) {
        close(ends[1]);
        return prn_fail_errno(err, failed, "start", "a process");
    }
    return 0;
}

int prn_scratch_open(const char *parent, struct prn_scratch *ret_scratch, struct prony_error *err)
{
    struct prn_scratch s;
    int code = prn_scratch_make(parent, s.folder, err);
    if (code < 0)
        return code;
    code = start_keeper(&s, err);
    if (code < 0)
        rmdir(s.folder);
    else
        *ret_scratch = s;
    return code;
}

void prn_scratch_close(struct prn_scratch *scratch)
{
    close(scratch->end_fd);
    while (waitpid(scratch->keeper, NULL, 0) < 0 && errno == EINTR)
        ;
}
