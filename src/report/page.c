#include "report/page.h"

#include "format/json.h"
#include "report/profile/json.h"
#include "report/prose.h"
#include "report/thin.h"
#include "report/trace/timeline.h"
#include "report/trace/view.h"
#include "report/web.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_SCHEMA "prony.page/1"
/* How the data begin and end in a page; web/build.mjs writes the first. */
#define DATA_BEGINS "<script type=\"application/json\" id=\"prony-data\">"
#define DATA_ENDS "</script>"

/* What a page can show. */
static const char *const schemas[] = {PRN_PROFILE_SCHEMA,      "prony.profile-comparison/1",
                                      "prony.trace/1",         "prony.trace-comparison/1",
                                      "prony.layer-profile/1", "prony.layers/1",
                                      "prony.schedule/1",      "prony.history/1"};

void prn_page_release(struct prn_page *page)
{
    prn_buffer_release(&page->reports);
}

int prn_page_check(struct prony_error *err)
{
    if (prn_web.head)
        return 0;
    return prn_fail(err, PRONY_EUNAVAILABLE, "cannot make pages: %s", prn_web.missing);
}

const char *prn_page_policy(void)
{
    return prn_web.policy;
}

/* ---- Thinning ---- */

/* Keeps the first rows of an array that is sorted by what matters, and says beside it how many are
 * left out. */
static int cut_rows(json_t *parent, const char *key, json_t *rows)
{
    size_t n = json_array_size(rows);
    char left[64];
    if (n <= PRN_PAGE_ROWS_MAX)
        return 0;
    while (json_array_size(rows) > PRN_PAGE_ROWS_MAX)
        json_array_remove(rows, json_array_size(rows) - 1);
    snprintf(left, sizeof left, "%s_left_out", key);
    return json_object_set_new(parent, left, json_integer((json_int_t)(n - PRN_PAGE_ROWS_MAX)));
}

/* A trace's runs: [start, duration, time of nodes]. Of several next to each other the longest
 * stays, and the shortest beside it. */
static int thin_runs(json_t *parent, json_t *list)
{
    size_t n = json_array_size(list);
    size_t most = PRN_PAGE_ROWS_MAX / 2;
    if (n <= PRN_PAGE_ROWS_MAX)
        return 0;
    json_t *kept = json_array();
    for (size_t i = 0; kept && i < most; i++) {
        json_t *low = NULL;
        json_t *high = NULL;
        for (size_t k = n * i / most; k < n * (i + 1) / most; k++) {
            json_t *run = json_array_get(list, k);
            double us = json_number_value(json_array_get(run, 1));
            if (!low || us < json_number_value(json_array_get(low, 1)))
                low = run;
            if (!high || us > json_number_value(json_array_get(high, 1)))
                high = run;
        }
        if (json_array_append(kept, low) < 0 || (low != high && json_array_append(kept, high) < 0))
            break;
    }
    return kept ? json_object_set_new(parent, "list", kept) : -1;
}

static bool is_sorted_by_time(const char *key)
{
    static const char *const keys[] = {"groups", "nodes", "operators", "kernels", "mapping"};
    for (size_t i = 0; i < PRN_ARRAY_SIZE(keys); i++)
        if (strcmp(keys[i], key) == 0)
            return true;
    return false;
}

/* Depth is limited by the reader. */
static int thin(json_t *value)
{
    const char *key;
    json_t *member;
    size_t i;
    void *next;
    int code = 0;
    if (json_is_array(value))
        json_array_foreach(value, i, member) code = code == 0 ? thin(member) : code;
    if (!json_is_object(value))
        return code;
    json_object_foreach_safe(value, next, key, member)
    {
        if (code == 0)
            code = thin(member);
        if (code == 0 && json_is_array(member) && is_sorted_by_time(key))
            code = cut_rows(value, key, member);
        else if (code == 0 && json_is_array(member) && strcmp(key, "list") == 0)
            code = thin_runs(value, member);
    }
    return code;
}

/* ---- Folders ---- */

/* Pages are passed on: they have the names of files, and don't say where these are. */
static const char *file_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

static int replace_in(json_t *object, const char *key, const char *path, const char *file)
{
    const char *text = json_string_value(json_object_get(object, key));
    const char *next;
    if (!text || !strstr(text, path))
        return 0;
    struct prn_buffer out = PRN_BUFFER_INIT(PRN_PAGE_MAX);
    for (; (next = strstr(text, path)); text = next + strlen(path)) {
        prn_buffer_append(&out, text, (size_t)(next - text));
        prn_buffer_add(&out, file);
    }
    prn_buffer_add(&out, text);
    int code =
        out.error ? -1 : json_object_set_new(object, key, json_string(prn_buffer_text(&out)));
    prn_buffer_release(&out);
    return code;
}

/* In every text of a report; in Markdown names are written so that they stay names. */
static int shorten_in(json_t *data, json_t *view, const char *path)
{
    struct prn_buffer whole = PRN_BUFFER_INIT((size_t)1 << 16);
    struct prn_buffer file = PRN_BUFFER_INIT((size_t)1 << 16);
    prn_markdown_text(&whole, path);
    prn_markdown_text(&file, file_of(path));
    int code = whole.error || file.error ? -1 : 0;
    if (code == 0)
        code = replace_in(view, "markdown", prn_buffer_text(&whole), prn_buffer_text(&file));
    if (code == 0)
        code = replace_in(view, "text", path, file_of(path));
    if (code == 0)
        code = replace_in(view, "warnings", path, file_of(path));
    if (code == 0)
        code = replace_in(data, "verdict", path, file_of(path));
    prn_buffer_release(&whole);
    prn_buffer_release(&file);
    return code;
}

static bool is_path(const char *parent, const char *key, bool layers)
{
    if (strcmp(key, "name") == 0)
        return strcmp(parent, "trace") == 0 || strcmp(parent, "files") == 0 ||
               strcmp(parent, "first") == 0 || strcmp(parent, "second") == 0;
    return strcmp(key, "path") == 0 || strcmp(key, "library") == 0 || strcmp(key, "model") == 0 ||
           (layers && strcmp(key, "file") == 0);
}

/* `report` has "data" and "view"; depth is limited by the reader. */
static int hide_folders(json_t *value, const char *parent, json_t *report)
{
    json_t *data = json_object_get(report, "data");
    json_t *view = json_object_get(report, "view");
    const char *schema = json_string_value(json_object_get(data, "schema"));
    bool layers = schema && (strcmp(schema, "prony.layers/1") == 0 ||
                             strcmp(schema, "prony.layer-profile/1") == 0);
    const char *key;
    json_t *member;
    size_t i;
    void *next;
    int code = 0;
    if (json_is_array(value))
        json_array_foreach(value, i, member) code =
            code == 0 ? hide_folders(member, parent, report) : code;
    if (!json_is_object(value))
        return code;
    json_object_foreach_safe(value, next, key, member)
    {
        const char *path = json_string_value(member);
        if (code == 0 && !path)
            code = hide_folders(member, key, report);
        if (code < 0 || !path || !is_path(parent, key, layers) || file_of(path) == path)
            continue;
        code = shorten_in(data, view, path);
        if (code == 0)
            code = json_object_set_new(value, key, json_string(file_of(path)));
    }
    return code;
}

/* ---- Adding ---- */

static int take_text(const char *text, size_t size, void *context)
{
    prn_buffer_append(context, text, size);
    return 0;
}

static int append(struct prn_page *page, json_t *report, struct prony_error *err)
{
    if (page->reports.len > 0)
        prn_buffer_add_char(&page->reports, ',');
    if (json_dump_callback(report, take_text, &page->reports,
                           JSON_COMPACT | JSON_REAL_PRECISION(17)) < 0)
        return prn_fail_memory(err);
    return prn_buffer_error(&page->reports, err);
}

/* Takes `data` and `view`. */
static int add(struct prn_page *page, const char *name, json_t *data, json_t *view,
               struct prony_error *err)
{
    struct prn_buffer quoted = PRN_BUFFER_INIT((size_t)1 << 20);
    json_t *title = NULL;
    prn_json_quote(&quoted, name); /* which makes it UTF-8 */
    int code = prn_buffer_error(&quoted, err);
    if (code == 0)
        title = json_loadb(prn_buffer_text(&quoted), quoted.len, JSON_DECODE_ANY, NULL);
    prn_buffer_release(&quoted);
    json_t *report = title && thin(data) == 0
                         ? json_pack("{s:O, s:O, s:O}", "name", title, "data", data, "view", view)
                         : NULL;
    if (code == 0 && (!report || hide_folders(data, "", report) < 0))
        code = prn_fail_memory(err);
    if (code == 0)
        code = append(page, report, err);
    json_decref(report);
    json_decref(title);
    json_decref(data);
    json_decref(view);
    return code;
}

static bool is_known(const json_t *data)
{
    const char *schema = json_string_value(json_object_get(data, "schema"));
    for (size_t i = 0; schema && i < PRN_ARRAY_SIZE(schemas); i++)
        if (strcmp(schemas[i], schema) == 0)
            return true;
    return false;
}

static int parse_both(const char *name, const char *json, size_t len, const struct prn_buffer *view,
                      json_t **ret_data, json_t **ret_view, struct prony_error *err)
{
    int code = prn_json_parse(json, len, name, ret_data, err);
    if (code < 0)
        return code;
    code = prn_json_parse(prn_buffer_text(view), view->len, name, ret_view, err);
    if (code < 0)
        json_decref(*ret_data);
    return code;
}

int prn_page_add_profile(struct prn_page *page, const char *name, const struct prn_profile *profile,
                         struct prony_error *err)
{
    struct prn_buffer json = PRN_BUFFER_INIT(PRN_PAGE_MAX);
    struct prn_buffer view = PRN_BUFFER_INIT(PRN_PAGE_MAX);
    json_t *data;
    json_t *beside;
    int code = prn_profile_write_figures(profile, &json, err);
    if (code == 0)
        code = prn_page_profile_view(profile, &view, err);
    if (code == 0)
        code = parse_both(name, prn_buffer_text(&json), json.len, &view, &data, &beside, err);
    if (code == 0)
        code = add(page, name, data, beside, err);
    prn_buffer_release(&view);
    prn_buffer_release(&json);
    return code;
}

static void write_text_view(const char *text, struct prn_buffer *view)
{
    struct prn_json_writer w = prn_json_writer_init(view);
    prn_json_object(&w, NULL);
    prn_json_text(&w, "text", text);
    prn_json_end(&w);
}

static int add_saved_profile(struct prn_page *page, const char *name, const char *json, size_t len,
                             struct prony_error *err)
{
    struct prn_profile *profile;
    int code = prn_profile_parse_json(json, len, name, &profile, err);
    if (code < 0)
        return code;
    code = prn_page_add_profile(page, name, profile, err);
    prn_profile_free(profile);
    return code;
}

int prn_page_add_json(struct prn_page *page, const char *name, const char *json, size_t len,
                      const char *text, struct prony_error *err)
{
    struct prn_buffer view = PRN_BUFFER_INIT(PRN_PAGE_MAX);
    json_t *data = NULL;
    json_t *beside = NULL;
    write_text_view(text, &view);
    int code = prn_buffer_error(&view, err);
    if (code == 0)
        code = parse_both(name, json, len, &view, &data, &beside, err);
    prn_buffer_release(&view);
    if (code < 0)
        return code;
    const char *schema = json_string_value(json_object_get(data, "schema"));
    if (is_known(data) && strcmp(schema, PRN_PROFILE_SCHEMA) != 0)
        return add(page, name, data, beside, err);
    if (is_known(data))
        code = add_saved_profile(page, name, json, len, err);
    else
        code = prn_fail(err, PRONY_EFORMAT, "'%s' is not a prony report: its schema is %s%s%s",
                        name, schema ? "'" : "", schema ? schema : "missing", schema ? "'" : "");
    json_decref(data);
    json_decref(beside);
    return code;
}

/* What `write` makes of a report, parsed. */
static int write_both(prn_page_writer *write, const void *report, json_t **ret_data,
                      json_t **ret_view, struct prony_error *err)
{
    struct prn_buffer json = PRN_BUFFER_INIT(PRN_PAGE_MAX);
    struct prn_buffer text = PRN_BUFFER_INIT(PRN_PAGE_MAX);
    struct prn_buffer view = PRN_BUFFER_INIT(PRN_PAGE_MAX);
    int code = write(report, true, &json, err);
    if (code == 0)
        code = prn_buffer_error(&json, err);
    if (code == 0)
        code = write(report, false, &text, err);
    if (code == 0) {
        write_text_view(prn_buffer_text(&text), &view);
        code = prn_buffer_error(&view, err);
    }
    if (code == 0)
        code = parse_both("", prn_buffer_text(&json), json.len, &view, ret_data, ret_view, err);
    prn_buffer_release(&view);
    prn_buffer_release(&text);
    prn_buffer_release(&json);
    return code;
}

int prn_page_add_report(struct prn_page *page, prn_page_writer *write, const void *report,
                        struct prony_error *err)
{
    json_t *data;
    json_t *beside;
    int code = write_both(write, report, &data, &beside, err);
    return code < 0 ? code : add(page, "", data, beside, err);
}

/* A second table by node, where the report's own isn't: for the treemap. */
static void write_nodes(const struct prn_trace *t, const struct prn_trace_group **groups, size_t n,
                        struct prn_json_writer *w, struct prn_buffer *scratch)
{
    prn_json_array(w, "nodes");
    for (size_t i = 0; i < n && i < PRN_PAGE_ROWS_MAX; i++) {
        prn_json_object(w, NULL);
        prn_trace_key_members(w, &groups[i]->key, scratch);
        prn_json_number(w, "duration_us", (double)groups[i]->total.ns / 1e3);
        prn_json_integer(w, "count", (int64_t)groups[i]->total.count);
        prn_json_number(w, "pct",
                        t->cpu[1].total.ns > 0
                            ? 100 * ((double)groups[i]->total.ns / (double)t->cpu[1].total.ns)
                            : NAN);
        prn_json_end(w);
    }
    prn_json_end(w);
    if (n > PRN_PAGE_ROWS_MAX)
        prn_json_integer(w, "nodes_left_out", (int64_t)(n - PRN_PAGE_ROWS_MAX));
}

static int write_trace_view(const struct prn_trace_report *r, const struct prn_buffer *text,
                            struct prn_buffer *view, struct prony_error *err)
{
    struct prn_buffer scratch = PRN_BUFFER_INIT(PRN_TRACE_EVENT_MAX);
    struct prn_json_writer w = prn_json_writer_init(view);
    const struct prn_trace_group **groups = NULL;
    size_t n = 0;
    int code = 0;
    prn_json_object(&w, NULL);
    prn_json_text(&w, "text", prn_buffer_text(text));
    if (r->trace->cpu[1].by)
        code = prn_trace_sorted(&r->trace->cpu[1], &groups, &n, err);
    if (code == 0 && groups)
        write_nodes(r->trace, groups, n, &w, &scratch);
    prn_json_end(&w);
    free(groups);
    if (code == 0)
        code = prn_buffer_error(&scratch, err);
    prn_buffer_release(&scratch);
    return code == 0 ? prn_buffer_error(view, err) : code;
}

/* Adds a timeline to an object, or at the end of an array; none as null. */
static int add_timeline(json_t *to, struct prn_timeline *timeline, struct prony_error *err)
{
    struct prn_buffer out = PRN_BUFFER_INIT(PRN_PAGE_MAX);
    json_t *value = NULL;
    int code = timeline ? prn_timeline_write(timeline, &out, err) : 0;
    if (code == 0 && timeline)
        code = prn_json_parse(prn_buffer_text(&out), out.len, "timeline", &value, err);
    prn_buffer_release(&out);
    if (code < 0)
        return code;
    value = timeline ? value : json_null();
    int added = json_is_array(to) ? json_array_append_new(to, value)
                                  : json_object_set_new(to, "timeline", value);
    return added < 0 ? prn_fail_memory(err) : 0;
}

int prn_page_add_traces(struct prn_page *page, prn_page_writer *write, const void *report,
                        struct prn_timeline *const timelines[2], struct prony_error *err)
{
    json_t *data;
    json_t *beside;
    int code = write_both(write, report, &data, &beside, err);
    if (code < 0)
        return code;
    json_t *both = json_array();
    for (size_t i = 0; code == 0 && i < 2; i++)
        code = add_timeline(both, timelines[i], err);
    if (json_object_set_new(beside, "timelines", both) < 0 && code == 0)
        code = prn_fail_memory(err);
    if (code == 0)
        return add(page, "", data, beside, err);
    json_decref(data);
    json_decref(beside);
    return code;
}

int prn_page_add_trace(struct prn_page *page, const struct prn_trace_report *report,
                       struct prn_timeline *timeline, struct prony_error *err)
{
    struct prn_buffer json = PRN_BUFFER_INIT(PRN_PAGE_MAX);
    struct prn_buffer text = PRN_BUFFER_INIT(PRN_PAGE_MAX);
    struct prn_buffer view = PRN_BUFFER_INIT(PRN_PAGE_MAX);
    const char *name = report->trace->name;
    json_t *data = NULL;
    json_t *beside = NULL;
    int code = prn_trace_report_write(report, PRN_TRACE_FORMAT_JSON, &json, err);
    if (code == 0)
        code = prn_trace_report_write(report, PRN_TRACE_FORMAT_TEXT, &text, err);
    if (code == 0)
        code = write_trace_view(report, &text, &view, err);
    if (code == 0)
        code = parse_both(name, prn_buffer_text(&json), json.len, &view, &data, &beside, err);
    if (code == 0 && timeline)
        code = add_timeline(beside, timeline, err);
    if (code == 0) {
        code = add(page, file_of(name), data, beside, err);
    } else {
        json_decref(data);
        json_decref(beside);
    }
    prn_buffer_release(&view);
    prn_buffer_release(&text);
    prn_buffer_release(&json);
    return code;
}

/* ---- Pages that were written before ---- */

static int add_reports(struct prn_page *page, const char *name, const json_t *root,
                       struct prony_error *err)
{
    const char *schema = json_string_value(json_object_get(root, "schema"));
    const json_t *reports = json_object_get(root, "reports");
    json_t *report;
    size_t i;
    int code = 0;
    if (!schema || strcmp(schema, PAGE_SCHEMA) != 0 || json_array_size(reports) == 0)
        return prn_fail(err, PRONY_EFORMAT, "'%s' is not a prony page", name);
    json_array_foreach(reports, i, report)
    {
        if (code == 0 && !is_known(json_object_get(report, "data")))
            code =
                prn_fail(err, PRONY_EFORMAT, "'%s': reports[%zu] is of an unknown kind", name, i);
        if (code == 0)
            code = append(page, report, err);
    }
    return code;
}

int prn_page_add_html(struct prn_page *page, const char *name, const char *html, size_t len,
                      struct prony_error *err)
{
    const char *data = memmem(html, len, DATA_BEGINS, strlen(DATA_BEGINS));
    json_t *root;
    if (data)
        data += strlen(DATA_BEGINS);
    size_t left = data ? len - (size_t)(data - html) : 0;
    const char *end = data ? memmem(data, left, DATA_ENDS, strlen(DATA_ENDS)) : NULL;
    if (!end)
        return prn_fail(err, PRONY_EFORMAT, "'%s' is not a prony page", name);
    int code = prn_json_parse(data, (size_t)(end - data), name, &root, err);
    if (code < 0)
        return code;
    code = add_reports(page, name, root, err);
    json_decref(root);
    return code;
}

/* ---- Writing ---- */

/* JSON has these characters in strings only, where they may be escaped. */
static void append_escaped(struct prn_buffer *out, const char *text, size_t len)
{
    size_t begun = 0;
    for (size_t i = 0; i < len; i++) {
        if (text[i] != '<' && text[i] != '>' && text[i] != '&')
            continue;
        prn_buffer_append(out, text + begun, i - begun);
        prn_buffer_printf(out, "\\u%04x", (unsigned)text[i]);
        begun = i + 1;
    }
    prn_buffer_append(out, text + begun, len - begun);
}

int prn_page_write(const struct prn_page *page, struct prn_buffer *out, struct prony_error *err)
{
    int code = prn_page_check(err);
    if (code < 0)
        return code;
    prn_buffer_append(out, prn_web.head, prn_web.head_bytes);
    prn_buffer_printf(out, "{\"schema\":\"" PAGE_SCHEMA "\",\"prony_version\":\"%s\",\"reports\":[",
                      prony_version());
    append_escaped(out, prn_buffer_text(&page->reports), page->reports.len);
    prn_buffer_add(out, "]}");
    prn_buffer_append(out, prn_web.tail, prn_web.tail_bytes);
    return prn_buffer_error(out, err);
}

int prn_page_of_report(prn_page_writer *write, const void *report, struct prn_buffer *out,
                       struct prony_error *err)
{
    struct prn_page page = PRN_PAGE_INIT;
    int code = prn_page_check(err);
    if (code == 0)
        code = prn_page_add_report(&page, write, report, err);
    if (code == 0)
        code = prn_page_write(&page, out, err);
    prn_page_release(&page);
    return code;
}

int prn_page_of_profile(const struct prn_profile *profile, struct prn_buffer *out,
                        struct prony_error *err)
{
    struct prn_page page = PRN_PAGE_INIT;
    int code = prn_page_check(err);
    if (code == 0)
        code = prn_page_add_profile(&page, "", profile, err);
    if (code == 0)
        code = prn_page_write(&page, out, err);
    prn_page_release(&page);
    return code;
}
