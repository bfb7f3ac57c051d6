/* Wrong tokens by address: within the limit, over it, and after a while. */
#include "service/tries.h"
#include "unit.h"

#include <stdio.h>

#define SECOND ((int64_t)1000000000)

static void test_a_burst_then_a_rate(void **state)
{
    (void)state;
    struct prn_tries *tries = NULL;
    struct prony_error err;
    assert_int_equal(prn_tries_new(3, 2, &tries, &err), 0);
    for (int i = 0; i < 3; i++) {
        assert_true(prn_tries_wait_s(tries, "ipv4:10.0.0.1", SECOND) <= 0);
        prn_tries_was_wrong(tries, "ipv4:10.0.0.1", SECOND);
    }
    /* The fourth waits for half a second, the fifth for a whole one. */
    assert_true(prn_tries_wait_s(tries, "ipv4:10.0.0.1", SECOND) == 0.5);
    prn_tries_was_wrong(tries, "ipv4:10.0.0.1", SECOND);
    assert_true(prn_tries_wait_s(tries, "ipv4:10.0.0.1", SECOND) == 1);
    assert_true(prn_tries_wait_s(tries, "ipv4:10.0.0.1", 2 * SECOND) <= 0);
    prn_tries_free(tries);
    prn_tries_free(NULL);
}

static void test_addresses_are_told_apart(void **state)
{
    (void)state;
    struct prn_tries *tries = NULL;
    struct prony_error err;
    char place[32];
    size_t slowed = 0;
    assert_int_equal(prn_tries_new(2, 1, &tries, &err), 0);
    for (int i = 0; i < 100; i++)
        prn_tries_was_wrong(tries, "ipv6:[::1]", SECOND);
    for (int i = 0; i < 200; i++) {
        snprintf(place, sizeof place, "ipv4:10.0.0.%d", i);
        slowed += prn_tries_wait_s(tries, place, SECOND) > 0;
    }
    assert_true(slowed < 10); /* of 1,024 places, few share the one */
    prn_tries_free(tries);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_burst_then_a_rate),
        cmocka_unit_test(test_addresses_are_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
