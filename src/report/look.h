/* How a report for people is written: as text of a certain width, or as Markdown. Files for
 * programs (JSON, CSV) have everything and ask for nothing. */
#ifndef PRN_REPORT_LOOK_H
#define PRN_REPORT_LOOK_H

#include <stdbool.h>
#include <stddef.h>

/* Where nobody knows better: of a pipe, a file, a library. */
#define PRN_LOOK_WIDTH 80
/* Below this, lines are as wide as this. */
#define PRN_LOOK_WIDTH_MIN 40

/* What shows the columns that a table has no room for (prn_table_rest()). */
#define PRN_LOOK_MORE "--verbose or a wider terminal"

struct prn_look {
    bool markdown;
    bool verbose;     /* everything that is known */
    bool colour;      /* the terminal shows colours */
    size_t width;     /* of text; 0: PRN_LOOK_WIDTH */
    const char *more; /* options that show more, for a last line; NULL: none */
};

#define PRN_LOOK_UNLIMITED 100000

#endif
