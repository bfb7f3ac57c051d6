/* What a worker says of itself when it attaches: found once, as the machine doesn't change. */
#ifndef PRN_WORKER_HELLO_H
#define PRN_WORKER_HELLO_H

#include "base/arena.h"
#include "record/net.h"

#include <prony.pb-c.h>

/* `key` NULL: nobody's. Fails when no runtime works here. All memory belongs to `arena`. */
PRONY_MUST_CHECK int prn_worker_hello(const struct prn_worker_options *options, const char *key,
                                      struct prn_arena *arena, Prony__Hello *ret_hello,
                                      struct prony_error *err);

#endif
