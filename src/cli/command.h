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
#include "base/io.h"
#include "report/profile_report.h"

enum prn_option_kind {
    PRN_OPTION_END = 0, /* ends a table */
    PRN_OPTION_GROUP,   /* a heading in the help: `help` is its text */
    PRN_OPTION_FLAG,    /* bool */
    PRN_OPTION_TEXT,    /* const char * */
    PRN_OPTION_LIST,    /* struct prn_strings: may be given several times */
    PRN_OPTION_WORDS,   /* struct prn_strings: every word up to the next option, and repeatable */
    PRN_OPTION_COUNT,   /* int64_t, within [min, max] */
    PRN_OPTION_NUMBER,  /* double, within [min, max] */
    PRN_OPTION_PERCENT, /* double fraction: "1%" and "0.01" both give 0.01 */
    PRN_OPTION_CHOICE,  /* int: index into `choices` */
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

/* What a command found, where scripts act on it. It isn't an error: the command did what it was
 * asked, and has said on standard error what it found. */
enum prn_outcome {
    PRN_OUTCOME_REGRESSION = 1,
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
    /* Returns 0, an enum prn_outcome, or a negative PRONY_E…, whose `err` the caller prints. */
    int (*run)(const void *options, const struct prn_strings *arguments, struct prony_error *err);
    bool hidden; /* not in lists and pages */
};

/* All commands, ending in NULL. */
extern const struct prn_command *const prn_commands[];
const struct prn_command *prn_command_find(const char *name);

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

/* Texts made from the tables. */
void prn_command_help(const struct prn_command *command, struct prn_buffer *out);
void prn_command_overview(struct prn_buffer *out);
void prn_command_man(struct prn_buffer *out);
void prn_command_bash(struct prn_buffer *out);
void prn_command_zsh(struct prn_buffer *out);

/* The one mapping from what a command returned to exit statuses: 2 for misuse, 130 after Ctrl-C, 1
 * for other errors, 3 for a regression. */
int prn_exit_status(int code);

/* Prints "prony: warning: …" on standard error. */
void prn_warn(const char *format, ...) PRN_PRINTF(1, 2);

/* Prints "prony: WHAT: …" on standard error. */
void prn_announce(const char *what, const char *format, ...) PRN_PRINTF(2, 3);

/* Writes `out` to standard output or, through a temporary name that is renamed at the end, to
 * `path` (NULL or "-": standard output). */
PRONY_MUST_CHECK int prn_output(const char *path, const struct prn_buffer *out,
                                struct prony_error *err);

/* The same for what is made while it is written: `produce` writes it all to the descriptor; `name`
 * is for its errors. A signal that ends the program removes the temporary file first. */
PRONY_MUST_CHECK int prn_output_stream(const char *path, prn_write_producer *produce, void *context,
                                       struct prony_error *err);

/* Fails now when writing to `path` would fail, as far as that can be known: before long work. */
PRONY_MUST_CHECK int prn_output_check(const char *path, struct prony_error *err);

/* Whether `path` is, or would become, a file that is replaced as a whole when it is written. */
bool prn_output_is_file(const char *path);

/* Fails when writing to `path` would replace `input`, the file that the command reads. */
PRONY_MUST_CHECK int prn_output_spares(const char *path, const char *input,
                                       struct prony_error *err);

/* How wide what goes to standard output may be: as the terminal; without one, as COLUMNS says; 0:
 * there is no limit. */
size_t prn_output_width(void);

/* Reports a profile to `path`, as prn_output does. */
PRONY_MUST_CHECK int prn_output_profile(const char *path, const struct prn_profile *profile,
                                        enum prn_report_format format, enum prn_report_table table,
                                        struct prony_error *err);

/* Fails when this prony can't write the format: before long work. */
PRONY_MUST_CHECK int prn_output_check_format(enum prn_report_format format,
                                             struct prony_error *err);

/* Fails when a table is asked for and another format than CSV. */
PRONY_MUST_CHECK int prn_output_check_table(enum prn_report_format format,
                                            enum prn_report_table table, struct prony_error *err);

#endif
