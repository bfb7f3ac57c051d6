/*
 * The walk keeps its own stack of open messages. What a message may hold comes from the descriptors
 * that protoc-c made from onnx.proto, so the walk knows every field by name and there is no second
 * schema here.
 */
#include "model/scan.h"

#include "base/array.h"
#include "format/wire.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Varints of larger runs aren't counted, because that would read the weights. */
#define COUNTED_BYTES ((size_t)64 << 10)
/* Longer attributes are opaque blobs (compiled subgraphs of some exporters): not kept. */
#define ATTRIBUTE_BYTES ((size_t)64 << 10)
/* Lengths of messages are known at their end only, so they are written with this many bytes. */
#define LENGTH_BYTES 5
/* Tensors up to this size are kept with their data, so that reading a shape touches no map. */
#define KEPT_BYTES ((size_t)4 << 10)
/* Over a longer run of data the pages before it are let go of: the kernel maps up to 2 MiB around
 * each that is touched. */
#define STRIDE_BYTES ((size_t)64 << 10)

struct frame {
    const ProtobufCMessageDescriptor *type;
    const uint8_t *end;
    size_t length_at; /* of this message's length in the output */
    size_t payload;   /* index, of a TensorProto */
    uint64_t seen;    /* members that may come only once, by their place in the descriptor */
};

struct scan {
    const uint8_t *begin;
    struct prn_wire wire;
    struct frame frames[PRN_SCAN_FRAMES_MAX];
    size_t depth;
    size_t n_graphs; /* open graphs */
    uint64_t n_fields;
    bool mapped;
    size_t left; /* bytes of the map whose pages were let go of */
    struct prn_buffer *out;
    struct prn_payloads payloads;
    struct prony_error *err;
};

void prn_payloads_release(struct prn_payloads *payloads)
{
    free(payloads->items);
    *payloads = (struct prn_payloads){0};
}

bool prn_payload_of(const struct prn_payloads *payloads, const Onnx__TensorProto *tensor,
                    struct prn_payload *ret_payload)
{
    const ProtobufCBinaryData *mark = &tensor->raw_data;
    uint64_t index = UINT64_MAX;
    if (tensor->has_raw_data && mark->len >= sizeof index)
        memcpy(&index, mark->data, sizeof index);
    if (index >= payloads->n)
        return false;
    struct prn_payload p = payloads->items[index];
    if (p.message_len <= KEPT_BYTES && mark->len == sizeof index + p.message_len) {
        const uint8_t *copy = mark->data + sizeof index;
        p.raw = p.raw ? copy + (p.raw - p.message) : NULL;
        p.message = copy;
    }
    *ret_payload = p;
    return true;
}

static void put_varint(struct prn_buffer *out, uint64_t value)
{
    uint8_t bytes[10];
    prn_buffer_append(out, bytes, prn_wire_put_varint(bytes, value));
}

/* The tag, and the length where the type has one. */
static void put_head(struct prn_buffer *out, uint32_t number, enum prn_wire_type type, uint64_t len)
{
    uint8_t bytes[20];
    size_t n = prn_wire_put_varint(bytes, (uint64_t)number << 3 | type);
    if (type == PRN_WIRE_TYPE_BYTES)
        n += prn_wire_put_varint(bytes + n, len);
    prn_buffer_append(out, bytes, n);
}

static int open_message(struct scan *s, const ProtobufCMessageDescriptor *type, const uint8_t *end)
{
    bool graph = type == &onnx__graph_proto__descriptor;
    if (graph && s->n_graphs == PRN_SCAN_GRAPHS_MAX)
        return prn_fail(s->err, PRONY_ELIMIT, "graphs are nested more than %d levels deep",
                        PRN_SCAN_GRAPHS_MAX);
    if (s->depth == PRN_SCAN_FRAMES_MAX)
        return prn_fail(s->err, PRONY_ELIMIT, "messages are nested more than %d levels deep",
                        PRN_SCAN_FRAMES_MAX);
    s->n_graphs += graph;
    s->frames[s->depth++] = (struct frame){.type = type, .end = end, .length_at = s->out->len};
    return 0;
}

/* In place of raw_data: which payload it is, and behind that the whole tensor when it is small. */
static void put_mark(struct prn_buffer *out, uint64_t index, const struct prn_payload *payload)
{
    size_t kept = payload->message_len <= KEPT_BYTES ? payload->message_len : 0;
    put_head(out, 9, PRN_WIRE_TYPE_BYTES, sizeof index + kept);
    prn_buffer_append(out, &index, sizeof index);
    prn_buffer_append(out, payload->message, kept);
}

static void close_message(struct scan *s)
{
    const struct frame *f = &s->frames[--s->depth];
    if (f->type == &onnx__graph_proto__descriptor)
        s->n_graphs--;
    if (f->type == &onnx__tensor_proto__descriptor)
        put_mark(s->out, f->payload, &s->payloads.items[f->payload]);
    if (s->depth == 0 || s->out->error)
        return;
    size_t len = s->out->len - f->length_at;
    char *at = s->out->data + f->length_at - LENGTH_BYTES;
    for (int i = 0; i < LENGTH_BYTES; i++)
        at[i] = (char)((len >> (7 * i) & 0x7f) | (i + 1 < LENGTH_BYTES ? 0x80 : 0));
}

static int new_payload(struct scan *s, const struct prn_wire_field *field)
{
    struct prn_payloads *p = &s->payloads;
    if (p->n == PRN_SCAN_TENSORS_MAX)
        return prn_fail(s->err, PRONY_ELIMIT, "it has more than %zu tensors", PRN_SCAN_TENSORS_MAX);
    void *items = prn_array_grow(p->items, p->n, sizeof *p->items);
    if (!items)
        return prn_fail_memory(s->err);
    p->items = items;
    p->items[p->n] = (struct prn_payload){
        .message = field->value, .message_len = (size_t)field->len, .typed_exact = true};
    s->frames[s->depth - 1].payload = p->n++;
    return 0;
}

/* Elements of a run of varints: the bytes that end one. */
static uint64_t count_varints(const uint8_t *bytes, size_t len)
{
    uint64_t n = 0;
    for (size_t i = 0; i < len; i++)
        n += bytes[i] < 0x80;
    return n;
}

/* Gives back the pages of the map that the walk has touched; they stay in the page cache. */
static void leave_pages(struct scan *s)
{
    if (!s->mapped)
        return;
    size_t done = (size_t)(s->wire.at - s->begin) & ~((size_t)sysconf(_SC_PAGESIZE) - 1);
    if (done > s->left)
        madvise((void *)(uintptr_t)(s->begin + s->left), done - s->left, MADV_DONTNEED);
    s->left = done;
}

/* Notes where a tensor's data is. Typed fields come packed or, from old writers, one by one. */
static void note_data(struct scan *s, const ProtobufCFieldDescriptor *known,
                      const struct prn_wire_field *field)
{
    struct prn_payload *p = &s->payloads.items[s->frames[s->depth - 1].payload];
    size_t len = (size_t)field->len;
    if (len > STRIDE_BYTES)
        leave_pages(s);
    if (known->id == 6) {
        p->n_strings++;
        return;
    }
    if (len == 0)
        return;
    if (known->id == 9) {
        p->raw = field->value;
        p->raw_len = len;
        return;
    }
    p->typed_mixed = p->typed_mixed || (p->typed_field && p->typed_field != known->id);
    p->typed_field = known->id;
    p->typed_bytes += len;
    if (field->type != PRN_WIRE_TYPE_BYTES) {
        p->typed_entries++;
    } else if (known->type == PROTOBUF_C_TYPE_FLOAT || known->type == PROTOBUF_C_TYPE_DOUBLE) {
        size_t size = known->type == PROTOBUF_C_TYPE_FLOAT ? 4 : 8;
        p->typed_entries += len / size;
        /* A cut entry makes one too many, which no shape agrees with. */
        p->typed_entries += len % size != 0;
    } else if (len <= COUNTED_BYTES) {
        p->typed_entries += count_varints(field->value, len);
    } else {
        p->typed_entries += (len + 9) / 10;
        p->typed_exact = false;
    }
}

static bool is_tensor_data(const ProtobufCMessageDescriptor *type, uint32_t number)
{
    if (type != &onnx__tensor_proto__descriptor)
        return false;
    return (number >= 4 && number <= 7) || (number >= 9 && number <= 11);
}

/* What prony doesn't need, and what other tools hide megabytes in. */
static bool is_dropped(const ProtobufCFieldDescriptor *known)
{
    static const char *const names[] = {"doc_string", "denotation", "metadata_props",
                                        "training_info", "quantization_annotation"};
    for (size_t i = 0; i < PRN_ARRAY_SIZE(names); i++)
        if (known->name[0] == names[i][0] && strcmp(known->name, names[i]) == 0)
            return true;
    return false;
}

static bool type_fits(const ProtobufCFieldDescriptor *known, enum prn_wire_type type)
{
    bool repeated = known->label == PROTOBUF_C_LABEL_REPEATED;
    switch (known->type) {
    case PROTOBUF_C_TYPE_MESSAGE:
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
        return type == PRN_WIRE_TYPE_BYTES;
    case PROTOBUF_C_TYPE_FLOAT:
        return type == PRN_WIRE_TYPE_FIXED32 || (repeated && type == PRN_WIRE_TYPE_BYTES);
    case PROTOBUF_C_TYPE_DOUBLE:
        return type == PRN_WIRE_TYPE_FIXED64 || (repeated && type == PRN_WIRE_TYPE_BYTES);
    default:
        return type == PRN_WIRE_TYPE_VARINT || (repeated && type == PRN_WIRE_TYPE_BYTES);
    }
}

static int fail_at(struct scan *s, const ProtobufCFieldDescriptor *known,
                   const struct prn_wire_field *field, const char *what)
{
    const struct frame *f = &s->frames[s->depth - 1];
    return prn_fail(s->err, PRONY_EFORMAT, "it is damaged: %s.%s at byte %zu %s",
                    f->type->short_name, known->name, (size_t)(field->value - s->begin), what);
}

/* A second graph in a model, or a second kind in a type: parsers disagree on what that means. */
static int check_once(struct scan *s, const ProtobufCFieldDescriptor *known,
                      const struct prn_wire_field *field)
{
    struct frame *f = &s->frames[s->depth - 1];
    bool one_of = known->flags & PROTOBUF_C_FIELD_FLAG_ONEOF;
    if (known->label == PROTOBUF_C_LABEL_REPEATED ||
        (known->type != PROTOBUF_C_TYPE_MESSAGE && !one_of))
        return 0;
    /* All members of a oneof share the place of the first bit. */
    uint64_t bit = one_of ? UINT64_C(1) << 63 : UINT64_C(1) << (known - f->type->fields);
    if (f->seen & bit)
        return fail_at(s, known, field, "is there twice");
    f->seen |= bit;
    return 0;
}

static int take_field(struct scan *s, const struct prn_wire_field *field)
{
    const struct frame *f = &s->frames[s->depth - 1];
    const ProtobufCFieldDescriptor *known =
        protobuf_c_message_descriptor_get_field(f->type, field->number);
    if (!known || is_dropped(known))
        return 0;
    if (!type_fits(known, field->type))
        return fail_at(s, known, field, "has the wrong type");
    if (is_tensor_data(f->type, field->number)) {
        note_data(s, known, field);
        return 0;
    }
    int code = check_once(s, known, field);
    if (code < 0)
        return code;
    if (known->type == PROTOBUF_C_TYPE_MESSAGE) {
        put_varint(s->out, (uint64_t)field->number << 3 | field->type);
        prn_buffer_append(s->out, (const char[LENGTH_BYTES]){0}, LENGTH_BYTES);
        code = open_message(s, known->descriptor, field->value + field->len);
        if (code == 0 && known->descriptor == &onnx__tensor_proto__descriptor)
            code = new_payload(s, field);
        s->wire.at = field->value;
        return code;
    }
    if (known->type == PROTOBUF_C_TYPE_STRING && memchr(field->value, 0, (size_t)field->len))
        return fail_at(s, known, field, "holds a NUL byte");
    bool optional = known->label != PROTOBUF_C_LABEL_REPEATED;
    if (known->type == PROTOBUF_C_TYPE_BYTES && optional && field->len > ATTRIBUTE_BYTES)
        return 0;
    put_head(s->out, field->number, field->type, field->len);
    prn_buffer_append(s->out, field->value, (size_t)field->len);
    return 0;
}

static int fail_wire(struct scan *s, enum prn_wire_fault fault, const struct prn_wire_field *field,
                     const uint8_t *at)
{
    const struct frame *f = &s->frames[s->depth - 1];
    size_t offset = (size_t)(at - s->begin);
    const ProtobufCFieldDescriptor *known =
        protobuf_c_message_descriptor_get_field(f->type, field->number);
    const char *name = known ? known->name : "a field";
    if (fault == PRN_WIRE_INVALID && s->depth == 1)
        return prn_fail(s->err, PRONY_EFORMAT, "it isn't an ONNX model, or damaged at byte %zu",
                        offset);
    if (fault == PRN_WIRE_INVALID)
        return prn_fail(s->err, PRONY_EFORMAT, "it is damaged: %s at byte %zu isn't valid",
                        f->type->short_name, offset);
    if (s->depth > 1)
        return prn_fail(s->err, PRONY_EFORMAT,
                        "it is damaged: %s.%s at byte %zu is longer than what holds it",
                        f->type->short_name, name, offset);
    if (field->len > 0 && field->type == PRN_WIRE_TYPE_BYTES)
        return prn_fail(s->err, PRONY_EFORMAT,
                        "it is truncated or damaged: %s at byte %zu takes %llu bytes, %zu are left",
                        name, offset, (unsigned long long)field->len,
                        (size_t)(s->wire.end - field->value));
    return prn_fail(s->err, PRONY_EFORMAT, "it is truncated or damaged at byte %zu", offset);
}

static int walk(struct scan *s, const uint8_t *end)
{
    int code = open_message(s, &onnx__model_proto__descriptor, end);
    while (code == 0 && s->depth > 0 && !s->out->error) {
        s->wire.end = s->frames[s->depth - 1].end;
        if (s->wire.at == s->wire.end) {
            close_message(s);
            continue;
        }
        if (++s->n_fields > PRN_SCAN_FIELDS_MAX)
            return prn_fail(s->err, PRONY_ELIMIT, "it has more than %llu fields",
                            (unsigned long long)PRN_SCAN_FIELDS_MAX);
        const uint8_t *at = s->wire.at;
        struct prn_wire_field field;
        enum prn_wire_fault fault = prn_wire_next(&s->wire, &field);
        code = fault ? fail_wire(s, fault, &field, at) : take_field(s, &field);
    }
    if (code < 0)
        return code;
    if (s->out->error == PRONY_ELIMIT)
        return prn_fail(s->err, PRONY_ELIMIT, "its graph takes more than %zu MiB without weights",
                        PRN_SCAN_STRUCTURE_MAX >> 20);
    return prn_buffer_error(s->out, s->err);
}

int prn_scan(const void *data, size_t size, bool mapped, struct prn_buffer *out,
             struct prn_payloads *ret_payloads, struct prony_error *err)
{
    const uint8_t *begin = data;
    struct scan *s = calloc(1, sizeof *s);
    if (!s)
        return prn_fail_memory(err);
    s->begin = begin;
    s->wire = (struct prn_wire){begin, begin + size};
    s->mapped = mapped;
    s->out = out;
    s->err = err;
    int code = walk(s, begin + size);
    leave_pages(s);
    if (code < 0)
        prn_payloads_release(&s->payloads);
    else
        *ret_payloads = s->payloads;
    free(s);
    return code;
}
