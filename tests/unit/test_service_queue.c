/* The queue of hosts: cases worked out by hand, and long random histories beside a model that
 * looks at everybody after each step. */
#include "base/random.h"
#include "service/session/queue.h"
#include "unit.h"

#include <stdlib.h>

struct fixture {
    struct prn_queue *queue;
    struct prony_error err;
    int64_t now_ns;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    assert_int_equal(prn_queue_new(&f->queue, &f->err), 0);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    prn_queue_free(f->queue);
    free(f);
    return 0;
}

static struct prn_queue_host *add(struct fixture *f, const char *hardware, void *data)
{
    struct prn_queue_host *host = NULL;
    assert_int_equal(prn_queue_add_host(f->queue, hardware, data, ++f->now_ns, &host, &f->err), 0);
    return host;
}

/* Hardware as "a b". */
static int try_ask(struct fixture *f, const char *user, size_t quota, const char *hardware,
                   void *data, struct prn_queue_session **ret_session)
{
    char names[200];
    const char *list[20];
    size_t n = 0;
    snprintf(names, sizeof names, "%s", hardware);
    char *rest = NULL;
    for (char *name = strtok_r(names, " ", &rest); name; name = strtok_r(NULL, " ", &rest))
        list[n++] = name;
    struct prn_queue_request request = {.user = user,
                                        .quota = quota,
                                        .waiting = PRN_QUEUE_NO_LIMIT,
                                        .hardware = list,
                                        .n = n,
                                        .data = data};
    return prn_queue_ask(f->queue, &request, ++f->now_ns, ret_session, &f->err);
}

static struct prn_queue_session *ask(struct fixture *f, const char *hardware)
{
    struct prn_queue_session *session = NULL;
    if (try_ask(f, "ann", PRN_QUEUE_NO_LIMIT, hardware, NULL, &session) < 0)
        fail_msg("%s", f->err.text);
    return session;
}

static void leave(struct fixture *f, struct prn_queue_session *session)
{
    prn_queue_leave(f->queue, session, ++f->now_ns);
}

static void expect_granted(struct fixture *f, struct prn_queue_session *session)
{
    assert_ptr_equal(prn_queue_next_granted(f->queue), session);
}

static void test_one_after_the_other(void **state)
{
    struct fixture *f = *state;
    int worker;
    add(f, "local", &worker);
    struct prn_queue_session *first = ask(f, "local");
    struct prn_queue_session *second = ask(f, "local");
    struct prn_queue_session *third = ask(f, "local");
    expect_granted(f, first);
    expect_granted(f, NULL);
    assert_ptr_equal(prn_queue_session_host(first, "local", 0), &worker);
    assert_null(prn_queue_session_host(first, "other", 0));
    assert_null(prn_queue_session_host(second, "local", 0));
    assert_int_equal(prn_queue_session_place(first, "local"), 0);
    assert_int_equal(prn_queue_session_place(second, "local"), 1);
    assert_int_equal(prn_queue_session_place(third, "local"), 2);
    assert_int_equal(prn_queue_session_place(third, "other"), 0);
    assert_int_equal(prn_queue_waiting(f->queue), 2);
    leave(f, second);
    expect_granted(f, NULL);
    assert_int_equal(prn_queue_session_worst_place(third), 1);
    assert_int_equal(prn_queue_session_waited_ns(third, 100), 100 - 4);
    leave(f, first);
    expect_granted(f, third);
    assert_int_equal(prn_queue_session_waited_ns(third, 100), 6 - 4);
    assert_int_equal(prn_queue_session_asked_ns(third), 4);
    assert_int_equal(prn_queue_session_state(third), PRN_QUEUE_GRANTED);
    leave(f, third);
    struct prn_queue_hardware hardware;
    assert_true(prn_queue_find_hardware(f->queue, "local", &hardware));
    assert_int_equal(hardware.free, 1);
    assert_int_equal(hardware.held, 0);
    assert_int_equal(hardware.waiting, 0);
}

static void test_all_or_none(void **state)
{
    struct fixture *f = *state;
    int a;
    int b;
    add(f, "a", &a);
    add(f, "b", &b);
    struct prn_queue_session *holds_b = ask(f, "b");
    expect_granted(f, holds_b);
    struct prn_queue_session *both = ask(f, "b a b");
    struct prn_queue_session *only_a = ask(f, "a");
    /* A host of `a` is free, but it is kept for the one who came first. */
    expect_granted(f, NULL);
    assert_int_equal(prn_queue_session_place(both, "a"), 1);
    assert_int_equal(prn_queue_session_place(only_a, "a"), 2);
    assert_string_equal(prn_queue_session_hardware(both, 0), "a");
    assert_string_equal(prn_queue_session_hardware(both, 1), "b");
    assert_null(prn_queue_session_hardware(both, 2));
    assert_null(prn_queue_session_host(both, "a", 0));
    leave(f, holds_b);
    expect_granted(f, both);
    expect_granted(f, NULL);
    assert_ptr_equal(prn_queue_session_host(both, "a", 0), &a);
    assert_ptr_equal(prn_queue_session_host(both, "b", 0), &b);
    leave(f, both);
    expect_granted(f, only_a);
}

static struct prn_queue_session *ask_own(struct fixture *f, const char *const *hardware, size_t n)
{
    struct prn_queue_session *session = NULL;
    struct prn_queue_request request = {.user = "ann",
                                        .quota = PRN_QUEUE_NO_LIMIT,
                                        .waiting = PRN_QUEUE_NO_LIMIT,
                                        .hardware = hardware,
                                        .n = n,
                                        .own_hosts = true};
    int code = prn_queue_ask(f->queue, &request, ++f->now_ns, &session, &f->err);
    assert_true(code == 0 || code == PRONY_ENOENT);
    return session;
}

/* Two who want both hosts take turns: neither gets one and waits for the other. */
static void test_several_of_a_kind(void **state)
{
    struct fixture *f = *state;
    static const char *const both[] = {"a", "a", "a"};
    int workers[2];
    add(f, "a", &workers[0]);
    struct prn_queue_host *second = add(f, "a", &workers[1]);
    assert_null(ask_own(f, both, 3));
    assert_string_equal(f->err.text,
                        "more than 2 hosts of 'a' were requested; there are only that many");
    struct prn_queue_session *one = ask_own(f, both, 2);
    struct prn_queue_session *two = ask_own(f, both, 2);
    struct prn_queue_session *three = ask(f, "a");
    expect_granted(f, one);
    expect_granted(f, NULL);
    assert_ptr_not_equal(prn_queue_session_host(one, "a", 0), prn_queue_session_host(one, "a", 1));
    assert_null(prn_queue_session_host(one, "a", 2));
    assert_int_equal(prn_queue_session_place(two, "a"), 1);
    assert_int_equal(prn_queue_session_worst_place(two), 2);
    assert_int_equal(prn_queue_session_place(three, "a"), 3);
    assert_ptr_equal(prn_queue_next_waiting(f->queue, "a", NULL), two);
    assert_ptr_equal(prn_queue_next_waiting(f->queue, "a", two), three);
    assert_null(prn_queue_next_waiting(f->queue, "a", three));
    /* When a host goes, what is left is too little for one of them, and the other moves up. */
    assert_ptr_equal(prn_queue_remove_host(f->queue, second, ++f->now_ns), one);
    assert_ptr_equal(prn_queue_next_failed(f->queue), two);
    leave(f, two);
    expect_granted(f, NULL);
    leave(f, one);
    expect_granted(f, three);
}

/* Somebody may go ahead where enough is left for those in front. */
static void test_ahead_without_harm(void **state)
{
    struct fixture *f = *state;
    add(f, "a", NULL);
    add(f, "a", NULL);
    add(f, "b", NULL);
    struct prn_queue_session *holds_b = ask(f, "b");
    struct prn_queue_session *both = ask(f, "a b");
    struct prn_queue_session *only_a = ask(f, "a");
    struct prn_queue_session *second_a = ask(f, "a");
    expect_granted(f, holds_b);
    expect_granted(f, only_a);
    expect_granted(f, NULL);
    leave(f, holds_b);
    expect_granted(f, both);
    leave(f, both);
    expect_granted(f, second_a);
    expect_granted(f, NULL);
}

/* Whoever needs much gets it, although those who need little never stop coming. */
static void test_nobody_starves(void **state)
{
    struct fixture *f = *state;
    add(f, "a", NULL);
    add(f, "b", NULL);
    struct prn_queue_session *on_a = ask(f, "a");
    struct prn_queue_session *on_b = ask(f, "b");
    struct prn_queue_session *both = ask(f, "a b");
    for (int i = 0; i < 100; i++) {
        ask(f, "a");
        ask(f, "b");
    }
    expect_granted(f, on_a);
    expect_granted(f, on_b);
    leave(f, on_a);
    expect_granted(f, NULL);
    leave(f, on_b);
    expect_granted(f, both);
    expect_granted(f, NULL);
    leave(f, both);
    assert_non_null(prn_queue_next_granted(f->queue));
    assert_non_null(prn_queue_next_granted(f->queue));
    expect_granted(f, NULL);
    assert_int_equal(prn_queue_waiting(f->queue), 198);
}

/* Two who want the same in another order. */
static void test_no_deadlock(void **state)
{
    struct fixture *f = *state;
    add(f, "a", NULL);
    add(f, "b", NULL);
    struct prn_queue_session *one = ask(f, "a b");
    struct prn_queue_session *other = ask(f, "b a");
    expect_granted(f, one);
    expect_granted(f, NULL);
    leave(f, one);
    expect_granted(f, other);
}

static void test_unknown_hardware(void **state)
{
    struct fixture *f = *state;
    struct prn_queue_session *session = NULL;
    assert_int_equal(try_ask(f, "ann", 9, "local", NULL, &session), PRONY_ENOENT);
    assert_string_equal(f->err.text, "there is no hardware 'local' here (there is: none)");
    add(f, "local", NULL);
    assert_int_equal(prn_queue_promise(f->queue, "r6i.large", 1, 0, &f->err), 0);
    assert_int_equal(try_ask(f, "ann", 9, "local nowhere", NULL, &session), PRONY_ENOENT);
    assert_string_equal(f->err.text,
                        "there is no hardware 'nowhere' here (there is: local, r6i.large)");
    assert_int_equal(try_ask(f, "ann", 9, "", NULL, &session), PRONY_EUSAGE);
    assert_int_equal(prn_queue_user_backends(f->queue, "ann"), 0);
    assert_int_equal(prn_queue_waiting(f->queue), 0);
    assert_false(prn_queue_has(f->queue, "nowhere"));
    assert_true(prn_queue_has(f->queue, "r6i.large"));
}

static void test_promises(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(prn_queue_promise(f->queue, "lab", 2, 0, &f->err), 0);
    struct prn_queue_session *one = ask(f, "lab");
    struct prn_queue_session *two = ask(f, "lab");
    expect_granted(f, NULL);
    struct prn_queue_host *host = add(f, "lab", &one);
    expect_granted(f, one);
    /* The promise holds after the host has gone, and the session that lost it isn't forgotten. */
    assert_ptr_equal(prn_queue_remove_host(f->queue, host, ++f->now_ns), one);
    assert_null(prn_queue_session_host(one, "lab", 0));
    assert_int_equal(prn_queue_session_state(one), PRN_QUEUE_GRANTED);
    leave(f, one);
    expect_granted(f, NULL);
    assert_null(prn_queue_next_failed(f->queue));
    /* Without it nobody may wait. */
    assert_int_equal(prn_queue_promise(f->queue, "lab", 0, ++f->now_ns, &f->err), 0);
    assert_ptr_equal(prn_queue_next_failed(f->queue), two);
    assert_null(prn_queue_next_failed(f->queue));
    assert_int_equal(prn_queue_session_state(two), PRN_QUEUE_FAILED);
    assert_string_equal(prn_queue_session_missing(two), "lab");
    assert_int_equal(prn_queue_session_place(two, "lab"), 0);
    assert_int_equal(prn_queue_session_waited_ns(two, 1000), f->now_ns - 2);
    leave(f, two);
    assert_int_equal(prn_queue_user_backends(f->queue, "ann"), 0);
}

/* Those who fail make room elsewhere. */
static void test_last_host_goes(void **state)
{
    struct fixture *f = *state;
    struct prn_queue_host *a = add(f, "a", NULL);
    add(f, "b", NULL);
    struct prn_queue_session *holds_a = ask(f, "a");
    struct prn_queue_session *both = ask(f, "a b");
    struct prn_queue_session *only_b = ask(f, "b");
    struct prn_queue_session *third = ask(f, "a");
    expect_granted(f, holds_a);
    expect_granted(f, NULL);
    assert_ptr_equal(prn_queue_remove_host(f->queue, a, ++f->now_ns), holds_a);
    assert_ptr_equal(prn_queue_next_failed(f->queue), both);
    assert_ptr_equal(prn_queue_next_failed(f->queue), third);
    assert_null(prn_queue_next_failed(f->queue));
    expect_granted(f, only_b);
    struct prn_queue_session *again = NULL;
    assert_int_equal(try_ask(f, "ann", 99, "a", NULL, &again), PRONY_ENOENT);
    leave(f, holds_a);
    struct prn_queue_hardware hardware;
    assert_true(prn_queue_find_hardware(f->queue, "a", &hardware));
    assert_int_equal(hardware.hosts, 0);
    assert_int_equal(hardware.held, 0);
    leave(f, both);
    leave(f, third);
}

static void test_free_host_goes(void **state)
{
    struct fixture *f = *state;
    struct prn_queue_host *free_one = add(f, "a", NULL);
    add(f, "b", NULL);
    struct prn_queue_session *holds_b = ask(f, "b");
    struct prn_queue_session *both = ask(f, "a b");
    expect_granted(f, holds_b);
    assert_int_equal(prn_queue_promise(f->queue, "a", 1, ++f->now_ns, &f->err), 0);
    /* The host that was kept for `both` leaves before it is of use. */
    assert_null(prn_queue_remove_host(f->queue, free_one, ++f->now_ns));
    leave(f, holds_b);
    expect_granted(f, NULL);
    add(f, "a", NULL);
    expect_granted(f, both);
}

static void test_draining(void **state)
{
    struct fixture *f = *state;
    int one;
    int two;
    struct prn_queue_host *first = add(f, "a", &one);
    struct prn_queue_host *second = add(f, "a", &two);
    prn_queue_drain_host(f->queue, second, ++f->now_ns);
    prn_queue_drain_host(f->queue, second, ++f->now_ns);
    assert_true(prn_queue_host_draining(second));
    struct prn_queue_session *holder = ask(f, "a");
    struct prn_queue_session *waiting = ask(f, "a");
    expect_granted(f, holder);
    expect_granted(f, NULL);
    assert_ptr_equal(prn_queue_session_host(holder, "a", 0), &one);
    assert_ptr_equal(prn_queue_host_holder(first), holder);
    struct prn_queue_hardware hardware;
    assert_true(prn_queue_hardware(f->queue, 0, &hardware));
    assert_int_equal(hardware.hosts, 2);
    assert_int_equal(hardware.free, 0);
    assert_int_equal(hardware.draining, 1);
    assert_false(prn_queue_hardware(f->queue, 1, &hardware));
    /* The last one that would serve drains while it is held: its holder keeps it, nobody waits. */
    prn_queue_drain_host(f->queue, first, ++f->now_ns);
    assert_ptr_equal(prn_queue_next_failed(f->queue), waiting);
    assert_ptr_equal(prn_queue_session_host(holder, "a", 0), &one);
    leave(f, waiting);
    leave(f, holder);
    assert_null(prn_queue_host_holder(first));
    assert_true(prn_queue_find_hardware(f->queue, "a", &hardware));
    assert_int_equal(hardware.free, 0);
    assert_null(prn_queue_remove_host(f->queue, first, ++f->now_ns));
    assert_null(prn_queue_remove_host(f->queue, second, ++f->now_ns));
    assert_true(prn_queue_find_hardware(f->queue, "a", &hardware));
    assert_int_equal(hardware.hosts, 0);
    assert_int_equal(hardware.draining, 0);
}

static void test_quota(void **state)
{
    struct fixture *f = *state;
    struct prn_queue_session *session = NULL;
    struct prn_queue_session *other = NULL;
    add(f, "a", NULL);
    add(f, "b", NULL);
    assert_int_equal(try_ask(f, "ann", 3, "a a b", NULL, &session), 0);
    assert_int_equal(prn_queue_user_backends(f->queue, "ann"), 3);
    assert_string_equal(prn_queue_session_user(session), "ann");
    assert_int_equal(try_ask(f, "ann", 3, "a", NULL, &other), PRONY_ELIMIT);
    assert_string_equal(f->err.text, "1 backends were requested and 3 are held or queued, but "
                                     "the user's limit is 3; close sessions that aren't needed");
    /* Waiting counts; another user has their own; a limit that was lowered only stops more. */
    assert_int_equal(try_ask(f, "ann", 4, "a", NULL, &other), 0);
    assert_int_equal(prn_queue_session_state(other), PRN_QUEUE_WAITING);
    assert_int_equal(prn_queue_user_backends(f->queue, "ann"), 4);
    assert_int_equal(try_ask(f, "ann", 1, "a", NULL, &other), PRONY_ELIMIT);
    assert_int_equal(try_ask(f, "bob", 0, "a", NULL, &other), PRONY_ELIMIT);
    assert_int_equal(try_ask(f, "bob", 1, "a", NULL, &other), 0);
    leave(f, session);
    assert_int_equal(prn_queue_user_backends(f->queue, "ann"), 1);
    assert_int_equal(prn_queue_user_backends(f->queue, "nobody"), 0);
}

static void test_lists(void **state)
{
    struct fixture *f = *state;
    int data[3];
    for (int i = 0; i < 3; i++)
        add(f, "a", &data[i]);
    struct prn_queue_session *sessions[6];
    for (int i = 0; i < 6; i++)
        sessions[i] = ask(f, "a");
    size_t n = 0;
    bool seen[3] = {false};
    for (struct prn_queue_host *h = NULL; (h = prn_queue_next_host(f->queue, "a", h)); n++) {
        seen[(int *)prn_queue_host_data(h) - data] = true;
        assert_non_null(prn_queue_host_holder(h));
    }
    assert_int_equal(n, 3);
    assert_true(seen[0] && seen[1] && seen[2]);
    n = 3;
    for (struct prn_queue_session *s = NULL; (s = prn_queue_next_waiting(f->queue, "a", s)); n++)
        assert_ptr_equal(s, sessions[n]);
    assert_int_equal(n, 6);
    assert_null(prn_queue_next_host(f->queue, "b", NULL));
    assert_null(prn_queue_next_waiting(f->queue, "b", NULL));
    /* A grant that nobody has asked about yet is forgotten with its session. */
    leave(f, sessions[0]);
    leave(f, sessions[3]);
    expect_granted(f, sessions[1]);
    expect_granted(f, sessions[2]);
    expect_granted(f, sessions[4]);
    expect_granted(f, NULL);
}

/* ---- Fair ---- */

#define SECOND ((int64_t)1000000000)

static void be_fair(struct fixture *f, double window_s)
{
    prn_queue_set_policy(f->queue, &(struct prn_queue_policy){true, window_s}, f->now_ns);
}

static struct prn_queue_session *ask_as(struct fixture *f, const char *user, const char *hardware)
{
    struct prn_queue_session *session = NULL;
    if (try_ask(f, user, PRN_QUEUE_NO_LIMIT, hardware, NULL, &session) < 0)
        fail_msg("%s", f->err.text);
    return session;
}

static struct prn_queue_session *ask_with(struct fixture *f, const char *user, double share,
                                          int priority)
{
    static const char *const hardware[] = {"a"};
    struct prn_queue_request request = {.user = user,
                                        .quota = PRN_QUEUE_NO_LIMIT,
                                        .waiting = PRN_QUEUE_NO_LIMIT,
                                        .hardware = hardware,
                                        .n = 1,
                                        .share = share,
                                        .priority = priority};
    struct prn_queue_session *session = NULL;
    assert_int_equal(prn_queue_ask(f->queue, &request, ++f->now_ns, &session, &f->err), 0);
    return session;
}

/* Who is served: each in turn holds the host for so long, and leaves. As a string of first letters.
 */
static const char *serve(struct fixture *f, size_t n, double ann_s, double others_s)
{
    static char order[200];
    size_t i = 0;
    struct prn_queue_session *s;
    while (i < n && (s = prn_queue_next_granted(f->queue))) {
        const char *user = prn_queue_session_user(s);
        order[i++] = user[0];
        f->now_ns += (int64_t)((user[0] == 'a' ? ann_s : others_s) * 1e9);
        leave(f, s);
    }
    order[i] = 0;
    return order;
}

/* Whoever floods the queue waits behind whoever comes later and has had nothing. */
static void test_fair_turns(void **state)
{
    struct fixture *f = *state;
    add(f, "a", NULL);
    be_fair(f, 86400);
    for (int i = 0; i < 8; i++)
        ask_as(f, "ann", "a");
    f->now_ns += 10 * SECOND;
    for (int i = 0; i < 3; i++)
        ask_as(f, "bob", "a");
    assert_string_equal(serve(f, 11, 60, 60), "abababaaaaa");
}

/* Ten minutes weigh as much as ten times one: what sessions took is learned while others wait. */
static void test_fair_by_time(void **state)
{
    struct fixture *f = *state;
    add(f, "a", NULL);
    be_fair(f, 86400);
    for (int i = 0; i < 6; i++)
        ask_as(f, "ann", "a");
    for (int i = 0; i < 40; i++)
        ask_as(f, "bob", "a");
    const char *order = serve(f, 46, 600, 60);
    size_t bobs = 0;
    double worst_s = 0;
    double had_s[2] = {0, 0};
    for (const char *c = order; bobs < 40; c++) {
        bobs += *c == 'b';
        had_s[*c == 'b'] += *c == 'b' ? 60 : 600;
        double apart_s = had_s[0] - had_s[1];
        worst_s = apart_s > worst_s ? apart_s : worst_s;
    }
    /* Never further apart than two of the long ones. */
    assert_true(worst_s <= 1200);
    assert_true(had_s[0] >= 1800);
}

static void test_first_come_by_default(void **state)
{
    struct fixture *f = *state;
    add(f, "a", NULL);
    for (int i = 0; i < 4; i++)
        ask_as(f, "ann", "a");
    for (int i = 0; i < 3; i++)
        ask_as(f, "bob", "a");
    assert_string_equal(serve(f, 7, 60, 60), "aaaabbb");
}

/* A change of the policy ranks those who wait again, and back. */
static void test_policy_changes(void **state)
{
    struct fixture *f = *state;
    add(f, "a", NULL);
    struct prn_queue_session *anns[3];
    for (int i = 0; i < 3; i++)
        anns[i] = ask_as(f, "ann", "a");
    struct prn_queue_session *bob = ask_as(f, "bob", "a");
    expect_granted(f, anns[0]);
    assert_int_equal(prn_queue_session_place(bob, "a"), 3);
    be_fair(f, 3600);
    assert_int_equal(prn_queue_session_place(bob, "a"), 1);
    prn_queue_set_policy(f->queue, &(struct prn_queue_policy){false, 3600}, f->now_ns);
    assert_int_equal(prn_queue_session_place(bob, "a"), 3);
}

static void test_shares(void **state)
{
    struct fixture *f = *state;
    add(f, "a", NULL);
    be_fair(f, 86400);
    for (int i = 0; i < 12; i++) {
        ask_with(f, "ann", 3, 0);
        ask_with(f, "bob", 1, 0);
    }
    const char *order = serve(f, 12, 60, 60);
    size_t anns = 0;
    for (const char *c = order; *c; c++)
        anns += *c == 'a';
    assert_in_range(anns, 8, 10);
}

/* A higher priority goes first, but not for ever: after a window it is one of many. */
static void test_priorities(void **state)
{
    struct fixture *f = *state;
    add(f, "a", NULL);
    be_fair(f, 100);
    struct prn_queue_session *holder = ask_with(f, "cid", 1, 0);
    struct prn_queue_session *low = ask_with(f, "ann", 1, -1);
    struct prn_queue_session *middle = ask_with(f, "ann", 1, 0);
    struct prn_queue_session *high = ask_with(f, "bob", 1, 1);
    expect_granted(f, holder);
    assert_true(prn_queue_session_before(high, middle));
    assert_true(prn_queue_session_before(middle, low));
    /* Of the highest priority, and no debt, but two windows and the one of a debt later. */
    f->now_ns += 301 * SECOND;
    struct prn_queue_session *late = ask_with(f, "dan", 1, 1);
    assert_true(prn_queue_session_before(low, late));
}

/* What was had fades, and what was had before a restart counts. */
static void test_past(void **state)
{
    struct fixture *f = *state;
    add(f, "a", NULL);
    be_fair(f, 3600);
    struct prn_queue_session *holder = ask_as(f, "cid", "a");
    expect_granted(f, holder);
    assert_int_equal(prn_queue_add_past(f->queue, "ann", "a", 1000, 0, f->now_ns, &f->err), 0);
    assert_int_equal(prn_queue_add_past(f->queue, "bob", "a", 1000, 7200, f->now_ns, &f->err), 0);
    struct prn_queue_session *ann = ask_as(f, "ann", "a");
    f->now_ns += 800 * SECOND; /* of 1000 less than 200 are left to bob */
    struct prn_queue_session *bob = ask_as(f, "bob", "a");
    assert_true(prn_queue_session_before(bob, ann));
    f->now_ns += 300 * SECOND;
    struct prn_queue_session *dan = ask_as(f, "dan", "a");
    assert_true(prn_queue_session_before(ann, dan));
}

/* One who asked before a restart stands where it stood. */
static void test_asked_before(void **state)
{
    struct fixture *f = *state;
    static const char *const hardware[] = {"a"};
    struct prn_queue_session *old = NULL;
    f->now_ns = 100 * SECOND;
    add(f, "a", NULL);
    struct prn_queue_session *holder = ask(f, "a");
    struct prn_queue_session *new = ask(f, "a");
    struct prn_queue_request request = {.user = "ann",
                                        .quota = PRN_QUEUE_NO_LIMIT,
                                        .waiting = PRN_QUEUE_NO_LIMIT,
                                        .hardware = hardware,
                                        .n = 1,
                                        .waited_ns = 30 * SECOND};
    assert_int_equal(prn_queue_ask(f->queue, &request, ++f->now_ns, &old, &f->err), 0);
    expect_granted(f, holder);
    assert_int_equal(prn_queue_session_place(old, "a"), 1);
    assert_int_equal(prn_queue_session_place(new, "a"), 2);
    assert_int_equal(prn_queue_session_waited_ns(old, f->now_ns), 30 * SECOND);
}

/* ---- Kept for a user ---- */

static void keep(struct fixture *f, const char *user, size_t hosts)
{
    assert_int_equal(prn_queue_keep(f->queue, "a", user, hosts, ++f->now_ns, &f->err), 0);
}

static void test_kept(void **state)
{
    struct fixture *f = *state;
    struct prn_queue_hardware counts;
    add(f, "a", NULL);
    add(f, "a", NULL);
    keep(f, "bob", 1);
    struct prn_queue_session *one = ask_as(f, "ann", "a");
    struct prn_queue_session *two = ask_as(f, "ann", "a");
    expect_granted(f, one);
    expect_granted(f, NULL);
    assert_true(prn_queue_find_hardware(f->queue, "a", &counts));
    assert_int_equal(counts.free, 0);
    assert_int_equal(counts.kept, 1);
    /* Whom it is kept for passes those who came before, and queues for the others. */
    struct prn_queue_session *bob = ask_as(f, "bob", "a");
    struct prn_queue_session *more = ask_as(f, "bob", "a");
    expect_granted(f, bob);
    expect_granted(f, NULL);
    assert_int_equal(prn_queue_session_place(two, "a"), 1);
    assert_int_equal(prn_queue_session_place(more, "a"), 2);
    /* Given back, it is kept again. */
    leave(f, bob);
    expect_granted(f, more);
    leave(f, more);
    expect_granted(f, NULL);
    keep(f, "bob", 0);
    expect_granted(f, two);
}

/* All are held: it is kept once one is back. What the user has already counts. */
static void test_kept_later(void **state)
{
    struct fixture *f = *state;
    struct prn_queue_host *host = add(f, "a", NULL);
    struct prn_queue_host *other = add(f, "a", NULL);
    struct prn_queue_session *ann = ask_as(f, "ann", "a");
    struct prn_queue_session *bob = ask_as(f, "bob", "a");
    struct prn_queue_session *waiting = ask_as(f, "ann", "a");
    expect_granted(f, ann);
    expect_granted(f, bob);
    keep(f, "bob", 2);
    leave(f, ann);
    expect_granted(f, NULL);
    leave(f, bob);
    expect_granted(f, NULL);
    assert_string_equal(prn_queue_host_kept_for(f->queue, host), "bob");
    assert_string_equal(prn_queue_host_kept_for(f->queue, other), "bob");
    /* One that is disabled or goes is replaced, if another is there. */
    keep(f, "bob", 1);
    expect_granted(f, waiting);
    leave(f, waiting);
    prn_queue_disable_host(f->queue, prn_queue_host_kept_for(f->queue, host) ? host : other, true,
                           ++f->now_ns);
    struct prn_queue_session *none = ask_as(f, "ann", "a");
    expect_granted(f, NULL);
    leave(f, none);
}

static void test_kept_host(void **state)
{
    struct fixture *f = *state;
    int one;
    int two;
    struct prn_queue_host *host = add(f, "a", &one);
    add(f, "a", &two);
    assert_int_equal(prn_queue_keep_host(f->queue, host, "bob", ++f->now_ns, &f->err), 0);
    struct prn_queue_session *ann = ask_as(f, "ann", "a");
    struct prn_queue_session *next = ask_as(f, "ann", "a");
    expect_granted(f, ann);
    expect_granted(f, NULL);
    assert_ptr_equal(prn_queue_session_host(ann, "a", 0), &two);
    struct prn_queue_session *bob = ask_as(f, "bob", "a");
    expect_granted(f, bob);
    assert_ptr_equal(prn_queue_session_host(bob, "a", 0), &one);
    assert_int_equal(prn_queue_keep_host(f->queue, host, NULL, ++f->now_ns, &f->err), 0);
    leave(f, bob);
    expect_granted(f, next);
    assert_ptr_equal(prn_queue_session_host(next, "a", 0), &one);
}

/* A pause holds for those with hosts of their own, too. */
static void test_kept_paused(void **state)
{
    struct fixture *f = *state;
    add(f, "a", NULL);
    add(f, "b", NULL);
    keep(f, "bob", 1);
    struct prn_queue_session *holds_b = ask_as(f, "ann", "b");
    struct prn_queue_session *bob = ask_as(f, "bob", "a b");
    expect_granted(f, holds_b);
    assert_true(prn_queue_pause(f->queue, "a", true, ++f->now_ns));
    leave(f, holds_b);
    expect_granted(f, NULL);
    assert_true(prn_queue_pause(f->queue, "a", false, ++f->now_ns));
    expect_granted(f, bob);
}

/* ---- Random histories ---- */

#define USERS 3
#define KINDS 4
#define SLOTS 100
#define HOSTS 24

static const char *const kinds[KINDS] = {"a", "b", "c", "d"};
static const char *const users[USERS] = {"ann", "bob", "cid"};

struct model_host {
    struct prn_queue_host *host; /* NULL: not there */
    size_t kind;
    bool draining, pinned;
    struct model_session *holder;
};

struct model_session {
    struct prn_queue_session *session; /* NULL: not there */
    uint64_t order;                    /* of asking */
    size_t user;
    size_t needs[KINDS]; /* hosts */
    size_t place[KINDS]; /* of the first of them; by look() */
    bool may_go;         /* likewise */
    enum prn_queue_state state;
    struct model_host *hosts[KINDS][KINDS];
};

struct model {
    struct fixture *f;
    struct prn_random random;
    bool fair;
    uint64_t asked, granted, failed, lost, overtaken;
    size_t promised[KINDS];
    size_t wanted[KINDS][USERS];            /* kept, by number */
    struct model_host hosts[HOSTS + KINDS]; /* the last ones for the end */
    struct model_session sessions[SLOTS];
};

static size_t below(struct model *m, size_t bound)
{
    return (size_t)prn_random_below(&m->random, bound);
}

/* Those that nobody holds, for a user alone or, with USERS, for all. */
static size_t free_hosts(const struct model *m, size_t kind, size_t user)
{
    size_t n = 0;
    for (size_t i = 0; i < HOSTS + KINDS; i++) {
        const struct model_host *h = &m->hosts[i];
        if (!h->host || h->kind != kind || h->draining || h->holder)
            continue;
        const char *kept_for = prn_queue_host_kept_for(m->f->queue, h->host);
        n += user == USERS ? !kept_for : kept_for && strcmp(kept_for, users[user]) == 0;
    }
    return n;
}

static size_t offered(const struct model *m, size_t kind)
{
    size_t there = 0;
    for (size_t i = 0; i < HOSTS + KINDS; i++)
        there += m->hosts[i].host && m->hosts[i].kind == kind && !m->hosts[i].draining;
    return there > m->promised[kind] ? there : m->promised[kind];
}

static bool comes_first(const struct model *m, const struct model_session *a,
                        const struct model_session *b)
{
    bool first = prn_queue_session_before(a->session, b->session);
    if (!m->fair)
        assert_int_equal(first, a->order < b->order);
    return first;
}

/* Those who wait, the first first. */
static size_t sort_waiting(struct model *m, struct model_session *sorted[SLOTS])
{
    size_t n = 0;
    for (size_t i = 0; i < SLOTS; i++) {
        struct model_session *s = &m->sessions[i];
        if (!s->session || s->state != PRN_QUEUE_WAITING)
            continue;
        size_t at = n++;
        for (; at > 0 && comes_first(m, s, sorted[at - 1]); at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = s;
    }
    return n;
}

/* Places, and who may go: everybody in turn is given a host of those kept for them, or of the
 * others. */
static void look(struct model *m)
{
    struct model_session *sorted[SLOTS];
    size_t n = sort_waiting(m, sorted);
    for (size_t i = 0; i < n; i++)
        sorted[i]->may_go = true;
    for (size_t k = 0; k < KINDS; k++) {
        size_t free_of[USERS + 1];
        size_t taken[USERS + 1] = {0};
        for (size_t u = 0; u <= USERS; u++)
            free_of[u] = free_hosts(m, k, u);
        for (size_t i = 0; i < n; i++)
            for (size_t h = 0; h < sorted[i]->needs[k]; h++) {
                size_t own = sorted[i]->user;
                size_t from = taken[own] < free_of[own] ? own : USERS;
                size_t at = ++taken[from];
                sorted[i]->place[k] = h == 0 ? at : sorted[i]->place[k];
                sorted[i]->may_go = sorted[i]->may_go && at <= free_of[from];
            }
    }
    for (size_t i = 1; i < n; i++)
        m->overtaken += sorted[i - 1]->order > sorted[i]->order;
}

static bool may_go(const struct model_session *s)
{
    return s->session && s->state == PRN_QUEUE_WAITING && s->may_go;
}

/* Takes over which hosts the queue chose, and that each of them was free. */
static void take_grant(struct model *m, struct model_session *s)
{
    assert_int_equal(prn_queue_session_state(s->session), PRN_QUEUE_GRANTED);
    for (size_t k = 0; k < KINDS; k++) {
        assert_null(prn_queue_session_host(s->session, kinds[k], s->needs[k]));
        for (size_t i = 0; i < s->needs[k]; i++) {
            struct model_host *host = prn_queue_session_host(s->session, kinds[k], i);
            assert_non_null(host);
            assert_non_null(host->host);
            assert_int_equal(host->kind, k);
            assert_null(host->holder);
            assert_false(host->draining);
            host->holder = s;
            s->hosts[k][i] = host;
        }
    }
    s->state = PRN_QUEUE_GRANTED;
    m->granted++;
}

static void settle(struct model *m)
{
    bool expected[SLOTS] = {false};
    for (size_t i = 0; i < SLOTS; i++) {
        struct model_session *s = &m->sessions[i];
        if (!s->session || s->state != PRN_QUEUE_WAITING)
            continue;
        for (size_t k = 0; k < KINDS; k++)
            if (s->needs[k] > offered(m, k))
                expected[i] = true;
    }
    struct prn_queue_session *told;
    while ((told = prn_queue_next_failed(m->f->queue))) {
        struct model_session *s = prn_queue_session_data(told);
        assert_true(expected[s - m->sessions]);
        expected[s - m->sessions] = false;
        assert_non_null(prn_queue_session_missing(told));
        s->state = PRN_QUEUE_FAILED;
        m->failed++;
    }
    for (size_t i = 0; i < SLOTS; i++)
        assert_false(expected[i]);

    /* Who may go is decided with all of the grants pending; grants don't change each other. */
    look(m);
    for (size_t i = 0; i < SLOTS; i++)
        expected[i] = may_go(&m->sessions[i]);
    while ((told = prn_queue_next_granted(m->f->queue))) {
        struct model_session *s = prn_queue_session_data(told);
        assert_true(expected[s - m->sessions]);
        expected[s - m->sessions] = false;
        take_grant(m, s);
    }
    look(m);
    for (size_t i = 0; i < SLOTS; i++) {
        assert_false(expected[i]);
        assert_false(may_go(&m->sessions[i]));
    }
}

/* No host is free for all while one is missing that is to be kept. */
static void compare_kept(const struct model *m, size_t kind)
{
    size_t wanted = 0;
    size_t kept = 0;
    for (size_t u = 0; u < USERS; u++)
        wanted += m->wanted[kind][u];
    for (size_t i = 0; i < HOSTS + KINDS; i++)
        kept += m->hosts[i].host && m->hosts[i].kind == kind && !m->hosts[i].pinned &&
                prn_queue_host_kept_for(m->f->queue, m->hosts[i].host);
    assert_true(kept <= wanted);
    assert_true(kept == wanted || free_hosts(m, kind, USERS) == 0);
}

static void compare(struct model *m)
{
    look(m);
    size_t waiting[KINDS] = {0};
    size_t all_waiting = 0;
    for (size_t i = 0; i < SLOTS; i++) {
        const struct model_session *s = &m->sessions[i];
        if (!s->session)
            continue;
        assert_int_equal(prn_queue_session_state(s->session), s->state);
        all_waiting += s->state == PRN_QUEUE_WAITING;
        for (size_t k = 0; k < KINDS; k++) {
            bool waits = s->needs[k] && s->state == PRN_QUEUE_WAITING;
            waiting[k] += waits ? s->needs[k] : 0;
            assert_int_equal(prn_queue_session_place(s->session, kinds[k]),
                             waits ? s->place[k] : 0);
            for (size_t h = 0; h < s->needs[k]; h++)
                assert_ptr_equal(prn_queue_session_host(s->session, kinds[k], h), s->hosts[k][h]);
        }
    }
    assert_int_equal(prn_queue_waiting(m->f->queue), all_waiting);
    for (size_t k = 0; k < KINDS; k++) {
        struct prn_queue_hardware hardware = {0};
        prn_queue_find_hardware(m->f->queue, kinds[k], &hardware);
        assert_int_equal(hardware.free, free_hosts(m, k, USERS));
        assert_int_equal(hardware.kept,
                         free_hosts(m, k, 0) + free_hosts(m, k, 1) + free_hosts(m, k, 2));
        compare_kept(m, k);
        assert_int_equal(hardware.waiting, waiting[k]);
        assert_int_equal(prn_queue_has(m->f->queue, kinds[k]), offered(m, k) > 0);
    }
}

static void step_ask(struct model *m)
{
    struct model_session *s = &m->sessions[below(m, SLOTS)];
    if (s->session)
        return;
    *s = (struct model_session){.order = ++m->asked, .user = below(m, USERS)};
    const char *list[2 * KINDS];
    size_t n = 0;
    bool known = true;
    bool own_hosts = below(m, 4) == 0;
    for (size_t i = 1 + below(m, KINDS); i > 0; i--) {
        size_t kind = below(m, KINDS);
        s->needs[kind] = own_hosts ? s->needs[kind] + 1 : 1;
        known = known && s->needs[kind] <= offered(m, kind);
        list[n++] = kinds[kind];
    }
    struct prn_queue_request request = {.user = users[s->user],
                                        .quota = PRN_QUEUE_NO_LIMIT,
                                        .waiting = PRN_QUEUE_NO_LIMIT,
                                        .hardware = list,
                                        .n = n,
                                        .own_hosts = own_hosts,
                                        .share = 1 + (double)below(m, 2),
                                        .priority = (int)below(m, 20) == 0,
                                        .data = s};
    int code = prn_queue_ask(m->f->queue, &request, m->f->now_ns, &s->session, &m->f->err);
    assert_int_equal(code, known ? 0 : PRONY_ENOENT);
    s->state = PRN_QUEUE_WAITING;
}

static void step_leave(struct model *m, struct model_session *s)
{
    if (!s->session)
        return;
    prn_queue_leave(m->f->queue, s->session, m->f->now_ns);
    for (size_t k = 0; k < KINDS; k++)
        for (size_t i = 0; i < s->needs[k]; i++)
            if (s->hosts[k][i])
                s->hosts[k][i]->holder = NULL;
    *s = (struct model_session){0};
}

static void step_add(struct model *m)
{
    struct model_host *host = &m->hosts[below(m, HOSTS)];
    if (host->host)
        return;
    *host = (struct model_host){.kind = below(m, KINDS)};
    assert_int_equal(
        prn_queue_add_host(m->f->queue, kinds[host->kind], host, 0, &host->host, &m->f->err), 0);
}

static void step_remove(struct model *m)
{
    struct model_host *host = &m->hosts[below(m, HOSTS)];
    if (!host->host)
        return;
    struct prn_queue_session *holder = prn_queue_remove_host(m->f->queue, host->host, m->f->now_ns);
    assert_ptr_equal(holder, host->holder ? host->holder->session : NULL);
    for (size_t i = 0; host->holder && i < KINDS; i++)
        if (host->holder->hosts[host->kind][i] == host)
            host->holder->hosts[host->kind][i] = NULL;
    m->lost += holder != NULL;
    *host = (struct model_host){0};
}

static void step_drain(struct model *m)
{
    struct model_host *host = &m->hosts[below(m, HOSTS)];
    if (!host->host)
        return;
    prn_queue_drain_host(m->f->queue, host->host, m->f->now_ns);
    host->draining = true;
    host->pinned = false;
}

static void step_keep(struct model *m)
{
    size_t kind = below(m, KINDS);
    size_t user = below(m, USERS);
    m->wanted[kind][user] = below(m, 3);
    assert_int_equal(prn_queue_keep(m->f->queue, kinds[kind], users[user], m->wanted[kind][user],
                                    m->f->now_ns, &m->f->err),
                     0);
}

static void step_keep_host(struct model *m)
{
    struct model_host *host = &m->hosts[below(m, HOSTS)];
    const char *user = below(m, 2) ? users[below(m, USERS)] : NULL;
    if (!host->host)
        return;
    assert_int_equal(prn_queue_keep_host(m->f->queue, host->host, user, m->f->now_ns, &m->f->err),
                     0);
    host->pinned = user && !host->draining;
}

static void step_promise(struct model *m)
{
    size_t kind = below(m, KINDS);
    m->promised[kind] = below(m, 3);
    assert_int_equal(prn_queue_promise(m->f->queue, kinds[kind], m->promised[kind], 0, &m->f->err),
                     0);
}

static void step_release(struct model *m)
{
    struct model_host *host = &m->hosts[below(m, HOSTS)];
    if (host->holder)
        step_leave(m, host->holder);
}

static void step(struct model *m, size_t most_hosts)
{
    size_t present = 0;
    for (size_t i = 0; i < HOSTS; i++)
        present += m->hosts[i].host != NULL;
    size_t dice = below(m, 100);
    if (dice < 45)
        step_ask(m);
    else if (dice < 75)
        step_release(m);
    else if (dice < 85)
        step_leave(m, &m->sessions[below(m, SLOTS)]);
    else if (dice < 95 && present < most_hosts)
        step_add(m);
    else if (dice < 97)
        step_remove(m);
    else if (dice < 98)
        step_drain(m);
    else if (dice < 99)
        step_promise(m);
    else if (below(m, 2))
        step_keep(m);
    else
        step_keep_host(m);
    m->f->now_ns += (int64_t)below(m, 60) * SECOND;
    settle(m);
}

/* Nobody comes any more, hosts are there: everybody who waits gets their turn. */
static void finish(struct model *m)
{
    for (size_t k = 0; k < KINDS; k++)
        for (size_t u = 0; u < USERS; u++) {
            m->wanted[k][u] = 0;
            assert_int_equal(
                prn_queue_keep(m->f->queue, kinds[k], users[u], 0, m->f->now_ns, &m->f->err), 0);
            settle(m);
        }
    for (size_t i = 0; i < HOSTS; i++)
        if (m->hosts[i].host) {
            assert_int_equal(
                prn_queue_keep_host(m->f->queue, m->hosts[i].host, NULL, 0, &m->f->err), 0);
            m->hosts[i].pinned = false;
            settle(m);
        }
    for (size_t k = 0; k < KINDS; k++) {
        struct model_host *host = &m->hosts[HOSTS + k];
        *host = (struct model_host){.kind = k};
        assert_int_equal(
            prn_queue_add_host(m->f->queue, kinds[k], host, 0, &host->host, &m->f->err), 0);
        settle(m);
        m->promised[k] = 0; /* nobody keeps it any more */
        assert_int_equal(prn_queue_promise(m->f->queue, kinds[k], 0, 0, &m->f->err), 0);
        settle(m);
    }
    for (size_t waiting; (waiting = prn_queue_waiting(m->f->queue)) > 0;) {
        for (size_t i = 0; i < SLOTS; i++) {
            struct model_session *s = &m->sessions[i];
            if (s->session && s->state == PRN_QUEUE_GRANTED)
                step_leave(m, s);
            settle(m);
        }
        assert_true(prn_queue_waiting(m->f->queue) < waiting);
    }
}

static void run_histories(bool fair)
{
    uint64_t granted = 0;
    uint64_t failed = 0;
    uint64_t lost = 0;
    uint64_t overtaken = 0;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        struct model *m = calloc(1, sizeof *m);
        assert_non_null(m);
        void *own = NULL;
        setup(&own);
        m->f = own;
        m->fair = fair;
        if (fair)
            be_fair(m->f, 3600);
        prn_random_seed(&m->random, seed);
        for (int i = 0; i < 5000; i++) {
            step(m, seed * HOSTS / 4);
            if (i % 16 == 0)
                compare(m);
        }
        finish(m);
        compare(m);
        granted += m->granted;
        failed += m->failed;
        lost += m->lost;
        overtaken += m->overtaken;
        teardown(&own);
        free(m);
    }
    /* The histories hold what they are meant to. */
    assert_true(granted > 1000);
    assert_true(failed > 100);
    assert_true(lost > 10);
    assert_true(fair ? overtaken > 1000 : overtaken == 0);
}

static void test_random_histories(void **state)
{
    (void)state;
    run_histories(false);
}

static void test_fair_histories(void **state)
{
    (void)state;
    run_histories(true);
}

/* 10,000 sessions on 1,000 hosts of 5 types, and so long that places are numbered anew many times.
 */
static void test_many(void **state)
{
    struct fixture *f = *state;
    enum { SESSIONS = 10000, STEPS = 200000 };
    static struct prn_queue_session *sessions[SESSIONS];
    static const char *const types[] = {"t0", "t1", "t2", "t3", "t4", "t0", "t1"};
    struct prn_random random;
    prn_random_seed(&random, 8);
    for (size_t i = 0; i < 1000; i++)
        add(f, types[i % 5], f);
    size_t granted = 0;
    for (size_t i = 0; i < STEPS; i++) {
        size_t slot = (size_t)prn_random_below(&random, SESSIONS);
        if (sessions[slot])
            leave(f, sessions[slot]);
        struct prn_queue_request request = {.user = "ann",
                                            .quota = PRN_QUEUE_NO_LIMIT,
                                            .waiting = PRN_QUEUE_NO_LIMIT,
                                            .hardware = types + prn_random_below(&random, 5),
                                            .n = 1 + (size_t)prn_random_below(&random, 3)};
        assert_int_equal(prn_queue_ask(f->queue, &request, 0, &sessions[slot], &f->err), 0);
        while (prn_queue_next_granted(f->queue))
            granted++;
    }
    assert_true(granted > 1000);
    for (size_t t = 0; t < 5; t++) {
        size_t number = 0;
        struct prn_queue_session *s = NULL;
        while ((s = prn_queue_next_waiting(f->queue, types[t], s)))
            assert_int_equal(prn_queue_session_place(s, types[t]), ++number);
        assert_true(number > 100);
    }
    memset(sessions, 0, sizeof sessions);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_one_after_the_other, setup, teardown),
        cmocka_unit_test_setup_teardown(test_all_or_none, setup, teardown),
        cmocka_unit_test_setup_teardown(test_several_of_a_kind, setup, teardown),
        cmocka_unit_test_setup_teardown(test_ahead_without_harm, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nobody_starves, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_deadlock, setup, teardown),
        cmocka_unit_test_setup_teardown(test_unknown_hardware, setup, teardown),
        cmocka_unit_test_setup_teardown(test_promises, setup, teardown),
        cmocka_unit_test_setup_teardown(test_last_host_goes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_free_host_goes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_draining, setup, teardown),
        cmocka_unit_test_setup_teardown(test_quota, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lists, setup, teardown),
        cmocka_unit_test_setup_teardown(test_fair_turns, setup, teardown),
        cmocka_unit_test_setup_teardown(test_fair_by_time, setup, teardown),
        cmocka_unit_test_setup_teardown(test_first_come_by_default, setup, teardown),
        cmocka_unit_test_setup_teardown(test_policy_changes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_shares, setup, teardown),
        cmocka_unit_test_setup_teardown(test_priorities, setup, teardown),
        cmocka_unit_test_setup_teardown(test_past, setup, teardown),
        cmocka_unit_test_setup_teardown(test_asked_before, setup, teardown),
        cmocka_unit_test_setup_teardown(test_kept, setup, teardown),
        cmocka_unit_test_setup_teardown(test_kept_later, setup, teardown),
        cmocka_unit_test_setup_teardown(test_kept_host, setup, teardown),
        cmocka_unit_test_setup_teardown(test_kept_paused, setup, teardown),
        cmocka_unit_test(test_random_histories),
        cmocka_unit_test(test_fair_histories),
        cmocka_unit_test_setup_teardown(test_many, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
