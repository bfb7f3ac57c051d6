/* The sentences on which provider has which nodes. */
#include "report/ops/report.h"

#include "base/format.h"
#include "measure/ops/ops.h"

#include <inttypes.h>
#include <string.h>

#define NAMED 5 /* operators of a provider */

int prn_provider_length(const char *provider)
{
    const char *end = strstr(provider, "ExecutionProvider");
    return (int)(end && end > provider ? (size_t)(end - provider) : strlen(provider));
}

/* "CPU has Resize (2), Cast": those that the first one, which was asked for, hasn't got. */
static void tell_rest(const struct prn_ops_provider *p, struct prn_buffer *out)
{
    bool cpu = prn_ops_is_cpu(p->name);
    prn_buffer_printf(out, "; %s%.*s has ", cpu ? "the " : "", prn_provider_length(p->name),
                      p->name);
    for (size_t i = 0; i < p->n_operators && i < NAMED; i++) {
        prn_buffer_printf(out, "%s%s", i > 0 ? ", " : "", p->operators[i].op);
        if (p->operators[i].nodes > 1)
            prn_buffer_printf(out, " (%" PRId64 ")", p->operators[i].nodes);
    }
    if (p->n_operators > NAMED)
        prn_buffer_printf(out, " and %zu other operators", p->n_operators - NAMED);
}

void prn_ops_placement_text(const struct prn_ops *ops, struct prn_buffer *out)
{
    char text[PRN_FORMAT_SIZE];
    int64_t nodes = 0;
    double ns = 0;
    if (ops->n_providers == 0)
        return;
    for (size_t i = 0; i < ops->n_providers; i++) {
        nodes += ops->providers[i].nodes;
        ns += ops->providers[i].ns;
    }
    const struct prn_ops_provider *first = &ops->providers[0];
    const char *which = ops->assigned ? "" : " that ran";
    prn_buffer_printf(out, "%.*s takes ", prn_provider_length(first->name), first->name);
    if (first->nodes == 0)
        prn_buffer_printf(out, "none of the %" PRId64 " nodes%s", nodes, which);
    else if (first->nodes == nodes)
        prn_buffer_printf(out, "all %" PRId64 " nodes%s", nodes, which);
    else
        prn_buffer_printf(out, "%" PRId64 " of %" PRId64 " nodes%s, %.0f %% of their time",
                          first->nodes, nodes, which, ns > 0 ? 100 * first->ns / ns : 0);
    for (size_t i = 1; i < ops->n_providers; i++)
        if (ops->providers[i].nodes > 0)
            tell_rest(&ops->providers[i], out);
    prn_buffer_add_char(out, '.');
    if (ops->copies > 0)
        prn_buffer_printf(out, " %.4g %s between devices %s %s of a run.", ops->copies,
                          ops->copies == 1 ? "copy" : "copies", ops->copies == 1 ? "takes" : "take",
                          prn_format_duration(text, ops->copies_ns));
}
