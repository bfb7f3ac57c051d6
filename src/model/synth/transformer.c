/*
 * Transformers of the sizes that a network's `shape` says. Attention is written in the form in
 * which it is usually exported. Reshape takes batch and sequence from its input (0), so that both
 * can stay open. Weights have the published standard deviation of 0.02; layer normalisation keeps
 * the rest in range.
 */
#include "model/synth/parts.h"

#include <float.h>
#include <math.h>

/* Every function here has the description at hand, as `s`. */
#define BLOCKS (s->shape->blocks)
#define HEADS (s->shape->heads)
#define HEAD_WIDTH (s->shape->head_width)
#define WIDTH (HEADS * HEAD_WIDTH)
#define MLP_WIDTH (4 * WIDTH)
#define SD 0.02

/* A list of int64 constants, written in place. */
#define INTS(s, name, ...)                                                      \
    prn_synth_ints(s, name, sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), \
                   (const int64_t[]){__VA_ARGS__})

static const char *layer_norm_as(struct prn_synth *s, const char *scope, const char *weights,
                                 const char *x, float epsilon, const char *output)
{
    const char *scale =
        prn_synth_weight(s, prn_synth_name(s, "%s.weight", weights),
                         &(struct prn_synth_weight){.dims = {WIDTH}, .mean = 1.0, .sd = 0.05});
    const char *bias = prn_synth_weight(s, prn_synth_name(s, "%s.bias", weights),
                                        &(struct prn_synth_weight){.dims = {WIDTH}, .sd = 0.05});
    return PRN_SYNTH_OP(
        s, scope, .type = "LayerNormalization", .inputs = {x, scale, bias}, .outputs = {output},
        .attributes = {PRN_SYNTH_INT("axis", -1), PRN_SYNTH_REAL("epsilon", epsilon)});
}

static const char *layer_norm(struct prn_synth *s, const char *scope, const char *weights,
                              const char *x, float epsilon)
{
    return layer_norm_as(s, scope, weights, x, epsilon, NULL);
}

/* x · Φ(x), through the error function. */
static const char *gelu(struct prn_synth *s, const char *scope, const char *x, const char *output)
{
    const char *root2 = prn_synth_float(s, "/constants/sqrt_2", 1.41421356f);
    const char *one = prn_synth_float(s, "/constants/one", 1.0f);
    const char *half = prn_synth_float(s, "/constants/half", 0.5f);
    const char *y = PRN_SYNTH_OP(s, scope, .type = "Div", .inputs = {x, root2});
    y = PRN_SYNTH_OP(s, scope, .type = "Erf", .inputs = {y});
    y = PRN_SYNTH_OP(s, scope, .type = "Add", .inputs = {y, one});
    y = PRN_SYNTH_OP(s, scope, .type = "Mul", .inputs = {x, y});
    return PRN_SYNTH_OP(s, scope, .type = "Mul", .inputs = {y, half}, .outputs = {output});
}

/* The approximation through tanh, with which GPT-2 was trained. */
static const char *gelu_tanh(struct prn_synth *s, const char *scope, const char *x)
{
    const char *half = prn_synth_float(s, "/constants/half", 0.5f);
    const char *three = prn_synth_float(s, "/constants/three", 3.0f);
    const char *cubic = prn_synth_float(s, "/constants/gelu_cubic", 0.044715f);
    const char *slope = prn_synth_float(s, "/constants/sqrt_2_over_pi", 0.79788456f);
    const char *one = prn_synth_float(s, "/constants/one", 1.0f);
    const char *halved = PRN_SYNTH_OP(s, scope, .type = "Mul", .inputs = {x, half});
    const char *y = PRN_SYNTH_OP(s, scope, .type = "Pow", .inputs = {x, three});
    y = PRN_SYNTH_OP(s, scope, .type = "Mul", .inputs = {y, cubic});
    y = PRN_SYNTH_OP(s, scope, .type = "Add", .inputs = {x, y});
    y = PRN_SYNTH_OP(s, scope, .type = "Mul", .inputs = {y, slope});
    y = PRN_SYNTH_OP(s, scope, .type = "Tanh", .inputs = {y});
    y = PRN_SYNTH_OP(s, scope, .type = "Add", .inputs = {y, one});
    return PRN_SYNTH_OP(s, scope, .type = "Mul", .inputs = {halved, y});
}

/* [batch, seq, width] → [batch, heads, seq, head width], in another order of axes if asked. */
static const char *split_heads(struct prn_synth *s, const char *scope, const char *x,
                               bool transposed)
{
    const char *shape = INTS(s, "/constants/heads", 0, 0, HEADS, HEAD_WIDTH);
    x = PRN_SYNTH_OP(s, scope, .type = "Reshape", .inputs = {x, shape});
    if (transposed)
        return PRN_SYNTH_OP(s, scope, .type = "Transpose", .inputs = {x},
                            .attributes = {PRN_SYNTH_INTS("perm", 0, 2, 3, 1)});
    return PRN_SYNTH_OP(s, scope, .type = "Transpose", .inputs = {x},
                        .attributes = {PRN_SYNTH_INTS("perm", 0, 2, 1, 3)});
}

/* From queries, transposed keys and values, each by heads, to the context of width WIDTH. `mask`
 * is added to the scores, unless it is NULL. */
static const char *attend(struct prn_synth *s, const char *scope, const char *q, const char *k,
                          const char *v, const char *mask, const char *output)
{
    const char *root = prn_synth_float(s, "/constants/sqrt_head_width", sqrtf((float)HEAD_WIDTH));
    const char *shape = INTS(s, "/constants/merged_heads", 0, 0, WIDTH);
    const char *x = PRN_SYNTH_OP(s, scope, .type = "MatMul", .inputs = {q, k});
    x = PRN_SYNTH_OP(s, scope, .type = "Div", .inputs = {x, root});
    if (mask)
        x = PRN_SYNTH_OP(s, scope, .type = "Add", .inputs = {x, mask});
    x = PRN_SYNTH_OP(s, scope, .type = "Softmax", .inputs = {x},
                     .attributes = {PRN_SYNTH_INT("axis", -1)});
    x = PRN_SYNTH_OP(s, scope, .type = "MatMul", .inputs = {x, v});
    x = PRN_SYNTH_OP(s, scope, .type = "Transpose", .inputs = {x},
                     .attributes = {PRN_SYNTH_INTS("perm", 0, 2, 1, 3)});
    return PRN_SYNTH_OP(s, scope, .type = "Reshape", .inputs = {x, shape}, .outputs = {output});
}

/* A table of `rows` embeddings. */
static const char *embedding(struct prn_synth *s, const char *name, int64_t rows)
{
    return prn_synth_weight(s, name, &(struct prn_synth_weight){.dims = {rows, WIDTH}, .sd = SD});
}

static const char *look_up(struct prn_synth *s, const char *scope, const char *table,
                           const char *ids)
{
    return PRN_SYNTH_OP(s, scope, .type = "Gather", .inputs = {table, ids},
                        .attributes = {PRN_SYNTH_INT("axis", 0)});
}

/* The length of the sequence as a tensor of one int64. */
static const char *sequence_length(struct prn_synth *s)
{
    if (s->options.seq != PRN_SYNTH_DYNAMIC)
        return INTS(s, "/constants/seq", s->options.seq);
    return PRN_SYNTH_OP(s, "/seq", .type = "Shape", .inputs = {"input_ids"},
                        .attributes = {PRN_SYNTH_INT("start", 1), PRN_SYNTH_INT("end", 2)});
}

/* The first rows of a table of positions, as many as there are tokens. */
static const char *positions(struct prn_synth *s, const char *scope, const char *table,
                             const char *length)
{
    const char *zero = INTS(s, "/constants/first", 0);
    return PRN_SYNTH_OP(s, scope, .type = "Slice", .inputs = {table, zero, length, zero});
}

static void token_input(struct prn_synth *s, const char *name)
{
    prn_synth_input(s, name, PRN_DTYPE_INT64, 2,
                    (const struct prn_dim[]){prn_synth_batch(s), prn_synth_seq(s)});
}

/* ---- ViT, and DeiT with its second token, for images of 224 ---- */

#define VIT_IMAGE 224
#define VIT_PATCH (s->shape->patch)
#define VIT_PATCHES ((VIT_IMAGE / VIT_PATCH) * (VIT_IMAGE / VIT_PATCH))
#define VIT_TOKENS (VIT_PATCHES + (s->shape->distilled ? 2 : 1))
#define VIT_CLASSES (s->shape->classes)
#define VIT_EPSILON 1e-6f

/* A token that is learned, once per image. */
static const char *vit_token(struct prn_synth *s, const char *name)
{
    const char *token =
        prn_synth_weight(s, name, &(struct prn_synth_weight){.dims = {1, 1, WIDTH}, .sd = SD});
    const char *shape;
    if (s->options.batch != PRN_SYNTH_DYNAMIC) {
        shape = INTS(s, "/constants/cls_shape", s->options.batch, 1, WIDTH);
    } else {
        const char *batch =
            PRN_SYNTH_OP(s, "/embeddings", .type = "Shape", .inputs = {"pixel_values"},
                         .attributes = {PRN_SYNTH_INT("start", 0), PRN_SYNTH_INT("end", 1)});
        const char *rest = INTS(s, "/constants/cls_rest", 1, WIDTH);
        shape = PRN_SYNTH_OP(s, "/embeddings/cls_shape", .type = "Concat", .inputs = {batch, rest},
                             .attributes = {PRN_SYNTH_INT("axis", 0)});
    }
    return PRN_SYNTH_OP(s, "/embeddings", .type = "Expand", .inputs = {token, shape});
}

static const char *vit_embeddings(struct prn_synth *s)
{
    int64_t fan_in = 3 * VIT_PATCH * VIT_PATCH;
    const char *w =
        prn_synth_weight(s, "patch_embed.proj.weight",
                         &(struct prn_synth_weight){.dims = {WIDTH, 3, VIT_PATCH, VIT_PATCH},
                                                    .sd = sqrt(1.0 / (double)fan_in)});
    const char *b = prn_synth_weight(s, "patch_embed.proj.bias",
                                     &(struct prn_synth_weight){.dims = {WIDTH}, .sd = 0.01});
    const char *x =
        PRN_SYNTH_OP(s, "/patch_embed/proj", .type = "Conv", .inputs = {"pixel_values", w, b},
                     .attributes = {PRN_SYNTH_INTS("kernel_shape", VIT_PATCH, VIT_PATCH),
                                    PRN_SYNTH_INTS("strides", VIT_PATCH, VIT_PATCH)});
    const char *shape = INTS(s, "/constants/patches", 0, WIDTH, VIT_PATCHES);
    x = PRN_SYNTH_OP(s, "/patch_embed", .type = "Reshape", .inputs = {x, shape});
    x = PRN_SYNTH_OP(s, "/patch_embed", .type = "Transpose", .inputs = {x},
                     .attributes = {PRN_SYNTH_INTS("perm", 0, 2, 1)});
    const char *tokens = vit_token(s, "cls_token");
    if (s->shape->distilled)
        tokens = PRN_SYNTH_OP(s, "/embeddings/tokens", .type = "Concat",
                              .inputs = {tokens, vit_token(s, "dist_token")},
                              .attributes = {PRN_SYNTH_INT("axis", 1)});
    x = PRN_SYNTH_OP(s, "/embeddings", .type = "Concat", .inputs = {tokens, x},
                     .attributes = {PRN_SYNTH_INT("axis", 1)});
    const char *table = prn_synth_weight(
        s, "pos_embed", &(struct prn_synth_weight){.dims = {1, VIT_TOKENS, WIDTH}, .sd = SD});
    return PRN_SYNTH_OP(s, "/embeddings", .type = "Add", .inputs = {x, table});
}

/* The tensors at which blocks are cut have names of their own, which one pattern matches (a cut
 * behind the last block would leave a layer with nothing but the head), and declared shapes. */
static const char *vit_cut(struct prn_synth *s, int block, const char *place, int64_t width)
{
    const char *name = prn_synth_name(s, "/cut/blocks.%d/%s", block, place);
    prn_synth_value(s, name, 3,
                    (const struct prn_dim[]){prn_synth_batch(s), PRN_SYNTH_FIXED(VIT_TOKENS),
                                             PRN_SYNTH_FIXED(width)});
    return name;
}

static const char *vit_attention(struct prn_synth *s, int block, const char *x)
{
    const char *scope = prn_synth_name(s, "/blocks.%d/attn", block);
    x = prn_synth_linear(s, prn_synth_name(s, "%s/qkv", scope),
                         prn_synth_name(s, "blocks.%d.attn.qkv", block), x, WIDTH, 3 * WIDTH, SD);
    const char *shape = INTS(s, "/constants/qkv_heads", 0, 0, 3, HEADS, HEAD_WIDTH);
    x = PRN_SYNTH_OP(s, scope, .type = "Reshape", .inputs = {x, shape});
    x = PRN_SYNTH_OP(s, scope, .type = "Transpose", .inputs = {x},
                     .attributes = {PRN_SYNTH_INTS("perm", 2, 0, 3, 1, 4)});
    static const char *const parts[] = {"q", "k", "v"};
    const char *qkv[3];
    for (int i = 0; i < 3; i++) {
        const char *index =
            prn_synth_index(s, prn_synth_name(s, "/constants/index_%s", parts[i]), i);
        qkv[i] = PRN_SYNTH_OP(s, prn_synth_name(s, "%s/%s", scope, parts[i]), .type = "Gather",
                              .inputs = {x, index}, .attributes = {PRN_SYNTH_INT("axis", 0)});
    }
    qkv[1] = PRN_SYNTH_OP(s, prn_synth_name(s, "%s/k", scope), .type = "Transpose",
                          .inputs = {qkv[1]}, .attributes = {PRN_SYNTH_INTS("perm", 0, 1, 3, 2)});
    return attend(s, scope, qkv[0], qkv[1], qkv[2], NULL, vit_cut(s, block, "attn/context", WIDTH));
}

static const char *vit_block(struct prn_synth *s, int block, const char *x)
{
    const char *scope = prn_synth_name(s, "/blocks.%d", block);
    const char *weights = prn_synth_name(s, "blocks.%d", block);
    const char *y = layer_norm(s, prn_synth_name(s, "%s/norm1", scope),
                               prn_synth_name(s, "%s.norm1", weights), x, VIT_EPSILON);
    y = vit_attention(s, block, y);
    y = prn_synth_linear(s, prn_synth_name(s, "%s/attn/proj", scope),
                         prn_synth_name(s, "%s.attn.proj", weights), y, WIDTH, WIDTH, SD);
    x = PRN_SYNTH_OP(s, prn_synth_name(s, "%s/attn", scope), .type = "Add", .inputs = {x, y},
                     .outputs = {vit_cut(s, block, "attn/residual", WIDTH)});
    y = layer_norm(s, prn_synth_name(s, "%s/norm2", scope), prn_synth_name(s, "%s.norm2", weights),
                   x, VIT_EPSILON);
    y = prn_synth_linear(s, prn_synth_name(s, "%s/mlp/fc1", scope),
                         prn_synth_name(s, "%s.mlp.fc1", weights), y, WIDTH, MLP_WIDTH, SD);
    y = gelu(s, prn_synth_name(s, "%s/mlp/act", scope), y,
             vit_cut(s, block, "mlp/hidden", MLP_WIDTH));
    y = prn_synth_linear(s, prn_synth_name(s, "%s/mlp/fc2", scope),
                         prn_synth_name(s, "%s.mlp.fc2", weights), y, MLP_WIDTH, WIDTH, SD);
    const char *last = block < BLOCKS - 1 ? vit_cut(s, block, "mlp/residual", WIDTH) : NULL;
    return PRN_SYNTH_OP(s, prn_synth_name(s, "%s/mlp", scope), .type = "Add", .inputs = {x, y},
                        .outputs = {last});
}

/* Scores of the classes from one of the tokens. */
static const char *vit_head(struct prn_synth *s, const char *pool, const char *scope,
                            const char *weights, const char *x, int64_t token, const char *output)
{
    const char *index =
        prn_synth_index(s, token == 0 ? "/constants/index_cls" : "/constants/index_dist", token);
    x = PRN_SYNTH_OP(s, pool, .type = "Gather", .inputs = {x, index},
                     .attributes = {PRN_SYNTH_INT("axis", 1)});
    return prn_synth_gemm(s, scope, weights, x, WIDTH, VIT_CLASSES, SD, output);
}

/* The mean of what two tokens say. */
static void vit_two_heads(struct prn_synth *s, const char *x)
{
    const char *a = vit_head(s, "/pool", "/head", "head", x, 0, NULL);
    const char *b = vit_head(s, "/pool_dist", "/head_dist", "head_dist", x, 1, NULL);
    const char *half = prn_synth_float(s, "/constants/half", 0.5f);
    const char *sum = PRN_SYNTH_OP(s, "/mean", .type = "Add", .inputs = {a, b});
    PRN_SYNTH_OP(s, "/mean", .type = "Mul", .inputs = {sum, half}, .outputs = {"logits"});
}

void prn_synth_build_vit(struct prn_synth *s)
{
    prn_synth_input(s, "pixel_values", PRN_DTYPE_FLOAT, 4,
                    (const struct prn_dim[]){prn_synth_batch(s), PRN_SYNTH_FIXED(3),
                                             PRN_SYNTH_FIXED(VIT_IMAGE),
                                             PRN_SYNTH_FIXED(VIT_IMAGE)});
    const char *x = vit_embeddings(s);
    for (int block = 0; block < BLOCKS; block++)
        x = vit_block(s, block, x);
    x = layer_norm(s, "/norm", "norm", x, VIT_EPSILON);
    if (s->shape->distilled)
        vit_two_heads(s, x);
    else
        vit_head(s, "/pool", "/head", "head", x, 0, "logits");
    prn_synth_output(s, "logits", 2,
                     (const struct prn_dim[]){prn_synth_batch(s), PRN_SYNTH_FIXED(VIT_CLASSES)});
}

/* ---- BERT, uncased ---- */

#define BERT_WORDS 30522
#define BERT_POSITIONS 512
#define BERT_TYPES 2
#define BERT_EPSILON 1e-12f

static const char *bert_embeddings(struct prn_synth *s)
{
    const char *scope = "/embeddings";
    const char *words = embedding(s, "embeddings.word_embeddings.weight", BERT_WORDS);
    const char *types = embedding(s, "embeddings.token_type_embeddings.weight", BERT_TYPES);
    const char *places = embedding(s, "embeddings.position_embeddings.weight", BERT_POSITIONS);
    const char *x = look_up(s, "/embeddings/word_embeddings", words, "input_ids");
    const char *type =
        s->shape->plain ? prn_synth_index(s, "/constants/first_type", 0) : "token_type_ids";
    const char *y = look_up(s, "/embeddings/token_type_embeddings", types, type);
    x = PRN_SYNTH_OP(s, scope, .type = "Add", .inputs = {x, y});
    y = positions(s, "/embeddings/position_embeddings", places, sequence_length(s));
    x = PRN_SYNTH_OP(s, scope, .type = "Add", .inputs = {x, y});
    return layer_norm(s, "/embeddings/LayerNorm", "embeddings.LayerNorm", x, BERT_EPSILON);
}

/* Where PipeEdge cuts blocks of a plain one; others have no names for it. */
static const char *bert_cut(struct prn_synth *s, int block, const char *place)
{
    return s->shape->plain ? prn_synth_name(s, "/cut/layer.%d/%s", block, place) : NULL;
}

/* [batch, seq] of ones and zeros → [batch, 1, 1, seq] of zeros and the lowest number. */
static const char *bert_mask(struct prn_synth *s)
{
    const char *scope = "/attention_mask";
    const char *axes = INTS(s, "/constants/mask_axes", 1, 2);
    const char *one = prn_synth_float(s, "/constants/one", 1.0f);
    const char *lowest = prn_synth_float(s, "/constants/lowest", -FLT_MAX);
    const char *x = PRN_SYNTH_OP(s, scope, .type = "Unsqueeze", .inputs = {"attention_mask", axes});
    x = PRN_SYNTH_OP(s, scope, .type = "Cast", .inputs = {x},
                     .attributes = {PRN_SYNTH_INT("to", PRN_DTYPE_FLOAT)});
    x = PRN_SYNTH_OP(s, scope, .type = "Sub", .inputs = {one, x});
    return PRN_SYNTH_OP(s, scope, .type = "Mul", .inputs = {x, lowest});
}

static const char *bert_attention(struct prn_synth *s, int block, const char *x, const char *mask)
{
    static const char *const parts[] = {"query", "key", "value"};
    const char *scope = prn_synth_name(s, "/encoder/layer.%d/attention", block);
    const char *qkv[3];
    for (int i = 0; i < 3; i++) {
        const char *part = prn_synth_name(s, "%s/%s", scope, parts[i]);
        qkv[i] = prn_synth_linear(
            s, part, prn_synth_name(s, "encoder.layer.%d.attention.self.%s", block, parts[i]), x,
            WIDTH, WIDTH, SD);
        qkv[i] = split_heads(s, part, qkv[i], i == 1);
    }
    return attend(s, scope, qkv[0], qkv[1], qkv[2], mask, bert_cut(s, block, "attention/context"));
}

static const char *bert_block(struct prn_synth *s, int block, const char *x, const char *mask)
{
    const char *scope = prn_synth_name(s, "/encoder/layer.%d", block);
    const char *weights = prn_synth_name(s, "encoder.layer.%d", block);
    const char *y = bert_attention(s, block, x, mask);
    const char *part = prn_synth_name(s, "%s/attention/output", scope);
    y = prn_synth_linear(s, part, prn_synth_name(s, "%s.attention.output.dense", weights), y, WIDTH,
                         WIDTH, SD);
    x = PRN_SYNTH_OP(s, part, .type = "Add", .inputs = {x, y});
    x = layer_norm_as(s, part, prn_synth_name(s, "%s.attention.output.LayerNorm", weights), x,
                      BERT_EPSILON, bert_cut(s, block, "attention/output"));
    part = prn_synth_name(s, "%s/intermediate", scope);
    y = prn_synth_linear(s, part, prn_synth_name(s, "%s.intermediate.dense", weights), x, WIDTH,
                         MLP_WIDTH, SD);
    y = gelu(s, prn_synth_name(s, "%s/act", part), y, bert_cut(s, block, "intermediate"));
    part = prn_synth_name(s, "%s/output", scope);
    y = prn_synth_linear(s, part, prn_synth_name(s, "%s.output.dense", weights), y, MLP_WIDTH,
                         WIDTH, SD);
    x = PRN_SYNTH_OP(s, part, .type = "Add", .inputs = {x, y});
    const char *last = block < BLOCKS - 1 ? bert_cut(s, block, "output") : NULL;
    return layer_norm_as(s, part, prn_synth_name(s, "%s.output.LayerNorm", weights), x,
                         BERT_EPSILON, last);
}

void prn_synth_build_bert(struct prn_synth *s)
{
    bool plain = s->shape->plain;
    token_input(s, "input_ids");
    if (!plain) {
        token_input(s, "attention_mask");
        token_input(s, "token_type_ids");
    }
    const char *mask = plain ? NULL : bert_mask(s);
    const char *x = bert_embeddings(s);
    for (int block = 0; block < BLOCKS; block++)
        x = bert_block(s, block, x, mask);
    if (!plain)
        x = PRN_SYNTH_OP(s, "/encoder", .type = "Identity", .inputs = {x},
                         .outputs = {"last_hidden_state"});
    const char *first = prn_synth_index(s, "/constants/index_cls", 0);
    x = PRN_SYNTH_OP(s, "/pooler", .type = "Gather", .inputs = {x, first},
                     .attributes = {PRN_SYNTH_INT("axis", 1)});
    x = prn_synth_gemm(s, "/pooler", "pooler.dense", x, WIDTH, WIDTH, SD, NULL);
    int64_t classes = s->shape->classes;
    x = PRN_SYNTH_OP(s, "/pooler", .type = "Tanh", .inputs = {x},
                     .outputs = {classes ? NULL : "pooler_output"});
    if (classes)
        prn_synth_gemm(s, "/classifier", "classifier", x, WIDTH, classes, SD, "logits");
    if (!plain)
        prn_synth_output(
            s, "last_hidden_state", 3,
            (const struct prn_dim[]){prn_synth_batch(s), prn_synth_seq(s), PRN_SYNTH_FIXED(WIDTH)});
    prn_synth_output(
        s, classes ? "logits" : "pooler_output", 2,
        (const struct prn_dim[]){prn_synth_batch(s), PRN_SYNTH_FIXED(classes ? classes : WIDTH)});
}

/* ---- GPT-2, 124 M ---- */

#define GPT2_WORDS 50257
#define GPT2_POSITIONS 1024
#define GPT2_EPSILON 1e-5f
/* Of the projections that end in the residual stream, of which there are two per block. */
#define GPT2_RESIDUAL_SD (SD / sqrt(2.0 * BLOCKS))

/* [seq, seq]: zero on and below the diagonal, the lowest number above it. */
static const char *gpt2_mask(struct prn_synth *s, const char *length)
{
    const char *scope = "/causal_mask";
    static const float lowest = -FLT_MAX;
    static const int64_t one_dim = 1;
    static const struct prn_constant fill = {.dtype = PRN_DTYPE_FLOAT,
                                             .rank = 1,
                                             .dims = &one_dim,
                                             .elements = 1,
                                             .bytes = sizeof lowest,
                                             .data = &lowest};
    const char *shape = PRN_SYNTH_OP(s, scope, .type = "Concat", .inputs = {length, length},
                                     .attributes = {PRN_SYNTH_INT("axis", 0)});
    const char *x = PRN_SYNTH_OP(
        s, scope, .type = "ConstantOfShape", .inputs = {shape},
        .attributes = {{.name = "value", .kind = PRN_ATTRIBUTE_TENSOR, .n = 1, .tensor = &fill}});
    const char *diagonal = prn_synth_index(s, "/constants/above_diagonal", 1);
    return PRN_SYNTH_OP(s, scope, .type = "Trilu", .inputs = {x, diagonal},
                        .attributes = {PRN_SYNTH_INT("upper", 1)});
}

static const char *gpt2_attention(struct prn_synth *s, int block, const char *x, const char *mask)
{
    const char *scope = prn_synth_name(s, "/h.%d/attn", block);
    x = prn_synth_linear(s, prn_synth_name(s, "%s/c_attn", scope),
                         prn_synth_name(s, "h.%d.attn.c_attn", block), x, WIDTH, 3 * WIDTH, SD);
    const char *q = prn_synth_name(s, "%s/query", scope);
    const char *k = prn_synth_name(s, "%s/key", scope);
    const char *v = prn_synth_name(s, "%s/value", scope);
    const char *sizes = INTS(s, "/constants/qkv_widths", WIDTH, WIDTH, WIDTH);
    PRN_SYNTH_OP(s, scope, .type = "Split", .inputs = {x, sizes}, .outputs = {q, k, v},
                 .attributes = {PRN_SYNTH_INT("axis", 2)});
    const char *queries = split_heads(s, q, q, false);
    const char *keys = split_heads(s, k, k, true);
    const char *values = split_heads(s, v, v, false);
    return attend(s, scope, queries, keys, values, mask, NULL);
}

static const char *gpt2_block(struct prn_synth *s, int block, const char *x, const char *mask)
{
    const char *scope = prn_synth_name(s, "/h.%d", block);
    const char *weights = prn_synth_name(s, "h.%d", block);
    const char *y = layer_norm(s, prn_synth_name(s, "%s/ln_1", scope),
                               prn_synth_name(s, "%s.ln_1", weights), x, GPT2_EPSILON);
    y = gpt2_attention(s, block, y, mask);
    y = prn_synth_linear(s, prn_synth_name(s, "%s/attn/c_proj", scope),
                         prn_synth_name(s, "%s.attn.c_proj", weights), y, WIDTH, WIDTH,
                         GPT2_RESIDUAL_SD);
    x = PRN_SYNTH_OP(s, scope, .type = "Add", .inputs = {x, y});
    y = layer_norm(s, prn_synth_name(s, "%s/ln_2", scope), prn_synth_name(s, "%s.ln_2", weights), x,
                   GPT2_EPSILON);
    y = prn_synth_linear(s, prn_synth_name(s, "%s/mlp/c_fc", scope),
                         prn_synth_name(s, "%s.mlp.c_fc", weights), y, WIDTH, MLP_WIDTH, SD);
    y = gelu_tanh(s, prn_synth_name(s, "%s/mlp/act", scope), y);
    y = prn_synth_linear(s, prn_synth_name(s, "%s/mlp/c_proj", scope),
                         prn_synth_name(s, "%s.mlp.c_proj", weights), y, MLP_WIDTH, WIDTH,
                         GPT2_RESIDUAL_SD);
    return PRN_SYNTH_OP(s, scope, .type = "Add", .inputs = {x, y});
}

void prn_synth_build_gpt2(struct prn_synth *s)
{
    token_input(s, "input_ids");
    const char *words = embedding(s, "wte.weight", GPT2_WORDS);
    const char *places = embedding(s, "wpe.weight", GPT2_POSITIONS);
    const char *length = sequence_length(s);
    const char *mask = gpt2_mask(s, length);
    const char *x = look_up(s, "/wte", words, "input_ids");
    x = PRN_SYNTH_OP(s, "/embeddings", .type = "Add",
                     .inputs = {x, positions(s, "/wpe", places, length)});
    for (int block = 0; block < BLOCKS; block++)
        x = gpt2_block(s, block, x, mask);
    x = layer_norm(s, "/ln_f", "ln_f", x, GPT2_EPSILON);
    /* The head is tied to the embedding: one initialiser, transposed here. */
    const char *head = PRN_SYNTH_OP(s, "/lm_head", .type = "Transpose", .inputs = {words},
                                    .attributes = {PRN_SYNTH_INTS("perm", 1, 0)});
    PRN_SYNTH_OP(s, "/lm_head", .type = "MatMul", .inputs = {x, head}, .outputs = {"logits"});
    prn_synth_output(s, "logits", 3,
                     (const struct prn_dim[]){prn_synth_batch(s), prn_synth_seq(s),
                                              PRN_SYNTH_FIXED(GPT2_WORDS)});
}
