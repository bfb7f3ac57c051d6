/* Where the memory goes, for people. Used inside src/report only. */
#ifndef PRN_REPORT_MEMORY_REPORT_H
#define PRN_REPORT_MEMORY_REPORT_H

#include "report/profile/view.h"
#include "report/prose.h"

struct prn_memory; /* measure/memory/memory.h */

/* "The model needs 412 MiB: 98.0 MiB weights, 280 MiB activations in node …" */
void prn_memory_text(const struct prn_memory *m, struct prn_buffer *out);

/* The sections of all results that were asked about it. */
PRONY_MUST_CHECK int prn_memory_sections(const struct prn_view *view, struct prn_prose *prose,
                                         struct prony_error *err);

#endif
