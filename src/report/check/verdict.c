/* The verdict on a check: regressions first, then what wasn't shown, then what holds. */
#include "report/check/view.h"

#define TOLD 3

static const char *limits(size_t n)
{
    return n == 1 ? "limit" : "limits";
}

/* The rows of a status: the first few of them, with what was found where that is known. */
static void tell(const struct prn_check *check, enum prn_check_status status, bool findings,
                 struct prn_buffer *out)
{
    size_t n = 0;
    for (size_t m = 0; m < check->n_results; m++) {
        const struct prn_check_result *result = &check->results[m];
        for (size_t i = 0; i < result->n_rows; i++) {
            const struct prn_check_row *row = &result->rows[i];
            if (row->status != status || n++ >= TOLD)
                continue;
            prn_buffer_add(out, n > 1 ? "; " : "");
            prn_check_subject(result->name, row, out);
            if (!findings)
                continue;
            prn_buffer_add(out, ": ");
            if (row->reason)
                prn_buffer_add(out, row->reason);
            else
                prn_check_finding(row, out);
        }
    }
    if (n > TOLD)
        prn_buffer_printf(out, "; and %zu more", n - TOLD);
    prn_buffer_add(out, ".");
}

static void tell_held(const struct prn_check *check, bool others, struct prn_buffer *out)
{
    size_t held = check->counts[PRN_CHECK_STATUS_HOLDS];
    if (held > 0)
        prn_buffer_printf(out, " %zu %s%s %s.", held, others ? "other " : "", limits(held),
                          held == 1 ? "holds" : "hold");
}

static void tell_not_shown(const struct prn_check *check, struct prn_buffer *out)
{
    size_t n = check->counts[PRN_CHECK_STATUS_NOT_SHOWN];
    if (n == 0)
        return;
    prn_buffer_printf(out, " Not shown for %zu %s: ", n, limits(n));
    tell(check, PRN_CHECK_STATUS_NOT_SHOWN, false, out);
}

void prn_check_verdict(const struct prn_check *check, struct prn_buffer *out)
{
    size_t held = check->counts[PRN_CHECK_STATUS_HOLDS];
    size_t failed = check->counts[PRN_CHECK_STATUS_FAILED];
    size_t not_shown = check->counts[PRN_CHECK_STATUS_NOT_SHOWN];
    if (check->counts[PRN_CHECK_STATUS_REGRESSION] > 0) {
        prn_buffer_add(out, "Regression: ");
        tell(check, PRN_CHECK_STATUS_REGRESSION, true, out);
        tell_held(check, true, out);
        tell_not_shown(check, out);
    } else if (not_shown > 0) {
        prn_buffer_add(out, check->strict ? "Not passed: no regression is shown, but --strict "
                                            "wants every limit shown to hold."
                                          : "No regression is shown, but not every limit is shown "
                                            "to hold.");
        tell_held(check, false, out);
        tell_not_shown(check, out);
    } else if (held > 0) {
        prn_buffer_printf(out, "No regression: %s%zu %s %s.", held == 1 ? "" : "all ", held,
                          limits(held), held == 1 ? "holds" : "hold");
    } else {
        prn_buffer_add(out, "Nothing could be compared.");
    }
    if (failed > 0) {
        prn_buffer_add(out, " Failed: ");
        tell(check, PRN_CHECK_STATUS_FAILED, true, out);
    }
}
