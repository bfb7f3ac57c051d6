/* A plugin for ONNX Runtime with one execution provider, "TestExecutionProvider": it takes every
 * Mul of two tensors of the same size or with one number, and multiplies by its option "scale" too.
 * It declares what it needs of the C API itself, as the build has no header of it. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct base {
    const void *const *(*api)(uint32_t version);
    const char *(*version)(void);
};

/* OrtEpFactory, OrtEp and OrtNodeComputeInfo as they were in 1.23; the rest stays NULL. */
struct factory {
    uint32_t version;
    const char *(*name)(const struct factory *);
    const char *(*vendor)(const struct factory *);
    void *(*devices)(struct factory *, const void *const *, size_t, void **, size_t, size_t *);
    void *(*create)(struct factory *, const void *const *, const void *const *, size_t,
                    const void *, const void *, void **);
    void (*release)(struct factory *, void *);
    uint32_t (*vendor_id)(const struct factory *);
    const char *(*own_version)(const struct factory *);
    void *validate, *create_allocator, *release_allocator;
    void *(*create_transfer)(struct factory *, void **);
    _Bool (*is_stream_aware)(const struct factory *);
    void *later[32];
};

struct provider {
    uint32_t version;
    const char *(*name)(const struct provider *);
    void *(*capability)(struct provider *, const void *, void *);
    void *(*compile)(struct provider *, const void **, const void **, size_t, void **, void **);
    void (*release)(struct provider *, void **, size_t);
    void *later[32];
    float scale;
};

struct computing {
    uint32_t version;
    void *(*create)(struct computing *, void *, void **);
    void *(*compute)(struct computing *, void *, void *);
    void (*release)(struct computing *, void *);
    float scale;
};

static const void *const *table, *const *ep_table;

static void *function(const void *const *from, size_t slot)
{
    void *f;
    memcpy(&f, &from[slot], sizeof f);
    return f;
}

#define CALL(slot, ...) ((void *(*)(__VA_ARGS__))function(table, slot))
#define CALL_EP(slot, ...) ((void *(*)(__VA_ARGS__))function(ep_table, slot))
enum { VERSION = 23 };

static const char *name(const struct factory *f)
{
    (void)f;
    return "TestExecutionProvider";
}

static const char *provider_name(const struct provider *p)
{
    (void)p;
    return "TestExecutionProvider";
}

static const char *vendor(const struct factory *f)
{
    (void)f;
    return "nobody";
}

static uint32_t vendor_id(const struct factory *f)
{
    (void)f;
    return 0xf00d;
}

static const char *own_version(const struct factory *f)
{
    (void)f;
    return "7.8.9";
}

/* It works in main memory, so nothing is transferred. */
static void *create_transfer(struct factory *f, void **ret)
{
    (void)f;
    *ret = NULL;
    return NULL;
}

static _Bool is_stream_aware(const struct factory *f)
{
    (void)f;
    return 0;
}

static void *devices(struct factory *f, const void *const *hardware, size_t n, void **ret,
                     size_t most, size_t *ret_n)
{
    *ret_n = 0;
    for (size_t i = 0; i < n && *ret_n < most; i++)
        if (((int (*)(const void *))function(table, 307))(hardware[i]) == 0)
            return CALL_EP(0, struct factory *, const void *, const void *, const void *,
                           void **)(f, hardware[i], NULL, NULL, &ret[(*ret_n)++]);
    return NULL;
}

static const void *element(void *context, size_t i, float **data, size_t *n)
{
    const void *value = NULL;
    void *info = NULL;
    CALL(90, void *, size_t, const void **)(context, i, &value);
    CALL(65, const void *, void **)(value, &info);
    CALL(64, const void *, size_t *)(info, n);
    CALL(51, const void *, float **)(value, data);
    return info;
}

static void *compute(struct computing *c, void *state, void *context)
{
    float *x, *y, *to;
    int64_t dims[8];
    size_t n, n_y, rank;
    void *out = NULL;
    (void)state;
    const void *info = element(context, 0, &x, &n);
    const void *other = element(context, 1, &y, &n_y);
    CALL(61, const void *, size_t *)(info, &rank);
    CALL(62, const void *, int64_t *, size_t)(info, dims, rank);
    CALL(91, void *, size_t, const int64_t *, size_t, void **)(context, 0, dims, rank, &out);
    CALL(51, void *, float **)(out, &to);
    for (size_t i = 0; i < n; i++)
        to[i] = c->scale * x[i] * y[n_y == 1 ? 0 : i];
    ((void (*)(const void *))function(table, 99))(info);
    ((void (*)(const void *))function(table, 99))(other);
    return NULL;
}

static void *create_state(struct computing *c, void *context, void **ret)
{
    (void)context;
    *ret = c;
    return NULL;
}

static void release_state(struct computing *c, void *state)
{
    (void)c;
    (void)state;
}

static void *capability(struct provider *p, const void *graph, void *info)
{
    size_t n = 0;
    (void)p;
    CALL(344, const void *, size_t *)(graph, &n);
    const void **nodes = calloc(n + 1, sizeof *nodes);
    CALL(345, const void *, const void **, size_t)(graph, nodes, n);
    for (size_t i = 0; i < n; i++) {
        const char *op = NULL;
        CALL(350, const void *, const char **)(nodes[i], &op);
        if (strcmp(op, "Mul") == 0)
            CALL_EP(2, void *, const void **, size_t, const void *)(info, &nodes[i], 1, NULL);
    }
    free(nodes);
    return NULL;
}

static void *compile(struct provider *p, const void **graphs, const void **fused, size_t n,
                     void **infos, void **contexts)
{
    (void)graphs;
    (void)fused;
    (void)contexts;
    for (size_t i = 0; i < n; i++) {
        struct computing *c = malloc(sizeof *c);
        *c = (struct computing){VERSION, create_state, compute, release_state, p->scale};
        infos[i] = c;
    }
    return NULL;
}

static void release_infos(struct provider *p, void **infos, size_t n)
{
    (void)p;
    for (size_t i = 0; i < n; i++)
        free(infos[i]);
}

static void *create(struct factory *f, const void *const *hardware, const void *const *metadata,
                    size_t n, const void *options, const void *logger, void **ret)
{
    char text[32];
    size_t size = sizeof text;
    int has = 0;
    const char *key = "ep.testexecutionprovider.scale";
    (void)f;
    (void)hardware;
    (void)metadata;
    (void)n;
    (void)logger;
    struct provider *p = calloc(1, sizeof *p);
    *p = (struct provider){.version = VERSION,
                           .name = provider_name,
                           .capability = capability,
                           .compile = compile,
                           .release = release_infos,
                           .scale = 1};
    CALL(237, const void *, const char *, int *)(options, key, &has);
    if (has && !CALL(238, const void *, const char *, char *, size_t *)(options, key, text, &size))
        p->scale = strtof(text, NULL);
    *ret = p;
    return NULL;
}

static void release(struct factory *f, void *provider)
{
    (void)f;
    free(provider);
}

void *CreateEpFactories(const char *registered, const struct base *base, const void *logger,
                        struct factory **factories, size_t most, size_t *ret_n);
void *CreateEpFactories(const char *registered, const struct base *base, const void *logger,
                        struct factory **factories, size_t most, size_t *ret_n)
{
    static struct factory factory = {.version = VERSION,
                                     .name = name,
                                     .vendor = vendor,
                                     .devices = devices,
                                     .create = create,
                                     .release = release,
                                     .vendor_id = vendor_id,
                                     .own_version = own_version,
                                     .create_transfer = create_transfer,
                                     .is_stream_aware = is_stream_aware};
    (void)registered;
    (void)logger;
    (void)most;
    table = base->api(VERSION);
    ep_table = ((const void *const *(*)(void))function(table, 317))();
    factories[0] = &factory;
    *ret_n = 1;
    return NULL;
}

void *ReleaseEpFactory(struct factory *f);
void *ReleaseEpFactory(struct factory *f)
{
    (void)f;
    return NULL;
}
