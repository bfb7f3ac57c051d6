/*
 * What a file is that a user names: a model, a trace, or something that prony saved. Only its
 * beginning is read. Hints ("use prony explore") and shell completion come from this table.
 */
#ifndef PRN_REPORT_SAVED_H
#define PRN_REPORT_SAVED_H

#include <stddef.h>

/* The kind, what it is called, the command that shows it, and what its "schema" begins with. */
#define PRN_SAVED_MAP(X)                                                                   \
    X(MODEL, "an ONNX model", "profile", NULL)                                             \
    X(TRACE, "an ONNX Runtime trace", "explore", NULL)                                     \
    X(PAGE, "an HTML page", "view", NULL)                                                  \
    X(PROFILE, "a saved profile", "report", "prony.profile/")                              \
    X(COMPARISON, "a saved comparison of profiles", "view", "prony.profile-comparison/")   \
    X(TRACE_REPORT, "a saved report on a trace", "view", "prony.trace/")                   \
    X(TRACE_COMPARISON, "a saved comparison of traces", "view", "prony.trace-comparison/") \
    X(LAYER_PROFILE, "a saved layer profile", "view", "prony.layer-profile/")              \
    X(LAYERS, "a saved list of layers", "view", "prony.layers/")                           \
    X(SCHEDULE, "a saved schedule", "view", "prony.schedule/")                             \
    X(MACHINE, "a saved record of a machine", "machine", "prony.machine/")

enum prn_saved_kind {
    PRN_SAVED_UNKNOWN,
#define PRN_X(kind, text, command, schema) PRN_SAVED_##kind,
    PRN_SAVED_MAP(PRN_X)
#undef PRN_X
        PRN_SAVED_COUNT,
};

/* A set of kinds is a sum of these. */
#define PRN_SAVED_BIT(kind) (1U << PRN_SAVED_##kind)
#define PRN_SAVED_SHOWN                                                            \
    ((1U << PRN_SAVED_COUNT) - 1 - PRN_SAVED_BIT(MODEL) - PRN_SAVED_BIT(MACHINE) - \
     PRN_SAVED_BIT(UNKNOWN))

struct prn_saved {
    const char *text, *command;
    const char *schema; /* NULL: it isn't JSON of prony's */
};

/* Of each kind; empty for PRN_SAVED_UNKNOWN. */
extern const struct prn_saved prn_saved[PRN_SAVED_COUNT];

/* From the first bytes of a file, of which PRN_SAVED_HEAD are enough. */
#define PRN_SAVED_HEAD 4096
enum prn_saved_kind prn_saved_kind_of(const char *head, size_t length);

/* Of a file; unknown also when it can't be read or isn't a regular file. What is compressed, or an
 * array, may be a trace. */
enum prn_saved_kind prn_saved_kind_at(const char *path);
/* The same if the beginning leaves no doubt. */
enum prn_saved_kind prn_saved_proved_at(const char *path);

#endif
