#include "cli/command.h"

#include "base/text.h"
#include "runtime/library.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OPTIONS_MAX 128

const struct prn_option *prn_command_options(const struct prn_command *command)
{
    static struct prn_option options[OPTIONS_MAX + PRN_RUNTIME_LIBRARIES_MAX + 1];
    const struct prn_library_search *libraries[PRN_RUNTIME_LIBRARIES_MAX];
    const size_t n_libraries = prn_runtime_libraries(libraries);
    size_t n = 0;
    for (const struct prn_option *o = command->options; o && o->kind; o++) {
        assert(n < OPTIONS_MAX);
        if (o->kind != PRN_OPTION_LIBRARIES)
            options[n++] = *o;
        for (size_t i = 0; o->kind == PRN_OPTION_LIBRARIES && i < n_libraries; i++)
            options[n++] = (struct prn_option){.kind = PRN_OPTION_TEXT,
                                               .name = libraries[i]->option,
                                               .value = "FILE",
                                               .help = libraries[i]->help,
                                               .offset = o->offset + i * sizeof(const char *)};
    }
    options[n] = (struct prn_option){0};
    return options;
}

static int add(struct prn_strings *list, const char *text, struct prony_error *err)
{
    const char **items = realloc(list->items, (list->n + 1) * sizeof *items);
    if (!items)
        return prn_fail_memory(err);
    list->items = items;
    list->items[list->n++] = text;
    return 0;
}

static int out_of_range(const struct prn_option *o, const char *text, double value,
                        struct prony_error *err)
{
    if (o->kind == PRN_OPTION_PERCENT)
        return prn_fail(err, PRONY_EUSAGE, "--%s: %s is not between %.15g%% and %.15g%%", o->name,
                        text, 100 * o->min, 100 * o->max);
    if (o->kind == PRN_OPTION_SECONDS)
        return prn_fail(err, PRONY_EUSAGE, "--%s: %s is not between %.15g s and %.15g s", o->name,
                        text, o->min, o->max);
    /* Some options have no upper bound worth telling. */
    if (o->max < 1e15)
        return prn_fail(err, PRONY_EUSAGE, "--%s: %s is not between %.15g and %.15g", o->name, text,
                        o->min, o->max);
    if (value < o->min)
        return prn_fail(err, PRONY_EUSAGE, "--%s: %s is less than %.15g", o->name, text, o->min);
    return prn_fail(err, PRONY_EUSAGE, "--%s: %s is too large", o->name, text);
}

/* Numbers are digits with a sign, point and exponent: no spaces, hexadecimal, "inf" or "nan". */
static bool looks_like_number(const char *text, const char *end)
{
    size_t len = strspn(text, "+-.0123456789eE");
    return end > text && text + len == end;
}

static int set_count(const struct prn_option *o, const char *text, int64_t *field,
                     struct prony_error *err)
{
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (!looks_like_number(text, end) || *end)
        return prn_fail(err, PRONY_EUSAGE, "--%s: '%s' is not a whole number", o->name, text);
    if (errno || (double)value < o->min || (double)value > o->max)
        return out_of_range(o, text, (double)value, err);
    *field = value;
    return 0;
}

static int set_number(const struct prn_option *o, const char *text, double *field,
                      struct prony_error *err)
{
    char *end;
    double value = strtod(text, &end);
    bool number = looks_like_number(text, end);
    if (o->kind == PRN_OPTION_PERCENT && *end == '%') {
        value /= 100;
        end++;
    } else if (o->kind == PRN_OPTION_PERCENT && number && !*end && value >= 1) {
        /* Who writes 1 means 1 %, not 100 %. */
        return prn_fail(err, PRONY_EUSAGE, "--%s: write '%s%%' for %s percent", o->name, text,
                        text);
    }
    if (!number || *end)
        return prn_fail(err, PRONY_EUSAGE, "--%s: '%s' is not a number", o->name, text);
    if (!(value >= o->min && value <= o->max) || !isfinite(value))
        return out_of_range(o, text, value, err);
    *field = value;
    return 0;
}

/* "60", "90s", "1m", "1.5h", "90d", "500ms": a time in seconds, or with its unit. */
static int set_seconds(const struct prn_option *o, const char *text, double *field,
                       struct prony_error *err)
{
    static const struct {
        const char *unit;
        double seconds;
    } units[] = {{"", 1},     {"s", 1},    {"ms", 1e-3}, {"m", 60},
                 {"min", 60}, {"h", 3600}, {"d", 86400}};
    char *end;
    double value = strtod(text, &end);
    size_t i = 0;
    while (i < PRN_ARRAY_SIZE(units) && strcmp(end, units[i].unit) != 0)
        i++;
    if (!looks_like_number(text, end) || i == PRN_ARRAY_SIZE(units))
        return prn_fail(err, PRONY_EUSAGE, "--%s: '%s' is not a time, such as 90, 90s or 1.5m",
                        o->name, text);
    value *= units[i].seconds;
    if (!(value >= o->min && value <= o->max) || !isfinite(value))
        return out_of_range(o, text, value, err);
    *field = value;
    return 0;
}

static int set_choice(const struct prn_option *o, const char *text, void *field,
                      struct prony_error *err)
{
    struct prn_buffer list = PRN_BUFFER_INIT(1024);
    for (int i = 0; o->choices[i]; i++) {
        if (strcmp(o->choices[i], text) == 0) {
            *(int *)field = i;
            prn_buffer_release(&list);
            return 0;
        }
        prn_buffer_printf(&list, "%s%s", i ? ", " : "", o->choices[i]);
    }
    int code = prn_fail(err, PRONY_EUSAGE, "--%s: '%s' is not one of %s", o->name, text,
                        prn_buffer_text(&list));
    prn_buffer_release(&list);
    return code;
}

static int set(const struct prn_option *o, const char *text, void *options, struct prony_error *err)
{
    void *field = (char *)options + o->offset;
    switch (o->kind) {
    case PRN_OPTION_FLAG:
        *(bool *)field = true;
        return 0;
    case PRN_OPTION_TEXT:
        *(const char **)field = text;
        return 0;
    case PRN_OPTION_LIST:
    case PRN_OPTION_WORDS:
        return add(field, text, err);
    case PRN_OPTION_CHOICE:
        return set_choice(o, text, field, err);
    case PRN_OPTION_COUNT:
        return set_count(o, text, field, err);
    case PRN_OPTION_SECONDS:
        return set_seconds(o, text, field, err);
    default:
        return set_number(o, text, field, err);
    }
}

static const struct prn_option *find(const struct prn_command *command, const char *name,
                                     size_t len, char letter)
{
    for (const struct prn_option *o = prn_command_options(command); o->kind; o++) {
        if (o->kind == PRN_OPTION_GROUP)
            continue;
        if (letter ? o->letter == letter : strlen(o->name) == len && !strncmp(o->name, name, len))
            return o;
    }
    return NULL;
}

const char *prn_command_alias(const struct prn_command *command, const struct prn_option *option)
{
    for (const struct prn_option_alias *a = command->aliases; a && a->word; a++)
        if (strcmp(a->name, option->name) == 0)
            return a->word;
    return NULL;
}

static const struct prn_option *find_alias(const struct prn_command *command, const char *word,
                                           size_t len)
{
    for (const struct prn_option_alias *a = command->aliases; a && a->word; a++)
        if (strlen(a->word) == len && strncmp(a->word, word, len) == 0)
            return find(command, a->name, strlen(a->name), 0);
    return NULL;
}

static int fail_unknown(const struct prn_command *command, const char *name, size_t len,
                        struct prony_error *err)
{
    const char *names[128];
    char word[64];
    size_t n = 0;
    for (const struct prn_option *o = command->options; o && o->kind; o++)
        if (o->kind != PRN_OPTION_GROUP && n < PRN_ARRAY_SIZE(names))
            names[n++] = o->name;
    snprintf(word, sizeof word, "%.*s", (int)len, name);
    const char *meant = prn_text_nearest(word, names, n);
    return prn_fail(err, PRONY_EUSAGE, "unknown option '--%.*s'%s%s%s", (int)len, name,
                    meant ? "; did you mean '--" : "", meant ? meant : "", meant ? "'?" : "");
}

/* The only option whose name begins like that, as Python's programs take it; PRONY_EUSAGE when
 * there is none, or several. */
static int find_beginning(const struct prn_command *command, const char *name, size_t len,
                          const struct prn_option **ret_option, struct prony_error *err)
{
    struct prn_buffer list = PRN_BUFFER_INIT(4096);
    size_t n = 0;
    for (const struct prn_option *o = prn_command_options(command); o->kind; o++) {
        if (o->kind == PRN_OPTION_GROUP || len == 0 || strncmp(o->name, name, len) != 0)
            continue;
        prn_buffer_printf(&list, "%s--%s", n++ ? ", " : "", o->name);
        *ret_option = o;
    }
    int code = 0;
    if (n == 0)
        code = fail_unknown(command, name, len, err);
    else if (n > 1)
        code = prn_fail(err, PRONY_EUSAGE, "option '--%.*s' could be %s", (int)len, name,
                        prn_buffer_text(&list));
    prn_buffer_release(&list);
    return code;
}

/* The option that `text` begins or is; `*ret_value` is its value if that is part of `text`. */
static int identify(const struct prn_command *command, const char *text,
                    const struct prn_option **ret_option, const char **ret_value,
                    struct prony_error *err)
{
    size_t dashes = text[1] == '-' ? 2 : 1;
    size_t len = strcspn(text + dashes, "=");
    const char *after = text + dashes + len;
    const struct prn_option *o =
        dashes == 2 ? find(command, text + 2, len, 0) : find_alias(command, text + 1, len);
    *ret_value = *after ? after + 1 : NULL;
    if (!o && dashes == 2) {
        int code = find_beginning(command, text + 2, len, &o, err);
        if (code < 0)
            return code;
    }
    if (!o) {
        o = find(command, NULL, 0, text[1]);
        if (!o)
            return prn_fail(err, PRONY_EUSAGE, "unknown option '-%c'", text[1]);
        if (text[2] && o->kind == PRN_OPTION_FLAG)
            return prn_fail(err, PRONY_EUSAGE, "option '-%c' takes no value", text[1]);
        /* Python's programs take -s=2, too, and no value of ours begins with '='. */
        *ret_value = text[2] ? text + 2 + (text[2] == '=') : NULL;
    }
    *ret_option = o;
    return 0;
}

/* One option at argv[*i]; moves *i past its value. */
static int parse_option(const struct prn_command *command, int argc, char **argv, int *i,
                        void *options, struct prony_error *err)
{
    const char *value = NULL;
    const struct prn_option *o = NULL;
    int code = identify(command, argv[*i], &o, &value, err);
    if (code < 0)
        return code;
    if (o->kind == PRN_OPTION_FLAG) {
        if (value)
            return prn_fail(err, PRONY_EUSAGE, "option '--%s' takes no value", o->name);
    } else if (!value) {
        if (*i + 1 >= argc)
            return prn_fail(err, PRONY_EUSAGE, "option '--%s' needs a value (%s)", o->name,
                            o->value);
        value = argv[++*i];
    }
    code = set(o, value, options, err);
    while (code == 0 && o->kind == PRN_OPTION_WORDS && *i + 1 < argc && argv[*i + 1][0] != '-')
        code = set(o, argv[++*i], options, err);
    return code;
}

/* An option that takes every word may have taken the argument too. */
static int fail_missing(const struct prn_command *command, const void *options,
                        struct prony_error *err)
{
    for (const struct prn_option *o = prn_command_options(command); o->kind; o++)
        if (o->kind == PRN_OPTION_WORDS &&
            ((const struct prn_strings *)((const char *)options + o->offset))->n > 0)
            return prn_fail(err, PRONY_EUSAGE,
                            "an argument is missing: %s (--%s takes every word up to the next "
                            "option: put the argument before it)",
                            command->arguments, o->name);
    return prn_fail(err, PRONY_EUSAGE, "an argument is missing: %s", command->arguments);
}

int prn_command_parse(const struct prn_command *command, int argc, char **argv, void *options,
                      struct prn_strings *arguments, bool *ret_help, struct prony_error *err)
{
    *ret_help = false;
    bool only_arguments = false;
    for (int i = 0; i < argc; i++) {
        const char *text = argv[i];
        int code = 0;
        if (only_arguments || text[0] != '-' || text[1] == '\0')
            code = add(arguments, text, err);
        else if (strcmp(text, "--") == 0)
            only_arguments = true;
        else if (strcmp(text, "--help") == 0 || strcmp(text, "-h") == 0) {
            *ret_help = true;
            return 0;
        } else
            code = parse_option(command, argc, argv, &i, options, err);
        if (code < 0)
            return code;
    }
    if (arguments->n < command->min_arguments)
        return fail_missing(command, options, err);
    if (arguments->n > command->max_arguments)
        return prn_fail(err, PRONY_EUSAGE, "unexpected argument '%s'",
                        arguments->items[command->max_arguments]);
    return 0;
}

void prn_command_release(const struct prn_command *command, void *options,
                         struct prn_strings *arguments)
{
    for (const struct prn_option *o = prn_command_options(command); o->kind; o++)
        if (o->kind == PRN_OPTION_LIST || o->kind == PRN_OPTION_WORDS)
            free(((struct prn_strings *)((char *)options + o->offset))->items);
    free(arguments->items);
}
