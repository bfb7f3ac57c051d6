/* What clients of a service decide before they talk to it, and what they make of several hosts. */
#include "record/remote.h"
#include "record/token.h"
#include "report/profile/json.h"
#include "report/progress_json.h"

#include "unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void test_what_is_secure(void **state)
{
    (void)state;
    static const char *const here[] = {"localhost:1", "127.0.0.1:1", "127.9.8.7:65535", "[::1]:1",
                                       "unix:/run/x"};
    static const char *const elsewhere[] = {"127.0.0.1.example.org:1", "127.evil:1", "10.0.0.1:1",
                                            "localhost.example.org:1", "[::2]:1",    "0.0.0.0:1"};
    for (size_t i = 0; i < PRN_ARRAY_SIZE(here); i++) {
        assert_false(prn_remote_is_secure(here[i], false, NULL));
        assert_true(prn_remote_is_secure(here[i], false, "ca.pem"));
    }
    for (size_t i = 0; i < PRN_ARRAY_SIZE(elsewhere); i++) {
        assert_true(prn_remote_is_secure(elsewhere[i], false, NULL));
        assert_false(prn_remote_is_secure(elsewhere[i], true, NULL));
    }
}

static void parse(const char *text, struct prn_arena *arena, struct prn_spec *spec)
{
    assert_int_equal(prn_spec_parse(text, false, arena, spec, NULL), 0);
}

static void test_hosts_are_numbered_by_hardware(void **state)
{
    (void)state;
    static const char *const names[] = {"b/x", "a/x", "b/y", "c/x", "a/y"};
    static const size_t hosts[] = {0, 1, 0, 2, 1};
    struct prn_arena arena = PRN_ARENA_INIT((size_t)1 << 20);
    struct prn_spec backends[PRN_ARRAY_SIZE(names)];
    for (size_t i = 0; i < PRN_ARRAY_SIZE(names); i++)
        parse(names[i], &arena, &backends[i]);
    for (size_t i = 0; i < PRN_ARRAY_SIZE(names); i++)
        assert_int_equal(prn_remote_host(backends, i), hosts[i]);
    assert_string_equal(prn_remote_hardware(backends, 5, 0), "b");
    assert_string_equal(prn_remote_hardware(backends, 5, 2), "c");
    assert_null(prn_remote_hardware(backends, 5, 3));
    prn_arena_release(&arena);
}

static void test_choosing_backends(void **state)
{
    (void)state;
    struct prn_arena arena = PRN_ARENA_INIT((size_t)1 << 20);
    struct prn_remote_backend offered[2] = {{.usd_per_hour = 0.5, .processor = "P"},
                                            {.usd_per_hour = NAN}};
    struct prn_spec wanted;
    parse("a/x", &arena, &offered[0].spec);
    parse("local/x", &arena, &offered[1].spec);
    struct prn_remote_preset presets[] = {{"default", 1, &offered[1].spec}, {"all", 0, NULL}};
    struct prn_remote_offer offer = {2, 2, offered, presets};
    struct prn_spec *chosen;
    size_t n;
    const char *preset;
    struct prony_error err;
    static const char *const texts[] = {"a/x[threads=2]", "x"};
    struct prn_texts none = {NULL, 0};
    struct prn_texts two = {texts, 2};

    assert_int_equal(prn_remote_choose(&offer, &none, "s:1", &arena, &chosen, &n, &preset, &err),
                     0);
    /* An empty preset is none. */
    assert_string_equal(preset, "default");
    assert_string_equal(chosen[0].name, "local/x");
    assert_int_equal(prn_remote_choose(&offer, &two, "s:1", &arena, &chosen, &n, &preset, &err), 0);
    assert_null(preset);
    assert_string_equal(chosen[0].name, "a/x[threads=2]");
    assert_string_equal(chosen[1].name, "local/x");

    struct prn_profile *profile = prn_profile_new();
    assert_int_equal(prn_remote_describe(&offer, chosen, 2, NULL, profile, &err), 0);
    assert_string_equal(profile->results[0].processor, "P");
    assert_true(profile->results[0].usd_per_hour == 0.5);
    /* "local" is the service's machine, whose processor it didn't tell. */
    assert_null(profile->results[1].processor);
    prn_profile_free(profile);

    parse("a/y", &arena, &wanted);
    assert_null(prn_remote_find(&offer, &wanted));
    offer.n_presets = 0;
    assert_int_equal(prn_remote_choose(&offer, &none, "s:1", &arena, &chosen, &n, &preset, &err),
                     PRONY_EUNAVAILABLE);
    assert_non_null(strstr(err.text, "s:1"));
    prn_arena_release(&arena);
}

/* ---- Tokens ---- */

static void test_tokens(void **state)
{
    (void)state;
    char folder[] = "/tmp/prony-token-XXXXXX";
    char path[128];
    struct prn_token token;
    struct prony_error err;
    struct stat status;
    assert_non_null(mkdtemp(folder));
    unsetenv("PRONY_TOKEN");
    unsetenv("OCTOML_PROFILE_API_TOKEN");
    setenv("XDG_CONFIG_HOME", folder, 1);
    assert_int_equal(prn_token_find(NULL, &token, &err), 0);
    assert_string_equal(token.text, "");
    assert_int_equal(prn_token_save("abc", &err), 0);
    snprintf(path, sizeof path, "%s/prony/token", folder);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
    assert_int_equal(prn_token_find(NULL, &token, &err), 0);
    assert_string_equal(token.text, "abc");
    assert_non_null(strstr(token.source, path));
    assert_int_equal(prn_token_find("given", &token, &err), 0);
    assert_string_equal(token.text, "given");
    setenv("PRONY_TOKEN", "bad token", 1);
    assert_int_equal(prn_token_find(NULL, &token, &err), PRONY_EUSAGE);
    assert_null(strstr(err.text, "bad token"));
    unsetenv("PRONY_TOKEN");
    unlink(path);
    snprintf(path, sizeof path, "%s/prony", folder);
    rmdir(path);
    rmdir(folder);
    unsetenv("XDG_CONFIG_HOME");
}

static void test_what_can_be_a_token(void **state)
{
    (void)state;
    char text[PRN_TOKEN_MAX + 1];
    memset(text, 'x', sizeof text);
    text[PRN_TOKEN_MAX] = '\0';
    assert_false(prn_token_is_sound(text));
    text[PRN_TOKEN_MAX - 1] = '\0';
    assert_true(prn_token_is_sound(text));
    assert_false(prn_token_is_sound(""));
    assert_false(prn_token_is_sound("a\tb"));
    assert_false(prn_token_is_sound("\xc3\xa4"));
}

/* ---- Several hosts ---- */

static struct prn_profile *two_hosts(void)
{
    static struct prn_sample samples[2][20];
    struct prn_profile *p = prn_profile_new();
    p->models->path = "m.onnx";
    p->settings.smallest_difference = 0.005;
    p->n_points = 1;
    p->points = PRN_ARENA_ARRAY(&p->arena, 1, struct prn_point);
    p->points[0] = (struct prn_point){.label = "", .batch = 1, .flops = NAN};
    p->n_results = 2;
    p->results = PRN_ARENA_ARRAY(&p->arena, 2, struct prn_result);
    p->n_hosts = 2;
    p->hosts = PRN_ARENA_ARRAY(&p->arena, 2, struct prn_profile_host);
    for (size_t i = 0; i < 2; i++) {
        p->hosts[i] = (struct prn_profile_host){
            .hardware = i ? "b" : "a",
            .environment = {.cpu = i ? "CPU b" : "CPU a",
                            .cores = 2,
                            .mhz = NAN,
                            .memory_bytes = -1,
                            .load_before = NAN,
                            .load_after = NAN,
                            .sandbox = "s"},
            .timer_ns = 20,
            .canary_best_ns = 1000 + (double)i,
        };
        /* The times of both go up and down together, and only a pairing would see that. */
        for (int k = 0; k < 20; k++)
            samples[i][k] = (struct prn_sample){
                .ns = (int64_t)((double)(i ? 1010 : 1000) * (k / 4 % 2 ? 3 : 1)),
                .launch = k / 4,
                .block = k};
        p->results[i] = (struct prn_result){.name = i ? "b/x" : "a/x",
                                            .hardware = i ? "b" : "a",
                                            .software = "x",
                                            .usd_per_hour = NAN,
                                            .samples = samples[i],
                                            .n_samples = 20};
    }
    return p;
}

static void test_ratios_across_hosts_are_unpaired(void **state)
{
    (void)state;
    struct prn_profile *p = two_hosts();
    assert_int_equal(prn_summarise(p, NULL), 0);
    assert_int_equal(p->results[1].verdict, PRN_VERDICT_UNSURE);
    assert_true(p->results[1].ratio.low < 0.9);
    p->results[0].hardware = "b";
    assert_int_equal(prn_summarise(p, NULL), 0);
    assert_int_equal(p->results[1].verdict, PRN_VERDICT_SLOWER);
    prn_profile_free(p);
}

static void test_hosts_are_saved_and_told_apart(void **state)
{
    (void)state;
    struct prn_buffer json = PRN_BUFFER_INIT((size_t)1 << 20);
    struct prn_profile *p = two_hosts();
    struct prn_profile *again;
    struct prony_error err;
    assert_int_equal(prn_summarise(p, NULL), 0);
    assert_int_equal(prn_profile_write_json(p, &json, &err), 0);
    assert_int_equal(prn_profile_parse_json(json.data, json.len, "p", &again, &err), 0);
    assert_int_equal(again->n_hosts, 2);
    assert_string_equal(again->hosts[1].environment.cpu, "CPU b");
    assert_true(again->hosts[1].canary_best_ns == 1001);
    prn_profile_keep_host(again, "b");
    assert_int_equal(again->n_results, 1);
    assert_string_equal(again->results[0].name, "b/x");
    assert_string_equal(again->environment.cpu, "CPU b");
    assert_true(again->canary_best_ns == 1001);
    assert_int_equal(again->n_hosts, 0);
    prn_profile_free(again);
    prn_profile_free(p);
    prn_buffer_release(&json);
}

static void test_progress_there_and_back(void **state)
{
    (void)state;
    struct prn_arena arena = PRN_ARENA_INIT((size_t)1 << 20);
    struct prn_buffer json = PRN_BUFFER_INIT((size_t)1 << 16);
    struct prony_error err;
    struct prn_progress told = {.backend = "a/x",
                                .point = "n=1",
                                .phase = "loading",
                                .row = 1,
                                .rows = 2,
                                .launch = 3,
                                .launches = 5,
                                .samples = 7,
                                .median_ns = NAN,
                                .half_width = 0.5,
                                .elapsed_s = 1.5};
    struct prn_progress heard;
    assert_int_equal(prn_progress_write_json(&told, &json, &err), 0);
    assert_int_equal(prn_progress_parse_json(prn_buffer_text(&json), &arena, &heard, &err), 0);
    assert_string_equal(heard.point, "n=1");
    assert_int_equal(heard.samples, 7);
    assert_true(isnan(heard.median_ns));
    assert_true(heard.elapsed_s == 1.5);
    static const char *const wrong[] = {"", "[]", "{}", "{\"backend\": 1}", "nonsense"};
    for (size_t i = 0; i < PRN_ARRAY_SIZE(wrong); i++)
        assert_int_equal(prn_progress_parse_json(wrong[i], &arena, &heard, &err), PRONY_EFORMAT);
    prn_buffer_release(&json);
    prn_arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_secure),
        cmocka_unit_test(test_hosts_are_numbered_by_hardware),
        cmocka_unit_test(test_choosing_backends),
        cmocka_unit_test(test_tokens),
        cmocka_unit_test(test_what_can_be_a_token),
        cmocka_unit_test(test_ratios_across_hosts_are_unpaired),
        cmocka_unit_test(test_hosts_are_saved_and_told_apart),
        cmocka_unit_test(test_progress_there_and_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
