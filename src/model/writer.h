/*
 * Writes ONNX files, in the terms in which model.h reads them.
 *
 * Everything but the weights is encoded as it is added, so what is passed is borrowed for the call
 * only. Weights are pulled when the file is written, a chunk at a time, from memory or from a
 * source: their sizes are known before, so a model of any size takes the memory of its graph.
 *
 * The first fault sticks; prn_writer_write() reports it and writes nothing then.
 *
 *     struct prn_writer *w = prn_writer_new("prony", prony_version());
 *     prn_writer_opset(w, "", 17);
 *     prn_writer_input(w, &input);
 *     prn_writer_initialiser(w, &weight, &source);
 *     prn_writer_node(w, &node);
 *     prn_writer_output(w, &output);
 *     code = prn_writer_write(w, fd, "model.onnx", &err);
 *     prn_writer_free(w);
 */
#ifndef PRN_MODEL_WRITER_H
#define PRN_MODEL_WRITER_H

#include "model/model.h"

struct prn_writer;

/* Gives the next `len` little-endian bytes of an initialiser. Calls come in order, each with
 * PRN_WRITER_CHUNK bytes but for the last. */
#define PRN_WRITER_CHUNK 65536
struct prn_writer_source {
    int (*read)(void *context, void *data, size_t len, struct prony_error *err);
    void *context;
};

/* NULL: out of memory. The producer's name and version go into the file. */
struct prn_writer *prn_writer_new(const char *producer, const char *version);
void prn_writer_free(struct prn_writer *w);

void prn_writer_ir_version(struct prn_writer *w, int64_t version); /* 8 unless told */
/* Over 2 GiB, a file is ONNX by its form, but protobuf doesn't read it; prony does. */
void prn_writer_allow_large(struct prn_writer *w);
void prn_writer_graph_name(struct prn_writer *w, const char *name);
void prn_writer_opset(struct prn_writer *w, const char *domain, int64_t version);

/* Nodes must come in topological order. Attributes of kind OTHER and tensors whose bytes aren't at
 * hand can't be written and are a fault. */
void prn_writer_node(struct prn_writer *w, const struct prn_node *node);

/* Tensors and values without a type; other kinds are a fault. */
void prn_writer_input(struct prn_writer *w, const struct prn_value *value);
void prn_writer_output(struct prn_writer *w, const struct prn_value *value);
void prn_writer_value(struct prn_writer *w, const struct prn_value *value);

/* From `source` if there is one, else from constant->data (borrowed until written), else a
 * reference to its external file. */
void prn_writer_initialiser(struct prn_writer *w, const struct prn_constant *constant,
                            const struct prn_writer_source *source);

/* A part of another model, in the bytes in which that model's file has it: everything that it says
 * is kept, whether prony knows of it or not. Bytes of an initialiser are borrowed until written. */
enum prn_writer_part {
    PRN_WRITER_OPSET,
    PRN_WRITER_FUNCTION,
    PRN_WRITER_NODE,
    PRN_WRITER_INPUT,
    PRN_WRITER_OUTPUT,
    PRN_WRITER_VALUE,
    PRN_WRITER_INITIALISER,
    PRN_WRITER_SPARSE, /* a sparse initialiser */
};
void prn_writer_copy(struct prn_writer *w, enum prn_writer_part part, const void *message,
                     size_t len);

/* The same of a node, whose outputs get these names instead of their own. */
void prn_writer_copy_node(struct prn_writer *w, const void *message, size_t len,
                          const char *const *outputs, size_t n_outputs);

/* Bytes that the file will have. */
uint64_t prn_writer_bytes(const struct prn_writer *w);

/* The fault that has stuck, if any, or that the file would be too large. */
PRONY_MUST_CHECK int prn_writer_check(const struct prn_writer *w, const char *name,
                                      struct prony_error *err);

/* Writes the model from the descriptor's position on; `name` is for errors. Once only: sources are
 * used up. A file of 2 GiB or more is refused, because protobuf can't read it back. */
PRONY_MUST_CHECK int prn_writer_write(struct prn_writer *w, int fd, const char *name,
                                      struct prony_error *err);

#endif
