/*
 * In what two profiles differ apart from their results: machine, state of the machine, model,
 * software. What differs by so little that it says nothing is left out.
 */
#include "measure/comparison/parts.h"

#include "base/buffer.h"
#include "base/format.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The kernel keeps some memory for itself, and not always the same. */
#define MEMORY_TOLERANCE 0.02

/* Load averages, per core, that differ by less are chance. What is measured is in the second. */
#define LOAD_BEFORE_TOLERANCE 0.25
#define LOAD_AFTER_TOLERANCE 0.5

struct differ {
    struct prn_comparison_file *file;
    struct prn_arena *arena;
    bool failed; /* out of memory */
};

static void add(struct differ *d, enum prn_difference_kind kind, const char *before,
                const char *after)
{
    struct prn_difference *to = &d->file->differences[d->file->n_differences++];
    to->kind = kind;
    to->before = before ? prn_arena_strdup(d->arena, before) : NULL;
    to->after = after ? prn_arena_strdup(d->arena, after) : NULL;
    d->failed = d->failed || (before && !to->before) || (after && !to->after);
}

static bool same_text(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool text(struct differ *d, enum prn_difference_kind kind, const char *before,
                 const char *after)
{
    bool same = same_text(before, after);
    if (!same)
        add(d, kind, before, after);
    return !same;
}

/* Counts; -1 is not known. */
static bool integer(struct differ *d, enum prn_difference_kind kind, int64_t before, int64_t after)
{
    char texts[2][PRN_FORMAT_SIZE];
    if (before == after)
        return false;
    add(d, kind, before < 0 ? NULL : prn_format_integer(texts[0], (uint64_t)before),
        after < 0 ? NULL : prn_format_integer(texts[1], (uint64_t)after));
    return true;
}

static void memory(struct differ *d, int64_t before, int64_t after)
{
    char texts[2][PRN_FORMAT_SIZE];
    if (before < 0 || after < 0 ||
        fabs((double)after - (double)before) <= MEMORY_TOLERANCE * (double)before)
        return;
    add(d, PRN_DIFFERENCE_MEMORY, prn_format_bytes(texts[0], (double)before),
        prn_format_bytes(texts[1], (double)after));
}

static void canary(struct differ *d, double before, double after)
{
    char texts[2][PRN_FORMAT_SIZE];
    bool known = before > 0 && after > 0 && isfinite(after / before);
    d->file->canary_ratio = known ? after / before : NAN;
    if (known && fabs(log(after / before)) > log1p(PRN_CANARY_SHIFT))
        add(d, PRN_DIFFERENCE_CANARY, prn_format_duration(texts[0], before),
            prn_format_duration(texts[1], after));
}

static const char *load_text(char *buffer, size_t size, const struct prn_environment *e)
{
    snprintf(buffer, size, "%.2f at the start, %.2f at the end", e->load_before, e->load_after);
    return isfinite(e->load_before) && isfinite(e->load_after) ? buffer : NULL;
}

static void differ_load(struct differ *d, const struct prn_environment *before,
                        const struct prn_environment *after)
{
    double cores = (double)(after->cores > 0 ? after->cores : 1);
    bool differs = fabs(after->load_before - before->load_before) / cores > LOAD_BEFORE_TOLERANCE ||
                   fabs(after->load_after - before->load_after) / cores > LOAD_AFTER_TOLERANCE;
    char texts[2][768]; /* a double of a hostile file has 309 digits */
    if (differs)
        add(d, PRN_DIFFERENCE_LOAD, load_text(texts[0], sizeof texts[0], before),
            load_text(texts[1], sizeof texts[1], after));
}

static const char *file_name(const char *path)
{
    const char *slash = path ? strrchr(path, '/') : NULL;
    return slash ? slash + 1 : path;
}

/* Backends often share a runtime: the same change is told once. */
static bool told(const struct differ *d, enum prn_difference_kind kind, const char *before,
                 const char *after)
{
    for (size_t i = 0; i < d->file->n_differences; i++) {
        const struct prn_difference *known = &d->file->differences[i];
        if (known->kind == kind && same_text(known->before, before) &&
            same_text(known->after, after))
            return true;
    }
    return false;
}

static void runtime(struct differ *d, const struct prn_result *before,
                    const struct prn_result *after)
{
    /* A backend that never started doesn't know its runtime. */
    if (!before->runtime_version || !after->runtime_version)
        return;
    bool version = !same_text(before->runtime_version, after->runtime_version);
    enum prn_difference_kind kind = version ? PRN_DIFFERENCE_RUNTIME : PRN_DIFFERENCE_LIBRARY;
    const char *from = version ? before->runtime_version : before->runtime_library;
    const char *to = version ? after->runtime_version : after->runtime_library;
    if (!same_text(from, to) && !told(d, kind, from, to))
        add(d, kind, from, to);
}

/* A name may stand for something else than before. */
static void backend(struct differ *d, const struct prn_result *before,
                    const struct prn_result *after)
{
    const char *from = prn_result_spec(before);
    const char *to = prn_result_spec(after);
    if ((before->spec || after->spec) && !same_text(from, to) &&
        !told(d, PRN_DIFFERENCE_BACKEND, from, to))
        add(d, PRN_DIFFERENCE_BACKEND, from, to);
}

int prn_comparison_differ(const struct prn_profile *before, struct prn_comparison_file *file,
                          struct prn_arena *arena, struct prony_error *err)
{
    const struct prn_profile *after = file->after.profile;
    const struct prn_environment *was = &before->environment;
    const struct prn_environment *is = &after->environment;
    struct differ d = {.file = file, .arena = arena};
    file->differences =
        PRN_ARENA_ARRAY(arena, PRN_DIFFERENCE_COUNT + 2 * file->n_rows, struct prn_difference);
    if (!file->differences)
        return prn_fail_memory(err);
    bool other_cpu = text(&d, PRN_DIFFERENCE_CPU, was->cpu, is->cpu);
    bool other_cores = integer(&d, PRN_DIFFERENCE_CORES, was->cores, is->cores);
    file->machines_differ = other_cpu || other_cores;
    canary(&d, before->canary_best_ns, after->canary_best_ns);
    differ_load(&d, was, is);
    memory(&d, was->memory_bytes, is->memory_bytes);
    text(&d, PRN_DIFFERENCE_OS, was->os, is->os);
    text(&d, PRN_DIFFERENCE_KERNEL, was->kernel, is->kernel);
    text(&d, PRN_DIFFERENCE_SANDBOX, was->sandbox, is->sandbox);
    text(&d, PRN_DIFFERENCE_MODEL, file_name(before->models->path), file_name(after->models->path));
    integer(&d, PRN_DIFFERENCE_MODEL_BYTES, before->models->bytes, after->models->bytes);
    integer(&d, PRN_DIFFERENCE_MODEL_PARAMETERS, before->models->parameters,
            after->models->parameters);
    for (size_t i = 0; i < file->n_rows; i++)
        if (file->rows[i].before && file->rows[i].after)
            backend(&d, file->rows[i].before, file->rows[i].after);
    for (size_t i = 0; i < file->n_rows; i++)
        if (file->rows[i].before && file->rows[i].after)
            runtime(&d, file->rows[i].before, file->rows[i].after);
    text(&d, PRN_DIFFERENCE_PRONY, before->prony_version, after->prony_version);
    return d.failed ? prn_fail_memory(err) : 0;
}
