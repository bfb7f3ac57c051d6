#include "cli/output.h"

#include "base/clock.h"
#include "cli/command.h"
#include "format/json.h"
#include "report/page.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

int prn_exit_status(int code)
{
    switch (code) {
    case 0:
        return 0;
    case PRONY_EUSAGE:
        return 2;
    case PRN_OUTCOME_REGRESSION:
        return 3;
    case PRN_OUTCOME_MISMATCH:
        return 4;
    case PRONY_ECANCELED:
        return 130;
    default:
        return 1;
    }
}

static bool as_json;

void prn_messages_as_json(void)
{
    as_json = true;
}

bool prn_messages_are_json(void)
{
    return as_json;
}

/* One write, so that lines of several processes don't mix. */
static void print_json(const char *level, const char *text)
{
    struct prn_buffer line = PRN_BUFFER_INIT((size_t)16 << 10);
    int64_t now_ms = prn_wall_clock_ms();
    time_t now = now_ms / 1000;
    struct tm tm;
    char clock[32] = "";
    if (gmtime_r(&now, &tm))
        strftime(clock, sizeof clock, "%Y-%m-%dT%H:%M:%S", &tm);
    prn_buffer_printf(&line, "{\"time\":\"%s.%03dZ\",\"level\":\"%s\",\"event\":\"prony\",", clock,
                      (int)(now_ms % 1000), level);
    prn_buffer_add(&line, "\"error\":");
    prn_json_quote(&line, text);
    prn_buffer_add(&line, "}\n");
    fputs(prn_buffer_text(&line), stderr);
    prn_buffer_release(&line);
}

static void print_message(const char *what, const char *format, va_list args)
{
    struct prony_error message; /* a message is as safe to print as an error */
    prn_vfail(&message, 0, format, args);
    if (as_json)
        print_json(what, message.text);
    else
        fprintf(stderr, "prony: %s: %s\n", what, message.text);
}

void prn_warn(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print_message("warning", format, args);
    va_end(args);
}

void prn_announce(const char *what, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print_message(what, format, args);
    va_end(args);
}

/* ---- Results ---- */

static const int ending_signals[] = {SIGINT, SIGTERM, SIGHUP};
static struct sigaction former_actions[PRN_ARRAY_SIZE(ending_signals)];
static const char *volatile temporary_name; /* NULL: nothing to remove */

/* Removes the temporary file; the signal, raised again, then ends the program as it would have. */
static void on_ending_signal(int number)
{
    if (temporary_name)
        unlink(temporary_name);
    raise(number);
}

static void guard_temporary(const char *name)
{
    struct sigaction action = {.sa_handler = on_ending_signal, .sa_flags = (int)SA_RESETHAND};
    sigemptyset(&action.sa_mask);
    temporary_name = name;
    for (size_t i = 0; i < PRN_ARRAY_SIZE(ending_signals); i++) {
        sigaction(ending_signals[i], NULL, &former_actions[i]);
        if (former_actions[i].sa_handler != SIG_IGN)
            sigaction(ending_signals[i], &action, NULL);
    }
}

static void unguard_temporary(void)
{
    temporary_name = NULL;
    for (size_t i = 0; i < PRN_ARRAY_SIZE(ending_signals); i++)
        sigaction(ending_signals[i], &former_actions[i], NULL);
}

static int replace_file(const char *path, mode_t mode, prn_write_producer *produce, void *context,
                        struct prony_error *err)
{
    struct prn_buffer temporary = PRN_BUFFER_INIT(8192);
    prn_buffer_printf(&temporary, "%s.%ld.tmp", path, (long)getpid());
    int code = prn_buffer_error(&temporary, err);
    if (code == 0) {
        const char *name = prn_buffer_text(&temporary);
        guard_temporary(name);
        code = prn_write_and_rename(path, name, mode, produce, context, err);
        unguard_temporary();
    }
    prn_buffer_release(&temporary);
    return code;
}

/* Devices and pipes can't be replaced by renaming a file over them. */
static int write_special(const char *path, prn_write_producer *produce, void *context,
                         struct prony_error *err)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return prn_fail_errno(err, errno, "create", path);
    int code = produce(fd, path, context, err);
    if (close(fd) < 0 && code == 0)
        code = prn_fail_errno(err, errno, "write", path);
    return code;
}

/* Whether whoever read standard output has closed it, as `head` does when it has seen enough. */
static bool reader_is_gone(void)
{
    struct pollfd standard = {.fd = STDOUT_FILENO};
    return poll(&standard, 1, 0) == 1 && (standard.revents & (POLLERR | POLLHUP));
}

int prn_output_stream(const char *path, prn_write_producer *produce, void *context,
                      struct prony_error *err)
{
    if (!path || strcmp(path, "-") == 0) {
        int code = produce(STDOUT_FILENO, "standard output", context, err);
        return code == PRONY_EIO && reader_is_gone() ? 0 : code;
    }
    struct stat status;
    bool exists = stat(path, &status) == 0;
    if (exists && !S_ISREG(status.st_mode))
        return write_special(path, produce, context, err);
    /* A symbolic link stays, and what it points to is replaced. */
    char *target = exists ? realpath(path, NULL) : NULL;
    int code = replace_file(target ? target : path, exists ? status.st_mode & 0777 : 0666, produce,
                            context, err);
    free(target);
    return code;
}

static int produce_buffer(int fd, const char *name, void *context, struct prony_error *err)
{
    const struct prn_buffer *out = context;
    if (prn_write_all(fd, prn_buffer_text(out), out->len) < 0)
        return prn_fail_errno(err, errno, "write", name);
    return 0;
}

int prn_output(const char *path, const struct prn_buffer *out, struct prony_error *err)
{
    struct prn_buffer whole = *out;
    int code = prn_buffer_error(out, err);
    return code < 0 ? code : prn_output_stream(path, produce_buffer, &whole, err);
}

static int check_folder(const char *path, struct prony_error *err)
{
    const char *slash = strrchr(path, '/');
    size_t len = slash ? (size_t)(slash - path) + 1 : 0;
    char *folder = slash ? strndup(path, len) : strdup(".");
    if (!folder)
        return prn_fail_memory(err);
    int code = access(folder, W_OK | X_OK) < 0 ? prn_fail_errno(err, errno, "create", path) : 0;
    free(folder);
    return code;
}

int prn_output_check(const char *path, struct prony_error *err)
{
    if (!path || strcmp(path, "-") == 0) {
        int flags = fcntl(STDOUT_FILENO, F_GETFL);
        if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY)
            return prn_fail_errno(err, EBADF, "write", "standard output");
        return 0;
    }
    struct stat status;
    bool exists = stat(path, &status) == 0;
    if (exists && S_ISDIR(status.st_mode))
        return prn_fail_errno(err, EISDIR, "create", path);
    if (exists && !S_ISREG(status.st_mode))
        return access(path, W_OK) < 0 ? prn_fail_errno(err, errno, "create", path) : 0;
    char *target = exists ? realpath(path, NULL) : NULL;
    int code = check_folder(target ? target : path, err);
    free(target);
    return code;
}

size_t prn_output_width(void)
{
    struct winsize size;
    const char *columns = secure_getenv("COLUMNS");
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return size.ws_col;
    long width = columns ? strtol(columns, NULL, 10) : 0;
    return width > 0 && width < PRN_LOOK_UNLIMITED ? (size_t)width : PRN_LOOK_WIDTH;
}

struct prn_look prn_output_look(const char *path, bool verbose, enum prn_colour colour)
{
    const char *no_colour = secure_getenv("NO_COLOR");
    const char *terminal = secure_getenv("TERM");
    bool file = path && strcmp(path, "-") != 0;
    bool shown = !file && isatty(STDOUT_FILENO) && !(no_colour && no_colour[0]) &&
                 !(terminal && strcmp(terminal, "dumb") == 0);
    return (struct prn_look){.verbose = verbose,
                             .colour =
                                 colour == PRN_COLOUR_AUTO ? shown : colour == PRN_COLOUR_ALWAYS,
                             .width = file ? PRN_LOOK_WIDTH : prn_output_width()};
}

const char *const prn_colours[] = {"auto", "always", "never", NULL};

bool prn_output_is_file(const char *path)
{
    struct stat status;
    return strcmp(path, "-") != 0 && (stat(path, &status) < 0 || S_ISREG(status.st_mode));
}

int prn_output_spares(const char *path, const char *input, struct prony_error *err)
{
    struct stat to;
    struct stat from;
    if (!path || stat(path, &to) < 0 || stat(input, &from) < 0 || !S_ISREG(to.st_mode))
        return 0;
    if (to.st_dev != from.st_dev || to.st_ino != from.st_ino)
        return 0;
    return prn_fail(err, PRONY_EUSAGE, "cannot write '%s': it is also the input", path);
}

int prn_output_check_format(enum prn_report_format format, struct prony_error *err)
{
    return format == PRN_REPORT_FORMAT_HTML ? prn_page_check(err) : 0;
}

int prn_output_check_table(enum prn_report_format format, enum prn_report_table table,
                           struct prony_error *err)
{
    if (table == PRN_REPORT_TABLE_RESULTS || format == PRN_REPORT_FORMAT_CSV)
        return 0;
    return prn_fail(err, PRONY_EUSAGE, "--table needs --format csv");
}

int prn_output_profile(const char *path, const struct prn_profile *profile,
                       enum prn_report_format format, enum prn_report_table table,
                       const struct prn_look *look, struct prony_error *err)
{
    struct prn_buffer out = PRN_BUFFER_INIT(PRN_REPORT_MAX);
    int code = table == PRN_REPORT_TABLE_RESULTS
                   ? prn_profile_report(profile, format, look, &out, err)
                   : prn_profile_report_csv(profile, table, &out, err);
    if (code == 0)
        code = prn_output(path, &out, err);
    prn_buffer_release(&out);
    return code;
}
