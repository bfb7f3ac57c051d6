/* What 'prony machine' found out, kept in the user's state folder under the machine's fingerprint,
 * for reports that say how far from the limit something is. */
#ifndef PRN_STORE_MACHINE_H
#define PRN_STORE_MACHINE_H

#include "measure/machine/machine.h"

#include <limits.h>

/* Keeps a record; one of the same machine is replaced. `ret_path` is where. */
PRONY_MUST_CHECK int prn_machine_save(const struct prn_machine *machine, char ret_path[PATH_MAX],
                                      struct prony_error *err);

/* The record of this machine; PRONY_ENOENT: there is none. Everything belongs to `arena`. */
PRONY_MUST_CHECK int prn_machine_load(struct prn_arena *arena, struct prn_machine *ret_machine,
                                      struct prony_error *err);

#endif
