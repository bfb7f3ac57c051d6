/*
 * Users and their tokens. A token is 256 random bits as a text, shown once; the database has its
 * SHA-256 (enough for a secret that nobody can guess), and that is compared in constant time.
 *
 * Checking is quick: hashes are kept in memory, and a check only asks SQLite whether another
 * process has changed something. A token that was revoked is refused from the next check on. All
 * functions may be called from several threads.
 */
#ifndef PRN_SERVICE_STORE_TOKENS_H
#define PRN_SERVICE_STORE_TOKENS_H

#include "base/buffer.h"
#include "record/net.h"
#include "service/store/state.h"

#define PRN_USER_SIZE 65            /* a name and its NUL */
#define PRN_TOKEN_SIZE (6 + 43 + 1) /* "prony_", base64url, NUL */

enum prn_role {
    PRN_ROLE_USER = 0,
    PRN_ROLE_ADMIN = 1,
    PRN_ROLE_WORKER = 2,
};

struct prn_identity {
    char user[PRN_USER_SIZE];
    enum prn_role role;
};

struct prn_tokens;

PRONY_MUST_CHECK int prn_tokens_new(const struct prn_state *state, struct prn_tokens **ret_tokens,
                                    struct prony_error *err);
void prn_tokens_free(struct prn_tokens *tokens); /* flushes; NULL does nothing */

/* Whose token it is. PRONY_EDENIED: nobody's, or NULL; anything else: the database can't be read,
 * and nobody is let in. */
PRONY_MUST_CHECK int prn_tokens_check(struct prn_tokens *tokens, const char *text,
                                      struct prn_identity *ret_identity, struct prony_error *err);
/* The same of a token whose hash was kept: whether it is still good. */
#define PRN_TOKEN_HASH_BYTES 32
PRONY_MUST_CHECK int prn_tokens_check_hash(struct prn_tokens *tokens,
                                           const uint8_t hash[PRN_TOKEN_HASH_BYTES],
                                           struct prn_identity *ret_identity,
                                           struct prony_error *err);
/* The token inside "Bearer …", the value of the authorization header; NULL: none. */
const char *prn_token_of_header(const char *header);

/* Tokens that there are; 0 also when the database can't be read. */
size_t prn_tokens_count(struct prn_tokens *tokens);

/* Saves when tokens were last used. */
void prn_tokens_flush(struct prn_tokens *tokens);
/* For a timer of a second or so: looks what other processes have changed, and saves last uses of
 * which the database knows nothing of the last minute. */
void prn_tokens_look(struct prn_tokens *tokens);

/* Told of each token that is added or revoked from now on, while the tokens are locked: `what` is
 * "added" or "revoked", `id` is as `prony token list` shows it. */
typedef void prn_token_change(void *context, const char *what, const struct prn_identity *whose,
                              const char *id);
void prn_tokens_watch(struct prn_tokens *tokens, prn_token_change *changed, void *context);

/* A user's name has up to 64 letters, digits and ".-_@+", and begins with a letter or digit. */
PRONY_MUST_CHECK int prn_tokens_add(struct prn_tokens *tokens, const char *user, enum prn_role role,
                                    char ret_token[PRN_TOKEN_SIZE], struct prony_error *err);
/* All tokens of a user, or the one whose id `prony token list` shows. PRONY_ENOENT: none. */
PRONY_MUST_CHECK int prn_tokens_revoke(struct prn_tokens *tokens, const char *user_or_id,
                                       size_t *ret_n, struct prony_error *err);
/* A table of them, never the tokens themselves. */
PRONY_MUST_CHECK int prn_tokens_list(struct prn_tokens *tokens, struct prn_buffer *out,
                                     struct prony_error *err);

/* A new one that nobody has, and what is kept of one: for secrets that live shorter. */
PRONY_MUST_CHECK int prn_token_make(char ret_token[PRN_TOKEN_SIZE], struct prony_error *err);
bool prn_token_hash(const char *text, uint8_t ret_hash[PRN_TOKEN_HASH_BYTES]);

const char *prn_role_name(enum prn_role role); /* "user", "admin", "worker" */

/* `prony token`, for struct prn_net. */
int prn_token_command(const struct prn_token_options *options, struct prn_buffer *out,
                      struct prony_error *err);

#endif
