#include "rpc/relay.h"

#include "rpc/message_parts.h"

#include <string.h>

#define FIELD_ID 1 /* of WorkerCommand and WorkerReport */
#define FIELD_INPUTS 3
#define HEAD_MAX_BYTES 128

/* ---- Reading ---- */

static int malformed(struct prony_error *err, int code)
{
    return prn_fail_in(err, code, "malformed message");
}

int prn_relay_peek(const struct prn_bytes *bytes, uint64_t *ret_id, unsigned *ret_body,
                   struct prony_error *err)
{
    struct prn_rpc_wire w = prn_rpc_wire_of(bytes, err);
    struct prn_rpc_field field;
    uint64_t id = 0;
    unsigned body = 0;
    int r;
    while ((r = prn_rpc_wire_next(&w, &field)) > 0)
        if (field.number == FIELD_ID)
            id = field.value;
        else
            body = field.number;
    if (r < 0)
        return malformed(err, r);
    *ret_id = id;
    *ret_body = body;
    return 0;
}

/* What the field of this number holds; of several the last one counts. */
static int find(const struct prn_bytes *bytes, uint32_t number, struct prn_rpc_wire *ret_body,
                struct prony_error *err)
{
    struct prn_rpc_wire w = prn_rpc_wire_of(bytes, err);
    struct prn_rpc_field field;
    bool found = false;
    int r;
    while ((r = prn_rpc_wire_next(&w, &field)) > 0) {
        if (field.number != number)
            continue;
        r = prn_rpc_wire_expect(&w, &field, PRN_WIRE_TYPE_BYTES);
        if (r < 0)
            return r;
        *ret_body = prn_rpc_wire_in(&w, field.range);
        found = true;
    }
    return r == 0 && !found ? prn_fail(err, PRONY_EFORMAT, "field %u is missing", number) : r;
}

static int read_field(const struct prn_rpc_wire *w, const struct prn_rpc_field *field,
                      struct prn_relay_run *run)
{
    uint64_t backend = 0;
    uint64_t outputs = 0;
    uint64_t *const numbers[] = {
        [1] = &run->model_id,      [2] = &backend, [4] = &run->warmups, [5] = &run->repeats,
        [6] = &run->repeat_for_ms, [7] = &outputs,
    };
    if (field->number == 8) {
        int r = prn_rpc_wire_expect(w, field, PRN_WIRE_TYPE_FIXED64);
        if (r == 0)
            prn_bytes_copy(w->bytes, field->range, &run->timeout_s);
        return r;
    }
    if (field->number >= PRN_ARRAY_SIZE(numbers) || !numbers[field->number])
        return 0;
    int r = prn_rpc_wire_expect(w, field, PRN_WIRE_TYPE_VARINT);
    if (r < 0)
        return r;
    *numbers[field->number] = field->value;
    if (backend > UINT32_MAX)
        return prn_fail(w->err, PRONY_EFORMAT, "an impossible backend");
    if (field->number == 2)
        run->backend = (uint32_t)backend;
    run->outputs |= outputs != 0;
    return 0;
}

int prn_relay_read_run(const struct prn_bytes *bytes, struct prn_arena *arena,
                       struct prn_relay_run *ret_run, struct prony_error *err)
{
    struct prn_rpc_wire w;
    struct prn_rpc_field field;
    struct prn_relay_run run = {0};
    int r = find(bytes, PRN_RELAY_COMMAND_RUN, &w, err);
    if (r == 0)
        r = prn_rpc_read_values(&w, FIELD_INPUTS, "input", arena, &run.inputs, &run.n_inputs);
    if (r < 0)
        return malformed(err, r);
    while ((r = prn_rpc_wire_next(&w, &field)) > 0) {
        r = read_field(&w, &field, &run);
        if (r < 0)
            break;
    }
    if (r < 0)
        return malformed(err, r);
    *ret_run = run;
    return 0;
}

int prn_relay_read_ran(const struct prn_bytes *bytes, struct prn_arena *arena,
                       struct prn_rpc_result *ret_result, struct prony_error *err)
{
    struct prn_rpc_wire w;
    struct prn_rpc_result result = {0};
    int r = find(bytes, PRN_RELAY_REPORT_RAN, &w, err);
    if (r == 0)
        r = prn_rpc_read_result_value(&w, arena, &result);
    if (r < 0)
        return malformed(err, r);
    *ret_result = result;
    return 0;
}

int prn_relay_read_chunk(const struct prn_bytes *bytes, struct prn_range *ret_chunk,
                         struct prony_error *err)
{
    struct prn_rpc_wire w;
    int r = find(bytes, 1, &w, err);
    if (r < 0)
        return malformed(err, r);
    *ret_chunk = (struct prn_range){w.at, w.end - w.at};
    return 0;
}

/* ---- Writing ---- */

struct head {
    size_t length;
    uint8_t data[HEAD_MAX_BYTES];
};

static void put(struct head *head, uint32_t number, enum prn_wire_type type, uint64_t value)
{
    head->length += prn_rpc_put_field(head->data + head->length, number, type, value);
}

static void release_bytes(void *bytes)
{
    prn_bytes_free(bytes);
}

struct prn_out *prn_relay_write_run(uint64_t id, const struct prn_relay_run *run,
                                    struct prn_bytes *source)
{
    struct prn_rpc_loan *loan = prn_rpc_loan_new(release_bytes, source);
    if (!loan)
        return NULL;
    struct prn_out *out = prn_out_new();
    struct head fields = {0};
    put(&fields, 1, PRN_WIRE_TYPE_VARINT, run->model_id);
    put(&fields, 2, PRN_WIRE_TYPE_VARINT, run->backend);
    put(&fields, 4, PRN_WIRE_TYPE_VARINT, run->warmups);
    put(&fields, 5, PRN_WIRE_TYPE_VARINT, run->repeats);
    put(&fields, 6, PRN_WIRE_TYPE_VARINT, run->repeat_for_ms);
    put(&fields, 7, PRN_WIRE_TYPE_VARINT, run->outputs);
    fields.data[fields.length++] = 8 << 3 | PRN_WIRE_TYPE_FIXED64;
    memcpy(fields.data + fields.length, &run->timeout_s, sizeof run->timeout_s);
    fields.length += sizeof run->timeout_s;
    size_t length = fields.length;
    for (size_t i = 0; i < run->n_inputs; i++)
        length += prn_rpc_value_length(&run->inputs[i]);
    struct head head = {0};
    put(&head, FIELD_ID, PRN_WIRE_TYPE_VARINT, id);
    put(&head, PRN_RELAY_COMMAND_RUN, PRN_WIRE_TYPE_BYTES, length);
    prn_out_copy(out, head.data, head.length);
    prn_out_copy(out, fields.data, fields.length);
    for (size_t i = 0; i < run->n_inputs; i++)
        prn_rpc_put_value(out, FIELD_INPUTS, &run->inputs[i], source, loan);
    prn_rpc_loan_end(loan);
    return out;
}

struct prn_out *prn_relay_write_ran(uint64_t id, const struct prn_rpc_result *result,
                                    void (*release)(void *), void *context)
{
    struct prn_rpc_loan *loan = prn_rpc_loan_new(release, context);
    if (!loan)
        return NULL;
    struct prn_out *out = prn_out_new();
    struct head head = {0};
    put(&head, FIELD_ID, PRN_WIRE_TYPE_VARINT, id);
    prn_out_copy(out, head.data, head.length);
    prn_rpc_put_result_value(out, PRN_RELAY_REPORT_RAN, result, loan);
    prn_rpc_loan_end(loan);
    return out;
}
