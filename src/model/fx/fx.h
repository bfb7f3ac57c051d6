/*
 * FXPROTO (proto/fxgraph.proto): a graph of ATen operators, as torch.fx has it, in a file
 * "model.dat" with weights in "weights/0", "weights/1", … beside it. It comes over a network, and
 * Python runs what it says, so nothing of it is believed:
 *
 * - a walk over the bytes bounds what protobuf-c doesn't: size, depth, the number of fields, NULs;
 * - names are identifiers, and a node is named once; values refer to nodes before them, so there is
 *   no cycle; placeholders come first, and the one output comes last;
 * - what is called is an operator, one of a few functions on sizes, or one of a few that take
 *   graphs, whose graphs are checked like this one; which operators are run, the runtime knows;
 * - tensors lie within their files, with as many bytes as their shape takes.
 */
#ifndef PRN_MODEL_FX_H
#define PRN_MODEL_FX_H

#include "base/arena.h"
#include "base/error.h"

#include <fxgraph.pb-c.h>

#define PRN_FX_MODEL_NAME "model.dat"
#define PRN_FX_BYTES_MAX ((size_t)64 << 20)
#define PRN_FX_NAME_MAX 1024
#define PRN_FX_RANK_MAX 64
#define PRN_FX_FILES_MAX 10000 /* of weights */
#define PRN_FX_DIGITS_MAX 1000 /* of an integer */

/* A model that was read, with what its runs take and give. */
struct prn_fx {
    OctomlFxproto__Model *model;
    size_t n_inputs;     /* placeholders behind the fixed ones */
    const char **inputs; /* their names */
    size_t n_outputs;    /* nodes and tensors in the output's value, in order */
};

/* Reads and checks a model, all but whether its weights are there. */
PRONY_MUST_CHECK int prn_fx_unpack(const void *data, size_t bytes, struct prn_fx **ret_fx,
                                   struct prony_error *err);

/* Reads it from a file, and checks that its weights lie in the files beside it. */
PRONY_MUST_CHECK int prn_fx_open(const char *path, struct prn_fx **ret_fx, struct prony_error *err);

void prn_fx_free(struct prn_fx *fx); /* NULL does nothing */

/* What prn_fx_unpack checks of a message that was unpacked, or made to be packed. */
PRONY_MUST_CHECK int prn_fx_check(const OctomlFxproto__Model *model, struct prony_error *err);

/* "output_0": results have no names of their own. */
#define PRN_FX_OUTPUT_NAME "output_%zu"

#endif
