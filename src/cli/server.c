#include "cli/server.h"

#include "cli/output.h"
#include "base/clock.h"
#include "base/format.h"
#include "cli/progress.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#define TRIES 3

int prn_server_check(const struct prn_server_options *o, struct prony_error *err)
{
    const char *needs = o->token_file ? "--token-file"
                        : o->ca_file  ? "--ca"
                        : o->insecure ? "--insecure"
                                      : NULL;
    if (!o->address && needs)
        return prn_fail(err, PRONY_EUSAGE, "%s needs --server", needs);
    if (o->insecure && (o->token_file || o->ca_file))
        return prn_fail(err, PRONY_EUSAGE, "%s cannot be combined with --insecure",
                        o->token_file ? "--token-file" : "--ca");
    return 0;
}

/* ---- Asking ---- */

/* One line without echo. */
static bool ask(const char *address, char text[PRN_TOKEN_MAX])
{
    struct termios former;
    bool hidden = tcgetattr(STDIN_FILENO, &former) == 0;
    struct termios quiet = former;
    quiet.c_lflag &= ~(tcflag_t)ECHO;
    /* Before the prompt: what is typed as soon as that shows is neither echoed nor thrown away. */
    if (hidden)
        tcsetattr(STDIN_FILENO, TCSAFLUSH, &quiet);
    fprintf(stderr, "token for '%s': ", address);
    bool given = fgets(text, PRN_TOKEN_MAX, stdin) != NULL;
    if (hidden)
        tcsetattr(STDIN_FILENO, TCSAFLUSH, &former);
    fputc('\n', stderr);
    if (given)
        text[strcspn(text, "\r\n")] = '\0';
    return given && text[0];
}

static int try_token(const struct prn_remote_config *config, struct prony_error *err)
{
    const struct prn_remote_ops *ops;
    struct prn_remote *remote;
    int code = prn_connect(config, &ops, &remote, err);
    if (code < 0)
        return code;
    code = ops->ping(remote, err);
    ops->free(remote);
    return code;
}

/* A token that the service takes is kept for the next time. */
static int ask_for_token(struct prn_remote_config *config, struct prn_token *token,
                         struct prony_error *err)
{
    int code = PRONY_EDENIED;
    snprintf(token->source, sizeof token->source, "the prompt");
    for (int i = 0; i < TRIES && code == PRONY_EDENIED; i++) {
        if (!ask(config->address, token->text))
            return prn_fail(err, PRONY_EDENIED, "no token was given for '%s'", config->address);
        if (!prn_token_is_sound(token->text)) {
            code = prn_fail(err, PRONY_EDENIED, "the input is not a token");
            continue;
        }
        config->token = token->text;
        code = try_token(config, err);
        if (code == PRONY_EDENIED)
            prn_warn("%s", err->text);
    }
    struct prony_error fault;
    if (code == 0 && prn_token_save(token->text, &fault) < 0)
        prn_warn("%s", fault.text);
    return code;
}

/* ---- Showing ---- */

/* Who holds the hardware is known by a hash, which is enough to see whether it is always the same.
 */
static void show_queue(void *context, const struct prn_remote_place *place)
{
    (void)context;
    char line[512];
    snprintf(line, sizeof line, "waiting for %s: place %llu in the queue%s%s%s%s%s",
             place->hardware, (unsigned long long)place->place,
             place->n_holders ? ", held by " : "", place->n_holders ? place->holders[0] : "",
             place->n_holders > 1 ? " and others" : "", place->note ? "; " : "",
             place->note ? place->note : "");
    prn_progress_line(place->waited_s, 0, line);
}

static void show_upload(void *context, const char *file, uint64_t done, uint64_t total)
{
    struct prn_server_shown *shown = context;
    char line[512];
    char done_text[PRN_FORMAT_SIZE];
    char total_text[PRN_FORMAT_SIZE];
    int64_t now = prn_clock_ns();
    if (shown->begun_ns == 0)
        shown->begun_ns = now;
    if (done < total && now - shown->shown_ns < 100000000)
        return;
    shown->shown_ns = now;
    snprintf(line, sizeof line, "sending %.100s: %s of %s", file,
             prn_format_bytes(done_text, (double)done),
             prn_format_bytes(total_text, (double)total));
    prn_progress_line((double)(now - shown->begun_ns) / 1e9, 0, line);
}

void prn_server_show(struct prn_remote_config *config, struct prn_server_shown *shown)
{
    if (!prn_progress_shown())
        return;
    config->queued = show_queue;
    config->uploading = show_upload;
    config->context = shown;
}

static void show_notice(void *context, const char *text)
{
    (void)context;
    prn_announce("notice", "%s", text);
}

/* ---- Connecting ---- */

int prn_server_config(const struct prn_server_options *o, struct prn_token *token,
                      struct prn_remote_config *ret_config, struct prony_error *err)
{
    struct prn_remote_config config = {
        .address = o->address,
        .insecure = o->insecure,
        .ca_file = o->ca_file,
        .noticed = show_notice,
    };
    int code = prn_connect_token(&config, NULL, o->token_file, token, err);
    if (code == 0 && !config.token && prn_remote_is_secure(o->address, o->insecure, o->ca_file) &&
        isatty(STDIN_FILENO) && isatty(STDERR_FILENO))
        code = ask_for_token(&config, token, err);
    if (code == 0)
        *ret_config = config;
    return code;
}

int prn_server_connect(const struct prn_server_options *o, const volatile int *cancelled,
                       const struct prn_remote_ops **ret_ops, struct prn_remote **ret_remote,
                       struct prony_error *err)
{
    struct prn_token *token = prn_token_new();
    if (!token)
        return prn_fail_memory(err);
    struct prn_remote_config config;
    int code = prn_server_config(o, token, &config, err);
    if (code == 0) {
        config.cancelled = cancelled;
        code = prn_connect(&config, ret_ops, ret_remote, err);
    }
    prn_token_free(token);
    return code;
}
