/*
 * Recorded programs as text and Markdown. Every profile gets a heading, a table, and sentences that
 * say what the table can't: why a total is missing, what failed, what to do about it. What concerns
 * the whole recording stands at the end.
 */
#include "report/recorded/report.h"

#include "base/text.h"
#include "record/record.h"
#include "report/recorded/view.h"
#include "report/verdict.h"

#include <math.h>
#include <string.h>

/* More graph segments than these are abridged. */
#define SEGMENTS_SHOWN 3
#define FAILURES_SHOWN 10
#define GRAPHS_NAMED 20

const char *const prn_recorded_layouts[] = {"summary", "segments", "classic", NULL};

struct report {
    const struct prn_recorded_view *view;
    const struct prn_profile *profile;
    enum prn_recorded_layout layout;
    bool verbose;
    struct prn_prose prose;
};

static void end_line(struct report *r)
{
    prn_buffer_add_char(r->prose.out, '\n');
}

/* ---- Headings ---- */

/* A name as code; one that would end the code early stands as it is. */
static void add_name(struct report *r, const char *name)
{
    if (r->prose.markdown && strchr(name, '`'))
        prn_markdown_text(&r->prose.line, name);
    else
        prn_buffer_printf(&r->prose.line, "`%s`", name);
}

/* Ends a heading, which is in `line`: not a bullet, and its names are already safe. */
static void end_heading(struct report *r)
{
    if (r->prose.markdown)
        prn_buffer_printf(r->prose.out, "%s\n\n", prn_buffer_text(&r->prose.line));
    else
        prn_text_wrap(r->prose.out, prn_buffer_text(&r->prose.line), 0, 2, r->prose.look.width);
    prn_prose_pass_error(&r->prose, &r->prose.line);
    prn_buffer_clear(&r->prose.line);
}

static void add_runs(struct report *r, size_t index)
{
    const struct prn_recorded *recorded = &r->profile->profiles[index];
    struct prn_buffer *line = &r->prose.line;
    char text[PRN_FORMAT_SIZE];
    prn_buffer_add(line, r->prose.markdown ? "Profile " : "- Profile ");
    add_name(r, r->view->names[index].label);
    prn_buffer_printf(line, " ran %s time%s", prn_format_integer(text, (uint64_t)recorded->runs),
                      recorded->runs == 1 ? "" : "s");
    if (recorded->discarded > 0)
        prn_buffer_printf(line, " (%s more discarded: %s compiled)",
                          prn_format_integer(text, (uint64_t)recorded->discarded),
                          recorded->discarded == 1 ? "it" : "they");
    else if (recorded->compiled)
        prn_buffer_add(line, recorded->runs == 1 ? " (compiling)" : " (compiling each time)");
    prn_buffer_add_char(line, '.');
    end_heading(r);
    if (!r->prose.markdown)
        end_line(r);
}

static void add_classic_heading(struct report *r, size_t index)
{
    const struct prn_recorded *recorded = &r->profile->profiles[index];
    const struct prn_recorded_name *name = &r->view->names[index];
    char text[PRN_FORMAT_SIZE];
    if (recorded->discarded > 0) {
        prn_buffer_printf(&r->prose.line, "Runs discarded because compilation occurred: %s",
                          prn_format_integer(text, (uint64_t)recorded->discarded));
        end_heading(r);
    }
    prn_buffer_printf(&r->prose.line, "Profile %zu/%zu:", name->number, name->of);
    end_heading(r);
}

static void add_profile_heading(struct report *r, size_t index)
{
    if (r->layout == PRN_RECORDED_LAYOUT_CLASSIC) {
        add_classic_heading(r, index);
        return;
    }
    add_runs(r, index);
}

static void add_function_heading(struct report *r, size_t first)
{
    const struct prn_recorded_name *name = &r->view->names[first];
    bool classic = r->layout == PRN_RECORDED_LAYOUT_CLASSIC;
    if (classic && r->view->n_functions == 1)
        return;
    prn_buffer_add(&r->prose.line, "Function ");
    add_name(r, name->function);
    if (!classic)
        prn_buffer_printf(&r->prose.line, " has %zu profile%s", name->of, name->of == 1 ? "" : "s");
    prn_buffer_add_char(&r->prose.line, ':');
    end_heading(r);
}

/* ---- Below the table of a profile ---- */

/* Code of less than this finds the processor's caches as the wait for a backend left them: a call
 * of 25 us was seen to take 100 after one, and 60 after a mere sleep. */
#define COLD_BELOW_NS 1e6
#define COLD_SHARE 0.1 /* of a total time, from which it matters */

static void describe_times(struct report *r, const struct prn_recorded *recorded)
{
    char text[PRN_FORMAT_SIZE];
    double least_ns = INFINITY;
    if (!isfinite(recorded->local_ns))
        return;
    for (size_t i = 0; i < r->profile->n_results; i++)
        if (isfinite(recorded->totals[i].total_ns))
            least_ns = fmin(least_ns, recorded->totals[i].total_ns);
    bool known = isfinite(least_ns);
    bool median = r->layout == PRN_RECORDED_LAYOUT_SUMMARY && isfinite(recorded->local_median_ns);
    prn_format_ms(text, median ? recorded->local_median_ns : recorded->local_ns);
    if (!known || r->layout != PRN_RECORDED_LAYOUT_SUMMARY) {
        bool says = recorded->compiled && r->layout != PRN_RECORDED_LAYOUT_CLASSIC;
        prn_prose_paragraph(&r->prose, "In each run %s took %s ms%s.", r->view->local, text,
                            says ? ", the compilation included" : "");
        return;
    }
    prn_prose_paragraph(&r->prose,
                        "Total time is backend time plus local code time; %s took %s ms per run.",
                        r->view->local, text);
    if (recorded->local_ns < COLD_BELOW_NS && recorded->local_ns > COLD_SHARE * least_ns)
        prn_prose_paragraph(&r->prose, "Waiting for backends leaves caches cold; without it, local "
                                       "code this short takes less time.");
}

static void describe_confidence(struct report *r)
{
    if (r->layout != PRN_RECORDED_LAYOUT_SUMMARY && r->verbose)
        prn_prose_paragraph(&r->prose,
                            "± is half of the 95 %% interval of the mean over runs, SD the "
                            "standard deviation of the samples, both in %% of the mean; \"?\": "
                            "fewer than five runs.");
}

/* Once for all summaries. */
static void describe_medians(struct report *r)
{
    bool known = false;
    for (size_t k = 0; k < r->profile->n_profiles; k++)
        for (size_t i = 0; i < r->profile->n_results; i++)
            known |= isfinite(r->profile->profiles[k].totals[i].median_ns);
    if (r->layout == PRN_RECORDED_LAYOUT_SUMMARY && known)
        prn_prose_paragraph(&r->prose,
                            "Times are medians over runs; ± is half of the 95 %% interval of the "
                            "total time, in %% of it; \"?\": fewer than 6 runs.");
}

/* Backends whose totals have a flag, as the beginning of a paragraph; false when there are none. */
static bool add_flagged(struct report *r, const struct prn_recorded *recorded, unsigned bit,
                        const char *name)
{
    size_t n = 0;
    for (size_t i = 0; i < r->profile->n_results; i++)
        if (recorded->totals[i].flags & bit) {
            prn_buffer_printf(&r->prose.line, "%s%s%s", n ? ", " : "* ", n ? "" : name,
                              n ? "" : " ");
            prn_buffer_add(&r->prose.line, r->view->backends.names[i]);
            n++;
        }
    return n > 0;
}

static void describe_noise(struct report *r, const struct prn_recorded *recorded)
{
    if (r->layout == PRN_RECORDED_LAYOUT_SUMMARY &&
        add_flagged(r, recorded, PRN_FLAG_IMPRECISE, "IMPRECISE"))
        prn_prose_paragraph(&r->prose, ": the total time differs from run to run, and isn't "
                                       "known to ±10 %%. Stop other work, or call the function "
                                       "more often.");
}

/* A profile that compiled has no totals for any backend. */
static void describe_compilation(struct report *r, const struct prn_recorded *recorded)
{
    if (recorded->compiled)
        prn_prose_paragraph(
            &r->prose, "Total time and cost are N/A because compilation happened in every run. The "
                       "next run of the same graphs without compilation replaces these.");
}

/* ---- Graphs that didn't run ---- */

static const char *why_not(const struct report *r, const struct prn_segment *segment,
                           size_t backend)
{
    const struct prn_segment_result *result = &segment->results[backend];
    const struct prn_recorded_graph *graph = prn_profile_graph(r->profile, segment->graph);
    if (result->n_failures > 0)
        return result->failures[0].message;
    return graph && graph->local_reason ? graph->local_reason : "it did not run there";
}

static bool did_not_run(const struct prn_segment *segment, size_t backend)
{
    return segment->graph != 0 && segment->results[backend].times.count == 0;
}

/* Whether an earlier segment has the same graph, or an earlier backend the same reason. */
static bool said_before(const struct report *r, const struct prn_recorded *recorded, size_t segment,
                        size_t backend)
{
    const struct prn_segment *this = &recorded->segments[segment];
    for (size_t i = 0; i < segment; i++)
        if (recorded->segments[i].graph == this->graph)
            return true;
    for (size_t i = 0; i < backend; i++)
        if (did_not_run(this, i) && strcmp(why_not(r, this, i), why_not(r, this, backend)) == 0)
            return true;
    return false;
}

/* "0.31 ms, 12.5 % of a call": what the graph takes locally, all its calls together. */
static void add_local_share(struct report *r, const struct prn_recorded *recorded, int64_t graph,
                            double total_ns)
{
    char text[PRN_FORMAT_SIZE];
    double ns = 0;
    for (size_t i = 0; i < recorded->n_segments; i++)
        if (recorded->segments[i].graph == graph)
            ns += recorded->segments[i].local.mean_ns;
    if (!isfinite(ns))
        return;
    prn_buffer_printf(&r->prose.line, " (%s ms", prn_format_ms(text, ns));
    if (isfinite(total_ns))
        prn_buffer_printf(&r->prose.line, ", %s %% of a call",
                          prn_recorded_share(text, ns, total_ns));
    prn_buffer_add(&r->prose.line, ")");
}

/* One line for a graph and all backends with the same reason. */
static void describe_missing(struct report *r, const struct prn_recorded *recorded, size_t segment,
                             size_t backend)
{
    const struct prn_segment *this = &recorded->segments[segment];
    const char *why = why_not(r, this, backend);
    bool local = this->local.count > 0 || prn_segment_is_in_local(r->profile, this);
    prn_buffer_printf(&r->prose.line, "Graph #%lld ", (long long)this->graph);
    prn_buffer_add(&r->prose.line, local ? "ran locally instead of on " : "did not run on ");
    size_t n = 0;
    for (size_t i = backend; i < r->profile->n_results; i++)
        if (did_not_run(this, i) && strcmp(why_not(r, this, i), why) == 0)
            prn_buffer_printf(&r->prose.line, "%s%s", n++ ? ", " : "", r->view->backends.names[i]);
    add_local_share(r, recorded, this->graph, recorded->totals[backend].total_ns);
    prn_buffer_printf(&r->prose.line, ": %s", why);
    prn_prose_flush(&r->prose, 2);
}

/* One line for a segment that failed in some runs, and not in others. */
static void list_failures(struct report *r, const struct prn_recorded *recorded, size_t segment,
                          size_t backend)
{
    const struct prn_segment_result *result = &recorded->segments[segment].results[backend];
    char failed[PRN_FORMAT_SIZE];
    char all[PRN_FORMAT_SIZE];
    prn_format_integer(failed, (uint64_t)result->failed);
    prn_format_integer(all, (uint64_t)result->failed + (uint64_t)result->times.count);
    prn_buffer_printf(&r->prose.line,
                      "Graph #%lld (segment %zu) failed in %s of %s samples on %s: ",
                      (long long)recorded->segments[segment].graph, segment, failed, all,
                      r->view->backends.names[backend]);
    for (size_t i = 0; i < result->n_failures; i++) {
        prn_buffer_printf(&r->prose.line, "%s%s", i > 0 ? "; " : "", result->failures[i].message);
        if (result->n_failures > 1)
            prn_buffer_printf(&r->prose.line, " (%s times)",
                              prn_format_integer(failed, (uint64_t)result->failures[i].count));
    }
    prn_prose_flush(&r->prose, 2);
}

/* Writes the line of a segment and a backend, if there is one to write. */
static bool describe_failure(struct report *r, const struct prn_recorded *recorded, size_t segment,
                             size_t backend, bool show)
{
    const struct prn_segment *this = &recorded->segments[segment];
    bool missing = did_not_run(this, backend);
    if (missing ? said_before(r, recorded, segment, backend) : this->results[backend].failed == 0)
        return false;
    if (show && missing)
        describe_missing(r, recorded, segment, backend);
    else if (show)
        list_failures(r, recorded, segment, backend);
    return true;
}

/* Backends that have no total though nothing was compiled. */
static void describe_unknown(struct report *r, const struct prn_recorded *recorded)
{
    size_t n = 0;
    for (size_t i = 0; !recorded->compiled && i < r->profile->n_results; i++)
        if (!isfinite(recorded->totals[i].total_ns))
            prn_buffer_printf(&r->prose.line, "%s%s", n++ ? ", " : "Total time and cost of ",
                              r->view->backends.names[i]);
    if (n > 0)
        prn_prose_paragraph(
            &r->prose, " are N/A: no graph ran there, or a graph that didn't has no local time.");
}

static void describe_failures(struct report *r, const struct prn_recorded *recorded)
{
    size_t shown = 0;
    size_t left = 0;
    if (add_flagged(r, recorded, PRN_FLAG_PARTIAL, "PARTIAL"))
        prn_prose_paragraph(&r->prose,
                            ": not every graph ran there. The others count with their local time.");
    describe_unknown(r, recorded);
    for (size_t k = 0; k < recorded->n_segments; k++)
        for (size_t i = 0; recorded->segments[k].graph && i < r->profile->n_results; i++) {
            bool show = shown < FAILURES_SHOWN || r->verbose;
            if (describe_failure(r, recorded, k, i, show))
                *(show ? &shown : &left) += 1;
        }
    if (left > 0) {
        prn_buffer_printf(&r->prose.line, "and %zu more: --verbose shows all", left);
        prn_prose_flush(&r->prose, 2);
    }
}

static bool lacks_price(const struct prn_recorded_total *total)
{
    return isfinite(total->total_ns) && !isfinite(total->usd_per_million);
}

/* Whether an earlier result that lacks a price too has the same hardware. */
static bool named_before(const struct report *r, const struct prn_recorded *recorded, size_t index)
{
    const struct prn_result *results = r->profile->results;
    for (size_t i = 0; i < index; i++)
        if (lacks_price(&recorded->totals[i]) &&
            strcmp(results[i].hardware, results[index].hardware) == 0)
            return true;
    return false;
}

static void describe_prices(struct report *r, const struct prn_recorded *recorded)
{
    size_t n = 0;
    if (!prn_recorded_priced(r->profile, r->prose.look.verbose))
        return;
    for (size_t i = 0; i < r->profile->n_results; i++)
        if (lacks_price(&recorded->totals[i]) && !named_before(r, recorded, i))
            prn_buffer_printf(&r->prose.line, "%s%s",
                              n++ ? ", " : "Cost is N/A where no price is known: ",
                              r->profile->results[i].hardware);
    if (n > 0)
        prn_prose_paragraph(&r->prose, ". A hardware file can give one.");
}

/* Names the files that the graphs of a profile came from, in the order of their numbers. */
static int name_graphs(struct report *r, const struct prn_subgraph *subgraphs, size_t n,
                       struct prn_arena *arena)
{
    const struct prn_profile *profile = r->profile;
    bool *used = PRN_ARENA_ARRAY(arena, profile->n_graphs, bool);
    if (!used)
        return PRONY_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        const struct prn_recorded_graph *graph = prn_profile_graph(profile, subgraphs[i].id);
        if (graph)
            used[graph - profile->graphs] = true;
    }
    size_t shown = 0;
    for (size_t i = 0; i < profile->n_graphs && shown < GRAPHS_NAMED; i++)
        if (used[i] && profile->graphs[i].name)
            prn_buffer_printf(&r->prose.line, "%sGraph #%lld is %s", shown++ ? ", " : "",
                              (long long)profile->graphs[i].id, profile->graphs[i].name);
    if (shown > 0)
        prn_prose_paragraph(&r->prose, "%s.", n > GRAPHS_NAMED ? ", …" : "");
    return 0;
}

static int describe_graphs(struct report *r, const struct prn_recorded *recorded,
                           struct prony_error *err)
{
    struct prn_arena arena = PRN_ARENA_INIT((size_t)256 << 20);
    struct prn_subgraph *subgraphs;
    size_t n;
    int code = prn_recorded_subgraphs(r->profile, recorded, &arena, &n, &subgraphs, err);
    if (code == 0 && name_graphs(r, subgraphs, n, &arena) < 0)
        code = prn_fail_memory(err);
    prn_arena_release(&arena);
    return code;
}

static void describe_profile(struct report *r, const struct prn_recorded *recorded)
{
    if (r->layout != PRN_RECORDED_LAYOUT_CLASSIC)
        describe_times(r, recorded);
    describe_confidence(r);
    describe_compilation(r, recorded);
    describe_noise(r, recorded);
    describe_failures(r, recorded);
    if (r->layout == PRN_RECORDED_LAYOUT_SUMMARY)
        describe_prices(r, recorded);
}

/* ---- The profile itself ---- */

/* A name and a time; a name that leaves no room for the time is shortened. */
static void add_total(struct report *r, const char *name, size_t name_width, const char *time,
                      size_t time_width)
{
    struct prn_buffer *out = r->prose.out;
    if (r->prose.markdown) {
        prn_buffer_add(out, "    - ");
        prn_markdown_text(out, name);
        prn_buffer_printf(out, ": %s\n", time);
        return;
    }
    size_t own = prn_text_width(name);
    prn_buffer_add(out, "    ");
    prn_text_shorten(out, name, name_width);
    prn_buffer_printf(out, "%*s  %*s\n", (int)(name_width - (own < name_width ? own : name_width)),
                      "", (int)time_width, time);
}

/* Totals of the classic layout. */
static void add_totals(struct report *r, const struct prn_recorded *recorded)
{
    const char *const *names = r->view->backends.names;
    char text[PRN_FORMAT_SIZE];
    size_t name_width = 0;
    size_t width = 0;
    if (recorded->compiled || !isfinite(recorded->local_ns))
        return;
    if (r->prose.markdown)
        end_line(r);
    prn_prose_paragraph(&r->prose, "Total uncompiled code run time: %s ms",
                        prn_format_ms(text, recorded->local_ns));
    prn_prose_paragraph(&r->prose, "Total times (compiled + uncompiled) per backend, ms:");
    for (size_t i = 0; i < r->profile->n_results; i++) {
        double ns = recorded->totals[i].total_ns;
        size_t own = strlen(isfinite(ns) ? prn_format_ms(text, ns) : "N/A");
        name_width = prn_text_width(names[i]) > name_width ? prn_text_width(names[i]) : name_width;
        width = own > width ? own : width;
    }
    const size_t room = r->prose.look.width - width - 6;
    name_width = name_width < room ? name_width : room;
    for (size_t i = 0; i < r->profile->n_results; i++) {
        double ns = recorded->totals[i].total_ns;
        add_total(r, names[i], name_width, isfinite(ns) ? prn_format_ms(text, ns) : "N/A", width);
    }
}

static int add_table(struct report *r, const struct prn_recorded *recorded, struct prony_error *err)
{
    struct prn_buffer *out = r->prose.out;
    size_t calls = prn_recorded_calls(recorded);
    if (r->layout == PRN_RECORDED_LAYOUT_SUMMARY && (calls == 0 || r->profile->n_results == 0))
        return 0;
    if (r->layout == PRN_RECORDED_LAYOUT_SUMMARY)
        return prn_recorded_summary_table(r->view, recorded, &r->prose.look, out, err);
    if (r->layout == PRN_RECORDED_LAYOUT_SEGMENTS && calls > SEGMENTS_SHOWN && !r->verbose)
        return prn_recorded_top_table(r->view, recorded, &r->prose.look, out, err);
    int code = prn_recorded_segment_table(r->view, recorded, r->layout, &r->prose.look, out, err);
    if (code == 0 && r->layout == PRN_RECORDED_LAYOUT_CLASSIC)
        add_totals(r, recorded);
    return code;
}

static int describe(struct report *r, const struct prn_recorded *recorded, struct prony_error *err)
{
    char text[PRN_FORMAT_SIZE];
    if (prn_recorded_calls(recorded) == 0) {
        prn_buffer_printf(&r->prose.line, "It is only %s", r->view->local);
        if (isfinite(recorded->local_ns))
            prn_buffer_printf(&r->prose.line, ", %s ms per run",
                              prn_format_ms(text, recorded->local_ns));
        prn_prose_paragraph(&r->prose,
                            ": no graph ran in it, so there is nothing to run on a backend.");
        return 0;
    }
    if (r->profile->n_results == 0)
        prn_prose_paragraph(&r->prose, "No backend was given.");
    describe_profile(r, recorded);
    return r->layout == PRN_RECORDED_LAYOUT_SEGMENTS ? describe_graphs(r, recorded, err) : 0;
}

/* Table and sentences, with an empty line behind each. */
static int add_profile(struct report *r, size_t index, struct prony_error *err)
{
    const struct prn_recorded *recorded = &r->profile->profiles[index];
    struct prn_buffer *out = r->prose.out;
    size_t begin = out->len;
    int code = add_table(r, recorded, err);
    if (code < 0)
        return code;
    if (out->len > begin)
        end_line(r);
    begin = out->len;
    code = describe(r, recorded, err);
    if (out->len > begin)
        end_line(r);
    return code;
}

/* ---- The whole ---- */

static void describe_check(struct report *r, const struct prn_recorded_graph *graph, size_t backend)
{
    const struct prn_graph_check *check = &graph->checks[backend];
    if (check->failure)
        prn_prose_paragraph(&r->prose, "The outputs of Graph #%lld on %s could not be compared: %s",
                            (long long)graph->id, r->view->backends.names[backend], check->failure);
    if (!check->mismatch)
        return;
    prn_buffer_printf(&r->prose.line,
                      "* MISMATCH Graph #%lld on %s: outputs differ from those computed locally",
                      (long long)graph->id, r->view->backends.names[backend]);
    prn_view_difference(&r->prose.line, check->outputs, check->n_outputs);
    prn_prose_paragraph(&r->prose, ". Check its precision and options.");
}

/* Whether a recorded function ran it; a session may have graphs of earlier recordings. */
static bool is_used(const struct prn_profile *p, int64_t graph)
{
    for (size_t i = 0; i < p->n_profiles; i++)
        for (size_t k = 0; k < p->profiles[i].n_segments; k++)
            if (p->profiles[i].segments[k].graph == graph)
                return true;
    return false;
}

static void describe_checks(struct report *r)
{
    const struct prn_profile *p = r->profile;
    bool compared = false;
    bool wrong = false;
    for (size_t i = 0; i < p->n_graphs; i++)
        for (size_t k = 0; p->graphs[i].checks && is_used(p, p->graphs[i].id) && k < p->n_results;
             k++) {
            const struct prn_graph_check *check = &p->graphs[i].checks[k];
            compared |= check->compared;
            wrong |= check->mismatch || check->failure;
            describe_check(r, &p->graphs[i], k);
        }
    if (compared && !wrong)
        prn_prose_paragraph(&r->prose,
                            "Outputs of all backends agree with those computed locally.");
}

static void add_part(struct report *r, bool *any, const char *what, int64_t ns)
{
    char text[PRN_FORMAT_SIZE];
    if (ns < 0)
        return;
    prn_buffer_printf(&r->prose.line, "%s%s %s", *any ? ", " : " ", what,
                      prn_format_duration(text, (double)ns));
    *any = true;
}

/* Where the time went before anything was measured. */
static void describe_start(struct report *r, const struct prn_recorded_graph *graph)
{
    const struct prn_graph_start *start = &graph->start;
    bool any = false;
    prn_buffer_printf(&r->prose.line, "First call of Graph #%lld:", (long long)graph->id);
    add_part(r, &any, "capture", start->capture_ns);
    add_part(r, &any, "lowering", start->lower_ns);
    add_part(r, &any, "export to ONNX", start->export_ns);
    add_part(r, &any, "upload", start->upload_ns);
    add_part(r, &any, "backends start and load", start->load_ns);
    for (size_t i = 0; i < r->profile->n_results; i++) {
        const struct prn_graph_launch *launch = &start->launches[i];
        bool here = false;
        if (launch->load_ns < 0)
            continue;
        prn_buffer_printf(&r->prose.line, "%s %s", any ? ";" : "", r->view->backends.names[i]);
        add_part(r, &here, "load", launch->load_ns);
        add_part(r, &here, "first run", launch->prepare_ns);
        any = true;
    }
    if (any)
        prn_prose_paragraph(&r->prose, ".");
    else
        prn_buffer_clear(&r->prose.line);
}

static void describe_recording(struct report *r)
{
    const struct prn_profile *p = r->profile;
    describe_medians(r);
    describe_checks(r);
    prn_view_specs(r->profile, &r->prose);
    for (size_t i = 0; r->verbose && i < p->n_graphs; i++)
        if (p->graphs[i].start.n_launches > 0 && is_used(p, p->graphs[i].id))
            describe_start(r, &p->graphs[i]);
    for (size_t i = 0; i < p->n_results; i++)
        if (p->results[i].error_code != 0)
            prn_prose_paragraph(&r->prose, "%s failed: %s", r->view->backends.names[i],
                                p->results[i].error ? p->results[i].error
                                                    : prony_error_text(p->results[i].error_code));
    for (size_t i = 0; i < p->n_notes; i++)
        prn_prose_paragraph(&r->prose, "Note: %s", p->notes[i]);
    prn_view_environment(p, &r->prose);
}

static int write_report(struct report *r, struct prony_error *err)
{
    const struct prn_profile *p = r->profile;
    if (p->n_profiles == 0 && r->layout == PRN_RECORDED_LAYOUT_CLASSIC)
        prn_prose_paragraph(&r->prose, "No recorded function was called.");
    for (size_t first = 0; first < p->n_profiles; first++) {
        if (r->view->names[first].number != 1)
            continue;
        add_function_heading(r, first);
        for (size_t i = first; i != PRN_RECORDED_NONE; i = r->view->names[i].next) {
            add_profile_heading(r, i);
            int code = add_profile(r, i, err);
            if (code < 0)
                return code;
        }
    }
    describe_recording(r);
    return prn_buffer_error(r->prose.out, err);
}

int prn_recorded_report(const struct prn_profile *profile, enum prn_recorded_layout layout,
                        const struct prn_look *look, struct prn_buffer *out,
                        struct prony_error *err)
{
    struct prn_recorded_view view;
    int code = prn_recorded_view_init(&view, profile, err);
    if (code < 0)
        return code;
    struct report r = {.view = &view,
                       .profile = profile,
                       .layout = layout,
                       .verbose = look->verbose,
                       .prose = prn_prose_init(look, out)};
    if (layout != PRN_RECORDED_LAYOUT_CLASSIC) {
        prn_recorded_verdict(&view, &r.prose.line);
        prn_prose_verdict(&r.prose);
        end_line(&r);
    }
    code = write_report(&r, err);
    prn_prose_release(&r.prose);
    prn_recorded_view_release(&view);
    return code;
}

int prn_recorded_report_one(const struct prn_recorded_view *view, size_t index, bool verbose,
                            struct prn_buffer *out, struct prony_error *err)
{
    struct report r = {.view = view,
                       .profile = view->profile,
                       .layout = PRN_RECORDED_LAYOUT_SEGMENTS,
                       .verbose = verbose,
                       .prose = prn_prose_init(&(struct prn_look){.width = 100}, out)};
    add_runs(&r, index);
    int code = add_profile(&r, index, err);
    if (code == 0) {
        prn_view_environment(view->profile, &r.prose);
        code = prn_buffer_error(out, err);
    }
    prn_prose_release(&r.prose);
    return code;
}
