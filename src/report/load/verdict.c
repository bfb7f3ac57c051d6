/* The verdict on load: the highest rate that holds, and what limits it. */
#include "report/load/report.h"
#include "report/verdict.h"

#include <math.h>

/* "; at 110/s it is over it", "; it can't answer more than 112/s". */
static void add_bound(const struct prn_slo *slo, struct prn_buffer *out)
{
    char text[PRN_FORMAT_SIZE];
    double fails = prn_slo_fails_per_s(slo);
    const struct prn_slo_trial *failed = NULL;
    for (size_t i = 0; i < slo->n_trials; i++)
        if (slo->trials[i].rate_per_s == fails && slo->trials[i].verdict == PRN_SLO_VERDICT_FAILS)
            failed = &slo->trials[i];
    if (failed && failed->overloaded)
        prn_buffer_printf(out, "; %s is more than it can answer", prn_load_rate_text(text, fails));
    else if (failed && isfinite(failed->percentile_ns)) {
        prn_buffer_printf(out, "; at %s ", prn_load_rate_text(text, fails));
        prn_buffer_printf(out, "waiting makes it %s",
                          prn_format_duration(text, failed->percentile_ns));
    } else if (failed)
        prn_buffer_printf(out, "; at %s waiting makes it longer", prn_load_rate_text(text, fails));
    else if (isfinite(slo->capacity_per_s))
        prn_buffer_printf(out, "; it can answer at most %s",
                          prn_load_rate_text(text, slo->capacity_per_s));
}

static void say_limit(const char *name, const struct prn_slo *slo, struct prn_buffer *out)
{
    char text[PRN_FORMAT_SIZE];
    double holds = prn_slo_holds_per_s(slo);
    double seen = prn_slo_seen_per_s(slo);
    prn_buffer_printf(out, "%s ", name);
    if (isfinite(holds)) {
        prn_buffer_add(out, "holds ");
        prn_slo_limit_text(slo, out);
        prn_buffer_printf(out, " up to %s", prn_load_rate_text(text, holds));
        add_bound(slo, out);
    } else if (slo->single_fails) {
        prn_buffer_add(out, "cannot hold ");
        prn_slo_limit_text(slo, out);
        prn_buffer_printf(out, ": a lone request takes %s",
                          prn_format_duration(text, slo->single_ns));
    } else {
        prn_buffer_add(out, "is not known to hold ");
        prn_slo_limit_text(slo, out);
        prn_buffer_add(out, " at any rate");
        if (isfinite(seen))
            prn_buffer_printf(out, "; %s held, but not in a fresh process",
                              prn_load_rate_text(text, seen));
    }
    if (!slo->complete && !slo->single_fails && isfinite(slo->needed_s))
        prn_buffer_printf(out, "; --max-time %.0f would tell more", slo->needed_s);
    prn_buffer_add_char(out, '.');
}

static void add_p99(const struct prn_load_row *row, struct prn_buffer *out)
{
    char text[PRN_FORMAT_SIZE];
    if (isfinite(row->p99_ns.estimate))
        prn_buffer_printf(out, " (p99 %s)", prn_format_duration(text, row->p99_ns.estimate));
}

/* Without a limit: what was answered of the highest rate that didn't overload it, and of the lowest
 * that did. Whether a rate holds for longer is for --slo to say. */
static void say_rates(const char *name, const struct prn_load *load, struct prn_buffer *out)
{
    const struct prn_load_row *kept = NULL;
    const struct prn_load_row *over = NULL;
    const struct prn_load_row *closed = NULL;
    char text[PRN_FORMAT_SIZE];
    for (size_t i = 0; i < load->n_rows; i++) {
        const struct prn_load_row *row = &load->rows[i];
        bool late = (row->flags & PRN_LOAD_FLAG_OVERLOADED) != 0;
        if (!isfinite(row->asked_per_s))
            closed = row;
        else if (!late && (!kept || row->asked_per_s > kept->asked_per_s))
            kept = row;
        else if (late && (!over || row->asked_per_s < over->asked_per_s))
            over = row;
    }
    if (!kept && !over && !closed)
        return;
    prn_buffer_printf(out, "%s ", name);
    if (kept) {
        prn_buffer_printf(out, "answered %s", prn_load_rate_text(text, kept->achieved_per_s));
        prn_buffer_printf(out, " of %s asked", prn_load_rate_text(text, kept->asked_per_s));
        add_p99(kept, out);
    }
    if (over) {
        prn_buffer_printf(out, "%s %s", kept ? ", but is overloaded at" : "is overloaded at",
                          prn_load_rate_text(text, over->asked_per_s));
        prn_buffer_printf(out, ": it answered %s", prn_load_rate_text(text, over->achieved_per_s));
    }
    if (closed && !kept && !over) {
        prn_buffer_printf(out, "answered %s with %lld request%s at a time",
                          prn_load_rate_text(text, closed->achieved_per_s),
                          (long long)closed->workers, closed->workers == 1 ? "" : "s");
        add_p99(closed, out);
    }
    prn_buffer_add_char(out, '.');
}

void prn_load_verdict(const struct prn_view *view, struct prn_buffer *out)
{
    const struct prn_profile *p = view->profile;
    size_t told = 0;
    for (size_t i = 0; i < p->n_results && told < PRN_VERDICT_NAMED; i++) {
        const struct prn_load *load = p->results[i].load;
        if (!load || (!load->slo && load->n_rows == 0))
            continue;
        prn_buffer_add(out, told++ ? " " : "");
        if (load->slo)
            say_limit(view->calls[i], load->slo, out);
        else
            say_rates(view->calls[i], load, out);
    }
}
