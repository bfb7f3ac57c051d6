#include "service/web/signins.h"

#include "base/lock.h"
#include "service/tries.h"

#include <openssl/crypto.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define HASH_BYTES PRN_TOKEN_HASH_BYTES
#define SECOND_NS ((int64_t)1000000000)

struct signin {
    uint8_t secret[HASH_BYTES], token[HASH_BYTES];
    int64_t since_ns;
    uint64_t number; /* counts up: the order in which they came */
    bool used;
};

PRN_LOCK(signins);

struct prn_signins {
    pthread_mutex_t lock;
    uint64_t next_number PRN_GUARDED(signins);
    struct prn_tries *tries;
    struct signin signins[PRN_SIGNINS_MAX] PRN_GUARDED(signins);
};

PRN_LOCK_FUNCTIONS(signins, struct prn_signins, lock)

int prn_signins_new(struct prn_signins **ret_signins, struct prony_error *err)
{
    struct prn_signins *s = calloc(1, sizeof *s);
    if (!s)
        return prn_fail_memory(err);
    pthread_mutex_init(&s->lock, NULL);
    int code = prn_tries_new(PRN_SIGNIN_TRIES, PRN_SIGNIN_TRIES_PER_S, &s->tries, err);
    if (code < 0)
        prn_signins_free(s);
    else
        *ret_signins = s;
    return code;
}

void prn_signins_free(struct prn_signins *signins)
{
    if (!signins)
        return;
    prn_tries_free(signins->tries);
    pthread_mutex_destroy(&signins->lock);
    free(signins);
}

/* Where a new one may stand: a free place, or that of the one that has to go. */
static struct signin *choose(struct prn_signins *s, const uint8_t token[HASH_BYTES])
{
    struct signin *oldest = NULL;
    struct signin *oldest_of_token = NULL;
    struct signin *unused = NULL;
    size_t of_token = 0;
    for (size_t i = 0; i < PRN_SIGNINS_MAX; i++) {
        struct signin *at = &s->signins[i];
        if (!at->used) {
            unused = at;
            continue;
        }
        if (!oldest || at->number < oldest->number)
            oldest = at;
        if (CRYPTO_memcmp(at->token, token, HASH_BYTES) != 0)
            continue;
        of_token++;
        if (!oldest_of_token || at->number < oldest_of_token->number)
            oldest_of_token = at;
    }
    if (of_token >= PRN_SIGNINS_PER_TOKEN_MAX)
        return oldest_of_token;
    return unused ? unused : oldest;
}

int prn_signins_add(struct prn_signins *signins, const uint8_t token[HASH_BYTES], int64_t now_ns,
                    char ret_secret[PRN_SIGNIN_SIZE], struct prony_error *err)
{
    char text[PRN_TOKEN_SIZE];
    uint8_t hash[HASH_BYTES];
    int code = prn_token_make(text, err);
    if (code < 0)
        return code;
    /* Without what tokens begin with: it is none. */
    const char *secret = text + (PRN_TOKEN_SIZE - PRN_SIGNIN_SIZE);
    if (!prn_token_hash(secret, hash))
        return prn_fail_memory(err);
    signins_lock(signins);
    struct signin *at = choose(signins, token);
    *at = (struct signin){.since_ns = now_ns, .number = signins->next_number++, .used = true};
    memcpy(at->secret, hash, HASH_BYTES);
    memcpy(at->token, token, HASH_BYTES);
    signins_unlock(signins);
    memcpy(ret_secret, secret, PRN_SIGNIN_SIZE);
    OPENSSL_cleanse(text, sizeof text);
    return 0;
}

/* All are looked at, so how long it takes tells nothing. */
static struct signin *find_locked(struct prn_signins *s, const char *secret) PRN_HOLDS(signins)
{
    uint8_t hash[HASH_BYTES];
    struct signin *found = NULL;
    if (!secret || strnlen(secret, PRN_SIGNIN_SIZE) != PRN_SIGNIN_SIZE - 1 ||
        !prn_token_hash(secret, hash))
        return NULL;
    for (size_t i = 0; i < PRN_SIGNINS_MAX; i++)
        if (s->signins[i].used && CRYPTO_memcmp(s->signins[i].secret, hash, HASH_BYTES) == 0)
            found = &s->signins[i];
    return found;
}

bool prn_signins_find(struct prn_signins *signins, const char *secret, int64_t now_ns,
                      uint8_t ret_token[HASH_BYTES])
{
    signins_lock(signins);
    struct signin *at = find_locked(signins, secret);
    if (at && now_ns - at->since_ns >= PRN_SIGNIN_S * SECOND_NS) {
        at->used = false;
        at = NULL;
    }
    if (at)
        memcpy(ret_token, at->token, HASH_BYTES);
    signins_unlock(signins);
    return at;
}

void prn_signins_remove(struct prn_signins *signins, const char *secret)
{
    signins_lock(signins);
    struct signin *at = find_locked(signins, secret);
    if (at)
        at->used = false;
    signins_unlock(signins);
}

bool prn_signins_may_try(struct prn_signins *signins, const char *place, int64_t now_ns)
{
    return prn_tries_wait_s(signins->tries, place, now_ns) <= 0;
}

void prn_signins_was_wrong(struct prn_signins *signins, const char *place, int64_t now_ns)
{
    prn_tries_was_wrong(signins->tries, place, now_ns);
}
