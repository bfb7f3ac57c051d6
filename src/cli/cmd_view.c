/* `prony view`: saved reports in a browser. */
#include "cli/command.h"

#include "cli/output.h"
#include "base/spawn.h"
#include "record/net.h"
#include "report/page.h"
#include "report/profile/json.h"
#include "report/saved.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* More than anybody wants to see at once. */
#define FILES_MAX 100

extern char **environ;

struct view_options {
    const char *address;
    bool no_browser;
};

/* ---- Files ---- */

static int read_text(const char *path, struct prn_buffer *out, struct prony_error *err)
{
    if (strcmp(path, "-") == 0)
        return prn_buffer_read_fd(out, STDIN_FILENO, "standard input", err);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return prn_fail_errno(err, errno, "read", path);
    int code = prn_buffer_read_fd(out, fd, path, err);
    close(fd);
    return code;
}

static int add_text(struct prn_page *page, const char *name, const struct prn_buffer *text,
                    enum prn_saved_kind kind, struct prony_error *err)
{
    if (kind == PRN_SAVED_PAGE)
        return prn_page_add_html(page, name, prn_buffer_text(text), text->len, err);
    if (kind == PRN_SAVED_TRACE)
        return prn_fail(err, PRONY_EUSAGE, "a trace is read twice; name a file instead of -");
    return prn_page_add_json(page, name, prn_buffer_text(text), text->len, NULL, err);
}

static int add_file(struct prn_page *page, const char *path, struct prony_error *err)
{
    bool standard = strcmp(path, "-") == 0;
    if (!standard && prn_saved_kind_at(path) == PRN_SAVED_TRACE)
        return prn_trace_page_add(page, path, err);
    struct prn_buffer text = PRN_BUFFER_INIT(PRN_PROFILE_FILE_MAX);
    int code = read_text(path, &text, err);
    enum prn_saved_kind kind = prn_saved_kind_of(prn_buffer_text(&text), text.len);
    if (code == 0)
        code = add_text(page, standard ? "standard input" : path, &text, kind, err);
    prn_buffer_release(&text);
    return code;
}

/* ---- The browser ---- */

static bool want_browser;

/* Whoever sees no browser has the address; so nothing that goes wrong here matters. */
static void open_browser(const char *url)
{
    const char *named = secure_getenv("BROWSER");
    const char *program = named && *named ? named : "xdg-open";
    char *const argv[] = {strdup(program), strdup(url), NULL};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    pid_t pid;
    if (argv[0] && argv[1] && posix_spawn_file_actions_init(&files) == 0) {
        if (posix_spawnattr_init(&attributes) == 0) {
            posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
            posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0);
            posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0);
            /* Ctrl-C in this terminal ends prony, not the browser. */
            prn_spawn_apart(&attributes);
            if (posix_spawnp(&pid, program, &files, &attributes, argv, environ) != 0)
                prn_warn("cannot start '%s'; open the address yourself, or set BROWSER", program);
            posix_spawnattr_destroy(&attributes);
        }
        posix_spawn_file_actions_destroy(&files);
    }
    free(argv[0]);
    free(argv[1]);
}

static void ready(const char *url)
{
    printf("prony %s shows it at %s until Ctrl-C\n", prony_version(), url);
    fflush(stdout);
    if (want_browser)
        open_browser(url);
}

static int view_run(const void *opaque, const struct prn_strings *arguments,
                    struct prony_error *err)
{
    const struct view_options *o = opaque;
    const struct prn_net *net;
    struct prn_page page = PRN_PAGE_INIT;
    struct prn_buffer out = PRN_BUFFER_INIT(PRN_PAGE_MAX);
    int code = prn_page_check(err);
    for (size_t i = 0; i < arguments->n && code == 0; i++)
        code = add_file(&page, arguments->items[i], err);
    if (code == 0)
        code = prn_page_write(&page, &out, err);
    prn_page_release(&page);
    if (code == 0)
        code = prn_net_load(&net, err);
    if (code == 0) {
        const struct prn_view_options options = {.address = o->address,
                                                 .page = prn_buffer_text(&out),
                                                 .length = out.len,
                                                 .policy = prn_page_policy(),
                                                 .ready = ready};
        want_browser = !o->no_browser;
        code = net->view(&options, err);
    }
    prn_buffer_release(&out);
    return code;
}

static void view_defaults(void *opaque)
{
    struct view_options *o = opaque;
    o->address = "127.0.0.1:0";
}

#define FIELD(name) offsetof(struct view_options, name)

static const struct prn_option option_table[] = {
    PRN_OPTION(TEXT, 0, "address", "ADDR:PORT", FIELD(address),
               "where to serve it, on this machine; port 0 picks a free one (default 127.0.0.1:0)"),
    PRN_OPTION(FLAG, 0, "no-browser", NULL, FIELD(no_browser), "only print the address"),
    {0},
};

const struct prn_command prn_command_view = {
    .name = "view",
    .arguments = "FILE...",
    .summary = "show saved reports in a browser",
    .description =
        "Serves reports as a page on this machine and opens a browser, until Ctrl-C. FILE is "
        "a report saved with --format json or --format html by profile, report, explore, "
        "layers or schedule, or a trace of ONNX Runtime. Several files share one page.\n"
        "The browser is the one named in BROWSER, or xdg-open's. The page makes no requests "
        "to other machines.",
    .examples = "# a saved profile\n"
                "prony view resnet50.json\n"
                "# a trace, and a page that somebody sent\n"
                "prony view trace.json theirs.html\n"
                "# on a machine without a screen\n"
                "prony view resnet50.json --no-browser --address 127.0.0.1:8080",
    .options = option_table,
    .options_size = sizeof(struct view_options),
    .defaults = view_defaults,
    .min_arguments = 1,
    .max_arguments = FILES_MAX,
    .takes = PRN_SAVED_SHOWN,
    .run = view_run,
};
