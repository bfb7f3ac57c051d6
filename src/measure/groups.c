#include "measure/groups.h"

#include <math.h>
#include <stdbool.h>

/* How full the present group is. */
struct load {
    size_t rows;
    double bytes;
};

static bool fits(struct load load, struct load more, int64_t available_bytes)
{
    return load.rows + more.rows <= PRN_GROUP_ROWS_MAX &&
           (available_bytes < 0 || load.bytes + more.bytes <= (double)available_bytes);
}

static struct load sum(struct load load, struct load more)
{
    return (struct load){load.rows + more.rows, load.bytes + more.bytes};
}

static struct load load_of(const struct prn_group_row *row)
{
    return (struct load){1, fmax(0, (double)row->bytes)};
}

size_t prn_groups_plan(struct prn_group_row *rows, size_t n, int64_t available_bytes)
{
    const struct load empty = {0};
    struct load load = empty;
    size_t group = 0;
    size_t cut = SIZE_MAX; /* the point that fits into no group as a whole and goes row by row */
    for (size_t i = 0; i < n;) {
        struct load more = empty;
        size_t end = i;
        for (; end < n && rows[end].point == rows[i].point; end++)
            more = sum(more, load_of(&rows[end]));
        if (!fits(empty, more, available_bytes))
            cut = rows[i].point;
        if (rows[i].point == cut) {
            more = load_of(&rows[i]);
            end = i + 1;
        }
        if (load.rows > 0 && !fits(load, more, available_bytes)) {
            group++;
            load = empty;
        }
        load = sum(load, more);
        for (; i < end; i++)
            rows[i].group = group;
    }
    return n > 0 ? group + 1 : 0;
}
