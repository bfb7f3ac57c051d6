/*
 * Subcommands and their options are data. One `struct prn_command` per subcommand, defined at the
 * end of its cmd_<name>.c and listed in commands.c; parsing, --help, the man page and shell
 * completion all read the same tables.
 *
 * To add a subcommand: write cmd_<name>.c with a `const struct prn_command prn_command_<name>`,
 * and add its row to commands.c.
 */
#ifndef PRN_CLI_COMMAND_H
#define PRN_CLI_COMMAND_H

#include "base/buffer.h"

enum prn_option_kind {
    PRN_OPTION_END = 0,   /* ends a table */
    PRN_OPTION_GROUP,     /* a heading in the help: `help` is its text */
    PRN_OPTION_FLAG,      /* bool */
    PRN_OPTION_TEXT,      /* const char * */
    PRN_OPTION_LIST,      /* struct prn_strings: may be given several times */
    PRN_OPTION_WORDS,     /* struct prn_strings: every word up to the next option, and repeatable */
    PRN_OPTION_COUNT,     /* int64_t, within [min, max] */
    PRN_OPTION_NUMBER,    /* double, within [min, max] */
    PRN_OPTION_SECONDS,   /* double, within [min, max]: "60", "90s", "1m", "90d" */
    PRN_OPTION_PERCENT,   /* double fraction: "1%" and "0.01" both give 0.01 */
    PRN_OPTION_CHOICE,    /* int: index into `choices` */
    PRN_OPTION_LIBRARIES, /* struct prn_library_files (libraries.h): one option for each library */
};

struct prn_strings {
    const char **items; /* borrowed from argv */
    size_t n;
};

struct prn_option {
    enum prn_option_kind kind;
    char letter; /* 0: none */
    const char *name;
    const char *value;          /* what its value is called in the help, e.g. "FILE" */
    const char *help;           /* what it does, and its default where there is one */
    size_t offset;              /* of the field in the command's own options struct */
    double min, max;            /* COUNT, NUMBER and PERCENT */
    const char *const *choices; /* CHOICE: names, ending in NULL */
};

/* Rows of a table: the kind, without its prefix, the letter, and so on. What may stand behind them
 * is a range or `.choices`. */
#define PRN_OPTION(of, letter_or_0, text, value_text, at, help_text, ...)                        \
    {                                                                                            \
        .kind = PRN_OPTION_##of, .letter = (letter_or_0), .name = (text), .value = (value_text), \
        .help = (help_text), .offset = (at), __VA_ARGS__                                         \
    }
#define PRN_OPTION_RANGE(low, high) .min = (low), .max = (high)
#define PRN_OPTION_HEADING(text)                 \
    {                                            \
        .kind = PRN_OPTION_GROUP, .help = (text) \
    }

/* What a command found, where scripts act on it. It isn't an error: the command did what it was
 * asked, and has said on standard error what it found. */
enum prn_outcome {
    PRN_OUTCOME_REGRESSION = 1,
    PRN_OUTCOME_MISMATCH = 2,
};

/* A short option of several letters, for those who know it from another program. */
struct prn_option_alias {
    const char *word; /* "dtm" for -dtm */
    const char *name; /* of the option */
};

struct prn_command {
    const char *name;
    const char *arguments;   /* in the usage line, e.g. "MODEL.onnx" */
    const char *summary;     /* one line */
    const char *description; /* paragraphs for --help and the man page */
    const char *examples;    /* command lines, each with a comment line before it */
    const struct prn_option *options;
    const struct prn_option_alias *aliases; /* ending in a NULL word; NULL: none */
    size_t options_size; /* of the struct that the options fill; zeroed, then `defaults` */
    void (*defaults)(void *options);
    size_t min_arguments, max_arguments;
    unsigned takes; /* what files its arguments are: PRN_SAVED_BIT()s (report/saved.h); 0: none */
    /* Returns 0, an enum prn_outcome, or a negative PRONY_E…, whose `err` the caller prints. */
    int (*run)(const void *options, const struct prn_strings *arguments, struct prony_error *err);
    bool hidden; /* not in lists and pages */
};

/* All commands, ending in NULL. */
extern const struct prn_command *const prn_commands[];
const struct prn_command *prn_command_find(const char *name);

/* Its options, each by itself, ending in one without kind. Valid until the next call for another
 * command. */
const struct prn_option *prn_command_options(const struct prn_command *command);

/* The alias of an option; NULL: none. */
const char *prn_command_alias(const struct prn_command *command, const struct prn_option *option);

/* Parses argv (without the program's and the command's names) into `options` and the arguments that
 * are left. `*ret_help` is set when --help was asked for; nothing else is checked then. */
PRONY_MUST_CHECK int prn_command_parse(const struct prn_command *command, int argc, char **argv,
                                       void *options, struct prn_strings *arguments, bool *ret_help,
                                       struct prony_error *err);
/* Frees the lists that parsing made. */
void prn_command_release(const struct prn_command *command, void *options,
                         struct prn_strings *arguments);

/* cmd_explore.c: a trace as 'prony explore' shows it without options, for 'prony view'. */
struct prn_page; /* report/page.h */
PRONY_MUST_CHECK int prn_trace_page_add(struct prn_page *page, const char *path,
                                        struct prony_error *err);

#endif
