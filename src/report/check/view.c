#include "report/check/view.h"

#include "base/format.h"

#include <math.h>
#include <string.h>

static void add_percent(double percent, struct prn_buffer *out)
{
    char text[PRN_FORMAT_SIZE];
    double size = fabs(percent);
    if (size < 0.005)
        prn_buffer_add(out, "0");
    else
        prn_buffer_printf(out, "%s%s", percent < 0 ? "−" : "+",
                          size < 1 ? prn_format_significant(text, size, 2)
                                   : prn_format_significant(text, size, 3));
}

void prn_check_change(double ratio, struct prn_buffer *out)
{
    add_percent(100 * (ratio - 1), out);
    prn_buffer_add(out, " %");
}

const char *prn_check_backend(const struct prn_check_row *row)
{
    return strncmp(row->backend, "local/", 6) == 0 ? row->backend + 6 : row->backend;
}

void prn_check_subject(const char *model, const struct prn_check_row *row, struct prn_buffer *out)
{
    prn_buffer_add(out, prn_check_figure_names[row->figure]);
    if (model)
        prn_buffer_printf(out, " of %s", model);
    if (row->backend)
        prn_buffer_printf(out, " on %s", prn_check_backend(row));
    if (row->sizes[0])
        prn_buffer_printf(out, ", %s", row->sizes);
}

void prn_check_limit(const struct prn_check_row *row, struct prn_buffer *out)
{
    bool outputs = row->figure == PRN_CHECK_FIGURE_OUTPUTS;
    if (!isnan(row->limit))
        prn_buffer_printf(out, "%s%.3g %%", outputs ? "" : "+", 100 * row->limit);
    else if (outputs && row->status != PRN_CHECK_STATUS_UNLIMITED)
        prn_buffer_add(out, "same");
}

void prn_check_error(const struct prn_check_row *row, struct prn_buffer *out)
{
    char text[PRN_FORMAT_SIZE];
    double percent = 100 * row->error;
    if (isnan(percent))
        prn_buffer_add(out, "not compared");
    else if (percent == 0)
        prn_buffer_add(out, "equal");
    else if (percent < 0.001)
        prn_buffer_printf(out, "off by %.1e %%", percent);
    else
        prn_buffer_printf(out, "off by %s %%", prn_format_significant(text, percent, 2));
}

void prn_check_finding(const struct prn_check_row *row, struct prn_buffer *out)
{
    const size_t begin = out->len;
    if (row->figure == PRN_CHECK_FIGURE_OUTPUTS)
        prn_check_error(row, out);
    else if (isfinite(row->ratio.estimate))
        prn_check_change(row->ratio.estimate, out);
    if (isfinite(row->ratio.low) && isfinite(row->ratio.high) && row->ratio.low < row->ratio.high) {
        prn_buffer_add(out, " (95 %: ");
        add_percent(100 * (row->ratio.low - 1), out);
        prn_buffer_add(out, " to ");
        prn_check_change(row->ratio.high, out);
        prn_buffer_add(out, ")");
    }
    if (!isnan(row->limit)) {
        prn_buffer_add(out, out->len > begin ? ", limit " : "limit ");
        prn_check_limit(row, out);
    }
}
