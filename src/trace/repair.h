/*
 * Events whose texts weren't escaped. Older releases of ONNX Runtime write the names of nodes as
 * they are, so a quote or a backslash in one breaks the JSON. What stands around a text is fixed:
 *
 *     {"cat" : "Node",…,"ph" : "X","name" :"NAME","args" : {"op_name" : "TEXT",…}}
 *
 * so its ends are found by that, and the event is written anew with the texts escaped.
 */
#ifndef PRN_TRACE_REPAIR_H
#define PRN_TRACE_REPAIR_H

#include "base/buffer.h"

/* An event that is longer isn't repaired. */
#define PRN_REPAIR_BYTES_MAX ((size_t)64 << 10)

enum prn_repair {
    PRN_REPAIR_NONE, /* not such an event */
    PRN_REPAIR_MORE, /* the text ends too early to tell */
    PRN_REPAIR_DONE,
};

/* `text` begins with the event; `ended`: nothing comes behind `len`. When done, the event is in
 * `out`, with PRN_SCAN_PADDING zeros behind it that don't count, and *ret_used tells how much of
 * `text` it was. Takes time in proportion to what it looks at, which ends where another event
 * begins. */
enum prn_repair prn_repair_event(const char *text, size_t len, bool ended, struct prn_buffer *out,
                                 size_t *ret_used);

#endif
