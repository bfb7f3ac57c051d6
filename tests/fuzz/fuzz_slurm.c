/* What Slurm's programs print. Texts that are kept are clean and end in time; a parser says the
 * same of the same bytes, and never reads past them. */
#include "service/slurm/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void need(bool holds)
{
    if (!holds)
        abort();
}

static void clean(const char *text, size_t size)
{
    need(strnlen(text, size) < size);
    for (const char *c = text; *c; c++)
        need((unsigned char)*c >= ' ' && *c != 0x7f);
}

static void rows(const char *text)
{
    struct prn_slurm_row row;
    const char *before = text;
    while (prn_slurm_next_row(&text, &row)) {
        need(text > before && row.job > 0 && row.start_s >= 0 && row.end_s >= 0);
        need(prn_slurm_phase(row.state) == row.phase || strlen(row.state) + 1 == sizeof row.state ||
             row.phase == PRN_SLURM_ODD);
        clean(row.state, sizeof row.state);
        clean(row.reason, sizeof row.reason);
        clean(row.node, sizeof row.node);
        clean(row.name, sizeof row.name);
        before = text;
    }
    need(!*text);
}

static void nodes(char *text)
{
    struct prn_slurm_node node;
    char name[PRN_SLURM_NAME_SIZE];
    while (prn_slurm_next_node(&text, &node)) {
        need(node.limit_s >= 0);
        const char *at = node.features;
        while (prn_slurm_next_feature(&at, name))
            need(name[0] && !strpbrk(name, "&|()[]*,"));
        /* Whatever it has, it has; and a node without a name for it has nothing. */
        if (node.gres[0] && !strpbrk(node.gres, "(,|:"))
            need(prn_slurm_has_gres(node.gres, node.gres));
    }
}

static void outcomes(const char *text)
{
    struct prn_slurm_outcome o;
    if (prn_slurm_parse_sacct(text, &o) || prn_slurm_parse_scontrol(text, &o))
        need(prn_slurm_phase(o.state) == PRN_SLURM_ENDED && o.status >= 0 && o.signal >= 0);
    /* What has ended isn't there. */
    bool there = false;
    if (prn_slurm_parse_scontrol(text, &o))
        need(prn_slurm_parse_there(text, &there) && !there);
    else if (prn_slurm_parse_there(text, &there))
        need(!prn_slurm_unknown("") && strstr(text, "JobState="));
    double seconds = prn_slurm_time_s(text);
    need(isnan(seconds) || seconds >= 0);
    uint64_t job = prn_slurm_submitted(text);
    need(job == 0 || strpbrk(text, "123456789") != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    need(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    struct prn_buffer out = PRN_BUFFER_INIT(4096);
    prn_slurm_complaint(&out, text);
    need(out.error == 0 && out.len > 0);
    clean(prn_buffer_text(&out), out.limit);
    if (prn_slurm_full(prn_buffer_text(&out)) != PRN_SLURM_NOT_FULL)
        need(prn_slurm_fault(prn_buffer_text(&out)) != PRN_SLURM_FAULT_OTHER);
    prn_buffer_release(&out);
    rows(text);
    outcomes(text);
    nodes(text); /* changes it */
    free(text);
    return 0;
}
