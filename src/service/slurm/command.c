#include "service/slurm/command.h"

#include "service/slurm/run.h"

#include <ctype.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ARENA_BYTES ((size_t)1 << 20)
#define SUBMIT_S 30.0 /* a busy controller takes its time */
#define ASK_S 15.0
#define ARGUMENTS_MAX 128
#define CANCEL_MAX 64 /* jobs at once */
#define IDLE_MARGIN_S 300.0

void prn_slurm_job_name(const char *hardware, const char *id, char ret_name[PRN_SLURM_NAME_SIZE])
{
    snprintf(ret_name, PRN_SLURM_NAME_SIZE, "prony-%.80s-%s", hardware, id);
    for (char *c = ret_name; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("-_.", *c))
            *c = '_';
}

/* ---- Submitting ---- */

struct arguments {
    struct prn_arena *arena;
    const char *argv[ARGUMENTS_MAX];
    size_t n;
    bool failed;
};

static void add(struct arguments *a, const char *option, const char *value)
{
    size_t size = strlen(option) + strlen(value) + 1;
    char *text = prn_arena_alloc(a->arena, size);
    a->failed |= !text || a->n + 1 >= ARGUMENTS_MAX;
    if (a->failed)
        return;
    snprintf(text, size, "%s%s", option, value);
    a->argv[a->n++] = text;
}

static void add_known(struct arguments *a, const char *option, const char *value)
{
    if (value)
        add(a, option, value);
}

/* Measurements want all of a node; a site may say otherwise. */
static bool says_memory(const struct prn_config_slurm *slurm)
{
    bool says = false;
    for (size_t i = 0; i < slurm->n_options; i++)
        says = says || strncmp(slurm->options[i], "--mem", 5) == 0;
    return says;
}

static void fill_arguments(struct arguments *a, const struct prn_slurm_job_order *order)
{
    const struct prn_config_slurm *slurm = &order->pool->slurm;
    char name[PRN_SLURM_NAME_SIZE];
    char host[HOST_NAME_MAX + 1] = "";
    char text[HOST_NAME_MAX + 64];
    prn_slurm_job_name(order->pool->hardware, order->id, name);
    gethostname(host, sizeof host - 1);
    add(a, "sbatch", "");
    for (size_t i = 0; i < slurm->n_options; i++)
        add(a, slurm->options[i], "");
    add(a, "--parsable", "");
    add(a, "--job-name=", name);
    snprintf(text, sizeof text, "worker of prony serve on %s, process %ld", host, (long)getpid());
    add(a, "--comment=", text);
    add(a, "--nodes=1", "");
    add(a, "--ntasks=1", "");
    add(a, "--exclusive", "");
    add(a, "--no-requeue", "");
    add(a, "--export=ALL", "");
    add(a, "--chdir=/", "");
    add(a, "--input=/dev/null", "");
    add(a, "--output=", slurm->output);
    snprintf(text, sizeof text, "%.0f", ceil(slurm->time_s / 60));
    add(a, "--time=", text);
    if (!says_memory(slurm))
        add(a, "--mem=0", "");
    add_known(a, "--partition=", slurm->partition.text);
    add_known(a, "--constraint=", slurm->constraint.text);
    add_known(a, "--gres=", slurm->gres.text);
    add_known(a, "--account=", slurm->account.text);
    add_known(a, "--qos=", slurm->qos.text);
}

/* A word of a shell, whatever is in it. */
static void add_word(struct prn_buffer *script, const char *text)
{
    prn_buffer_add_char(script, '\'');
    for (const char *c = text; *c; c++)
        if (*c == '\'')
            prn_buffer_add(script, "'\\''");
        else
            prn_buffer_add_char(script, *c);
    prn_buffer_add(script, "' ");
}

/* The script holds the key, and whoever may see the script (its owner and Slurm's operators) sees
 * it: that is why it is good for one worker, once. The shell gives it to the worker as its input,
 * so no list of processes shows it. */
static int write_script(const struct prn_slurm_job_order *order, struct prn_buffer *script,
                        struct prony_error *err)
{
    const struct prn_config_slurm *slurm = &order->pool->slurm;
    char program[PATH_MAX] = "";
    if (!slurm->program && readlink("/proc/self/exe", program, sizeof program - 1) < 0)
        return prn_fail(err, PRONY_EIO, "cannot find out which program this is");
    prn_buffer_add(script, "#!/bin/sh\n# Offers this node to prony.\nexec ");
    add_word(script, slurm->program ? slurm->program : program);
    prn_buffer_add(script, "worker --join-file - --server ");
    add_word(script, order->server);
    prn_buffer_add(script, "--hardware ");
    add_word(script, order->pool->hardware);
    if (slurm->ca) {
        prn_buffer_add(script, "--ca ");
        add_word(script, slurm->ca);
    }
    /* The service tells it when to leave. This is for when there is no service any more. */
    prn_buffer_printf(script, "--idle %.0f <<'KEY'\n%s\nKEY\n", slurm->idle_s + IDLE_MARGIN_S,
                      order->key);
    return prn_buffer_error(script, err);
}

static int run_sbatch(const struct prn_slurm_job_order *order, bool try, struct prn_buffer *out,
                      struct prony_error *err)
{
    struct prn_arena arena = PRN_ARENA_INIT(ARENA_BYTES);
    struct arguments a = {.arena = &arena};
    struct prn_buffer script = PRN_BUFFER_INIT((size_t)64 << 10);
    fill_arguments(&a, order);
    if (try)
        add(&a, "--test-only", "");
    int code = a.failed ? prn_fail_memory(err) : write_script(order, &script, err);
    if (code == 0) {
        const struct prn_slurm_call call = {.argv = a.argv,
                                            .input = prn_buffer_text(&script),
                                            .timeout_s = SUBMIT_S,
                                            .environment = order->pool->slurm.environment,
                                            .n_environment = order->pool->slurm.n_environment,
                                            .hurry = order->hurry};
        code = prn_slurm_run(&call, out, err);
    }
    if (script.data)
        explicit_bzero(script.data, script.len);
    prn_buffer_release(&script);
    prn_arena_release(&arena);
    return code;
}

int prn_slurm_submit(const struct prn_slurm_job_order *order, uint64_t *ret_job,
                     struct prony_error *err)
{
    struct prn_buffer out = PRN_BUFFER_INIT(4096);
    int code = run_sbatch(order, false, &out, err);
    uint64_t job = code == 0 ? prn_slurm_submitted(prn_buffer_text(&out)) : 0;
    if (code == 0 && job == 0)
        code = prn_fail(err, PRONY_EFORMAT, "'sbatch' doesn't say which job it submitted");
    if (code == 0)
        *ret_job = job;
    prn_buffer_release(&out);
    return code;
}

int prn_slurm_try(const struct prn_slurm_job_order *order, struct prony_error *err)
{
    struct prn_buffer out = PRN_BUFFER_INIT(4096);
    int code = run_sbatch(order, true, &out, err);
    prn_buffer_release(&out);
    return code;
}

/* ---- Asking ---- */

static int ask(const char *const *argv, const volatile int *hurry, struct prn_buffer *out,
               struct prony_error *err)
{
    const struct prn_slurm_call call = {.argv = argv, .timeout_s = ASK_S, .hurry = hurry};
    return prn_slurm_run(&call, out, err);
}

int prn_slurm_cancel(const uint64_t *jobs, size_t n, const volatile int *hurry,
                     struct prony_error *err)
{
    struct prn_buffer out = PRN_BUFFER_INIT(4096);
    int code = 0;
    for (size_t done = 0; done < n && code == 0; done += CANCEL_MAX) {
        char numbers[CANCEL_MAX][24];
        const char *argv[CANCEL_MAX + 3] = {"scancel", "--quiet"};
        for (size_t i = 0; i < CANCEL_MAX && done + i < n; i++) {
            snprintf(numbers[i], sizeof numbers[i], "%llu", (unsigned long long)jobs[done + i]);
            argv[i + 2] = numbers[i];
        }
        code = ask(argv, hurry, &out, err);
    }
    prn_buffer_release(&out);
    return code;
}

int prn_slurm_list(const char *names, const volatile int *hurry, struct prn_buffer *out,
                   struct prony_error *err)
{
    char user[32];
    struct prn_buffer name = PRN_BUFFER_INIT((size_t)1 << 20);
    snprintf(user, sizeof user, "--user=%u", (unsigned)geteuid());
    if (names)
        prn_buffer_printf(&name, "--name=%s", names);
    const char *const argv[] = {"squeue",
                                "--noheader",
                                user,
                                "--format=" PRN_SLURM_SQUEUE_FORMAT,
                                names ? "--states=all" : NULL, /* or the end */
                                prn_buffer_text(&name),
                                NULL};
    int code = prn_buffer_error(&name, err);
    if (code == 0)
        code = ask(argv, hurry, out, err);
    prn_buffer_release(&name);
    return code;
}

static int show_job(uint64_t job, const volatile int *hurry, struct prn_buffer *out,
                    struct prony_error *err)
{
    char number[32];
    snprintf(number, sizeof number, "%llu", (unsigned long long)job);
    const char *const argv[] = {"scontrol", "--oneliner", "show", "job", number, NULL};
    return ask(argv, hurry, out, err);
}

int prn_slurm_has(uint64_t job, const volatile int *hurry, bool *ret_there, struct prony_error *err)
{
    struct prn_buffer out = PRN_BUFFER_INIT((size_t)64 << 10);
    struct prony_error fault;
    int code = show_job(job, hurry, &out, &fault);
    bool there = false;
    if (code == 0 && !prn_slurm_parse_there(prn_buffer_text(&out), &there))
        code = prn_fail(&fault, PRONY_EFORMAT, "'scontrol' doesn't say how job %llu is",
                        (unsigned long long)job);
    else if (code == PRONY_ERUNTIME && prn_slurm_unknown(fault.text))
        code = 0;
    if (code == 0)
        *ret_there = there;
    else
        *err = fault;
    prn_buffer_release(&out);
    return code;
}

int prn_slurm_outcome(uint64_t job, const volatile int *hurry,
                      struct prn_slurm_outcome *ret_outcome, struct prony_error *err)
{
    char number[32];
    char option[40];
    struct prn_buffer out = PRN_BUFFER_INIT((size_t)64 << 10);
    snprintf(number, sizeof number, "%llu", (unsigned long long)job);
    snprintf(option, sizeof option, "--jobs=%s", number);
    const char *const sacct[] = {"sacct",       "--noheader",
                                 "--parsable2", "--allocations",
                                 option,        "--format=" PRN_SLURM_SACCT_FORMAT,
                                 NULL};
    bool known = show_job(job, hurry, &out, err) == 0 &&
                 prn_slurm_parse_scontrol(prn_buffer_text(&out), ret_outcome);
    if (!known) {
        prn_buffer_clear(&out);
        known = ask(sacct, hurry, &out, err) == 0 &&
                prn_slurm_parse_sacct(prn_buffer_text(&out), ret_outcome);
    }
    prn_buffer_release(&out);
    return known ? 0 : prn_fail(err, PRONY_ENOENT, "Slurm doesn't know how job %s ended", number);
}
