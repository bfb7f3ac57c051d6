#include "measure/resume.h"

#include "base/format.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <stdio.h>

#define PRECISION_DEFAULT 0.01
#define DIFFERENCE_DEFAULT 0.005
#define MAX_TIME_DEFAULT_S 60

/* ---- Is it one of ours? ---- */

static bool within(double value, double low, double high)
{
    return value >= low && value <= high;
}

/* The ranges are those of the command line's options. */
static const char *odd_setting(const struct prn_settings *s)
{
    if (!within(s->precision, 1e-4, 1))
        return "settings.precision";
    if (!within(s->smallest_difference, 0, 1))
        return "settings.smallest_difference";
    if (!within(s->tolerance, 0, 1))
        return "settings.tolerance";
    if (s->launches > 1000)
        return "settings.launches";
    if (s->repeats > 10000000)
        return "settings.repeats";
    if (s->warmups > 1000000)
        return "settings.warmups";
    if (!within(s->max_time_s, 0.1, 1e6))
        return "settings.max_time_s";
    return NULL;
}

/* Samples come in time order, from launches that there are. */
static bool samples_are_sound(const struct prn_result *r)
{
    for (size_t i = 0; i < r->n_samples; i++) {
        const struct prn_sample *s = &r->samples[i];
        if (s->launch < 0 || (size_t)s->launch >= r->n_launches || s->block < 0 ||
            s->block > INT32_MAX / 2)
            return false;
        if (i > 0 && (s->launch < s[-1].launch || s->block < s[-1].block))
            return false;
    }
    return true;
}

/* Every point has the same backends, in the same order. */
static bool results_are_a_product(const struct prn_profile *p)
{
    size_t n_backends = p->n_points > 0 ? p->n_results / p->n_points : 0;
    if (n_backends == 0 || n_backends * p->n_points != p->n_results)
        return false;
    for (size_t i = 0; i < p->n_results; i++)
        if (p->results[i].point != i / n_backends ||
            strcmp(p->results[i].name, p->results[i % n_backends].name) != 0)
            return false;
    return true;
}

int prn_resume_check(const struct prn_profile *saved, const char *name, struct prony_error *err)
{
    const char *odd = odd_setting(&saved->settings);
    if (saved->recorded || saved->n_points == 0)
        return prn_fail(err, PRONY_EUSAGE, "--resume '%s': it is not the profile of a model", name);
    if (odd)
        return prn_fail(err, PRONY_EFORMAT, "--resume '%s': %s is out of range", name, odd);
    if (!results_are_a_product(saved))
        return prn_fail(err, PRONY_EFORMAT, "--resume '%s': not every point has the same backends",
                        name);
    for (size_t i = 0; i < saved->n_results; i++)
        if (!samples_are_sound(&saved->results[i]))
            return prn_fail(err, PRONY_EFORMAT,
                            "--resume '%s': the launches and blocks of results[%zu] are not those "
                            "of a measurement",
                            name, i);
    return 0;
}

/* ---- Settings ---- */

static int choose_number(const char *option, double saved, double *setting, struct prony_error *err)
{
    char was[PRN_FORMAT_SIZE];
    char is[PRN_FORMAT_SIZE];
    if (isnan(*setting))
        *setting = saved;
    if (*setting == saved)
        return 0;
    return prn_fail(err, PRONY_EUSAGE,
                    "%s is %s, but %s in the profile being resumed; leave it out, or start over "
                    "without --resume",
                    option, prn_format_shortest(is, *setting), prn_format_shortest(was, saved));
}

static int choose_count(const char *option, int64_t unset, int64_t saved, int64_t *setting,
                        struct prony_error *err)
{
    double value = *setting == unset ? NAN : (double)*setting;
    int code = choose_number(option, (double)saved, &value, err);
    if (code == 0)
        *setting = saved;
    return code;
}

static void resume_defaults(struct prn_settings *s)
{
    s->seed = s->seed == PRN_SEED_UNSET ? 0 : s->seed;
    s->precision = isnan(s->precision) ? PRECISION_DEFAULT : s->precision;
    s->smallest_difference =
        isnan(s->smallest_difference) ? DIFFERENCE_DEFAULT : s->smallest_difference;
    s->max_time_s = isnan(s->max_time_s) ? MAX_TIME_DEFAULT_S : s->max_time_s;
    s->tolerance = isnan(s->tolerance) ? PRN_TOLERANCE_DEFAULT : s->tolerance;
}

int prn_resume_settings(const struct prn_profile *saved, struct prn_settings *settings,
                        struct prony_error *err)
{
    if (!saved) {
        resume_defaults(settings);
        return 0;
    }
    const struct prn_settings *was = &saved->settings;
    struct prn_settings s = *settings;
    int64_t seed = s.seed == PRN_SEED_UNSET ? -1 : (int64_t)s.seed;
    int code = choose_count("--seed", -1, (int64_t)was->seed, &seed, err);
    if (code == 0)
        code = choose_number("--precision", was->precision, &s.precision, err);
    if (code == 0)
        code = choose_number("--difference", was->smallest_difference, &s.smallest_difference, err);
    if (code == 0)
        code = choose_number("--tolerance", was->tolerance, &s.tolerance, err);
    if (code == 0)
        code = choose_count("--launches", 0, was->launches, &s.launches, err);
    if (code == 0)
        code = choose_count("--repeats", 0, was->repeats, &s.repeats, err);
    if (code == 0)
        code = choose_count("--warmups", -1, was->warmups, &s.warmups, err);
    if (code < 0)
        return code;
    s.seed = (uint64_t)seed;
    s.max_time_s = isnan(s.max_time_s) ? was->max_time_s : s.max_time_s;
    s.reference = s.reference ? s.reference : was->reference;
    *settings = s;
    return 0;
}

int prn_resume_backends(const struct prn_profile *saved, struct prn_arena *arena,
                        struct prn_named_texts *ret_texts, struct prony_error *err)
{
    size_t n = saved->n_results / saved->n_points;
    const char **texts = PRN_ARENA_ARRAY(arena, n, const char *);
    const char **names = PRN_ARENA_ARRAY(arena, n, const char *);
    if (!texts || !names)
        return prn_fail_memory(err);
    for (size_t i = 0; i < n; i++) {
        const struct prn_result *r = &saved->results[i];
        texts[i] = prn_result_spec(r);
        names[i] = r->spec ? r->name : NULL;
    }
    *ret_texts = (struct prn_named_texts){{texts, n}, names};
    return 0;
}

/* ---- Is it the same? ---- */

static bool same_text(const char *a, const char *b)
{
    return strcmp(a ? a : "", b ? b : "") == 0;
}

static bool same_number(double a, double b)
{
    return a == b || (isnan(a) && isnan(b));
}

static int fail_differs(struct prony_error *err, const char *what, const char *was, const char *is)
{
    return prn_fail(err, PRONY_EUNSUPPORTED,
                    "cannot resume: %s was %s and is now %s; start over without --resume", what,
                    was ? was : "unknown", is ? is : "unknown");
}

static int fail_count_differs(struct prony_error *err, const char *what, int64_t was, int64_t is)
{
    char before[32];
    char now[32];
    snprintf(before, sizeof before, "%" PRId64, was);
    snprintf(now, sizeof now, "%" PRId64, is);
    return fail_differs(err, what, before, now);
}

static int compare_machines(const struct prn_environment *was, const struct prn_environment *is,
                            struct prony_error *err)
{
    if (!same_text(was->cpu, is->cpu))
        return fail_differs(err, "the processor", was->cpu, is->cpu);
    if (was->cores != is->cores)
        return fail_count_differs(err, "the number of cores", was->cores, is->cores);
    /* The kernel keeps a little for itself, and not always the same. */
    if (fabs((double)was->memory_bytes - (double)is->memory_bytes) >
        0.01 * (double)is->memory_bytes)
        return fail_count_differs(err, "the memory in bytes", was->memory_bytes, is->memory_bytes);
    if (!same_text(was->os, is->os))
        return fail_differs(err, "the operating system", was->os, is->os);
    if (!same_text(was->kernel, is->kernel))
        return fail_differs(err, "the kernel", was->kernel, is->kernel);
    return 0;
}

static int compare_models(const struct prn_profile_model *was, const struct prn_profile_model *is,
                          struct prony_error *err)
{
    if (was->bytes != is->bytes)
        return fail_count_differs(err, "the model's size in bytes", was->bytes, is->bytes);
    if (was->parameters != is->parameters)
        return fail_count_differs(err, "the model's number of parameters", was->parameters,
                                  is->parameters);
    if (was->fingerprint && is->fingerprint && strcmp(was->fingerprint, is->fingerprint) != 0)
        return fail_differs(err, "the model's fingerprint", was->fingerprint, is->fingerprint);
    return 0;
}

int prn_resume_models(const struct prn_profile *saved, const struct prn_profile *profile,
                      struct prony_error *err)
{
    if (saved->n_models != profile->n_models)
        return fail_count_differs(err, "the number of models", (int64_t)saved->n_models,
                                  (int64_t)profile->n_models);
    int code = 0;
    for (size_t i = 0; i < profile->n_models && code == 0; i++)
        code = compare_models(&saved->models[i], &profile->models[i], err);
    return code;
}

static int compare_inputs(const struct prn_profile_input *was, const struct prn_profile_input *is,
                          struct prony_error *err)
{
    char before[PRN_RANK_MAX * 24];
    char now[PRN_RANK_MAX * 24];
    char what[256];
    snprintf(what, sizeof what, "input '%.200s'", is->name);
    if (!same_text(was->name, is->name))
        return fail_differs(err, "the name of an input", was->name, is->name);
    if (was->dtype != is->dtype)
        return fail_differs(err, what, prn_dtype_name(was->dtype), prn_dtype_name(is->dtype));
    if (was->rank != is->rank || memcmp(was->dims, is->dims, is->rank * sizeof *is->dims) != 0)
        return fail_differs(err, what, prn_dims_text(was->dims, was->rank, before, sizeof before),
                            prn_dims_text(is->dims, is->rank, now, sizeof now));
    return same_text(was->source, is->source) ? 0
                                              : fail_differs(err, what, was->source, is->source);
}

static int compare_points(const struct prn_profile *was, const struct prn_profile *is,
                          struct prony_error *err)
{
    if (was->n_points != is->n_points)
        return fail_count_differs(err, "the number of points", (int64_t)was->n_points,
                                  (int64_t)is->n_points);
    for (size_t i = 0; i < is->n_points; i++) {
        const struct prn_point *a = &was->points[i];
        const struct prn_point *b = &is->points[i];
        if (!same_text(a->label, b->label))
            return fail_differs(err, "a point", a->label, b->label);
        if (a->n_inputs != b->n_inputs)
            return fail_count_differs(err, "the number of inputs", (int64_t)a->n_inputs,
                                      (int64_t)b->n_inputs);
        for (size_t k = 0; k < b->n_inputs; k++) {
            int code = compare_inputs(&a->inputs[k], &b->inputs[k], err);
            if (code < 0)
                return code;
        }
        if (!same_number(a->flops, b->flops))
            return fail_differs(err, "the model's work", "another", "not what was measured");
    }
    return 0;
}

static int compare_backends(const struct prn_profile *was, const struct prn_profile *is,
                            bool priced, struct prony_error *err)
{
    if (was->n_results != is->n_results)
        return fail_count_differs(err, "the number of backends",
                                  (int64_t)(was->n_results / was->n_points),
                                  (int64_t)(is->n_results / is->n_points));
    for (size_t i = 0; i < is->n_results; i++) {
        const struct prn_result *a = &was->results[i];
        const struct prn_result *b = &is->results[i];
        char before[PRN_FORMAT_SIZE];
        char now[PRN_FORMAT_SIZE];
        if (!same_text(prn_result_spec(a), prn_result_spec(b)))
            return fail_differs(err, "a backend", prn_result_spec(a), prn_result_spec(b));
        if (priced && !same_number(a->usd_per_hour, b->usd_per_hour))
            return fail_differs(err, "the price of the hardware",
                                prn_format_shortest(before, a->usd_per_hour),
                                prn_format_shortest(now, b->usd_per_hour));
    }
    return 0;
}

/* ---- Taking over ---- */

/* A copy of what may be NULL; `*ok` becomes false when memory runs out. */
static const char *copied(struct prn_arena *arena, const char *text, bool *ok)
{
    const char *copy = text ? prn_arena_strdup(arena, text) : NULL;
    *ok = *ok && (!text || copy);
    return copy;
}

static void *copied_array(struct prn_arena *arena, const void *from, size_t n, size_t size,
                          bool *ok)
{
    void *copy = prn_arena_array(arena, n, size);
    if (copy && n > 0)
        memcpy(copy, from, n * size);
    *ok = *ok && copy;
    return copy;
}

static int take_result(struct prn_arena *arena, const struct prn_result *from,
                       struct prn_result *to, struct prony_error *err)
{
    bool ok = true;
    to->processor = copied(arena, from->processor, &ok);
    to->usd_per_hour = from->usd_per_hour;
    to->runtime_version = copied(arena, from->runtime_version, &ok);
    to->runtime_library = copied(arena, from->runtime_library, &ok);
    to->samples = copied_array(arena, from->samples, from->n_samples, sizeof *to->samples, &ok);
    to->launches = copied_array(arena, from->launches, from->n_launches, sizeof *to->launches, &ok);
    to->outputs = copied_array(arena, from->outputs, from->n_outputs, sizeof *to->outputs, &ok);
    for (size_t i = 0; i < from->n_outputs && ok; i++)
        to->outputs[i].name = copied(arena, from->outputs[i].name, &ok);
    /* What was only not there yet isn't a failure. */
    if (from->error_code != PRONY_ECANCELED) {
        to->error_code = from->error_code;
        to->error = copied(arena, from->error, &ok);
    }
    if (!ok)
        return prn_fail_memory(err);
    to->n_samples = from->n_samples;
    to->n_launches = from->n_launches;
    to->n_outputs = from->n_outputs;
    to->redone_blocks = from->redone_blocks;
    to->flags = from->flags & ~(unsigned)(PRN_FLAG_IMPRECISE | PRN_FLAG_INTERRUPTED);
    return 0;
}

/* The profile says when it was begun; a note says when it was gone on with. */
static int take_notes(const struct prn_profile *saved, struct prn_profile *profile,
                      struct prony_error *err)
{
    char note[64];
    bool interrupted = false;
    for (size_t i = 0; i < saved->n_results; i++)
        interrupted |= (saved->results[i].flags & PRN_FLAG_INTERRUPTED) != 0 ||
                       saved->results[i].error_code == PRONY_ECANCELED;
    snprintf(note, sizeof note, "%s %.20s", interrupted ? "interrupted, and resumed" : "continued",
             profile->created ? profile->created : "");
    for (size_t i = 0; i < saved->n_notes; i++) {
        if (strcmp(saved->notes[i], PRN_NOTE_MISSING_REPEATS) == 0 ||
            strcmp(saved->notes[i], PRN_NOTE_MADE_UP_INPUTS) == 0)
            continue;
        int code = prn_profile_note(profile, saved->notes[i], err);
        if (code < 0)
            return code;
    }
    int code = prn_profile_note(profile, note, err);
    bool ok = true;
    profile->created = copied(&profile->arena, saved->created, &ok);
    return code == 0 && !ok ? prn_fail_memory(err) : code;
}

int prn_resume_adopt(const struct prn_profile *saved, bool priced, struct prn_profile *profile,
                     struct prony_error *err)
{
    int code = compare_points(saved, profile, err);
    if (code == 0)
        code = compare_backends(saved, profile, priced, err);
    if (code == 0)
        code = compare_machines(&saved->environment, &profile->environment, err);
    for (size_t i = 0; i < profile->n_results && code == 0; i++)
        code = take_result(&profile->arena, &saved->results[i], &profile->results[i], err);
    if (code < 0)
        return code;
    profile->canary_best_ns = saved->canary_best_ns;
    profile->environment.load_before = saved->environment.load_before;
    return take_notes(saved, profile, err);
}
