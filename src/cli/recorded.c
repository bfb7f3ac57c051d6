#include "cli/recorded.h"

#include "cli/output.h"
#include "report/prose.h"

#include <errno.h>
#include <sys/stat.h>

/* The first of the options that was given; NULL: none. */
static const char *first_option(const struct prn_recorded_options *o)
{
    if (o->layout != PRN_LAYOUT_UNSET)
        return "--layout";
    return o->details ? "--details" : NULL;
}

int prn_recorded_check(const struct prn_recorded_options *o, const struct prn_profile *profile,
                       const char *name, enum prn_report_format format, struct prony_error *err)
{
    const char *option = first_option(o);
    if (!option)
        return 0;
    if (!profile)
        return prn_fail(err, PRONY_EUSAGE, "%s cannot be combined with several files", option);
    if (!profile->recorded)
        return prn_fail(err, PRONY_EUSAGE,
                        "%s needs a recorded program; '%s' is the profile of a model", option,
                        name);
    if (format != PRN_REPORT_FORMAT_TEXT && format != PRN_REPORT_FORMAT_MARKDOWN)
        return prn_fail(err, PRONY_EUSAGE, "%s needs --format text or md, not %s", option,
                        prn_report_formats[format]);
    if (o->details && o->layout > PRN_RECORDED_LAYOUT_SUMMARY)
        return prn_fail(err, PRONY_EUSAGE, "--details cannot be combined with --layout %s",
                        prn_recorded_layouts[o->layout]);
    return 0;
}

struct details {
    const char *folder;
    struct prn_prose prose; /* says where they are */
};

static int write_detail(const char *name, const char *label, const struct prn_buffer *text,
                        void *context, struct prony_error *err)
{
    struct details *d = context;
    struct prn_buffer path = PRN_BUFFER_INIT(8192);
    prn_buffer_printf(&path, "%s/%s", d->folder, name);
    int code = prn_buffer_error(&path, err);
    if (code == 0)
        code = prn_output(prn_buffer_text(&path), text, err);
    if (code == 0)
        prn_prose_paragraph(&d->prose, "Details of %s: %s", label, prn_buffer_text(&path));
    prn_buffer_release(&path);
    return code;
}

static int write_details(const struct prn_profile *profile, const struct prn_recorded_options *o,
                         const struct prn_look *look, struct prn_buffer *out,
                         struct prony_error *err)
{
    if (mkdir(o->details, 0777) < 0 && errno != EEXIST)
        return prn_fail_errno(err, errno, "create", o->details);
    struct prn_look wide = *look;
    wide.width = SIZE_MAX; /* a path is copied as a whole, or not at all */
    struct details d = {.folder = o->details, .prose = prn_prose_init(&wide, out)};
    int code = prn_recorded_details(profile, o->verbose, write_detail, &d, err);
    prn_prose_release(&d.prose);
    return code;
}

int prn_recorded_output(const char *path, const struct prn_profile *profile,
                        const struct prn_recorded_options *o, const struct prn_look *look,
                        struct prony_error *err)
{
    enum prn_recorded_layout layout = o->layout == PRN_LAYOUT_UNSET
                                          ? PRN_RECORDED_LAYOUT_SUMMARY
                                          : (enum prn_recorded_layout)o->layout;
    struct prn_buffer out = PRN_BUFFER_INIT(PRN_REPORT_MAX);
    int code = prn_recorded_report(profile, layout, look, &out, err);
    if (code == 0 && o->details)
        code = write_details(profile, o, look, &out, err);
    if (code == 0)
        code = prn_output(path, &out, err);
    prn_buffer_release(&out);
    return code;
}
