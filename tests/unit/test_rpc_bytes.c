/* Messages in pieces, read and written. */
#include "rpc/bytes.h"

#include "unit.h"

#include <stdlib.h>

static int released;

static void release(void *context)
{
    assert_ptr_equal(context, &released);
    released++;
}

/* `length` bytes that tell their places, in pieces of `step`. */
static struct prn_bytes *in_pieces(const uint8_t *data, size_t length, size_t step)
{
    struct prn_out *out = prn_out_new();
    for (size_t at = 0; at < length; at += step)
        prn_out_borrow(out, data + at, at + step < length ? step : length - at, NULL, NULL);
    assert_int_equal(prn_out_length(out), length);
    return prn_bytes_from(out);
}

static void pieces_are_walked(void **state)
{
    (void)state;
    enum { LENGTH = 10007, STEP = 7 };
    static uint8_t data[LENGTH];
    for (size_t i = 0; i < LENGTH; i++)
        data[i] = (uint8_t)(i * 31 + i / 256);
    struct prn_bytes *bytes = in_pieces(data, LENGTH, STEP);
    assert_int_equal(prn_bytes_length(bytes), LENGTH);
    /* Every beginning, then the end, so that neither the hint nor the search is always right. */
    for (size_t from = 0; from < LENGTH; from += 3) {
        struct prn_range range = {from, LENGTH - from < 50 ? LENGTH - from : 50};
        struct prn_range last = {LENGTH - 1, 1};
        uint8_t copy[50];
        uint8_t end;
        prn_bytes_copy(bytes, range, copy);
        assert_memory_equal(copy, data + from, range.length);
        prn_bytes_copy(bytes, last, &end);
        assert_int_equal(end, data[LENGTH - 1]);
    }
    struct prn_range all = {0, LENGTH};
    const void *piece;
    size_t length;
    size_t at = 0;
    size_t n = 0;
    while (prn_bytes_next(bytes, &all, &piece, &length)) {
        assert_memory_equal(piece, data + at, length);
        at += length;
        n++;
    }
    assert_int_equal(at, LENGTH);
    assert_int_equal(n, (LENGTH + STEP - 1) / STEP);
    assert_int_equal(all.length, 0);
    prn_bytes_free(bytes);
}

static void nothing_is_a_message_too(void **state)
{
    (void)state;
    struct prn_range range = {0, 0};
    const void *piece;
    size_t length;
    struct prn_bytes *both[] = {prn_bytes_of("", 0), prn_bytes_from(prn_out_new())};
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(prn_bytes_length(both[i]), 0);
        assert_false(prn_bytes_next(both[i], &range, &piece, &length));
        prn_bytes_copy(both[i], range, NULL);
        prn_bytes_free(both[i]);
    }
    prn_bytes_free(NULL);
    prn_out_free(NULL);
    assert_null(prn_bytes_from(NULL));
    assert_int_equal(prn_out_length(NULL), 0);
    prn_out_copy(NULL, "x", 1);
}

static void copies_are_joined(void **state)
{
    (void)state;
    struct prn_out *out = prn_out_new();
    static uint8_t expected[100000];
    size_t length = 0;
    for (size_t i = 0; length + 300 < sizeof expected; i++) {
        uint8_t part[300];
        memset(part, (int)i, sizeof part);
        size_t n = i * 7 % sizeof part;
        prn_out_copy(out, part, n);
        memcpy(expected + length, part, n);
        length += n;
    }
    assert_int_equal(prn_out_length(out), length);
    struct prn_bytes *bytes = prn_bytes_from(out);
    struct prn_range all = {0, length};
    const void *piece;
    size_t size;
    size_t n = 0;
    for (size_t at = 0; prn_bytes_next(bytes, &all, &piece, &size); at += size, n++)
        assert_memory_equal(piece, expected + at, size);
    assert_true(n <= 2 + length / 8192);
    prn_bytes_free(bytes);
}

static void what_is_borrowed_is_released_once(void **state)
{
    (void)state;
    static const char text[] = "borrowed for a while";
    released = 0;
    /* Before and after it is sent, of a message that can't be made, and of nothing. */
    struct prn_out *out = prn_out_new();
    prn_out_copy(out, "[", 1);
    prn_out_borrow(out, text, sizeof text - 1, release, &released);
    prn_out_copy(out, "]", 1);
    prn_out_borrow(out, text, 0, release, &released);
    assert_int_equal(released, 1);
    struct prn_bytes *bytes = prn_bytes_from(out);
    char copy[32] = "";
    prn_bytes_copy(bytes, (struct prn_range){0, prn_bytes_length(bytes)}, copy);
    assert_string_equal(copy, "[borrowed for a while]");
    assert_int_equal(released, 1);
    prn_bytes_free(bytes);
    assert_int_equal(released, 2);
    out = prn_out_new();
    prn_out_borrow(out, text, 3, release, &released);
    prn_out_free(out);
    assert_int_equal(released, 3);
    prn_out_borrow(NULL, text, 3, release, &released);
    assert_int_equal(released, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_are_walked),
        cmocka_unit_test(nothing_is_a_message_too),
        cmocka_unit_test(copies_are_joined),
        cmocka_unit_test(what_is_borrowed_is_released_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
