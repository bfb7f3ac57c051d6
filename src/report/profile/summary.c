/* What a list of measurements shows of each: the verdict, and the median of every row. */
#include "format/json.h"
#include "report/profile/json.h"
#include "report/profile/report.h"
#include "report/profile/view.h"
#include "report/verdict.h"

#include <string.h>

#define ROWS_MAX 32
#define TEXT_MAX 400 /* bytes of a verdict or a name */

/* As much of a text as a list has room for, in whole characters. */
static void write_text(struct prn_json_writer *w, const char *key, const char *text)
{
    struct prn_buffer cut = PRN_BUFFER_INIT(TEXT_MAX + 8);
    size_t len = strlen(text);
    if (len > TEXT_MAX) {
        len = TEXT_MAX;
        while (len > 0 && ((unsigned char)text[len] & 0xc0) == 0x80)
            len--;
        prn_buffer_append(&cut, text, len);
        prn_buffer_add(&cut, "…");
        text = prn_buffer_text(&cut);
    }
    prn_json_text(w, key, text);
    prn_buffer_release(&cut);
}

static void write_rows(struct prn_json_writer *w, const struct prn_view *view)
{
    const struct prn_profile *p = view->profile;
    prn_json_array_compact(w, "results");
    for (size_t i = 0; i < p->n_results && i < ROWS_MAX; i++) {
        const struct prn_result *r = &p->results[i];
        if (!prn_result_measured(r))
            continue;
        prn_json_object(w, NULL);
        write_text(w, "name", view->names[i]);
        prn_json_number(w, "median_ns", r->stats.median_ns);
        prn_json_number(w, "low_ns", r->stats.low_ns);
        prn_json_number(w, "high_ns", r->stats.high_ns);
        prn_json_end(w);
    }
    prn_json_end(w);
}

static int write_summary(const struct prn_profile *profile, struct prn_buffer *out,
                         struct prony_error *err)
{
    struct prn_json_writer w = prn_json_writer_init(out);
    struct prn_buffer verdict = PRN_BUFFER_INIT(PRN_REPORT_MAX);
    struct prn_view view;
    int code = prn_view_init(&view, profile, err);
    if (code < 0)
        return code;
    prn_view_verdict(&view, &verdict);
    prn_json_object(&w, NULL);
    write_text(&w, "verdict", prn_buffer_text(&verdict));
    write_rows(&w, &view);
    prn_json_end(&w);
    prn_buffer_release(&verdict);
    prn_view_release(&view);
    return prn_buffer_error(out, err);
}

int prn_profile_summary(const char *json, size_t len, struct prn_buffer *out,
                        struct prony_error *err)
{
    struct prn_profile *profile;
    int code = prn_profile_parse_json(json, len, "report", &profile, err);
    if (code < 0)
        return code;
    if (!profile->recorded)
        code = write_summary(profile, out, err);
    prn_profile_free(profile);
    return code;
}
