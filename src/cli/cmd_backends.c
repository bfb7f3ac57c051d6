/* `prony backends`: what can be measured on, and why something can't. */
#include "cli/command.h"

#include "cli/output.h"
#include "base/format.h"
#include "base/table.h"
#include "base/text.h"
#include "cli/libraries.h"
#include "cli/server.h"
#include "format/json.h"
#include "measure/discover.h"
#include "report/prose.h"
#include "spec/spec.h"

#include <math.h>
#include <string.h>

struct backends_options {
    struct prn_library_files libraries;
    const char *hardware_file;
    int format;
    const char *output;
    struct prn_server_options server;
};

enum { FORMAT_TEXT, FORMAT_JSON, FORMAT_CSV, FORMAT_MD };

static const char *const formats[] = {"text", "json", "csv", "md", NULL};

static const enum prn_table_style styles[] = {[FORMAT_TEXT] = PRN_TABLE_STYLE_TEXT,
                                              [FORMAT_CSV] = PRN_TABLE_STYLE_CSV,
                                              [FORMAT_MD] = PRN_TABLE_STYLE_MARKDOWN};

static void write_json(const struct prn_found_runtime *found, size_t n,
                       const struct prn_hardware *local, struct prn_buffer *out)
{
    struct prn_json_writer w = prn_json_writer_init(out);
    prn_json_object(&w, NULL);
    prn_json_text(&w, "schema", "prony.backends/1");
    prn_json_array(&w, "backends");
    for (size_t i = 0; i < n; i++) {
        prn_json_object(&w, NULL);
        prn_json_text(&w, "hardware", "local");
        prn_json_text(&w, "processor", local->processor);
        prn_json_number(&w, "usd_per_hour", local->usd_per_hour);
        prn_json_text(&w, "software", found[i].ops->software);
        prn_json_bool(&w, "available", found[i].available);
        prn_json_text(&w, "version", found[i].version);
        prn_json_text(&w, "library", found[i].library);
        prn_json_text(&w, "origin", found[i].origin);
        prn_json_text(&w, "reason", found[i].reason);
        prn_json_array(&w, "options");
        for (const struct prn_runtime_option *o = found[i].ops->options; o->key; o++) {
            prn_json_object(&w, NULL);
            prn_json_text(&w, "key", o->key);
            prn_json_text(&w, "value", o->value);
            prn_json_text(&w, "help", o->help);
            prn_json_end(&w);
        }
        prn_json_end(&w);
        prn_json_end(&w);
    }
    prn_json_end(&w);
    prn_json_end(&w);
}

/* An option and what it does; in text, below each other in two columns. */
static void write_option(const struct prn_runtime_option *o, struct prn_prose *p)
{
    const size_t column = p->look.width < 60 ? 6 : 31;
    if (p->markdown) {
        prn_prose_paragraph(p, "%s=%s: %s", o->key, o->value, o->help);
        return;
    }
    prn_buffer_printf(&p->line, "  %s=%s", o->key, o->value);
    size_t at = prn_text_width(prn_buffer_text(&p->line));
    if (at >= column) {
        prn_buffer_add_char(&p->line, '\n');
        at = 0;
    }
    prn_buffer_printf(&p->line, "%*s", (int)(column - at), "");
    prn_buffer_add(p->out, prn_buffer_text(&p->line));
    prn_buffer_clear(&p->line);
    prn_text_wrap(p->out, o->help, column, column, p->look.width);
}

/* Ends `line` as the title of a list. */
static void end_title(struct prn_prose *p)
{
    prn_buffer_add_char(p->out, '\n');
    if (p->markdown)
        prn_buffer_printf(p->out, "%s\n\n", prn_buffer_text(&p->line));
    else
        prn_text_wrap(p->out, prn_buffer_text(&p->line), 0, 2, p->look.width);
    prn_buffer_clear(&p->line);
}

/* Runtimes with the same options are listed together. */
static void write_options(const struct prn_found_runtime *found, size_t n, struct prn_prose *p)
{
    for (size_t i = 0; i < n; i++) {
        bool shown = false;
        for (size_t k = 0; k < i; k++)
            shown |= found[k].ops->options == found[i].ops->options;
        if (shown)
            continue;
        prn_buffer_add(&p->line, "Options of ");
        const char *separator = "";
        for (size_t k = i; k < n; k++)
            if (found[k].ops->options == found[i].ops->options) {
                prn_buffer_printf(&p->line, "%s%s", separator, found[k].ops->software);
                separator = ", ";
            }
        prn_buffer_add_char(&p->line, ':');
        end_title(p);
        for (const struct prn_runtime_option *o = found[i].ops->options; o->key; o++)
            write_option(o, p);
    }
}

/* What is said of a runtime below the table: the library that it has, or what it lacks. */
static void describe(const struct prn_found_runtime *found, struct prn_buffer *out)
{
    prn_buffer_add(out, found->available ? found->library : found->reason);
    if (found->available && found->origin[0])
        prn_buffer_printf(out, " (%s)", found->origin);
}

static bool says_the_same(const struct prn_found_runtime *a, const struct prn_found_runtime *b)
{
    if (a->available != b->available)
        return false;
    return a->available ? strcmp(a->library, b->library) == 0 : strcmp(a->reason, b->reason) == 0;
}

/* Those of whom the same is said share a line. */
static void write_groups(const struct prn_found_runtime *found, size_t n, bool available,
                         struct prn_prose *p)
{
    bool any = false;
    for (size_t i = 0; i < n; i++) {
        bool first = found[i].available == available;
        for (size_t k = 0; k < i; k++)
            first &= !says_the_same(&found[k], &found[i]);
        if (!first)
            continue;
        if (!any) {
            prn_buffer_add(&p->line, available ? "Loaded:" : "Unavailable:");
            end_title(p);
        }
        any = true;
        prn_buffer_add(&p->line, found[i].ops->software);
        for (size_t k = i + 1; k < n; k++)
            if (says_the_same(&found[i], &found[k]))
                prn_buffer_printf(&p->line, ", %s", found[k].ops->software);
        prn_buffer_add(&p->line, ": ");
        describe(&found[i], &p->line);
        prn_prose_flush(p, 2);
    }
}

/* The columns of the least use leave a narrow terminal first. As text, what all rows have in common
 * isn't a column. */
static struct prn_table *new_table(const struct prn_look *look, bool several)
{
    struct prn_table *t = prn_table_new();
    prn_table_width(t, look->width);
    prn_table_rest(t, "a wider terminal", 1);
    if (several) {
        prn_table_columns(t, "~Hardware|~Processor");
        prn_table_omit_rank(t, 2);
    }
    prn_table_columns(t, "~Software|~Version");
    prn_table_omit_rank(t, 1);
    return t;
}

static void price_column(struct prn_table *t)
{
    prn_table_columns(t, ">Price ($/h)");
    prn_table_omit_rank(t, 3);
}

static void price_cell(struct prn_table *t, double usd_per_hour)
{
    char price[PRN_FORMAT_SIZE];
    prn_table_cell(t, "%s", isnan(usd_per_hour) ? "N/A" : prn_format_dollars(price, usd_per_hour));
}

static void write_notes(const struct prn_found_runtime *found, size_t n,
                        const struct prn_look *look, struct prn_buffer *out)
{
    struct prn_prose p = prn_prose_init(look, out);
    write_groups(found, n, true, &p);
    write_groups(found, n, false, &p);
    write_options(found, n, &p);
    prn_prose_release(&p);
}

static void write_title(const struct prn_hardware *local, const struct prn_look *look,
                        struct prn_buffer *out)
{
    struct prn_prose p = prn_prose_init(look, out);
    prn_prose_paragraph(&p, "This machine (local): %s",
                        local->processor ? local->processor : "processor unknown");
    prn_buffer_add_char(out, '\n');
    prn_prose_release(&p);
}

static int write_table(const struct prn_found_runtime *found, size_t n,
                       const struct prn_hardware *local, int format, const struct prn_look *look,
                       struct prn_buffer *out, struct prony_error *err)
{
    const bool text = format == FORMAT_TEXT;
    const bool priced = !text || !isnan(local->usd_per_hour);
    struct prn_table *t = new_table(look, !text);
    if (priced)
        price_column(t);
    prn_table_columns(t, "Status");
    if (format == FORMAT_CSV)
        prn_table_columns(t, "Library|Origin|Reason");
    for (size_t i = 0; i < n; i++) {
        if (!text) {
            prn_table_cell(t, "local");
            prn_table_cell(t, "%s", local->processor ? local->processor : "N/A");
        }
        prn_table_cell(t, "%s", found[i].ops->software);
        prn_table_cell(t, "%s", found[i].version ? found[i].version : "-");
        if (priced)
            price_cell(t, local->usd_per_hour);
        prn_table_cell(t, "%s", found[i].available ? "available" : "unavailable");
        const char *const texts[] = {found[i].library, found[i].origin, found[i].reason};
        for (size_t k = 0; format == FORMAT_CSV && k < PRN_ARRAY_SIZE(texts); k++)
            prn_table_cell_text(t, texts[k] ? texts[k] : "");
    }
    if (text)
        write_title(local, look, out);
    int code = prn_table_end(t, styles[format], out, err);
    if (code == 0 && format != FORMAT_CSV)
        write_notes(found, n, look, out);
    return code;
}

static struct prn_look look_of(const struct backends_options *o)
{
    struct prn_look look = prn_output_look(o->output, false, PRN_COLOUR_NEVER);
    look.markdown = o->format == FORMAT_MD;
    return look;
}

static int run_here(const struct backends_options *o, struct prn_arena *arena,
                    struct prn_buffer *out, struct prony_error *err)
{
    struct prn_hardware_table hardware = {0};
    const struct prn_backends_here here = {0};
    const struct prn_look look = look_of(o);
    struct prn_found_runtime *found = NULL;
    size_t n = 0;
    int code = prn_hardware_load(o->hardware_file, &hardware, err);
    if (code == 0)
        code = prn_discover(&here, false, arena, &found, &n, err);
    if (code == 0)
        code = prn_discover_check(found, n, &here.library, err);
    if (code == 0) {
        struct prn_hardware local = prn_hardware_find(&hardware, "local");
        if (o->format == FORMAT_JSON)
            write_json(found, n, &local, out);
        else
            code = write_table(found, n, &local, o->format, &look, out, err);
    }
    prn_hardware_release(&hardware);
    return code;
}

/* ---- Of a service ---- */

static void write_offer_json(const struct prn_remote_offer *offer, const char *address,
                             struct prn_buffer *out)
{
    struct prn_json_writer w = prn_json_writer_init(out);
    prn_json_object(&w, NULL);
    prn_json_text(&w, "schema", "prony.backends/1");
    prn_json_text(&w, "server", address);
    prn_json_array(&w, "backends");
    for (size_t i = 0; i < offer->n_backends; i++) {
        const struct prn_remote_backend *b = &offer->backends[i];
        prn_json_object(&w, NULL);
        prn_json_text(&w, "hardware", b->spec.hardware);
        prn_json_text(&w, "processor", b->processor);
        prn_json_number(&w, "usd_per_hour", b->usd_per_hour);
        prn_json_text(&w, "software", b->spec.software);
        prn_json_text(&w, "version", b->version);
        prn_json_number(&w, "hosts", b->hosts < 0 ? NAN : (double)b->hosts);
        prn_json_number(&w, "free", b->free < 0 ? NAN : (double)b->free);
        prn_json_array(&w, "options");
        for (size_t k = 0; k < b->n_options; k++)
            prn_json_text(&w, NULL, b->options[k]);
        prn_json_end(&w);
        prn_json_end(&w);
    }
    prn_json_end(&w);
    prn_json_array(&w, "presets");
    for (size_t i = 0; i < offer->n_presets; i++) {
        prn_json_object(&w, NULL);
        prn_json_text(&w, "name", offer->presets[i].name);
        prn_json_array(&w, "backends");
        for (size_t k = 0; k < offer->presets[i].n_backends; k++)
            prn_json_text(&w, NULL, offer->presets[i].backends[k].name);
        prn_json_end(&w);
        prn_json_end(&w);
    }
    prn_json_end(&w);
    prn_json_end(&w);
}

static void cell_count(struct prn_table *t, int64_t value)
{
    if (value < 0)
        prn_table_cell(t, "-");
    else
        prn_table_cell(t, "%lld", (long long)value);
}

static void write_presets(const struct prn_remote_offer *offer, const struct prn_look *look,
                          struct prn_buffer *out)
{
    struct prn_prose p = prn_prose_init(look, out);
    if (offer->n_presets > 0)
        prn_buffer_add_char(out, '\n');
    for (size_t i = 0; i < offer->n_presets; i++) {
        const struct prn_remote_preset *preset = &offer->presets[i];
        prn_buffer_printf(&p.line, "Preset '%s':", preset->name);
        for (size_t k = 0; k < preset->n_backends; k++)
            prn_buffer_printf(&p.line, "%s %s", k > 0 ? "," : "", preset->backends[k].name);
        prn_prose_flush(&p, 0);
    }
    prn_prose_release(&p);
}

static int write_offer(const struct prn_remote_offer *offer, int format,
                       const struct prn_look *look, struct prn_buffer *out, struct prony_error *err)
{
    struct prn_table *t = new_table(look, true);
    price_column(t);
    prn_table_columns(t, ">Hosts|>Free");
    for (size_t i = 0; i < offer->n_backends; i++) {
        const struct prn_remote_backend *b = &offer->backends[i];
        prn_table_cell_text(t, b->spec.hardware);
        prn_table_cell_text(t, b->processor ? b->processor : "N/A");
        prn_table_cell_text(t, b->spec.software);
        prn_table_cell_text(t, b->version ? b->version : "-");
        price_cell(t, b->usd_per_hour);
        cell_count(t, b->hosts);
        cell_count(t, b->free);
    }
    int code = prn_table_end(t, styles[format], out, err);
    if (code == 0 && format != FORMAT_CSV)
        write_presets(offer, look, out);
    return code;
}

static int run_there(const struct backends_options *o, struct prn_arena *arena,
                     struct prn_buffer *out, struct prony_error *err)
{
    const struct prn_remote_ops *ops;
    struct prn_remote *remote;
    struct prn_remote_offer offer;
    const struct prn_look look = look_of(o);
    if (o->hardware_file)
        return prn_fail(err, PRONY_EUSAGE, "--hardware-file cannot be combined with --server");
    int code = prn_server_connect(&o->server, NULL, &ops, &remote, err);
    if (code < 0)
        return code;
    code = ops->list(remote, arena, &offer, err);
    if (code == 0 && o->format == FORMAT_JSON)
        write_offer_json(&offer, o->server.address, out);
    else if (code == 0)
        code = write_offer(&offer, o->format, &look, out, err);
    ops->free(remote);
    return code;
}

static int backends_run(const void *opaque, const struct prn_strings *arguments,
                        struct prony_error *err)
{
    (void)arguments;
    const struct backends_options *o = opaque;
    struct prn_arena arena = PRN_ARENA_INIT((size_t)64 << 20);
    struct prn_buffer out = PRN_BUFFER_INIT((size_t)64 << 20);
    int code = prn_server_check(&o->server, err);
    if (code == 0)
        code = prn_libraries_use(&o->libraries, o->server.address, err);
    if (code == 0)
        code = o->server.address ? run_there(o, &arena, &out, err) : run_here(o, &arena, &out, err);
    if (code == 0)
        code = prn_output(o->output, &out, err);
    prn_buffer_release(&out);
    prn_arena_release(&arena);
    return code;
}

#define FIELD(name) offsetof(struct backends_options, name)

static const struct prn_option options[] = {
    PRN_LIBRARY_ROW(struct backends_options),
    PRN_OPTION(TEXT, 0, "hardware-file", "FILE", FIELD(hardware_file),
               "YAML file with your own hardware and prices"),
    PRN_OPTION(CHOICE, 0, "format", "FORMAT", FIELD(format), "text, json, csv or md (default text)",
               .choices = formats),
    PRN_OPTION(TEXT, 'o', "output", "FILE", FIELD(output),
               "write to FILE instead of standard output"),
    PRN_SERVER_ROWS(struct backends_options),
    {0},
};

const struct prn_command prn_command_backends = {
    .name = "backends",
    .arguments = "",
    .summary = "list backends, and why some are unavailable",
    .description = "Lists the hardware and software that models can be measured on from here: "
                   "versions, options, prices, and why something is unavailable. With --server, "
                   "lists what a service offers instead.",
    .examples = "# what is available\n"
                "prony backends\n"
                "# with another ONNX Runtime\n"
                "prony backends --ort-lib /opt/onnxruntime/lib/libonnxruntime.so\n"
                "# what a service offers\n"
                "prony backends --server prony.example.org:443\n",
    .options = options,
    .options_size = sizeof(struct backends_options),
    .run = backends_run,
};
