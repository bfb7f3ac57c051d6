/* What the reports on a comparison share: names of rows, and both sides of figures. Used inside
 * src/report only. */
#ifndef PRN_REPORT_COMPARISON_VIEW_H
#define PRN_REPORT_COMPARISON_VIEW_H

#include "measure/comparison/comparison.h"
#include "report/profile/view.h"

/* A file of the comparison. */
struct prn_comparison_view {
    const struct prn_comparison *comparison;
    const struct prn_comparison_file *file;
    bool sized; /* results were fed different sizes, so that rows need them to be told apart */
};

struct prn_comparison_view prn_comparison_view(const struct prn_comparison *comparison,
                                               size_t file);

/* Appends "local/onnxrt-cpu #2": the backend as the file calls it, or else the baseline. */
void prn_comparison_name(const struct prn_comparison_row *row, struct prn_buffer *out);

/* Appends what a row was fed: the label of a sweep, or the shape of the first input. */
void prn_comparison_sizes(const struct prn_comparison_view *view,
                          const struct prn_comparison_row *row, struct prn_buffer *out);

/* Appends "local/onnxrt-cpu", with the sizes behind it where there are several. */
void prn_comparison_row_text(const struct prn_comparison_view *view,
                             const struct prn_comparison_row *row, struct prn_buffer *out);

/* What the interval of a time is taken over: "launch" or "block"; NULL when there is no ratio. */
const char *prn_comparison_unit(const struct prn_comparison_row *row);

/* Rows that both files measured. */
size_t prn_comparison_compared(const struct prn_comparison_file *file);

/* A figure that follows from the time and what is known of the backend; NAN: not known. */
struct prn_comparison_pair {
    double before, after;
};
struct prn_comparison_pair prn_comparison_rates(const struct prn_comparison_view *view,
                                                const struct prn_comparison_row *row);
struct prn_comparison_pair prn_comparison_costs(const struct prn_comparison_view *view,
                                                const struct prn_comparison_row *row);

/* Text and Markdown of one file. */
PRONY_MUST_CHECK int prn_comparison_tables(const struct prn_comparison_view *view,
                                           enum prn_table_style style, const struct prn_look *look,
                                           struct prn_buffer *out, struct prony_error *err);
PRONY_MUST_CHECK int prn_comparison_text(const struct prn_comparison *comparison,
                                         const struct prn_look *look, struct prn_buffer *out,
                                         struct prony_error *err);
PRONY_MUST_CHECK int prn_comparison_csv(const struct prn_comparison *comparison,
                                        struct prn_buffer *out, struct prony_error *err);
PRONY_MUST_CHECK int prn_comparison_json(const struct prn_comparison *comparison,
                                         struct prn_buffer *out, struct prony_error *err);

#endif
