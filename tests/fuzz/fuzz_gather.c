/* The --gather expression, the selection made of it, and patterns for names: what the first line
 * holds is also matched with the rest. */
#include "base/text.h"
#include "trace/gather.h"
#include "trace/select.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A plain list of the values has to give the same values. The smallest number can't be written
 * down, because a sign isn't part of a number. */
static void check_values(const struct prn_gather *g)
{
    struct prn_buffer text = PRN_BUFFER_INIT((size_t)60 * 1024);
    bool writable = true;
    prn_buffer_add_char(&text, '[');
    for (size_t i = 0; i < g->n && !text.error; i++) {
        prn_buffer_printf(&text, "%" PRId64 ",", g->runs[i]);
        writable = writable && g->runs[i] != INT64_MIN;
    }
    prn_buffer_add_char(&text, ']');
    struct prn_gather again;
    struct prony_error err;
    if (!text.error && writable) {
        if (prn_gather_parse(prn_buffer_text(&text), &again, &err) < 0 || again.n != g->n ||
            (g->n > 0 && memcmp(again.runs, g->runs, g->n * sizeof *g->runs) != 0))
            abort();
        prn_gather_release(&again);
    }
    prn_buffer_release(&text);
}

/* The number of runs has to agree with what is said of each of them. */
static void check_selection(const char *expression, uint64_t n_runs)
{
    struct prn_run_choice choice = {PRN_RUN_UNSET, PRN_RUN_UNSET, expression};
    struct prn_run_selection *s;
    struct prony_error err;
    if (prn_run_selection_new(&choice, &s, &err) < 0)
        return;
    if (prn_run_selection_resolve(s, n_runs, &err) == 0) {
        uint64_t n = 0;
        for (uint64_t i = 0; i < n_runs; i++)
            n += prn_run_selection_has(s, i);
        if (n == 0 || n != prn_run_selection_count(s, n_runs))
            abort();
        struct prn_buffer out = PRN_BUFFER_INIT(4096);
        prn_run_selection_describe(s, n_runs, &out);
        if (out.error)
            abort();
        prn_buffer_release(&out);
    }
    prn_run_selection_free(s);
}

static void check_pattern(char *text)
{
    char *newline = strchr(text, '\n');
    if (!newline)
        return;
    *newline = '\0';
    bool matches = prn_text_glob(text, newline + 1);
    bool is_plain = text[strcspn(text, "*?[")] == '\0';
    if (is_plain && matches != (strcmp(text, newline + 1) == 0))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    if (!text)
        return 0;
    if (size > 0)
        memcpy(text, data, size);
    text[size] = '\0';
    struct prn_gather g;
    struct prony_error err;
    int code = prn_gather_parse(text, &g, &err);
    if (code == 0) {
        check_values(&g);
        prn_gather_release(&g);
        check_selection(text, 100);
    } else if (code != PRONY_EUSAGE || strncmp(err.text, "--gather: ", 10) != 0) {
        abort();
    }
    check_pattern(text);
    free(text);
    return 0;
}
