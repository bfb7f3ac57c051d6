#include "rpc/messages.h"

#include "rpc/message_parts.h"
#include "rpc/tensor_dtype.h"
#include "rpc/wire.h"

#include <string.h>

#define MAPS_MAX PRN_RPC_TENSORS_MAX
#define RESULTS_MAX PRN_RPC_TENSORS_MAX
#define FILENAME_MAX_BYTES ((size_t)4 << 10)
#define MASK_MAX_BYTES ((size_t)4 << 10)
#define TEXT_MAX_BYTES ((size_t)64 << 10)

static int fault(const struct prn_rpc_wire *w, const char *text)
{
    return prn_fail(w->err, PRONY_EFORMAT, "%s", text);
}

/* How often a field is there. */
static int count(const struct prn_rpc_wire *w, uint32_t number, size_t most, size_t *ret_n)
{
    struct prn_rpc_wire own = *w;
    struct prn_rpc_field field;
    size_t n = 0;
    int r;
    while ((r = prn_rpc_wire_next(&own, &field)) > 0)
        n += field.number == number;
    if (r == 0 && n > most)
        r = prn_fail(w->err, PRONY_EFORMAT, "field %u is there %zu times, over the limit of %zu",
                     number, n, most);
    if (r == 0)
        *ret_n = n;
    return r;
}

static int copy_fixed(const struct prn_rpc_wire *w, const struct prn_rpc_field *field,
                      const char *name, void *to, size_t length)
{
    int r = prn_rpc_wire_expect(w, field, PRN_WIRE_TYPE_BYTES);
    if (r < 0)
        return r;
    if (field->range.length != length)
        return prn_fail(w->err, PRONY_EFORMAT, "%s has %zu bytes instead of %zu", name,
                        field->range.length, length);
    prn_bytes_copy(w->bytes, field->range, to);
    return 0;
}

static int copy_text(const struct prn_rpc_wire *w, const struct prn_rpc_field *field,
                     const char *name, size_t most, struct prn_arena *arena, const char **ret_text)
{
    int r = prn_rpc_wire_expect(w, field, PRN_WIRE_TYPE_BYTES);
    if (r < 0)
        return r;
    if (field->range.length > most)
        return prn_fail(w->err, PRONY_EFORMAT, "%s has %zu bytes, over the limit of %zu", name,
                        field->range.length, most);
    char *text = prn_arena_alloc(arena, field->range.length + 1);
    if (!text)
        return prn_fail_memory(w->err);
    prn_bytes_copy(w->bytes, field->range, text);
    if (memchr(text, 0, field->range.length))
        return prn_fail(w->err, PRONY_EFORMAT, "%s has a NUL inside", name);
    *ret_text = text;
    return 0;
}

static int number(const struct prn_rpc_wire *w, const struct prn_rpc_field *field,
                  uint64_t *ret_value)
{
    int r = prn_rpc_wire_expect(w, field, PRN_WIRE_TYPE_VARINT);
    if (r == 0)
        *ret_value = field->value;
    return r;
}

/* A repeated number, each a field of its own or many packed into one: adds to `n`, and stores where
 * there is `room`. */
static int numbers(const struct prn_rpc_wire *w, const struct prn_rpc_field *field, size_t room,
                   uint64_t *values, size_t *n)
{
    if (field->type != PRN_WIRE_TYPE_BYTES) {
        uint64_t value;
        int r = number(w, field, &value);
        if (r == 0 && *n < room)
            values[*n] = value;
        ++*n;
        return r;
    }
    struct prn_rpc_wire packed = prn_rpc_wire_in(w, field->range);
    while (packed.at < packed.end) {
        uint64_t value;
        int r = prn_rpc_wire_varint(&packed, &value);
        if (r < 0)
            return r;
        if (*n < room)
            values[*n] = value;
        ++*n;
    }
    return 0;
}

/* All values of a repeated number. */
static int all_numbers(const struct prn_rpc_wire *w, uint32_t wanted, size_t most,
                       struct prn_arena *arena, uint64_t **ret_values, size_t *ret_n)
{
    uint64_t *values = NULL;
    size_t room = 0;
    /* Once to count, once to store. */
    for (;;) {
        struct prn_rpc_wire own = *w;
        struct prn_rpc_field field;
        size_t n = 0;
        int r;
        while ((r = prn_rpc_wire_next(&own, &field)) > 0) {
            r = field.number == wanted ? numbers(&own, &field, room, values, &n) : 0;
            if (r < 0)
                return r;
        }
        if (r < 0)
            return r;
        if (n > most)
            return prn_fail(w->err, PRONY_EFORMAT, "field %u has %zu values, over the limit of %zu",
                            wanted, n, most);
        if (values || n == 0) {
            *ret_values = values;
            *ret_n = n;
            return 0;
        }
        room = n;
        values = PRN_ARENA_ARRAY(arena, n, uint64_t);
        if (!values)
            return prn_fail_memory(w->err);
    }
}

static int check_tensor(const struct prn_rpc_wire *w, struct prn_rpc_tensor *tensor)
{
    char dims[256];
    size_t bytes = 0;
    for (size_t i = 0; i < tensor->rank; i++)
        if (tensor->dims[i] < 0)
            return fault(w, "a dimension is negative");
    int r = prn_dtype_bytes(tensor->dtype, tensor->dims, tensor->rank, &bytes);
    if (r == PRONY_EUNSUPPORTED)
        return fault(w, "elements of this type can't be sent");
    if (r < 0)
        return fault(w, "the shape has too many elements");
    if (bytes != tensor->range.length)
        return prn_fail(w->err, PRONY_EFORMAT, "%s of %s takes %zu bytes, and there are %zu",
                        prn_dtype_name(tensor->dtype),
                        prn_dims_text(tensor->dims, tensor->rank, dims, sizeof dims), bytes,
                        tensor->range.length);
    tensor->bytes = bytes;
    return 0;
}

static int dtype_of(const struct prn_rpc_wire *w, uint64_t dtype, bool has_onnx, uint64_t onnx,
                    int *ret_dtype)
{
    if (has_onnx && (onnx == 0 || onnx > INT32_MAX || prn_dtype_bits((int)onnx) == 0))
        return fault(w, "its ONNX type is unknown or has no fixed size");
    if (dtype == 0 || dtype >= PRN_ARRAY_SIZE(prn_tensor_dtypes))
        return fault(w, "its type is unknown");
    *ret_dtype = has_onnx ? (int)onnx : prn_tensor_dtypes[dtype];
    return 0;
}

static int read_tensor(struct prn_rpc_wire *w, struct prn_arena *arena,
                       struct prn_rpc_tensor *ret_tensor)
{
    struct prn_rpc_tensor tensor = {0};
    struct prn_rpc_wire own = *w;
    struct prn_rpc_field field;
    uint64_t dtype = 0;
    uint64_t onnx = 0;
    bool has_dtype = false;
    bool has_onnx = false;
    bool has_data = false;
    int r;
    while ((r = prn_rpc_wire_next(&own, &field)) > 0) {
        switch (field.number) {
        case 1:
            r = number(w, &field, &dtype);
            has_dtype = true;
            break;
        case 3:
            r = prn_rpc_wire_expect(w, &field, PRN_WIRE_TYPE_BYTES);
            tensor.range = field.range;
            has_data = true;
            break;
        case 100:
            r = number(w, &field, &onnx);
            has_onnx = true;
            break;
        default:
            break;
        }
        if (r < 0)
            return r;
    }
    if (r < 0)
        return r;
    if (!has_dtype || !has_data)
        return fault(w, has_dtype ? "its data is missing" : "its type is missing");
    uint64_t *dims = NULL;
    r = dtype_of(w, dtype, has_onnx, onnx, &tensor.dtype);
    if (r == 0)
        r = all_numbers(w, 2, PRN_RPC_RANK_MAX, arena, &dims, &tensor.rank);
    if (r < 0)
        return r;
    tensor.dims = (const int64_t *)dims;
    r = check_tensor(w, &tensor);
    if (r == 0)
        *ret_tensor = tensor;
    return r;
}

/* A Value: so far there is only one kind. */
static int read_value(struct prn_rpc_wire *w, struct prn_arena *arena,
                      struct prn_rpc_tensor *ret_tensor)
{
    struct prn_rpc_field field;
    bool found = false;
    int r;
    while ((r = prn_rpc_wire_next(w, &field)) > 0) {
        if (field.number != 1)
            continue;
        r = prn_rpc_wire_expect(w, &field, PRN_WIRE_TYPE_BYTES);
        if (r < 0)
            return r;
        struct prn_rpc_wire inner = prn_rpc_wire_in(w, field.range);
        r = read_tensor(&inner, arena, ret_tensor);
        if (r < 0)
            return r;
        found = true;
    }
    return r == 0 && !found ? fault(w, "it holds no tensor") : r;
}

int prn_rpc_read_values(const struct prn_rpc_wire *w, uint32_t wanted, const char *what,
                        struct prn_arena *arena, struct prn_rpc_tensor **ret_tensors, size_t *ret_n)
{
    size_t n = 0;
    int r = count(w, wanted, PRN_RPC_TENSORS_MAX, &n);
    if (r < 0)
        return r;
    struct prn_rpc_tensor *tensors = PRN_ARENA_ARRAY(arena, n + 1, struct prn_rpc_tensor);
    if (!tensors)
        return prn_fail_memory(w->err);
    struct prn_rpc_wire own = *w;
    struct prn_rpc_field field;
    size_t i = 0;
    while ((r = prn_rpc_wire_next(&own, &field)) > 0) {
        if (field.number != wanted)
            continue;
        r = prn_rpc_wire_expect(w, &field, PRN_WIRE_TYPE_BYTES);
        struct prn_rpc_wire inner = prn_rpc_wire_in(&own, field.range);
        if (r == 0)
            r = read_value(&inner, arena, &tensors[i]);
        if (r < 0)
            return prn_fail_in(w->err, r, "%s %zu", what, i);
        i++;
    }
    *ret_tensors = tensors;
    *ret_n = n;
    return r;
}

static int read_map(struct prn_rpc_wire *w, size_t n_inputs, struct prn_arena *arena,
                    struct prn_rpc_map *ret_map)
{
    uint64_t *values = NULL;
    struct prn_rpc_map map = {0};
    int r = all_numbers(w, 1, PRN_RPC_TENSORS_MAX, arena, &values, &map.n);
    if (r < 0)
        return r;
    map.indices = PRN_ARENA_ARRAY(arena, map.n + 1, int32_t);
    if (!map.indices)
        return prn_fail_memory(w->err);
    for (size_t i = 0; i < map.n; i++) {
        if (values[i] >= n_inputs)
            return prn_fail(w->err, PRONY_EFORMAT, "index %lld is not one of %zu inputs",
                            (long long)values[i], n_inputs);
        map.indices[i] = (int32_t)values[i];
    }
    *ret_map = map;
    return 0;
}

static int read_maps(const struct prn_rpc_wire *w, struct prn_arena *arena, struct prn_rpc_run *run)
{
    int r = count(w, 6, MAPS_MAX, &run->n_maps);
    if (r < 0)
        return r;
    run->maps = PRN_ARENA_ARRAY(arena, run->n_maps + 1, struct prn_rpc_map);
    if (!run->maps)
        return prn_fail_memory(w->err);
    struct prn_rpc_wire own = *w;
    struct prn_rpc_field field;
    size_t i = 0;
    while ((r = prn_rpc_wire_next(&own, &field)) > 0) {
        if (field.number != 6)
            continue;
        r = prn_rpc_wire_expect(w, &field, PRN_WIRE_TYPE_BYTES);
        struct prn_rpc_wire inner = prn_rpc_wire_in(&own, field.range);
        if (r == 0)
            r = read_map(&inner, run->n_inputs, arena, &run->maps[i]);
        if (r < 0)
            return prn_fail_in(w->err, r, "input map %zu", i);
        i++;
    }
    return r;
}

static int read_mode(const struct prn_rpc_wire *w, const struct prn_rpc_field *field,
                     bool *ret_inference)
{
    uint64_t mode = 0;
    int r = number(w, field, &mode);
    if (r == 0 && mode != OCTOML_PROFILE__RUN_MODE__PROFILING &&
        mode != OCTOML_PROFILE__RUN_MODE__INFERENCE)
        r = fault(w, "the mode is unknown");
    *ret_inference = mode == OCTOML_PROFILE__RUN_MODE__INFERENCE;
    return r;
}

/* What isn't repeated. */
static int read_run_fields(struct prn_rpc_wire w, struct prn_rpc_run *run)
{
    struct prn_rpc_field field;
    bool has_session = false;
    bool has_model = false;
    int r;
    while ((r = prn_rpc_wire_next(&w, &field)) > 0) {
        switch (field.number) {
        case 1:
            r = copy_fixed(&w, &field, "session_uuid", run->session, sizeof run->session);
            has_session = true;
            break;
        case 2:
            r = number(&w, &field, &run->model_id);
            has_model = true;
            break;
        case 4:
            r = number(&w, &field, &run->repeats);
            run->has_repeats = true;
            break;
        case 5:
            r = number(&w, &field, &run->repeat_for_ms);
            run->has_repeat_for = true;
            break;
        case 7:
            r = number(&w, &field, &run->warmups);
            break;
        case 8:
            r = read_mode(&w, &field, &run->inference);
            break;
        default:
            break;
        }
        if (r < 0)
            return r;
    }
    if (r == 0 && (!has_session || !has_model))
        return fault(&w, has_session ? "model_id is missing" : "session_uuid is missing");
    return r;
}

int prn_rpc_read_run(const struct prn_bytes *bytes, struct prn_arena *arena,
                     struct prn_rpc_run *ret_run, struct prony_error *err)
{
    struct prn_rpc_wire w = prn_rpc_wire_of(bytes, err);
    struct prn_rpc_run run = {0};
    int r = read_run_fields(w, &run);
    if (r == 0)
        r = prn_rpc_read_values(&w, 3, "input", arena, &run.inputs, &run.n_inputs);
    if (r == 0)
        r = read_maps(&w, arena, &run);
    if (r < 0)
        return prn_fail_in(err, r, "RunRequest is malformed");
    *ret_run = run;
    return 0;
}

static int read_error(struct prn_rpc_wire *w, struct prn_arena *arena,
                      struct prn_rpc_result *result)
{
    struct prn_rpc_field field;
    uint64_t code = 0;
    bool has_code = false;
    int r;
    while ((r = prn_rpc_wire_next(w, &field)) > 0) {
        if (field.number == 1)
            r = copy_text(w, &field, "message", TEXT_MAX_BYTES, arena, &result->error);
        else if (field.number == 2)
            r = number(w, &field, &code);
        has_code |= field.number == 2;
        if (r < 0)
            return r;
    }
    if (r == 0 && (!result->error || !has_code))
        return fault(w, "an error lacks its message or its code");
    if (r == 0 && code > INT32_MAX)
        return fault(w, "an error has an impossible code");
    result->error_code = (int)code;
    return r;
}

static int read_names(const struct prn_rpc_wire *w, struct prn_arena *arena,
                      struct prn_rpc_result *result)
{
    size_t n = 0;
    int r = count(w, 100, PRN_RPC_TENSORS_MAX, &n);
    if (r < 0 || n == 0)
        return r;
    if (n != result->n_outputs)
        return fault(w, "there are more or fewer names than outputs");
    const char **names = PRN_ARENA_ARRAY(arena, n, const char *);
    if (!names)
        return prn_fail_memory(w->err);
    struct prn_rpc_wire own = *w;
    struct prn_rpc_field field;
    size_t i = 0;
    while ((r = prn_rpc_wire_next(&own, &field)) > 0) {
        if (field.number == 100)
            r = copy_text(w, &field, "the name of an output", TEXT_MAX_BYTES, arena, &names[i++]);
        if (r < 0)
            return r;
    }
    result->names = names;
    return r;
}

static int read_prepare(const struct prn_rpc_wire *w, struct prn_rpc_result *result)
{
    struct prn_rpc_wire own = *w;
    struct prn_rpc_field field;
    int r;
    while ((r = prn_rpc_wire_next(&own, &field)) > 0) {
        r = field.number == 101 ? number(&own, &field, &result->prepare_ns) : 0;
        if (r < 0)
            return r;
    }
    return r;
}

int prn_rpc_read_result_value(struct prn_rpc_wire *w, struct prn_arena *arena,
                              struct prn_rpc_result *result)
{
    int r = prn_rpc_read_values(w, 1, "output", arena, &result->outputs, &result->n_outputs);
    if (r == 0)
        r = all_numbers(w, 2, SIZE_MAX, arena, &result->times_ns, &result->n_times);
    if (r == 0)
        r = read_names(w, arena, result);
    if (r == 0)
        r = read_prepare(w, result);
    return r;
}

static int read_result(struct prn_rpc_wire *w, struct prn_arena *arena,
                       struct prn_rpc_result *ret_result)
{
    struct prn_rpc_result result = {0};
    struct prn_rpc_field field;
    bool found = false;
    int r;
    while ((r = prn_rpc_wire_next(w, &field)) > 0) {
        if (field.number != 1 && field.number != 2)
            continue;
        r = prn_rpc_wire_expect(w, &field, PRN_WIRE_TYPE_BYTES);
        if (r < 0)
            return r;
        struct prn_rpc_wire inner = prn_rpc_wire_in(w, field.range);
        result = (struct prn_rpc_result){0}; /* of a choice the last one counts */
        r = field.number == 1 ? prn_rpc_read_result_value(&inner, arena, &result)
                              : read_error(&inner, arena, &result);
        if (r < 0)
            return r;
        found = true;
    }
    if (r == 0 && !found)
        return fault(w, "it holds neither a result nor an error");
    *ret_result = result;
    return r;
}

int prn_rpc_read_results(const struct prn_bytes *bytes, struct prn_arena *arena,
                         struct prn_rpc_result **ret_results, size_t *ret_n,
                         struct prony_error *err)
{
    struct prn_rpc_wire w = prn_rpc_wire_of(bytes, err);
    size_t n = 0;
    int r = count(&w, 1, RESULTS_MAX, &n);
    if (r < 0)
        return prn_fail_in(err, r, "RunReply is malformed");
    struct prn_rpc_result *results = PRN_ARENA_ARRAY(arena, n + 1, struct prn_rpc_result);
    if (!results)
        return prn_fail_memory(err);
    struct prn_rpc_field field;
    size_t i = 0;
    while ((r = prn_rpc_wire_next(&w, &field)) > 0) {
        if (field.number != 1)
            continue;
        r = prn_rpc_wire_expect(&w, &field, PRN_WIRE_TYPE_BYTES);
        struct prn_rpc_wire inner = prn_rpc_wire_in(&w, field.range);
        if (r == 0)
            r = read_result(&inner, arena, &results[i]);
        if (r < 0)
            return prn_fail_in(err, r, "RunReply is malformed: result %zu", i);
        i++;
    }
    *ret_results = results;
    *ret_n = n;
    return r;
}

static int read_mask(const struct prn_rpc_wire *w, const struct prn_rpc_field *field,
                     struct prn_arena *arena, struct prn_rpc_component *component)
{
    int r = prn_rpc_wire_expect(w, field, PRN_WIRE_TYPE_BYTES);
    if (r < 0)
        return r;
    if (field->range.length > MASK_MAX_BYTES)
        return fault(w, "backends_to_skip_bitmask is too long");
    component->n_skip = field->range.length;
    component->skip = prn_arena_alloc(arena, field->range.length + 1);
    if (!component->skip)
        return prn_fail_memory(w->err);
    prn_bytes_copy(w->bytes, field->range, component->skip);
    return 0;
}

static int read_component_fields(struct prn_rpc_wire w, struct prn_arena *arena,
                                 struct prn_rpc_component *component)
{
    struct prn_rpc_field field;
    unsigned seen = 0; /* bits of the fields 1 to 6 */
    int r;
    while ((r = prn_rpc_wire_next(&w, &field)) > 0) {
        switch (field.number) {
        case 1:
            r = copy_fixed(&w, &field, "session_uuid", component->session,
                           sizeof component->session);
            break;
        case 2:
            r = number(&w, &field, &component->model_id);
            break;
        case 3:
            r = number(&w, &field, &component->component_id);
            break;
        case 4:
            r = copy_text(&w, &field, "filename", FILENAME_MAX_BYTES, arena, &component->filename);
            break;
        case 5:
            r = prn_rpc_wire_expect(&w, &field, PRN_WIRE_TYPE_BYTES);
            component->chunk = field.range;
            break;
        case 6:
            r = read_mask(&w, &field, arena, component);
            break;
        default:
            continue;
        }
        if (r < 0)
            return r;
        seen |= 1u << field.number;
    }
    const unsigned heading = 1u << 1 | 1u << 2 | 1u << 3 | 1u << 4;
    if (r == 0 && !(seen & 1u << 5))
        return fault(&w, "chunk is missing");
    if (r == 0 && (seen & (heading | 1u << 6)) && (seen & heading) != heading)
        return fault(&w, "session_uuid, model_id, model_component_id and filename come together");
    component->first = seen & heading;
    return r;
}

int prn_rpc_read_component(const struct prn_bytes *bytes, struct prn_arena *arena,
                           struct prn_rpc_component *ret_component, struct prony_error *err)
{
    struct prn_rpc_component component = {0};
    int r = read_component_fields(prn_rpc_wire_of(bytes, err), arena, &component);
    if (r < 0)
        return prn_fail_in(err, r, "LoadModelComponentRequest is malformed");
    *ret_component = component;
    return 0;
}
