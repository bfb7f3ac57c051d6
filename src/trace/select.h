/*
 * Which runs of a trace are analysed: from --start up to before --end, or those that --gather
 * lists. Runs are counted from 0; a negative index counts from the end. Run 0 is warm-up, so that
 * --start is 1 by default.
 *
 * Use: make a selection; if it needs the total, find out how many runs there are and resolve it;
 * ask it for each run while reading; check it when the trace is read and the number is known.
 * While prn_run_selection_needs_total() is true, has(), count() and describe() must not be called.
 */
#ifndef PRN_TRACE_SELECT_H
#define PRN_TRACE_SELECT_H

#include "base/buffer.h"
#include "base/error.h"

#include <stdbool.h>

#define PRN_RUN_UNSET PRONY_TRACE_UNSET

/* What the user gave; PRN_RUN_UNSET and NULL are for what wasn't given. */
struct prn_run_choice {
    int64_t start;
    int64_t end; /* the first run behind the selection */
    const char *gather;
};

struct prn_run_selection;

/* Takes nothing from `choice` but its values. PRONY_EUSAGE when the expression is faulty or has no
 * values. A list counts, and a start or an end beside it doesn't: prn_run_selection_overrules(). */
PRONY_MUST_CHECK int prn_run_selection_new(const struct prn_run_choice *choice,
                                           struct prn_run_selection **ret_selection,
                                           struct prony_error *err);

void prn_run_selection_free(struct prn_run_selection *s);

/* Whether an index counts from the end, so that the number of runs must be known before the first
 * event. False once it is resolved. */
bool prn_run_selection_needs_total(const struct prn_run_selection *s);

/* Makes indices from the end absolute, after checking the selection like
 * prn_run_selection_check(). Once, when the number of runs is known beforehand. */
PRONY_MUST_CHECK int prn_run_selection_resolve(struct prn_run_selection *s, uint64_t n_runs,
                                               struct prony_error *err);

/* Whether the run is selected; takes at most time proportional to the logarithm of the list. */
bool prn_run_selection_has(const struct prn_run_selection *s, uint64_t index);

/* PRONY_EUSAGE when a start or an end is outside a trace of that many runs, or no run is selected.
 * Runs of a list that the trace doesn't have are left out: prn_run_selection_missing(). With the
 * default, a trace of one run is fine: its run is used although has(0) is false. */
PRONY_MUST_CHECK int prn_run_selection_check(struct prn_run_selection *s, uint64_t n_runs,
                                             struct prony_error *err);

/* Once it is checked: "12, 13 and 7 more", the runs of the list that the trace doesn't have; NULL
 * when it has all. */
const char *prn_run_selection_missing(const struct prn_run_selection *s);

/* "--start and --end", which the list overrules; NULL when nothing is. */
const char *prn_run_selection_overrules(const struct prn_run_selection *s);

/* Whether nothing was given. A trace with a single run then uses run 0. */
bool prn_run_selection_is_default(const struct prn_run_selection *s);

/* How many runs of a trace with `n_runs` are selected. */
uint64_t prn_run_selection_count(const struct prn_run_selection *s, uint64_t n_runs);

/* Appends "1-99" or "0, 3, 5-9"; behind a dozen ranges "and 80 more" runs, and "none" for none. */
void prn_run_selection_describe(const struct prn_run_selection *s, uint64_t n_runs,
                                struct prn_buffer *out);

#endif
