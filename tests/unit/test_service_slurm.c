/* What Slurm's programs print, whole, odd and hostile; and running programs, with an end to their
 * time and to what they say. */
#include "service/slurm/command.h"
#include "service/slurm/run.h"
#include "unit.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

/* ---- squeue ---- */

static void test_rows(void **state)
{
    (void)state;
    const char *text = "17|RUNNING|None|1794879527|1794883127|n1|prony-lab-0a1b2c3d\n"
                       "18|PENDING|Resources|N/A|N/A||prony-lab-0a1b2c3d\n"
                       "19|PENDING|Priority|1794879720|1794879840||a name | with bars\n"
                       "20|SOMETHING_NEW|(None)|0|0|n[1-2]|x\n";
    struct prn_slurm_row row;
    assert_true(prn_slurm_next_row(&text, &row));
    assert_int_equal(row.job, 17);
    assert_int_equal(row.phase, PRN_SLURM_RUNNING);
    assert_string_equal(row.reason, "");
    assert_int_equal(row.start_s, 1794879527);
    assert_int_equal(row.end_s, 1794883127);
    assert_string_equal(row.node, "n1");
    assert_string_equal(row.name, "prony-lab-0a1b2c3d");
    assert_true(prn_slurm_next_row(&text, &row));
    assert_int_equal(row.phase, PRN_SLURM_PENDING);
    assert_string_equal(row.reason, "Resources");
    assert_int_equal(row.start_s, 0);
    assert_string_equal(row.node, "");
    assert_true(prn_slurm_next_row(&text, &row));
    assert_string_equal(row.name, "a name | with bars");
    assert_true(prn_slurm_next_row(&text, &row));
    assert_int_equal(row.phase, PRN_SLURM_ODD);
    assert_string_equal(row.state, "SOMETHING_NEW");
    assert_false(prn_slurm_next_row(&text, &row));
}

static void test_rows_that_arent(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "\n\n\n",
        "slurm_load_jobs error: Unable to contact slurm controller\n",
        "17|RUNNING|None|1|2|n1", /* cut off */
        "17_3|RUNNING|None|1|2|n1|array\n",
        "17+0|RUNNING|None|1|2|n1|heterogeneous\n",
        "-17|RUNNING|None|1|2|n1|x\n",
        "0|RUNNING|None|1|2|n1|x\n",
        "99999999999999999999|RUNNING|None|1|2|n1|x\n",
        "|||||||\n",
    };
    struct prn_slurm_row row;
    for (size_t i = 0; i < PRN_ARRAY_SIZE(texts); i++) {
        const char *text = texts[i];
        assert_false(prn_slurm_next_row(&text, &row));
        assert_int_equal(*text, '\0');
    }
    /* A line without end isn't looked at, and the next one is. */
    char *endless = malloc(100000);
    assert_non_null(endless);
    memset(endless, '1', 100000);
    memcpy(endless + 100000 - 40, "\n5|RUNNING|None|1|2|n1|x\n\0", 26);
    const char *text = endless;
    assert_true(prn_slurm_next_row(&text, &row));
    assert_int_equal(row.job, 5);
    free(endless);
}

static void test_rows_are_clean(void **state)
{
    (void)state;
    char line[1000];
    char long_text[600];
    struct prn_slurm_row row;
    memset(long_text, 'x', sizeof long_text);
    memcpy(long_text + PRN_SLURM_REASON_SIZE - 2, "\xc3\xa4", 2); /* not cut in the middle */
    long_text[sizeof long_text - 1] = '\0';
    snprintf(line, sizeof line, "5|\033[2J|%s|-1|x|n\xff|%s\n", long_text, "a\tb");
    const char *text = line;
    assert_true(prn_slurm_next_row(&text, &row));
    assert_string_equal(row.state, "?[2J");
    assert_int_equal(strlen(row.reason), PRN_SLURM_REASON_SIZE - 2);
    assert_int_equal(row.start_s, 0);
    assert_string_equal(row.node, "n?");
    assert_string_equal(row.name, "a b");
}

/* ---- sinfo ---- */

static void test_nodes(void **state)
{
    (void)state;
    char text[] = "bench*|1:00:00|fast,lab|(null)\nlong|infinite||gpu:a100:4(S:0-1),nvme:1\n"
                  "odd line\n|1:00|x|y\nshort|30:00|(null)|(null)";
    char *at = text;
    struct prn_slurm_node node;
    assert_true(prn_slurm_next_node(&at, &node));
    assert_string_equal(node.partition, "bench");
    assert_true(node.is_default && node.limit_s == 3600);
    assert_true(prn_slurm_has_feature(node.features, "lab"));
    assert_false(prn_slurm_has_feature(node.features, "la"));
    assert_true(prn_slurm_next_node(&at, &node));
    assert_true(!node.is_default && isinf(node.limit_s));
    assert_string_equal(node.gres, "gpu:a100:4(S:0-1),nvme:1");
    assert_true(prn_slurm_next_node(&at, &node));
    assert_string_equal(node.partition, "short");
    assert_true(node.limit_s == 1800);
    assert_false(prn_slurm_next_node(&at, &node));
}

static void test_times(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double seconds;
    } right[] = {{"1:00", 60}, {"1:00:00", 3600}, {"2-03:04:05", 183845}, {"0:00", 0}};
    static const char *const wrong[] = {
        "",    "n/a",    "1",       ":",    "1:",      "1:2:3:4",    "-1:0",  "1-",        "x-1:00",
        "1:x", "1.5:00", "INVALID", "1:-1", "1-2-3:4", "9999999:00", "1:00 ", "infinitely"};
    for (size_t i = 0; i < PRN_ARRAY_SIZE(right); i++)
        assert_true(prn_slurm_time_s(right[i].text) == right[i].seconds);
    for (size_t i = 0; i < PRN_ARRAY_SIZE(wrong); i++)
        assert_true(isnan(prn_slurm_time_s(wrong[i])));
    assert_true(isinf(prn_slurm_time_s("infinite")) && isinf(prn_slurm_time_s("UNLIMITED")));
}

static void test_resources(void **state)
{
    (void)state;
    static const char node[] = "gpu:a100:4(S:0-1),nvme:1";
    assert_true(prn_slurm_has_gres(node, "gpu"));
    assert_true(prn_slurm_has_gres(node, "gpu:2"));
    assert_true(prn_slurm_has_gres(node, "gpu:a100:2"));
    assert_true(prn_slurm_has_gres(node, "gpu:a100"));
    assert_true(prn_slurm_has_gres(node, "nvme,gpu:1"));
    assert_false(prn_slurm_has_gres(node, "gpu:h100:1"));
    assert_false(prn_slurm_has_gres(node, "gp"));
    assert_false(prn_slurm_has_gres(node, "nvme,disk"));
    assert_false(prn_slurm_has_gres("(null)", "gpu"));
    assert_false(prn_slurm_has_gres("", "gpu"));
}

static void test_constraints(void **state)
{
    (void)state;
    static const struct {
        const char *constraint, *names;
    } cases[] = {{"intel", "intel "},
                 {"intel&gpu", "intel gpu "},
                 {"[rack1*2&rack2*4]", "rack1 rack2 "},
                 {"(a|b)&!c", "a b !c "},
                 {"&&||", ""},
                 {"*", ""},
                 {"*12", ""},
                 {"a*", "a "}};
    for (size_t i = 0; i < PRN_ARRAY_SIZE(cases); i++) {
        char found[200] = "";
        char name[PRN_SLURM_NAME_SIZE];
        const char *at = cases[i].constraint;
        while (prn_slurm_next_feature(&at, name))
            snprintf(found + strlen(found), sizeof found - strlen(found), "%s ", name);
        assert_string_equal(found, cases[i].names);
    }
}

/* ---- Other answers ---- */

static void test_submitted(void **state)
{
    (void)state;
    assert_int_equal(prn_slurm_submitted("123\n"), 123);
    assert_int_equal(prn_slurm_submitted("123;cluster\n"), 123);
    assert_int_equal(prn_slurm_submitted(""), 0);
    assert_int_equal(prn_slurm_submitted("Submitted batch job 123\n"), 0);
    assert_int_equal(prn_slurm_submitted("-5\n"), 0);
    assert_int_equal(prn_slurm_submitted("11111111111111111111111111111\n"), 0);
}

static void test_outcomes(void **state)
{
    (void)state;
    struct prn_slurm_outcome o;
    assert_true(prn_slurm_parse_sacct("FAILED|127:0\n", &o));
    assert_string_equal(o.state, "FAILED");
    assert_int_equal(o.status, 127);
    assert_true(prn_slurm_parse_sacct("CANCELLED by 1000|0:15\n", &o));
    assert_string_equal(o.state, "CANCELLED");
    assert_int_equal(o.signal, 15);
    static const char *const wrong[] = {"",
                                        "\n",
                                        "FAILED\n",
                                        "FAILED|\n",
                                        "FAILED|x:0\n",
                                        "|1:0\n",
                                        "NONSENSE|1:0\n",
                                        "FAILED|1\n",
                                        "FAILED|99999999999:0\n",
                                        "RUNNING|0:0\n",
                                        "PENDING|0:0\n",
                                        "Slurm accounting storage is disabled\n"};
    for (size_t i = 0; i < PRN_ARRAY_SIZE(wrong); i++)
        assert_false(prn_slurm_parse_sacct(wrong[i], &o));
    assert_true(prn_slurm_parse_scontrol(
        "JobId=2 JobName=JobState=COMPLETED UserId=root(0) JobState=NODE_FAIL Reason=None "
        "DerivedExitCode=1:1 ExitCode=0:9 WorkDir=/\n",
        &o));
    assert_string_equal(o.state, "NODE_FAIL");
    assert_int_equal(o.signal, 9);
    assert_false(prn_slurm_parse_scontrol("JobId=2 JobState=FAILED\n", &o));
    assert_false(prn_slurm_parse_scontrol("JobId=2 JobState=RUNNING ExitCode=0:0\n", &o));
    assert_false(prn_slurm_parse_scontrol("JobState=FAILED ExitCode=", &o));
    assert_false(prn_slurm_parse_scontrol("", &o));
}

static void test_whether_a_job_is_there(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool there;
    } cases[] = {{"JobId=2 JobName=x JobState=RUNNING Reason=None\n", true},
                 {"JobId=2 JobState=PENDING", true},
                 {"JobId=2 JobState=COMPLETING\n", true},
                 {"JobId=2 JobState=SOMETHING_NEW\n", true},
                 {"JobId=2 JobName=JobState=RUNNING JobState=TIMEOUT\n", false},
                 {"JobId=2 JobState=CANCELLED+\n", false}};
    static const char *const nothing[] = {
        "", "JobState=RUNNING", " JobState=", " JobState=running\n",
        " JobState=ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFGHIJKLMNOPQRSTUVWXYZ\n"};
    for (size_t i = 0; i < PRN_ARRAY_SIZE(cases); i++) {
        bool there = !cases[i].there;
        assert_true(prn_slurm_parse_there(cases[i].text, &there));
        assert_int_equal(there, cases[i].there);
    }
    for (size_t i = 0; i < PRN_ARRAY_SIZE(nothing); i++)
        assert_false(prn_slurm_parse_there(nothing[i], &(bool){true}));
    assert_true(prn_slurm_unknown("'scontrol' failed: slurm_load_jobs error: Invalid job id "
                                  "specified"));
    assert_false(prn_slurm_unknown("'scontrol' failed: Unable to contact slurm controller"));
}

static void test_complaints(void **state)
{
    (void)state;
    static const struct {
        const char *said, *told;
    } cases[] = {
        {"sbatch: error: invalid partition specified: x\n"
         "sbatch: error: Batch job submission failed: Invalid partition name specified\n",
         "Batch job submission failed: Invalid partition name specified"},
        {"allocation failure: Invalid feature specification\n\n",
         "allocation failure: Invalid feature specification"},
        {"sbatch: fatal: cannot open /srv/ann/secret.conf: gone", "cannot open ...: gone"},
        {"sbatch: unrecognized option '--nodlist=n1'\nTry \"sbatch --help\" for more information\n",
         "unrecognized option '--nodlist=n1'"},
        {"slurm: \033[1mbold\n", "slurm: ?[1mbold"},
        {"sbatch: error: AssocMaxSubmitJobLimit\nsbatch: error: Batch job submission failed: Job "
         "violates accounting/QOS policy\n",
         "AssocMaxSubmitJobLimit: Batch job submission failed: Job violates accounting/QOS policy"},
        {"sbatch: error: QOSMaxWallDurationPerJobLimit\n", "QOSMaxWallDurationPerJobLimit"},
        {"sbatch: error: Associations aren't Here\nno", "no"},
        {"", "it doesn't say why"},
        {"\n \n", "it doesn't say why"},
    };
    for (size_t i = 0; i < PRN_ARRAY_SIZE(cases); i++) {
        struct prn_buffer out = PRN_BUFFER_INIT(4096);
        prn_slurm_complaint(&out, cases[i].said);
        assert_string_equal(prn_buffer_text(&out), cases[i].told);
        prn_buffer_release(&out);
    }
}

static void test_faults(void **state)
{
    (void)state;
    static const struct {
        const char *complaint;
        enum prn_slurm_fault fault;
        enum prn_slurm_full full;
    } cases[] = {
        {"Invalid account or account/partition combination specified", PRN_SLURM_FAULT_ACCOUNT,
         PRN_SLURM_NOT_FULL},
        {"allocation failure: Invalid qos specification", PRN_SLURM_FAULT_QOS, PRN_SLURM_NOT_FULL},
        {"QOSMaxWallDurationPerJobLimit: Job violates accounting/QOS policy", PRN_SLURM_FAULT_QOS,
         PRN_SLURM_NOT_FULL},
        {"AssocMaxSubmitJobLimit: Job violates accounting/QOS policy", PRN_SLURM_FAULT_ACCOUNT,
         PRN_SLURM_FULL_USER},
        {"'sbatch' failed: AssocGrpSubmitJobsLimit: no", PRN_SLURM_FAULT_ACCOUNT,
         PRN_SLURM_FULL_GROUP},
        {"QOSMaxSubmitJobPerUserLimit", PRN_SLURM_FAULT_QOS, PRN_SLURM_FULL_USER},
        {"QOSMaxSubmitJobPerAccountLimit", PRN_SLURM_FAULT_QOS, PRN_SLURM_FULL_GROUP},
        {"QOSGrpSubmitJobsLimit", PRN_SLURM_FAULT_QOS, PRN_SLURM_FULL_GROUP},
        {"allocation failure: Invalid feature specification", PRN_SLURM_FAULT_CONSTRAINT,
         PRN_SLURM_NOT_FULL},
        {"allocation failure: Requested node configuration is not available", PRN_SLURM_FAULT_NODES,
         PRN_SLURM_NOT_FULL},
        {"Invalid generic resource (gres) specification", PRN_SLURM_FAULT_GRES, PRN_SLURM_NOT_FULL},
        {"Requested time limit is invalid (missing or exceeds some limit)", PRN_SLURM_FAULT_TIME,
         PRN_SLURM_NOT_FULL},
        {"Required partition not available (inactive or drain)", PRN_SLURM_FAULT_PARTITION,
         PRN_SLURM_NOT_FULL},
        {"unrecognized option '--nodlist=n1'", PRN_SLURM_FAULT_OPTIONS, PRN_SLURM_NOT_FULL},
        {"allocation failure: Invalid node name specified", PRN_SLURM_FAULT_OPTIONS,
         PRN_SLURM_NOT_FULL},
        {"Job violates accounting/QOS policy", PRN_SLURM_FAULT_OTHER, PRN_SLURM_NOT_FULL},
        {"MyAssocMaxSubmitJobLimit", PRN_SLURM_FAULT_OTHER, PRN_SLURM_NOT_FULL},
        {"", PRN_SLURM_FAULT_OTHER, PRN_SLURM_NOT_FULL},
    };
    for (size_t i = 0; i < PRN_ARRAY_SIZE(cases); i++) {
        assert_int_equal(prn_slurm_fault(cases[i].complaint), cases[i].fault);
        assert_int_equal(prn_slurm_full(cases[i].complaint), cases[i].full);
    }
}

static void test_names(void **state)
{
    (void)state;
    char name[PRN_SLURM_NAME_SIZE];
    prn_slurm_job_name("r6i.large", "0a1b2c3d", name);
    assert_string_equal(name, "prony-r6i.large-0a1b2c3d");
    prn_slurm_job_name("a b,c%j$(x)", "0a1b2c3d", name);
    assert_string_equal(name, "prony-a_b_c_j__x_-0a1b2c3d");
}

/* ---- Running ---- */

static int run_shell(const char *script, const char *input, double timeout_s,
                     const volatile int *hurry, struct prn_buffer *out, struct prony_error *err)
{
    const char *const argv[] = {"sh", "-c", script, NULL};
    static const char *const environment[] = {"SITE=lab"};
    const struct prn_slurm_call call = {.argv = argv,
                                        .input = input,
                                        .timeout_s = timeout_s,
                                        .environment = environment,
                                        .n_environment = 1,
                                        .hurry = hurry};
    return prn_slurm_run(&call, out, err);
}

static void test_runs(void **state)
{
    (void)state;
    struct prony_error err;
    struct prn_buffer out = PRN_BUFFER_INIT(100000);
    /* Of the environment only what is needed. */
    setenv("SBATCH_ACCOUNT", "wrong", 1);
    setenv("PRONY_TOKEN", "secret", 1);
    assert_int_equal(
        run_shell("echo \"$SITE|$SBATCH_ACCOUNT|$PRONY_TOKEN|$SLURM_TIME_FORMAT\"; cat", "in put",
                  30, NULL, &out, &err),
        0);
    assert_string_equal(prn_buffer_text(&out), "lab|||%s\nin put");
    prn_buffer_clear(&out);
    /* More input than a pipe holds, and a program that doesn't want it. */
    char *large = malloc(1000001);
    assert_non_null(large);
    memset(large, 'x', 1000000);
    large[1000000] = '\0';
    assert_int_equal(run_shell("wc -c", large, 30, NULL, &out, &err), 0);
    assert_int_equal(atoi(prn_buffer_text(&out)), 1000000);
    assert_int_equal(run_shell("exit 0", large, 30, NULL, &out, &err), 0);
    free(large);
    prn_buffer_release(&out);
}

static void test_runs_that_fail(void **state)
{
    (void)state;
    struct prony_error err;
    struct prn_buffer out = PRN_BUFFER_INIT(1000);
    static const char *const none[] = {"prony-no-such-program", NULL};
    const struct prn_slurm_call missing = {.argv = none, .timeout_s = 5};
    assert_int_equal(prn_slurm_run(&missing, &out, &err), PRONY_ENOENT);
    assert_non_null(strstr(err.text, "there is no program 'prony-no-such-program'"));
    assert_int_equal(run_shell("echo 'sbatch: error: no' >&2; exit 1", NULL, 30, NULL, &out, &err),
                     PRONY_ERUNTIME);
    assert_string_equal(err.text, "'sh' failed: no");
    assert_int_equal(run_shell("kill -9 $$", NULL, 30, NULL, &out, &err), PRONY_ERUNTIME);
    assert_int_equal(run_shell("head -c 1001 /dev/zero", NULL, 30, NULL, &out, &err), PRONY_ELIMIT);
    prn_buffer_release(&out);
}

static void test_runs_that_hang(void **state)
{
    (void)state;
    struct prony_error err;
    struct prn_buffer out = PRN_BUFFER_INIT(1000);
    static const int hurry = 1;
    /* With its children, and also when it has closed its outputs. */
    assert_int_equal(run_shell("sleep 100 & wait", NULL, 0.2, NULL, &out, &err), PRONY_ETIMEDOUT);
    assert_non_null(strstr(err.text, "'sh' took longer than 0.2 s"));
    assert_int_equal(run_shell("exec >&- 2>&-; sleep 100", NULL, 0.2, NULL, &out, &err),
                     PRONY_ETIMEDOUT);
    time_t began = time(NULL);
    assert_int_equal(run_shell("sleep 100", NULL, 90, &hurry, &out, &err), PRONY_ETIMEDOUT);
    assert_true(time(NULL) - began < 60);
    prn_buffer_release(&out);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),           cmocka_unit_test(test_rows_that_arent),
        cmocka_unit_test(test_rows_are_clean), cmocka_unit_test(test_nodes),
        cmocka_unit_test(test_times),          cmocka_unit_test(test_resources),
        cmocka_unit_test(test_constraints),    cmocka_unit_test(test_submitted),
        cmocka_unit_test(test_outcomes),       cmocka_unit_test(test_whether_a_job_is_there),
        cmocka_unit_test(test_complaints),     cmocka_unit_test(test_faults),
        cmocka_unit_test(test_names),          cmocka_unit_test(test_runs),
        cmocka_unit_test(test_runs_that_fail), cmocka_unit_test(test_runs_that_hang),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
