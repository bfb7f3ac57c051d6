/*
 * The protobuf wire format, as far as ONNX needs it. A nested message stands behind its own length;
 * it is encoded in place at the end of a buffer and then moved up by the few bytes that its tag and
 * length take. Initialisers are the exception: only their heads are encoded, and their lengths
 * computed, so that the graph's length can be written before the first weight exists.
 */
#include "model/writer.h"

#include "base/array.h"
#include "base/buffer.h"
#include "base/io.h"
#include "format/wire.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "tensors are copied as they lie");

#define FILE_MAX_BYTES ((uint64_t)INT32_MAX)
#define DEPTH_MAX 64

/* Field numbers of onnx.proto. */
enum {
    MODEL_IR_VERSION = 1,
    MODEL_PRODUCER_NAME = 2,
    MODEL_PRODUCER_VERSION = 3,
    MODEL_GRAPH = 7,
    MODEL_OPSET = 8,
    MODEL_FUNCTION = 25,
    OPSET_DOMAIN = 1,
    OPSET_VERSION = 2,
    GRAPH_NODE = 1,
    GRAPH_NAME = 2,
    GRAPH_INITIALISER = 5,
    GRAPH_INPUT = 11,
    GRAPH_OUTPUT = 12,
    GRAPH_VALUE = 13,
    GRAPH_SPARSE = 15,
    NODE_INPUT = 1,
    NODE_OUTPUT = 2,
    NODE_NAME = 3,
    NODE_OP_TYPE = 4,
    NODE_ATTRIBUTE = 5,
    NODE_DOMAIN = 7,
    ATTRIBUTE_NAME = 1,
    ATTRIBUTE_F = 2,
    ATTRIBUTE_I = 3,
    ATTRIBUTE_S = 4,
    ATTRIBUTE_T = 5,
    ATTRIBUTE_G = 6,
    ATTRIBUTE_FLOATS = 7,
    ATTRIBUTE_INTS = 8,
    ATTRIBUTE_STRINGS = 9,
    ATTRIBUTE_GRAPHS = 11,
    ATTRIBUTE_TYPE = 20,
    TENSOR_DIMS = 1,
    TENSOR_DATA_TYPE = 2,
    TENSOR_NAME = 8,
    TENSOR_RAW_DATA = 9,
    TENSOR_EXTERNAL_DATA = 13,
    TENSOR_DATA_LOCATION = 14,
    ENTRY_KEY = 1,
    ENTRY_VALUE = 2,
    VALUE_NAME = 1,
    VALUE_TYPE = 2,
    TYPE_TENSOR = 1,
    TYPE_TENSOR_ELEMENT = 1,
    TYPE_TENSOR_SHAPE = 2,
    SHAPE_DIM = 1,
    DIM_VALUE = 1,
    DIM_PARAM = 2,
};

struct initialiser {
    size_t head_end; /* in `heads`, where the next one begins */
    uint64_t bytes;  /* behind the head */
    const void *data;
    struct prn_writer_source source;
};

struct prn_writer {
    bool large;              /* may be over 2 GiB */
    struct prn_buffer model; /* the model's own fields */
    struct prn_buffer graph; /* the graph's fields without initialisers */
    struct prn_buffer heads; /* initialisers up to their data, one behind the other */
    struct initialiser *initialisers;
    size_t n_initialisers;
    uint64_t payload_bytes;
    int64_t ir_version;
    struct prony_error fault; /* code 0: none so far */
};

static size_t varint_size(uint64_t value)
{
    uint8_t scratch[10];
    return prn_wire_put_varint(scratch, value);
}

static void add_varint(struct prn_buffer *out, uint64_t value)
{
    uint8_t bytes[10];
    prn_buffer_append(out, bytes, prn_wire_put_varint(bytes, value));
}

static void add_tag(struct prn_buffer *out, int field, enum prn_wire_type type)
{
    add_varint(out, (uint64_t)field << 3 | type);
}

static void add_int(struct prn_buffer *out, int field, int64_t value)
{
    add_tag(out, field, PRN_WIRE_TYPE_VARINT);
    add_varint(out, (uint64_t)value);
}

static void add_float(struct prn_buffer *out, int field, float value)
{
    add_tag(out, field, PRN_WIRE_TYPE_FIXED32);
    prn_buffer_append(out, &value, sizeof value);
}

static void add_bytes(struct prn_buffer *out, int field, const void *data, size_t len)
{
    add_tag(out, field, PRN_WIRE_TYPE_BYTES);
    add_varint(out, len);
    prn_buffer_append(out, data, len);
}

static void add_text(struct prn_buffer *out, int field, const char *text)
{
    add_bytes(out, field, text, strlen(text));
}

/* Makes a field of what was appended since the buffer was `start` long; its last `payload` bytes
 * aren't in the buffer but will follow it in the file. */
static void end_message_before(struct prn_buffer *out, int field, size_t start, uint64_t payload)
{
    if (out->error)
        return;
    uint8_t head[20];
    size_t body = out->len - start;
    size_t n = prn_wire_put_varint(head, (uint64_t)field << 3 | PRN_WIRE_TYPE_BYTES);
    n += prn_wire_put_varint(head + n, body + payload);
    prn_buffer_append(out, head, n);
    if (out->error)
        return;
    memmove(out->data + start + n, out->data + start, body);
    memcpy(out->data + start, head, n);
}

static void end_message(struct prn_buffer *out, int field, size_t start)
{
    end_message_before(out, field, start, 0);
}

static void add_entry(struct prn_buffer *out, int field, const char *key, const char *value)
{
    size_t start = out->len;
    add_text(out, ENTRY_KEY, key);
    add_text(out, ENTRY_VALUE, value);
    end_message(out, field, start);
}

static void add_entry_number(struct prn_buffer *out, int field, const char *key, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, value);
    add_entry(out, field, key, text);
}

static void fault(struct prn_writer *w, int code, const char *what, const char *name)
{
    if (w->fault.code == 0)
        prn_fail(&w->fault, code, "%s '%s' cannot be written to an ONNX file", what, name);
}

struct prn_writer *prn_writer_new(const char *producer, const char *version)
{
    struct prn_writer *w = calloc(1, sizeof *w);
    if (!w)
        return NULL;
    w->ir_version = 8;
    w->model = PRN_BUFFER_INIT(FILE_MAX_BYTES);
    w->graph = PRN_BUFFER_INIT(FILE_MAX_BYTES);
    w->heads = PRN_BUFFER_INIT(FILE_MAX_BYTES);
    add_text(&w->model, MODEL_PRODUCER_NAME, producer);
    add_text(&w->model, MODEL_PRODUCER_VERSION, version);
    return w;
}

void prn_writer_free(struct prn_writer *w)
{
    if (!w)
        return;
    prn_buffer_release(&w->model);
    prn_buffer_release(&w->graph);
    prn_buffer_release(&w->heads);
    free(w->initialisers);
    free(w);
}

void prn_writer_ir_version(struct prn_writer *w, int64_t version)
{
    w->ir_version = version;
}

void prn_writer_allow_large(struct prn_writer *w)
{
    w->large = true;
}

void prn_writer_graph_name(struct prn_writer *w, const char *name)
{
    add_text(&w->graph, GRAPH_NAME, name);
}

void prn_writer_opset(struct prn_writer *w, const char *domain, int64_t version)
{
    size_t start = w->model.len;
    add_text(&w->model, OPSET_DOMAIN, domain);
    add_int(&w->model, OPSET_VERSION, version);
    end_message(&w->model, MODEL_OPSET, start);
}

static void add_value(struct prn_writer *w, struct prn_buffer *out, int field,
                      const struct prn_value *value)
{
    size_t start = out->len;
    add_text(out, VALUE_NAME, value->name);
    if (value->kind == PRN_VALUE_TENSOR) {
        size_t type = out->len;
        size_t tensor = out->len;
        add_int(out, TYPE_TENSOR_ELEMENT, value->dtype);
        size_t shape = out->len;
        for (size_t i = 0; value->has_shape && i < value->rank; i++) {
            size_t dim = out->len;
            if (value->dims[i].value >= 0)
                add_int(out, DIM_VALUE, value->dims[i].value);
            else if (value->dims[i].param)
                add_text(out, DIM_PARAM, value->dims[i].param);
            end_message(out, SHAPE_DIM, dim);
        }
        if (value->has_shape)
            end_message(out, TYPE_TENSOR_SHAPE, shape);
        end_message(out, TYPE_TENSOR, tensor);
        end_message(out, VALUE_TYPE, type);
    } else if (value->kind != PRN_VALUE_UNKNOWN) {
        fault(w, PRONY_EUNSUPPORTED, "value", value->name);
    }
    end_message(out, field, start);
}

void prn_writer_input(struct prn_writer *w, const struct prn_value *value)
{
    add_value(w, &w->graph, GRAPH_INPUT, value);
}

void prn_writer_output(struct prn_writer *w, const struct prn_value *value)
{
    add_value(w, &w->graph, GRAPH_OUTPUT, value);
}

void prn_writer_value(struct prn_writer *w, const struct prn_value *value)
{
    add_value(w, &w->graph, GRAPH_VALUE, value);
}

/* A tensor up to its data. */
static void add_tensor_head(struct prn_buffer *out, const struct prn_constant *t)
{
    for (size_t i = 0; i < t->rank; i++)
        add_int(out, TENSOR_DIMS, t->dims[i]);
    add_int(out, TENSOR_DATA_TYPE, t->dtype);
    if (t->name)
        add_text(out, TENSOR_NAME, t->name);
}

static void add_tensor_location(struct prn_buffer *out, const struct prn_constant *t)
{
    add_entry(out, TENSOR_EXTERNAL_DATA, "location", t->external_location);
    add_entry_number(out, TENSOR_EXTERNAL_DATA, "offset", t->external_offset);
    add_entry_number(out, TENSOR_EXTERNAL_DATA, "length", t->external_length);
    add_int(out, TENSOR_DATA_LOCATION, 1);
}

/* A whole tensor, data included: for attributes and inner graphs, where tensors are small. */
static void add_tensor(struct prn_writer *w, struct prn_buffer *out, int field,
                       const struct prn_constant *t)
{
    size_t start = out->len;
    add_tensor_head(out, t);
    if (t->data || (t->elements == 0 && t->dtype != PRN_DTYPE_STRING))
        add_bytes(out, TENSOR_RAW_DATA, t->data, t->bytes);
    else if (t->external_location)
        add_tensor_location(out, t);
    else
        fault(w, PRONY_EUNSUPPORTED, "tensor", t->name ? t->name : "");
    end_message(out, field, start);
}

static void add_graph(struct prn_writer *w, struct prn_buffer *out, int field,
                      const struct prn_graph *graph, int depth);

static void add_attribute(struct prn_writer *w, struct prn_buffer *out,
                          const struct prn_attribute *a, int depth)
{
    /* AttributeProto.AttributeType, in the order of enum prn_attribute_kind. */
    static const int types[] = {1, 2, 3, 4, 5, 6, 7, 8, 10};
    if (a->kind >= PRN_ATTRIBUTE_OTHER) {
        fault(w, PRONY_EUNSUPPORTED, "attribute", a->name);
        return;
    }
    size_t start = out->len;
    add_text(out, ATTRIBUTE_NAME, a->name);
    add_int(out, ATTRIBUTE_TYPE, types[a->kind]);
    switch (a->kind) {
    case PRN_ATTRIBUTE_FLOAT:
        add_float(out, ATTRIBUTE_F, a->floats[0]);
        break;
    case PRN_ATTRIBUTE_INT:
        add_int(out, ATTRIBUTE_I, a->ints[0]);
        break;
    case PRN_ATTRIBUTE_STRING:
        add_text(out, ATTRIBUTE_S, a->strings[0]);
        break;
    case PRN_ATTRIBUTE_TENSOR:
        add_tensor(w, out, ATTRIBUTE_T, a->tensor);
        break;
    case PRN_ATTRIBUTE_GRAPH:
        add_graph(w, out, ATTRIBUTE_G, a->graphs[0], depth + 1);
        break;
    case PRN_ATTRIBUTE_FLOATS:
        for (size_t i = 0; i < a->n; i++)
            add_float(out, ATTRIBUTE_FLOATS, a->floats[i]);
        break;
    case PRN_ATTRIBUTE_INTS:
        for (size_t i = 0; i < a->n; i++)
            add_int(out, ATTRIBUTE_INTS, a->ints[i]);
        break;
    case PRN_ATTRIBUTE_STRINGS:
        for (size_t i = 0; i < a->n; i++)
            add_text(out, ATTRIBUTE_STRINGS, a->strings[i]);
        break;
    default:
        for (size_t i = 0; i < a->n; i++)
            add_graph(w, out, ATTRIBUTE_GRAPHS, a->graphs[i], depth + 1);
        break;
    }
    end_message(out, NODE_ATTRIBUTE, start);
}

static void add_node(struct prn_writer *w, struct prn_buffer *out, const struct prn_node *node,
                     int depth)
{
    size_t start = out->len;
    for (size_t i = 0; i < node->n_inputs; i++)
        add_text(out, NODE_INPUT, node->inputs[i]);
    for (size_t i = 0; i < node->n_outputs; i++)
        add_text(out, NODE_OUTPUT, node->outputs[i]);
    if (node->name && node->name[0])
        add_text(out, NODE_NAME, node->name);
    add_text(out, NODE_OP_TYPE, node->op_type);
    for (size_t i = 0; i < node->n_attributes; i++)
        add_attribute(w, out, &node->attributes[i], depth);
    if (node->domain && node->domain[0])
        add_text(out, NODE_DOMAIN, node->domain);
    end_message(out, GRAPH_NODE, start);
}

static void add_graph(struct prn_writer *w, struct prn_buffer *out, int field,
                      const struct prn_graph *graph, int depth)
{
    if (depth > DEPTH_MAX) {
        fault(w, PRONY_ELIMIT, "deeply nested graph", graph->name);
        return;
    }
    size_t start = out->len;
    add_text(out, GRAPH_NAME, graph->name);
    for (size_t i = 0; i < graph->n_nodes; i++)
        add_node(w, out, &graph->nodes[i], depth);
    for (size_t i = 0; i < graph->n_constants; i++)
        add_tensor(w, out, GRAPH_INITIALISER, &graph->constants[i]);
    for (size_t i = 0; i < graph->n_inputs; i++)
        add_value(w, out, GRAPH_INPUT, &graph->inputs[i]);
    for (size_t i = 0; i < graph->n_outputs; i++)
        add_value(w, out, GRAPH_OUTPUT, &graph->outputs[i]);
    for (size_t i = 0; i < graph->n_values; i++)
        add_value(w, out, GRAPH_VALUE, &graph->values[i]);
    end_message(out, field, start);
}

void prn_writer_node(struct prn_writer *w, const struct prn_node *node)
{
    add_node(w, &w->graph, node, 0);
}

static struct initialiser *new_initialiser(struct prn_writer *w)
{
    size_t n = w->n_initialisers;
    struct initialiser *more = prn_array_grow(w->initialisers, n, sizeof *more);
    if (!more) {
        if (w->fault.code == 0)
            prn_fail_memory(&w->fault);
        return NULL;
    }
    w->initialisers = more;
    struct initialiser *i = &w->initialisers[w->n_initialisers++];
    *i = (struct initialiser){0};
    return i;
}

void prn_writer_initialiser(struct prn_writer *w, const struct prn_constant *constant,
                            const struct prn_writer_source *source)
{
    if (!source && !constant->data && constant->elements > 0 && !constant->external_location) {
        fault(w, PRONY_EUNSUPPORTED, "initialiser", constant->name);
        return;
    }
    struct initialiser *i = new_initialiser(w);
    if (!i)
        return;
    struct prn_buffer *out = &w->heads;
    size_t start = out->len;
    add_tensor_head(out, constant);
    if (source || constant->data || constant->elements == 0) {
        i->data = constant->data;
        i->bytes = constant->bytes;
        if (source)
            i->source = *source;
        add_tag(out, TENSOR_RAW_DATA, PRN_WIRE_TYPE_BYTES);
        add_varint(out, constant->bytes);
    } else {
        add_tensor_location(out, constant);
    }
    end_message_before(out, GRAPH_INITIALISER, start, i->bytes);
    i->head_end = out->len;
    if (__builtin_add_overflow(w->payload_bytes, i->bytes, &w->payload_bytes))
        w->payload_bytes = UINT64_MAX;
}

/* An initialiser whose whole message is payload. */
static void copy_initialiser(struct prn_writer *w, int field, const void *message, size_t len)
{
    struct initialiser *i = new_initialiser(w);
    if (!i)
        return;
    i->data = message;
    i->bytes = len;
    end_message_before(&w->heads, field, w->heads.len, len);
    i->head_end = w->heads.len;
    if (__builtin_add_overflow(w->payload_bytes, len, &w->payload_bytes))
        w->payload_bytes = UINT64_MAX;
}

void prn_writer_copy(struct prn_writer *w, enum prn_writer_part part, const void *message,
                     size_t len)
{
    switch (part) {
    case PRN_WRITER_OPSET:
        add_bytes(&w->model, MODEL_OPSET, message, len);
        break;
    case PRN_WRITER_FUNCTION:
        add_bytes(&w->model, MODEL_FUNCTION, message, len);
        break;
    case PRN_WRITER_NODE:
        add_bytes(&w->graph, GRAPH_NODE, message, len);
        break;
    case PRN_WRITER_INPUT:
        add_bytes(&w->graph, GRAPH_INPUT, message, len);
        break;
    case PRN_WRITER_OUTPUT:
        add_bytes(&w->graph, GRAPH_OUTPUT, message, len);
        break;
    case PRN_WRITER_VALUE:
        add_bytes(&w->graph, GRAPH_VALUE, message, len);
        break;
    case PRN_WRITER_INITIALISER:
        copy_initialiser(w, GRAPH_INITIALISER, message, len);
        break;
    case PRN_WRITER_SPARSE:
        copy_initialiser(w, GRAPH_SPARSE, message, len);
        break;
    }
}

void prn_writer_copy_node(struct prn_writer *w, const void *message, size_t len,
                          const char *const *outputs, size_t n_outputs)
{
    struct prn_wire wire = {message, (const uint8_t *)message + len};
    struct prn_wire_field field;
    struct prn_buffer *node = &w->graph;
    size_t start = node->len;
    size_t output = 0;
    while (wire.at < wire.end) {
        const uint8_t *begin = wire.at;
        if (prn_wire_next(&wire, &field) != PRN_WIRE_FINE)
            break; /* whoever reads the file will say so */
        if (field.number == NODE_OUTPUT && output < n_outputs)
            add_text(node, NODE_OUTPUT, outputs[output++]);
        else
            prn_buffer_append(node, begin, (size_t)(wire.at - begin));
    }
    end_message(node, GRAPH_NODE, start);
}

static uint64_t graph_bytes(const struct prn_writer *w)
{
    uint64_t small = w->graph.len + w->heads.len;
    return w->payload_bytes > UINT64_MAX / 2 ? UINT64_MAX / 2 : small + w->payload_bytes;
}

uint64_t prn_writer_bytes(const struct prn_writer *w)
{
    uint64_t graph = graph_bytes(w);
    return 1 + varint_size((uint64_t)w->ir_version) + w->model.len + 1 + varint_size(graph) + graph;
}

int prn_writer_check(const struct prn_writer *w, const char *name, struct prony_error *err)
{
    if (w->fault.code)
        return prn_fail(err, w->fault.code, "%s", w->fault.text);
    if (w->model.error == PRONY_ENOMEM || w->graph.error == PRONY_ENOMEM ||
        w->heads.error == PRONY_ENOMEM)
        return prn_fail_memory(err);
    if (w->model.error || w->graph.error || w->heads.error ||
        (!w->large && prn_writer_bytes(w) > FILE_MAX_BYTES))
        return prn_fail(err, PRONY_ELIMIT,
                        "cannot write '%s': the model is over 2 GiB, more than one ONNX file holds",
                        name);
    return 0;
}

static int put(int fd, const void *data, size_t len, const char *name, struct prony_error *err)
{
    return prn_write_all(fd, data, len) < 0 ? prn_fail_errno(err, errno, "write", name) : 0;
}

static int write_initialiser(const struct initialiser *i, int fd, uint8_t *chunk, const char *name,
                             struct prony_error *err)
{
    if (!i->source.read)
        return put(fd, i->data, i->bytes, name, err);
    for (uint64_t left = i->bytes; left > 0;) {
        size_t n = left < PRN_WRITER_CHUNK ? (size_t)left : PRN_WRITER_CHUNK;
        int code = i->source.read(i->source.context, chunk, n, err);
        if (code == 0)
            code = put(fd, chunk, n, name, err);
        if (code < 0)
            return code;
        left -= n;
    }
    return 0;
}

static int write_initialisers(const struct prn_writer *w, int fd, const char *name,
                              struct prony_error *err)
{
    uint8_t *chunk = malloc(PRN_WRITER_CHUNK);
    if (!chunk)
        return prn_fail_memory(err);
    int code = 0;
    size_t head = 0;
    for (size_t n = 0; n < w->n_initialisers && code == 0; n++) {
        const struct initialiser *i = &w->initialisers[n];
        code = put(fd, w->heads.data + head, i->head_end - head, name, err);
        if (code == 0)
            code = write_initialiser(i, fd, chunk, name, err);
        head = i->head_end;
    }
    free(chunk);
    return code;
}

int prn_writer_write(struct prn_writer *w, int fd, const char *name, struct prony_error *err)
{
    int code = prn_writer_check(w, name, err);
    if (code < 0)
        return code;
    struct prn_buffer start = PRN_BUFFER_INIT(FILE_MAX_BYTES);
    add_int(&start, MODEL_IR_VERSION, w->ir_version);
    prn_buffer_append(&start, w->model.data, w->model.len);
    add_tag(&start, MODEL_GRAPH, PRN_WIRE_TYPE_BYTES);
    add_varint(&start, graph_bytes(w));
    code = prn_buffer_error(&start, err);
    if (code == 0)
        code = put(fd, start.data, start.len, name, err);
    prn_buffer_release(&start);
    if (code == 0)
        code = put(fd, w->graph.data, w->graph.len, name, err);
    return code == 0 ? write_initialisers(w, fd, name, err) : code;
}
