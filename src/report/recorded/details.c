/* The segments of every profile, each as the text of a file, and how the files are called. */
#include "base/map.h"
#include "report/recorded/view.h"

#include <string.h>

/* Letters of a function in a file's name. */
#define LETTERS_MAX 100

/* Letters that mean nothing to a shell or a path; anything else is "_". */
static void add_safe(struct prn_buffer *out, const char *function)
{
    for (const char *p = function; *p && out->len < LETTERS_MAX && !out->error; p++) {
        bool plain = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') ||
                     (*p >= '0' && *p <= '9') || strchr("_.-", *p);
        /* The first one neither hides the file nor makes it an option. */
        if (p == function && (*p == '.' || *p == '-'))
            plain = false;
        prn_buffer_add_char(out, plain ? *p : '_');
    }
    if (out->len == 0)
        prn_buffer_add_char(out, '_');
}

/* "predict_1.profile.txt", or with "_1-2" when another function has taken that; NULL when out of
 * memory. `taken` counts how often a name was wanted. */
static const char *make_file_name(struct prn_recorded_view *view, size_t index,
                                  struct prn_map *taken)
{
    struct prn_buffer name = PRN_BUFFER_INIT(1024);
    add_safe(&name, view->profile->profiles[index].function);
    prn_buffer_printf(&name, "_%zu", view->names[index].number);
    const char *wanted = name.error ? NULL : prn_arena_strdup(&view->arena, prn_buffer_text(&name));
    size_t before = wanted ? prn_map_get(taken, wanted) : PRN_MAP_NONE;
    size_t times = before == PRN_MAP_NONE ? 1 : before + 1;
    if (times > 1)
        prn_buffer_printf(&name, "-%zu", times);
    prn_buffer_add(&name, ".profile.txt");
    const char *copy = NULL;
    if (wanted && !name.error && prn_map_set(taken, wanted, times) == 0)
        copy = prn_arena_strdup(&view->arena, prn_buffer_text(&name));
    prn_buffer_release(&name);
    return copy;
}

static int take_details(struct prn_recorded_view *view, size_t index, bool verbose,
                        struct prn_map *taken, prn_recorded_detail_taker *take, void *context,
                        struct prony_error *err)
{
    const char *name = make_file_name(view, index, taken);
    if (!name)
        return prn_fail_memory(err);
    struct prn_buffer text = PRN_BUFFER_INIT((size_t)1 << 30);
    int code = prn_recorded_report_one(view, index, verbose, &text, err);
    if (code == 0)
        code = take(name, view->names[index].label, &text, context, err);
    prn_buffer_release(&text);
    return code;
}

int prn_recorded_details(const struct prn_profile *profile, bool verbose,
                         prn_recorded_detail_taker *take, void *context, struct prony_error *err)
{
    struct prn_recorded_view view;
    struct prn_map taken = PRN_MAP_INIT;
    int code = prn_recorded_view_init(&view, profile, err);
    if (code < 0)
        return code;
    for (size_t i = 0; i < profile->n_profiles && code == 0; i++)
        code = take_details(&view, i, verbose, &taken, take, context, err);
    prn_map_release(&taken);
    prn_recorded_view_release(&view);
    return code;
}
