#include "service/relay.h"

#include "model/dtype.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* ---- Reading ---- */

enum wire_type {
    WIRE_VARINT = 0,
    WIRE_FIXED64 = 1,
    WIRE_LENGTH = 2,
    WIRE_FIXED32 = 5,
};

/* A part of a message that is being walked over. The first fault sticks. */
struct wire {
    const struct prn_bytes *bytes;
    struct prn_range left;
    bool failed;
};

struct field {
    unsigned number;
    enum wire_type type;
    uint64_t value;         /* of a number, as it stands there */
    struct prn_range range; /* of what has a length */
};

static struct wire wire_of(const struct prn_bytes *bytes, struct prn_range range)
{
    return (struct wire){.bytes = bytes, .left = range};
}

static void take(struct wire *w, void *to, size_t length)
{
    memset(to, 0, length);
    if (w->failed || length > w->left.length) {
        w->failed = true;
        return;
    }
    prn_bytes_copy(w->bytes, (struct prn_range){w->left.offset, length}, to);
    w->left.offset += length;
    w->left.length -= length;
}

static uint64_t take_varint(struct wire *w)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 70 && !w->failed; shift += 7) {
        uint8_t byte;
        take(w, &byte, 1);
        if (shift < 64)
            value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return value;
    }
    w->failed = true;
    return 0;
}

/* The next field; false at the end, or when it is malformed. */
static bool next_field(struct wire *w, struct field *f)
{
    if (w->failed || w->left.length == 0)
        return false;
    uint64_t tag = take_varint(w);
    *f = (struct field){.number = (unsigned)(tag >> 3), .type = (enum wire_type)(tag & 7)};
    w->failed |= tag > UINT32_MAX || f->number == 0;
    switch (f->type) {
    case WIRE_VARINT:
        f->value = take_varint(w);
        break;
    case WIRE_FIXED64:
        take(w, &f->value, 8);
        break;
    case WIRE_FIXED32:
        take(w, &f->value, 4);
        break;
    case WIRE_LENGTH: {
        uint64_t length = take_varint(w);
        w->failed |= length > w->left.length;
        if (w->failed)
            return false;
        f->range = (struct prn_range){w->left.offset, (size_t)length};
        w->left.offset += (size_t)length;
        w->left.length -= (size_t)length;
        break;
    }
    default:
        w->failed = true;
    }
    return !w->failed;
}

static struct wire whole(const struct prn_bytes *bytes)
{
    return wire_of(bytes, (struct prn_range){0, prn_bytes_length(bytes)});
}

static int malformed(struct prony_error *err)
{
    return prn_fail(err, PRONY_EFORMAT, "malformed message");
}

/* Fields of a WorkerCommand or WorkerReport that come before its body. */
#define FIELD_ID 1

int prn_relay_peek(const struct prn_bytes *bytes, uint64_t *ret_id, unsigned *ret_body,
                   struct prony_error *err)
{
    struct wire w = whole(bytes);
    struct field f;
    uint64_t id = 0;
    unsigned body = 0;
    while (next_field(&w, &f))
        if (f.number == FIELD_ID && f.type == WIRE_VARINT)
            id = f.value;
        else
            body = f.number;
    if (w.failed)
        return malformed(err);
    *ret_id = id;
    *ret_body = body;
    return 0;
}

/* The body with this number; the last one counts. */
static int find_body(const struct prn_bytes *bytes, unsigned number, struct wire *ret_body,
                     struct prony_error *err)
{
    struct wire w = whole(bytes);
    struct field f;
    bool found = false;
    while (next_field(&w, &f))
        if (f.number == number && f.type == WIRE_LENGTH) {
            *ret_body = wire_of(bytes, f.range);
            found = true;
        }
    return found && !w.failed ? 0 : malformed(err);
}

/* TensorDtype of inference_base.proto, by ONNX's numbers. */
static const int dtypes[] = {
    [1] = PRN_DTYPE_FLOAT16, [2] = PRN_DTYPE_FLOAT,   [3] = PRN_DTYPE_DOUBLE,
    [4] = PRN_DTYPE_INT8,    [5] = PRN_DTYPE_INT16,   [6] = PRN_DTYPE_INT32,
    [7] = PRN_DTYPE_INT64,   [8] = PRN_DTYPE_UINT8,   [9] = PRN_DTYPE_UINT16,
    [10] = PRN_DTYPE_UINT32, [11] = PRN_DTYPE_UINT64, [12] = PRN_DTYPE_BOOL,
};

static bool add_dim(int64_t *dims, size_t *rank, uint64_t value)
{
    if (*rank == PRN_RPC_RANK_MAX)
        return false;
    dims[(*rank)++] = (int64_t)value;
    return true;
}

static void read_shape(struct wire *w, const struct field *f, int64_t *dims, size_t *rank)
{
    if (f->type == WIRE_VARINT) {
        w->failed |= !add_dim(dims, rank, f->value);
    } else {
        struct wire packed = wire_of(w->bytes, f->range);
        while (!packed.failed && packed.left.length > 0)
            packed.failed |= !add_dim(dims, rank, take_varint(&packed));
        w->failed |= packed.failed || f->type != WIRE_LENGTH;
    }
}

static int read_tensor(struct wire w, struct prn_arena *arena, struct prn_rpc_tensor *ret_tensor,
                       struct prony_error *err)
{
    struct field f;
    int64_t dims[PRN_RPC_RANK_MAX];
    struct prn_rpc_tensor t = {0};
    uint64_t dtype = 0;
    uint64_t onnx_dtype = 0;
    while (next_field(&w, &f))
        switch (f.number) {
        case 1:
            dtype = f.value;
            break;
        case 2:
            read_shape(&w, &f, dims, &t.rank);
            break;
        case 3:
            w.failed |= f.type != WIRE_LENGTH;
            t.range = f.range;
            break;
        case 100:
            onnx_dtype = f.value;
            break;
        default:
            break;
        }
    size_t bytes;
    int64_t *kept = PRN_ARENA_ARRAY(arena, t.rank + 1, int64_t);
    if (!kept)
        return prn_fail_memory(err);
    memcpy(kept, dims, t.rank * sizeof *dims);
    t.dims = kept;
    t.bytes = t.range.length;
    t.dtype = onnx_dtype > 0 && onnx_dtype <= INT32_MAX ? (int)onnx_dtype
              : dtype < PRN_ARRAY_SIZE(dtypes)          ? dtypes[dtype]
                                                        : 0;
    if (w.failed)
        return malformed(err);
    if (prn_dtype_bytes(t.dtype, t.dims, t.rank, &bytes) < 0 || bytes != t.bytes)
        return prn_fail(err, PRONY_EFORMAT, "a tensor's shape doesn't fit its data");
    *ret_tensor = t;
    return 0;
}

/* A Value, which holds a tensor. */
static int read_value(const struct prn_bytes *bytes, struct prn_range range,
                      struct prn_arena *arena, struct prn_rpc_tensor *ret_tensor,
                      struct prony_error *err)
{
    struct wire w = wire_of(bytes, range);
    struct field f;
    struct wire tensor = {0};
    while (next_field(&w, &f))
        if (f.number == 1 && f.type == WIRE_LENGTH)
            tensor = wire_of(bytes, f.range);
    if (w.failed || !tensor.bytes)
        return malformed(err);
    return read_tensor(tensor, arena, ret_tensor, err);
}

/* Tensors in the fields of a number. */
static int read_values(struct wire w, unsigned number, struct prn_arena *arena,
                       struct prn_rpc_tensor **ret_tensors, size_t *ret_n, struct prony_error *err)
{
    struct wire again = w;
    struct field f;
    size_t n = 0;
    while (next_field(&w, &f))
        n += f.number == number && f.type == WIRE_LENGTH;
    if (n > PRN_RPC_TENSORS_MAX)
        return prn_fail(err, PRONY_ELIMIT, "more than %d tensors", PRN_RPC_TENSORS_MAX);
    struct prn_rpc_tensor *tensors = PRN_ARENA_ARRAY(arena, n + 1, struct prn_rpc_tensor);
    if (!tensors)
        return prn_fail_memory(err);
    int code = w.failed ? malformed(err) : 0;
    for (size_t i = 0; code == 0 && next_field(&again, &f);)
        if (f.number == number && f.type == WIRE_LENGTH)
            code = read_value(again.bytes, f.range, arena, &tensors[i++], err);
    *ret_tensors = tensors;
    *ret_n = n;
    return code;
}

int prn_relay_read_run(const struct prn_bytes *bytes, struct prn_arena *arena,
                       struct prn_relay_run *ret_run, struct prony_error *err)
{
    struct wire w;
    struct field f;
    struct prn_relay_run run = {0};
    int code = find_body(bytes, PRN_RELAY_COMMAND_RUN, &w, err);
    if (code == 0)
        code = read_values(w, 3, arena, &run.inputs, &run.n_inputs, err);
    if (code < 0)
        return code;
    while (next_field(&w, &f)) {
        bool number = f.type == WIRE_VARINT;
        switch (f.number) {
        case 1:
            run.model_id = f.value;
            break;
        case 2:
            number &= f.value <= UINT32_MAX;
            run.backend = (uint32_t)f.value;
            break;
        case 4:
            run.warmups = f.value;
            break;
        case 5:
            run.repeats = f.value;
            break;
        case 6:
            run.repeat_for_ms = f.value;
            break;
        case 7:
            run.outputs = f.value != 0;
            break;
        case 8:
            number = f.type == WIRE_FIXED64;
            memcpy(&run.timeout_s, &f.value, sizeof run.timeout_s);
            break;
        default:
            number = true;
        }
        w.failed |= !number;
    }
    if (w.failed)
        return malformed(err);
    *ret_run = run;
    return 0;
}

static void read_times(struct wire *w, const struct field *f, struct prn_rpc_result *r)
{
    if (f->type == WIRE_VARINT) {
        r->times_ns[r->n_times++] = f->value;
        return;
    }
    struct wire packed = wire_of(w->bytes, f->range);
    while (!packed.failed && packed.left.length > 0)
        r->times_ns[r->n_times++] = take_varint(&packed);
    w->failed |= packed.failed || f->type != WIRE_LENGTH;
}

/* Every number takes at least a byte, which bounds their number. */
static int read_rest_of_ran(struct wire w, struct prn_arena *arena, struct prn_rpc_result *r,
                            struct prony_error *err)
{
    struct wire first = w;
    struct field f;
    size_t times = 0;
    size_t n_names = 0;
    while (next_field(&first, &f)) {
        times += f.number != 2 ? 0 : f.type == WIRE_LENGTH ? f.range.length : 1;
        n_names += f.number == 100 && f.type == WIRE_LENGTH;
    }
    if (n_names > PRN_RPC_TENSORS_MAX)
        return prn_fail(err, PRONY_ELIMIT, "more than %d names", PRN_RPC_TENSORS_MAX);
    r->times_ns = PRN_ARENA_ARRAY(arena, times + 1, uint64_t);
    const char **names = PRN_ARENA_ARRAY(arena, n_names + 1, const char *);
    if (!r->times_ns || !names)
        return prn_fail_memory(err);
    for (size_t i = 0; next_field(&w, &f);) {
        if (f.number == 2)
            read_times(&w, &f, r);
        if (f.number != 100 || f.type != WIRE_LENGTH)
            continue;
        char *name = prn_arena_alloc(arena, f.range.length + 1);
        if (!name)
            return prn_fail_memory(err);
        prn_bytes_copy(w.bytes, f.range, name);
        names[i++] = name;
    }
    r->names = n_names == r->n_outputs ? names : NULL;
    return w.failed ? malformed(err) : 0;
}

int prn_relay_read_ran(const struct prn_bytes *bytes, struct prn_arena *arena,
                       struct prn_rpc_result *ret_result, struct prony_error *err)
{
    struct wire w;
    struct prn_rpc_result result = {0};
    int code = find_body(bytes, PRN_RELAY_REPORT_RAN, &w, err);
    if (code == 0)
        code = read_values(w, 1, arena, &result.outputs, &result.n_outputs, err);
    if (code == 0)
        code = read_rest_of_ran(w, arena, &result, err);
    if (code == 0)
        *ret_result = result;
    return code;
}

int prn_relay_read_chunk(const struct prn_bytes *bytes, struct prn_range *ret_chunk,
                         struct prony_error *err)
{
    struct wire w = whole(bytes);
    struct field f;
    struct prn_range chunk = {0};
    bool found = false;
    while (next_field(&w, &f))
        if (f.number == 1 && f.type == WIRE_LENGTH) {
            chunk = f.range;
            found = true;
        }
    if (!found || w.failed)
        return malformed(err);
    *ret_chunk = chunk;
    return 0;
}

/* ---- Writing ---- */

/* Heads of messages are small; they are written here, and the data behind them is borrowed. */
struct head {
    size_t length;
    uint8_t data[64 + 10 * PRN_RPC_RANK_MAX];
};

static size_t varint_size(uint64_t value)
{
    size_t n = 1;
    while (value >>= 7)
        n++;
    return n;
}

static void put_varint(struct head *h, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        h->data[h->length++] = (uint8_t)(value | 0x80);
    h->data[h->length++] = (uint8_t)value;
}

static void put_tag(struct head *h, unsigned number, enum wire_type type)
{
    put_varint(h, (uint64_t)number << 3 | type);
}

static void put_number(struct head *h, unsigned number, uint64_t value)
{
    put_tag(h, number, WIRE_VARINT);
    put_varint(h, value);
}

static void put_length(struct head *h, unsigned number, size_t length)
{
    put_tag(h, number, WIRE_LENGTH);
    put_varint(h, length);
}

static size_t field_size(unsigned number, size_t length)
{
    return varint_size((uint64_t)number << 3) + varint_size(length) + length;
}

/* All of a tensor but its data, the tag and length of which come last. */
static void tensor_head(const struct prn_rpc_tensor *t, struct head *h)
{
    size_t dtype = 0;
    h->length = 0;
    for (size_t i = 1; i < PRN_ARRAY_SIZE(dtypes); i++)
        dtype = dtypes[i] == t->dtype ? i : dtype;
    put_number(h, 1, dtype ? dtype : 2);
    for (size_t i = 0; i < t->rank; i++)
        put_number(h, 2, (uint64_t)t->dims[i]);
    if (dtype == 0)
        put_number(h, 100, (uint64_t)t->dtype);
    put_length(h, 3, t->bytes);
}

static size_t tensor_size(const struct prn_rpc_tensor *t)
{
    struct head h;
    tensor_head(t, &h);
    return h.length + t->bytes;
}

/* A Value in a field of this number, up to its data. */
static void write_value_head(struct prn_out *out, unsigned number, const struct prn_rpc_tensor *t)
{
    struct head tensor;
    struct head h = {0};
    size_t size = tensor_size(t);
    tensor_head(t, &tensor);
    put_length(&h, number, field_size(1, size));
    put_length(&h, 1, size);
    prn_out_copy(out, h.data, h.length);
    prn_out_copy(out, tensor.data, tensor.length);
}

static size_t values_size(unsigned number, const struct prn_rpc_tensor *tensors, size_t n)
{
    size_t size = 0;
    for (size_t i = 0; i < n; i++)
        size += field_size(number, field_size(1, tensor_size(&tensors[i])));
    return size;
}

/* Data that many pieces of a message borrow: the last to let go releases it. */
struct lender {
    atomic_size_t users;
    void (*release)(void *);
    void *context;
};

static struct lender *lender_new(void (*release)(void *), void *context)
{
    struct lender *l = malloc(sizeof *l);
    if (!l)
        return NULL;
    atomic_init(&l->users, 1);
    l->release = release;
    l->context = context;
    return l;
}

static void lender_leave(void *opaque)
{
    struct lender *l = opaque;
    if (atomic_fetch_sub(&l->users, 1) > 1)
        return;
    l->release(l->context);
    free(l);
}

static void borrow(struct prn_out *out, struct lender *l, const void *data, size_t length)
{
    atomic_fetch_add(&l->users, 1);
    prn_out_borrow(out, data, length, lender_leave, l);
}

static void release_bytes(void *bytes)
{
    prn_bytes_free(bytes);
}

struct prn_out *prn_relay_write_run(uint64_t id, const struct prn_relay_run *run,
                                    struct prn_bytes *source)
{
    struct prn_out *out = prn_out_new();
    struct lender *l = lender_new(release_bytes, source);
    if (!out || !l) {
        free(l);
        prn_out_free(out);
        prn_bytes_free(source);
        return NULL;
    }
    struct head fields = {0};
    put_number(&fields, 1, run->model_id);
    put_number(&fields, 2, run->backend);
    put_number(&fields, 4, run->warmups);
    put_number(&fields, 5, run->repeats);
    put_number(&fields, 6, run->repeat_for_ms);
    put_number(&fields, 7, run->outputs);
    put_tag(&fields, 8, WIRE_FIXED64);
    memcpy(fields.data + fields.length, &run->timeout_s, 8);
    fields.length += 8;
    struct head h = {0};
    put_number(&h, FIELD_ID, id);
    put_length(&h, PRN_RELAY_COMMAND_RUN,
               fields.length + values_size(3, run->inputs, run->n_inputs));
    prn_out_copy(out, h.data, h.length);
    prn_out_copy(out, fields.data, fields.length);
    for (size_t i = 0; i < run->n_inputs; i++) {
        const struct prn_rpc_tensor *t = &run->inputs[i];
        struct prn_range range = t->range;
        const void *data;
        size_t length;
        write_value_head(out, 3, t);
        if (!source)
            prn_out_copy(out, t->data, t->bytes);
        while (source && prn_bytes_next(source, &range, &data, &length))
            borrow(out, l, data, length);
    }
    lender_leave(l);
    return out;
}

static void write_times(struct prn_out *out, const struct prn_rpc_result *r)
{
    for (size_t i = 0; i < r->n_times; i++) {
        struct head h = {0};
        put_number(&h, 2, r->times_ns[i]);
        prn_out_copy(out, h.data, h.length);
    }
}

static size_t rest_size(const struct prn_rpc_result *r)
{
    size_t size = 0;
    for (size_t i = 0; i < r->n_times; i++)
        size += 1 + varint_size(r->times_ns[i]);
    for (size_t i = 0; r->names && i < r->n_outputs; i++)
        size += field_size(100, strlen(r->names[i]));
    return size;
}

struct prn_out *prn_relay_write_ran(uint64_t id, const struct prn_rpc_result *r,
                                    void (*release)(void *), void *context)
{
    struct prn_out *out = prn_out_new();
    struct lender *l = lender_new(release, context);
    if (!out || !l) {
        free(l);
        prn_out_free(out);
        release(context);
        return NULL;
    }
    struct head h = {0};
    put_number(&h, FIELD_ID, id);
    put_length(&h, PRN_RELAY_REPORT_RAN, values_size(1, r->outputs, r->n_outputs) + rest_size(r));
    prn_out_copy(out, h.data, h.length);
    for (size_t i = 0; i < r->n_outputs; i++) {
        write_value_head(out, 1, &r->outputs[i]);
        borrow(out, l, r->outputs[i].data, r->outputs[i].bytes);
    }
    write_times(out, r);
    for (size_t i = 0; r->names && i < r->n_outputs; i++) {
        struct head name = {0};
        put_length(&name, 100, strlen(r->names[i]));
        prn_out_copy(out, name.data, name.length);
        prn_out_copy(out, r->names[i], strlen(r->names[i]));
    }
    lender_leave(l);
    return out;
}
