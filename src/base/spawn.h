/* What programs that prony starts have in common. */
#ifndef PRN_BASE_SPAWN_H
#define PRN_BASE_SPAWN_H

#include <spawn.h>

/* A group of its own, so that Ctrl-C is for prony, which then ends it in its own time; no signal
 * blocked, and SIGPIPE as usual. */
void prn_spawn_apart(posix_spawnattr_t *attributes);

#endif
