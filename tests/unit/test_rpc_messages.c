/* Messages written by hand against protobuf-c's, both ways, and everything that isn't one. */
#include "model/dtype.h"
#include "rpc/messages.h"

#include "unit.h"

#include <inference_base.pb-c.h>
#include <prony.pb-c.h>
#include <stdlib.h>

#define ARENA PRN_ARENA_INIT((size_t)8 << 20)

static int released;

static void release(void *unused)
{
    (void)unused;
    released++;
}

static const uint8_t session[16] = "0123456789abcdef";
static const float floats[600] = {1, 2, 3, 4, 5, 6};
static const uint8_t halves[4] = {1, 2, 3, 4};

/* In pieces of `step` bytes, as the network would have them. */
static struct prn_bytes *in_pieces(const uint8_t *data, size_t length, size_t step)
{
    struct prn_out *out = prn_out_new();
    for (size_t at = 0; at < length; at += step) {
        size_t n = at + step < length ? step : length - at;
        uint8_t *copy = malloc(n);
        memcpy(copy, data + at, n);
        prn_out_borrow(out, copy, n, free, copy);
    }
    return prn_bytes_from(out);
}

static struct prn_bytes *pack_in_pieces(const ProtobufCMessage *message, size_t step)
{
    size_t length = protobuf_c_message_get_packed_size(message);
    uint8_t *data = malloc(length + 1);
    protobuf_c_message_pack(message, data);
    struct prn_bytes *bytes = in_pieces(data, length, step);
    free(data);
    return bytes;
}

/* What protobuf-c makes of a message of ours, which is consumed. */
static void *unpacked(struct prn_out *out, const ProtobufCMessageDescriptor *type)
{
    struct prn_bytes *bytes = prn_bytes_from(out);
    size_t length = prn_bytes_length(bytes);
    uint8_t *data = malloc(length + 1);
    prn_bytes_copy(bytes, (struct prn_range){0, length}, data);
    prn_bytes_free(bytes);
    ProtobufCMessage *message = protobuf_c_message_unpack(type, NULL, length, data);
    free(data);
    assert_non_null(message);
    return message;
}

static void assert_data(const struct prn_bytes *bytes, const struct prn_rpc_tensor *tensor,
                        const void *data, size_t length)
{
    char *copy = malloc(length + 1);
    assert_int_equal(tensor->bytes, length);
    assert_int_equal(tensor->range.length, length);
    prn_bytes_copy(bytes, tensor->range, copy);
    assert_memory_equal(copy, data, length);
    free(copy);
}

static const int64_t dims_a[] = {2, 3, 100};
static const int64_t dims_b[] = {2};

static struct prn_rpc_tensor tensors[] = {
    {.dtype = PRN_DTYPE_FLOAT, .rank = 3, .dims = dims_a, .data = floats, .bytes = sizeof floats},
    {.dtype = PRN_DTYPE_BFLOAT16, .rank = 1, .dims = dims_b, .data = halves, .bytes = 4},
    {.dtype = PRN_DTYPE_BOOL, .rank = 0, .data = halves, .bytes = 1},
};

static struct prn_rpc_run make_run(void)
{
    static int32_t first[] = {2, 0, 1};
    static int32_t second[] = {1};
    static struct prn_rpc_map maps[] = {{3, first}, {1, second}, {0, NULL}};
    struct prn_rpc_run run = {.model_id = UINT64_MAX,
                              .n_inputs = 3,
                              .inputs = tensors,
                              .n_maps = 3,
                              .maps = maps,
                              .repeats = 7,
                              .has_repeats = true,
                              .repeat_for_ms = 1500,
                              .has_repeat_for = true,
                              .warmups = 2,
                              .inference = true};
    memcpy(run.session, session, sizeof session);
    return run;
}

static void run_is_read_by_protobuf(void **state)
{
    (void)state;
    struct prn_rpc_run run = make_run();
    released = 0;
    OctomlProfile__RunRequest *m =
        unpacked(prn_rpc_write_run(&run, release, NULL), &octoml_profile__run_request__descriptor);
    assert_int_equal(released, 1);
    assert_memory_equal(m->session_uuid.data, session, 16);
    assert_true(m->model_id == UINT64_MAX);
    assert_int_equal(m->n_inputs, 3);
    const OctomlProfile__Tensor *t = m->inputs[0]->tensor;
    assert_int_equal(t->dtype, OCTOML_PROFILE__TENSOR_DTYPE__TENSOR_DTYPE_F32);
    assert_int_equal(t->n_shape, 3);
    assert_int_equal(t->shape[2], 100);
    assert_int_equal(t->data.len, sizeof floats);
    assert_memory_equal(t->data.data, floats, sizeof floats);
    assert_false(t->has_onnx_dtype);
    t = m->inputs[1]->tensor;
    assert_int_equal(t->dtype, OCTOML_PROFILE__TENSOR_DTYPE__TENSOR_DTYPE_UINT16);
    assert_int_equal(t->onnx_dtype, PRN_DTYPE_BFLOAT16);
    assert_int_equal(m->inputs[2]->tensor->dtype, OCTOML_PROFILE__TENSOR_DTYPE__TENSOR_DTYPE_BOOL);
    assert_int_equal(m->n_input_map_per_backend, 3);
    assert_int_equal(m->input_map_per_backend[0]->n_input_value_indices, 3);
    assert_int_equal(m->input_map_per_backend[0]->input_value_indices[0], 2);
    assert_int_equal(m->input_map_per_backend[2]->n_input_value_indices, 0);
    assert_int_equal(m->num_repeats, 7);
    assert_int_equal(m->repeat_for_milliseconds, 1500);
    assert_int_equal(m->num_warmups, 2);
    assert_int_equal(m->mode, OCTOML_PROFILE__RUN_MODE__INFERENCE);
    protobuf_c_message_free_unpacked(&m->base, NULL);
}

static void run_comes_back(void **state)
{
    (void)state;
    struct prn_rpc_run run = make_run();
    OctomlProfile__RunRequest *m =
        unpacked(prn_rpc_write_run(&run, NULL, NULL), &octoml_profile__run_request__descriptor);
    for (size_t step = 1; step < 100; step += 13) {
        struct prn_arena arena = ARENA;
        struct prn_rpc_run back;
        struct prony_error err;
        struct prn_bytes *bytes = pack_in_pieces(&m->base, step);
        if (prn_rpc_read_run(bytes, &arena, &back, &err) < 0)
            fail_msg("%s", err.text);
        assert_memory_equal(back.session, session, 16);
        assert_true(back.model_id == run.model_id);
        assert_int_equal(back.n_inputs, 3);
        for (size_t i = 0; i < 3; i++) {
            assert_int_equal(back.inputs[i].dtype, tensors[i].dtype);
            assert_int_equal(back.inputs[i].rank, tensors[i].rank);
            for (size_t k = 0; k < tensors[i].rank; k++)
                assert_int_equal(back.inputs[i].dims[k], tensors[i].dims[k]);
            assert_data(bytes, &back.inputs[i], tensors[i].data, tensors[i].bytes);
        }
        assert_int_equal(back.n_maps, 3);
        for (size_t i = 0; i < 3; i++) {
            assert_int_equal(back.maps[i].n, run.maps[i].n);
            assert_memory_equal(back.maps[i].indices, run.maps[i].indices, 4 * run.maps[i].n);
        }
        assert_int_equal(back.repeats, 7);
        assert_int_equal(back.repeat_for_ms, 1500);
        assert_int_equal(back.warmups, 2);
        assert_true(back.has_repeats && back.has_repeat_for && back.inference);
        prn_bytes_free(bytes);
        prn_arena_release(&arena);
    }
    protobuf_c_message_free_unpacked(&m->base, NULL);
}

static void every_type_is_mapped_both_ways(void **state)
{
    (void)state;
    for (int dtype = 1; dtype <= PRN_DTYPE_INT2; dtype++) {
        if (prn_dtype_bits(dtype) == 0)
            continue;
        static const uint8_t data[32];
        static const int64_t two[] = {2};
        size_t length;
        assert_int_equal(prn_dtype_bytes(dtype, two, 1, &length), 0);
        struct prn_rpc_tensor tensor = {
            .dtype = dtype, .rank = 1, .dims = two, .data = data, .bytes = length};
        struct prn_rpc_run run = {.n_inputs = 1, .inputs = &tensor};
        struct prn_bytes *bytes = prn_bytes_from(prn_rpc_write_run(&run, NULL, NULL));
        struct prn_arena arena = ARENA;
        struct prn_rpc_run back;
        struct prony_error err;
        if (prn_rpc_read_run(bytes, &arena, &back, &err) < 0)
            fail_msg("%s", err.text);
        assert_int_equal(back.inputs[0].dtype, dtype);
        prn_bytes_free(bytes);
        prn_arena_release(&arena);
    }
}

static void results_there_and_back(void **state)
{
    (void)state;
    static uint64_t times[] = {1, 1000000, UINT64_MAX};
    static const char *const names[] = {"a", "", "third output"};
    struct prn_rpc_result results[] = {
        {.n_times = 3, .times_ns = times, .n_outputs = 3, .outputs = tensors, .names = names},
        {.error = "it failed", .error_code = 1},
        {.n_times = 1, .times_ns = times},
        {.error = "", .error_code = 0},
    };
    released = 0;
    OctomlProfile__RunReply *m = unpacked(prn_rpc_write_results(results, 4, release, NULL),
                                          &octoml_profile__run_reply__descriptor);
    assert_int_equal(released, 1);
    assert_int_equal(m->n_result_per_backend, 4);
    assert_string_equal(m->result_per_backend[1]->error_value->message, "it failed");
    assert_int_equal(m->result_per_backend[1]->error_value->code,
                     OCTOML_PROFILE__ERROR_CODE__ERROR_MODEL_INFERENCE);
    const OctomlProfile__ResultValue *value = m->result_per_backend[0]->result_value;
    assert_int_equal(value->n_outputs, 3);
    assert_int_equal(value->n_run_times_nanos, 3);
    assert_true(value->run_times_nanos[2] == UINT64_MAX);
    assert_string_equal(value->output_names[2], "third output");
    for (size_t step = 1; step < 100; step += 13) {
        struct prn_arena arena = ARENA;
        struct prn_rpc_result *back;
        struct prony_error err;
        size_t n;
        struct prn_bytes *bytes = pack_in_pieces(&m->base, step);
        if (prn_rpc_read_results(bytes, &arena, &back, &n, &err) < 0)
            fail_msg("%s", err.text);
        assert_int_equal(n, 4);
        assert_null(back[0].error);
        assert_int_equal(back[0].n_times, 3);
        assert_true(back[0].times_ns[2] == UINT64_MAX);
        assert_int_equal(back[0].n_outputs, 3);
        assert_data(bytes, &back[0].outputs[0], floats, sizeof floats);
        assert_string_equal(back[0].names[2], "third output");
        assert_string_equal(back[1].error, "it failed");
        assert_int_equal(back[1].error_code, 1);
        assert_int_equal(back[2].n_times, 1);
        assert_null(back[2].names);
        assert_string_equal(back[3].error, "");
        prn_bytes_free(bytes);
        prn_arena_release(&arena);
    }
    protobuf_c_message_free_unpacked(&m->base, NULL);
}

static void components_there_and_back(void **state)
{
    (void)state;
    static uint8_t mask[] = {5, 0};
    struct prn_rpc_component first = {.first = true,
                                      .model_id = 3,
                                      .component_id = 1,
                                      .filename = "weights/0",
                                      .n_skip = 2,
                                      .skip = mask};
    memcpy(first.session, session, 16);
    const struct prn_rpc_component later = {0};
    const struct prn_rpc_component *both[] = {&first, &later};
    static uint8_t chunk[5000] = {1, 2, 3};
    for (size_t i = 0; i < 2; i++) {
        size_t length = i ? 0 : sizeof chunk;
        released = 0;
        OctomlProfile__LoadModelComponentRequest *m =
            unpacked(prn_rpc_write_component(both[i], chunk, length, release, NULL),
                     &octoml_profile__load_model_component_request__descriptor);
        assert_int_equal(released, 1);
        assert_int_equal(m->chunk.len, length);
        assert_int_equal(m->has_model_id, i == 0);
        struct prn_arena arena = ARENA;
        struct prn_rpc_component back;
        struct prony_error err;
        struct prn_bytes *bytes = pack_in_pieces(&m->base, 11);
        if (prn_rpc_read_component(bytes, &arena, &back, &err) < 0)
            fail_msg("%s", err.text);
        assert_int_equal(back.first, i == 0);
        assert_int_equal(back.chunk.length, length);
        if (i == 0) {
            assert_string_equal(back.filename, "weights/0");
            assert_int_equal(back.model_id, 3);
            assert_int_equal(back.component_id, 1);
            assert_int_equal(back.n_skip, 2);
            assert_memory_equal(back.skip, mask, 2);
            uint8_t copy[sizeof chunk];
            prn_bytes_copy(bytes, back.chunk, copy);
            assert_memory_equal(copy, chunk, sizeof chunk);
        }
        prn_bytes_free(bytes);
        prn_arena_release(&arena);
        protobuf_c_message_free_unpacked(&m->base, NULL);
    }
}

/* ---- What isn't a message ---- */

#define SESSION \
    "\x0a\x10"  \
    "0123456789abcdef"
#define RUN SESSION "\x10\x01"
/* float32, shape 2, data of 8 bytes */
#define TENSOR                 \
    "\x08\x02\x10\x02\x1a\x08" \
    "abcdefgh"
#define INPUT "\x1a\x10\x0a\x0e" TENSOR
#define BIG "\xff\xff\xff\xff\xff\xff\xff\xff\x7f"

struct wrong {
    const char *data;
    size_t length;
    const char *fault; /* NULL: it is right */
};

#define WRONG(data, fault)            \
    {                                 \
        data, sizeof(data) - 1, fault \
    }

static int read_run(const struct prn_bytes *bytes, struct prn_arena *arena, struct prony_error *err)
{
    struct prn_rpc_run run;
    return prn_rpc_read_run(bytes, arena, &run, err);
}

static int read_results(const struct prn_bytes *bytes, struct prn_arena *arena,
                        struct prony_error *err)
{
    struct prn_rpc_result *results;
    size_t n;
    return prn_rpc_read_results(bytes, arena, &results, &n, err);
}

static int read_component(const struct prn_bytes *bytes, struct prn_arena *arena,
                          struct prony_error *err)
{
    struct prn_rpc_component component;
    return prn_rpc_read_component(bytes, arena, &component, err);
}

static int read_load(const struct prn_bytes *bytes, struct prn_arena *arena,
                     struct prony_error *err)
{
    (void)arena;
    ProtobufCMessage *message = NULL;
    int r = prn_rpc_unpack(bytes, &octoml_profile__load_model_request__descriptor, &message, err);
    if (r == 0)
        protobuf_c_message_free_unpacked(message, NULL);
    return r;
}

typedef int reader(const struct prn_bytes *bytes, struct prn_arena *arena, struct prony_error *err);

static void expect(reader *read, const struct wrong *rows, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t step = 1; step < 20; step += 6) {
            struct prn_arena arena = ARENA;
            struct prony_error err = {0};
            struct prn_bytes *bytes =
                in_pieces((const uint8_t *)rows[i].data, rows[i].length, step);
            int r = read(bytes, &arena, &err);
            if (rows[i].fault) {
                if (r != PRONY_EFORMAT)
                    fail_msg("row %zu gives %d, not '%s'", i, r, rows[i].fault);
                assert_contains(err.text, rows[i].fault);
            } else if (r < 0) {
                fail_msg("row %zu gives '%s'", i, err.text);
            }
            prn_bytes_free(bytes);
            prn_arena_release(&arena);
        }
}

static void wrong_runs(void **state)
{
    (void)state;
    static const struct wrong rows[] = {
        WRONG(RUN, NULL),
        WRONG(RUN INPUT, NULL),
        WRONG(RUN INPUT "\x32\x02\x08\x00", NULL),
        WRONG("\x32\x02\x08\x00" RUN INPUT, NULL),     /* any order */
        WRONG(RUN INPUT "\x32\x03\x0a\x01\x00", NULL), /* packed */
        WRONG(RUN "\xfa\x3f\x02xx"
                  "\xf8\x3f\x01",
              NULL), /* unknown fields */
        WRONG(RUN "\xfd\x3f"
                  "1234"
                  "\xf9\x3f"
                  "12345678",
              NULL),
        WRONG("", "session_uuid is missing"),
        WRONG("\x10\x01", "session_uuid is missing"),
        WRONG(SESSION, "model_id is missing"),
        WRONG("\x0a\x0f"
              "0123456789abcde"
              "\x10\x01",
              "session_uuid has 15 bytes"),
        WRONG("\x0a\x11"
              "0123456789abcdefg"
              "\x10\x01",
              "session_uuid has 17 bytes"),
        WRONG("\x08\x01\x10\x01", "field 1 has a value of the wrong kind"),
        WRONG(SESSION "\x12\x01x", "field 2 has a value of the wrong kind"),
        WRONG(RUN "\x22\x01x", "field 4 has a value of the wrong kind"),
        WRONG(RUN "\x40\x03", "the mode is unknown"),
        WRONG(RUN "\x1b\x1c", "a group"),
        WRONG(RUN "\x1e\x01", "a group"),
        WRONG(RUN "\x02\x01x", "an impossible field number"),
        WRONG(RUN "\xfa\xff\xff\xff\xff\xff\x01\x01x", "an impossible field number"),
        WRONG(RUN "\x20" BIG, NULL),
        WRONG(RUN "\x20\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", "more than 64 bits"),
        WRONG(RUN "\x20\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "more than 64 bits"),
        WRONG(RUN "\x20\x80", "ends too early"),
        WRONG(RUN "\x20", "ends too early"),
        WRONG(RUN "\x80", "ends too early"),
        WRONG(RUN "\x1a", "ends too early"),
        WRONG(RUN "\x1a\x05xx", "ends too early"),
        WRONG(RUN "\x1a" BIG, "ends too early"),
        WRONG(RUN "\xfd\x3f"
                  "123",
              "ends too early"),
        WRONG(RUN "\x18\x01", "input 0: field 3 has a value of the wrong kind"),
        WRONG(RUN "\x1a\x00", "input 0: it holds no tensor"),
        WRONG(RUN INPUT "\x1a\x02\x0a\x00", "input 1: its type is missing"),
        WRONG(RUN "\x1a\x04\x0a\x02\x08\x02", "input 0: its data is missing"),
        WRONG(RUN "\x1a\x06\x0a\x04\x08\x00\x1a\x00", "its type is unknown"),
        WRONG(RUN "\x1a\x06\x0a\x04\x08\x0d\x1a\x00", "its type is unknown"),
        WRONG(RUN "\x1a\x09\x0a\x07\x08\x02\xa0\x06\x08\x1a\x00", "ONNX type is unknown"),
        WRONG(RUN "\x1a\x09\x0a\x07\x08\x02\xa0\x06\x63\x1a\x00", "ONNX type is unknown"),
        WRONG(RUN "\x1a\x0a\x0a\x08\x08\x02\x10\x00\xa0\x06\x10\x1a", "ends too early"),
        WRONG(RUN "\x1a\x0b\x0a\x09\x08\x02\x10\x00\xa0\x06\x10\x1a\x00", NULL),
        WRONG(RUN "\x1a\x08\x0a\x06\x08\x02\x10\x01\x1a\x00",
              "float of 1 takes 4 bytes, and there are 0"),
        WRONG(RUN "\x1a\x06\x0a\x04\x08\x02\x1a\x00", "float of scalar takes 4 bytes"),
        WRONG(RUN "\x1a\x08\x0a\x06\x08\x02\x10\x00\x1a\x00", NULL),
        WRONG(RUN "\x1a\x11\x0a\x0f\x08\x02\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x1a\x00",
              "a dimension is negative"),
        /* 2⁶² × 4, and 2³² × 2³², which is 0 when it wraps around. */
        WRONG(RUN "\x1a\x10\x0a\x0e\x08\x02\x10\x80\x80\x80\x80\x80\x80\x80\x80\x40\x1a\x00",
              "the shape has too many elements"),
        WRONG(RUN
              "\x1a\x12\x0a\x10\x08\x02\x10\x80\x80\x80\x80\x10\x10\x80\x80\x80\x80\x10\x1a\x00",
              "the shape has too many elements"),
        WRONG(RUN "\x1a\x08\x0a\x06\x08\x02\x12\x00\x18\x00", "field 3 has a value of the wrong"),
        WRONG(RUN "\x1a\x09\x0a\x07\x08\x02\x12\x01\x80\x1a\x00", "ends too early"),
        WRONG(RUN "\x1a\x0b\x0a\x09\x08\x02\x15"
                  "1234"
                  "\x1a\x00",
              "field 2 has a value of the wrong"),
        WRONG(RUN INPUT "\x32\x02\x08\x01", "input map 0: index 1 is not one of 1 inputs"),
        WRONG(RUN INPUT "\x32\x02\x08\x00\x32\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
              "input map 1: index -1 is not one of 1 inputs"),
        WRONG(RUN INPUT "\x32\x06\x08\x80\x80\x80\x80\x10", "is not one of 1 inputs"),
        WRONG(RUN "\x30\x01", "input map 0: field 6 has a value of the wrong kind"),
    };
    expect(read_run, rows, PRN_ARRAY_SIZE(rows));
}

static void wrong_results(void **state)
{
    (void)state;
    static const struct wrong rows[] = {
        WRONG("", NULL),
        WRONG("\x0a\x02\x0a\x00", NULL),
        WRONG("\x0a\x08\x12\x06\x0a\x02no\x10\x00", NULL),
        WRONG("\x0a\x06\x0a\x04\x12\x02\x01\x02", NULL), /* packed times */
        WRONG("\x0a\x00", "result 0: it holds neither a result nor an error"),
        WRONG("\x08\x00", "field 1 has a value of the wrong kind"),
        WRONG("\x0a\x02\x12\x00", "an error lacks its message or its code"),
        WRONG("\x0a\x06\x12\x04\x0a\x02no", "an error lacks its message or its code"),
        WRONG("\x0a\x04\x12\x02\x10\x00", "an error lacks its message or its code"),
        WRONG("\x0a\x08\x12\x06\x0a\x02n\0\x10\x00", "message has a NUL inside"),
        WRONG("\x0a\x0c\x12\x0a\x0a\x02no\x10\xff\xff\xff\xff\x7f", "an impossible code"),
        WRONG("\x0a\x04\x0a\x02\x08\x00", "output 0: field 1 has a value of the wrong kind"),
        WRONG("\x0a\x04\x0a\x02\x0a\x00", "output 0: it holds no tensor"),
        WRONG("\x0a\x05\x0a\x03\xa2\x06\x00", "more or fewer names than outputs"),
        WRONG("\x0a\x05\x0a\x03\x12\x01\x80", "ends too early"),
    };
    expect(read_results, rows, PRN_ARRAY_SIZE(rows));
}

static void wrong_components(void **state)
{
    (void)state;
    static const struct wrong rows[] = {
        WRONG("\x2a\x00", NULL),
        WRONG("\x2a\x02xx", NULL),
        WRONG(RUN "\x18\x01\x22\x01"
                  "a"
                  "\x2a\x00",
              NULL),
        WRONG(RUN "\x18\x01\x22\x00\x2a\x00", NULL),
        WRONG("", "chunk is missing"),
        WRONG(RUN "\x18\x01\x22\x01"
                  "a",
              "chunk is missing"),
        WRONG("\x28\x00", "field 5 has a value of the wrong kind"),
        WRONG(SESSION "\x2a\x00", "come together"),
        WRONG(RUN "\x18\x01\x2a\x00", "come together"),
        WRONG(RUN "\x22\x01"
                  "a"
                  "\x2a\x00",
              "come together"),
        WRONG("\x32\x01\x00\x2a\x00", "come together"),
        WRONG(RUN "\x18\x01\x22\x02"
                  "a\0"
                  "\x2a\x00",
              "filename has a NUL inside"),
        WRONG(RUN "\x18\x01\x20\x02\x2a\x00", "field 4 has a value of the wrong kind"),
        WRONG(RUN "\x1a\x01x\x22\x01"
                  "a"
                  "\x2a\x00",
              "field 3 has a value of the wrong kind"),
        WRONG(RUN "\x18\x01\x22\x01"
                  "a"
                  "\x30\x00\x2a\x00",
              "field 6 has a value of the wrong kind"),
    };
    expect(read_component, rows, PRN_ARRAY_SIZE(rows));
}

static void wrong_loads(void **state)
{
    (void)state;
    static const struct wrong rows[] = {
        WRONG(RUN "\x18\x01", NULL),
        WRONG(RUN "\x18\x01\x22\x02in\xfa\x3f\x02xx", NULL),
        WRONG(RUN, "LoadModelRequest is malformed: a field is missing or of the wrong kind"),
        WRONG(RUN "\x18\x01\x22\x02i\0", "input_names has a NUL inside"),
        WRONG(RUN "\x18\x01\x22\x05in", "ends too early"),
        WRONG(RUN "\x18\x01\x23\x24", "isn't a protobuf message"),
    };
    expect(read_load, rows, PRN_ARRAY_SIZE(rows));
}

/* `head`, then `n` times `part`; it must fail with `fault`. */
static void expect_many(reader *read, const char *head, size_t head_length, const char *part,
                        size_t part_length, size_t n, const char *wanted)
{
    char *data = malloc(head_length + n * part_length + 1);
    memcpy(data, head, head_length);
    for (size_t i = 0; i < n; i++)
        memcpy(data + head_length + i * part_length, part, part_length);
    struct prn_bytes *bytes = prn_bytes_of(data, head_length + n * part_length);
    struct prn_arena arena = ARENA;
    struct prony_error err = {0};
    int r = read(bytes, &arena, &err);
    if (wanted) {
        assert_int_equal(r, PRONY_EFORMAT);
        assert_contains(err.text, wanted);
    } else if (r < 0) {
        fail_msg("%s", err.text);
    }
    prn_bytes_free(bytes);
    prn_arena_release(&arena);
    free(data);
}

static void limits(void **state)
{
    (void)state;
#define MANY(read, head, part, n, fault) \
    expect_many(read, head, sizeof(head) - 1, part, sizeof(part) - 1, n, fault)
    MANY(read_run, RUN, INPUT, PRN_RPC_TENSORS_MAX, NULL);
    MANY(read_run, RUN, INPUT, PRN_RPC_TENSORS_MAX + 1, "over the limit of 1024");
    MANY(read_run, RUN, "\x32\x00", PRN_RPC_TENSORS_MAX + 1, "over the limit of 1024");
    /* A tensor of 64 and of 65 dimensions: 4 + 64 × 2 + 4 bytes, of two bytes of data. */
    MANY(read_run, RUN "\x1a\x87\x01\x0a\x84\x01\x08\x08\x1a\x00", "\x10\x00", 64, NULL);
    MANY(read_run, RUN "\x1a\x89\x01\x0a\x86\x01\x08\x08\x1a\x00", "\x10\x00", 65,
         "65 values, over the limit of 64");
    /* A name of 4096 bytes, and one of 4097. */
    MANY(read_component, RUN "\x18\x01\x2a\x00\x22\x80\x20", "n", 4096, NULL);
    MANY(read_component, RUN "\x18\x01\x2a\x00\x22\x81\x20", "n", 4097, "filename has 4097 bytes");
    MANY(read_component, RUN "\x18\x01\x2a\x00\x22\x00\x32\x81\x20", "m", 4097, "is too long");
    MANY(read_load, RUN "\x18\x01", "\x22\x01n", (1 << 18) - 3, NULL);
    MANY(read_load, RUN "\x18\x01", "\x22\x01n", (1 << 18), "more than 262144 fields");
    MANY(read_load, RUN "\x18\x01", "\xfa\x3f\x00", (16 << 20) / 3 + 1, "more than 16777216 bytes");
}

static void other_messages(void **state)
{
    (void)state;
    for (size_t length = 1; length < 4000; length = length * 3 + 1) {
        char *text = malloc(length + 1);
        memset(text, 'n', length);
        text[length] = '\0';
        OctomlProfile__BackendSpec spec = OCTOML_PROFILE__BACKEND_SPEC__INIT;
        OctomlProfile__BackendSpec *specs[] = {&spec};
        OctomlProfile__CreateSessionRequest request = OCTOML_PROFILE__CREATE_SESSION_REQUEST__INIT;
        spec.hardware_platform = text;
        spec.software_backend = text;
        request.n_backends = 1;
        request.backends = specs;
        struct prn_bytes *bytes = prn_bytes_from(prn_rpc_pack(&request.base));
        assert_int_equal(prn_bytes_length(bytes),
                         protobuf_c_message_get_packed_size(&request.base));
        struct prn_bytes *split = pack_in_pieces(&request.base, 7);
        const struct prn_bytes *both[] = {bytes, split};
        for (size_t i = 0; i < 2; i++) {
            ProtobufCMessage *message = NULL;
            struct prony_error err;
            assert_int_equal(prn_rpc_unpack(both[i],
                                            &octoml_profile__create_session_request__descriptor,
                                            &message, &err),
                             0);
            OctomlProfile__CreateSessionRequest *back = (void *)message;
            assert_int_equal(back->n_backends, 1);
            assert_string_equal(back->backends[0]->software_backend, text);
            protobuf_c_message_free_unpacked(message, NULL);
        }
        prn_bytes_free(bytes);
        prn_bytes_free(split);
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(run_is_read_by_protobuf),
        cmocka_unit_test(run_comes_back),
        cmocka_unit_test(every_type_is_mapped_both_ways),
        cmocka_unit_test(results_there_and_back),
        cmocka_unit_test(components_there_and_back),
        cmocka_unit_test(wrong_runs),
        cmocka_unit_test(wrong_results),
        cmocka_unit_test(wrong_components),
        cmocka_unit_test(wrong_loads),
        cmocka_unit_test(limits),
        cmocka_unit_test(other_messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
