/*
 * The files of a trace, one after the other: run-level profiling writes one for each run. One is
 * open at a time, so their number doesn't matter.
 *
 *     struct prn_trace_files files;
 *     int code = prn_trace_files_open(paths, n, &files, err);
 *     …
 *     do
 *         … read files.source …
 *     while ((code = prn_trace_files_next(&files, err)) > 0);
 *     prn_trace_files_close(&files);
 */
#ifndef PRN_TRACE_FILES_H
#define PRN_TRACE_FILES_H

#include "trace/source.h"

#include <time.h>

/* What tells that a file has changed. */
struct prn_trace_stamp {
    uint64_t bytes; /* of all files; 0: one isn't a regular file */
    struct timespec newest;
};

struct prn_trace_files {
    const char *const *paths; /* borrowed; NULL: `source` is all there is, and borrowed too */
    size_t n;
    size_t at;                 /* the one that is open */
    struct prn_source *source; /* of that one */
    uint64_t done_bytes;       /* of those before it, as they lie there */
    struct prn_trace_stamp stamp;
};

/* One source. */
struct prn_trace_files prn_trace_files_of(struct prn_source *source);

/* Opens the first of `n` > 0 files, "-" being standard input, and looks for the others. */
PRONY_MUST_CHECK int prn_trace_files_open(const char *const *paths, size_t n,
                                          struct prn_trace_files *ret_files,
                                          struct prony_error *err);
void prn_trace_files_close(struct prn_trace_files *f);

/* 1: the next file is open, and the source of the one before is gone; 0: there is none. */
PRONY_MUST_CHECK int prn_trace_files_next(struct prn_trace_files *f, struct prony_error *err);

/* Whether all of it can be read again, and back to the first file; as prn_source_rewind. */
bool prn_trace_files_can_rewind(const struct prn_trace_files *f);
PRONY_MUST_CHECK int prn_trace_files_rewind(struct prn_trace_files *f, struct prony_error *err);

/* As prn_source_position and prn_source_size, of all files. */
uint64_t prn_trace_files_position(const struct prn_trace_files *f);
uint64_t prn_trace_files_size(const struct prn_trace_files *f);

#endif
