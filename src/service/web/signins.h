/*
 * Who is signed in on the page. Signing in with a token gives the browser a secret of its own, 256
 * random bits as a text; here there is its SHA-256, beside the hash of the token that it stands
 * for. So a sign-in ends with its token, and it also ends when somebody signs out, after 12 hours,
 * with the process, and when there are too many: the oldest of the same token goes first, then the
 * oldest of all.
 *
 * Wrong tries are counted by where they come from: so many in a row, then so many a second.
 *
 * Times come from outside, in nanoseconds. May be called from several threads.
 */
#ifndef PRN_SERVICE_WEB_SIGNINS_H
#define PRN_SERVICE_WEB_SIGNINS_H

#include "service/store/tokens.h"

#define PRN_SIGNIN_SIZE (43 + 1) /* base64url, NUL */
#define PRN_SIGNIN_S (12 * 3600)
#define PRN_SIGNINS_MAX 1024
#define PRN_SIGNINS_PER_TOKEN_MAX 16
/* Wrong tries from one place: at once, and then per second. */
#define PRN_SIGNIN_TRIES 10
#define PRN_SIGNIN_TRIES_PER_S 1

struct prn_signins;

PRONY_MUST_CHECK int prn_signins_new(struct prn_signins **ret_signins, struct prony_error *err);
void prn_signins_free(struct prn_signins *signins); /* NULL does nothing */

/* `token` is the hash of a token that was found good. */
PRONY_MUST_CHECK int prn_signins_add(struct prn_signins *signins,
                                     const uint8_t token[PRN_TOKEN_HASH_BYTES], int64_t now_ns,
                                     char ret_secret[PRN_SIGNIN_SIZE], struct prony_error *err);
/* The hash of the token that the secret stands for; false: of none, or `secret` is NULL. */
bool prn_signins_find(struct prn_signins *signins, const char *secret, int64_t now_ns,
                      uint8_t ret_token[PRN_TOKEN_HASH_BYTES]);
void prn_signins_remove(struct prn_signins *signins, const char *secret); /* NULL does nothing */

/* Whether one may try from there; `place` is an address without its port. */
bool prn_signins_may_try(struct prn_signins *signins, const char *place, int64_t now_ns);
void prn_signins_was_wrong(struct prn_signins *signins, const char *place, int64_t now_ns);

#endif
