/*
 * Loops that keep one unit of a core busy: multiplying and adding in registers, reading, or reading
 * and writing. Each is written for several sets of instructions; which a processor has is found out
 * when the program runs.
 */
#ifndef PRN_MEASURE_MACHINE_KERNELS_H
#define PRN_MEASURE_MACHINE_KERNELS_H

#include "measure/machine/machine.h"

/* Buffers of kernels that move bytes are aligned to this, and their sizes multiples of it. */
#define PRN_KERNEL_BLOCK 4096

struct prn_machine_kernel {
    enum prn_machine_kind kind;
    const char *of;           /* the precision; NULL: of any level */
    const char *instructions; /* as people call them */
    bool (*available)(void);
    double operations; /* of one pass, if it computes */
    /* Goes over the buffer `passes` times; `past_caches`: what is written needn't be cached. */
    void (*pass)(void *buffer, size_t bytes, int64_t passes, bool past_caches);
};

/* Of a buffer, what a triad reads and writes in a pass. */
size_t prn_kernel_triad_bytes(size_t bytes);

/* The best one that this processor has; NULL: there is none. */
const struct prn_machine_kernel *prn_machine_kernel(enum prn_machine_kind kind, const char *of);

#endif
