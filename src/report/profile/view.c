#include "report/profile/view.h"

#include "base/format.h"
#include "base/map.h"
#include "base/text.h"
#include "report/names.h"
#include "spec/spec.h"

#include <math.h>
#include <string.h>

/* "text", or "text #2" when `number` isn't 0; "text (place)" when `place` isn't "". */
static const char *numbered(struct prn_arena *arena, const char *text, size_t number,
                            const char *place)
{
    struct prn_buffer name = PRN_BUFFER_INIT((size_t)1 << 20);
    prn_text_clean(&name, text);
    if (number > 0)
        prn_buffer_printf(&name, " #%zu", number);
    if (place[0]) {
        prn_buffer_add(&name, " (");
        prn_text_clean(&name, place);
        prn_buffer_add_char(&name, ')');
    }
    const char *copy = name.error ? NULL : prn_arena_strdup(arena, prn_buffer_text(&name));
    prn_buffer_release(&name);
    return copy;
}

/* What a result was fed, where that tells results apart: "new.onnx, batch=4". NULL when memory runs
 * out. */
static const char *place_of(const struct prn_profile *p, const struct prn_result *r,
                            struct prn_arena *arena)
{
    const char *label = p->n_points > 1 ? prn_result_point(p, r)->label : "";
    if (p->n_models == 1)
        return label;
    struct prn_buffer place = PRN_BUFFER_INIT((size_t)1 << 20);
    prn_buffer_printf(&place, "%s%s%s", prn_result_model(p, r)->name, label[0] ? ", " : "", label);
    const char *copy = place.error ? NULL : prn_arena_strdup(arena, prn_buffer_text(&place));
    prn_buffer_release(&place);
    return copy;
}

/* "onnxrt-cpu[threads=2]" of "local/onnxrt-cpu[threads=2]"; a name that was given stays. */
static const char *without_hardware(const struct prn_result *r, const char *text)
{
    size_t len = strlen(r->hardware);
    bool prefixed =
        (text != r->name || !r->spec) && strncmp(text, r->hardware, len) == 0 && text[len] == '/';
    return prefixed ? text + len + 1 : text;
}

/* Whether everything ran here, so that saying where says nothing. */
bool prn_view_all_local(const struct prn_profile *p)
{
    for (size_t i = 0; i < p->n_results; i++)
        if (strcmp(p->results[i].hardware, "local") != 0)
            return false;
    return true;
}

/* How many results of one point have each name, and which of them each one is. */
static int count_names(const struct prn_profile *p, size_t point, size_t *totals, size_t *ordinals)
{
    int code = 0;
    struct prn_map seen = PRN_MAP_INIT;
    for (size_t i = 0; i < p->n_results && code == 0; i++) {
        if (p->results[i].point != point)
            continue;
        size_t first = prn_map_get(&seen, p->results[i].name);
        if (first == PRN_MAP_NONE) {
            first = i;
            code = prn_map_set(&seen, p->results[i].name, i);
        }
        ordinals[i] = ++totals[first];
    }
    for (size_t i = 0; i < p->n_results && code == 0; i++)
        if (p->results[i].point == point && totals[prn_map_get(&seen, p->results[i].name)] == 1)
            ordinals[i] = 0;
    prn_map_release(&seen);
    return code;
}

static int count_all_names(const struct prn_profile *p, size_t *totals, size_t *ordinals)
{
    int code = 0;
    for (size_t i = 0; (i == 0 || i < p->n_points) && code == 0; i++)
        code = count_names(p, i, totals, ordinals);
    return code;
}

/* Who was measured at the same sizes as somebody else. */
static int find_compared(struct prn_view *view)
{
    const struct prn_profile *p = view->profile;
    size_t *measured = PRN_ARENA_ARRAY(&view->arena, p->n_points + 1, size_t);
    view->compared = PRN_ARENA_ARRAY(&view->arena, p->n_results, bool);
    if (!measured || !view->compared)
        return PRONY_ENOMEM;
    for (size_t i = 0; i < p->n_results; i++)
        measured[prn_result_cohort(p, &p->results[i])] += prn_result_measured(&p->results[i]);
    for (size_t i = 0; i < p->n_results; i++) {
        view->compared[i] = measured[prn_result_cohort(p, &p->results[i])] > 1;
        view->any_compared |= view->compared[i];
    }
    return 0;
}

static int summarise_launches(struct prn_view *view)
{
    const struct prn_profile *p = view->profile;
    view->launches = PRN_ARENA_ARRAY(&view->arena, p->n_results, struct prn_launch_figures);
    int code = view->launches ? 0 : PRONY_ENOMEM;
    for (size_t i = 0; i < p->n_results && code == 0; i++)
        code = prn_launch_figures(&p->results[i], &view->launches[i]);
    return code;
}

/* A name that a sentence can hold. */
#define CALL_WIDTH 40

static int make_calls(struct prn_view *view, const size_t *ordinals)
{
    const struct prn_profile *p = view->profile;
    const char **full = view->fulls = PRN_ARENA_ARRAY(&view->arena, p->n_results, const char *);
    view->calls = PRN_ARENA_ARRAY(&view->arena, p->n_results, const char *);
    if (!full || !view->calls)
        return PRONY_ENOMEM;
    bool bare = prn_view_all_local(p);
    for (size_t i = 0; i < p->n_results; i++) {
        const struct prn_result *r = &p->results[i];
        full[i] =
            numbered(&view->arena, bare ? without_hardware(r, r->name) : r->name, ordinals[i], "");
        if (!full[i])
            return PRONY_ENOMEM;
    }
    int code = prn_names_shorten(full, p->n_results, CALL_WIDTH, &view->arena, view->calls);
    for (size_t i = 0; i < p->n_results && p->n_points > 1 && code == 0; i++) {
        const char *place = place_of(p, &p->results[i], &view->arena);
        view->calls[i] = place ? numbered(&view->arena, view->calls[i], 0, place) : NULL;
        code = view->calls[i] ? 0 : PRONY_ENOMEM;
    }
    return code;
}

int prn_view_init(struct prn_view *view, const struct prn_profile *profile, struct prony_error *err)
{
    struct prn_view v = {.profile = profile, .arena = PRN_ARENA_INIT((size_t)256 << 20)};
    size_t n = profile->n_results;
    size_t *totals = PRN_ARENA_ARRAY(&v.arena, n, size_t);
    size_t *ordinals = PRN_ARENA_ARRAY(&v.arena, n, size_t);
    v.names = PRN_ARENA_ARRAY(&v.arena, n, const char *);
    v.backends = PRN_ARENA_ARRAY(&v.arena, n, const char *);
    if (!totals || !ordinals || !v.names || !v.backends ||
        count_all_names(profile, totals, ordinals) < 0 || summarise_launches(&v) < 0 ||
        find_compared(&v) < 0 || prn_sweep_view_init(&v.sweep, profile, &v.arena, err) < 0)
        goto fail;
    for (size_t i = 0; i < n; i++) {
        const struct prn_result *r = &profile->results[i];
        const char *place = place_of(profile, r, &v.arena);
        if (!place)
            goto fail;
        v.names[i] = numbered(&v.arena, r->name, ordinals[i], place);
        v.backends[i] = numbered(&v.arena, without_hardware(r, r->name), ordinals[i], "");
        if (!v.names[i] || !v.backends[i])
            goto fail;
        v.n_measured += prn_result_measured(r);
    }
    if (make_calls(&v, ordinals) < 0)
        goto fail;
    *view = v;
    return 0;
fail:
    prn_view_release(&v);
    return prn_fail_memory(err);
}

void prn_view_release(struct prn_view *view)
{
    prn_arena_release(&view->arena);
}

double prn_result_half_width(const struct prn_result *r)
{
    const struct prn_sample_stats *s = &r->stats;
    double half = (s->high_ns - s->low_ns) / 2 / s->median_ns;
    return isfinite(half) && r->n_launches >= PRN_UNITS_MIN ? half : NAN;
}

const char *prn_view_launches_cure(const struct prn_profile *p, size_t launches)
{
    const struct prn_settings *s = &p->settings;
    if (s->launches > 0 && s->launches < PRN_UNITS_MIN)
        return (int64_t)launches < s->launches ? "--launches 5 with a longer --max-time"
                                               : "--launches 5";
    return s->repeats > 0 && s->repeats < PRN_UNITS_MIN ? "more --repeats" : "a longer --max-time";
}

double prn_result_rate(const struct prn_profile *p, const struct prn_result *r)
{
    double rate = (double)prn_result_point(p, r)->batch * 1e9 / r->stats.median_ns;
    return isfinite(rate) && rate > 0 ? rate : NAN;
}

double prn_result_gflops(const struct prn_profile *p, const struct prn_result *r)
{
    const struct prn_point *point = prn_result_point(p, r);
    double gflops = point->flops / r->stats.median_ns;
    bool known = point->flops_complete && point->flops > 0 && isfinite(r->stats.median_ns);
    return known && isfinite(gflops) ? gflops : NAN;
}

double prn_result_cost(const struct prn_profile *p, const struct prn_result *r)
{
    return prn_cost_per_million(r->usd_per_hour, prn_result_item_ns(p, r));
}

void prn_view_percent(struct prn_buffer *out, double fraction)
{
    char text[PRN_FORMAT_SIZE];
    double percent = fraction * 100;
    if (!isfinite(percent) || percent < 0)
        prn_buffer_add_char(out, '?');
    else if (percent < 0.01)
        prn_buffer_add(out, percent == 0 ? "0 %" : "<0.01 %");
    else
        prn_buffer_printf(out, "%s %%", prn_format_significant(text, percent, 2));
}

void prn_view_half_width(struct prn_buffer *out, double fraction)
{
    if (fraction > 1)
        prn_buffer_add(out, "unknown");
    else
        prn_view_percent(out, fraction);
}

void prn_view_runtimes(const struct prn_profile *p, const char *before, struct prn_buffer *out)
{
    for (size_t i = 0; i < p->n_results; i++) {
        const char *version = p->results[i].runtime_version;
        bool seen = !version;
        for (size_t k = 0; k < i && !seen; k++) {
            const char *other = p->results[k].runtime_version;
            seen = other && strcmp(other, version) == 0;
        }
        if (seen)
            continue;
        prn_buffer_printf(out, "%s%s", before, version);
        before = ", ";
    }
}

/* Names of the first point; the others have the same. */
#define SPECS_SHOWN 20

void prn_view_specs(const struct prn_profile *p, struct prn_prose *prose)
{
    size_t told = 0;
    for (size_t i = 0; i < p->n_results; i++) {
        const struct prn_result *r = &p->results[i];
        if (!r->spec || r->point != p->results[0].point)
            continue;
        bool bare = strcmp(r->hardware, "local") == 0;
        if (told++ < SPECS_SHOWN)
            prn_buffer_printf(&prose->line, "%s%s is %s", told > 1 ? "; " : "", r->name,
                              bare ? without_hardware(r, r->spec) : r->spec);
    }
    if (told > SPECS_SHOWN)
        prn_buffer_printf(&prose->line, "; %zu more are in the JSON", told - SPECS_SHOWN);
    if (told > 0)
        prn_prose_paragraph(prose, ".");
}

static void add_machine(const struct prn_environment *e, struct prn_buffer *line)
{
    char text[PRN_FORMAT_SIZE];
    prn_buffer_add(line, e->cpu ? e->cpu : "an unknown processor");
    if (e->cores > 0)
        prn_buffer_printf(line, ", %lld core%s", (long long)e->cores, e->cores > 1 ? "s" : "");
    if (isfinite(e->mhz))
        prn_buffer_printf(line, " at %.0f MHz", e->mhz);
    if (e->memory_bytes >= 0)
        prn_buffer_printf(line, ", %s", prn_format_bytes(text, (double)e->memory_bytes));
    if (e->os && e->os[0])
        prn_buffer_printf(line, ", %s", e->os);
    if (e->kernel && e->kernel[0])
        prn_buffer_printf(line, ", kernel %s", e->kernel);
    if (isfinite(e->load_before) && isfinite(e->load_after))
        prn_buffer_printf(line, ", load %.2f before and %.2f after", e->load_before, e->load_after);
}

/* Each host's machine, and what confined the executors there. */
static void describe_hosts(const struct prn_profile *p, struct prn_prose *prose)
{
    prn_prose_paragraph(prose, " on %zu host%s of a service:", p->n_hosts,
                        p->n_hosts > 1 ? "s" : "");
    for (size_t i = 0; i < p->n_hosts; i++) {
        const struct prn_profile_host *host = &p->hosts[i];
        const char *sandbox = host->environment.sandbox;
        prn_buffer_printf(&prose->line, "%s: ", host->hardware);
        add_machine(&host->environment, &prose->line);
        if (sandbox && sandbox[0])
            prn_buffer_printf(&prose->line, "; executors were confined by %s", sandbox);
        prn_prose_paragraph(prose, ".");
    }
}

void prn_view_environment(const struct prn_profile *p, struct prn_prose *prose)
{
    struct prn_buffer *line = &prose->line;
    const struct prn_environment *e = &p->environment;
    prn_buffer_printf(line, "Measured%s%s by prony %s", p->created ? " " : "",
                      p->created ? p->created : "", p->prony_version ? p->prony_version : "?");
    prn_view_runtimes(p, " with ", line);
    if (p->n_hosts > 0) {
        describe_hosts(p, prose);
        return;
    }
    prn_buffer_add(line, " on ");
    add_machine(e, line);
    prn_prose_paragraph(prose, ".");
    if (e->sandbox && e->sandbox[0])
        prn_prose_paragraph(prose, "Executors were confined by %s.", e->sandbox);
}

const struct prn_output_check *prn_view_difference(struct prn_buffer *out,
                                                   const struct prn_output_check *outputs, size_t n)
{
    const struct prn_output_check *o = NULL;
    double most = -1;
    for (size_t i = 0; i < n; i++) {
        const struct prn_output_check *at = &outputs[i];
        double error = at->same_shape && isfinite(at->max_rel) ? at->max_rel : HUGE_VAL;
        if (error > most) {
            o = at;
            most = error;
        }
    }
    if (o && !o->same_shape)
        prn_buffer_printf(out, "; '%s' has another shape or type", o->name);
    else if (o && !isfinite(o->max_rel))
        prn_buffer_printf(out, "; '%s' has values that can't be subtracted", o->name);
    else if (o)
        prn_buffer_printf(out, "; '%s' by up to %.2g (relative %.2g, cosine %.6g)", o->name,
                          o->max_abs, o->max_rel, o->cosine);
    return o;
}

void prn_flags_text(struct prn_buffer *out, unsigned flags)
{
    const char *before = "";
#define PRN_X(name, bit, meaning)                      \
    if (flags & (bit)) {                               \
        prn_buffer_printf(out, "%s%s", before, #name); \
        before = " ";                                  \
    }
    PRN_FLAG_MAP(PRN_X)
#undef PRN_X
}

bool prn_view_is_fastest(const struct prn_view *view, size_t result)
{
    const struct prn_profile *p = view->profile;
    const struct prn_result *r = &p->results[result];
    size_t beaten = 0;
    if (!prn_result_measured(r) || r->verdict != PRN_VERDICT_NONE || r->ratio.estimate != 1)
        return false;
    for (size_t i = 0; i < p->n_results; i++) {
        const struct prn_result *other = &p->results[i];
        if (i == result || prn_result_cohort(p, other) != prn_result_cohort(p, r) ||
            !prn_result_measured(other))
            continue;
        if (other->verdict != PRN_VERDICT_SLOWER)
            return false;
        beaten++;
    }
    return beaten > 0;
}
