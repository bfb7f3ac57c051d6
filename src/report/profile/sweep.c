#include "report/profile/sweep.h"

#include "base/map.h"
#include "report/profile/view.h"
#include "spec/spec.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define VALUE_MAX 1000000000
#define KEY_BYTES_MAX ((size_t)1 << 20)

struct context {
    const struct prn_profile *profile;
    struct prn_arena *arena;
    struct prn_spec *specs; /* of the results; software NULL where a name can't be parsed */
    bool *batch_like;       /* for each thing swept over points: it is the batch */
};

double prn_result_item_ns(const struct prn_profile *p, const struct prn_result *r)
{
    int64_t batch = prn_result_point(p, r)->batch;
    return batch > 0 ? r->stats.median_ns / (double)batch : NAN;
}

/* ---- What was swept ---- */

static const struct prn_profile_input *find_input(const struct prn_point *point, const char *name)
{
    for (size_t i = 0; i < point->n_inputs; i++)
        if (strcmp(point->inputs[i].name, name) == 0)
            return &point->inputs[i];
    return NULL;
}

/* Whether a thing that was swept is the batch at a point: the dimension itself, or the first one of
 * a shape. */
static bool is_batch(const struct prn_point *point, const struct prn_swept *swept)
{
    if (swept->size >= 0)
        return swept->size == point->batch;
    const struct prn_profile_input *input = find_input(point, swept->name);
    return input && input->rank > 0 && input->dims[0] == point->batch;
}

static int find_batch(struct context *c)
{
    const struct prn_profile *p = c->profile;
    size_t n = p->n_points > 0 ? p->points[0].n_swept : 0;
    c->batch_like = PRN_ARENA_ARRAY(c->arena, n, bool);
    if (!c->batch_like)
        return PRONY_ENOMEM;
    for (size_t k = 0; k < n; k++) {
        c->batch_like[k] = true;
        for (size_t i = 0; i < p->n_points && c->batch_like[k]; i++)
            c->batch_like[k] = is_batch(&p->points[i], &p->points[i].swept[k]);
    }
    return 0;
}

static int parse_names(struct context *c)
{
    const struct prn_profile *p = c->profile;
    c->specs = PRN_ARENA_ARRAY(c->arena, p->n_results, struct prn_spec);
    if (!c->specs)
        return PRONY_ENOMEM;
    for (size_t i = 0; i < p->n_results; i++) {
        int code =
            prn_spec_parse(prn_result_spec(&p->results[i]), true, c->arena, &c->specs[i], NULL);
        if (code == PRONY_ENOMEM)
            return code;
    }
    return 0;
}

/* The value of an option as a positive integer; 0 when it is none. */
static int64_t option_value(const struct prn_spec *spec, const char *option)
{
    const char *text = spec->software ? prn_spec_option(spec, option) : NULL;
    if (!text || *text < '0' || *text > '9')
        return 0;
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    return errno == 0 && *end == '\0' && value <= VALUE_MAX ? value : 0;
}

/* ---- Scaling ---- */

/* What a row has of the thing whose scaling is looked at. */
static int64_t value_of(const struct context *c, const struct prn_sweep_axis *axis, size_t result)
{
    if (axis->option)
        return option_value(&c->specs[result], axis->option);
    return prn_result_point(c->profile, &c->profile->results[result])->batch;
}

static int compare_options(const void *a, const void *b)
{
    return strcmp(((const struct prn_spec_option *)a)->key,
                  ((const struct prn_spec_option *)b)->key);
}

/* Everything of a backend but one option, whatever the order of the others. */
static int write_backend_key(const struct context *c, size_t result, const char *without,
                             struct prn_buffer *out)
{
    const struct prn_spec *spec = &c->specs[result];
    struct prn_spec_option *sorted = calloc(spec->n_options + 1, sizeof *sorted);
    if (!sorted)
        return PRONY_ENOMEM;
    if (spec->n_options > 0)
        memcpy(sorted, spec->options, spec->n_options * sizeof *sorted);
    qsort(sorted, spec->n_options, sizeof *sorted, compare_options);
    prn_buffer_printf(out, "%zu/%s/%s", c->profile->results[result].point, spec->hardware,
                      spec->software);
    for (size_t i = 0; i < spec->n_options; i++)
        if (strcmp(sorted[i].key, without) != 0)
            prn_buffer_printf(out, ",%s=%s", sorted[i].key, sorted[i].value);
    free(sorted);
    return 0;
}

/* Everything that a row was fed but the batch. */
static void write_point_key(const struct context *c, size_t result, struct prn_buffer *out)
{
    const struct prn_result *r = &c->profile->results[result];
    const struct prn_point *point = prn_result_point(c->profile, r);
    prn_buffer_add(out, prn_result_spec(r));
    for (size_t i = 0; i < point->n_swept; i++) {
        const struct prn_swept *swept = &point->swept[i];
        const struct prn_profile_input *input =
            swept->size < 0 ? find_input(point, swept->name) : NULL;
        if (!c->batch_like[i])
            prn_buffer_printf(out, " %" PRId64, swept->size);
        for (size_t k = c->batch_like[i] ? 1 : 0; input && k < input->rank; k++)
            prn_buffer_printf(out, "x%" PRId64, input->dims[k]);
    }
}

/* Rows with the same key differ only in the thing whose scaling is looked at. NULL: out of memory.
 */
static const char *key_of(const struct context *c, const struct prn_sweep_axis *axis, size_t result)
{
    struct prn_buffer key = PRN_BUFFER_INIT(KEY_BYTES_MAX);
    int code = 0;
    if (axis->option)
        code = write_backend_key(c, result, axis->option, &key);
    else
        write_point_key(c, result, &key);
    const char *copy =
        code < 0 || key.error ? NULL : prn_arena_strdup(c->arena, prn_buffer_text(&key));
    prn_buffer_release(&key);
    return copy;
}

static double scaling_of(const struct context *c, const struct prn_sweep_axis *axis, size_t base,
                         size_t result)
{
    const struct prn_profile *p = c->profile;
    const struct prn_result *from = &p->results[base];
    const struct prn_result *to = &p->results[result];
    if (!axis->option)
        return prn_result_item_ns(p, from) / prn_result_item_ns(p, to);
    double speed_up = from->stats.median_ns / to->stats.median_ns;
    return speed_up * (double)value_of(c, axis, base) / (double)value_of(c, axis, result);
}

/* For each row the index of the one that it is compared with; PRN_MAP_NONE where there is none. */
static int find_bases(const struct context *c, const struct prn_sweep_axis *axis, size_t *bases)
{
    const struct prn_profile *p = c->profile;
    const char **keys = PRN_ARENA_ARRAY(c->arena, p->n_results, const char *);
    struct prn_map smallest = PRN_MAP_INIT;
    int code = keys ? 0 : PRONY_ENOMEM;
    for (size_t i = 0; i < p->n_results && code == 0; i++) {
        int64_t value = value_of(c, axis, i);
        if (!prn_result_measured(&p->results[i]) || value <= 0)
            continue;
        keys[i] = key_of(c, axis, i);
        size_t former = keys[i] ? prn_map_get(&smallest, keys[i]) : 0;
        if (!keys[i])
            code = PRONY_ENOMEM;
        else if (former == PRN_MAP_NONE || value < value_of(c, axis, former))
            code = prn_map_set(&smallest, keys[i], i);
    }
    for (size_t i = 0; i < p->n_results && code == 0; i++)
        bases[i] = keys[i] ? prn_map_get(&smallest, keys[i]) : PRN_MAP_NONE;
    prn_map_release(&smallest);
    return code;
}

/* Fills in an axis; `*ret_any` says whether any row has another value than its base. */
static int scale(const struct context *c, struct prn_sweep_axis *axis, bool *ret_any)
{
    size_t n = c->profile->n_results;
    size_t *bases = PRN_ARENA_ARRAY(c->arena, n, size_t);
    bool *based = PRN_ARENA_ARRAY(c->arena, n, bool);
    axis->scaling = PRN_ARENA_ARRAY(c->arena, n, double);
    if (!bases || !based || !axis->scaling || find_bases(c, axis, bases) < 0)
        return PRONY_ENOMEM;
    *ret_any = false;
    /* A row whose base nobody else is compared with has nothing to say. */
    for (size_t i = 0; i < n; i++)
        if (bases[i] != PRN_MAP_NONE && value_of(c, axis, i) != value_of(c, axis, bases[i]))
            *ret_any = based[bases[i]] = true;
    for (size_t i = 0; i < n; i++)
        axis->scaling[i] =
            bases[i] != PRN_MAP_NONE && based[bases[i]] ? scaling_of(c, axis, bases[i], i) : NAN;
    return 0;
}

static int add_axis(const struct context *c, struct prn_sweep_view *sweep, const char *option)
{
    struct prn_sweep_axis *axis = &sweep->axes[sweep->n_axes];
    bool any = false;
    axis->option = option;
    int code = scale(c, axis, &any);
    sweep->n_axes += any;
    return code;
}

/* Options that are positive integers somewhere, in the order in which they come. */
static int add_option_axes(const struct context *c, struct prn_sweep_view *sweep)
{
    const struct prn_profile *p = c->profile;
    const char *tried[PRN_SWEEP_AXES_MAX];
    size_t n = 0;
    for (size_t i = 0; i < p->n_results; i++)
        for (size_t k = 0; c->specs[i].software && k < c->specs[i].n_options; k++) {
            const char *key = c->specs[i].options[k].key;
            bool known = option_value(&c->specs[i], key) == 0;
            for (size_t t = 0; t < n; t++)
                known = known || strcmp(tried[t], key) == 0;
            if (known)
                continue;
            if (n == PRN_SWEEP_AXES_MAX)
                return 0;
            tried[n++] = key;
            int code = add_axis(c, sweep, key);
            if (code < 0)
                return code;
        }
    return 0;
}

/* ---- The best ---- */

/* What a time is multiplied with to give what counts; the smaller the product, the better. NAN: the
 * row doesn't take part. A fast wrong answer is no result. */
static double factor_of(const struct prn_profile *p, const struct prn_result *r, enum prn_mark mark)
{
    double batch = (double)prn_result_point(p, r)->batch;
    if (!prn_result_measured(r) || (r->flags & PRN_FLAG_MISMATCH))
        return NAN;
    if (mark == PRN_MARK_LATENCY)
        return 1;
    if (batch < 1)
        return NAN;
    return mark == PRN_MARK_THROUGHPUT ? 1 / batch : r->usd_per_hour / batch;
}

/* Whether a row is known to be worse than the best one. */
static bool is_worse(const struct prn_profile *p, const struct prn_result *r,
                     const struct prn_result *best, enum prn_mark mark)
{
    double factor = factor_of(p, r, mark);
    double best_factor = factor_of(p, best, mark);
    /* Somebody at its own point is surely faster, and costs no other time or batch. */
    if (mark != PRN_MARK_COST && r->verdict == PRN_VERDICT_SLOWER)
        return true;
    bool paired = r->point == best->point && factor == best_factor && best->ratio.estimate == 1;
    if (paired && r->verdict != PRN_VERDICT_NONE)
        return r->verdict == PRN_VERDICT_SLOWER;
    return r->stats.low_ns * factor > best->stats.high_ns * best_factor;
}

static int mark_best(const struct context *c, struct prn_sweep_view *sweep, enum prn_mark mark)
{
    const struct prn_profile *p = c->profile;
    const struct prn_result *best = NULL;
    size_t candidates = 0;
    sweep->best[mark] = PRN_ARENA_ARRAY(c->arena, p->n_results, bool);
    if (!sweep->best[mark])
        return PRONY_ENOMEM;
    for (size_t i = 0; i < p->n_results; i++) {
        const struct prn_result *r = &p->results[i];
        double factor = factor_of(p, r, mark);
        if (!isfinite(factor))
            continue;
        candidates++;
        if (!best || r->stats.median_ns * factor < best->stats.median_ns * factor_of(p, best, mark))
            best = r;
    }
    for (size_t i = 0; i < p->n_results && candidates > 1; i++) {
        const struct prn_result *r = &p->results[i];
        if (!isfinite(factor_of(p, r, mark)) || (r != best && is_worse(p, r, best, mark)))
            continue;
        sweep->best[mark][i] = true;
        sweep->shared[mark] = sweep->shared[mark] || r != best;
    }
    return 0;
}

/* ---- All of it ---- */

static int fill(struct context *c, struct prn_sweep_view *sweep)
{
    sweep->axes = PRN_ARENA_ARRAY(c->arena, PRN_SWEEP_AXES_MAX + 1, struct prn_sweep_axis);
    int code = sweep->axes ? find_batch(c) : PRONY_ENOMEM;
    if (code == 0)
        code = parse_names(c);
    if (code == 0 && c->profile->n_points > c->profile->n_models)
        code = add_axis(c, sweep, NULL);
    if (code == 0)
        code = add_option_axes(c, sweep);
    sweep->active = c->profile->n_points > c->profile->n_models || sweep->n_axes > 0;
    for (int mark = 0; mark < PRN_MARK_COUNT && code == 0 && sweep->active; mark++)
        code = mark_best(c, sweep, (enum prn_mark)mark);
    return code;
}

int prn_sweep_view_init(struct prn_sweep_view *sweep, const struct prn_profile *profile,
                        struct prn_arena *arena, struct prony_error *err)
{
    struct context c = {.profile = profile, .arena = arena};
    *sweep = (struct prn_sweep_view){0};
    return fill(&c, sweep) < 0 ? prn_fail_memory(err) : 0;
}

void prn_sweep_marks(const struct prn_sweep_view *sweep, size_t result, const char *separator,
                     struct prn_buffer *out)
{
    static const char *const names[] = {
#define PRN_X(name, text) [PRN_MARK_##name] = text,
        PRN_MARK_MAP(PRN_X)
#undef PRN_X
    };
    const char *before = "";
    for (int mark = 0; mark < PRN_MARK_COUNT; mark++) {
        if (!sweep->best[mark] || !sweep->best[mark][result])
            continue;
        prn_buffer_printf(out, "%s%s%s", before, names[mark], sweep->shared[mark] ? "?" : "");
        before = separator;
    }
}
