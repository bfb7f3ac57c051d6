/*
 * What this machine can do: operations per second of each precision that it has instructions for,
 * and bytes per second from each cache and from memory, with one thread and with one per core.
 *
 * - Kernels are our own (kernels.h). They take turns, a unit of each per round, so that a slow
 *   moment of the machine hits all of them.
 * - A figure is the mean of the faster half of its units, because what disturbs a unit only makes
 *   it slower. It has an interval if these are at least PRN_UNITS_MIN.
 * - A record is plain data and lives in somebody else's arena; NAN and -1 are not known.
 * - Roofs are the shortest times that follow from a record (roof.c).
 */
#ifndef PRN_MEASURE_MACHINE_H
#define PRN_MEASURE_MACHINE_H

#include "base/arena.h"
#include "base/error.h"
#include "base/stats.h"
#include "format/schema.h"

#define PRN_MACHINE_ROWS_MAX 1000
#define PRN_MACHINE_ROUNDS_MAX 1000000
#define PRN_MACHINE_THREADS_MAX 1024
/* Most different numbers of threads. */
#define PRN_MACHINE_COUNTS_MAX 8

/* Units of each figure: at most, and at least unless it is interrupted. */
#define PRN_MACHINE_ROUNDS 15
#define PRN_MACHINE_ROUNDS_MIN (2 * PRN_UNITS_MIN - 1)

/* What a row is of: operations on numbers, or a way to move bytes. */
#define PRN_MACHINE_KIND_MAP(X) \
    X(COMPUTE, "compute")       \
    X(READ, "read")             \
    X(TRIAD, "triad")

enum prn_machine_kind {
#define PRN_X(symbol, name) PRN_MACHINE_##symbol,
    PRN_MACHINE_KIND_MAP(PRN_X)
#undef PRN_X
};

extern const char *const prn_machine_kind_names[];

#define PRN_MACHINE_FLOAT32 "float32"
#define PRN_MACHINE_BFLOAT16 "bfloat16"
#define PRN_MACHINE_INT8 "int8"
#define PRN_MACHINE_MEMORY "memory"

struct prn_machine_row {
    enum prn_machine_kind kind;
    const char *of;           /* the precision, "L1" and so on, or "memory" */
    const char *instructions; /* that the kernel uses: "AVX-512" */
    int64_t threads;          /* each on a core of its own */
    int64_t capacity_bytes; /* of the caches of that level that these threads have; -1: no cache */
    int64_t working_bytes;  /* that the kernel went over, all threads together; -1: none */
    int64_t units;          /* that the figure is the mean of */
    double per_s;           /* operations or bytes */
    double low_per_s, high_per_s; /* its 95 % interval; NAN: too few units */
};

struct prn_machine {
    const char *prony_version, *created;
    const char *fingerprint; /* of the machine; prn_machine_fingerprint() */
    const char *cpu;
    int64_t cores;        /* that this process may use, without their second threads */
    int64_t caches_bytes; /* of all levels behind these cores; -1: not known */
    double max_time_s;
    int64_t rounds; /* units of each figure, of which the faster half counts */
    int64_t redone_units;
    bool noisy;       /* the canary was slow around many units */
    bool interrupted; /* before there were units enough */
    size_t n_rows;
    struct prn_machine_row *rows;
};

struct prn_machine_request {
    int64_t threads[PRN_MACHINE_COUNTS_MAX]; /* ascending */
    size_t n_threads;                        /* 0: 1, and one per core */
    double max_time_s;
    const volatile int *cancelled; /* may be NULL */
    /* Called before each unit; may be NULL. */
    void (*progress)(void *context, double elapsed_s, const char *line);
    void *context;
};

/* Texts and rows belong to `arena`. Cancelled before the first round is over, it fails. */
PRONY_MUST_CHECK int prn_machine_measure(const struct prn_machine_request *request,
                                         struct prn_arena *arena, struct prn_machine *ret_machine,
                                         struct prony_error *err);

/* Names this machine as it is seen from here: processor, cores, caches. Machines that are alike
 * have the same one, as they do in a history. */
#define PRN_MACHINE_FINGERPRINT_SIZE 17
void prn_machine_fingerprint(char text[PRN_MACHINE_FINGERPRINT_SIZE]);

bool prn_machine_has_threads(const struct prn_machine *machine, int64_t threads);

/* The mean of the faster half of the units, which are put in order, and its interval. Units that
 * differ a lot make that wide, but no rate is below 0. */
void prn_machine_summarise(double *units, size_t n, struct prn_machine_row *row);

/* ---- Roofs ---- */

/* What is computed and moved; NAN: not known. */
struct prn_roof_work {
    double flops;
    double bytes;             /* all that is read and written */
    double weight_bytes;      /* of these, weights */
    double all_weights_bytes; /* of the model: caches keep a part of them from run to run */
    const char *precision;    /* NULL: not known */
};

struct prn_roof {
    const char *of; /* the precision, or the level, that takes longest; of the machine's record */
    bool memory;    /* it is a level */
    double ns;      /* the shortest time that the machine could take */
};

/* The roof over some work with this number of threads. False when it isn't known: without flops,
 * bytes or precision, and where the record has no row for them. */
bool prn_machine_roof(const struct prn_machine *machine, int64_t threads,
                      const struct prn_roof_work *work, struct prn_roof *ret_roof);

/* The fastest way to move bytes at a level, "memory" or "L2"; NAN: not measured. */
double prn_machine_bandwidth(const struct prn_machine *machine, int64_t threads, const char *of);
double prn_machine_flop_per_s(const struct prn_machine *machine, int64_t threads,
                              const char *precision);

#endif
