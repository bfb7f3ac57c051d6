/* JUnit's XML, as GitLab, Jenkins and GitHub's test reporters read it: a suite for each model, a
 * case for each limit. What isn't shown is skipped, unless it counts as a regression. */
#include "report/check/view.h"

#include "base/text.h"

/* Text of unknown origin, as one line of an attribute. */
static void add_escaped(struct prn_buffer *out, const char *text)
{
    struct prn_buffer clean = PRN_BUFFER_INIT(out->limit);
    prn_text_clean(&clean, text);
    for (const char *p = prn_buffer_text(&clean); *p; p++)
        switch (*p) {
        case '&':
            prn_buffer_add(out, "&amp;");
            break;
        case '<':
            prn_buffer_add(out, "&lt;");
            break;
        case '>':
            prn_buffer_add(out, "&gt;");
            break;
        case '"':
            prn_buffer_add(out, "&quot;");
            break;
        default:
            prn_buffer_add_char(out, *p);
        }
    if (clean.error && !out->error)
        out->error = clean.error;
    prn_buffer_release(&clean);
}

enum outcome { PASSED, FAILURE, ERROR, SKIPPED, OUTCOMES, NO_CASE = OUTCOMES };

static enum outcome outcome_of(const struct prn_check *check, const struct prn_check_row *row)
{
    switch (row->status) {
    case PRN_CHECK_STATUS_REGRESSION:
        return FAILURE;
    case PRN_CHECK_STATUS_FAILED:
        return ERROR;
    case PRN_CHECK_STATUS_NOT_SHOWN:
        return check->strict ? FAILURE : SKIPPED;
    case PRN_CHECK_STATUS_HOLDS:
        return PASSED;
    case PRN_CHECK_STATUS_UNLIMITED:
    case PRN_CHECK_STATUS_COUNT:
        break;
    }
    return NO_CASE;
}

static void count(const struct prn_check *check, const struct prn_check_result *result,
                  size_t counts[OUTCOMES + 1])
{
    for (size_t i = 0; i < result->n_rows; i++)
        counts[outcome_of(check, &result->rows[i])]++;
}

static void add_counts(struct prn_buffer *out, const size_t counts[OUTCOMES + 1])
{
    prn_buffer_printf(out, " tests=\"%zu\" failures=\"%zu\" errors=\"%zu\" skipped=\"%zu\">\n",
                      counts[PASSED] + counts[FAILURE] + counts[ERROR] + counts[SKIPPED],
                      counts[FAILURE], counts[ERROR], counts[SKIPPED]);
}

static void add_case(const struct prn_check *check, const struct prn_check_result *result,
                     const struct prn_check_row *row, struct prn_buffer *out)
{
    static const char *const tags[OUTCOMES] = {
        [FAILURE] = "failure", [ERROR] = "error", [SKIPPED] = "skipped"};
    enum outcome outcome = outcome_of(check, row);
    if (outcome == NO_CASE)
        return;
    struct prn_buffer text = PRN_BUFFER_INIT((size_t)1 << 20);
    prn_check_subject(NULL, row, &text);
    prn_buffer_add(out, "    <testcase classname=\"");
    add_escaped(out, result->name);
    prn_buffer_add(out, "\" name=\"");
    add_escaped(out, prn_buffer_text(&text));
    prn_buffer_clear(&text);
    prn_check_finding(row, &text);
    if (row->reason)
        prn_buffer_printf(&text, "%s%s", text.len ? "; " : "", row->reason);
    if (outcome == PASSED) {
        prn_buffer_add(out, "\">\n      <system-out>");
        add_escaped(out, prn_buffer_text(&text));
        prn_buffer_add(out, "</system-out>\n    </testcase>\n");
    } else {
        prn_buffer_printf(out, "\">\n      <%s message=\"", tags[outcome]);
        add_escaped(out, prn_buffer_text(&text));
        prn_buffer_add(out, "\"/>\n    </testcase>\n");
    }
    if (text.error && !out->error)
        out->error = text.error;
    prn_buffer_release(&text);
}

int prn_check_junit(const struct prn_check *check, struct prn_buffer *out, struct prony_error *err)
{
    size_t all[OUTCOMES + 1] = {0};
    for (size_t m = 0; m < check->n_results; m++)
        count(check, &check->results[m], all);
    prn_buffer_add(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"prony\"");
    add_counts(out, all);
    for (size_t m = 0; m < check->n_results; m++) {
        const struct prn_check_result *result = &check->results[m];
        size_t counts[OUTCOMES + 1] = {0};
        count(check, result, counts);
        prn_buffer_add(out, "  <testsuite name=\"");
        add_escaped(out, result->name);
        prn_buffer_add(out, "\"");
        add_counts(out, counts);
        for (size_t i = 0; i < result->n_rows; i++)
            add_case(check, result, &result->rows[i], out);
        prn_buffer_add(out, "  </testsuite>\n");
    }
    prn_buffer_add(out, "</testsuites>\n");
    return prn_buffer_error(out, err);
}
