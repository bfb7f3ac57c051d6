#include "trace/frame.h"

static bool take_piece(const struct prn_frame *frame, size_t i, struct prn_scan *s)
{
    size_t len = frame->pieces[i].len;
    if ((size_t)(s->end - s->at) < len || memcmp(s->at, frame->pieces[i].text, len) != 0)
        return false;
    s->at += len;
    return true;
}

static bool match(const struct prn_frame *frame, struct prn_scan s, const char **ret_at,
                  struct prn_frame_match *ret_match)
{
    struct prn_frame_match m = {.category = frame->category, .thread = frame->thread};
    if (!take_piece(frame, 0, &s) || !prn_scan_microseconds(&s, &m.duration_ns) ||
        m.duration_ns < 0 || !take_piece(frame, 1, &s) || !prn_scan_microseconds(&s, &m.start_ns) ||
        !take_piece(frame, 2, &s))
        return false;
    *ret_at = s.at;
    *ret_match = m;
    return true;
}

bool prn_frames_match(const struct prn_frames *f, struct prn_scan *s,
                      struct prn_frame_match *ret_match)
{
    for (size_t i = 0; i < f->n; i++)
        if (match(&f->items[i], *s, &s->at, ret_match))
            return true;
    return false;
}

/* A piece that is too long isn't worth it. */
static bool set_piece(struct prn_frame *frame, size_t i, const char *begin, const char *end)
{
    size_t len = (size_t)(end - begin);
    if (len > PRN_FRAME_PIECE)
        return false;
    memcpy(frame->pieces[i].text, begin, len);
    frame->pieces[i].len = len;
    return true;
}

void prn_frames_learn(struct prn_frames *f, const struct prn_frame_members *m)
{
    struct prn_frame *frame = &f->items[f->next];
    frame->category = m->category;
    frame->thread = m->thread;
    if (!set_piece(frame, 0, m->begin, m->duration) ||
        !set_piece(frame, 1, m->duration_end, m->start) ||
        !set_piece(frame, 2, m->start_end, m->name)) {
        /* What is left of it must not fit anything. */
        *frame = (struct prn_frame){.pieces = {{.text = {0}, .len = 1}}};
    }
    f->n = f->n > f->next + 1 ? f->n : f->next + 1;
    f->next = (f->next + 1) % PRN_FRAMES;
}
