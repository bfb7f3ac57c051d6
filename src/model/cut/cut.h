/*
 * Cutting a model into layers: parts that run one after the other, each a model of its own, which
 * together compute what the whole does.
 *
 * The nodes are put into an order in which the tensors that are alive between two of them (made
 * before, needed after) are few; a cut goes between two nodes of that order, and what is alive
 * there goes from one layer to the next. Weights are never alive: a layer has those that it needs,
 * and so may its neighbour. Neither is what is computed from constants alone, or takes more bytes
 * than what it is computed from (a mask made of a length): each layer that needs it computes it
 * again. A model's input that a later layer needs is carried through those before it. A model's
 * output leaves with the layer that computes it.
 *
 *     prn_model_bind(model, &bindings, &arena, &inputs, err);
 *     prn_model_analyse(model, inputs, &work, err);
 *     prn_cuts_find(model, inputs, work, &(struct prn_cut_options){0}, &cuts, err);
 *     for (size_t i = 0; i < cuts->n_layers; i++)
 *         prn_cut_write(cuts, i, NULL, fd, "layer.onnx", err);
 *     prn_cuts_free(cuts);
 *
 * The model, its inputs and its work must outlive the cuts. The same model, inputs and options give
 * the same layers, and the same bytes, everywhere.
 */
#ifndef PRN_MODEL_CUT_H
#define PRN_MODEL_CUT_H

#include "model/model.h"

#define PRN_CUT_TENSORS_DEFAULT 2
#define PRN_CUT_BATCH_DEFAULT 8
#define PRN_CUT_LAYERS_MAX 4096

struct prn_cut_options {
    /* Cut at these tensors, or behind these nodes, and nowhere else: names with the wildcards of
     * prn_text_glob(). With none, the model is cut between its groups of operators with weights. */
    const char *const *patterns;
    size_t n_patterns;
    size_t n_layers; /* neighbours are joined to so many layers of balanced work; 0: they aren't */
    size_t max_tensors; /* most that may be alive at a cut; 0: PRN_CUT_TENSORS_DEFAULT. Tiny ones,
                         * less than 1/64 of the largest there, don't count, up to 8 of them.
                         * Patterns may cut where there are more. */
    /* Neighbours are joined to parts that end with these layers, numbered from 1, ascending; the
     * last is the model's last. With none they aren't. */
    const size_t *ends;
    size_t n_ends;
};

/* "auto", a number of layers, or names with commas between; NULL is "auto". Patterns belong to
 * `arena`. */
PRONY_MUST_CHECK int prn_cut_options_parse(const char *text, size_t max_tensors,
                                           struct prn_arena *arena,
                                           struct prn_cut_options *ret_options,
                                           struct prony_error *err);

/* The batch is the outer dimension of the inputs, where it is open: all dimensions of its name get
 * the size. 0: 8, and nothing has to be open. */
PRONY_MUST_CHECK int prn_cut_bind_batch(const struct prn_model *model, int64_t batch,
                                        struct prn_input *inputs, struct prony_error *err);

/* A tensor that goes into or out of a layer. */
struct prn_cut_tensor {
    /* As the layer's file declares it: dimensions that the model leaves open are open here too. */
    struct prn_value value;
    const int64_t *dims; /* with the sizes that were given, -1 where not known; NULL: no shape */
    double elements;     /* NAN: not known */
    double bytes;        /* NAN: not known */
};

struct prn_layer {
    size_t n_in, n_out, n_results, n_nodes, n_constants;
    /* What it takes: the model's inputs, or what the layer before hands on. */
    const struct prn_cut_tensor *const *in;
    /* What it hands on, newest first; nothing for the last layer. */
    const struct prn_cut_tensor *const *out;
    /* The model's outputs that it computes; some may be handed on too. */
    const struct prn_cut_tensor *const *results;
    const size_t *nodes;     /* of the graph, in an order in which they can run */
    const size_t *constants; /* initialisers of the graph that they read */
    uint64_t n_parameters;   /* elements of initialisers, those inside its nodes included */
    uint64_t weight_bytes;
    double flops, bytes; /* of what was counted */
    size_t n_uncounted;  /* nodes that weren't */
};

/* What a higher limit of tensors would change. */
struct prn_cut_hint {
    size_t max_tensors; /* 0: nothing that is worth a word */
    size_t n_layers;
    size_t layer;         /* the largest now, from 1 */
    double share, larger; /* of all work: of the largest layer then and now */
};

struct prn_cuts {
    size_t n_layers;
    struct prn_cut_hint hint;
    /* Behind the last one, at [n_layers], is the whole: all nodes as one layer that also gives what
     * passes between layers. A runtime that has to give those tensors can't fuse nodes across the
     * cuts; otherwise it is free to optimise. */
    const struct prn_layer *layers;
    /* For the caller to set: the whole is written so that what passes isn't given but goes through
     * a Reshape to its own shape. Where a runtime keeps it, nothing gets past it, not even a layout
     * in memory, and nothing more has to be written than by the layers. */
    bool whole_reshapes;
};

/* PRONY_EUSAGE when the options ask for what the model doesn't have, PRONY_EUNSUPPORTED when there
 * is no place to cut, or a value that is no tensor passes the place that is asked for. */
PRONY_MUST_CHECK int prn_cuts_find(const struct prn_model *model, const struct prn_input *inputs,
                                   const struct prn_work *work,
                                   const struct prn_cut_options *options,
                                   struct prn_cuts **ret_cuts, struct prony_error *err);
void prn_cuts_free(struct prn_cuts *cuts);

/* What a layer gives: what it hands on or, the last one, its results. */
const struct prn_cut_tensor *const *prn_layer_given(const struct prn_layer *layer, size_t *ret_n);

/* Sums over tensors; NAN when one isn't known. */
double prn_cut_elements(const struct prn_cut_tensor *const *tensors, size_t n);
double prn_cut_bytes(const struct prn_cut_tensor *const *tensors, size_t n);

/* Whether a layer is too large for one file, which protobuf limits to 2 GiB: then its weights go
 * into a second one. */
bool prn_cut_needs_data(const struct prn_cuts *cuts, size_t layer);

/* Writes a layer, or the whole, as a model; `name` is for errors. External data of the model is
 * copied into it, so that a layer can be moved; or its weights are left to `data_name`, a file
 * beside it, which prn_cut_write_data() fills. Weights are streamed: memory stays small. */
PRONY_MUST_CHECK int prn_cut_write(struct prn_cuts *cuts, size_t layer, const char *data_name,
                                   int fd, const char *name, struct prony_error *err);
PRONY_MUST_CHECK int prn_cut_write_data(struct prn_cuts *cuts, size_t layer, int fd,
                                        const char *name, struct prony_error *err);

#endif
