/*
 * What survives a restart of the service, in a folder that only its user can enter: tokens, the
 * index of blobs and the history, in one SQLite database, and the blobs themselves. `prony serve`
 * and `prony token` use it at the same time.
 *
 * The database is in WAL mode, so that readers and the writer don't wait for each other, and each
 * part of the service has a connection of its own, so that a token is checked while a history is
 * written. A connection belongs to whoever asked for it, with its lock.
 */
#ifndef PRN_SERVICE_STORE_STATE_H
#define PRN_SERVICE_STORE_STATE_H

#include "base/error.h"

#include "base/clock.h"
#include "store/db.h"

#include <stdbool.h>

#define PRN_STATE_DATABASE "state.db"

struct prn_state;

/* `folder` NULL: $XDG_STATE_HOME/prony, or ~/.local/state/prony. It is created when it isn't there;
 * one that belongs to somebody else, or that others may enter, is refused. With `serve`, only one
 * process at a time may have it: PRONY_EUNAVAILABLE. */
PRONY_MUST_CHECK int prn_state_open(const char *folder, bool serve, struct prn_state **ret_state,
                                    struct prony_error *err);
/* For a restore: takes the folder as a service does, but makes no database. PRONY_EUSAGE: there is
 * one. */
PRONY_MUST_CHECK int prn_state_open_empty(const char *folder, struct prn_state **ret_state,
                                          struct prony_error *err);
void prn_state_close(struct prn_state *state); /* after all connections; NULL does nothing */

/* Absolute, and a descriptor of it; both live as long as the state. */
const char *prn_state_folder(const struct prn_state *state);
int prn_state_fd(const struct prn_state *state);

/* Opens (and creates) a folder in the state folder, mode 0700, and returns its descriptor. */
PRONY_MUST_CHECK int prn_state_subfolder(const struct prn_state *state, const char *name,
                                         int *ret_fd, struct prony_error *err);

/* Opens (and creates) a folder anywhere, under the same rules as the state folder. */
PRONY_MUST_CHECK int prn_state_folder_open(const char *folder, int *ret_fd,
                                           struct prony_error *err);

/* Brings a database up to this prony's version (store/db.h). */
PRONY_MUST_CHECK int prn_state_migrate(sqlite3 *db, struct prony_error *err);

/* A connection, to be closed with sqlite3_close(). `durable`: what it commits survives a loss of
 * power, at the price of waiting for the disk; otherwise it only survives the end of the process,
 * and the database stays whole in any case. */
PRONY_MUST_CHECK int prn_state_connect(const struct prn_state *state, bool durable,
                                       sqlite3 **ret_db, struct prony_error *err);

#endif
