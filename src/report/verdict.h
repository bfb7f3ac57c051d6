/*
 * The sentence that every report begins with: the answer to what was asked, and how sure it is.
 * Made here, from the data model, for all formats: text, Markdown, pages, JSON (`verdict`) and
 * Python. Each says only what its data carry: a winner only where the interval clears the smallest
 * difference that counts, an interval only from enough units. Used inside src/report only.
 */
#ifndef PRN_REPORT_VERDICT_H
#define PRN_REPORT_VERDICT_H

#include "report/comparison/view.h"
#include "report/recorded/view.h"

/* Of a profile: of a model on backends, of a sweep, under load, or of a recorded program. */
PRONY_MUST_CHECK int prn_profile_verdict(const struct prn_profile *profile, struct prn_buffer *out,
                                         struct prony_error *err);

/* Its parts: of a model (load included), and of a recorded program. */
void prn_view_verdict(const struct prn_view *view, struct prn_buffer *out);
/* Which outputs were compared, and what came of it. */
enum prn_agreement {
    PRN_AGREEMENT_NONE,
    PRN_AGREEMENT_AGREE,
    PRN_AGREEMENT_PARTLY, /* not all could be */
    PRN_AGREEMENT_DIFFER,
};

/* How sure it is which backend is the fastest. */
enum prn_certainty {
    PRN_CERTAINTY_NONE,     /* there is nothing to compare it with */
    PRN_CERTAINTY_CERTAIN,  /* all others are known to be slower */
    PRN_CERTAINTY_PROBABLY, /* by their intervals each of the others is slower, nine times in ten */
    PRN_CERTAINTY_SAME,     /* known to differ by less than counts */
    PRN_CERTAINTY_UNKNOWN,
};

/* The answer in parts, of a profile of one model at one size. */
struct prn_decision {
    size_t best, next; /* results; SIZE_MAX: none */
    enum prn_certainty certainty;
    enum prn_agreement outputs;
};

/* `cure` gets what would tell more: "--launches 5 would do". */
void prn_view_decide(const struct prn_view *view, struct prn_decision *ret_decision,
                     struct prn_buffer *cure);
void prn_recorded_verdict(const struct prn_recorded_view *view, struct prn_buffer *out);

/* Of one file of a comparison, and of all of them. */
void prn_comparison_file_verdict(const struct prn_comparison_view *view, struct prn_buffer *out);
void prn_comparison_verdict(const struct prn_comparison *comparison, struct prn_buffer *out);

/* ---- What the sentences are made of ---- */

/* "1.60×": three digits, and more only where a ratio is so near 1 that they would say nothing. */
void prn_verdict_ratio(double ratio, struct prn_buffer *out);

/* " (95 %: 1.44 to 1.76)"; nothing where the interval isn't known. */
void prn_verdict_interval(double low, double high, struct prn_buffer *out);

/* "a", "a and b", "a, b and c", "a, b, c and 4 more": the i-th of n names goes to `out`. */
void prn_verdict_name(size_t i, size_t n, const char *name, struct prn_buffer *out);
#define PRN_VERDICT_NAMED 3

#endif
