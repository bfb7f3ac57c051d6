/*
 * Builds a struct prn_series: mean, deviation, smallest and largest of all samples, and up to
 * PRN_SERIES_MAX of the samples themselves. When there are more, every second of those kept goes,
 * and from then on only every second new one is kept, so that they stay spread evenly over time.
 *
 * Room is made by prn_series_reserve(), which may fail; adding can't. So a call that has many
 * series to add to adds to all of them or to none.
 */
#ifndef PRN_RECORD_SERIES_H
#define PRN_RECORD_SERIES_H

#include "measure/profile.h"

struct prn_series_builder {
    int64_t count;
    double mean, squares; /* of all samples; `squares`: sum of squared distances from the mean */
    int64_t min, max;
    int64_t stride; /* every stride-th sample is kept; a power of two, 0 before the first */
    int64_t *kept;  /* heap */
    size_t n_kept, capacity;
};

/* What all series of a recording may keep together. A series that could grow but for this limit
 * thins out earlier. */
struct prn_series_budget {
    size_t samples_left;
};

void prn_series_release(struct prn_series_builder *s);

/* Forgets the samples, keeps the room. */
void prn_series_clear(struct prn_series_builder *s);

/* Makes room for `n` more samples, or for as many as are ever kept; 0 or PRONY_ENOMEM. */
PRONY_MUST_CHECK int prn_series_reserve(struct prn_series_builder *s, size_t n,
                                        struct prn_series_budget *budget);
/* Reserved before. */
void prn_series_add(struct prn_series_builder *s, int64_t ns);

/* The finished series, its samples in `arena`; 0 or PRONY_ENOMEM. */
PRONY_MUST_CHECK int prn_series_finish(const struct prn_series_builder *s, struct prn_arena *arena,
                                       struct prn_series *ret_series);

#endif
