/* A library of custom operators for ONNX Runtime: "Twice" of the domain "test", y = 2x. It declares
 * what it needs of the C API itself, as the build has no header of it. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct base {
    const void *const *(*api)(uint32_t version);
    const char *(*version)(void);
};

/* OrtCustomOp as it was in 1.13: what came later isn't looked at. */
struct custom_op {
    uint32_t version;
    void *(*create)(const struct custom_op *, const void *, const void *);
    const char *(*name)(const struct custom_op *);
    const char *(*provider)(const struct custom_op *);
    int (*input_type)(const struct custom_op *, size_t);
    size_t (*inputs)(const struct custom_op *);
    int (*output_type)(const struct custom_op *, size_t);
    size_t (*outputs)(const struct custom_op *);
    void (*compute)(void *, void *);
    void (*destroy)(void *);
    int (*input_kind)(const struct custom_op *, size_t);
    int (*output_kind)(const struct custom_op *, size_t);
    int (*input_memory)(const struct custom_op *, size_t);
    void *later[32];
};

static const void *const *table;

static void *function(size_t slot)
{
    void *f;
    memcpy(&f, &table[slot], sizeof f);
    return f;
}

#define CALL(slot, ...) ((void *(*)(__VA_ARGS__))function(slot))

static void *create(const struct custom_op *op, const void *api, const void *info)
{
    (void)api;
    (void)info;
    return (void *)(uintptr_t)op;
}

static const char *name(const struct custom_op *op)
{
    (void)op;
    return "Twice";
}

static const char *provider(const struct custom_op *op)
{
    (void)op;
    return NULL;
}

static int type(const struct custom_op *op, size_t i)
{
    (void)op;
    (void)i;
    return 1; /* float */
}

static int zero(const struct custom_op *op, size_t i)
{
    (void)op;
    (void)i;
    return 0; /* required; the provider's own memory */
}

static size_t one(const struct custom_op *op)
{
    (void)op;
    return 1;
}

static void compute(void *kernel, void *context)
{
    (void)kernel;
    const void *x = NULL;
    void *y = NULL, *info = NULL;
    float *from = NULL, *to = NULL;
    int64_t dims[8];
    size_t rank = 0, n = 1;
    CALL(90, void *, size_t, const void **)(context, 0, &x);
    CALL(65, const void *, void **)(x, &info);
    CALL(61, const void *, size_t *)(info, &rank);
    CALL(62, const void *, int64_t *, size_t)(info, dims, rank);
    for (size_t i = 0; i < rank; i++)
        n *= (size_t)dims[i];
    CALL(91, void *, size_t, const int64_t *, size_t, void **)(context, 0, dims, rank, &y);
    CALL(51, const void *, void *)(x, &from);
    CALL(51, const void *, void *)(y, &to);
    for (size_t i = 0; i < n; i++)
        to[i] = 2 * from[i];
    ((void (*)(void *))function(99))(info);
}

static void destroy(void *kernel)
{
    (void)kernel;
}

void *RegisterCustomOps(void *options, const struct base *base);
void *RegisterCustomOps(void *options, const struct base *base)
{
    static const struct custom_op op = {
        .version = 13,
        .create = create,
        .name = name,
        .provider = provider,
        .input_type = type,
        .inputs = one,
        .output_type = type,
        .outputs = one,
        .compute = compute,
        .destroy = destroy,
        .input_kind = zero,
        .output_kind = zero,
        .input_memory = zero,
    };
    void *domain = NULL;
    table = base->api(17);
    void *status = CALL(26, const char *, void **)("test", &domain);
    if (!status)
        status = CALL(27, void *, const void *)(domain, &op);
    return status ? status : CALL(28, void *, void *)(options, domain);
}
