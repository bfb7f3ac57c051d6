/* What goes to the terminal or a file: warnings, results, exit statuses. */
#ifndef PRN_CLI_OUTPUT_H
#define PRN_CLI_OUTPUT_H

#include "base/io.h"
#include "report/profile/report.h"

/* The one mapping from what a command returned to exit statuses: 2 for misuse, 130 after Ctrl-C, 1
 * for other errors, 3 for a regression, 4 for outputs that differ. */
int prn_exit_status(int code);

/* Prints "prony: warning: …" on standard error. */
void prn_warn(const char *format, ...) PRN_PRINTF(1, 2);

/* Prints "prony: WHAT: …" on standard error. */
void prn_announce(const char *what, const char *format, ...) PRN_PRINTF(2, 3);

/* From now on these, and a command's error, are lines of JSON, as the service's log has them. */
void prn_messages_as_json(void);
bool prn_messages_are_json(void);

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

/* How wide what goes to standard output may be: as the terminal; without one, as COLUMNS says, or
 * PRN_LOOK_WIDTH. */
size_t prn_output_width(void);

/* How a report to `path` looks: colours only on a terminal, unless told otherwise. */
enum prn_colour { PRN_COLOUR_AUTO, PRN_COLOUR_ALWAYS, PRN_COLOUR_NEVER };
extern const char *const prn_colours[]; /* as options name them */
struct prn_look prn_output_look(const char *path, bool verbose, enum prn_colour colour);
#define PRN_COLOUR_HELP \
    "auto, always or never: colours in text (default auto: on a terminal, unless NO_COLOR is set)"

/* Reports a profile to `path`, as prn_output does. */
PRONY_MUST_CHECK int prn_output_profile(const char *path, const struct prn_profile *profile,
                                        enum prn_report_format format, enum prn_report_table table,
                                        const struct prn_look *look, struct prony_error *err);

/* Fails when this prony can't write the format: before long work. */
PRONY_MUST_CHECK int prn_output_check_format(enum prn_report_format format,
                                             struct prony_error *err);

/* Fails when a table is asked for and another format than CSV. */
PRONY_MUST_CHECK int prn_output_check_table(enum prn_report_format format,
                                            enum prn_report_table table, struct prony_error *err);

#endif
