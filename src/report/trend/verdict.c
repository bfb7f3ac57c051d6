/* The verdict on a history: the last change of each series, those that became slower first. */
#include "report/trend/report.h"

#include "base/text.h"
#include "report/verdict.h"

#include <string.h>

/* Whether series differ in something. */
static bool several(const struct prn_trend *t, size_t offset)
{
    for (size_t i = 1; i < t->n_series; i++) {
        const char *first = *(const char *const *)((const char *)&t->series[0] + offset);
        const char *other = *(const char *const *)((const char *)&t->series[i] + offset);
        if (strcmp(first, other) != 0)
            return true;
    }
    return false;
}

const char *prn_trend_backend(const char *backend)
{
    static const char here[] = "local/";
    return backend + (strncmp(backend, here, strlen(here)) == 0 ? strlen(here) : 0);
}

void prn_trend_series_text(const struct prn_trend *trend, const struct prn_trend_series *series,
                           struct prn_buffer *out)
{
    prn_text_clean(out, prn_trend_backend(series->backend));
    if (several(trend, offsetof(struct prn_trend_series, sizes))) {
        prn_buffer_add(out, " at ");
        prn_text_clean(out, series->sizes);
    }
    if (several(trend, offsetof(struct prn_trend_series, machine))) {
        prn_buffer_add(out, " of ");
        prn_text_clean(out, series->machine);
    }
}

/* "commit 1234567 with changes", "report 3". */
static void origin_text(const struct prn_report_origin *origin, struct prn_buffer *out)
{
    if (!origin->commit)
        prn_buffer_printf(out, "report %lld", (long long)origin->report);
    else
        prn_buffer_printf(out, "commit %.*s%s", PRN_COMMIT_SHOWN, origin->commit,
                          origin->changed ? " with changes" : "");
}

static const struct prn_trend_change *last_change(const struct prn_trend_series *s)
{
    return s->n_changes > 0 ? &s->changes[s->n_changes - 1] : NULL;
}

/* "m.onnx on onnxrt-cpu became 1.12× as slow at commit 1234567 (95 %: 1.10 to 1.14), measured
 * after report 12; 1 earlier change." */
static void say_change(const struct prn_trend *t, const struct prn_trend_series *s,
                       struct prn_buffer *out)
{
    const struct prn_trend_change *c = last_change(s);
    bool slower = c->ratio.estimate > 1;
    prn_text_clean(out, t->model);
    prn_buffer_add(out, " on ");
    prn_trend_series_text(t, s, out);
    prn_buffer_add(out, " became ");
    prn_verdict_ratio(slower ? c->ratio.estimate : 1 / c->ratio.estimate, out);
    prn_buffer_printf(out, " as %s at ", slower ? "slow" : "fast");
    origin_text(&c->origin, out);
    prn_verdict_interval(slower ? c->ratio.low : 1 / c->ratio.high,
                         slower ? c->ratio.high : 1 / c->ratio.low, out);
    if (c->origin.commit)
        prn_buffer_printf(out, ", report %lld", (long long)c->origin.report);
    if (s->n_changes > 1)
        prn_buffer_printf(out, "; %zu earlier change%s", s->n_changes - 1,
                          s->n_changes == 2 ? "" : "s");
    prn_buffer_add_char(out, '.');
}

/* Series without a change: in how many one could have been shown, and how many are too short. */
struct rest {
    size_t unchanged, brief;
    const struct prn_trend_series *longest;
};

static struct rest rest_of(const struct prn_trend *t)
{
    struct rest r = {0, 0, NULL};
    for (size_t i = 0; i < t->n_series; i++) {
        const struct prn_trend_series *s = &t->series[i];
        if (s->n_changes > 0)
            continue;
        r.unchanged += s->measured >= PRN_CHANGES_MIN;
        r.brief += s->measured < PRN_CHANGES_MIN;
        r.longest = !r.longest || s->measured > r.longest->measured ? s : r.longest;
    }
    return r;
}

static void say_unchanged(const struct prn_trend *t, const struct rest *rest, bool told,
                          struct prn_buffer *out)
{
    if (told) {
        prn_buffer_printf(out, " No change shown in %zu other series.", rest->unchanged);
        return;
    }
    prn_buffer_printf(out, "No change shown over %lld reports of ",
                      (long long)rest->longest->measured);
    prn_text_clean(out, t->model);
    if (rest->unchanged == 1) {
        prn_buffer_add(out, " on ");
        prn_trend_series_text(t, rest->longest, out);
    } else {
        prn_buffer_printf(out, ", in none of %zu series", rest->unchanged);
    }
    prn_buffer_add_char(out, '.');
}

static void say_brief(const struct prn_trend *t, const struct rest *rest, bool told,
                      struct prn_buffer *out)
{
    if (told) {
        prn_buffer_printf(out, " %zu series %s too few reports to show a change.", rest->brief,
                          rest->brief == 1 ? "has" : "have");
        return;
    }
    prn_buffer_add(out, "Too few reports of ");
    prn_text_clean(out, t->model);
    prn_buffer_printf(out, " to show a change: %lld, and it takes %d of one series.",
                      (long long)rest->longest->measured, PRN_CHANGES_MIN);
}

void prn_trend_verdict(const struct prn_trend *trend, struct prn_buffer *out)
{
    size_t told = 0;
    size_t changed = 0;
    for (int slower = 1; slower >= 0; slower--)
        for (size_t i = 0; i < trend->n_series; i++) {
            const struct prn_trend_change *c = last_change(&trend->series[i]);
            if (!c || (c->ratio.estimate > 1) != slower)
                continue;
            if (changed++ < PRN_VERDICT_NAMED) {
                prn_buffer_add(out, told++ ? " " : "");
                say_change(trend, &trend->series[i], out);
            }
        }
    if (changed > told)
        prn_buffer_printf(out, " So did %zu more series, or became faster.", changed - told);
    struct rest rest = rest_of(trend);
    if (rest.unchanged > 0)
        say_unchanged(trend, &rest, changed > 0, out);
    if (rest.brief > 0)
        say_brief(trend, &rest, changed + rest.unchanged > 0, out);
}
