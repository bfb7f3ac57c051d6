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

void prn_trend_origin_text(const struct prn_report_origin *origin, struct prn_buffer *out)
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
    prn_trend_origin_text(&c->origin, out);
    prn_verdict_interval(slower ? c->ratio.low : 1 / c->ratio.high,
                         slower ? c->ratio.high : 1 / c->ratio.low, out);
    if (c->origin.commit)
        prn_buffer_printf(out, ", report %lld", (long long)c->origin.report);
    if (s->n_changes > 1)
        prn_buffer_printf(out, "; %zu earlier change%s", s->n_changes - 1,
                          s->n_changes == 2 ? "" : "s");
    prn_buffer_add_char(out, '.');
}

/* Of the series without a change. */
static void say_rest(const struct prn_trend *t, size_t rest, size_t told, struct prn_buffer *out)
{
    int64_t most = 0;
    for (size_t i = 0; i < t->n_series; i++)
        if (t->series[i].n_changes == 0 && t->series[i].measured > most)
            most = t->series[i].measured;
    prn_buffer_add(out, told > 0 ? " " : "");
    if (most < PRN_CHANGES_MIN && told == 0) {
        prn_buffer_printf(out, "Too few reports of ");
        prn_text_clean(out, t->model);
        prn_buffer_printf(out, " to show a change: %lld, and it takes %d of one series.",
                          (long long)most, PRN_CHANGES_MIN);
    } else if (told > 0) {
        prn_buffer_printf(out, "No change shown in the other %zu series.", rest);
    } else {
        prn_buffer_printf(out, "No change shown over %lld reports of ", (long long)most);
        prn_text_clean(out, t->model);
        if (rest == 1) {
            prn_buffer_add(out, " on ");
            prn_trend_series_text(t, &t->series[0], out);
        } else {
            prn_buffer_printf(out, ", in none of %zu series", rest);
        }
        prn_buffer_add_char(out, '.');
    }
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
    if (changed < trend->n_series)
        say_rest(trend, trend->n_series - changed, told, out);
}
