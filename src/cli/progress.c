#include "cli/progress.h"

#include "base/format.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* ---- Signals ---- */

volatile int prn_cancelled;

/* The first Ctrl-C ends measuring and reports what there is; the second ends the program. */
static void on_interrupt(int number)
{
    if (prn_cancelled) {
        signal(number, SIG_DFL);
        raise(number); /* delivered when this returns */
    }
    prn_cancelled = 1;
}

void prn_signals_catch(void)
{
    static const int signals[] = {SIGINT, SIGTERM};
    struct sigaction action = {.sa_handler = on_interrupt};
    for (size_t i = 0; i < PRN_ARRAY_SIZE(signals); i++) {
        struct sigaction former;
        sigaction(signals[i], NULL, &former);
        if (former.sa_handler != SIG_IGN)
            sigaction(signals[i], &action, NULL);
    }
}

sigset_t prn_signals_hold(void)
{
    sigset_t waiting;
    sigset_t former;
    sigemptyset(&waiting);
    sigaddset(&waiting, SIGINT);
    sigaddset(&waiting, SIGTERM);
    sigaddset(&waiting, SIGHUP);
    sigprocmask(SIG_BLOCK, &waiting, &former);
    return former;
}

void prn_signals_release(const sigset_t *former)
{
    sigprocmask(SIG_SETMASK, former, NULL);
}

/* ---- Progress ---- */

void prn_progress_line(double elapsed_s, const char *line)
{
    struct winsize window = {0};
    int width = ioctl(STDERR_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 10
                    ? window.ws_col - 1
                    : 79;
    struct prony_error safe; /* a line is as safe to print as an error */
    prn_fail(&safe, 0, "%s", line);
    size_t shown = strnlen(safe.text, (size_t)width - 9);
    while (shown > 0 && ((unsigned char)safe.text[shown] & 0xc0) == 0x80)
        shown--; /* not in the middle of a character */
    fprintf(stderr, "\r\033[K%5.1f s  %.*s", elapsed_s, (int)shown, safe.text);
}

static void show(void *context, const struct prn_progress *p)
{
    (void)context;
    char row[64] = "";
    char median[PRN_FORMAT_SIZE] = "";
    char width_text[32] = "";
    char line[512];
    if (p->rows > 1)
        snprintf(row, sizeof row, "row %zu of %zu, ", p->row, p->rows);
    bool known = p->samples > 0 && isfinite(p->median_ns);
    if (known)
        prn_format_duration(median, p->median_ns);
    if (p->samples > 0 && isfinite(p->half_width))
        snprintf(width_text, sizeof width_text, " ±%.1f %%", 100 * p->half_width);
    snprintf(line, sizeof line, "%s%s%s%s%s: %s, launch %lld of %lld or more, %lld samples%s%s%s",
             row, p->backend, p->point[0] ? " (" : "", p->point, p->point[0] ? ")" : "", p->phase,
             (long long)p->launch, (long long)p->launches, (long long)p->samples, known ? ", " : "",
             median, width_text);
    prn_progress_line(p->elapsed_s, line);
}

prn_progress_function *prn_progress_shown(void)
{
    return isatty(STDERR_FILENO) ? show : NULL;
}

void prn_progress_end(void)
{
    if (isatty(STDERR_FILENO))
        fputs("\r\033[K", stderr);
}
