#include "measure/check/config.h"

#include "format/yaml_fields.h"
#include "measure/resume.h"

#include <math.h>
#include <string.h>

#define FILE_MAX_BYTES ((size_t)1 << 20)
#define ARENA_BYTES ((size_t)64 << 20)
#define ITEMS_MAX 256
#define TIMEOUT_S 120

/* ---- Values ---- */

/* A percentage, or "none" where the limit for all models isn't for this one. */
static int read_limit(const struct prn_yaml_reader *r, const struct prn_yaml_key *key,
                      const struct prn_yaml_node *node, void *into)
{
    if (node->kind != PRN_YAML_SCALAR || strcmp(node->text, "none") != 0)
        return prn_yaml_read_percent(r, key, node, into);
    *(double *)into = NAN;
    return 0;
}

/* "same", a percentage, or "any". */
static int read_outputs(const struct prn_yaml_reader *r, const struct prn_yaml_key *key,
                        const struct prn_yaml_node *node, void *into)
{
    struct prn_check_limits *limits = into;
    limits->tolerance = NAN;
    const char *text = node->kind == PRN_YAML_SCALAR ? node->text : "";
    bool same = strcmp(text, "same") == 0;
    bool any = strcmp(text, "any") == 0 || strcmp(text, "none") == 0;
    limits->outputs = !any;
    if (same || any)
        return 0;
    if (prn_yaml_read_percent(r, key, node, &limits->tolerance) < 0)
        return prn_yaml_fail_value(r, key, node, "same, any, or a percentage such as 1%");
    return 0;
}

/* ---- Lists and maps of texts ---- */

static int new_texts(const struct prn_yaml_reader *r, const struct prn_yaml_key *key,
                     const struct prn_yaml_node *node, size_t n, const char ***ret_items)
{
    if (n > ITEMS_MAX)
        return prn_yaml_fail(r->yaml, node, r->err, "'%s' has more than %d entries", key->name,
                             ITEMS_MAX);
    *ret_items = PRN_ARENA_ARRAY(r->arena, n + 1, const char *);
    return *ret_items ? 0 : prn_fail_memory(r->err);
}

/* A list of texts, or one; an empty list takes back what the file says for all models. */
static int read_list(const struct prn_yaml_reader *r, const struct prn_yaml_key *key,
                     const struct prn_yaml_node *node, void *into)
{
    const char **items = NULL;
    size_t n = 0;
    bool none = node->kind == PRN_YAML_LIST && node->n == 0;
    int code = none ? 0 : prn_yaml_texts(r, key->name, node, ITEMS_MAX, &items, &n);
    if (code == 0)
        *(struct prn_texts *)into = (struct prn_texts){items, n};
    return code;
}

/* The values of an entry: "8", or "1,8" of a list. */
static int read_values(const struct prn_yaml_reader *r, const struct prn_yaml_key *key,
                       const struct prn_yaml_node *node, const char **ret_text)
{
    if (node->kind != PRN_YAML_LIST)
        return prn_yaml_text(r, key->name, node, ret_text);
    const char *all = "";
    int code = node->n == 0 || node->n > ITEMS_MAX
                   ? prn_yaml_fail_value(r, key, node, "a list of sizes")
                   : 0;
    for (size_t i = 0; i < node->n && code == 0; i++) {
        const char *one;
        code = prn_yaml_text(r, key->name, node->items[i], &one);
        if (code == 0)
            code = prn_yaml_join(r, all, i ? "," : "", one, &all);
    }
    *ret_text = all;
    return code;
}

/* {batch: 8} as "batch=8", and {batch: [1, 8]} as "batch=1,8". */
static int read_sizes(const struct prn_yaml_reader *r, const struct prn_yaml_key *key,
                      const struct prn_yaml_node *node, void *into)
{
    const char **items;
    if (node->kind != PRN_YAML_MAP)
        return prn_yaml_fail_value(r, key, node, "a map such as {batch: 8}");
    int code = new_texts(r, key, node, node->n, &items);
    for (size_t i = 0; i < node->n && code == 0; i++) {
        const char *value;
        code = read_values(r, key, node->items[i], &value);
        if (code == 0)
            code = prn_yaml_join(r, node->keys[i], "=", value, &items[i]);
    }
    if (code == 0)
        *(struct prn_texts *)into = (struct prn_texts){items, node->n};
    return code;
}

/* A map {x: ones, mask: '@mask.npy'}, or a folder with ONNX's test data. */
static int read_inputs(const struct prn_yaml_reader *r, const struct prn_yaml_key *key,
                       const struct prn_yaml_node *node, void *into)
{
    struct prn_check_model *model = into;
    const char **items;
    if (node->kind == PRN_YAML_SCALAR) {
        model->inputs = (struct prn_texts){0};
        return prn_yaml_read_path(r, key, node, &model->inputs_folder);
    }
    if (node->kind != PRN_YAML_MAP)
        return prn_yaml_fail_value(r, key, node, "a map such as {x: ones}, or a folder");
    int code = new_texts(r, key, node, node->n, &items);
    for (size_t i = 0; i < node->n && code == 0; i++) {
        const char *value;
        code = prn_yaml_text(r, node->keys[i], node->items[i], &value);
        bool file = code == 0 && value[0] == '@';
        if (file)
            code = prn_yaml_place(r, value + 1, &value);
        if (code == 0)
            code = prn_yaml_join(r, node->keys[i], file ? "=@" : "=", value, &items[i]);
    }
    if (code == 0) {
        model->inputs = (struct prn_texts){items, node->n};
        model->inputs_folder = NULL;
    }
    return code;
}

/* ---- The old version ---- */

struct old_texts {
    const char *git, *path, *report;
};

static const struct prn_yaml_key old_keys[] = {
    PRN_YAML_KEY("git", prn_yaml_read_text, offsetof(struct old_texts, git)),
    PRN_YAML_KEY("path", prn_yaml_read_text, offsetof(struct old_texts, path)),
    PRN_YAML_KEY("report", prn_yaml_read_path, offsetof(struct old_texts, report)),
};

static int read_old(const struct prn_yaml_reader *r, const struct prn_yaml_key *key,
                    const struct prn_yaml_node *node, void *into)
{
    struct prn_check_old *old = into;
    struct old_texts texts = {0};
    int code = node->kind == PRN_YAML_SCALAR ? prn_yaml_text(r, key->name, node, &texts.path)
                                             : prn_yaml_read_map(r, key->name, node, old_keys,
                                                                 PRN_ARRAY_SIZE(old_keys), &texts);
    if (code < 0)
        return code;
    if (texts.report && (texts.git || texts.path))
        return prn_yaml_fail(r->yaml, node, r->err,
                             "'%s': 'report' cannot be combined with 'git' and 'path'", key->name);
    if (!texts.report && !texts.git && !texts.path)
        return prn_yaml_fail(r->yaml, node, r->err,
                             "'%s' is a path, {git: REVISION} or {report: FILE.json}", key->name);
    if (texts.report) {
        *old = (struct prn_check_old){PRN_CHECK_SOURCE_REPORT, texts.report, NULL};
        return 0;
    }
    /* git takes paths as they are written, from the file's folder. */
    *old = (struct prn_check_old){texts.git ? PRN_CHECK_SOURCE_GIT : PRN_CHECK_SOURCE_FILE,
                                  texts.path, texts.git};
    return texts.git ? 0 : prn_yaml_place(r, texts.path, &old->path);
}

/* ---- Models ---- */

#define LIMIT(member) offsetof(struct prn_check_limits, member)

static const struct prn_yaml_key limit_keys[] = {
    PRN_YAML_KEY("time", read_limit, LIMIT(time), PRN_YAML_RANGE(0, 1000)),
    PRN_YAML_KEY("memory", read_limit, LIMIT(memory), PRN_YAML_RANGE(0, 1000)),
    PRN_YAML_KEY("size", read_limit, LIMIT(size), PRN_YAML_RANGE(0, 1000)),
    PRN_YAML_KEY("outputs", read_outputs, 0, PRN_YAML_RANGE(0, 1)),
};

#define MODEL(member) offsetof(struct prn_check_model, member)

/* What may be said once for all models, and for each. */
#define SHARED_KEYS                                                                                \
    PRN_YAML_KEY("old", read_old, MODEL(old)),                                                     \
        PRN_YAML_KEY("backends", read_list, MODEL(backends)),                                      \
        PRN_YAML_KEY("dims", read_sizes, MODEL(dims)),                                             \
        PRN_YAML_KEY("shapes", read_sizes, MODEL(shapes)), PRN_YAML_KEY("inputs", read_inputs, 0), \
        PRN_YAML_SECTION("limits", limit_keys, MODEL(limits))

static const struct prn_yaml_key model_keys[] = {
    PRN_YAML_KEY("path", prn_yaml_read_text, MODEL(written)),
    PRN_YAML_KEY("name", prn_yaml_read_text, MODEL(name)),
    SHARED_KEYS,
};

static bool is_limited(const struct prn_check_limits *l)
{
    return !isnan(l->time) || !isnan(l->memory) || !isnan(l->size) || l->outputs;
}

static int read_model(const struct prn_yaml_reader *r, const struct prn_check_model *shared,
                      const struct prn_yaml_node *node, struct prn_check_config *config)
{
    struct prn_check_model *model = &config->models[config->n_models];
    *model = *shared;
    int code = node->kind == PRN_YAML_SCALAR ? prn_yaml_text(r, "models", node, &model->written)
                                             : prn_yaml_read_map(r, "models", node, model_keys,
                                                                 PRN_ARRAY_SIZE(model_keys), model);
    if (code < 0)
        return code;
    if (!model->written)
        return prn_yaml_fail(r->yaml, node, r->err, "a model needs a 'path'");
    if (!model->name)
        model->name = model->written;
    if (!is_limited(&model->limits))
        return prn_yaml_fail(r->yaml, node, r->err,
                             "'%.100s' has no limits: give time, memory, size or outputs",
                             model->name);
    for (size_t i = 0; i < config->n_models; i++)
        if (strcmp(config->models[i].name, model->name) == 0)
            return prn_yaml_fail(r->yaml, node, r->err,
                                 "two models are called '%.100s'; give one of them a 'name'",
                                 model->name);
    config->n_models++;
    return prn_yaml_place(r, model->written, &model->path);
}

/* ---- The file ---- */

struct top {
    struct prn_check_model shared; /* first: the keys of a model count from here */
    struct prn_check_config config;
    const struct prn_yaml_node *models;
};

static int read_models(const struct prn_yaml_reader *r, const struct prn_yaml_key *key,
                       const struct prn_yaml_node *node, void *into)
{
    if (node->kind != PRN_YAML_LIST || node->n == 0 || node->n > PRN_CHECK_MODELS_MAX)
        return prn_yaml_fail(r->yaml, node, r->err, "'%s' is not a list of 1 to %d models",
                             key->name, PRN_CHECK_MODELS_MAX);
    *(const struct prn_yaml_node **)into = node;
    return 0;
}

#define CONFIG(member) offsetof(struct top, config.member)
#define SETTING(member) CONFIG(settings.member)

static const struct prn_yaml_key measure_keys[] = {
    PRN_YAML_KEY("max_time", prn_yaml_read_duration, SETTING(max_time_s), PRN_YAML_RANGE(0.1, 1e6)),
    PRN_YAML_KEY("launches", prn_yaml_read_integer, SETTING(launches), PRN_YAML_RANGE(1, 1000)),
    PRN_YAML_KEY("repeats", prn_yaml_read_integer, SETTING(repeats), PRN_YAML_RANGE(1, 1e7)),
    PRN_YAML_KEY("warmups", prn_yaml_read_integer, SETTING(warmups), PRN_YAML_RANGE(0, 1e6)),
    PRN_YAML_KEY("precision", prn_yaml_read_percent, SETTING(precision), PRN_YAML_RANGE(1e-4, 1)),
    PRN_YAML_KEY("difference", prn_yaml_read_percent, SETTING(smallest_difference),
                 PRN_YAML_RANGE(0, 1)),
    PRN_YAML_KEY("seed", prn_yaml_read_integer, SETTING(seed), PRN_YAML_RANGE(0, 9e15)),
    PRN_YAML_KEY("timeout", prn_yaml_read_duration, CONFIG(timeout_s), PRN_YAML_RANGE(0.1, 1e6)),
};

static const struct prn_yaml_key file_keys[] = {
    PRN_YAML_KEY("models", read_models, offsetof(struct top, models)),
    PRN_YAML_SECTION("measure", measure_keys, 0),
    SHARED_KEYS,
};

static int read_root(const struct prn_yaml_reader *r, const struct prn_yaml_node *root,
                     struct top *top)
{
    struct prn_check_config *config = &top->config;
    if (!root || prn_yaml_is_null(root))
        return prn_fail(r->err, PRONY_EFORMAT, "'%s' is empty: it needs 'models'", config->path);
    int code = prn_yaml_read_map(r, "the file", root, file_keys, PRN_ARRAY_SIZE(file_keys), top);
    if (code < 0)
        return code;
    if (!top->models)
        return prn_yaml_fail(r->yaml, root, r->err, "'models' is missing");
    config->models = PRN_ARENA_ARRAY(r->arena, top->models->n, struct prn_check_model);
    if (!config->models)
        return prn_fail_memory(r->err);
    for (size_t i = 0; i < top->models->n && code == 0; i++)
        code = read_model(r, &top->shared, top->models->items[i], config);
    return code;
}

static int config_take(struct prn_yaml *yaml, const char *path, struct prn_check_config *ret_config,
                       struct prony_error *err)
{
    struct top top = {
        .shared = {.limits = {.time = NAN, .memory = NAN, .size = NAN, .tolerance = NAN}},
        .config = {.arena = PRN_ARENA_INIT(ARENA_BYTES),
                   .timeout_s = TIMEOUT_S,
                   .settings = {.seed = PRN_SEED_UNSET,
                                .precision = NAN,
                                .smallest_difference = NAN,
                                .tolerance = NAN,
                                .max_time_s = NAN,
                                .warmups = -1}}};
    struct prn_check_config *config = &top.config;
    const struct prn_yaml_reader r = {yaml, &config->arena, err,
                                      prn_yaml_folder(&config->arena, path)};
    config->path = prn_arena_strdup(&config->arena, path);
    config->folder = r.folder && r.folder[0] ? r.folder : ".";
    int code =
        config->path && r.folder ? read_root(&r, prn_yaml_root(yaml), &top) : prn_fail_memory(err);
    prn_yaml_free(yaml);
    if (code < 0)
        prn_check_config_release(config);
    else
        *ret_config = *config;
    return code;
}

int prn_check_config_parse(const char *text, size_t len, const char *path,
                           struct prn_check_config *ret_config, struct prony_error *err)
{
    struct prn_yaml *yaml;
    int code = prn_yaml_parse(text, len, path, &yaml, err);
    return code == 0 ? config_take(yaml, path, ret_config, err) : code;
}

int prn_check_config_read(const char *path, struct prn_check_config *ret_config,
                          struct prony_error *err)
{
    struct prn_yaml *yaml;
    int code = prn_yaml_read(path, FILE_MAX_BYTES, &yaml, err);
    return code == 0 ? config_take(yaml, path, ret_config, err) : code;
}

void prn_check_config_release(struct prn_check_config *config)
{
    prn_arena_release(&config->arena);
}
