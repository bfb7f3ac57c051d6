/*
 * Messages between prony and an executor: one packet each on a SOCK_SEQPACKET socket. A message is
 * a type and a row of fields, written and read in the same order by both sides. The first one says
 * prony's version, because a library may find the program of another one. Reading past the end
 * sticks as an error, checked once.
 *
 * Tensors and samples don't travel here: they lie in shared memory, and messages say where.
 */
#ifndef PRN_EXEC_MESSAGE_H
#define PRN_EXEC_MESSAGE_H

#include "base/error.h"

#include <stdbool.h>

#define PRN_MESSAGE_MAX ((size_t)128 * 1024)

/* Commands but OPEN begin with the number of the slot whose model they speak of. */
enum prn_message_type {
    /* prony's version, software, library, options, profile folder, cache folder, model, folder,
     * limits → version, library, sandbox, origin of the library, what else it offers */
    PRN_MESSAGE_OPEN,
    PRN_MESSAGE_LOAD,   /* model, file to reuse → ns */
    PRN_MESSAGE_UNLOAD, /* nothing → nothing */
    PRN_MESSAGE_BIND,   /* inputs, their places in the shared memory → maybe a file */
    PRN_MESSAGE_RUN,    /* warm-ups, repeats, most ns → number of samples */
    /* workers, rate, seed, most requests, span, patience → number of requests, gave up */
    PRN_MESSAGE_DRIVE,
    PRN_MESSAGE_OUTPUTS,         /* lane → outputs, their places in the shared memory */
    PRN_MESSAGE_PLACEMENT,       /* nothing → providers, operators, nodes */
    PRN_MESSAGE_BEGIN_PROFILING, /* nothing → nothing */
    PRN_MESSAGE_END_PROFILING,   /* nothing → nothing */
    PRN_MESSAGE_STARTED,         /* before the reply to OPEN: the executor's pidfd */
    PRN_MESSAGE_HANDLE,          /* an executor that is handed over (handle.c) */
    PRN_MESSAGE_OK,              /* reply: what is said above */
    PRN_MESSAGE_ERROR,           /* reply: code, text */
};

struct prn_message {
    uint32_t type;
    size_t len;      /* bytes of `data` that are filled */
    size_t position; /* where reading stands */
    bool failed;     /* something didn't fit, or was read past the end */
    unsigned char data[PRN_MESSAGE_MAX];
};

void prn_message_begin(struct prn_message *m, enum prn_message_type type);
void prn_message_put_int(struct prn_message *m, int64_t value);
void prn_message_put_number(struct prn_message *m, double value);
void prn_message_put_text(struct prn_message *m, const char *text); /* NULL travels too */

int64_t prn_message_int(struct prn_message *m);
double prn_message_number(struct prn_message *m);
/* Points into the message; NULL was sent, or an error. */
const char *prn_message_text(struct prn_message *m);
/* A count that must be within [0, most]. */
size_t prn_message_count(struct prn_message *m, size_t most);

/* Both return 0, or -1 with errno. Receiving gives -1 and errno 0 at the end of the stream. */
int prn_message_send(struct prn_message *m, int fd);
int prn_message_receive(struct prn_message *m, int fd);
/* Receives it, and leaves it where it is. */
int prn_message_peek(struct prn_message *m, int fd);

/* Sends only what the other side has room for; EAGAIN otherwise. */
int prn_message_try_send(struct prn_message *m, int fd);

#define PRN_MESSAGE_FDS_MAX 8

/* The same with descriptors. Received ones are closed on exec; there are at most `most` of them, or
 * it fails with all of them closed. */
int prn_message_send_fds(struct prn_message *m, int fd, const int *fds, size_t n);
int prn_message_receive_fds(struct prn_message *m, int fd, int *ret_fds, size_t most,
                            size_t *ret_n);

#endif
