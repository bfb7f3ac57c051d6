/*
 * A layer as a file. Nodes, functions, weights and declarations are copied in the bytes in which
 * the model's own file has them, so that a layer has all that the model says, also what prony
 * doesn't know. Only external data is resolved: a layer must not depend on files of another folder.
 */
#include "model/cut/parts.h"

#include "base/buffer.h"
#include "base/io.h"
#include "model/external.h"
#include "format/wire.h"
#include "model/writer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* More weights than this go into a file of their own; 2 GiB less what a graph can take. */
#define INLINE_BYTES_MAX ((uint64_t)1536 << 20)
/* Smaller ones stay with the graph. */
#define DATA_BYTES_MIN 1024
/* In a file of weights, tensors begin at multiples of this. */
#define DATA_ALIGNMENT 64
/* Before this version, initialisers had to be inputs too. */
#define IR_VERSION_MIN 4

/* ---- Where the parts of the model lie ---- */

struct message {
    const uint8_t *data;
    size_t len;
};

struct table {
    struct message *items;
    size_t n, capacity;
};

enum table_kind {
    TABLE_OPSETS,
    TABLE_FUNCTIONS,
    TABLE_NODES,
    TABLE_INITIALISERS,
    TABLE_SPARSE,
    TABLE_INPUTS,
    TABLE_OUTPUTS,
    TABLE_VALUES,
    TABLE_COUNT,
};

struct prn_cut_file {
    struct prn_arena arena;
    struct table tables[TABLE_COUNT];
    struct prn_map inputs, outputs, values; /* name → index of the message */
    struct prn_map functions;               /* "domain name" → the last of that name, + 1 */
    size_t *same_function;                  /* the one before it of the same name, + 1; 0: none */
    struct prn_buffer key;
    bool *called; /* by function, while a layer is written */
};

void prn_cut_file_free(struct prn_cut_file *f)
{
    if (!f)
        return;
    prn_map_release(&f->inputs);
    prn_map_release(&f->outputs);
    prn_map_release(&f->values);
    prn_map_release(&f->functions);
    prn_buffer_release(&f->key);
    prn_arena_release(&f->arena);
    free(f);
}

/* Which table a field of onnx.proto's ModelProto or GraphProto goes to; TABLE_COUNT: none. */
static enum table_kind model_table(uint32_t field)
{
    return field == 8 ? TABLE_OPSETS : field == 25 ? TABLE_FUNCTIONS : TABLE_COUNT;
}

static enum table_kind graph_table(uint32_t field)
{
    switch (field) {
    case 1:
        return TABLE_NODES;
    case 5:
        return TABLE_INITIALISERS;
    case 15:
        return TABLE_SPARSE;
    case 11:
        return TABLE_INPUTS;
    case 12:
        return TABLE_OUTPUTS;
    case 13:
        return TABLE_VALUES;
    default:
        return TABLE_COUNT;
    }
}

/* Notes the messages of one level. The model's reader has been over these bytes, so the only way
 * to fail is a file that was changed since. */
static bool index_level(struct prn_cut_file *f, struct prn_wire w,
                        enum table_kind table_of(uint32_t field), struct message *ret_graph)
{
    while (w.at < w.end) {
        struct prn_wire_field field;
        if (prn_wire_next(&w, &field) != PRN_WIRE_FINE)
            return false;
        struct message message = {field.value, (size_t)field.len};
        enum table_kind kind =
            field.type == PRN_WIRE_TYPE_BYTES ? table_of(field.number) : TABLE_COUNT;
        if (ret_graph && field.number == 7 && field.type == PRN_WIRE_TYPE_BYTES)
            *ret_graph = message;
        if (kind == TABLE_COUNT)
            continue;
        struct table *t = &f->tables[kind];
        if (t->n == t->capacity)
            return false;
        t->items[t->n++] = message;
    }
    return true;
}

static bool is_complete(const struct prn_cut_file *f, const struct prn_model *model)
{
    const struct table *t = f->tables;
    return t[TABLE_OPSETS].n == model->n_opsets && t[TABLE_FUNCTIONS].n == model->n_functions &&
           t[TABLE_NODES].n == model->graph.n_nodes &&
           t[TABLE_INITIALISERS].n + t[TABLE_SPARSE].n == model->graph.n_constants &&
           t[TABLE_INPUTS].n == model->graph.n_inputs &&
           t[TABLE_OUTPUTS].n == model->graph.n_outputs &&
           t[TABLE_VALUES].n == model->graph.n_values;
}

static int index_messages(struct prn_cut_file *f, const struct prn_model *model,
                          struct prony_error *err)
{
    const struct prn_graph *g = &model->graph;
    const size_t counts[TABLE_COUNT] = {
        [TABLE_OPSETS] = model->n_opsets, [TABLE_FUNCTIONS] = model->n_functions,
        [TABLE_NODES] = g->n_nodes,       [TABLE_INITIALISERS] = g->n_constants,
        [TABLE_SPARSE] = g->n_constants,  [TABLE_INPUTS] = g->n_inputs,
        [TABLE_OUTPUTS] = g->n_outputs,   [TABLE_VALUES] = g->n_values,
    };
    for (size_t i = 0; i < TABLE_COUNT; i++) {
        f->tables[i].capacity = counts[i];
        f->tables[i].items = PRN_ARENA_ARRAY(&f->arena, counts[i] + 1, struct message);
        if (!f->tables[i].items)
            return prn_fail_memory(err);
    }
    struct message graph = {0};
    const uint8_t *data = model->data;
    if (!data ||
        !index_level(f, (struct prn_wire){data, data + model->file_bytes}, model_table, &graph) ||
        !index_level(f, (struct prn_wire){graph.data, graph.data + graph.len}, graph_table, NULL) ||
        !is_complete(f, model))
        return prn_fail(err, PRONY_EFORMAT, "'%s' has changed since it was read", model->path);
    return 0;
}

static int index_names(struct prn_map *map, const struct prn_value *values, size_t n,
                       struct prony_error *err)
{
    for (size_t i = 0; i < n; i++)
        if (prn_map_set(map, values[i].name, i) < 0)
            return prn_fail_memory(err);
    return 0;
}

static const char *function_key(struct prn_cut_file *f, const char *domain, const char *name)
{
    prn_buffer_clear(&f->key);
    prn_buffer_printf(&f->key, "%s %s", domain, name);
    return prn_buffer_text(&f->key);
}

static int index_functions(struct prn_cut_file *f, const struct prn_model *model,
                           struct prony_error *err)
{
    f->same_function = PRN_ARENA_ARRAY(&f->arena, model->n_functions + 1, size_t);
    f->called = PRN_ARENA_ARRAY(&f->arena, model->n_functions + 1, bool);
    if (!f->same_function || !f->called)
        return prn_fail_memory(err);
    for (size_t i = 0; i < model->n_functions; i++) {
        const char *key = function_key(f, model->functions[i].domain, model->functions[i].name);
        key = f->key.error ? NULL : prn_arena_strdup(&f->arena, key);
        size_t before = key ? prn_map_get(&f->functions, key) : PRN_MAP_NONE;
        f->same_function[i] = before == PRN_MAP_NONE ? 0 : before;
        if (!key || prn_map_set(&f->functions, key, i + 1) < 0)
            return prn_fail_memory(err);
    }
    return 0;
}

static int open_file(struct prn_cut_set *set, struct prony_error *err)
{
    const struct prn_graph *g = &set->model->graph;
    if (set->file)
        return 0;
    struct prn_cut_file *f = calloc(1, sizeof *f);
    if (!f)
        return prn_fail_memory(err);
    f->arena = PRN_ARENA_INIT(PRN_CUT_BYTES_MAX);
    f->key = PRN_BUFFER_INIT(PRN_CUT_BYTES_MAX);
    int code = index_messages(f, set->model, err);
    if (code == 0)
        code = index_names(&f->inputs, g->inputs, g->n_inputs, err);
    if (code == 0)
        code = index_names(&f->outputs, g->outputs, g->n_outputs, err);
    if (code == 0)
        code = index_names(&f->values, g->values, g->n_values, err);
    if (code == 0)
        code = index_functions(f, set->model, err);
    if (code < 0)
        prn_cut_file_free(f);
    else
        set->file = f;
    return code;
}

/* ---- External data ---- */

/* The file that weights are read from, one at a time. */
struct reading {
    const struct prn_model *model;
    int folder_fd, fd;
    const char *location; /* that `fd` is of */
};

#define READING_INIT(of) ((struct reading){.model = (of), .folder_fd = -1, .fd = -1})

static void reading_release(struct reading *r)
{
    if (r->fd >= 0)
        close(r->fd);
    if (r->folder_fd >= 0)
        close(r->folder_fd);
}

static int open_location(struct reading *r, const char *location, struct prony_error *err)
{
    if (r->location && strcmp(r->location, location) == 0)
        return 0;
    int code = r->folder_fd >= 0 ? 0 : prn_external_folder(r->model->path, &r->folder_fd, err);
    if (code < 0)
        return code;
    if (r->fd >= 0)
        close(r->fd);
    r->location = NULL;
    r->fd = prn_external_open(r->folder_fd, location);
    if (r->fd < 0)
        return prn_fail_errno(err, errno, "read", location);
    r->location = location;
    return 0;
}

/* A weight that is read as it is written. */
struct stream {
    struct reading *reading;
    const struct prn_constant *constant;
    uint64_t done;
};

static int read_stream(void *context, void *data, size_t len, struct prony_error *err)
{
    struct stream *s = context;
    const struct prn_constant *c = s->constant;
    int code = open_location(s->reading, c->external_location, err);
    if (code < 0)
        return code;
    if (prn_pread_all(s->reading->fd, data, len, c->external_offset + s->done) < 0)
        return errno == ENODATA ? prn_fail(err, PRONY_EFORMAT,
                                           "'%s' has changed since it was read: it is shorter now",
                                           c->external_location)
                                : prn_fail_errno(err, errno, "read", c->external_location);
    s->done += len;
    return 0;
}

/* ---- A layer ---- */

struct writing {
    struct prn_cut_set *set;
    const struct prn_layer *layer;
    size_t index;
    struct prn_writer *writer;
    struct reading reading;
    struct stream *streams; /* one per weight of the layer */
    struct prn_map passing; /* names of inputs and outputs → what they were last written as */
    struct prn_map walls;   /* names of what goes through a Reshape → rank */
    struct prony_error *err;
};

static void copy(struct writing *w, enum prn_writer_part part, enum table_kind table, size_t index)
{
    const struct message *message = &w->set->file->tables[table].items[index];
    prn_writer_copy(w->writer, part, message->data, message->len);
}

/* An input or output: as the model declares it, or as inferred. */
static int write_passing(struct writing *w, enum prn_writer_part part,
                         const struct prn_cut_tensor *tensor)
{
    const struct prn_cut_file *f = w->set->file;
    const char *name = tensor->value.name;
    size_t input = prn_map_get(&f->inputs, name);
    size_t output = prn_map_get(&f->outputs, name);
    bool typed =
        output != PRN_MAP_NONE && w->set->model->graph.outputs[output].kind != PRN_VALUE_UNKNOWN;
    if (input != PRN_MAP_NONE)
        copy(w, part, TABLE_INPUTS, input);
    else if (typed)
        copy(w, part, TABLE_OUTPUTS, output);
    else if (part == PRN_WRITER_INPUT)
        prn_writer_input(w->writer, &tensor->value);
    else
        prn_writer_output(w->writer, &tensor->value);
    return prn_map_set(&w->passing, name, part) < 0 ? prn_fail_memory(w->err) : 0;
}

/* ---- Walls: what passes a cut of the whole goes through a Reshape to its own shape ---- */

/* The first version in which the shape of Reshape is an input; a 0 in it keeps a dimension. */
#define RESHAPE_OPSET_MIN 5
#define WALL_SHAPE "/prony/wall/%zu"
#define WALL_SUFFIX "/prony/wall"
#define WALL_RANK_MAX 16

static bool has_wall(const struct writing *w, const struct prn_cut_tensor *tensor)
{
    const struct prn_model *model = w->set->model;
    int64_t version = 0;
    for (size_t i = 0; i < model->n_opsets; i++)
        if (*model->opsets[i].domain == '\0')
            version = model->opsets[i].version;
    const struct prn_value *value = &tensor->value;
    return w->set->cuts.whole_reshapes && version >= RESHAPE_OPSET_MIN &&
           value->kind == PRN_VALUE_TENSOR && value->has_shape && value->rank <= WALL_RANK_MAX;
}

static int add_wall(struct writing *w, const struct prn_cut_tensor *tensor)
{
    return prn_map_set(&w->walls, tensor->value.name, tensor->value.rank) < 0
               ? prn_fail_memory(w->err)
               : 0;
}

static void write_wall(struct writing *w, const char *before, const char *behind, size_t rank)
{
    char shape[64];
    snprintf(shape, sizeof shape, WALL_SHAPE, rank);
    const char *inputs[] = {before, shape};
    prn_writer_node(w->writer, &(struct prn_node){.name = before,
                                                  .op_type = "Reshape",
                                                  .domain = "",
                                                  .inputs = inputs,
                                                  .n_inputs = PRN_ARRAY_SIZE(inputs),
                                                  .outputs = &behind,
                                                  .n_outputs = 1});
}

static const char *name_before_wall(struct prn_arena *arena, const char *name)
{
    size_t len = strlen(name);
    char *longer = prn_arena_alloc(arena, len + sizeof WALL_SUFFIX);
    if (longer) {
        memcpy(longer, name, len);
        memcpy(longer + len, WALL_SUFFIX, sizeof WALL_SUFFIX);
    }
    return longer;
}

/* Gives outputs that have a wall another name, and the wall the name that they had. */
static int write_node(struct writing *w, size_t index)
{
    const struct prn_node *node = &w->set->model->graph.nodes[index];
    const struct message *message = &w->set->file->tables[TABLE_NODES].items[node->place];
    if (w->walls.count == 0) {
        copy(w, PRN_WRITER_NODE, TABLE_NODES, node->place);
        return 0;
    }
    struct prn_arena arena = PRN_ARENA_INIT(PRN_CUT_BYTES_MAX);
    const char **outputs = PRN_ARENA_ARRAY(&arena, node->n_outputs + 1, const char *);
    bool fine = outputs;
    for (size_t o = 0; o < node->n_outputs && fine; o++) {
        bool wall = prn_map_get(&w->walls, node->outputs[o]) != PRN_MAP_NONE;
        outputs[o] = wall ? name_before_wall(&arena, node->outputs[o]) : node->outputs[o];
        fine = outputs[o];
    }
    if (fine)
        prn_writer_copy_node(w->writer, message->data, message->len, outputs, node->n_outputs);
    for (size_t o = 0; o < node->n_outputs && fine; o++)
        if (outputs[o] != node->outputs[o])
            write_wall(w, outputs[o], node->outputs[o], prn_map_get(&w->walls, node->outputs[o]));
    prn_arena_release(&arena);
    return fine ? 0 : prn_fail_memory(w->err);
}

static void write_wall_shapes(struct writing *w)
{
    static const int64_t zeros[WALL_RANK_MAX];
    bool seen[WALL_RANK_MAX + 1] = {false};
    for (size_t i = 0; i < w->layer->n_out; i++) {
        size_t rank = prn_map_get(&w->walls, w->layer->out[i]->value.name);
        char name[64];
        if (rank == PRN_MAP_NONE || seen[rank])
            continue;
        seen[rank] = true;
        snprintf(name, sizeof name, WALL_SHAPE, rank);
        prn_writer_initialiser(w->writer,
                               &(struct prn_constant){.name = name,
                                                      .dtype = PRN_DTYPE_INT64,
                                                      .rank = 1,
                                                      .dims = &(int64_t){(int64_t)rank},
                                                      .elements = (int64_t)rank,
                                                      .bytes = rank * sizeof *zeros,
                                                      .data = zeros},
                               NULL);
    }
}

static int write_interface(struct writing *w)
{
    const struct prn_layer *layer = w->layer;
    int code = 0;
    for (size_t i = 0; i < layer->n_in && code == 0; i++)
        code = write_passing(w, PRN_WRITER_INPUT, layer->in[i]);
    for (size_t i = 0; i < layer->n_out && code == 0; i++)
        code = w->index == w->set->cuts.n_layers && has_wall(w, layer->out[i])
                   ? add_wall(w, layer->out[i])
                   : write_passing(w, PRN_WRITER_OUTPUT, layer->out[i]);
    for (size_t i = 0; i < layer->n_results && code == 0; i++)
        if (prn_map_get(&w->passing, layer->results[i]->value.name) != PRN_WRITER_OUTPUT)
            code = write_passing(w, PRN_WRITER_OUTPUT, layer->results[i]);
    return code;
}

static bool has_external(const struct prn_node *node);

static bool graph_has_external(const struct prn_graph *graph)
{
    for (size_t i = 0; i < graph->n_constants; i++)
        if (graph->constants[i].external_location)
            return true;
    for (size_t i = 0; i < graph->n_nodes; i++)
        if (has_external(&graph->nodes[i]))
            return true;
    return false;
}

/* Whether a tensor inside a node lies in another file: it is copied with the node, and there it
 * can't be resolved. */
static bool has_external(const struct prn_node *node)
{
    for (size_t i = 0; i < node->n_attributes; i++) {
        const struct prn_attribute *a = &node->attributes[i];
        if (a->tensor && a->tensor->external_location)
            return true;
        for (size_t k = 0; a->graphs && k < a->n; k++)
            if (graph_has_external(a->graphs[k]))
                return true;
    }
    return false;
}

/* Marks the functions that a node calls, and those that they call. The model's reader has limited
 * the depth. */
static int mark_calls(struct writing *w, const struct prn_node *node)
{
    struct prn_cut_file *f = w->set->file;
    const struct prn_model *model = w->set->model;
    const char *key = function_key(f, node->domain, node->op_type);
    if (f->key.error)
        return prn_fail_memory(w->err);
    size_t callee = prn_map_get(&f->functions, key);
    int code = 0;
    for (size_t i = callee == PRN_MAP_NONE ? 0 : callee; i > 0 && code == 0;
         i = f->same_function[i - 1]) {
        const struct prn_graph *body = &model->functions[i - 1].body;
        if (f->called[i - 1])
            continue;
        f->called[i - 1] = true;
        for (size_t k = 0; k < body->n_nodes && code == 0; k++)
            code = mark_calls(w, &body->nodes[k]);
    }
    for (size_t a = 0; a < node->n_attributes && code == 0; a++)
        for (size_t k = 0; node->attributes[a].graphs && k < node->attributes[a].n && code == 0;
             k++) {
            const struct prn_graph *body = node->attributes[a].graphs[k];
            for (size_t n = 0; n < body->n_nodes && code == 0; n++)
                code = mark_calls(w, &body->nodes[n]);
        }
    return code;
}

static int write_functions(struct writing *w)
{
    const struct prn_model *model = w->set->model;
    if (model->n_functions == 0)
        return 0;
    int code = 0;
    for (size_t i = 0; i < w->layer->n_nodes && code == 0; i++)
        code = mark_calls(w, &model->graph.nodes[w->layer->nodes[i]]);
    for (size_t i = 0; i < model->n_functions && code == 0; i++) {
        if (w->set->file->called[i] && graph_has_external(&model->functions[i].body))
            return prn_fail(w->err, PRONY_EUNSUPPORTED,
                            "function '%s' keeps a tensor in another file",
                            model->functions[i].name);
        if (w->set->file->called[i])
            copy(w, PRN_WRITER_FUNCTION, TABLE_FUNCTIONS, i);
    }
    memset(w->set->file->called, 0, model->n_functions * sizeof *w->set->file->called);
    return code;
}

static int write_nodes(struct writing *w)
{
    const struct prn_graph *graph = &w->set->model->graph;
    for (size_t i = 0; i < w->layer->n_nodes; i++) {
        size_t index = w->layer->nodes[i];
        const struct prn_node *node = &graph->nodes[index];
        if (has_external(node))
            return prn_fail(w->err, PRONY_EUNSUPPORTED,
                            "node '%s' (%s) keeps a tensor in another file", node->name,
                            node->op_type);
        int code = write_node(w, index);
        if (code < 0)
            return code;
        for (size_t o = 0; o < node->n_outputs; o++) {
            size_t value = prn_map_get(&w->set->file->values, node->outputs[o]);
            if (*node->outputs[o] && value != PRN_MAP_NONE &&
                prn_map_get(&w->passing, node->outputs[o]) == PRN_MAP_NONE)
                copy(w, PRN_WRITER_VALUE, TABLE_VALUES, value);
        }
    }
    return 0;
}

/* ---- Weights ---- */

/* Whether a weight is one that goes to the second file of a layer that has one. */
static bool goes_apart(const struct prn_constant *c)
{
    return c->bytes >= DATA_BYTES_MIN && (c->data || c->external_location);
}

/* Where a weight goes in the second file, which ends at `*end` so far. */
static uint64_t place_apart(const struct prn_constant *c, uint64_t *end)
{
    uint64_t offset = (*end + DATA_ALIGNMENT - 1) / DATA_ALIGNMENT * DATA_ALIGNMENT;
    *end = offset + c->bytes;
    return offset;
}

static int check_constant(struct writing *w, size_t index)
{
    const struct prn_constant *c = &w->set->model->graph.constants[index];
    bool sparse = index >= w->set->file->tables[TABLE_INITIALISERS].n;
    if (c->external_location && (sparse || prn_dtype_bits(c->dtype) == 0))
        return prn_fail(w->err, PRONY_EUNSUPPORTED, "'%s' is %s in another file", c->name,
                        sparse ? "a sparse tensor" : "a tensor without a fixed size");
    return 0;
}

/* One weight; `apart` is where it goes in the second file, NULL when there is none. */
static void write_constant(struct writing *w, size_t index, struct stream *stream,
                           const struct prn_constant *apart)
{
    const struct prn_constant *c = &w->set->model->graph.constants[index];
    size_t n_dense = w->set->file->tables[TABLE_INITIALISERS].n;
    if (apart) {
        prn_writer_initialiser(w->writer, apart, NULL);
    } else if (index >= n_dense) {
        copy(w, PRN_WRITER_SPARSE, TABLE_SPARSE, index - n_dense);
    } else if (c->external_location) {
        *stream = (struct stream){&w->reading, c, 0};
        prn_writer_initialiser(w->writer, c,
                               &(struct prn_writer_source){.read = read_stream, .context = stream});
    } else {
        copy(w, PRN_WRITER_INITIALISER, TABLE_INITIALISERS, index);
    }
}

static int write_constants(struct writing *w, const char *data_name)
{
    uint64_t end = 0;
    for (size_t i = 0; i < w->layer->n_constants; i++) {
        size_t index = w->layer->constants[i];
        struct prn_constant apart = w->set->model->graph.constants[index];
        int code = check_constant(w, index);
        if (code < 0)
            return code;
        if (!data_name || !goes_apart(&apart)) {
            write_constant(w, index, &w->streams[i], NULL);
            continue;
        }
        apart.data = NULL;
        apart.external_location = data_name;
        apart.external_offset = place_apart(&apart, &end);
        apart.external_length = apart.bytes;
        write_constant(w, index, &w->streams[i], &apart);
    }
    return 0;
}

/* ---- Files ---- */

static int describe(struct writing *w, const char *data_name)
{
    const struct prn_model *model = w->set->model;
    struct prn_buffer name = PRN_BUFFER_INIT(PRN_CUT_BYTES_MAX);
    prn_buffer_add(&name, model->graph.name);
    if (w->index < w->set->cuts.n_layers)
        prn_buffer_printf(&name, "/layer.%zu", w->index + 1);
    int code = prn_buffer_error(&name, w->err);
    if (code == 0)
        prn_writer_graph_name(w->writer, prn_buffer_text(&name));
    prn_buffer_release(&name);
    prn_writer_ir_version(w->writer,
                          model->ir_version < IR_VERSION_MIN ? IR_VERSION_MIN : model->ir_version);
    for (size_t i = 0; i < model->n_opsets; i++)
        copy(w, PRN_WRITER_OPSET, TABLE_OPSETS, i);
    if (code == 0)
        code = write_functions(w);
    if (code == 0)
        code = write_interface(w);
    if (code == 0)
        code = write_nodes(w);
    write_wall_shapes(w);
    return code == 0 ? write_constants(w, data_name) : code;
}

int prn_cut_write(struct prn_cuts *cuts, size_t layer, const char *data_name, int fd,
                  const char *name, struct prony_error *err)
{
    struct prn_cut_set *set = (struct prn_cut_set *)cuts;
    struct writing w = {.set = set,
                        .layer = &cuts->layers[layer],
                        .index = layer,
                        .reading = READING_INIT(set->model),
                        .err = err};
    int code = open_file(set, err);
    if (code < 0)
        return code;
    w.writer = prn_writer_new("prony", prony_version());
    w.streams = calloc(w.layer->n_constants + 1, sizeof *w.streams);
    code = w.writer && w.streams ? describe(&w, data_name) : prn_fail_memory(err);
    if (code == PRONY_EUNSUPPORTED && layer < cuts->n_layers)
        prn_fail_in(err, code, "cannot write layer %zu", layer + 1);
    else if (code == PRONY_EUNSUPPORTED)
        prn_fail_in(err, code, "cannot write the layers as one");
    if (code == 0)
        code = prn_writer_write(w.writer, fd, name, err);
    prn_writer_free(w.writer);
    free(w.streams);
    prn_map_release(&w.passing);
    prn_map_release(&w.walls);
    reading_release(&w.reading);
    return code;
}

bool prn_cut_needs_data(const struct prn_cuts *cuts, size_t layer)
{
    return cuts->layers[layer].weight_bytes > INLINE_BYTES_MAX;
}

static int put(int fd, const void *data, size_t len, const char *name, struct prony_error *err)
{
    return prn_write_all(fd, data, len) < 0 ? prn_fail_errno(err, errno, "write", name) : 0;
}

static int put_constant(struct reading *reading, const struct prn_constant *c, int fd,
                        const char *name, struct prony_error *err)
{
    if (c->data)
        return put(fd, c->data, c->bytes, name, err);
    struct stream stream = {reading, c, 0};
    char *chunk = malloc(PRN_WRITER_CHUNK);
    int code = chunk ? 0 : prn_fail_memory(err);
    for (uint64_t left = c->bytes; left > 0 && code == 0;) {
        size_t n = left < PRN_WRITER_CHUNK ? (size_t)left : PRN_WRITER_CHUNK;
        code = read_stream(&stream, chunk, n, err);
        if (code == 0)
            code = put(fd, chunk, n, name, err);
        left -= n;
    }
    free(chunk);
    return code;
}

int prn_cut_write_data(struct prn_cuts *cuts, size_t layer, int fd, const char *name,
                       struct prony_error *err)
{
    static const char padding[DATA_ALIGNMENT];
    struct prn_cut_set *set = (struct prn_cut_set *)cuts;
    struct reading reading = READING_INIT(set->model);
    const struct prn_layer *own = &cuts->layers[layer];
    uint64_t end = 0;
    int code = 0;
    for (size_t i = 0; i < own->n_constants && code == 0; i++) {
        const struct prn_constant *c = &set->model->graph.constants[own->constants[i]];
        if (!goes_apart(c))
            continue;
        uint64_t written = end;
        code = put(fd, padding, (size_t)(place_apart(c, &end) - written), name, err);
        if (code == 0)
            code = put_constant(&reading, c, fd, name, err);
    }
    reading_release(&reading);
    return code;
}
