/* What commands that measure for a while have in common: progress on a terminal, and Ctrl-C, which
 * ends measuring and keeps what there is. */
#ifndef PRN_CLI_PROGRESS_H
#define PRN_CLI_PROGRESS_H

#include "measure/measure.h"

#include <signal.h>

/* Becomes non-zero with the first signal, if they are caught. */
extern volatile int prn_cancelled;
void prn_signals_catch(void);

/* Signals wait while a file is written: they are to end measuring, not the file. */
sigset_t prn_signals_hold(void);
void prn_signals_release(const sigset_t *former);

/* One line on the terminal that is written over: the time used, of the time allowed unless that is
 * 0, and the line, shortened to the width. */
void prn_progress_line(double elapsed_s, double allowed_s, const char *line);

typedef void prn_progress_function(void *context, const struct prn_progress *progress);

/* Writes one line that is written over; NULL when standard error is no terminal. */
prn_progress_function *prn_progress_shown(void);
void prn_progress_end(void);

#endif
