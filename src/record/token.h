/*
 * Tokens of services: where a user keeps one. In this order: what the caller gives, PRONY_TOKEN,
 * OCTOML_PROFILE_API_TOKEN, prony's own file, and the file of octoml-profile.
 */
#ifndef PRN_RECORD_TOKEN_H
#define PRN_RECORD_TOKEN_H

#include "base/error.h"

#include <limits.h>
#include <stdbool.h>

#define PRN_TOKEN_MAX 4096

struct prn_token {
    char text[PRN_TOKEN_MAX];   /* "": none was found */
    char source[PATH_MAX + 16]; /* "PRONY_TOKEN", "'/home/…/token'" */
};

/* Empty; NULL: no memory. Freeing one leaves nothing of it in memory. */
struct prn_token *prn_token_new(void);
void prn_token_free(struct prn_token *token);

/* `given` (NULL: none) comes first. A file that can't be read, or holds what can't be a token, is
 * an error; one that isn't there is not. */
PRONY_MUST_CHECK int prn_token_find(const char *given, struct prn_token *ret_token,
                                    struct prony_error *err);

/* The first line of a file. */
PRONY_MUST_CHECK int prn_token_read(const char *path, struct prn_token *ret_token,
                                    struct prony_error *err);

/* Into prony's own file, which nobody else can read; its folder is made where it is missing. */
PRONY_MUST_CHECK int prn_token_save(const char *text, struct prony_error *err);

/* Whether a token can be sent: printable, without spaces, not too long. */
bool prn_token_is_sound(const char *text);

#endif
