#include "report/verdict.h"

#include "base/format.h"

#include <math.h>
#include <string.h>

void prn_verdict_ratio(double ratio, struct prn_buffer *out)
{
    char text[PRN_FORMAT_SIZE];
    if (fabs(ratio - 1) < 0.02)
        prn_buffer_printf(out, "%.3f×", ratio);
    else
        prn_buffer_printf(out, "%s×", prn_format_significant(text, ratio, 3));
}

void prn_verdict_interval(double low, double high, struct prn_buffer *out)
{
    char text[2][PRN_FORMAT_SIZE];
    if (!isfinite(low) || !isfinite(high))
        return;
    /* As many digits as tell both ends apart. */
    for (int digits = 3; digits <= 5; digits++) {
        prn_format_significant(text[0], low, digits);
        prn_format_significant(text[1], high, digits);
        if (strcmp(text[0], text[1]) != 0)
            break;
    }
    if (strcmp(text[0], text[1]) != 0)
        prn_buffer_printf(out, " (95 %%: %s to %s)", text[0], text[1]);
}

void prn_verdict_name(size_t i, size_t n, const char *name, struct prn_buffer *out)
{
    size_t named = n > PRN_VERDICT_NAMED ? PRN_VERDICT_NAMED : n;
    if (i > named)
        return;
    if (i == named) {
        prn_buffer_printf(out, " and %zu more", n - named);
        return;
    }
    const char *before = i == 0 ? "" : i + 1 < n || n > named ? ", " : " and ";
    prn_buffer_printf(out, "%s%s", before, name);
}

int prn_profile_verdict(const struct prn_profile *profile, struct prn_buffer *out,
                        struct prony_error *err)
{
    if (profile->recorded) {
        struct prn_recorded_view view;
        int code = prn_recorded_view_init(&view, profile, err);
        if (code < 0)
            return code;
        prn_recorded_verdict(&view, out);
        prn_recorded_view_release(&view);
        return prn_buffer_error(out, err);
    }
    struct prn_view view;
    int code = prn_view_init(&view, profile, err);
    if (code < 0)
        return code;
    prn_view_verdict(&view, out);
    prn_view_release(&view);
    return prn_buffer_error(out, err);
}
