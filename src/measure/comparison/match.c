/*
 * Finds the partners of two profiles. What makes results equal is written as a text, a key; equal
 * keys get the same number, and results with the same number are paired in their order.
 */
#include "measure/comparison/parts.h"

#include "base/map.h"
#include "spec/spec.h"

#include <stdlib.h>
#include <string.h>

#define KEY_MAX ((size_t)64 << 20)
#define SCRATCH_MAX ((size_t)1 << 30)

struct matcher {
    struct prn_arena arena; /* keys and parsed specs */
    struct prn_map numbers; /* of keys */
    size_t n_numbers;
    struct prn_buffer key; /* being composed */
};

/* Its length first, so that no text can look like two. */
static void add_part(struct prn_buffer *key, const char *text)
{
    prn_buffer_printf(key, "%zu:%s", text ? strlen(text) : 0, text ? text : "");
}

/* The number of the key that was composed, which is cleared. */
static int take_number(struct matcher *m, size_t *ret_number, struct prony_error *err)
{
    int code = prn_buffer_error(&m->key, err);
    if (code < 0)
        return code;
    size_t number = prn_map_get_n(&m->numbers, prn_buffer_text(&m->key), m->key.len);
    if (number == PRN_MAP_NONE) {
        number = m->n_numbers++;
        const char *copy = prn_arena_strndup(&m->arena, prn_buffer_text(&m->key), m->key.len);
        if (!copy || prn_map_set_n(&m->numbers, copy, m->key.len, number) < 0)
            return prn_fail_memory(err);
    }
    prn_buffer_clear(&m->key);
    *ret_number = number;
    return 0;
}

/* ---- What results were fed ---- */

static int by_input_name(const void *a, const void *b)
{
    const struct prn_profile_input *x = *(const struct prn_profile_input *const *)a;
    const struct prn_profile_input *y = *(const struct prn_profile_input *const *)b;
    return strcmp(x->name, y->name);
}

/* A model that was exported anew may have its inputs in another order. */
static int compose_point(struct matcher *m, const struct prn_point *point, struct prony_error *err)
{
    const struct prn_profile_input **sorted =
        PRN_ARENA_ARRAY(&m->arena, point->n_inputs, const struct prn_profile_input *);
    if (!sorted)
        return prn_fail_memory(err);
    for (size_t i = 0; i < point->n_inputs; i++)
        sorted[i] = &point->inputs[i];
    qsort(sorted, point->n_inputs, sizeof(const struct prn_profile_input *), by_input_name);
    prn_buffer_add(&m->key, "point ");
    for (size_t i = 0; i < point->n_inputs; i++) {
        add_part(&m->key, sorted[i]->name);
        prn_buffer_printf(&m->key, " %d ", sorted[i]->dtype);
        for (size_t k = 0; k < sorted[i]->rank; k++)
            prn_buffer_printf(&m->key, "%lldx", (long long)sorted[i]->dims[k]);
    }
    return 0;
}

static int number_point(struct matcher *m, const struct prn_point *point, size_t *ret_number,
                        struct prony_error *err)
{
    int code = compose_point(m, point, err);
    return code < 0 ? code : take_number(m, ret_number, err);
}

/* ---- Backends ---- */

static int by_option_key(const void *a, const void *b)
{
    const struct prn_spec_option *x = a;
    const struct prn_spec_option *y = b;
    return strcmp(x->key, y->key);
}

static bool has_name(const struct prn_profile *p, const char *name)
{
    for (size_t i = 0; i < p->n_results; i++)
        if (p->results[i].spec && strcmp(p->results[i].name, name) == 0)
            return true;
    return false;
}

/* A name that a user gave in both files makes partners, whatever it stands for; otherwise the spec
 * does. */
static int compose_backend(struct matcher *m, const struct prn_result *r,
                           const struct prn_profile *other, struct prony_error *err)
{
    struct prn_spec spec;
    struct prony_error fault;
    if (r->spec && has_name(other, r->name)) {
        prn_buffer_add(&m->key, "named ");
        add_part(&m->key, r->name);
        return 0;
    }
    int code = prn_spec_parse(prn_result_spec(r), true, &m->arena, &spec, &fault);
    if (code == PRONY_ENOMEM)
        return prn_fail_memory(err);
    if (code < 0) {
        /* A file may hold any name; then it stands for itself. */
        add_part(&m->key, prn_result_spec(r));
        return 0;
    }
    struct prn_spec_option *sorted =
        PRN_ARENA_ARRAY(&m->arena, spec.n_options, struct prn_spec_option);
    if (!sorted)
        return prn_fail_memory(err);
    if (spec.n_options > 0)
        memcpy(sorted, spec.options, spec.n_options * sizeof *sorted);
    qsort(sorted, spec.n_options, sizeof *sorted, by_option_key);
    add_part(&m->key, spec.hardware);
    add_part(&m->key, spec.software);
    for (size_t i = 0; i < spec.n_options; i++) {
        add_part(&m->key, sorted[i].key);
        add_part(&m->key, sorted[i].value);
    }
    return 0;
}

/* The numbers of all results of a profile, for which there is room. */
static int number_results(struct matcher *m, const struct prn_profile *p,
                          const struct prn_profile *other, size_t *numbers, struct prony_error *err)
{
    size_t *points = PRN_ARENA_ARRAY(&m->arena, p->n_points, size_t);
    int code = points ? 0 : prn_fail_memory(err);
    for (size_t i = 0; i < p->n_points && code == 0; i++)
        code = number_point(m, &p->points[i], &points[i], err);
    for (size_t i = 0; i < p->n_results && code == 0; i++) {
        const struct prn_result *r = &p->results[i];
        if (r->point < p->n_points)
            prn_buffer_printf(&m->key, "at %zu ", points[r->point]);
        if (p->n_models > 1)
            add_part(&m->key, prn_result_model(p, r)->name);
        code = compose_backend(m, r, other, err);
        if (code == 0)
            code = take_number(m, &numbers[i], err);
    }
    return code;
}

/* ---- Partners ---- */

/* Tells rows apart that have the same number. */
static int number_rows(struct matcher *m, struct prn_comparison_file *file, const size_t *numbers,
                       struct prony_error *err)
{
    size_t *totals = PRN_ARENA_ARRAY(&m->arena, m->n_numbers, size_t);
    if (!totals)
        return prn_fail_memory(err);
    for (size_t i = 0; i < file->n_rows; i++)
        file->rows[i].ordinal = ++totals[numbers[i]];
    for (size_t i = 0; i < file->n_rows; i++)
        if (totals[numbers[i]] == 1)
            file->rows[i].ordinal = 0;
    return 0;
}

static int pair(struct matcher *m, const struct prn_profile *before,
                struct prn_comparison_file *file, struct prn_arena *arena, struct prony_error *err)
{
    const struct prn_profile *after = file->after.profile;
    size_t most = before->n_results + after->n_results;
    size_t *numbers = PRN_ARENA_ARRAY(&m->arena, most, size_t); /* of rows */
    size_t *numbers_after = PRN_ARENA_ARRAY(&m->arena, after->n_results, size_t);
    /* Of each row, the next one that has its number and wants a partner, plus 1. */
    size_t *next = PRN_ARENA_ARRAY(&m->arena, before->n_results, size_t);
    file->rows = PRN_ARENA_ARRAY(arena, most, struct prn_comparison_row);
    if (!numbers || !numbers_after || !next || !file->rows)
        return prn_fail_memory(err);
    int code = number_results(m, before, after, numbers, err);
    if (code == 0)
        code = number_results(m, after, before, numbers_after, err);
    if (code < 0)
        return code;
    /* Of each number, the first such row; 0: none. */
    size_t *first = PRN_ARENA_ARRAY(&m->arena, m->n_numbers, size_t);
    if (!first)
        return prn_fail_memory(err);
    for (size_t i = before->n_results; i-- > 0;) {
        file->rows[i].before = &before->results[i];
        next[i] = first[numbers[i]];
        first[numbers[i]] = i + 1;
    }
    file->n_rows = before->n_results;
    for (size_t i = 0; i < after->n_results; i++) {
        size_t *wanting = &first[numbers_after[i]];
        size_t row = *wanting > 0 ? *wanting - 1 : file->n_rows++;
        file->rows[row].after = &after->results[i];
        numbers[row] = numbers_after[i];
        if (*wanting > 0)
            *wanting = next[row];
    }
    return number_rows(m, file, numbers, err);
}

static struct matcher matcher_init(void)
{
    return (struct matcher){.arena = PRN_ARENA_INIT(SCRATCH_MAX),
                            .numbers = PRN_MAP_INIT,
                            .key = PRN_BUFFER_INIT(KEY_MAX)};
}

static void matcher_release(struct matcher *m)
{
    prn_buffer_release(&m->key);
    prn_map_release(&m->numbers);
    prn_arena_release(&m->arena);
}

int prn_comparison_match(const struct prn_profile *before, struct prn_comparison_file *file,
                         struct prn_arena *arena, struct prony_error *err)
{
    struct matcher m = matcher_init();
    int code = pair(&m, before, file, arena, err);
    matcher_release(&m);
    return code;
}

int prn_comparison_key(const struct prn_profile *profile, const struct prn_result *result,
                       struct prn_buffer *out, struct prony_error *err)
{
    struct matcher m = matcher_init();
    int code = compose_point(&m, prn_result_point(profile, result), err);
    if (code == 0)
        code = compose_backend(&m, result, profile, err);
    if (code == 0)
        code = prn_buffer_error(&m.key, err);
    if (code == 0)
        prn_buffer_add(out, prn_buffer_text(&m.key));
    matcher_release(&m);
    return code < 0 ? code : prn_buffer_error(out, err);
}
