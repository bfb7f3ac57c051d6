/* What goes between the service and a worker, there and back. */
#include "rpc/relay.h"

#include "model/dtype.h"
#include "rpc/client.h"

#include "unit.h"

#include <stdlib.h>

static struct prony_error err;

/* A message as the other side gets it. */
static struct prn_bytes *travel(struct prn_out *out)
{
    assert_non_null(out);
    return prn_bytes_from(out);
}

static void count_release(void *context)
{
    ++*(int *)context;
}

static void runs_travel(void **state)
{
    (void)state;
    struct prn_arena arena = PRN_ARENA_INIT((size_t)1 << 20);
    size_t bytes = (size_t)6000 * sizeof(float);
    float *data = calloc(1, bytes);
    data[5999] = 7;
    struct prn_bytes *source = prn_bytes_of(data, bytes);
    const int64_t dims[2] = {2, 3000};
    struct prn_rpc_tensor inputs[2] = {
        {.dtype = PRN_DTYPE_FLOAT, .rank = 2, .dims = dims, .range = {0, bytes}, .bytes = bytes},
        {.dtype = PRN_DTYPE_BFLOAT16, .rank = 0, .range = {4, 2}, .bytes = 2},
    };
    const struct prn_relay_run run = {.model_id = 1ull << 40,
                                      .backend = 3,
                                      .n_inputs = 2,
                                      .inputs = inputs,
                                      .warmups = 1,
                                      .repeats = 300,
                                      .repeat_for_ms = 9,
                                      .outputs = true,
                                      .timeout_s = 2.5};
    struct prn_bytes *message = travel(prn_relay_write_run(77, &run, source));
    uint64_t id;
    unsigned body;
    assert_int_equal(prn_relay_peek(message, &id, &body, &err), 0);
    assert_int_equal(id, 77);
    assert_int_equal(body, PRN_RELAY_COMMAND_RUN);
    struct prn_relay_run got;
    assert_int_equal(prn_relay_read_run(message, &arena, &got, &err), 0);
    assert_int_equal(got.model_id, run.model_id);
    assert_int_equal(got.backend, 3);
    assert_int_equal(got.warmups, 1);
    assert_int_equal(got.repeats, 300);
    assert_int_equal(got.repeat_for_ms, 9);
    assert_true(got.outputs);
    assert_true(got.timeout_s == 2.5);
    assert_int_equal(got.n_inputs, 2);
    assert_int_equal(got.inputs[0].dims[1], 3000);
    assert_int_equal(got.inputs[1].dtype, PRN_DTYPE_BFLOAT16);
    assert_int_equal(got.inputs[1].rank, 0);
    float *copy = calloc(1, bytes);
    prn_bytes_copy(message, got.inputs[0].range, copy);
    assert_memory_equal(copy, data, bytes);
    prn_bytes_free(message);
    prn_arena_release(&arena);
    free(copy);
    free(data);
}

static void results_travel(void **state)
{
    (void)state;
    struct prn_arena arena = PRN_ARENA_INIT((size_t)1 << 20);
    static unsigned char data[5000] = {1, [4999] = 2};
    const int64_t dims[1] = {5000};
    int released = 0;
    uint64_t times[2] = {5, 1ull << 50};
    struct prn_rpc_tensor output = {
        .dtype = PRN_DTYPE_UINT8, .rank = 1, .dims = dims, .data = data, .bytes = sizeof data};
    const char *const names[1] = {"y"};
    const struct prn_rpc_result result = {
        .n_times = 2, .times_ns = times, .n_outputs = 1, .outputs = &output, .names = names};
    struct prn_bytes *message = travel(prn_relay_write_ran(8, &result, count_release, &released));
    struct prn_rpc_result got;
    assert_int_equal(prn_relay_read_ran(message, &arena, &got, &err), 0);
    assert_int_equal(released, 0);
    assert_int_equal(got.n_times, 2);
    assert_int_equal(got.times_ns[1], times[1]);
    assert_string_equal(got.names[0], "y");
    unsigned char copy[sizeof data];
    prn_bytes_copy(message, got.outputs[0].range, copy);
    assert_memory_equal(copy, data, sizeof data);
    prn_bytes_free(message);
    assert_int_equal(released, 1);
    prn_arena_release(&arena);
}

/* Every beginning of a message, and every byte of it changed, is read or refused. */
static void nothing_is_trusted(void **state)
{
    (void)state;
    const int64_t dims[1] = {4};
    struct prn_rpc_tensor input = {
        .dtype = PRN_DTYPE_UINT8, .rank = 1, .dims = dims, .range = {0, 4}, .bytes = 4};
    const struct prn_relay_run run = {.n_inputs = 1, .inputs = &input};
    struct prn_bytes *message = travel(prn_relay_write_run(1, &run, prn_bytes_of("abcd", 4)));
    size_t length = prn_bytes_length(message);
    unsigned char *bytes = malloc(length);
    prn_bytes_copy(message, (struct prn_range){0, length}, bytes);
    prn_bytes_free(message);
    for (size_t i = 0; i < 2 * length; i++) {
        struct prn_arena arena = PRN_ARENA_INIT((size_t)1 << 20);
        struct prn_relay_run got;
        uint64_t id;
        unsigned body;
        bool cut = i < length;
        if (!cut)
            bytes[i - length] ^= 0x55;
        struct prn_bytes *wrong = prn_bytes_of(bytes, cut ? i : length);
        int peeked = prn_relay_peek(wrong, &id, &body, &err);
        int read = prn_relay_read_run(wrong, &arena, &got, &err);
        assert_true(peeked == 0 || peeked == PRONY_EFORMAT);
        assert_true(read == 0 || read == PRONY_EFORMAT);
        if (cut)
            assert_int_equal(read, PRONY_EFORMAT);
        prn_bytes_free(wrong);
        prn_arena_release(&arena);
        if (!cut)
            bytes[i - length] ^= 0x55;
    }
    free(bytes);
    struct prn_range chunk;
    struct prn_bytes *empty = prn_bytes_of("", 0);
    assert_int_equal(prn_relay_read_chunk(empty, &chunk, &err), PRONY_EFORMAT);
    prn_bytes_free(empty);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_travel),
        cmocka_unit_test(results_travel),
        cmocka_unit_test(nothing_is_trusted),
    };
    return cmocka_run_group_tests_name("rpc_relay", tests, NULL, NULL);
}
