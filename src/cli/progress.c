#include "cli/progress.h"

#include "base/format.h"
#include "base/text.h"

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

void prn_progress_line(double elapsed_s, double allowed_s, const char *line)
{
    struct winsize window = {0};
    size_t width = ioctl(STDERR_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 10
                       ? window.ws_col - 1u
                       : 79;
    struct prony_error safe; /* a line is as safe to print as an error */
    struct prn_buffer out = PRN_BUFFER_INIT(4096);
    char time[64];
    if (allowed_s > 0)
        snprintf(time, sizeof time, "%.0f of %.0f s  ", elapsed_s, allowed_s);
    else
        snprintf(time, sizeof time, "%.1f s  ", elapsed_s);
    prn_fail(&safe, 0, "%s%s", time, line);
    prn_text_shorten(&out, safe.text, width);
    fprintf(stderr, "\r\033[K%s", prn_buffer_text(&out));
    prn_buffer_release(&out);
}

static void show(void *context, const struct prn_progress *p)
{
    (void)context;
    char row[64] = "";
    char median[PRN_FORMAT_SIZE] = "";
    char width_text[32] = "";
    char line[512];
    if (p->rows > 1)
        snprintf(row, sizeof row, "%zu/%zu ", p->row, p->rows);
    bool known = p->samples > 0 && isfinite(p->median_ns);
    if (known)
        prn_format_duration(median, p->median_ns);
    if (p->samples > 0 && p->half_width <= 1)
        snprintf(width_text, sizeof width_text, " ±%.1f %%", 100 * p->half_width);
    snprintf(line, sizeof line, "%s%s%s%s%s: %s%s%s%s, process %lld, %lld runs", row, p->backend,
             p->point[0] ? " (" : "", p->point, p->point[0] ? ")" : "", p->phase, known ? ", " : "",
             median, width_text, (long long)p->launch, (long long)p->samples);
    prn_progress_line(p->elapsed_s, p->allowed_s, line);
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
