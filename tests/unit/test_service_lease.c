/* Leases: by hand, and beside a list that is searched from end to end. */
#include "base/random.h"
#include "service/session/lease.h"
#include "unit.h"

#include <stdlib.h>

static void test_by_hand(void **state)
{
    (void)state;
    struct prn_leases leases = PRN_LEASES_INIT;
    struct prn_lease a = {0};
    struct prn_lease b = {0};
    assert_int_equal(prn_leases_next_ns(&leases), INT64_MAX);
    assert_null(prn_leases_take_expired(&leases, INT64_MAX));
    assert_int_equal(prn_leases_add(&leases, &a, 30), 0);
    assert_int_equal(prn_leases_add(&leases, &b, 40), 0);
    assert_int_equal(prn_leases_next_ns(&leases), 30);
    prn_leases_move(&leases, &a, 50);
    assert_int_equal(prn_leases_next_ns(&leases), 40);
    assert_null(prn_leases_take_expired(&leases, 39));
    assert_ptr_equal(prn_leases_take_expired(&leases, 40), &b);
    assert_null(prn_leases_take_expired(&leases, 40));
    /* A sign of life that comes too late changes nothing. */
    prn_leases_move(&leases, &b, 60);
    prn_leases_remove(&leases, &b);
    assert_int_equal(prn_leases_next_ns(&leases), 50);
    /* While a call is open nothing expires; after it the lease runs again. */
    prn_leases_move(&leases, &a, INT64_MAX);
    assert_int_equal(prn_leases_next_ns(&leases), INT64_MAX);
    assert_null(prn_leases_take_expired(&leases, INT64_MAX - 1));
    prn_leases_move(&leases, &a, 70);
    assert_int_equal(prn_leases_next_ns(&leases), 70);
    prn_leases_remove(&leases, &a);
    assert_int_equal(prn_leases_next_ns(&leases), INT64_MAX);
    prn_leases_release(&leases);
}

#define LEASES 500

static int64_t earliest(const struct prn_lease *all)
{
    int64_t first = INT64_MAX;
    for (size_t i = 0; i < LEASES; i++)
        if (all[i].place > 0 && all[i].deadline_ns < first)
            first = all[i].deadline_ns;
    return first;
}

static void test_random(void **state)
{
    (void)state;
    struct prn_leases leases = PRN_LEASES_INIT;
    struct prn_lease *all = calloc(LEASES, sizeof *all);
    assert_non_null(all);
    struct prn_random random;
    prn_random_seed(&random, 3);
    size_t expired = 0;
    int64_t now = 0;
    for (size_t i = 0; i < 20000; i++) {
        struct prn_lease *lease = &all[prn_random_below(&random, LEASES)];
        int64_t deadline = now + (int64_t)prn_random_below(&random, 3000);
        now += (int64_t)prn_random_below(&random, 3);
        if (lease->place == 0) {
            assert_int_equal(prn_leases_add(&leases, lease, deadline), 0);
        } else if (prn_random_below(&random, 10) == 0) {
            prn_leases_remove(&leases, lease);
            assert_int_equal(lease->place, 0);
        } else {
            prn_leases_move(&leases, lease, deadline);
            assert_int_equal(lease->deadline_ns, deadline);
        }
        assert_int_equal(prn_leases_next_ns(&leases), earliest(all));
        struct prn_lease *taken;
        while ((taken = prn_leases_take_expired(&leases, now))) {
            assert_true(taken->deadline_ns <= now);
            assert_true(taken->deadline_ns <= earliest(all));
            expired++;
        }
        assert_true(earliest(all) > now);
    }
    assert_true(expired > 1000);
    prn_leases_release(&leases);
    free(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_hand),
        cmocka_unit_test(test_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
