/*
 * A copy of the state in one file: an SQLite database with tokens and history.
 *
 * - It is a snapshot, also while a service uses the state; the service isn't disturbed. Nothing is
 *   migrated, so a newer prony can save the state of an older one that runs.
 * - Uploads aren't in it. They are a cache: clients send again what isn't there.
 * - The file appears whole or not at all; whatever was there under its name stays until then.
 * - A restore makes a state where there is none. A damaged file, one of a newer prony and one of
 *   somebody else are refused before anything counts; one of an older prony is migrated.
 */
#ifndef PRN_SERVICE_STORE_BACKUP_H
#define PRN_SERVICE_STORE_BACKUP_H

#include "base/buffer.h"

/* `folder` as of prn_state_open(). One line of what was done is appended to `out`. */
PRONY_MUST_CHECK int prn_backup_write(const char *folder, const char *file, struct prn_buffer *out,
                                      struct prony_error *err);
/* PRONY_EFORMAT: the file isn't a backup, or damaged. PRONY_EUSAGE: there is a state already. */
PRONY_MUST_CHECK int prn_backup_restore(const char *folder, const char *file,
                                        struct prn_buffer *out, struct prony_error *err);

#endif
