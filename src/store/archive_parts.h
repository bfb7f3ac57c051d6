/* What the files of an archive share. Used inside src/store/archive*.c only. */
#ifndef PRN_STORE_ARCHIVE_PARTS_H
#define PRN_STORE_ARCHIVE_PARTS_H

#include "measure/comparison/comparison.h"
#include "store/archive.h"
#include "store/db.h"

struct prn_archive {
    char path[PATH_MAX];
    sqlite3 *db;
};

/* Puts the file's name in front of what failed; passes anything else on. */
int prn_archive_in(const struct prn_archive *archive, int code, struct prony_error *err);

/* Adds the reports of a service, a connection to whose database is given. */
PRONY_MUST_CHECK int prn_archive_take_service(struct prn_archive *archive, sqlite3 *service,
                                              struct prony_error *err);

#endif
