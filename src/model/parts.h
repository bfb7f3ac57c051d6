/*
 * Inside the model reader: what open.c (bytes to messages), read.c (messages to structs),
 * constant.c (tensors and external data) and check.c (names, order and cycles) share. Nobody else
 * includes this but tests.
 */
#ifndef PRN_MODEL_PARTS_H
#define PRN_MODEL_PARTS_H

#include "base/map.h"
#include "model/model.h"
#include "model/scan.h"

/* Most memory that the structure of a model may take. */
#define PRN_READER_BYTES_MAX ((size_t)1 << 30)
/* Constants in typed fields are decoded up to this size. */
#define PRN_READER_DECODE_MAX ((size_t)64 << 10)
/* Calls of model functions inside model functions. */
#define PRN_READER_CALLS_MAX 64

struct prn_reader {
    struct prn_model *model; /* being filled */
    struct prn_arena *arena;
    struct prn_payloads payloads;
    int folder_fd;                 /* the model's folder, once external data was met; else -1 */
    struct prn_map external_bytes; /* location → size of its file */
    const struct prn_model_fetch *fetch; /* NULL: external data is where it should be */
    struct prony_error *err;
};

/* The arena gave nothing: says so. */
int prn_reader_full(struct prn_reader *r);

/* Fills the model from its messages, which have a graph, and checks it. */
PRONY_MUST_CHECK int prn_model_read(struct prn_reader *r, const Onnx__ModelProto *proto);

/* Reads and checks one tensor; data is located, not read. */
PRONY_MUST_CHECK int prn_constant_read(struct prn_reader *r, const Onnx__TensorProto *tensor,
                                       struct prn_constant *ret_constant);

/* Names are defined once, nothing is cyclic; graphs in graphs and functions too. Puts nodes into
 * order where they aren't, as runtimes do. */
PRONY_MUST_CHECK int prn_model_check(struct prn_reader *r);

/* prn_model_open() for bytes in memory, which must outlive the model. `path` is for errors, and its
 * folder for external data. */
PRONY_MUST_CHECK int prn_model_parse(const void *data, size_t size, const char *path,
                                     struct prn_model **ret_model, struct prony_error *err);

#endif
