#include "trace/files.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

static bool is_later(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec != b->tv_sec ? a->tv_sec > b->tv_sec : a->tv_nsec > b->tv_nsec;
}

/* Also finds a file that is missing before the others are read in vain. */
static int take_stamp(const char *const *paths, size_t n, struct prn_trace_stamp *ret_stamp,
                      struct prony_error *err)
{
    struct prn_trace_stamp stamp = {0};
    bool regular = true;
    for (size_t i = 0; i < n; i++) {
        struct stat st;
        if (strcmp(paths[i], "-") == 0) {
            regular = false;
            continue;
        }
        if (stat(paths[i], &st) < 0)
            return prn_fail_errno(err, errno, "open", paths[i]);
        regular = regular && S_ISREG(st.st_mode);
        stamp.bytes += (uint64_t)st.st_size;
        if (is_later(&st.st_mtim, &stamp.newest))
            stamp.newest = st.st_mtim;
    }
    if (!regular)
        stamp.bytes = 0;
    *ret_stamp = stamp;
    return 0;
}

struct prn_trace_files prn_trace_files_of(struct prn_source *source)
{
    return (struct prn_trace_files){.n = 1, .source = source};
}

int prn_trace_files_open(const char *const *paths, size_t n, struct prn_trace_files *ret_files,
                         struct prony_error *err)
{
    struct prn_trace_files f = {.paths = paths, .n = n};
    int code = take_stamp(paths, n, &f.stamp, err);
    if (code == 0)
        code = prn_source_open(paths[0], &f.source, err);
    if (code == 0)
        *ret_files = f;
    return code;
}

void prn_trace_files_close(struct prn_trace_files *f)
{
    if (f->paths)
        prn_source_close(f->source);
    f->source = NULL;
}

/* Opens another one instead. */
static int open_at(struct prn_trace_files *f, size_t at, struct prony_error *err)
{
    prn_trace_files_close(f);
    f->at = at;
    return prn_source_open(f->paths[at], &f->source, err);
}

int prn_trace_files_next(struct prn_trace_files *f, struct prony_error *err)
{
    if (f->at + 1 >= f->n)
        return 0;
    f->done_bytes += prn_source_position(f->source);
    int code = open_at(f, f->at + 1, err);
    return code < 0 ? code : 1;
}

bool prn_trace_files_can_rewind(const struct prn_trace_files *f)
{
    return f->n == 1 ? prn_source_can_rewind(f->source) : f->stamp.bytes > 0;
}

int prn_trace_files_rewind(struct prn_trace_files *f, struct prony_error *err)
{
    f->done_bytes = 0;
    if (f->n == 1)
        return prn_source_rewind(f->source, err);
    struct prn_trace_stamp now;
    int code = take_stamp(f->paths, f->n, &now, err);
    if (code < 0)
        return code;
    if (now.bytes != f->stamp.bytes || is_later(&now.newest, &f->stamp.newest))
        return prn_fail(err, PRONY_EIO,
                        "cannot read '%s' and the others again: a file has changed since",
                        f->paths[0]);
    return open_at(f, 0, err);
}

uint64_t prn_trace_files_position(const struct prn_trace_files *f)
{
    return f->done_bytes + prn_source_position(f->source);
}

uint64_t prn_trace_files_size(const struct prn_trace_files *f)
{
    return f->n == 1 ? prn_source_size(f->source) : f->stamp.bytes;
}
