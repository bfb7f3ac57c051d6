#include "service/web/signins.h"

#include "base/lock.h"

#include <openssl/crypto.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define HASH_BYTES PRN_TOKEN_HASH_BYTES
#define SECOND_NS ((int64_t)1000000000)
#define PLACES 1024 /* that are told apart; several may share one */

struct signin {
    uint8_t secret[HASH_BYTES], token[HASH_BYTES];
    int64_t since_ns;
    uint64_t number; /* counts up: the order in which they came */
    bool used;
};

/* A bucket that wrong tries fill and time empties. */
struct place {
    double wrong;
    int64_t at_ns;
};

PRN_LOCK(signins);

struct prn_signins {
    pthread_mutex_t lock;
    uint64_t next_number PRN_GUARDED(signins);
    uint64_t seed; /* so that nobody can choose to share a place */
    struct signin signins[PRN_SIGNINS_MAX] PRN_GUARDED(signins);
    struct place places[PLACES] PRN_GUARDED(signins);
};

PRN_LOCK_FUNCTIONS(signins, struct prn_signins, lock)

int prn_signins_new(struct prn_signins **ret_signins, struct prony_error *err)
{
    char random[PRN_TOKEN_SIZE];
    uint8_t hash[HASH_BYTES];
    int code = prn_token_make(random, err);
    if (code < 0)
        return code;
    struct prn_signins *s = calloc(1, sizeof *s);
    if (!s || !prn_token_hash(random, hash)) {
        free(s);
        return prn_fail_memory(err);
    }
    memcpy(&s->seed, hash, sizeof s->seed);
    pthread_mutex_init(&s->lock, NULL);
    *ret_signins = s;
    return 0;
}

void prn_signins_free(struct prn_signins *signins)
{
    if (!signins)
        return;
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

/* As it is by now. */
static struct place *place_of(struct prn_signins *s, const char *name, int64_t now_ns)
{
    uint64_t hash = s->seed;
    for (const char *c = name; *c; c++)
        hash = (hash ^ (unsigned char)*c) * 0x100000001b3u;
    hash ^= hash >> 32;
    struct place *place = &s->places[hash % PLACES];
    double gone = (double)(now_ns - place->at_ns) / (double)SECOND_NS * PRN_SIGNIN_TRIES_PER_S;
    place->wrong = place->wrong > gone ? place->wrong - gone : 0;
    place->at_ns = now_ns;
    return place;
}

bool prn_signins_may_try(struct prn_signins *signins, const char *place, int64_t now_ns)
{
    signins_lock(signins);
    bool may = place_of(signins, place, now_ns)->wrong <= PRN_SIGNIN_TRIES - 1;
    signins_unlock(signins);
    return may;
}

void prn_signins_was_wrong(struct prn_signins *signins, const char *place, int64_t now_ns)
{
    signins_lock(signins);
    place_of(signins, place, now_ns)->wrong += 1;
    signins_unlock(signins);
}
