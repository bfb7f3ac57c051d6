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
    struct prn_queue_request request = {
        .user = user, .quota = quota, .hardware = list, .n = n, .data = data};
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

/* ---- Random histories ---- */

#define KINDS 4
#define SLOTS 100
#define HOSTS 24

static const char *const kinds[KINDS] = {"a", "b", "c", "d"};

struct model_host {
    struct prn_queue_host *host; /* NULL: not there */
    size_t kind;
    bool draining;
    struct model_session *holder;
};

struct model_session {
    struct prn_queue_session *session; /* NULL: not there */
    uint64_t order;                    /* of asking */
    size_t needs[KINDS];               /* hosts */
    enum prn_queue_state state;
    struct model_host *hosts[KINDS][KINDS];
};

struct model {
    struct fixture *f;
    struct prn_random random;
    uint64_t asked, granted, failed, lost;
    size_t promised[KINDS];
    struct model_host hosts[HOSTS + KINDS]; /* the last ones for the end */
    struct model_session sessions[SLOTS];
};

static size_t below(struct model *m, size_t bound)
{
    return (size_t)prn_random_below(&m->random, bound);
}

static size_t free_hosts(const struct model *m, size_t kind)
{
    size_t n = 0;
    for (size_t i = 0; i < HOSTS + KINDS; i++)
        n += m->hosts[i].host && m->hosts[i].kind == kind && !m->hosts[i].draining &&
             !m->hosts[i].holder;
    return n;
}

static size_t offered(const struct model *m, size_t kind)
{
    size_t there = 0;
    for (size_t i = 0; i < HOSTS + KINDS; i++)
        there += m->hosts[i].host && m->hosts[i].kind == kind && !m->hosts[i].draining;
    return there > m->promised[kind] ? there : m->promised[kind];
}

static size_t place(const struct model *m, const struct model_session *s, size_t kind)
{
    size_t n = 1;
    for (size_t i = 0; i < SLOTS; i++) {
        const struct model_session *other = &m->sessions[i];
        if (other->session && other->state == PRN_QUEUE_WAITING && other->order < s->order)
            n += other->needs[kind];
    }
    return n;
}

static bool may_go(const struct model *m, const struct model_session *s)
{
    if (!s->session || s->state != PRN_QUEUE_WAITING)
        return false;
    for (size_t k = 0; k < KINDS; k++)
        if (s->needs[k] && place(m, s, k) + s->needs[k] - 1 > free_hosts(m, k))
            return false;
    return true;
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
    for (size_t i = 0; i < SLOTS; i++)
        expected[i] = may_go(m, &m->sessions[i]);
    while ((told = prn_queue_next_granted(m->f->queue))) {
        struct model_session *s = prn_queue_session_data(told);
        assert_true(expected[s - m->sessions]);
        expected[s - m->sessions] = false;
        take_grant(m, s);
    }
    for (size_t i = 0; i < SLOTS; i++) {
        assert_false(expected[i]);
        assert_false(may_go(m, &m->sessions[i]));
    }
}

static void compare(const struct model *m)
{
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
                             waits ? place(m, s, k) : 0);
            for (size_t h = 0; h < s->needs[k]; h++)
                assert_ptr_equal(prn_queue_session_host(s->session, kinds[k], h), s->hosts[k][h]);
        }
    }
    assert_int_equal(prn_queue_waiting(m->f->queue), all_waiting);
    for (size_t k = 0; k < KINDS; k++) {
        struct prn_queue_hardware hardware = {0};
        prn_queue_find_hardware(m->f->queue, kinds[k], &hardware);
        assert_int_equal(hardware.free, free_hosts(m, k));
        assert_int_equal(hardware.waiting, waiting[k]);
        assert_int_equal(prn_queue_has(m->f->queue, kinds[k]), offered(m, k) > 0);
    }
}

static void step_ask(struct model *m)
{
    struct model_session *s = &m->sessions[below(m, SLOTS)];
    if (s->session)
        return;
    *s = (struct model_session){.order = ++m->asked};
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
    struct prn_queue_request request = {.user = "ann",
                                        .quota = PRN_QUEUE_NO_LIMIT,
                                        .hardware = list,
                                        .n = n,
                                        .own_hosts = own_hosts,
                                        .data = s};
    int code = prn_queue_ask(m->f->queue, &request, 0, &s->session, &m->f->err);
    assert_int_equal(code, known ? 0 : PRONY_ENOENT);
    s->state = PRN_QUEUE_WAITING;
}

static void step_leave(struct model *m, struct model_session *s)
{
    if (!s->session)
        return;
    prn_queue_leave(m->f->queue, s->session, 0);
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
    struct prn_queue_session *holder = prn_queue_remove_host(m->f->queue, host->host, 0);
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
    prn_queue_drain_host(m->f->queue, host->host, 0);
    host->draining = true;
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
    settle(m);
}

/* Nobody comes any more, hosts are there: everybody who waits gets their turn. */
static void finish(struct model *m)
{
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

static void test_random_histories(void **state)
{
    uint64_t granted = 0;
    uint64_t failed = 0;
    uint64_t lost = 0;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        struct model *m = calloc(1, sizeof *m);
        assert_non_null(m);
        void *own = NULL;
        setup(&own);
        m->f = own;
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
        teardown(&own);
        free(m);
    }
    (void)state;
    /* The histories hold what they are meant to. */
    assert_true(granted > 1000);
    assert_true(failed > 100);
    assert_true(lost > 10);
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
        cmocka_unit_test(test_random_histories),
        cmocka_unit_test_setup_teardown(test_many, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
