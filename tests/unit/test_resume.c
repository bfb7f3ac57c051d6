/* Going on with a saved profile: what is taken from it, and what is refused. */
#include "measure/resume.h"
#include "report/profile/json.h"

#include "unit.h"

#include <math.h>

static const struct prn_settings unset = {.seed = PRN_SEED_UNSET,
                                          .precision = NAN,
                                          .smallest_difference = NAN,
                                          .warmups = -1,
                                          .max_time_s = NAN,
                                          .tolerance = NAN};

static int setup(void **state)
{
    struct prony_error err;
    struct prn_profile *saved = NULL;
    if (prn_profile_read_json(unit_data("profile-sweep.json"), &saved, &err) < 0)
        fail_msg("%s", err.text);
    *state = saved;
    return 0;
}

static int teardown(void **state)
{
    prn_profile_free(*state);
    return 0;
}

static void defaults_without_a_profile(void **state)
{
    (void)state;
    struct prn_settings s = unset;
    assert_int_equal(prn_resume_settings(NULL, &s, NULL), 0);
    assert_int_equal(s.seed, 0);
    assert_near(s.precision, 0.01, 0);
    assert_near(s.smallest_difference, 0.005, 0);
    assert_near(s.max_time_s, 60, 0);
    assert_near(s.tolerance, 1e-3, 0);
    assert_null(s.reference);
    assert_int_equal(s.warmups, -1);
}

static void settings_come_from_the_profile(void **state)
{
    struct prn_profile *saved = *state;
    struct prn_settings s = unset;
    saved->settings = (struct prn_settings){.seed = 9,
                                            .precision = 0.02,
                                            .smallest_difference = 0.03,
                                            .launches = 7,
                                            .repeats = 70,
                                            .warmups = 3,
                                            .max_time_s = 11,
                                            .tolerance = 0.25,
                                            .reference = "local/onnxrt-cpu"};
    assert_int_equal(prn_resume_settings(saved, &s, NULL), 0);
    assert_memory_equal(&s, &saved->settings, sizeof s);
    s = unset;
    s.max_time_s = 99; /* may change */
    s.launches = 7;    /* is the same */
    assert_int_equal(prn_resume_settings(saved, &s, NULL), 0);
    assert_near(s.max_time_s, 99, 0);
    assert_int_equal(s.seed, 9);
}

static void contradictions_are_named(void **state)
{
    static const struct {
        struct prn_settings asked;
        const char *says;
    } cases[] = {
        {{.seed = 1, .precision = NAN, .smallest_difference = NAN, .warmups = -1, .tolerance = NAN},
         "--seed is 1"},
        {{.seed = 0, .precision = 0.5, .smallest_difference = NAN, .warmups = -1, .tolerance = NAN},
         "--precision is 0.5, but 0.01"},
        {{.seed = 0, .precision = NAN, .smallest_difference = 0, .warmups = -1, .tolerance = NAN},
         "--difference is 0"},
        {{.seed = 0,
          .precision = NAN,
          .smallest_difference = NAN,
          .launches = 4,
          .warmups = -1,
          .tolerance = NAN},
         "--launches is 4, but 5"},
        {{.seed = 0,
          .precision = NAN,
          .smallest_difference = NAN,
          .repeats = 4,
          .warmups = -1,
          .tolerance = NAN},
         "--repeats is 4, but 0"},
        {{.precision = NAN, .smallest_difference = NAN, .warmups = -1, .tolerance = 0.5},
         "--tolerance is 0.5, but 0.001"},
    };
    for (size_t i = 0; i < PRN_ARRAY_SIZE(cases); i++) {
        struct prn_settings s = cases[i].asked;
        struct prony_error err;
        assert_int_equal(prn_resume_settings(*state, &s, &err), PRONY_EUSAGE);
        assert_contains(err.text, cases[i].says);
        assert_int_equal(s.launches, cases[i].asked.launches); /* untouched */
    }
}

static void expect_refused(const struct prn_profile *saved, const char *says)
{
    struct prony_error err;
    assert_true(prn_resume_check(saved, "s.json", &err) < 0);
    assert_contains(err.text, "s.json");
    assert_contains(err.text, says);
}

static void damage_is_refused(void **state)
{
    struct prn_profile *saved = *state;
    struct prn_result *r = &saved->results[3];
    saved->settings.warmups = -1;
    assert_int_equal(prn_resume_check(saved, "s.json", NULL), 0);
    r->samples[5].launch = 5; /* there are 5, from 0 */
    expect_refused(saved, "results[3]");
    r->samples[5].launch = 1; /* and then 0 again */
    expect_refused(saved, "results[3]");
    r->samples[5].launch = 0;
    r->samples[0].block = INT32_MAX;
    expect_refused(saved, "results[3]");
    r->samples[0].block = 0;
    assert_int_equal(prn_resume_check(saved, "s.json", NULL), 0);
    r->point = 0;
    expect_refused(saved, "not every point");
    r->point = 1;
    saved->n_results = 7;
    expect_refused(saved, "not every point");
    saved->n_results = 8;
    saved->settings.repeats = INT64_MAX;
    expect_refused(saved, "settings.repeats");
    saved->settings.repeats = 0;
    saved->settings.max_time_s = NAN;
    expect_refused(saved, "settings.max_time_s");
    saved->settings.max_time_s = 60;
    saved->recorded = true;
    expect_refused(saved, "not the profile of a model");
}

static void backends_are_those_of_a_point(void **state)
{
    struct prn_arena arena = PRN_ARENA_INIT(1 << 16);
    struct prn_named_texts given;
    struct prn_profile *saved = *state;
    saved->results[0].spec = saved->results[0].name;
    saved->results[0].name = "plain";
    assert_int_equal(prn_resume_backends(saved, &arena, &given, NULL), 0);
    assert_int_equal(given.texts.n, 2);
    assert_string_equal(given.texts.items[0], saved->results[0].spec);
    assert_string_equal(given.names[0], "plain");
    assert_string_equal(given.texts.items[1], "local/onnxrt-cpu[threads=2]");
    assert_null(given.names[1]);
    prn_arena_release(&arena);
}

/* "Interrupted" is said of what was interrupted, not of what is only gone on with. */
static void notes_say_what_happened(void **state)
{
    struct prn_profile *saved = *state;
    for (int interrupted = 0; interrupted < 2; interrupted++) {
        struct prn_profile *again = NULL;
        assert_int_equal(prn_profile_read_json(unit_data("profile-sweep.json"), &again, NULL), 0);
        for (size_t i = 0; i < saved->n_results; i++)
            saved->results[i].flags = interrupted ? PRN_FLAG_INTERRUPTED : 0;
        again->n_notes = 0;
        assert_int_equal(prn_resume_adopt(saved, false, again, NULL), 0);
        const char *note = again->notes[again->n_notes - 1];
        assert_int_equal(strncmp(note, "interrupted, and resumed", 24) == 0, interrupted);
        assert_int_equal(strncmp(note, "continued", 9) == 0, !interrupted);
        prn_profile_free(again);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_without_a_profile),
        cmocka_unit_test_setup_teardown(settings_come_from_the_profile, setup, teardown),
        cmocka_unit_test_setup_teardown(contradictions_are_named, setup, teardown),
        cmocka_unit_test_setup_teardown(damage_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(backends_are_those_of_a_point, setup, teardown),
        cmocka_unit_test_setup_teardown(notes_say_what_happened, setup, teardown),
    };
    return cmocka_run_group_tests_name("resume", tests, NULL, NULL);
}
