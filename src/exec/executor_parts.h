/* What the files of prony's side of an executor share: the process (executor_process.c), commands
 * to it (executor.c), and handing it over (handle.c). */
#ifndef PRN_EXEC_EXECUTOR_PARTS_H
#define PRN_EXEC_EXECUTOR_PARTS_H

#include "exec/guard.h"
#include "exec/handle.h"

struct prn_executor {
    bool alive, opened, exported;
    bool opening;  /* the answer to OPEN is still to be read */
    pid_t guard;   /* our child, above the executor, to be waited for; 0: reaped, or another's */
    pid_t starter; /* the thread that started it: the kernel ends the process with it */
    struct prn_executor_handle handle;
    char origin[64]; /* of the library */
    char offers[512];
    union prn_executor_samples *samples;
    const struct prn_guard_status *status;
    double timeout_s;
    const volatile int *cancelled;
    size_t slot;
    int64_t last_ns;                 /* of the last timed run; before that, as long as can be */
    bool unread;                     /* a run whose answer nobody has read yet */
    bool answered;                   /* it has come */
    bool wants_outputs, has_outputs; /* with the answer to a run; they are next in `message` */
    size_t outputs_bytes;            /* that their file has at least, as far as anybody looked */
    const char *reuse;               /* for the next load; NULL: nothing */
    bool binding;                    /* its answer may bring a file */
    int made_fd;                     /* -1: none */
    struct prn_message message;
};

/* An executor without process, descriptors and maps; NULL when there is no memory. */
struct prn_executor *prn_executor_new(double timeout_s, const volatile int *cancelled);
/* Maps what its descriptors refer to. 0, or -1 with errno. */
int prn_executor_map(struct prn_executor *x);

/* Kills the process, stopped or not, and waits for its end. */
void prn_executor_end(struct prn_executor *x);

enum prn_executor_ending {
    PRN_EXECUTOR_ENDING_BY_ITSELF, /* as the wait status says */
    PRN_EXECUTOR_ENDING_WITH_THREAD,
    PRN_EXECUTOR_ENDING_WITH_OWNER,
    PRN_EXECUTOR_ENDING_DEAF, /* it went on without, and was killed for it */
};

/* What became of a process that closed its socket, which normally means that it has ended. */
enum prn_executor_ending prn_executor_reap(struct prn_executor *x, int *ret_status);

/* The number that a process has here, from its pidfd; -1 when it has ended. */
pid_t prn_pidfd_process(int pidfd);

/* What it has mapped to write to, which is what the limit on memory counts; -1: not known. */
int64_t prn_executor_data(const struct prn_executor *x);

#endif
