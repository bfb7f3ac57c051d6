/* The table of a machine's record. */
#include "report/machine/report.h"

#include "format/json.h"
#include "format/json_fields.h"
#include "report/profile/parts.h"

#include <string.h>

static const struct prn_name kinds[] = {
#define PRN_X(symbol, name) {PRN_MACHINE_##symbol, name},
    PRN_MACHINE_KIND_MAP(PRN_X)
#undef PRN_X
        {0, NULL},
};

#define PRN_OF struct prn_machine_row
static const struct prn_member row_members[] = {
    PRN_CHOICE(kind, kinds,
               "'compute': operations on numbers in registers; 'read': loads; 'triad': a = b + s * "
               "c, two loads for a store."),
    PRN_TEXT(of, "The precision of numbers ('float32', 'bfloat16', 'int8'), or where the bytes "
                 "are: 'L1' to 'L4', 'memory'."),
    PRN_TEXT(instructions, "That the loop uses."),
    PRN_INTEGER(threads, "Threads, each on a core of its own.", .min = 1,
                .max = PRN_MACHINE_THREADS_MAX),
    PRN_INTEGER(capacity_bytes, "Of the caches of that level behind these threads; null: no cache.",
                .flags = PRN_NULL),
    PRN_INTEGER(working_bytes, "That the loop goes over, all threads together; null: none.",
                .flags = PRN_NULL),
    PRN_INTEGER(units, "Measurements that the rate is the mean of: the faster half of all."),
    PRN_NUMBER(per_s, "Operations per second, or bytes.", .flags = PRN_FINITE),
    PRN_NUMBER(low_per_s, "Lower end of its 95 % interval; null with fewer than 5 units."),
    PRN_NUMBER(high_per_s, "Upper end."),
};
const struct prn_schema prn_machine_row_schema =
    PRN_SCHEMA("MachineRate", row_members, "What some threads of the machine can do.");
#undef PRN_OF

static void write_verdict(struct prn_json_writer *w, const char *key, const void *record)
{
    struct prn_buffer verdict = PRN_BUFFER_INIT(PRN_MACHINE_TEXT_MAX);
    prn_machine_verdict(record, &verdict);
    prn_part_take_text(w, key, &verdict);
}

#define PRN_OF struct prn_machine
static const struct prn_member part_members[] = {
    PRN_TEXT(fingerprint, "Tells machines apart: a hash of processor, cores and caches."),
    PRN_TEXT(created, "When it was measured (ISO 8601, UTC)."),
    PRN_TEXT(prony_version, "Who measured."),
    PRN_TEXT(cpu, "Its processor."),
    PRN_INTEGER(cores, "Cores that could be used, without their second threads."),
    PRN_INTEGER(caches_bytes, "Of all levels behind these cores; null: not known.",
                .flags = PRN_NULL),
    PRN_NUMBER(max_time_s, "Limit on the time."),
    PRN_INTEGER(rounds, "Measurements of each rate.", .max = PRN_MACHINE_ROUNDS_MAX),
    PRN_INTEGER(redone_units, "Measurements that were repeated because the canary was slow."),
    PRN_BOOL(noisy, "Other work disturbed the machine."),
    PRN_BOOL(interrupted, "There are fewer rounds than wanted."),
    PRN_ARRAY(rows, n_rows, &prn_machine_row_schema, "What it can do.", .key = "rates",
              .max = PRN_MACHINE_ROWS_MAX),
};
const struct prn_schema prn_machine_part_schema =
    PRN_SCHEMA("MachineRecord", part_members, "What a machine can do, as 'prony machine' found.");

static const struct prn_member machine_members[] = {
    PRN_CONSTANT("schema", PRN_MACHINE_SCHEMA),
    PRN_COMPUTED(TEXT, "verdict", write_verdict, PRN_VERDICT_DOC),
    {.name = "machine", .kind = PRN_KIND_INLINE, .schema = &prn_machine_part_schema},
};
const struct prn_schema prn_machine_schema =
    PRN_SCHEMA("Machine", machine_members,
               "What `prony machine` found out. Null stands for what isn't known. Readers ignore "
               "keys that they don't know.");
#undef PRN_OF

int prn_machine_read_json(const char *path, struct prn_arena *arena,
                          struct prn_machine *ret_machine, struct prony_error *err)
{
    json_t *root = NULL;
    int code = prn_json_read(path, PRN_MACHINE_TEXT_MAX, &root, err);
    if (code < 0)
        return code;
    struct prn_fields r = {.name = strcmp(path, "-") == 0 ? "standard input" : path,
                           .what = "record of a machine",
                           .arena = arena,
                           .err = err};
    struct prn_field top = {.value = root};
    struct prn_machine machine = {0};
    prn_part_check_schema(&r, &top, PRN_MACHINE_SCHEMA);
    if (r.code == 0)
        prn_schema_read(&r, &top, &prn_machine_schema, &machine);
    json_decref(root);
    if (r.code == 0)
        *ret_machine = machine;
    return r.code;
}
