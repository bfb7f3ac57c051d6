/* How far from what the machine can do operators and nodes are. */
#include "measure/ops/ops.h"

#include "measure/machine/machine.h"
#include "spec/spec.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SPEC_BYTES ((size_t)1 << 20)

/* What a backend is known to run with. */
struct running {
    int64_t threads;       /* of one operator at a time; 0: not known */
    const char *precision; /* instead of the model's; NULL: the model's */
    bool precision_known;
};

static int64_t number_of(const struct prn_spec *spec, const char *key)
{
    const char *text = prn_spec_option(spec, key);
    return text ? strtoll(text, NULL, 10) : 0;
}

/* Only processors of this machine were measured, and only operators one after the other have all
 * threads. */
static struct running running_of(const struct prn_profile *p, const struct prn_result *r)
{
    struct running running = {.precision_known = true};
    struct prn_arena arena = PRN_ARENA_INIT(SPEC_BYTES);
    struct prn_spec spec;
    struct prony_error ignored;
    size_t length = r->software ? strlen(r->software) : 0;
    bool here = p->n_hosts == 0 && r->hardware && strcmp(r->hardware, "local") == 0 && length > 4 &&
                strcmp(r->software + length - 4, "-cpu") == 0;
    if (here && prn_spec_parse(prn_result_spec(r), true, &arena, &spec, &ignored) == 0 &&
        number_of(&spec, "inter_threads") <= 1 && number_of(&spec, "streams") <= 1) {
        const char *precision = prn_spec_option(&spec, "precision");
        int64_t threads = number_of(&spec, "threads");
        running.threads = threads > 0 ? threads : p->machine->cores;
        if (precision && strcmp(precision, "bf16") == 0)
            running.precision = PRN_MACHINE_BFLOAT16;
        /* A runtime may compute more of a quantised model in 8 bits than its nodes say. */
        running.precision_known =
            !(precision && strcmp(precision, "f16") == 0) && !prn_result_model(p, r)->quantised;
    }
    prn_arena_release(&arena);
    return running;
}

static void find_roof(const struct prn_machine *machine, const struct running *running,
                      const struct prn_ops *ops, double all_weights_bytes, struct prn_ops_row *row)
{
    const char *precision = row->precision;
    struct prn_roof roof;
    if (precision && strcmp(precision, PRN_MACHINE_FLOAT32) == 0)
        precision = !running->precision_known ? NULL
                    : running->precision      ? running->precision
                                              : precision;
    const struct prn_roof_work work = {.flops = row->flops,
                                       .bytes = row->bytes,
                                       .weight_bytes = row->weight_bytes,
                                       .all_weights_bytes = all_weights_bytes,
                                       .precision = precision};
    bool cpu = !row->provider || strncmp(row->provider, "CPU", 3) == 0;
    if (!cpu || row->flops_nodes == 0 || !prn_ops_timed(ops, row) ||
        !prn_machine_roof(machine, running->threads, &work, &roof))
        return;
    row->roof = roof.of;
    row->roof_nodes = 1;
    row->roof_ns = roof.ns;
    row->roof_share = roof.ns / row->flops_ns;
}

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

/* Of how many kinds roofs may be: precisions, caches, memory. */
#define ROOFS_MAX 16

struct sum {
    const char *roof;
    double ns;
};

static void add_to_sum(struct sum sums[ROOFS_MAX], const struct prn_ops_row *node)
{
    size_t i = 0;
    while (i < ROOFS_MAX - 1 && sums[i].roof && strcmp(sums[i].roof, node->roof) != 0)
        i++;
    sums[i].roof = node->roof;
    sums[i].ns += node->roof_ns;
}

/* Sums up the nodes of an operator; its roof is the one with the largest part of the sum. */
static void sum_up_roofs(const struct prn_ops *ops, struct prn_ops_row *all)
{
    struct sum sums[ROOFS_MAX] = {0};
    double ns = 0;
    double roof_ns = 0;
    for (size_t i = 0; i < ops->n_nodes; i++) {
        const struct prn_ops_row *node = &ops->nodes[i];
        if (!node->roof || !same_text(node->op, all->op) ||
            !same_text(node->provider, all->provider))
            continue;
        add_to_sum(sums, node);
        all->roof_nodes++;
        roof_ns += node->roof_ns;
        ns += node->flops_ns;
    }
    if (all->roof_nodes == 0)
        return;
    const struct sum *most = &sums[0];
    for (size_t i = 1; i < ROOFS_MAX; i++)
        if (sums[i].ns > most->ns)
            most = &sums[i];
    all->roof = most->roof;
    all->roof_ns = roof_ns;
    all->roof_share = roof_ns / ns;
}

void prn_ops_roofs(struct prn_profile *profile)
{
    for (size_t i = 0; profile->machine && i < profile->n_results; i++) {
        const struct prn_result *result = &profile->results[i];
        struct prn_ops *ops = result->ops;
        if (!ops || ops->error)
            continue;
        struct running running = running_of(profile, result);
        double all_weights_bytes = 0;
        for (size_t k = 0; k < ops->n_nodes; k++)
            all_weights_bytes += ops->nodes[k].weight_bytes;
        for (size_t k = 0; running.threads > 0 && k < ops->n_nodes; k++)
            find_roof(profile->machine, &running, ops, all_weights_bytes, &ops->nodes[k]);
        for (size_t k = 0; running.threads > 0 && k < ops->n_operators; k++)
            sum_up_roofs(ops, &ops->operators[k]);
    }
}

bool prn_ops_roof_moves(const char *roof)
{
    return strcmp(roof, PRN_MACHINE_MEMORY) == 0 || (roof[0] == 'L' && roof[1] != '\0');
}
