/* The verdict on a recorded program: for each of its first functions, where it is fastest. */
#include "report/verdict.h"

#include "base/format.h"

#include <math.h>

/* As the text report has it: the median over runs, or the mean where there are too few. */
static double total_time(const struct prn_recorded_total *total)
{
    return isfinite(total->median_ns) ? total->median_ns : total->total_ns;
}

/* Of the same kind, so that a part is no more than the whole. */
static double local_time(const struct prn_recorded *recorded,
                         const struct prn_recorded_total *total)
{
    bool medians = isfinite(total->median_ns) && isfinite(recorded->local_median_ns);
    return medians ? fmin(recorded->local_median_ns, total->median_ns) : recorded->local_ns;
}

static double local_graphs_time(const struct prn_recorded_total *total)
{
    return isfinite(total->local_graphs_median_ns) ? total->local_graphs_median_ns
                                                   : total->local_graphs_ns;
}

/* The backends with the shortest total time and the next; SIZE_MAX: none. */
static void find_totals(const struct prn_profile *p, const struct prn_recorded *recorded,
                        size_t *ret_first, size_t *ret_second)
{
    const struct prn_recorded_total *totals = recorded->totals;
    *ret_first = *ret_second = SIZE_MAX;
    for (size_t i = 0; i < p->n_results; i++) {
        double ns = total_time(&totals[i]);
        if (!isfinite(ns))
            continue;
        if (*ret_first == SIZE_MAX || ns < total_time(&totals[*ret_first])) {
            *ret_second = *ret_first;
            *ret_first = i;
        } else if (*ret_second == SIZE_MAX || ns < total_time(&totals[*ret_second])) {
            *ret_second = i;
        }
    }
}

static void say_function(const struct prn_recorded_view *view, size_t index, size_t first,
                         size_t second, struct prn_buffer *out)
{
    const struct prn_recorded *recorded = &view->profile->profiles[index];
    const struct prn_recorded_total *best = &recorded->totals[first];
    const struct prn_recorded_total *next = second == SIZE_MAX ? NULL : &recorded->totals[second];
    const char *label = view->names[index].label;
    const char *const *calls = view->backends.calls;
    char text[PRN_FORMAT_SIZE];
    prn_format_duration(text, total_time(best));
    if (best->total_ns <= recorded->local_ns) {
        prn_buffer_printf(out, "%s takes %s per run, all of it %s.", label, text, view->local);
        return;
    }
    bool sure = next && best->high_ns < next->low_ns; /* which may be NAN */
    if (sure) {
        prn_buffer_printf(out, "%s is ", label);
        prn_verdict_ratio(total_time(next) / total_time(best), out);
        prn_buffer_printf(out, " as fast on %s as on %s: %s per run", calls[first], calls[second],
                          text);
    } else {
        prn_buffer_printf(out, "%s takes %s per run on %s", label, text, calls[first]);
    }
    prn_buffer_printf(out, ", %s of it %s", prn_format_duration(text, local_time(recorded, best)),
                      view->local);
    if (best->flags & PRN_FLAG_PARTIAL)
        prn_buffer_printf(out, " and %s graphs that did not run there",
                          prn_format_duration(text, local_graphs_time(best)));
    if (next && !sure)
        prn_buffer_printf(out, ", and %s on %s; more runs would tell which is faster",
                          prn_format_duration(text, total_time(next)), calls[second]);
    if (best->flags & PRN_FLAG_MISMATCH)
        prn_buffer_printf(out, "; outputs of %s differ", calls[first]);
    prn_buffer_add(out, ".");
}

void prn_recorded_verdict(const struct prn_recorded_view *view, struct prn_buffer *out)
{
    const struct prn_profile *p = view->profile;
    size_t told = 0;
    for (size_t i = 0; i < p->n_profiles && told < PRN_VERDICT_NAMED; i++) {
        size_t first;
        size_t second;
        find_totals(p, &p->profiles[i], &first, &second);
        if (first == SIZE_MAX)
            continue;
        prn_buffer_add(out, told > 0 ? " " : "");
        say_function(view, i, first, second, out);
        told++;
    }
    if (told == 0)
        prn_buffer_add(out, p->n_profiles ? "No backend has a total time."
                                          : "No recorded function was called.");
}
