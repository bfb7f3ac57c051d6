/*
 * A history: whole reports in one SQLite file, each with the commit it is of, and their results as
 * rows, so that looking at a thousand doesn't read them all.
 *
 * - The file is in WAL mode; several processes may add at the same time. What was added survives a
 *   loss of power. All files of one call are added, or none.
 * - A report is known by what was measured: created, backends and samples. It is there once,
 * however often it is added, and whoever has formatted it anew.
 * - Reports are kept as they came, packed by zstd. Rows are what follows from them.
 * - The history of a service (`state.db`, or the folder it lies in) can be read like one: its
 *   reports are then taken into memory.
 */
#ifndef PRN_STORE_ARCHIVE_H
#define PRN_STORE_ARCHIVE_H

#include "base/buffer.h"
#include "measure/trend/trend.h"

struct prn_archive;

enum prn_archive_use {
    PRN_ARCHIVE_READ,  /* PRONY_ENOENT: there is none yet */
    PRN_ARCHIVE_WRITE, /* one that isn't there is made */
};

/* `path` NULL: history.db in the user's state folder. */
PRONY_MUST_CHECK int prn_archive_open(const char *path, enum prn_archive_use use,
                                      struct prn_archive **ret_archive, struct prony_error *err);
void prn_archive_close(struct prn_archive *archive); /* NULL does nothing */

/* A report that is to be added, and what it doesn't say itself. All is borrowed. */
struct prn_archive_report {
    const char *name; /* for errors */
    const char *json; /* as it is kept */
    size_t len;
    const struct prn_profile *profile; /* the same, read */
    const char *commit, *branch;       /* NULL: not known */
    bool changed;
    const char *model;   /* instead of the name of its file; NULL: that one */
    const char *machine; /* instead of processor and cores; NULL: these */
    /* given by add */
    int64_t id;
    bool known; /* it was there already */
};

/* Fails when a report can't be kept: a recorded program, or one without results. */
PRONY_MUST_CHECK int prn_archive_check(const struct prn_archive_report *report,
                                       struct prony_error *err);
PRONY_MUST_CHECK int prn_archive_add(struct prn_archive *archive,
                                     struct prn_archive_report *reports, size_t n,
                                     struct prony_error *err);

/* When it was measured, in ms since 1970; -1: it doesn't say. */
int64_t prn_archive_created_ms(const struct prn_profile *profile);

/* What a report's results are called there, until the arena goes. */
PRONY_MUST_CHECK int prn_archive_model(const struct prn_archive_report *report,
                                       const struct prn_result *result, struct prn_arena *arena,
                                       const char **ret_model, struct prony_error *err);

struct prn_archive_query {
    const char *model;   /* NULL: the only one there is */
    const char *backend; /* a pattern (prn_text_glob); NULL: all */
    const char *branch;  /* NULL: all */
    int64_t last;        /* reports of each series; 0: PRN_CHANGES_MAX */
};

/* Series with their changes. PRONY_ENOENT: there is nothing of that kind. */
PRONY_MUST_CHECK int prn_archive_trend(struct prn_archive *archive,
                                       const struct prn_archive_query *query,
                                       struct prn_trend **ret_trend, struct prony_error *err);

/* What there is: a row for each series, by model. Texts belong to `arena`. */
PRONY_MUST_CHECK int prn_archive_list(struct prn_archive *archive,
                                      const struct prn_archive_query *query,
                                      struct prn_arena *arena, struct prn_trend_list *ret_list,
                                      struct prony_error *err);

/* The newest report that `which` names: its number, the beginning of its commit, or its branch.
 * `model` may be NULL. PRONY_ENOENT: none. */
PRONY_MUST_CHECK int prn_archive_find(struct prn_archive *archive, const char *which,
                                      const char *model, int64_t *ret_id, struct prony_error *err);

/* Appends a report as it was added, and what to call it: "report 3 (commit 1234567)". */
PRONY_MUST_CHECK int prn_archive_report(struct prn_archive *archive, int64_t id,
                                        struct prn_buffer *json, struct prn_buffer *name,
                                        struct prony_error *err);

/* Removes reports to which all of it applies. */
struct prn_archive_prune {
    int64_t keep;        /* not among the newest so many of any of its series; -1: whatever */
    double older_than_s; /* measured longer ago; NAN: whenever */
    const char *model;   /* nothing but this in them; NULL: anything */
    bool dry;            /* count only */
};
PRONY_MUST_CHECK int prn_archive_prune(struct prn_archive *archive,
                                       const struct prn_archive_prune *options,
                                       struct prn_pruned *ret_pruned, struct prony_error *err);

#endif
