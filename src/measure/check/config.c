#include "measure/check/config.h"

#include "base/text.h"
#include "format/yaml.h"
#include "measure/resume.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FILE_MAX_BYTES ((size_t)1 << 20)
#define ARENA_BYTES ((size_t)64 << 20)
#define ITEMS_MAX 256
#define KEYS_MAX 16
#define TIMEOUT_S 120

struct reader {
    const struct prn_yaml *yaml;
    struct prn_check_config *config;
    struct prony_error *err;
};

struct key;
/* Reads a node that isn't null into what the key is for. */
typedef int read_key(const struct reader *r, const struct key *key,
                     const struct prn_yaml_node *node, void *into);

struct key {
    const char *name;
    read_key *read;
    size_t offset;
    double min, max;
};

/* ---- Maps ---- */

static int fail_unknown(const struct reader *r, const struct prn_yaml_node *map, size_t at,
                        const struct key *keys, size_t n)
{
    const struct prn_yaml_node place = {.line = map->key_lines[at]};
    const char *names[KEYS_MAX];
    struct prn_buffer known = PRN_BUFFER_INIT(PRONY_ERROR_TEXT_SIZE);
    for (size_t i = 0; i < n; i++) {
        names[i] = keys[i].name;
        prn_buffer_printf(&known, "%s%s", i ? ", " : "", names[i]);
    }
    const char *nearest = prn_text_nearest(map->keys[at], names, n);
    int code =
        nearest ? prn_yaml_fail(r->yaml, &place, r->err, "unknown key '%.100s'; did you mean '%s'?",
                                map->keys[at], nearest)
                : prn_yaml_fail(r->yaml, &place, r->err, "unknown key '%.100s' (known: %s)",
                                map->keys[at], prn_buffer_text(&known));
    prn_buffer_release(&known);
    return code;
}

static int read_map(const struct reader *r, const char *what, const struct prn_yaml_node *node,
                    const struct key *keys, size_t n, void *into)
{
    if (node->kind != PRN_YAML_MAP)
        return prn_yaml_fail(r->yaml, node, r->err, "%s: not a map of keys and values", what);
    for (size_t i = 0; i < node->n; i++) {
        size_t k = 0;
        while (k < n && strcmp(keys[k].name, node->keys[i]) != 0)
            k++;
        if (k == n)
            return fail_unknown(r, node, i, keys, n);
        if (prn_yaml_is_null(node->items[i]))
            continue;
        int code = keys[k].read(r, &keys[k], node->items[i], (char *)into + keys[k].offset);
        if (code < 0)
            return code;
    }
    return 0;
}

/* ---- Scalars ---- */

static int copy_text(const struct reader *r, const char *key, const struct prn_yaml_node *node,
                     const char **ret_text)
{
    if (node->kind != PRN_YAML_SCALAR)
        return prn_yaml_fail(r->yaml, node, r->err, "'%s' is not a text", key);
    if (!prn_text_is_name(node->text))
        return prn_yaml_fail(r->yaml, node, r->err, "'%s' %s", key,
                             node->text[0] ? "has control characters" : "is empty");
    *ret_text = prn_arena_strdup(&r->config->arena, node->text);
    return *ret_text ? 0 : prn_fail_memory(r->err);
}

/* "before", "middle" and "after" as one text. */
static int join(const struct reader *r, const char *before, const char *middle, const char *after,
                const char **ret_text)
{
    size_t size = strlen(before) + strlen(middle) + strlen(after) + 1;
    char *text = prn_arena_alloc(&r->config->arena, size);
    if (!text)
        return prn_fail_memory(r->err);
    char *end = stpcpy(text, before);
    end = stpcpy(end, middle);
    stpcpy(end, after);
    *ret_text = text;
    return 0;
}

/* A path of the file begins at the file's folder. */
static int place(const struct reader *r, const char *path, const char **ret_path)
{
    const char *folder = r->config->folder;
    if (path[0] == '/' || strcmp(folder, ".") == 0) {
        *ret_path = path;
        return 0;
    }
    return join(r, folder, strcmp(folder, "/") == 0 ? "" : "/", path, ret_path);
}

static int read_text(const struct reader *r, const struct key *key,
                     const struct prn_yaml_node *node, void *into)
{
    return copy_text(r, key->name, node, into);
}

static int read_path(const struct reader *r, const struct key *key,
                     const struct prn_yaml_node *node, void *into)
{
    const char *path;
    int code = copy_text(r, key->name, node, &path);
    return code == 0 ? place(r, path, into) : code;
}

static int fail_value(const struct reader *r, const struct key *key,
                      const struct prn_yaml_node *node, const char *example)
{
    return prn_yaml_fail(r->yaml, node, r->err, "'%s': '%.100s' is not %s", key->name,
                         node->kind == PRN_YAML_SCALAR ? node->text : "a list or map", example);
}

/* A number in front, and what stands behind it; NULL when there is none. */
static const char *leading_number(const struct prn_yaml_node *node, double *ret_number)
{
    if (node->kind != PRN_YAML_SCALAR)
        return NULL;
    const char *text = node->text;
    size_t len = strspn(text + (text[0] == '+'), "0123456789.");
    char *end;
    *ret_number = strtod(text, &end);
    if (len == 0 || end != text + (text[0] == '+') + len)
        return NULL;
    while (*end == ' ')
        end++;
    return end;
}

/* "+3%", "3 %". A bare 3 might be meant as 3 % or as three times as much. */
static int read_percent(const struct reader *r, const struct key *key,
                        const struct prn_yaml_node *node, void *into)
{
    double number;
    const char *unit = leading_number(node, &number);
    number /= 100;
    if (!unit || strcmp(unit, "%") != 0 || !(number >= key->min && number <= key->max))
        return fail_value(r, key, node, "a percentage such as 3%");
    *(double *)into = number;
    return 0;
}

/* A percentage, or "none" where the limit for all models isn't for this one. */
static int read_limit(const struct reader *r, const struct key *key,
                      const struct prn_yaml_node *node, void *into)
{
    if (node->kind != PRN_YAML_SCALAR || strcmp(node->text, "none") != 0)
        return read_percent(r, key, node, into);
    *(double *)into = NAN;
    return 0;
}

static int read_seconds(const struct reader *r, const struct key *key,
                        const struct prn_yaml_node *node, void *into)
{
    static const struct {
        const char *unit;
        double seconds;
    } units[] = {{"", 1}, {"s", 1}, {"ms", 1e-3}, {"m", 60}, {"min", 60}, {"h", 3600}};
    double number;
    const char *unit = leading_number(node, &number);
    size_t i = 0;
    while (unit && i < PRN_ARRAY_SIZE(units) && strcmp(unit, units[i].unit) != 0)
        i++;
    if (!unit || i == PRN_ARRAY_SIZE(units) || !(number * units[i].seconds >= key->min) ||
        !(number * units[i].seconds <= key->max))
        return fail_value(r, key, node, "a time such as 60s");
    *(double *)into = number * units[i].seconds;
    return 0;
}

static int whole(const struct reader *r, const struct key *key, const struct prn_yaml_node *node,
                 double *ret_number)
{
    if (prn_yaml_number(node, ret_number) && *ret_number == floor(*ret_number) &&
        *ret_number >= key->min && *ret_number <= key->max)
        return 0;
    return fail_value(r, key, node, "a whole number that prony profile would take");
}

static int read_count(const struct reader *r, const struct key *key,
                      const struct prn_yaml_node *node, void *into)
{
    double number;
    int code = whole(r, key, node, &number);
    if (code == 0)
        *(int64_t *)into = (int64_t)number;
    return code;
}

static int read_seed(const struct reader *r, const struct key *key,
                     const struct prn_yaml_node *node, void *into)
{
    double number;
    int code = whole(r, key, node, &number);
    if (code == 0)
        *(uint64_t *)into = (uint64_t)number;
    return code;
}

/* "same", a percentage, or "any". */
static int read_outputs(const struct reader *r, const struct key *key,
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
    if (read_percent(r, key, node, &limits->tolerance) < 0)
        return fail_value(r, key, node, "same, any, or a percentage such as 1%");
    return 0;
}

/* ---- Lists and maps of texts ---- */

static int new_texts(const struct reader *r, const struct key *key,
                     const struct prn_yaml_node *node, size_t n, const char ***ret_items)
{
    if (n > ITEMS_MAX)
        return prn_yaml_fail(r->yaml, node, r->err, "'%s' has more than %d entries", key->name,
                             ITEMS_MAX);
    *ret_items = PRN_ARENA_ARRAY(&r->config->arena, n + 1, const char *);
    return *ret_items ? 0 : prn_fail_memory(r->err);
}

/* A list of texts, or one. */
static int read_list(const struct reader *r, const struct key *key,
                     const struct prn_yaml_node *node, void *into)
{
    const char **items;
    bool single = node->kind == PRN_YAML_SCALAR;
    if (node->kind == PRN_YAML_MAP)
        return fail_value(r, key, node, "a list");
    size_t n = single ? 1 : node->n;
    int code = new_texts(r, key, node, n, &items);
    for (size_t i = 0; i < n && code == 0; i++)
        code = copy_text(r, key->name, single ? node : node->items[i], &items[i]);
    if (code == 0)
        *(struct prn_texts *)into = (struct prn_texts){items, n};
    return code;
}

/* The values of an entry: "8", or "1,8" of a list. */
static int read_values(const struct reader *r, const struct key *key,
                       const struct prn_yaml_node *node, const char **ret_text)
{
    if (node->kind != PRN_YAML_LIST)
        return copy_text(r, key->name, node, ret_text);
    const char *all = "";
    int code =
        node->n == 0 || node->n > ITEMS_MAX ? fail_value(r, key, node, "a list of sizes") : 0;
    for (size_t i = 0; i < node->n && code == 0; i++) {
        const char *one;
        code = copy_text(r, key->name, node->items[i], &one);
        if (code == 0)
            code = join(r, all, i ? "," : "", one, &all);
    }
    *ret_text = all;
    return code;
}

/* {batch: 8} as "batch=8", and {batch: [1, 8]} as "batch=1,8". */
static int read_sizes(const struct reader *r, const struct key *key,
                      const struct prn_yaml_node *node, void *into)
{
    const char **items;
    if (node->kind != PRN_YAML_MAP)
        return fail_value(r, key, node, "a map such as {batch: 8}");
    int code = new_texts(r, key, node, node->n, &items);
    for (size_t i = 0; i < node->n && code == 0; i++) {
        const char *value;
        code = read_values(r, key, node->items[i], &value);
        if (code == 0)
            code = join(r, node->keys[i], "=", value, &items[i]);
    }
    if (code == 0)
        *(struct prn_texts *)into = (struct prn_texts){items, node->n};
    return code;
}

/* A map {x: ones, mask: '@mask.npy'}, or a folder with ONNX's test data. */
static int read_inputs(const struct reader *r, const struct key *key,
                       const struct prn_yaml_node *node, void *into)
{
    struct prn_check_model *model = into;
    const char **items;
    if (node->kind == PRN_YAML_SCALAR) {
        model->inputs = (struct prn_texts){0};
        return read_path(r, key, node, &model->inputs_folder);
    }
    if (node->kind != PRN_YAML_MAP)
        return fail_value(r, key, node, "a map such as {x: ones}, or a folder");
    int code = new_texts(r, key, node, node->n, &items);
    for (size_t i = 0; i < node->n && code == 0; i++) {
        const char *value;
        code = copy_text(r, node->keys[i], node->items[i], &value);
        bool file = code == 0 && value[0] == '@';
        if (file)
            code = place(r, value + 1, &value);
        if (code == 0)
            code = join(r, node->keys[i], file ? "=@" : "=", value, &items[i]);
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

static const struct key old_keys[] = {
    {"git", read_text, offsetof(struct old_texts, git), 0, 0},
    {"path", read_text, offsetof(struct old_texts, path), 0, 0},
    {"report", read_path, offsetof(struct old_texts, report), 0, 0},
};

static int read_old(const struct reader *r, const struct key *key, const struct prn_yaml_node *node,
                    void *into)
{
    struct prn_check_old *old = into;
    struct old_texts texts = {0};
    int code = node->kind == PRN_YAML_SCALAR
                   ? copy_text(r, key->name, node, &texts.path)
                   : read_map(r, key->name, node, old_keys, PRN_ARRAY_SIZE(old_keys), &texts);
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
    return texts.git ? 0 : place(r, texts.path, &old->path);
}

/* ---- Models ---- */

static int read_limits(const struct reader *r, const struct key *key,
                       const struct prn_yaml_node *node, void *into)
{
    static const struct key keys[] = {
        {"time", read_limit, offsetof(struct prn_check_limits, time), 0, 1000},
        {"memory", read_limit, offsetof(struct prn_check_limits, memory), 0, 1000},
        {"size", read_limit, offsetof(struct prn_check_limits, size), 0, 1000},
        {"outputs", read_outputs, 0, 0, 1},
    };
    return read_map(r, key->name, node, keys, PRN_ARRAY_SIZE(keys), into);
}

#define MODEL(member) offsetof(struct prn_check_model, member)

/* What may be said once for all models, and for each. */
#define SHARED_KEYS                                                                           \
    {"old", read_old, MODEL(old), 0, 0}, {"backends", read_list, MODEL(backends), 0, 0},      \
        {"dims", read_sizes, MODEL(dims), 0, 0}, {"shapes", read_sizes, MODEL(shapes), 0, 0}, \
        {"inputs", read_inputs, 0, 0, 0},                                                     \
    {                                                                                         \
        "limits", read_limits, MODEL(limits), 0, 0                                            \
    }

static const struct key model_keys[] = {
    {"path", read_text, MODEL(written), 0, 0},
    {"name", read_text, MODEL(name), 0, 0},
    SHARED_KEYS,
};

static bool is_limited(const struct prn_check_limits *l)
{
    return !isnan(l->time) || !isnan(l->memory) || !isnan(l->size) || l->outputs;
}

static int read_model(const struct reader *r, const struct prn_check_model *shared,
                      const struct prn_yaml_node *node)
{
    struct prn_check_config *config = r->config;
    struct prn_check_model *model = &config->models[config->n_models];
    *model = *shared;
    int code = node->kind == PRN_YAML_SCALAR
                   ? copy_text(r, "models", node, &model->written)
                   : read_map(r, "models", node, model_keys, PRN_ARRAY_SIZE(model_keys), model);
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
    return place(r, model->written, &model->path);
}

/* ---- The file ---- */

struct top {
    struct prn_check_model shared; /* first: the keys of a model count from here */
    const struct prn_yaml_node *models;
};

static int keep_node(const struct reader *r, const struct key *key,
                     const struct prn_yaml_node *node, void *into)
{
    if (node->kind != PRN_YAML_LIST || node->n == 0 || node->n > PRN_CHECK_MODELS_MAX)
        return prn_yaml_fail(r->yaml, node, r->err, "'%s' is not a list of 1 to %d models",
                             key->name, PRN_CHECK_MODELS_MAX);
    *(const struct prn_yaml_node **)into = node;
    return 0;
}

#define SETTING(member) offsetof(struct prn_check_config, settings.member)

static int read_measure(const struct reader *r, const struct key *key,
                        const struct prn_yaml_node *node, void *into)
{
    static const struct key keys[] = {
        {"max_time", read_seconds, SETTING(max_time_s), 0.1, 1e6},
        {"launches", read_count, SETTING(launches), 1, 1000},
        {"repeats", read_count, SETTING(repeats), 1, 1e7},
        {"warmups", read_count, SETTING(warmups), 0, 1e6},
        {"precision", read_percent, SETTING(precision), 1e-4, 1},
        {"difference", read_percent, SETTING(smallest_difference), 0, 1},
        {"seed", read_seed, SETTING(seed), 0, 9e15},
        {"timeout", read_seconds, offsetof(struct prn_check_config, timeout_s), 0.1, 1e6},
    };
    (void)into;
    return read_map(r, key->name, node, keys, PRN_ARRAY_SIZE(keys), r->config);
}

static int read_root(const struct reader *r, const struct prn_yaml_node *root)
{
    static const struct key keys[] = {
        {"models", keep_node, offsetof(struct top, models), 0, 0},
        {"measure", read_measure, 0, 0, 0},
        SHARED_KEYS,
    };
    struct top top = {
        .shared = {.limits = {.time = NAN, .memory = NAN, .size = NAN, .tolerance = NAN}}};
    if (!root || prn_yaml_is_null(root))
        return prn_fail(r->err, PRONY_EFORMAT, "'%s' is empty: it needs 'models'", r->config->path);
    int code = read_map(r, "the file", root, keys, PRN_ARRAY_SIZE(keys), &top);
    if (code < 0)
        return code;
    if (!top.models)
        return prn_yaml_fail(r->yaml, root, r->err, "'models' is missing");
    r->config->models = PRN_ARENA_ARRAY(&r->config->arena, top.models->n, struct prn_check_model);
    if (!r->config->models)
        return prn_fail_memory(r->err);
    for (size_t i = 0; i < top.models->n && code == 0; i++)
        code = read_model(r, &top.shared, top.models->items[i]);
    return code;
}

static const char *folder_of(struct prn_arena *arena, const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        return prn_arena_strdup(arena, ".");
    return prn_arena_strndup(arena, path, slash == path ? 1 : (size_t)(slash - path));
}

static int config_take(struct prn_yaml *yaml, const char *path, struct prn_check_config *ret_config,
                       struct prony_error *err)
{
    struct prn_check_config config = {.arena = PRN_ARENA_INIT(ARENA_BYTES),
                                      .timeout_s = TIMEOUT_S,
                                      .settings = {.seed = PRN_SEED_UNSET,
                                                   .precision = NAN,
                                                   .smallest_difference = NAN,
                                                   .tolerance = NAN,
                                                   .max_time_s = NAN,
                                                   .warmups = -1}};
    const struct reader r = {yaml, &config, err};
    config.path = prn_arena_strdup(&config.arena, path);
    config.folder = folder_of(&config.arena, path);
    int code =
        config.path && config.folder ? read_root(&r, prn_yaml_root(yaml)) : prn_fail_memory(err);
    prn_yaml_free(yaml);
    if (code < 0)
        prn_check_config_release(&config);
    else
        *ret_config = config;
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
