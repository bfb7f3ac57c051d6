#include "unit.h"

#include "base/map.h"

static void test_empty(void **state)
{
    (void)state;
    struct prn_map m = PRN_MAP_INIT;
    assert_int_equal(prn_map_get(&m, "x"), PRN_MAP_NONE);
    prn_map_release(&m);
    prn_map_release(&m);
}

static void test_sets_and_replaces(void **state)
{
    (void)state;
    struct prn_map m = PRN_MAP_INIT;
    assert_int_equal(prn_map_set(&m, "one", 1), 0);
    assert_int_equal(prn_map_set(&m, "two", 2), 0);
    assert_int_equal(prn_map_set(&m, "one", 11), 0);
    assert_int_equal(prn_map_get(&m, "one"), 11);
    assert_int_equal(prn_map_get(&m, "two"), 2);
    assert_int_equal(prn_map_get(&m, "on"), PRN_MAP_NONE);
    assert_int_equal(m.count, 2);
    prn_map_release(&m);
}

static void test_keys_by_length(void **state)
{
    (void)state;
    struct prn_map m = PRN_MAP_INIT;
    assert_int_equal(prn_map_set_n(&m, "abc", 0, 0), 0);
    assert_int_equal(prn_map_set_n(&m, "abc", 1, 1), 0);
    assert_int_equal(prn_map_set_n(&m, "a\0b", 3, 3), 0);
    assert_int_equal(prn_map_get(&m, ""), 0);
    assert_int_equal(prn_map_get(&m, "a"), 1);
    assert_int_equal(prn_map_get_n(&m, "a\0b", 3), 3);
    assert_int_equal(prn_map_get_n(&m, "a\0c", 3), PRN_MAP_NONE);
    prn_map_release(&m);
}

static void test_many(void **state)
{
    (void)state;
    enum { N = 50000 };
    static char keys[N][16];
    struct prn_map m = PRN_MAP_INIT;
    for (size_t i = 0; i < N; i++) {
        snprintf(keys[i], sizeof keys[i], "key-%zu", i);
        assert_int_equal(prn_map_set(&m, keys[i], i), 0);
    }
    assert_int_equal(m.count, N);
    for (size_t i = 0; i < N; i++)
        if (prn_map_get(&m, keys[i]) != i)
            fail_msg("%s has the wrong value", keys[i]);
    assert_int_equal(prn_map_get(&m, "key-50000"), PRN_MAP_NONE);
    prn_map_release(&m);
}

/* Keys that differ in one byte spread well: long runs of taken slots would make look-ups slow. */
static void test_spreads(void **state)
{
    (void)state;
    enum { N = 4096 };
    static char keys[N][32];
    struct prn_map m = PRN_MAP_INIT;
    for (size_t i = 0; i < N; i++) {
        memset(keys[i], 'a', sizeof keys[i] - 1);
        keys[i][(i * 5) % 24] = (char)('b' + i % 20);
        keys[i][24 + i % 7] = (char)('0' + i / 7 % 75);
        assert_int_equal(prn_map_set(&m, keys[i], i), 0);
    }
    size_t run = 0;
    size_t longest = 0;
    for (size_t i = 0; i < m.capacity; i++) {
        run = m.slots[i].key ? run + 1 : 0;
        longest = run > longest ? run : longest;
    }
    assert_in_range(longest, 1, 128);
    prn_map_release(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_empty),          cmocka_unit_test(test_sets_and_replaces),
        cmocka_unit_test(test_keys_by_length), cmocka_unit_test(test_many),
        cmocka_unit_test(test_spreads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
