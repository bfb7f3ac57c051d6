/* What the service tells about itself: log, metrics, history. */
#include "service_unit.h"

#include "format/json.h"
#include "service/store/history.h"
#include "service/log.h"
#include "service/web/metrics.h"
#include "service/store/tokens.h"

#include <errno.h>
#include <pthread.h>

/* What was written to a pipe so far. */
static const char *lines_of(int fd)
{
    static char text[1 << 16];
    ssize_t n = read(fd, text, sizeof text - 1);
    text[n > 0 ? n : 0] = '\0';
    return text;
}

static void log_pipe(int ends[2])
{
    assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    assert_true(fcntl(ends[1], F_SETPIPE_SZ, 1 << 16) > 0);
}

static void logs_lines_as_text(void **state)
{
    (void)state;
    int ends[2];
    log_pipe(ends);
    struct prn_log *log = prn_log_new(ends[1], PRN_LOG_FORMAT_TEXT);
    PRN_LOG(log, PRN_LOG_INFO, "session.ready", PRN_LOG_TEXT("user", "ann"),
            PRN_LOG_INTEGER("backends", 2), PRN_LOG_NUMBER("waited_s", 0.25),
            PRN_LOG_TEXT("none", NULL));
    const char *text = lines_of(ends[0]);
    assert_non_null(strchr(text, 'Z'));
    assert_string_equal(strchr(text, 'Z'),
                        "Z info session.ready user=ann backends=2 waited_s=0.25\n");
    PRN_LOG(log, PRN_LOG_WARNING, "x", PRN_LOG_TEXT("a", "two words"), PRN_LOG_TEXT("b", ""),
            PRN_LOG_TEXT("c", "x\ny=\"\x1b[2J\xff"));
    assert_string_equal(
        strchr(lines_of(ends[0]), 'Z'),
        "Z warning x a=\"two words\" b=\"\" c=\"x\\ny=\\\"\\u001b[2J\xef\xbf\xbd\"\n");
    PRN_LOG(NULL, PRN_LOG_ERROR, "nowhere", PRN_LOG_INTEGER("n", 1));
    prn_log_free(log);
    close(ends[0]);
    close(ends[1]);
}

static void logs_lines_as_json_without_tokens(void **state)
{
    (void)state;
    static const char secret[] = "prony_AbCdEfGhIjKlMnOpQrStUvWxYz0123456789-_AbCdE";
    int ends[2];
    log_pipe(ends);
    struct prn_log *log = prn_log_new(ends[1], PRN_LOG_FORMAT_JSON);
    char text[128], large[5000];
    snprintf(text, sizeof text, "Bearer %s!", secret);
    memset(large, 'x', sizeof large);
    /* One that begins before a value is cut, and ends behind it. */
    memcpy(large + 1015, secret, sizeof secret);
    PRN_LOG(log, PRN_LOG_ERROR, "rpc.denied", PRN_LOG_TEXT("header", text),
            PRN_LOG_TEXT("plain", "prony_net"), PRN_LOG_TEXT("large", large),
            PRN_LOG_NUMBER("rate", NAN));
    const char *line = lines_of(ends[0]);
    json_t *root = NULL;
    assert_done(prn_json_parse(line, strlen(line), "log", &root, err));
    assert_string_equal(json_string_value(json_object_get(root, "event")), "rpc.denied");
    assert_string_equal(json_string_value(json_object_get(root, "level")), "error");
    assert_string_equal(json_string_value(json_object_get(root, "header")), "Bearer prony_***!");
    assert_string_equal(json_string_value(json_object_get(root, "plain")), "prony_net");
    assert_true(json_is_null(json_object_get(root, "rate")));
    assert_null(strstr(line, "AbCd"));
    assert_true(strlen(line) < 1500);
    json_decref(root);
    prn_log_free(log);
    close(ends[0]);
    close(ends[1]);
}

static void holds_repeats_back(void **state)
{
    (void)state;
    int ends[2];
    log_pipe(ends);
    struct prn_log *log = prn_log_new(ends[1], PRN_LOG_FORMAT_TEXT);
    size_t lines = 0;
    for (int i = 0; i < 2000; i++) {
        PRN_LOG(log, PRN_LOG_INFO, "noise", PRN_LOG_INTEGER("i", i));
        for (const char *c = lines_of(ends[0]); *c; c++)
            lines += *c == '\n';
    }
    assert_true(lines >= 100 && lines < 1000);
    PRN_LOG(log, PRN_LOG_INFO, "another", PRN_LOG_INTEGER("i", 1));
    assert_contains(lines_of(ends[0]), "another");
    prn_log_free(log);
    close(ends[0]);
    close(ends[1]);
}

static void knows_formats(void **state)
{
    (void)state;
    enum prn_log_format format;
    assert_done(prn_log_format_parse("json", &format, err));
    assert_int_equal(format, PRN_LOG_FORMAT_JSON);
    assert_refused(prn_log_format_parse("xml", &format, err), PRONY_EUSAGE, "'xml'");
}

static void set_gauge(void *context)
{
    prn_meter_set(context, 7);
}

static void writes_metrics(void **state)
{
    (void)state;
    struct prn_metrics *m = prn_metrics_new();
    struct prn_metric *calls =
        prn_metrics_counter(m, "prony_calls_total", "Calls.", "method", "code");
    struct prn_metric *free_hosts = prn_metrics_gauge(m, "prony_free", "Free.", NULL, NULL);
    assert_ptr_equal(calls, prn_metrics_counter(m, "prony_calls_total", "", NULL, NULL));
    prn_meter_add(prn_metric_meter(calls, "Run", "OK"), 1);
    prn_meter_add(prn_metric_meter(calls, "Run", "OK"), 2);
    prn_meter_add(prn_metric_meter(calls, "a\"b\\c\nd", "X"), 1);
    prn_metrics_on_write(m, set_gauge, prn_metric_meter(free_hosts, NULL, NULL));
    prn_meter_add(NULL, 1);
    struct prn_buffer out = PRN_BUFFER_INIT(1 << 20);
    prn_metrics_write(m, &out);
    assert_string_equal(prn_buffer_text(&out),
                        "# HELP prony_calls_total Calls.\n"
                        "# TYPE prony_calls_total counter\n"
                        "prony_calls_total{method=\"Run\",code=\"OK\"} 3\n"
                        "prony_calls_total{method=\"a\\\"b\\\\c\\nd\",code=\"X\"} 1\n"
                        "# HELP prony_free Free.\n"
                        "# TYPE prony_free gauge\n"
                        "prony_free 7\n");
    prn_buffer_release(&out);
    prn_metrics_free(m);
}

static void bounds_series(void **state)
{
    (void)state;
    struct prn_metrics *m = prn_metrics_new();
    struct prn_metric *calls = prn_metrics_counter(m, "prony_calls_total", "Calls.", "user", NULL);
    for (int i = 0; i < 10000; i++) {
        char name[300];
        snprintf(name, sizeof name, "%d-%0250d", i, 0);
        prn_meter_add(prn_metric_meter(calls, name, NULL), 1);
    }
    struct prn_buffer out = PRN_BUFFER_INIT(1 << 20);
    prn_metrics_write(m, &out);
    size_t lines = 0;
    for (const char *c = out.data; *c; c++)
        lines += *c == '\n';
    assert_int_equal(lines, 2 + PRN_METERS_MAX);
    assert_contains(out.data, "{user=\"other\"} 9745\n");
    prn_buffer_release(&out);
    prn_metrics_free(m);
}

static void *count_up(void *context)
{
    for (int i = 0; i < 2000; i++) {
        prn_meter_add(prn_metric_meter(context, i % 2 ? "odd" : "even", NULL), 1);
        prn_meter_add(prn_metric_meter(context, "seen", NULL), i);
    }
    return NULL;
}

static void counts_from_many_threads(void **state)
{
    (void)state;
    struct prn_metrics *m = prn_metrics_new();
    struct prn_metric *h = prn_metrics_counter(m, "prony_h", "H.", "kind", NULL);
    pthread_t threads[4];
    struct prn_buffer out = PRN_BUFFER_INIT(1 << 20);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, count_up, h), 0);
    prn_metrics_write(m, &out);
    for (size_t i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert_near(prn_meter_value(prn_metric_meter(h, "odd", NULL)), 4000, 0);
    assert_near(prn_meter_value(prn_metric_meter(h, "seen", NULL)), 4 * 1999000.0, 0);
    prn_buffer_release(&out);
    prn_metrics_free(m);
}

struct page {
    size_t n;
    int64_t ids[20];
    char last_user[PRN_USER_SIZE];
};

static int see_session(const struct prn_history_session *session, void *context)
{
    struct page *page = context;
    page->ids[page->n++] = session->id;
    snprintf(page->last_user, sizeof page->last_user, "%s", session->user);
    return page->n == PRN_ARRAY_SIZE(page->ids) ? 99 : 0;
}

static int see_measurement(const struct prn_history_measurement *measurement, void *context)
{
    struct page *page = context;
    page->ids[page->n++] = measurement->id;
    return 0;
}

static void remembers_sessions(void **state)
{
    const struct unit_folder *folder = *state;
    struct prn_state *s = NULL;
    struct prn_history *h = NULL;
    assert_done(prn_state_open(folder->path, true, &s, err));
    const struct prn_history_limits limits = {.sessions = 30};
    assert_done(prn_history_new(s, &limits, &h, err));
    for (int i = 1; i <= 50; i++) {
        const struct prn_history_session session = {.user = i % 10 ? "ann" : "bob",
                                                    .backends = "local/onnxrt-cpu",
                                                    .created_ms = i,
                                                    .ready_ms = i,
                                                    .ended_ms = i,
                                                    .runs = 3,
                                                    .outcome = "closed"};
        assert_done(prn_history_add_session(h, &session, err));
    }
    struct page page = {0};
    assert_done(
        prn_history_sessions(h, &(struct prn_history_query){.limit = 5}, see_session, &page, err));
    assert_int_equal(page.n, 5);
    assert_int_equal(page.ids[0], 50);
    page = (struct page){0};
    const struct prn_history_query next = {.before_id = 24, .limit = 10};
    assert_done(prn_history_sessions(h, &next, see_session, &page, err));
    assert_int_equal(page.n, 3); /* 21 to 23: older ones are gone */
    assert_int_equal(page.ids[2], 21);
    page = (struct page){0};
    assert_done(prn_history_sessions(h, &(struct prn_history_query){.user = "bob"}, see_session,
                                     &page, err));
    assert_int_equal(page.n, 3);
    assert_string_equal(page.last_user, "bob");
    page = (struct page){0};
    assert_int_equal(
        prn_history_sessions(h, &(struct prn_history_query){0}, see_session, &page, NULL), 99);
    prn_history_free(h);
    prn_state_close(s);
}

static void remembers_reports(void **state)
{
    const struct unit_folder *folder = *state;
    struct prn_state *s = NULL;
    struct prn_history *h = NULL;
    assert_done(prn_state_open(folder->path, true, &s, err));
    const struct prn_history_limits limits = {.measurements = 4, .report_bytes = 80000};
    assert_done(prn_history_new(s, &limits, &h, err));
    const struct prn_history_measurement m = {.user = "ann", .model = "mlp.onnx", .backends = "x"};
    char report[10000];
    memset(report, 'r', sizeof report);
    int64_t id = 0;
    assert_refused(prn_history_add_measurement(h, &m, report, 10001, &id, err), PRONY_ELIMIT,
                   "too large");
    for (int i = 0; i < 6; i++)
        assert_done(prn_history_add_measurement(h, &m, report, 100, &id, err));
    struct page page = {0};
    assert_done(
        prn_history_measurements(h, &(struct prn_history_query){0}, see_measurement, &page, err));
    assert_int_equal(page.n, 4);
    prn_history_free(h);

    const struct prn_history_limits more = {.report_bytes = 80000};
    assert_done(prn_history_new(s, &more, &h, err));
    for (int i = 0; i < 12; i++)
        assert_done(prn_history_add_measurement(h, &m, report, sizeof report, &id, err));
    page = (struct page){0};
    assert_done(
        prn_history_measurements(h, &(struct prn_history_query){0}, see_measurement, &page, err));
    assert_int_equal(page.n, 8);
    struct prn_buffer out = PRN_BUFFER_INIT(1 << 20);
    assert_done(prn_history_report(h, id, NULL, &out, err));
    assert_int_equal(out.len, sizeof report);
    assert_done(prn_history_report(h, id, "ann", &out, err));
    assert_refused(prn_history_report(h, id, "bob", &out, err), PRONY_ENOENT, "no measurement");
    assert_refused(prn_history_report(h, 1, NULL, &out, err), PRONY_ENOENT, "no measurement 1");
    prn_buffer_release(&out);
    prn_history_free(h);
    prn_state_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logs_lines_as_text),
        cmocka_unit_test(logs_lines_as_json_without_tokens),
        cmocka_unit_test(holds_repeats_back),
        cmocka_unit_test(knows_formats),
        cmocka_unit_test(writes_metrics),
        cmocka_unit_test(bounds_series),
        cmocka_unit_test(counts_from_many_threads),
        unit_test_in_folder(remembers_sessions),
        unit_test_in_folder(remembers_reports),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
