/* The public functions for reports on recorded programs. */
#include "base/io.h"
#include "record/api.h"
#include "report/profile/json.h"
#include "report/profile/report.h"
#include "report/recorded/report.h"

#include <errno.h>
#include <unistd.h>

static int check_options(const struct prony_report_options *o, struct prony_error *err)
{
    if (o->struct_size != sizeof *o)
        return prn_fail(err, PRONY_EUSAGE,
                        "struct prony_report_options has another size: begin with "
                        "PRONY_REPORT_OPTIONS_INIT");
    if ((int)o->format < PRONY_REPORT_TEXT || o->format > PRONY_REPORT_JSON)
        return prn_fail(err, PRONY_EUSAGE, "'format' must be of PRONY_REPORT_…");
    if ((int)o->layout < PRONY_LAYOUT_SUMMARY || o->layout > PRONY_LAYOUT_CLASSIC)
        return prn_fail(err, PRONY_EUSAGE, "'layout' must be of PRONY_LAYOUT_…");
    return 0;
}

static int write_report(const struct prn_profile *profile, const struct prony_report_options *o,
                        struct prn_buffer *out, struct prony_error *err)
{
    static const enum prn_recorded_layout layouts[] = {
        [PRONY_LAYOUT_SUMMARY] = PRN_RECORDED_LAYOUT_SUMMARY,
        [PRONY_LAYOUT_SEGMENTS] = PRN_RECORDED_LAYOUT_SEGMENTS,
        [PRONY_LAYOUT_CLASSIC] = PRN_RECORDED_LAYOUT_CLASSIC,
    };
    switch (o->format) {
    case PRONY_REPORT_CSV:
        return prn_profile_report(profile, PRN_REPORT_FORMAT_CSV, NULL, out, err);
    case PRONY_REPORT_JSON:
        return prn_profile_report(profile, PRN_REPORT_FORMAT_JSON, NULL, out, err);
    default:
        return prn_recorded_report(
            profile, layouts[o->layout],
            &(struct prn_look){.markdown = o->format == PRONY_REPORT_MARKDOWN,
                               .verbose = o->verbose != 0,
                               .width = PRN_LOOK_WIDTH},
            out, err);
    }
}

int prony_profile_report(const struct prony_profile *profile,
                         const struct prony_report_options *options, char **ret_text,
                         struct prony_error *err)
{
    static const struct prony_report_options defaults = PRONY_REPORT_OPTIONS_INIT;
    const struct prony_report_options *o = options ? options : &defaults;
    if (!profile || !ret_text)
        return prn_fail(err, PRONY_EUSAGE, "profile and ret_text are needed");
    int code = check_options(o, err);
    if (code < 0)
        return code;
    struct prn_buffer out = PRN_BUFFER_INIT(PRN_REPORT_MAX);
    code = write_report(profile->inside, o, &out, err);
    if (code == 0)
        code = prn_buffer_error(&out, err);
    if (code == 0) {
        char *text = prn_buffer_detach(&out);
        if (text)
            *ret_text = text;
        else
            code = prn_fail_memory(err);
    }
    prn_buffer_release(&out);
    return code;
}

static int write_text(int fd, const char *name, void *context, struct prony_error *err)
{
    const struct prn_buffer *out = context;
    return prn_write_all(fd, out->data, out->len) < 0 ? prn_fail_errno(err, errno, "write", name)
                                                      : 0;
}

int prony_profile_save(const struct prony_profile *profile, const char *path,
                       struct prony_error *err)
{
    if (!profile || !path)
        return prn_fail(err, PRONY_EUSAGE, "profile and path are needed");
    struct prn_buffer out = PRN_BUFFER_INIT(PRN_REPORT_MAX);
    struct prn_buffer temporary = PRN_BUFFER_INIT(8192);
    int code = prn_profile_write_json(profile->inside, &out, err);
    if (code == 0)
        code = prn_buffer_error(&out, err);
    prn_buffer_printf(&temporary, "%s.%ld.tmp", path, (long)getpid());
    if (code == 0)
        code = prn_buffer_error(&temporary, err);
    if (code == 0)
        code = prn_write_and_rename(path, prn_buffer_text(&temporary), 0666, write_text, &out, err);
    prn_buffer_release(&temporary);
    prn_buffer_release(&out);
    return code;
}
