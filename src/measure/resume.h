/*
 * Going on with a profile that was interrupted. The result is to be one profile, as if nothing had
 * happened: so the model, the points, the backends, the settings and the machine must be the same,
 * and whatever isn't is refused with a line that names it. The runtimes' versions are known only
 * when they run; prn_measure() refuses those.
 *
 *     prn_resume_check(saved, file, err);
 *     prn_resume_settings(saved, &settings, err);
 *     prn_job_run(&(struct prn_job){..., .resume = saved, .settings = settings}, &profile, err);
 */
#ifndef PRN_MEASURE_RESUME_H
#define PRN_MEASURE_RESUME_H

#include "measure/job.h"

/* Settings that nobody gave: NAN for numbers, 0 for launches and repeats, -1 for warm-ups, and this
 * for the seed. */
#define PRN_SEED_UNSET UINT64_MAX

/* Notes that a job makes again where they are still true, and so doesn't take over. */
#define PRN_NOTE_MISSING_REPEATS "--max-time was up before all --repeats were measured"
#define PRN_NOTE_MADE_UP_INPUTS                                                                \
    "the first run failed with inputs that prony made up; --input NAME=@FILE or --inputs DIR " \
    "gives the model real ones"

/* Refuses a profile that no measurement of a model on this program could have left. `name` is that
 * of its file. */
PRONY_MUST_CHECK int prn_resume_check(const struct prn_profile *saved, const char *name,
                                      struct prony_error *err);

/* Fills in the settings that nobody gave from the saved ones, or with defaults where `saved` is
 * NULL. A setting that contradicts the saved one is PRONY_EUSAGE and names the option; only the
 * time may be changed. */
PRONY_MUST_CHECK int prn_resume_settings(const struct prn_profile *saved,
                                         struct prn_settings *settings, struct prony_error *err);

/* Refuses a model that isn't the one of the saved profile, as far as sizes tell. */
PRONY_MUST_CHECK int prn_resume_models(const struct prn_profile *saved,
                                       const struct prn_profile *profile, struct prony_error *err);

/* The backends of a saved profile as texts, with their names. */
PRONY_MUST_CHECK int prn_resume_backends(const struct prn_profile *saved, struct prn_arena *arena,
                                         struct prn_named_texts *ret_texts,
                                         struct prony_error *err);

/* Holds what is to be measured against what was, and takes over its samples. `priced`: the
 * hardware's prices were given anew and must be the same. */
PRONY_MUST_CHECK int prn_resume_adopt(const struct prn_profile *saved, bool priced,
                                      struct prn_profile *profile, struct prony_error *err);

#endif
