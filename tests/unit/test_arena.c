#include "unit.h"

#include "base/arena.h"

#include <malloc.h>
#include <stdalign.h>

static void test_zeroed_and_aligned(void **state)
{
    (void)state;
    static const unsigned char zeros[100000];
    struct prn_arena a = PRN_ARENA_INIT((size_t)16 << 20);
    for (size_t size = 0; size < 100; size++) {
        unsigned char *p = prn_arena_alloc(&a, size);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % alignof(max_align_t), 0);
        assert_memory_equal(p, zeros, size);
        memset(p, 0xff, size);
    }
    unsigned char *large = prn_arena_alloc(&a, sizeof zeros);
    assert_memory_equal(large, zeros, sizeof zeros);
    prn_arena_release(&a);
    assert_null(a.chunks);
    assert_int_equal(a.used_bytes, 0);
}

/* Each allocation keeps its content while others of all sizes come after it. */
static void test_allocations_do_not_overlap(void **state)
{
    (void)state;
    enum { N = 2000 };
    static unsigned char *blocks[N];
    static size_t sizes[N];
    struct prn_arena a = PRN_ARENA_INIT((size_t)64 << 20);
    for (size_t i = 0; i < N; i++) {
        sizes[i] = (i * 7919) % 20000;
        blocks[i] = prn_arena_alloc(&a, sizes[i]);
        assert_non_null(blocks[i]);
        memset(blocks[i], (int)(i & 0xff), sizes[i]);
    }
    for (size_t i = 0; i < N; i++)
        for (size_t k = 0; k < sizes[i]; k++)
            if (blocks[i][k] != (i & 0xff))
                fail_msg("block %zu was overwritten at %zu", i, k);
    prn_arena_release(&a);
}

static void test_limit(void **state)
{
    (void)state;
    struct prn_arena a = PRN_ARENA_INIT(64);
    assert_non_null(prn_arena_alloc(&a, 48));
    assert_null(prn_arena_alloc(&a, 17));
    assert_non_null(prn_arena_alloc(&a, 16));
    assert_null(prn_arena_alloc(&a, 1));
    assert_int_equal(a.used_bytes, 64);
    prn_arena_release(&a);
    assert_non_null(prn_arena_alloc(&a, 64));
    prn_arena_release(&a);
}

static void test_overflow(void **state)
{
    (void)state;
    struct prn_arena a = PRN_ARENA_INIT(SIZE_MAX);
    assert_null(prn_arena_alloc(&a, SIZE_MAX));
    assert_null(prn_arena_alloc(&a, SIZE_MAX - 20));
    assert_null(prn_arena_array(&a, SIZE_MAX / 2, 3));
    assert_null(prn_arena_array(&a, (size_t)1 << 33, (size_t)1 << 31));
    assert_null(prn_arena_strndup(&a, "x", SIZE_MAX));
    assert_non_null(prn_arena_array(&a, 0, 8));
    prn_arena_release(&a);
}

static void test_copies(void **state)
{
    (void)state;
    struct prn_arena a = PRN_ARENA_INIT(1000);
    assert_string_equal(prn_arena_strdup(&a, "text"), "text");
    assert_string_equal(prn_arena_strndup(&a, "text", 2), "te");
    assert_string_equal(prn_arena_strndup(&a, NULL, 0), "");
    int *numbers = PRN_ARENA_ARRAY(&a, 10, int);
    assert_int_equal(numbers[9], 0);
    prn_arena_release(&a);
}

/* What one arena handed out lives on in the other, which has its own too. */
static void test_joined_arenas(void **state)
{
    (void)state;
    struct prn_arena a = PRN_ARENA_INIT((size_t)1 << 20);
    struct prn_arena b = PRN_ARENA_INIT((size_t)1 << 20);
    struct prn_arena empty = PRN_ARENA_INIT(1);
    const char *first = prn_arena_strdup(&a, "first");
    const char *second = prn_arena_strdup(&b, "second");
    assert_non_null(prn_arena_alloc(&b, 100000));
    size_t used = a.used_bytes + b.used_bytes;
    prn_arena_join(&a, &b);
    prn_arena_join(&a, &empty);
    assert_null(b.chunks);
    assert_int_equal(a.used_bytes, used);
    assert_string_equal(first, "first");
    assert_string_equal(second, "second");
    assert_non_null(prn_arena_alloc(&a, 50000));
    prn_arena_release(&a);
}

/* A service has an arena for each of its sessions, with little in it. */
static void test_small_arenas_are_small(void **state)
{
    (void)state;
    enum { N = 1000 };
    static struct prn_arena arenas[N];
    size_t before = mallinfo2().uordblks;
    for (size_t i = 0; i < N; i++) {
        arenas[i] = PRN_ARENA_INIT((size_t)16 << 20);
        for (size_t k = 0; k < 10; k++)
            assert_non_null(prn_arena_alloc(&arenas[i], 100));
    }
    assert_in_range(mallinfo2().uordblks - before, 0, (size_t)N * 4096);
    for (size_t i = 0; i < N; i++)
        prn_arena_release(&arenas[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_zeroed_and_aligned),
        cmocka_unit_test(test_allocations_do_not_overlap),
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_overflow),
        cmocka_unit_test(test_copies),
        cmocka_unit_test(test_joined_arenas),
        cmocka_unit_test(test_small_arenas_are_small),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
