#include "measure/machine/machine.h"

#include <math.h>
#include <string.h>

const char *const prn_machine_kind_names[] = {
#define PRN_X(symbol, name) name,
    PRN_MACHINE_KIND_MAP(PRN_X)
#undef PRN_X
};

bool prn_machine_has_threads(const struct prn_machine *machine, int64_t threads)
{
    for (size_t i = 0; i < machine->n_rows; i++)
        if (machine->rows[i].threads == threads)
            return true;
    return false;
}

/* The fastest row that computes or moves bytes, as `moves` says; NULL: none. */
static const struct prn_machine_row *fastest(const struct prn_machine *machine, int64_t threads,
                                             bool moves, const char *of)
{
    const struct prn_machine_row *best = NULL;
    for (size_t i = 0; i < machine->n_rows; i++) {
        const struct prn_machine_row *row = &machine->rows[i];
        if (row->threads == threads && (row->kind != PRN_MACHINE_COMPUTE) == moves &&
            strcmp(row->of, of) == 0 && (!best || row->per_s > best->per_s))
            best = row;
    }
    return best;
}

double prn_machine_bandwidth(const struct prn_machine *machine, int64_t threads, const char *of)
{
    const struct prn_machine_row *row = fastest(machine, threads, true, of);
    return row ? row->per_s : NAN;
}

double prn_machine_flop_per_s(const struct prn_machine *machine, int64_t threads,
                              const char *precision)
{
    const struct prn_machine_row *row = fastest(machine, threads, false, precision);
    return row ? row->per_s : NAN;
}

/* The fastest row of the smallest level that is larger than `bytes`; memory when no cache is. */
static const struct prn_machine_row *level_past(const struct prn_machine *machine, int64_t threads,
                                                int64_t bytes)
{
    const char *level = PRN_MACHINE_MEMORY;
    int64_t smallest = INT64_MAX;
    for (size_t i = 0; i < machine->n_rows; i++) {
        const struct prn_machine_row *row = &machine->rows[i];
        if (row->threads == threads && row->kind != PRN_MACHINE_COMPUTE &&
            row->capacity_bytes > bytes && row->capacity_bytes < smallest) {
            level = row->of;
            smallest = row->capacity_bytes;
        }
    }
    return fastest(machine, threads, true, level);
}

/* What can't be in caches of `held` bytes: of a node's own bytes what doesn't fit, and of its
 * weights as large a part as of those of the whole model, which come by between two runs. */
static double bytes_past(const struct prn_roof_work *work, double held)
{
    double own = fmax(0, work->bytes - held);
    double part = work->all_weights_bytes > held ? 1 - held / work->all_weights_bytes : 0;
    double weights = work->weight_bytes > 0 ? work->weight_bytes * part : 0;
    return fmax(own, weights);
}

/* Raises the roof to the time that `amount` takes at a rate; false: the rate isn't known. */
static bool raise_roof(struct prn_roof *roof, const struct prn_machine_row *row, double amount)
{
    if (amount <= 0)
        return true;
    if (!row || !(row->per_s > 0))
        return false;
    double ns = amount / row->per_s * 1e9;
    if (ns > roof->ns)
        *roof = (struct prn_roof){row->of, row->kind != PRN_MACHINE_COMPUTE, ns};
    return true;
}

bool prn_machine_roof(const struct prn_machine *machine, int64_t threads,
                      const struct prn_roof_work *work, struct prn_roof *ret_roof)
{
    struct prn_roof roof = {NULL, false, 0};
    if (!(work->flops >= 0) || !(work->bytes >= 0) || (work->flops > 0 && !work->precision))
        return false;
    if (work->flops > 0 &&
        !raise_roof(&roof, fastest(machine, threads, false, work->precision), work->flops))
        return false;
    int64_t held = 0;
    const struct prn_machine_row *level;
    do {
        level = level_past(machine, threads, held);
        /* Caches that weren't measured hold something, too. */
        if (level && level->capacity_bytes < 0 && machine->caches_bytes > held)
            held = machine->caches_bytes;
        if (!raise_roof(&roof, level, bytes_past(work, (double)held)))
            return false;
        held = level ? level->capacity_bytes : -1;
    } while (held >= 0);
    if (!roof.of)
        return false;
    *ret_roof = roof;
    return true;
}
