/* Every allocation of the service's bookkeeping fails in turn (torture.h). */
#include "service/config/config.h"
#include "service/session/lease.h"
#include "service/session/queue.h"
#include "torture.h"

/* After a failure the queue must go on as if nobody had asked. */
static int use_queue(struct prn_queue *queue, struct prony_error *err)
{
    static const char *const hardware[] = {"a", "b", "a"};
    struct prn_queue_request request = {
        .user = "ann", .quota = 1000, .waiting = 1000, .hardware = hardware, .n = 3};
    struct prn_queue_host *host = NULL;
    struct prn_queue_session *session = NULL;
    int code = prn_queue_add_host(queue, "a", queue, 0, &host, err);
    if (code == 0)
        code = prn_queue_promise(queue, "b", 1, 0, err);
    for (int i = 0; i < 40 && code == 0; i++)
        code = prn_queue_ask(queue, &request, 0, &session, err);
    if (code == 0)
        prn_queue_leave(queue, session, 0);
    size_t waiting = prn_queue_waiting(queue);
    assert_int_equal(prn_queue_user_backends(queue, "ann"), 3 * waiting);
    struct prn_queue_session *last = NULL;
    struct prn_queue_session *next = NULL;
    while ((next = prn_queue_next_waiting(queue, "b", last)))
        last = next;
    if (last)
        assert_int_equal(prn_queue_session_worst_place(last), waiting);
    return code;
}

static int queue_of_hosts(struct prony_error *err)
{
    struct prn_queue *queue = NULL;
    int code = prn_queue_new(&queue, err);
    if (code == 0)
        code = use_queue(queue, err);
    prn_queue_free(queue);
    return code;
}

static int leases(struct prony_error *err)
{
    struct prn_leases all = PRN_LEASES_INIT;
    struct prn_lease lease[20] = {0};
    int code = 0;
    for (int i = 0; i < 20 && code == 0; i++)
        code = prn_leases_add(&all, &lease[i], 20 - i);
    if (code < 0)
        err->code = code;
    if (all.n > 0)
        assert_int_equal(prn_leases_next_ns(&all), 21 - (int64_t)all.n);
    prn_leases_release(&all);
    return code;
}

static const char before_text[] =
    "pools: [{name: a, count: 1}, {name: b, software: torch-eager-cpu}]\n"
    "presets: {x: [a/onnxrt-cpu, 'b/torch-eager-cpu[k=v]'], y: a/torch-eager-cuda}\n"
    "quota: {default: 3, users: {ann: 4, bob: none}}\n";
static const char after_text[] = "listen: [127.0.0.1:1, '[::1]:2']\nhttp: 127.0.0.1:3\n"
                                 "pools: [{name: a, count: 2, processor: P}, {name: c}]\n"
                                 "state: here\ncache: {folder: there}\n";

static int parse_config(struct prony_error *err)
{
    struct prn_config config;
    int code = prn_config_parse(before_text, strlen(before_text), "x/y.yaml", NULL, &config, err);
    if (code == 0)
        prn_config_release(&config);
    return code;
}

static int compare_configs(struct prony_error *err)
{
    struct prn_config before = {0};
    struct prn_config after = {0};
    struct prn_arena arena = PRN_ARENA_INIT(1 << 20);
    struct prn_config_change *changes = NULL;
    size_t n = 0;
    int code = prn_config_parse(before_text, strlen(before_text), "x", NULL, &before, err);
    if (code == 0)
        code = prn_config_parse(after_text, strlen(after_text), "x", NULL, &after, err);
    if (code == 0)
        code = prn_config_compare(&before, &after, &arena, &changes, &n, err);
    prn_arena_release(&arena);
    prn_config_release(&before);
    prn_config_release(&after);
    return code;
}

static void test_queue(void **state)
{
    (void)state;
    torment(queue_of_hosts, PRONY_ENOMEM);
}

static void test_leases(void **state)
{
    (void)state;
    torment(leases, PRONY_ENOMEM);
}

/* Without memory the processor's name isn't known, which isn't an error. */
static void test_config(void **state)
{
    (void)state;
    torment(parse_config, PRONY_OK);
    torment(compare_configs, PRONY_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_queue),
        cmocka_unit_test(test_leases),
        cmocka_unit_test(test_config),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
