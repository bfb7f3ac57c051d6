#include "cli/pages.h"

#include "base/table.h"
#include "base/text.h"
#include "cli/output.h"
#include "model/synth/synth.h"
#include "report/saved.h"
#include "runtime/library.h"
#include "runtime/runtime.h"

#include <stdio.h>
#include <string.h>

#define HELP_WIDTH_MAX 90 /* longer lines are harder to read */

static size_t help_width(void)
{
    size_t width = prn_output_width();
    width = width < HELP_WIDTH_MAX ? width : HELP_WIDTH_MAX;
    return width > PRN_LOOK_WIDTH_MIN ? width : PRN_LOOK_WIDTH_MIN;
}

/* What begins a line, then text that goes on at `column`; on a narrow terminal, below it. */
static void two_columns(struct prn_buffer *out, const char *left, size_t column, const char *right)
{
    const size_t readable = 30;
    const size_t width = help_width();
    if (column + readable > width)
        column = 8;
    size_t at = prn_text_width(left);
    prn_buffer_add(out, left);
    if (at >= column) {
        prn_buffer_add_char(out, '\n');
        at = 0;
    }
    prn_buffer_printf(out, "%*s", (int)(column - at), "");
    prn_text_wrap(out, right, column, column, width);
}

static void option_line(const struct prn_command *command, const struct prn_option *o,
                        struct prn_buffer *out)
{
    if (o->kind == PRN_OPTION_GROUP) {
        prn_buffer_printf(out, "\n%s:\n", o->help);
        return;
    }
    char left[128];
    char letter[16] = "    ";
    const char *alias = prn_command_alias(command, o);
    if (o->letter)
        snprintf(letter, sizeof letter, "-%c, ", o->letter);
    else if (alias)
        snprintf(letter, sizeof letter, "-%s, ", alias);
    snprintf(left, sizeof left, "  %s--%s%s%s", letter, o->name, o->value ? " " : "",
             o->value ? o->value : "");
    two_columns(out, left, 26, o->help);
}

static void paragraphs(struct prn_buffer *out, const char *text)
{
    while (*text) {
        text = prn_text_wrap(out, text, 0, 0, help_width());
        if (*text == '\n')
            text++;
    }
}

/* A command that has to be broken can still be copied: its lines end in backslashes. */
static void example_line(struct prn_buffer *out, const char *line, size_t len)
{
    char text[256];
    struct prn_buffer lines = PRN_BUFFER_INIT(1024);
    bool comment = line[0] == '#';
    snprintf(text, sizeof text, "%.*s", (int)len, line);
    prn_text_wrap(&lines, text, 2, comment ? 4 : 6, help_width() - (comment ? 0 : 2));
    prn_buffer_add(out, "  ");
    for (const char *p = prn_buffer_text(&lines); *p; p++) {
        if (*p == '\n' && p[1] && !comment)
            prn_buffer_add(out, " \\");
        prn_buffer_add_char(out, *p);
    }
    if (lines.error)
        out->error = lines.error;
    prn_buffer_release(&lines);
}

void prn_command_help(const struct prn_command *command, struct prn_buffer *out)
{
    bool options = command->options && command->options[0].kind;
    struct prn_buffer usage = PRN_BUFFER_INIT(1024);
    prn_buffer_printf(&usage, "Usage: prony %s%s%s%s", command->name, options ? " [OPTIONS]" : "",
                      command->arguments[0] ? " " : "", command->arguments);
    prn_text_wrap(out, prn_buffer_text(&usage), 0, 4, help_width());
    if (usage.error)
        out->error = usage.error;
    prn_buffer_release(&usage);
    prn_buffer_add_char(out, '\n');
    paragraphs(out, command->description);
    if (options && command->options[0].kind != PRN_OPTION_GROUP)
        prn_buffer_add(out, "\nOptions:\n");
    for (const struct prn_option *o = prn_command_options(command); o->kind; o++)
        option_line(command, o, out);
    if (command->examples) {
        prn_buffer_add(out, "\nExamples:\n");
        for (const char *line = command->examples; *line;) {
            size_t len = strcspn(line, "\n");
            example_line(out, line, len);
            line += len + (line[len] == '\n');
        }
    }
}

void prn_command_overview(struct prn_buffer *out)
{
    paragraphs(out, "prony measures how long inference takes and what it costs, before deployment."
                    "\n");
    prn_buffer_add_char(out, '\n');
    paragraphs(out, "Usage: prony COMMAND [OPTIONS] [ARGUMENTS]\n");
    prn_buffer_add(out, "\nCommands:\n");
    for (size_t i = 0; prn_commands[i]; i++) {
        char left[64];
        snprintf(left, sizeof left, "  %s", prn_commands[i]->name);
        if (!prn_commands[i]->hidden)
            two_columns(out, left, 15, prn_commands[i]->summary);
    }
    prn_buffer_add(out, "\n"
                        "Start here:\n"
                        "  prony synth resnet50 -o resnet50.onnx\n"
                        "  prony profile resnet50.onnx\n"
                        "\n");
    paragraphs(out, "'prony COMMAND --help' explains a command. 'prony --version' prints the "
                    "version.\n");
}

/* troff: backslashes, leading dots and hyphens that are to be typed. `line_break` stands between
 * lines of the text. */
static void man_lines(struct prn_buffer *out, const char *text, const char *line_break)
{
    for (const char *p = text; *p; p++) {
        bool leading = p == text || p[-1] == '\n';
        if (leading && (*p == '.' || *p == '\''))
            prn_buffer_add(out, "\\&");
        if (*p == '\\')
            prn_buffer_add(out, "\\e");
        else if (*p == '-')
            prn_buffer_add(out, "\\-");
        else if (*p == '\n')
            prn_buffer_add(out, line_break);
        else
            prn_buffer_add_char(out, *p);
    }
    prn_buffer_add_char(out, '\n');
}

static void man_text(struct prn_buffer *out, const char *text)
{
    man_lines(out, text, "\n.PP\n");
}

static void man_options(const struct prn_command *command, struct prn_buffer *out)
{
    for (const struct prn_option *o = prn_command_options(command); o->kind; o++) {
        if (o->kind == PRN_OPTION_GROUP) {
            prn_buffer_add(out, ".PP\n");
            man_text(out, o->help);
            continue;
        }
        prn_buffer_add(out, ".TP\n");
        const char *alias = prn_command_alias(command, o);
        if (o->letter)
            prn_buffer_printf(out, "\\fB\\-%c\\fR, ", o->letter);
        else if (alias)
            prn_buffer_printf(out, "\\fB\\-%s\\fR, ", alias);
        prn_buffer_add(out, "\\fB\\-\\-");
        for (const char *p = o->name; *p; p++)
            prn_buffer_printf(out, "%s%c", *p == '-' ? "\\" : "", *p);
        prn_buffer_printf(out, "\\fR%s%s%s\n", o->value ? " \\fI" : "", o->value ? o->value : "",
                          o->value ? "\\fR" : "");
        man_text(out, o->help);
    }
}

struct man_term {
    const char *term, *text;
};

static const struct man_term statuses[] = {
    {"0", "Success."},
    {"1", "Something failed, such as a file, a library or a requested backend, or --fail-over "
          "could not decide."},
    {"2", "Misuse: an option or argument is unknown, missing or malformed."},
    {"3", "A regression: with --fail-over, something became slower; in check, a limit is broken."},
    {"4", "A mismatch: with --fail-on-mismatch, outputs of backends differ."},
    {"130", "Interrupted before there was anything to report."},
    {NULL, NULL},
};

static const struct man_term variables[] = {
    {"VIRTUAL_ENV, CONDA_PREFIX, PATH",
     "Other places searched for runtime libraries: the active Python environment, and the "
     "environment of the python3 on PATH."},
    {"PRONY_PYTHON",
     "The Python interpreter, with torch and prony, that runs graphs of PyTorch programs."},
    {"PRONY_CA",
     "PEM file of the authority that signed a service's certificate, unless --ca is given."},
    {"PRONY_TOKEN", "The token for a service, unless --token-file is given."},
    {"XDG_CONFIG_HOME, XDG_STATE_HOME",
     "Where tokens, the history, records of machines and the "
     "state of a service are kept, instead of ~/.config and ~/.local/state."},
    {"BROWSER", "The browser for 'prony view'."},
    {"TMPDIR", "Where temporary files are made, instead of /tmp."},
    {NULL, NULL},
};

static void man_terms(struct prn_buffer *out, const struct man_term *terms)
{
    for (const struct man_term *t = terms; t->term; t++) {
        prn_buffer_printf(out, ".TP\n.B %s\n", t->term);
        man_text(out, t->text);
    }
}

static void man_libraries(struct prn_buffer *out)
{
    const struct prn_library_search *libraries[PRN_RUNTIME_LIBRARIES_MAX];
    const size_t n = prn_runtime_libraries(libraries);
    for (size_t i = 0; i < n; i++) {
        prn_buffer_printf(out, ".TP\n.B %s\n", libraries[i]->variable);
        char text[256];
        snprintf(text, sizeof text, "%s, unless --%s is given.", libraries[i]->help,
                 libraries[i]->option);
        man_text(out, text);
    }
}

void prn_command_man(struct prn_buffer *out)
{
    prn_buffer_printf(out,
                      ".TH PRONY 1 \"\" \"prony %s\" \"User Commands\"\n"
                      ".SH NAME\n"
                      "prony \\- measures what an inference workload takes and costs\n"
                      ".SH SYNOPSIS\n"
                      "\\fBprony\\fR \\fICOMMAND\\fR [\\fIOPTIONS\\fR] [\\fIARGUMENTS\\fR]\n"
                      ".SH OPTIONS\n"
                      ".TP\n"
                      "\\fB\\-h\\fR, \\fB\\-\\-help\\fR\n"
                      "show help for prony or a command\n"
                      ".TP\n"
                      "\\fB\\-V\\fR, \\fB\\-\\-version\\fR\n"
                      "print the version\n"
                      ".SH COMMANDS\n",
                      prony_version());
    for (size_t i = 0; prn_commands[i]; i++) {
        const struct prn_command *c = prn_commands[i];
        if (c->hidden)
            continue;
        prn_buffer_printf(out, ".SS \"prony %s %s\"\n", c->name, c->arguments);
        man_text(out, c->description);
        man_options(c, out);
        if (c->examples) {
            prn_buffer_add(out, ".PP\nExamples:\n.PP\n.nf\n.RS\n");
            man_lines(out, c->examples, "\n");
            prn_buffer_add(out, ".RE\n.fi\n");
        }
    }
    prn_buffer_add(out, ".SH EXIT STATUS\n");
    man_terms(out, statuses);
    prn_buffer_add(out, ".SH ENVIRONMENT\n");
    man_libraries(out);
    man_terms(out, variables);
}

/* ---- Completion ---- */

static void add_networks(struct prn_buffer *out)
{
    for (const struct prn_synth_network *n = prn_synth_networks; n->name; n++)
        prn_buffer_printf(out, "%s%s", n == prn_synth_networks ? "" : " ", n->name);
}

static void add_backends(struct prn_buffer *out)
{
    for (size_t i = 0; prn_runtimes[i]; i++)
        prn_buffer_printf(out, "%s%s", i ? " " : "", prn_runtimes[i]->software);
}

static bool takes_backend(const struct prn_option *o)
{
    return strcmp(o->name, "backend") == 0 || strcmp(o->name, "reference") == 0;
}

/* The words that may follow an option, or false. */
static bool add_values(const struct prn_option *o, struct prn_buffer *out)
{
    if (o->kind == PRN_OPTION_CHOICE)
        for (size_t k = 0; o->choices[k]; k++)
            prn_buffer_printf(out, "%s%s", k ? " " : "", o->choices[k]);
    else if (takes_backend(o))
        add_backends(out);
    else
        return false;
    return true;
}

/* Bash patterns that the beginning of a file of these kinds matches. */
static void add_patterns(unsigned takes, struct prn_buffer *out)
{
    const char *before = "";
    for (int kind = 0; kind < PRN_SAVED_COUNT; kind++) {
        if (!(takes & (1U << kind)))
            continue;
        if (prn_saved[kind].schema)
            prn_buffer_printf(out, "%s*\"schema\"*\"%s*", before, prn_saved[kind].schema);
        else if (kind == PRN_SAVED_TRACE)
            prn_buffer_printf(out, "%s*([[:space:]])\\[*|*\"traceEvents\"*", before);
        else
            continue;
        before = "|";
    }
}

static bool takes_file(const struct prn_option *o)
{
    return o->value && (strstr(o->value, "FILE") || strstr(o->value, "DIR"));
}

/* Files by kind: models and pages by their suffixes, JSON by its beginning. Without suffixes, any
 * file; the suffix "-" stands for none. */
static const char bash_files[] =
    "_prony_files()\n{\n"
    "    local name head suffixes=$1 pattern=$2\n"
    "    compopt -o filenames 2> /dev/null\n"
    "    while IFS= read -r name; do\n"
    "        if [[ ! -d $name && -n $suffixes && ${name##*.} != @($suffixes) ]]; then\n"
    "            [[ $name == *.json && -n $pattern && -f $name && -r $name ]] || continue\n"
    "            IFS= read -r -d '' -N 1000 head < \"$name\" 2> /dev/null\n"
    "            [[ $head == @($pattern) ]] || continue\n"
    "        fi\n"
    "        COMPREPLY+=(\"$name\")\n"
    "    done < <(compgen -f -- \"$current\")\n}\n";

static const char bash_begin[] =
    "_prony()\n{\n    local current=${COMP_WORDS[COMP_CWORD]}\n"
    "    local previous=${COMP_WORDS[COMP_CWORD-1]}\n"
    "    local command=${COMP_WORDS[1]}\n    COMPREPLY=()\n"
    "    # Bash cuts words at '=': --format=json, -b name=onnxrt-cpu.\n"
    "    [[ $current == = ]] && current='' previous='='\n"
    "    if [[ $previous == = ]]; then\n"
    "        local at=$((COMP_CWORD - 1))\n"
    "        [[ ${COMP_WORDS[COMP_CWORD]} == = ]] && at=$COMP_CWORD\n"
    "        previous=${COMP_WORDS[at-1]}\n"
    "        [[ $previous == -* || $at -lt 3 ]] || previous=${COMP_WORDS[at-2]}\n"
    "    fi\n"
    "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
    "        mapfile -t COMPREPLY < <(compgen -W '";

static void bash_values(struct prn_buffer *out)
{
    for (size_t i = 0; prn_commands[i]; i++) {
        const struct prn_command *c = prn_commands[i];
        for (const struct prn_option *o = prn_command_options(c); o->kind && !c->hidden; o++) {
            struct prn_buffer values = PRN_BUFFER_INIT((size_t)1 << 16);
            if (o->kind != PRN_OPTION_GROUP && add_values(o, &values)) {
                prn_buffer_printf(out, "    '%s --%s'", c->name, o->name);
                if (o->letter)
                    prn_buffer_printf(out, " | '%s -%c'", c->name, o->letter);
                prn_buffer_printf(out,
                                  ")\n        mapfile -t COMPREPLY < <(compgen -W '%s' -- "
                                  "\"$current\")\n        return\n        ;;\n",
                                  prn_buffer_text(&values));
            }
            prn_buffer_release(&values);
        }
    }
}

/* The files that are arguments of a command; a value of an option may be any file. */
static void bash_arguments(struct prn_buffer *out)
{
    prn_buffer_add(out, "    [[ $previous == -* ]] && { _prony_files; return; }\n"
                        "    case $command in\n");
    for (size_t i = 0; prn_commands[i]; i++) {
        const struct prn_command *c = prn_commands[i];
        if (c->hidden || !c->takes)
            continue;
        prn_buffer_printf(out, "    %s) _prony_files '", c->name);
        if (c->takes & PRN_SAVED_BIT(MODEL))
            prn_buffer_add(out, "onnx");
        if (c->takes & PRN_SAVED_BIT(PAGE))
            prn_buffer_add(out, "html|");
        prn_buffer_add(out, c->takes & PRN_SAVED_BIT(TRACE)   ? "gz|zst' '"
                            : c->takes & PRN_SAVED_BIT(MODEL) ? "' '"
                                                              : "-' '");
        add_patterns(c->takes, out);
        prn_buffer_add(out, "' ;;\n");
    }
    prn_buffer_add(out, "    synth) mapfile -t COMPREPLY < <(compgen -W '");
    add_networks(out);
    prn_buffer_add(out, "' -- \"$current\") ;;\n");
    prn_buffer_add(out, "    *) _prony_files ;;\n    esac\n}\ncomplete -F _prony prony\n");
}

void prn_command_bash(struct prn_buffer *out)
{
    prn_buffer_add(out, "# bash completion for prony; made from its option tables\n");
    prn_buffer_add(out, bash_files);
    prn_buffer_add(out, bash_begin);
    for (size_t i = 0; prn_commands[i]; i++)
        if (!prn_commands[i]->hidden)
            prn_buffer_printf(out, "%s ", prn_commands[i]->name);
    prn_buffer_add(out, "help --help --version' -- \"$current\")\n        return\n    fi\n"
                        "    case \"$command $previous\" in\n");
    bash_values(out);
    prn_buffer_add(out, "    esac\n    if [[ $current == -* ]]; then\n        case $command in\n");
    for (size_t i = 0; prn_commands[i]; i++) {
        const struct prn_command *c = prn_commands[i];
        if (c->hidden)
            continue;
        prn_buffer_printf(out, "        %s) mapfile -t COMPREPLY < <(compgen -W '", c->name);
        for (const struct prn_option *o = prn_command_options(c); o->kind; o++)
            if (o->kind != PRN_OPTION_GROUP)
                prn_buffer_printf(out, "--%s ", o->name);
        prn_buffer_add(out, "--help' -- \"$current\") ;;\n");
    }
    prn_buffer_add(out, "        esac\n        return\n    fi\n");
    bash_arguments(out);
}

/* Inside single quotes of a zsh _arguments spec: quotes, brackets and colons mean something. */
static void zsh_text(struct prn_buffer *out, const char *text)
{
    for (const char *p = text; *p; p++) {
        if (*p == '\'')
            prn_buffer_add(out, "'\\''");
        else if (strchr("[]:\\", *p))
            prn_buffer_printf(out, "\\%c", *p);
        else
            prn_buffer_add_char(out, *p == '\n' ? ' ' : *p);
    }
}

static void zsh_arguments(const struct prn_command *c, struct prn_buffer *out)
{
    if (strcmp(c->name, "synth") == 0) {
        prn_buffer_add(out, "network:(");
        add_networks(out);
        prn_buffer_add_char(out, ')');
    } else if (c->takes & PRN_SAVED_BIT(MODEL)) {
        prn_buffer_add(out, "model:_files -g \"*.onnx\"");
    } else if (c->takes) {
        prn_buffer_printf(out, "file:_files -g \"*.(json%s%s)\"",
                          c->takes & PRN_SAVED_BIT(TRACE) ? "|json.gz|json.zst" : "",
                          c->takes & PRN_SAVED_BIT(PAGE) ? "|html" : "");
    } else {
        prn_buffer_add(out, "file:_files");
    }
}

void prn_command_zsh(struct prn_buffer *out)
{
    prn_buffer_add(out, "#compdef prony\n# made from prony's option tables\n"
                        "_prony() {\n    local -a commands\n    commands=(\n");
    for (size_t i = 0; prn_commands[i]; i++)
        if (!prn_commands[i]->hidden) {
            prn_buffer_printf(out, "        '%s:", prn_commands[i]->name);
            zsh_text(out, prn_commands[i]->summary);
            prn_buffer_add(out, "'\n");
        }
    prn_buffer_add(out, "    )\n    if (( CURRENT == 2 )); then\n"
                        "        _describe command commands\n        return\n    fi\n"
                        "    local command=$words[2]\n    shift words\n    (( CURRENT-- ))\n"
                        "    case $command in\n");
    for (size_t i = 0; prn_commands[i]; i++) {
        const struct prn_command *c = prn_commands[i];
        if (c->hidden)
            continue;
        prn_buffer_printf(out, "    %s)\n        _arguments \\\n", c->name);
        for (const struct prn_option *o = prn_command_options(c); o->kind; o++) {
            if (o->kind == PRN_OPTION_GROUP)
                continue;
            prn_buffer_printf(out, "            '%s--%s%s[",
                              o->kind == PRN_OPTION_LIST || o->kind == PRN_OPTION_WORDS ? "*" : "",
                              o->name, o->kind == PRN_OPTION_FLAG ? "" : "=");
            zsh_text(out, o->help);
            prn_buffer_add_char(out, ']');
            if (o->kind == PRN_OPTION_CHOICE || takes_backend(o)) {
                prn_buffer_add(out, ":value:(");
                add_values(o, out);
                prn_buffer_add_char(out, ')');
            } else if (o->kind != PRN_OPTION_FLAG) {
                prn_buffer_add(out, takes_file(o) ? ":file:_files" : ":value:");
            }
            prn_buffer_add(out, "' \\\n");
        }
        prn_buffer_add(out, "            '*:");
        zsh_arguments(c, out);
        prn_buffer_add(out, "'\n        ;;\n");
    }
    prn_buffer_add(out, "    esac\n}\n_prony \"$@\"\n");
}
