/*
 * The bounded walk over a model file's bytes, before protobuf-c sees any of them.
 *
 * protobuf-c copies every byte, fails past 2 GiB and recurses as deep as the input asks. So the
 * walk goes first, without recursion: it checks every length against what is left, limits depth and
 * counts, and copies the structure, without documentation and unknown fields, into a compact
 * message of the same type. Tensor data isn't copied but for small tensors. Each TensorProto of the
 * compact message carries in place of its raw_data a mark, from which prn_payload_of() finds where
 * the data lies.
 */
#ifndef PRN_MODEL_SCAN_H
#define PRN_MODEL_SCAN_H

#include "base/buffer.h"
#include "onnx/onnx.pb-c.h"

#define PRN_SCAN_GRAPHS_MAX 64                     /* levels of graphs inside graphs */
#define PRN_SCAN_FRAMES_MAX 256                    /* levels of messages inside messages */
#define PRN_SCAN_TENSORS_MAX ((size_t)1 << 22)     /* tensors in a file */
#define PRN_SCAN_STRUCTURE_MAX ((size_t)256 << 20) /* bytes without tensor data */
#define PRN_SCAN_FIELDS_MAX ((uint64_t)256 << 20)  /* fields, unknown ones included */

/* Where the data of one TensorProto lies. */
struct prn_payload {
    const uint8_t *message; /* the TensorProto as written */
    size_t message_len;
    const uint8_t *raw; /* raw_data; NULL when absent or empty */
    size_t raw_len;
    uint32_t typed_field; /* float_data, int32_data, …: the field's number; 0 when there is none */
    bool typed_mixed;     /* data in more than one typed field */
    bool typed_exact;     /* typed_entries was counted; else it is a lower bound */
    uint64_t typed_entries;
    uint64_t typed_bytes;
    uint64_t n_strings;
};

struct prn_payloads {
    struct prn_payload *items;
    size_t n;
};

/* `mapped`: the bytes are a read-only map of a file, whose pages may be given back on the way.
 * `out` is empty and gets the compact ModelProto. Errors don't name the file. */
PRONY_MUST_CHECK int prn_scan(const void *data, size_t size, bool mapped, struct prn_buffer *out,
                              struct prn_payloads *ret_payloads, struct prony_error *err);
void prn_payloads_release(struct prn_payloads *payloads);

/* Where the data of a tensor of the unpacked compact message lies: in the scanned bytes or, when
 * the tensor is small, in the message itself. False for a tensor that didn't come from prn_scan().
 */
bool prn_payload_of(const struct prn_payloads *payloads, const Onnx__TensorProto *tensor,
                    struct prn_payload *ret_payload);

#endif
