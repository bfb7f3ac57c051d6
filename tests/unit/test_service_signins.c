/* Who is signed in on the page: secrets, their end, and how often one may try. */
#include "service_unit.h"

#include "service/web/signins.h"

#define S ((int64_t)1000000000)

static struct prn_signins *make(void)
{
    struct prn_signins *s = NULL;
    assert_done(prn_signins_new(&s, err));
    return s;
}

/* A token's hash that is like no other. */
static const uint8_t *token(size_t number)
{
    static uint8_t hash[PRN_TOKEN_HASH_BYTES];
    memset(hash, 0, sizeof hash);
    memcpy(hash, &number, sizeof number);
    return hash;
}

static void add(struct prn_signins *s, size_t number, int64_t now_ns, char secret[PRN_SIGNIN_SIZE])
{
    assert_done(prn_signins_add(s, token(number), now_ns, secret, err));
}

static bool stands_for(struct prn_signins *s, const char *secret, int64_t now_ns, size_t number)
{
    uint8_t found[PRN_TOKEN_HASH_BYTES];
    return prn_signins_find(s, secret, now_ns, found) &&
           memcmp(found, token(number), sizeof found) == 0;
}

static void a_secret_stands_for_its_token(void **state)
{
    (void)state;
    struct prn_signins *s = make();
    char one[PRN_SIGNIN_SIZE];
    char two[PRN_SIGNIN_SIZE];
    uint8_t hash[PRN_TOKEN_HASH_BYTES];
    add(s, 1, 5, one);
    add(s, 2, 5, two);
    assert_int_equal(strlen(one), 43);
    assert_int_equal(
        strspn(one, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"), 43);
    assert_string_not_equal(one, two);
    assert_true(stands_for(s, one, 6, 1));
    assert_true(stands_for(s, two, 6, 2));
    /* Anything else is nobody's: nothing, a part, more, another one. */
    const char *const wrong[] = {NULL, "", "x", "prony_session"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_false(prn_signins_find(s, wrong[i], 6, hash));
        prn_signins_remove(s, wrong[i]);
    }
    char other[PRN_SIGNIN_SIZE + 1];
    snprintf(other, sizeof other, "%sx", one);
    assert_false(prn_signins_find(s, other, 6, hash));
    other[42] = '\0';
    assert_false(prn_signins_find(s, other, 6, hash));
    memcpy(other, one, sizeof one);
    other[20] = other[20] == 'a' ? 'b' : 'a';
    assert_false(prn_signins_find(s, other, 6, hash));
    prn_signins_remove(s, one);
    assert_false(stands_for(s, one, 6, 1));
    assert_true(stands_for(s, two, 6, 2));
    prn_signins_free(s);
    prn_signins_free(NULL);
}

static void a_secret_ends(void **state)
{
    (void)state;
    struct prn_signins *s = make();
    char secret[PRN_SIGNIN_SIZE];
    const int64_t day = PRN_SIGNIN_S * S;
    add(s, 1, 100, secret);
    assert_true(stands_for(s, secret, 100 + day - 1, 1));
    assert_false(stands_for(s, secret, 100 + day, 1));
    /* For good, whatever the clock says. */
    assert_false(stands_for(s, secret, 100, 1));
    prn_signins_free(s);
}

static void the_oldest_go_first(void **state)
{
    (void)state;
    struct prn_signins *s = make();
    static char of_one[PRN_SIGNINS_PER_TOKEN_MAX + 1][PRN_SIGNIN_SIZE];
    static char others[PRN_SIGNINS_MAX][PRN_SIGNIN_SIZE];
    char before[PRN_SIGNIN_SIZE];
    add(s, 2, 0, before);
    /* A token has room for some, and takes none from others. */
    for (size_t i = 0; i <= PRN_SIGNINS_PER_TOKEN_MAX; i++)
        add(s, 1, 0, of_one[i]);
    assert_false(stands_for(s, of_one[0], 1, 1));
    for (size_t i = 1; i <= PRN_SIGNINS_PER_TOKEN_MAX; i++)
        assert_true(stands_for(s, of_one[i], 1, 1));
    assert_true(stands_for(s, before, 1, 2));
    /* When there is no room at all, the oldest of all goes. */
    for (size_t i = 0; i < PRN_SIGNINS_MAX - 2; i++)
        add(s, 100 + i, 0, others[i]);
    assert_false(stands_for(s, before, 1, 2));
    assert_false(stands_for(s, of_one[PRN_SIGNINS_PER_TOKEN_MAX - 2], 1, 1));
    assert_true(stands_for(s, others[0], 1, 100));
    assert_true(stands_for(s, others[PRN_SIGNINS_MAX - 3], 1, 100 + PRN_SIGNINS_MAX - 3));
    /* One that signs out makes room. */
    prn_signins_remove(s, others[5]);
    add(s, 3, 0, before);
    assert_true(stands_for(s, others[0], 1, 100));
    prn_signins_free(s);
}

static void wrong_tries_are_limited(void **state)
{
    (void)state;
    struct prn_signins *s = make();
    const char *const here = "ipv4:192.0.2.1";
    int64_t now = 1000 * S;
    for (size_t i = 0; i < PRN_SIGNIN_TRIES; i++) {
        assert_true(prn_signins_may_try(s, here, now));
        prn_signins_was_wrong(s, here, now);
    }
    assert_false(prn_signins_may_try(s, here, now));
    /* Elsewhere that doesn't matter: of many places hardly any shares this one's count. */
    size_t shared = 0;
    for (size_t i = 0; i < 100; i++) {
        char there[32];
        snprintf(there, sizeof there, "ipv4:198.51.100.%zu", i);
        shared += !prn_signins_may_try(s, there, now);
    }
    assert_true(shared < 5);
    /* With time one may try again, and not more than once a second. */
    assert_false(prn_signins_may_try(s, here, now + S / 2));
    now += S;
    assert_true(prn_signins_may_try(s, here, now));
    prn_signins_was_wrong(s, here, now);
    assert_false(prn_signins_may_try(s, here, now + S / 2));
    /* Right tries cost nothing. */
    now += 100 * S;
    for (size_t i = 0; i < 1000; i++)
        assert_true(prn_signins_may_try(s, here, now));
    /* After a long time there are as many tries as at first, not more. */
    for (size_t i = 0; i < PRN_SIGNIN_TRIES; i++)
        prn_signins_was_wrong(s, here, now);
    assert_false(prn_signins_may_try(s, here, now));
    prn_signins_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_secret_stands_for_its_token),
        cmocka_unit_test(a_secret_ends),
        cmocka_unit_test(the_oldest_go_first),
        cmocka_unit_test(wrong_tries_are_limited),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
