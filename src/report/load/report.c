/* What stands below the tables on load: flags, limits, and how the figures came about. */
#include "report/load/report.h"

#include <math.h>
#include <string.h>

struct section {
    const struct prn_view *view;
    const struct prn_profile *profile;
    struct prn_prose *prose;
};

bool prn_load_present(const struct prn_profile *profile)
{
    for (size_t i = 0; i < profile->n_results; i++)
        if (profile->results[i].load)
            return true;
    return false;
}

/* Calls `visit` for every load. */
static void each_row(struct section *s,
                     void (*visit)(struct section *, size_t, const struct prn_load_row *))
{
    for (size_t i = 0; i < s->profile->n_results; i++) {
        const struct prn_load *load = s->profile->results[i].load;
        for (size_t k = 0; load && k < load->n_rows; k++)
            visit(s, i, &load->rows[k]);
    }
}

/* "local/onnxrt-cpu at 100/s" */
static void add_name(struct section *s, size_t index, const struct prn_load_row *row)
{
    char text[PRN_FORMAT_SIZE];
    prn_buffer_printf(&s->prose->line, "%s %s%s", s->view->calls[index],
                      isfinite(row->asked_per_s) ? "at " : "in the ",
                      prn_load_rate_text(text, row->asked_per_s));
}

/* ---- What went wrong ---- */

static void PRN_PRINTF(2, 3) warn(struct section *s, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    prn_buffer_vprintf(&s->prose->line, format, args);
    va_end(args);
    prn_prose_warning(s->prose);
}

static void describe_errors(struct section *s)
{
    for (size_t i = 0; i < s->profile->n_results; i++) {
        const struct prn_load *load = s->profile->results[i].load;
        if (load && load->error_code)
            warn(s, "%s stopped under load: %s", s->view->calls[i],
                 load->error ? load->error : prony_error_text(load->error_code));
    }
}

static void describe_overload(struct section *s, size_t index, const struct prn_load_row *row)
{
    char achieved[PRN_FORMAT_SIZE];
    char asked[PRN_FORMAT_SIZE];
    if (!(row->flags & PRN_LOAD_FLAG_OVERLOADED))
        return;
    warn(s,
         "Overloaded: %s answered %s of %s. Requests came faster than it could answer them, so "
         "latency only grew and has no percentiles.",
         s->view->calls[index], prn_load_rate_text(achieved, row->achieved_per_s),
         prn_load_rate_text(asked, row->asked_per_s));
}

static void describe_lateness(struct section *s, size_t index, const struct prn_load_row *row)
{
    char late[PRN_FORMAT_SIZE];
    if (!(row->flags & PRN_LOAD_FLAG_LATE))
        return;
    prn_buffer_add(&s->prose->line, "Late: requests to ");
    add_name(s, index, row);
    warn(s,
         " were made up to %s late (p99), which is part of their latency. Give the backend fewer "
         "threads than there are cores, or stop other work.",
         prn_format_duration(late, row->lateness_ns));
}

/* The loads with a flag, in one paragraph that `explanation` ends. */
static void describe_flag(struct section *s, unsigned bit, const char *name,
                          const char *explanation)
{
    size_t n = 0;
    for (size_t i = 0; i < s->profile->n_results; i++) {
        const struct prn_load *load = s->profile->results[i].load;
        for (size_t k = 0; load && k < load->n_rows; k++) {
            if (!(load->rows[k].flags & bit))
                continue;
            if (n++ == 0)
                prn_buffer_printf(&s->prose->line, "%s: ", name);
            else
                prn_buffer_add(&s->prose->line, ", ");
            add_name(s, i, &load->rows[k]);
        }
    }
    if (n > 0)
        warn(s, ": %s", explanation);
}

static void describe_flags(struct section *s)
{
    each_row(s, describe_overload);
    each_row(s, describe_lateness);
    describe_flag(s, PRN_LOAD_FLAG_NOISY, "Noisy",
                  "other work disturbed more than a tenth of the blocks. Stop it and repeat.");
    describe_flag(s, PRN_LOAD_FLAG_MISMATCH, "Outputs differ",
                  "requests that ran together gave other outputs than a lone one.");
    describe_flag(s, PRN_LOAD_FLAG_INTERRUPTED, "Interrupted",
                  "the figures use what was measured until then.");
}

/* ---- Limits ---- */

static void add_edge(struct section *s, const struct prn_slo *slo)
{
    char rate[PRN_FORMAT_SIZE];
    double fails = prn_slo_fails_per_s(slo);
    if (isfinite(fails))
        prn_buffer_printf(&s->prose->line, " (fails at %s)", prn_load_rate_text(rate, fails));
    else if (isfinite(slo->capacity_per_s))
        prn_buffer_printf(&s->prose->line, " (its capacity is %s)",
                          prn_load_rate_text(rate, slo->capacity_per_s));
}

/* The longest that a rate was seen to hold. */
static const struct prn_slo_trial *longest_trial(const struct prn_slo *slo, double rate_per_s)
{
    const struct prn_slo_trial *found = NULL;
    for (size_t i = 0; i < slo->n_trials; i++) {
        const struct prn_slo_trial *t = &slo->trials[i];
        if (t->rate_per_s == rate_per_s && t->verdict == PRN_SLO_VERDICT_HOLDS &&
            (!found || t->duration_s > found->duration_s))
            found = t;
    }
    return found;
}

/* The lowest rate that was tried in a fresh process; NAN for none. */
static double lowest_confirming(const struct prn_slo *slo)
{
    double rate = NAN;
    for (size_t i = 0; i < slo->n_trials; i++)
        if (slo->trials[i].confirms > 0)
            rate = fmin(rate, slo->trials[i].rate_per_s);
    return rate;
}

/* A rate held, but not in a process of its own. */
static void add_unconfirmed(struct section *s, const struct prn_slo *slo, double seen)
{
    char rate[PRN_FORMAT_SIZE];
    char text[PRN_FORMAT_SIZE];
    const struct prn_slo_trial *trial = longest_trial(slo, seen);
    double lowest = lowest_confirming(slo);
    prn_buffer_printf(&s->prose->line, ": no rate is known to hold it. %s held for %s",
                      prn_load_rate_text(rate, seen),
                      prn_format_duration(text, trial ? trial->duration_s * 1e9 : 0));
    if (isfinite(lowest))
        prn_buffer_printf(&s->prose->line, ", but no rate down to %s did in a fresh process",
                          prn_load_rate_text(rate, lowest));
    else
        prn_buffer_add(&s->prose->line, ", but there was no time to confirm it in a fresh process");
}

/* No rate was sure to hold the limit. */
static void add_reason(struct section *s, const struct prn_result *result,
                       const struct prn_slo *slo)
{
    char text[PRN_FORMAT_SIZE];
    double fails = prn_slo_fails_per_s(slo);
    double seen = prn_slo_seen_per_s(slo);
    if (slo->single_fails) {
        /* With few samples the median had to do. */
        bool known = result->n_samples >= prn_stats_percentile_need(slo->percentile);
        prn_buffer_printf(&s->prose->line, " is not reachable: p%.4g of lone requests is %s",
                          known ? 100 * slo->percentile : 50,
                          prn_format_duration(text, slo->single_ns));
    } else if (isfinite(seen)) {
        add_unconfirmed(s, slo, seen);
    } else if (slo->complete && isfinite(fails)) {
        prn_buffer_printf(&s->prose->line, " fails even at %s", prn_load_rate_text(text, fails));
    } else {
        prn_buffer_add(&s->prose->line, ": no rate is known to hold it");
    }
}

/* The search wasn't finished: how much longer it would take. */
static void add_shortage(struct section *s, const struct prn_slo *slo)
{
    bool holds = isfinite(prn_slo_holds_per_s(slo));
    prn_buffer_add(&s->prose->line, holds ? " Whether a higher rate holds is not known"
                                          : " The search wasn't finished");
    if (isfinite(slo->needed_s))
        prn_buffer_printf(&s->prose->line, ": it takes --max-time %.0f or more to tell.",
                          slo->needed_s);
    else
        prn_buffer_add(&s->prose->line, "; a longer --max-time may tell.");
}

static void add_confirmation(struct section *s, const struct prn_slo *slo)
{
    char text[PRN_FORMAT_SIZE];
    const struct prn_slo_trial *trial = prn_slo_confirmation(slo);
    if (trial && isfinite(trial->duration_s)) {
        bool higher = trial->rate_per_s > prn_slo_holds_per_s(slo);
        prn_buffer_printf(&s->prose->line, " %s held for ",
                          higher ? prn_load_rate_text(text, trial->rate_per_s) : "It");
        prn_buffer_printf(&s->prose->line, "%s in a fresh process%s.",
                          prn_format_duration(text, trial->duration_s * 1e9),
                          higher ? "; 5 % less is called held" : "");
    } else if (slo->search_only && isfinite(prn_slo_holds_per_s(slo)))
        prn_buffer_add(&s->prose->line, " It was not confirmed in a fresh process.");
}

/* Other work makes rates fail that would hold. */
static void add_disturbance(struct section *s, const struct prn_slo *slo)
{
    size_t disturbed = 0;
    for (size_t i = 0; i < slo->n_trials; i++)
        disturbed += slo->trials[i].disturbed > 0;
    if (disturbed > 0)
        prn_buffer_printf(&s->prose->line,
                          " Other work disturbed this machine in %zu of %zu trials; without it, "
                          "more may hold.",
                          disturbed, slo->n_trials);
}

static void describe_limit(struct section *s, size_t index, const struct prn_slo *slo)
{
    const struct prn_result *result = &s->profile->results[index];
    char text[PRN_FORMAT_SIZE];
    double holds = prn_slo_holds_per_s(slo);
    prn_buffer_printf(&s->prose->line, "%s", s->view->calls[index]);
    prn_buffer_add(&s->prose->line, isfinite(holds) ? " holds " : ": ");
    prn_slo_limit_text(slo, &s->prose->line);
    if (isfinite(holds)) {
        prn_buffer_printf(&s->prose->line, " up to %s", prn_load_rate_text(text, holds));
        add_edge(s, slo);
        double cost = prn_load_cost(s->profile, result, holds);
        if (isfinite(cost))
            prn_buffer_printf(&s->prose->line, ", where a million requests cost %s",
                              prn_format_dollars(text, cost));
    } else {
        add_reason(s, result, slo);
    }
    prn_buffer_add_char(&s->prose->line, '.');
    add_confirmation(s, slo);
    if (!slo->complete && !slo->single_fails)
        add_shortage(s, slo);
    add_disturbance(s, slo);
    prn_prose_flush(s->prose, 0);
}

static void describe_limits(struct section *s)
{
    size_t n = 0;
    for (size_t i = 0; i < s->profile->n_results; i++) {
        const struct prn_load *load = s->profile->results[i].load;
        if (load && load->slo) {
            describe_limit(s, i, load->slo);
            n++;
        }
    }
    if (n > 0 && s->prose->look.verbose)
        prn_prose_paragraph(
            s->prose,
            "A rate holds a limit when the whole 95 %% interval of the share of requests over it "
            "is within what the percentile allows, in the search and then in a fresh process, and "
            "fails when none of it is. The rate that is called held is 5 %% below that, because "
            "the next process and the next minute differ. Cost is for a million requests at the "
            "rate that holds, Plain cost for requests one after the other without a pause.");
}

/* ---- How sure it is ---- */

static void add_missing(struct section *s, size_t index, const struct prn_load_row *row,
                        struct prn_interval i, double p, size_t *missing)
{
    size_t need = prn_stats_percentile_need(p);
    char text[PRN_FORMAT_SIZE];
    if (isfinite(i.estimate) || row->requests < 0 || (size_t)row->requests >= need)
        return;
    if (*missing == 0) {
        prn_buffer_add(&s->prose->line, s->prose->line.len ? "; " : "Too few requests: ");
        add_name(s, index, row);
        prn_buffer_add(&s->prose->line, " for ");
    }
    prn_buffer_printf(&s->prose->line, "%sp%g (%s more)", *missing ? ", " : "", p * 100,
                      prn_format_integer(text, need - (size_t)row->requests));
    ++*missing;
}

static void describe_missing(struct section *s, size_t index, const struct prn_load_row *row)
{
    size_t missing = 0;
    /* The closed loop in front of a search is there for its capacity. */
    bool capacity = s->profile->results[index].load->slo && isnan(row->asked_per_s);
    if (capacity || (row->flags & PRN_LOAD_FLAG_OVERLOADED))
        return;
#define PRN_X(name, p) add_missing(s, index, row, row->name##_ns, p, &missing);
    PRN_LOAD_PERCENTILE_MAP(PRN_X)
#undef PRN_X
}

/* Which kinds of load there are, and in how many processes at most. */
struct kinds {
    bool open, closed;
    int64_t launches;
};

static struct kinds kinds_of(const struct prn_profile *p)
{
    struct kinds kinds = {0};
    for (size_t i = 0; i < p->n_results; i++) {
        const struct prn_load *load = p->results[i].load;
        for (size_t k = 0; load && k < load->n_rows; k++) {
            bool open = isfinite(load->rows[k].asked_per_s);
            kinds.open |= open;
            kinds.closed |= !open;
            if (load->rows[k].launches > kinds.launches)
                kinds.launches = load->rows[k].launches;
        }
    }
    return kinds;
}

static void describe_method(struct section *s)
{
    struct kinds kinds = kinds_of(s->profile);
    if (kinds.open)
        prn_prose_paragraph(
            s->prose,
            "Requests arrive at random at the rate asked for (a Poisson process); latency "
            "counts from when one was due, Wait is its mean until a worker was free and "
            "ran it, Busy how much of their time workers ran requests.");
    if (kinds.closed)
        prn_prose_paragraph(s->prose, "In a closed loop each worker takes its next request as soon "
                                      "as it has answered one; this measures capacity.");
    if (kinds.open || kinds.closed)
        prn_prose_paragraph(s->prose,
                            "Intervals are for 95 %%, over %lld launch%s; the first tenth of a "
                            "block isn't counted.",
                            (long long)kinds.launches, kinds.launches == 1 ? "" : "es");
    each_row(s, describe_missing);
    if (s->prose->line.len > 0)
        prn_prose_paragraph(s->prose, ". A longer --duration gives more.");
}

int prn_load_section(const struct prn_view *view, struct prn_prose *prose, struct prony_error *err)
{
    struct section s = {.view = view, .profile = view->profile, .prose = prose};
    enum prn_table_style style = prose->markdown ? PRN_TABLE_STYLE_MARKDOWN : PRN_TABLE_STYLE_TEXT;
    prn_buffer_add(prose->out, prose->markdown ? "\n**Under load**\n\n" : "\nUnder load\n\n");
    int code = prn_load_table(view, style, &prose->look, prose->out, err);
    if (code < 0)
        return code;
    prn_buffer_add_char(prose->out, '\n');
    size_t before = prose->out->len;
    code = prn_slo_table(view, style, &prose->look, prose->out, err);
    if (code < 0)
        return code;
    if (prose->out->len > before)
        prn_buffer_add_char(prose->out, '\n');
    describe_errors(&s);
    describe_flags(&s);
    describe_limits(&s);
    if (prose->look.verbose)
        describe_method(&s);
    return 0;
}
