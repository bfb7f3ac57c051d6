/*
 * Sessions that are open, so that they can go on after a restart of the service: what their client
 * asked for, as the messages that it sent. All functions may be called from several threads; what
 * they write survives the end of the process.
 */
#ifndef PRN_SERVICE_STORE_LASTING_H
#define PRN_SERVICE_STORE_LASTING_H

#include "service/store/state.h"

#define PRN_LASTING_ID_BYTES 16

struct prn_lasting;

PRONY_MUST_CHECK int prn_lasting_new(const struct prn_state *state, struct prn_lasting **ret_live,
                                     struct prony_error *err);
void prn_lasting_free(struct prn_lasting *live); /* NULL does nothing */

enum prn_lasting_kind {
    PRN_LASTING_FILE, /* LoadCachedModelComponentRequest: a file that is in the cache */
    PRN_LASTING_LOAD, /* LoadModelRequest */
};

struct prn_lasting_session {
    const uint8_t *id;
    const char *user;
    int role;
    int64_t created_ms, ready_ms; /* since 1970; `ready_ms` 0: it waits */
    const void *request;          /* CreateSessionRequest */
    size_t bytes;
};

PRONY_MUST_CHECK int prn_lasting_open(struct prn_lasting *live,
                                      const struct prn_lasting_session *session,
                                      struct prony_error *err);
PRONY_MUST_CHECK int prn_lasting_ready(struct prn_lasting *live, const uint8_t *id,
                                       int64_t ready_ms, struct prony_error *err);
/* What it did, in order; nothing if there is no such session. */
PRONY_MUST_CHECK int prn_lasting_add(struct prn_lasting *live, const uint8_t *id,
                                     enum prn_lasting_kind kind, const void *request, size_t bytes,
                                     struct prony_error *err);
/* It has ended. */
PRONY_MUST_CHECK int prn_lasting_end(struct prn_lasting *live, const uint8_t *id,
                                     struct prony_error *err);

/* What they get is borrowed for the call; anything but 0 ends the query, which returns it. They
 * must not call this `lasting`. Those that have hosts come first, then who asked first. */
typedef int prn_lasting_session_visit(const struct prn_lasting_session *session, void *context);
typedef int prn_lasting_part_visit(enum prn_lasting_kind kind, const void *request, size_t bytes,
                                   void *context);

PRONY_MUST_CHECK int prn_lasting_sessions(struct prn_lasting *live,
                                          prn_lasting_session_visit *visit, void *context,
                                          struct prony_error *err);
PRONY_MUST_CHECK int prn_lasting_parts(struct prn_lasting *live, const uint8_t *id,
                                       prn_lasting_part_visit *visit, void *context,
                                       struct prony_error *err);

#endif
