#include "store/machine.h"

#include "base/io.h"
#include "report/machine/report.h"
#include "store/db.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

static int path_of(const char *fingerprint, char path[PATH_MAX], struct prony_error *err)
{
    char folder[PATH_MAX];
    int code = prn_state_default("the record of this machine", folder, err);
    if (code < 0)
        return code;
    if (snprintf(path, PATH_MAX, "%s/machine-%s.json", folder, fingerprint) >= PATH_MAX)
        return prn_fail_errno(err, ENAMETOOLONG, "use folder", folder);
    return 0;
}

/* Where the record of this machine is, or would be. */
static int own_path(char path[PATH_MAX], struct prony_error *err)
{
    char fingerprint[PRN_MACHINE_FINGERPRINT_SIZE];
    prn_machine_fingerprint(fingerprint);
    return path_of(fingerprint, path, err);
}

static int write_record(int fd, const char *name, void *context, struct prony_error *err)
{
    const struct prn_buffer *text = context;
    return prn_write_all(fd, text->data, text->len) < 0 ? prn_fail_errno(err, errno, "write", name)
                                                        : 0;
}

int prn_machine_save(const struct prn_machine *machine, char ret_path[PATH_MAX],
                     struct prony_error *err)
{
    static const struct prn_look look = {0};
    struct prn_buffer text = PRN_BUFFER_INIT(PRN_MACHINE_TEXT_MAX);
    struct prn_buffer temporary = PRN_BUFFER_INIT((size_t)2 * PATH_MAX);
    char path[PATH_MAX];
    char folder[PATH_MAX];
    int code = prn_state_default("the record of this machine", folder, err);
    if (code == 0)
        code = prn_make_folders(folder, err);
    if (code == 0)
        code = path_of(machine->fingerprint, path, err);
    if (code == 0)
        code = prn_machine_report(machine, PRN_REPORT_FORMAT_JSON, &look, &text, err);
    if (code == 0) {
        prn_buffer_printf(&temporary, "%s.%ld", path, (long)getpid());
        code = prn_buffer_error(&temporary, err);
    }
    if (code == 0)
        code =
            prn_write_and_rename(path, prn_buffer_text(&temporary), 0644, write_record, &text, err);
    if (code == 0)
        snprintf(ret_path, PATH_MAX, "%s", path);
    prn_buffer_release(&temporary);
    prn_buffer_release(&text);
    return code;
}

int prn_machine_load(struct prn_arena *arena, struct prn_machine *ret_machine,
                     struct prony_error *err)
{
    char path[PATH_MAX];
    int code = own_path(path, err);
    if (code == 0 && access(path, F_OK) < 0)
        return prn_fail(err, PRONY_ENOENT, "this machine wasn't measured yet: use 'prony machine'");
    return code == 0 ? prn_machine_read_json(path, arena, ret_machine, err) : code;
}
