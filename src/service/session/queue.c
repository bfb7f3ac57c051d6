/*
 * Each hardware has a line of entries, one per waiting session (or several, one behind the other,
 * if it wants more hosts), in the order of their ranks. The first entries of a line, as many as
 * there are free hosts, are within reach; `edge` is the last of them. A session counts its entries
 * within reach and is granted when all are.
 *
 * That keeps every change small. A host that becomes free brings one more entry within reach, one
 * that goes takes one out. A grant takes the session's entry out of a line together with a free
 * host, so the entries behind it are as far within reach as before, and those in front of it have
 * enough hosts left, because it needed as many as there are up to itself.
 *
 * Hosts that are kept for a user are apart, in a `kept` of that user and hardware, with a line of
 * its own: as many of the user's first entries as there are free hosts in it. All of these are
 * within reach. The user's other entries are in the common line.
 */
#include "service/session/queue.h"

#include "base/array.h"
#include "base/buffer.h"
#include "base/map.h"
#include "service/session/line.h"
#include "service/session/share.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

struct hardware;
struct kept;

struct prn_queue_host {
    struct hardware *hardware;
    void *data;
    struct entry *holder; /* NULL: nobody */
    struct kept *kept;    /* NULL: anybody may have it */
    bool pinned;          /* it is kept by itself, not as one of a number */
    bool draining, disabled;
    TAILQ_ENTRY(prn_queue_host) in_all;
    TAILQ_ENTRY(prn_queue_host) in_free; /* unless held, draining or disabled */
};

/* What a session wants of one hardware. */
struct entry {
    struct prn_queue_session *session;
    struct hardware *hardware;
    struct prn_queue_host *host; /* once granted, until it is lost */
    struct kept *kept;           /* whose line it waits in; NULL: the hardware's */
    bool within;
    bool one_of_many; /* its session wants others of the hardware */
    struct prn_line_node node;
};

TAILQ_HEAD(sessions, prn_queue_session);
TAILQ_HEAD(hosts, prn_queue_host);

struct user {
    char *name;
    size_t backends;
    struct prn_shares shares;
    struct sessions waiting; /* in the order in which they asked */
    size_t n_waiting;
};

/* What of a hardware is kept for a user. */
struct kept {
    struct hardware *hardware;
    size_t user;
    size_t wanted, n_hosts; /* by number: to have, and had, held or not */
    struct hosts free;
    size_t n_free;
    struct prn_line line; /* never longer than n_free */
    TAILQ_ENTRY(kept) in_all;
};

TAILQ_HEAD(kept_list, kept);

struct prn_queue_session {
    size_t user; /* index */
    const char *user_name;
    size_t backends;
    double share;
    int priority;
    bool first;
    void *data;
    enum prn_queue_state state;
    int64_t asked_ns, ended_ns; /* waiting */
    const struct hardware *missing;
    struct sessions *news; /* the list of news that it is in; NULL: none */
    TAILQ_ENTRY(prn_queue_session) in_all;
    TAILQ_ENTRY(prn_queue_session) in_news;
    TAILQ_ENTRY(prn_queue_session) in_user; /* while it waits */
    size_t n_within;
    size_t n;
    struct entry entries[]; /* sorted by the name of their hardware */
};

struct hardware {
    char *name;
    struct hosts hosts, free; /* the one that became free last is the first */
    size_t n_hosts, n_free, n_held, n_draining, n_disabled, promised;
    bool paused;
    struct kept_list kept;
    size_t n_kept_free;
    struct prn_line line;
    struct entry *edge;   /* NULL: none is within reach */
    size_t n_within;      /* of the common line */
    size_t n_waiting;     /* in all lines */
    size_t n_one_of_many; /* of those that wait */
};

struct prn_queue {
    struct prn_map hardware_names, user_names; /* → indices */
    struct hardware **hardware;
    size_t n_hardware;
    struct user **users;
    size_t n_users;
    struct sessions sessions, granted, failed;
    size_t n_waiting;
    uint64_t tickets; /* given out */
    struct prn_queue_policy policy;
};

/* ---- The queue, its hardware, its users ---- */

int prn_queue_new(struct prn_queue **ret_queue, struct prony_error *err)
{
    struct prn_queue *queue = calloc(1, sizeof *queue);
    if (!queue)
        return prn_fail_memory(err);
    TAILQ_INIT(&queue->sessions);
    TAILQ_INIT(&queue->granted);
    TAILQ_INIT(&queue->failed);
    queue->policy.window_s = PRN_QUEUE_WINDOW_S;
    *ret_queue = queue;
    return 0;
}

static void free_hardware(struct hardware *hw)
{
    struct prn_queue_host *next;
    for (struct prn_queue_host *host = TAILQ_FIRST(&hw->hosts); host; host = next) {
        next = TAILQ_NEXT(host, in_all);
        free(host);
    }
    struct kept *after;
    for (struct kept *k = TAILQ_FIRST(&hw->kept); k; k = after) {
        after = TAILQ_NEXT(k, in_all);
        free(k);
    }
    free(hw->name);
    free(hw);
}

static void free_user(struct user *user)
{
    prn_shares_release(&user->shares);
    free(user->name);
    free(user);
}

void prn_queue_free(struct prn_queue *queue)
{
    if (!queue)
        return;
    struct prn_queue_session *next;
    for (struct prn_queue_session *s = TAILQ_FIRST(&queue->sessions); s; s = next) {
        next = TAILQ_NEXT(s, in_all);
        free(s);
    }
    for (size_t i = 0; i < queue->n_hardware; i++)
        free_hardware(queue->hardware[i]);
    for (size_t i = 0; i < queue->n_users; i++)
        free_user(queue->users[i]);
    prn_map_release(&queue->hardware_names);
    prn_map_release(&queue->user_names);
    free(queue->hardware);
    free(queue->users);
    free(queue);
}

/* NULL when nobody ever named it. */
static struct hardware *find_hardware(const struct prn_queue *queue, const char *name)
{
    size_t index = prn_map_get(&queue->hardware_names, name);
    return index == PRN_MAP_NONE ? NULL : queue->hardware[index];
}

static int append_hardware(struct prn_queue *queue, struct hardware *hw)
{
    struct hardware **all =
        prn_array_grow(queue->hardware, queue->n_hardware, sizeof(struct hardware *));
    if (!all)
        return PRONY_ENOMEM;
    queue->hardware = all;
    int code = prn_map_set(&queue->hardware_names, hw->name, queue->n_hardware);
    if (code == 0)
        all[queue->n_hardware++] = hw;
    return code;
}

static int need_hardware(struct prn_queue *queue, const char *name, struct hardware **ret_hardware,
                         struct prony_error *err)
{
    struct hardware *hw = find_hardware(queue, name);
    if (hw) {
        *ret_hardware = hw;
        return 0;
    }
    if (queue->n_hardware == PRN_QUEUE_HARDWARE_MAX)
        return prn_fail(err, PRONY_ELIMIT, "more than %d kinds of hardware",
                        PRN_QUEUE_HARDWARE_MAX);
    hw = calloc(1, sizeof *hw);
    if (!hw)
        return prn_fail_memory(err);
    TAILQ_INIT(&hw->hosts);
    TAILQ_INIT(&hw->free);
    TAILQ_INIT(&hw->kept);
    hw->name = strdup(name);
    if (!hw->name || append_hardware(queue, hw) < 0) {
        free_hardware(hw);
        return prn_fail_memory(err);
    }
    *ret_hardware = hw;
    return 0;
}

static int need_user(struct prn_queue *queue, const char *name, size_t *ret_user,
                     struct prony_error *err)
{
    size_t index = prn_map_get(&queue->user_names, name);
    if (index == PRN_MAP_NONE) {
        index = queue->n_users;
        struct user **users = prn_array_grow(queue->users, index, sizeof(struct user *));
        struct user *user = calloc(1, sizeof *user);
        queue->users = users ? users : queue->users;
        if (user)
            user->name = strdup(name);
        if (!users || !user || !user->name ||
            prn_map_set(&queue->user_names, user->name, index) < 0) {
            if (user)
                free_user(user);
            return prn_fail_memory(err);
        }
        TAILQ_INIT(&user->waiting);
        users[index] = user;
        queue->n_users++;
    }
    *ret_user = index;
    return 0;
}

/* Hosts that serve whoever comes next, now or once they are free. */
static size_t offered(const struct hardware *hw)
{
    size_t there = hw->n_hosts - hw->n_draining;
    return there > hw->promised ? there : hw->promised;
}

static bool is_offered(const struct hardware *hw)
{
    return offered(hw) > 0;
}

static size_t wanted_of(const struct prn_queue_session *s, const struct hardware *hw)
{
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++)
        n += s->entries[i].hardware == hw;
    return n;
}

/* ---- Lines ---- */

static struct entry *entry_of(const struct prn_line_node *node)
{
    return node ? (struct entry *)((uintptr_t)node - offsetof(struct entry, node)) : NULL;
}

/* Hosts that somebody may be granted now. */
static size_t at_hand(const struct hardware *hw)
{
    return hw->paused ? 0 : hw->n_free;
}

static size_t kept_at_hand(const struct kept *k)
{
    return k->hardware->paused ? 0 : k->n_free;
}

static void set_within(struct entry *e, bool within)
{
    e->within = within;
    e->session->n_within += within ? 1 : SIZE_MAX;
}

/* After a free host has gone, or all are held back, or somebody has come in between. */
static void reach_less(struct hardware *hw)
{
    while (hw->n_within > at_hand(hw)) {
        struct entry *e = hw->edge;
        set_within(e, false);
        hw->edge = entry_of(prn_line_previous(&e->node));
        hw->n_within--;
    }
}

static void join_common(struct entry *e)
{
    struct hardware *hw = e->hardware;
    e->kept = NULL;
    prn_line_join(&hw->line, &e->node);
    if (!hw->edge || !prn_line_before(&e->node, &hw->edge->node))
        return; /* reach_more() will look */
    set_within(e, true);
    hw->n_within++;
    reach_less(hw);
}

static void leave_common(struct entry *e)
{
    struct hardware *hw = e->hardware;
    if (e->within) {
        if (hw->edge == e)
            hw->edge = entry_of(prn_line_previous(&e->node));
        hw->n_within--;
        set_within(e, false);
    }
    prn_line_leave(&hw->line, &e->node);
}

static void join_kept(struct kept *k, struct entry *e)
{
    e->kept = k;
    prn_line_join(&k->line, &e->node);
    set_within(e, true);
}

static void leave_kept(struct entry *e)
{
    prn_line_leave(&e->kept->line, &e->node);
    set_within(e, false);
    e->kept = NULL;
}

/* The last of those for whom there is no host any more go to the common line. */
static void spill(struct kept *k)
{
    while (prn_line_length(&k->line) > kept_at_hand(k)) {
        struct entry *e = entry_of(prn_line_last(&k->line));
        leave_kept(e);
        join_common(e);
    }
}

static struct kept *find_kept(const struct hardware *hw, size_t user)
{
    struct kept *k = TAILQ_FIRST(&hw->kept);
    while (k && k->user != user)
        k = TAILQ_NEXT(k, in_all);
    return k;
}

static void join_line(struct entry *e)
{
    struct kept *k = find_kept(e->hardware, e->session->user);
    struct entry *last = k ? entry_of(prn_line_last(&k->line)) : NULL;
    e->hardware->n_waiting++;
    e->hardware->n_one_of_many += e->one_of_many;
    if (last && prn_line_before(&e->node, &last->node)) {
        join_kept(k, e);
        spill(k);
    } else if (k && prn_line_length(&k->line) < kept_at_hand(k)) {
        join_kept(k, e);
    } else {
        join_common(e);
    }
}

static void leave_line(struct entry *e)
{
    if (e->kept)
        leave_kept(e);
    else
        leave_common(e);
    e->hardware->n_waiting--;
    e->hardware->n_one_of_many -= e->one_of_many;
}

/* In all lines of the hardware: NULL begins, NULL ends. */
static struct entry *next_entry(const struct hardware *hw, const struct entry *after)
{
    const struct kept *k = after ? after->kept : NULL;
    struct entry *e = after ? entry_of(prn_line_next(&after->node)) : NULL;
    if (e || (after && !k))
        return e;
    for (k = k ? TAILQ_NEXT(k, in_all) : TAILQ_FIRST(&hw->kept); k; k = TAILQ_NEXT(k, in_all))
        if ((e = entry_of(prn_line_first(&k->line))))
            return e;
    return entry_of(prn_line_first(&hw->line));
}

/* ---- Ranks ---- */

static struct prn_share *share_of(const struct prn_queue *queue, const struct entry *e)
{
    return prn_share_of(&queue->users[e->session->user]->shares, e->hardware);
}

/* When it counts as having asked. */
static int64_t rank_of(const struct prn_queue *queue, const struct prn_queue_session *s,
                       int64_t now_ns)
{
    const double window_s = queue->policy.window_s;
    double debt_s = 0;
    if (s->first)
        return INT64_MIN;
    if (!queue->policy.fair)
        return s->asked_ns;
    for (size_t i = 0; i < s->n; i++)
        debt_s = fmax(debt_s, prn_share_debt_s(&queue->users[s->user]->shares,
                                               share_of(queue, &s->entries[i]),
                                               offered(s->entries[i].hardware), now_ns, window_s));
    double later_s = fmin(debt_s / s->share, window_s) - s->priority * window_s;
    return s->asked_ns + (int64_t)(later_s * 1e9);
}

/* Into all lines, with a rank of this moment; nobody is granted yet. */
static void join_lines(struct prn_queue *queue, struct prn_queue_session *s, int64_t now_ns)
{
    int64_t rank = rank_of(queue, s, now_ns);
    for (size_t i = 0; i < s->n; i++) {
        s->entries[i].node.rank = rank;
        join_line(&s->entries[i]);
        prn_share_wait(share_of(queue, &s->entries[i]), true);
    }
}

static void leave_lines(struct prn_queue *queue, struct prn_queue_session *s)
{
    for (size_t i = 0; i < s->n; i++) {
        leave_line(&s->entries[i]);
        prn_share_wait(share_of(queue, &s->entries[i]), false);
    }
}

/* ---- Grants ---- */

static void tell(struct sessions *news, struct prn_queue_session *s)
{
    TAILQ_INSERT_TAIL(news, s, in_news);
    s->news = news;
}

static void end_waiting(struct prn_queue *queue, struct prn_queue_session *s, int64_t now_ns)
{
    struct user *user = queue->users[s->user];
    TAILQ_REMOVE(&user->waiting, s, in_user);
    user->n_waiting--;
    queue->n_waiting--;
    s->ended_ns = now_ns;
}

static struct prn_queue_host *take_free(struct hardware *hw, struct kept *k)
{
    struct prn_queue_host *host = TAILQ_FIRST(k ? &k->free : &hw->free);
    TAILQ_REMOVE(k ? &k->free : &hw->free, host, in_free);
    hw->n_kept_free -= k != NULL;
    --*(k ? &k->n_free : &hw->n_free);
    return host;
}

static void grant(struct prn_queue *queue, struct prn_queue_session *s, int64_t now_ns)
{
    for (size_t i = 0; i < s->n; i++) {
        struct entry *e = &s->entries[i];
        struct kept *k = e->kept;
        leave_line(e);
        e->host = take_free(e->hardware, k);
        e->host->holder = e;
        e->hardware->n_held++;
        prn_share_grant(share_of(queue, e), now_ns);
    }
    s->state = PRN_QUEUE_GRANTED;
    end_waiting(queue, s, now_ns);
    tell(&queue->granted, s);
}

static void grant_if_within(struct prn_queue *queue, struct prn_queue_session *s, int64_t now_ns)
{
    if (s->state == PRN_QUEUE_WAITING && s->n_within == s->n)
        grant(queue, s, now_ns);
}

/* The first entries of users for whom there are free hosts go to their lines; nobody is granted
 * yet. */
static void fill(struct hardware *hw)
{
    for (struct kept *k = TAILQ_FIRST(&hw->kept); k; k = TAILQ_NEXT(k, in_all)) {
        struct entry *e = entry_of(prn_line_first(&hw->line));
        while (e && prn_line_length(&k->line) < kept_at_hand(k)) {
            struct entry *next = entry_of(prn_line_next(&e->node));
            if (e->session->user == k->user) {
                leave_common(e);
                join_kept(k, e);
            }
            e = next;
        }
    }
}

static void grant_kept(struct prn_queue *queue, struct kept *k, int64_t now_ns)
{
    struct entry *e = entry_of(prn_line_first(&k->line));
    while (e) {
        bool ready = e->session->n_within == e->session->n;
        grant_if_within(queue, e->session, now_ns);
        /* A grant may take others out of the line, too. */
        e = entry_of(ready ? prn_line_first(&k->line) : prn_line_next(&e->node));
    }
}

/* Moves the edge behind the entries that the free hosts suffice for, and grants whom that lets go.
 */
static void reach_more(struct prn_queue *queue, struct hardware *hw, int64_t now_ns)
{
    fill(hw);
    for (struct kept *k = TAILQ_FIRST(&hw->kept); k; k = TAILQ_NEXT(k, in_all))
        grant_kept(queue, k, now_ns);
    while (hw->n_within < at_hand(hw) && hw->n_within < prn_line_length(&hw->line)) {
        struct entry *e =
            entry_of(hw->edge ? prn_line_next(&hw->edge->node) : prn_line_first(&hw->line));
        set_within(e, true);
        hw->edge = e;
        hw->n_within++;
        grant_if_within(queue, e->session, now_ns);
    }
}

/* Takes a waiting session out of all lines; those behind it move up. */
static void stop_waiting(struct prn_queue *queue, struct prn_queue_session *s, int64_t now_ns)
{
    leave_lines(queue, s);
    end_waiting(queue, s, now_ns);
    for (size_t i = 0; i < s->n; i++)
        reach_more(queue, s->entries[i].hardware, now_ns);
}

/* All of a user's sessions get the ranks that they would get if they asked now in their order;
 * nobody is granted yet. */
static void rank_again(struct prn_queue *queue, struct user *user, int64_t now_ns)
{
    struct prn_queue_session *s;
    for (s = TAILQ_FIRST(&user->waiting); s; s = TAILQ_NEXT(s, in_user))
        leave_lines(queue, s);
    for (s = TAILQ_FIRST(&user->waiting); s; s = TAILQ_NEXT(s, in_user))
        join_lines(queue, s, now_ns);
}

/* After that. */
static void settle_user(struct prn_queue *queue, struct user *user, int64_t now_ns)
{
    struct prn_queue_session *s;
    struct prn_queue_session *next;
    for (size_t i = 0; i < user->shares.n; i++)
        reach_more(queue, (struct hardware *)(uintptr_t)user->shares.of[i].hardware, now_ns);
    for (s = TAILQ_FIRST(&user->waiting); s; s = next) {
        next = TAILQ_NEXT(s, in_user);
        grant_if_within(queue, s, now_ns);
    }
}

void prn_queue_set_policy(struct prn_queue *queue, const struct prn_queue_policy *policy,
                          int64_t now_ns)
{
    if (policy->fair == queue->policy.fair && policy->window_s == queue->policy.window_s)
        return;
    queue->policy = *policy;
    for (size_t i = 0; i < queue->n_users; i++)
        rank_again(queue, queue->users[i], now_ns);
    for (size_t i = 0; i < queue->n_users; i++)
        settle_user(queue, queue->users[i], now_ns);
}

/* The first session that waits for more hosts than will ever be there. */
static struct prn_queue_session *find_hopeless(const struct hardware *hw)
{
    size_t enough = offered(hw);
    if (enough > 0 && hw->n_one_of_many == 0)
        return NULL;
    for (struct entry *e = NULL; (e = next_entry(hw, e));)
        if (wanted_of(e->session, hw) > enough)
            return e->session;
    return NULL;
}

/* Whoever waits for hardware that won't come has failed; those behind may be granted by that. */
static void fail_if_gone(struct prn_queue *queue, struct hardware *hw, int64_t now_ns)
{
    for (struct prn_queue_session *s; (s = find_hopeless(hw));) {
        stop_waiting(queue, s, now_ns);
        s->state = PRN_QUEUE_FAILED;
        s->missing = hw;
        tell(&queue->failed, s);
    }
}

/* ---- Hosts ---- */

static bool is_free(const struct prn_queue_host *host)
{
    return !host->holder && !host->draining && !host->disabled;
}

static void set_kept(struct prn_queue_host *host, struct kept *k, bool pinned)
{
    if (host->kept && !host->pinned)
        host->kept->n_hosts--;
    host->kept = k;
    host->pinned = k && pinned;
    if (k && !pinned)
        k->n_hosts++;
}

/* One that is free, or back: whoever lacks a host that is to be kept gets it. */
static void put_to_free(struct prn_queue_host *host)
{
    struct hardware *hw = host->hardware;
    if (!is_free(host))
        return;
    for (struct kept *k = TAILQ_FIRST(&hw->kept); k && !host->kept; k = TAILQ_NEXT(k, in_all))
        if (k->n_hosts < k->wanted)
            set_kept(host, k, false);
    struct kept *k = host->kept;
    TAILQ_INSERT_HEAD(k ? &k->free : &hw->free, host, in_free);
    hw->n_kept_free += k != NULL;
    ++*(k ? &k->n_free : &hw->n_free);
}

static void take_from_free(struct prn_queue_host *host)
{
    struct hardware *hw = host->hardware;
    struct kept *k = host->kept;
    TAILQ_REMOVE(k ? &k->free : &hw->free, host, in_free);
    hw->n_kept_free -= k != NULL;
    --*(k ? &k->n_free : &hw->n_free);
    if (k)
        spill(k);
    else
        reach_less(hw);
}

/* From whom it is kept for now to `k`, or to all. */
static void move_host(struct prn_queue_host *host, struct kept *k, bool pinned)
{
    bool free_now = is_free(host);
    if (free_now)
        take_from_free(host);
    set_kept(host, k, pinned);
    if (free_now)
        put_to_free(host);
}

/* What a user holds already counts; then what is free is taken, and the rest as it becomes free. */
static void keep_more(struct kept *k)
{
    struct prn_queue_host *host;
    for (host = TAILQ_FIRST(&k->hardware->hosts); host; host = TAILQ_NEXT(host, in_all))
        if (k->n_hosts < k->wanted && !host->kept && !host->draining && !host->disabled &&
            host->holder && host->holder->session->user == k->user)
            move_host(host, k, false);
    while (k->n_hosts < k->wanted && (host = TAILQ_FIRST(&k->hardware->free)))
        move_host(host, k, false);
}

/* After a host has gone, whoever lacks one that is to be kept gets another. */
static void keep_up(struct prn_queue *queue, struct hardware *hw, int64_t now_ns)
{
    for (struct kept *k = TAILQ_FIRST(&hw->kept); k; k = TAILQ_NEXT(k, in_all))
        keep_more(k);
    reach_more(queue, hw, now_ns);
}

int prn_queue_add_host(struct prn_queue *queue, const char *hardware, void *data, int64_t now_ns,
                       struct prn_queue_host **ret_host, struct prony_error *err)
{
    struct hardware *hw = NULL;
    int code = need_hardware(queue, hardware, &hw, err);
    if (code < 0)
        return code;
    struct prn_queue_host *host = calloc(1, sizeof *host);
    if (!host)
        return prn_fail_memory(err);
    host->hardware = hw;
    host->data = data;
    TAILQ_INSERT_TAIL(&hw->hosts, host, in_all);
    hw->n_hosts++;
    put_to_free(host);
    *ret_host = host;
    reach_more(queue, hw, now_ns);
    return 0;
}

struct prn_queue_session *prn_queue_remove_host(struct prn_queue *queue,
                                                struct prn_queue_host *host, int64_t now_ns)
{
    struct hardware *hw = host->hardware;
    struct prn_queue_session *holder = prn_queue_host_holder(host);
    if (holder) {
        host->holder->host = NULL;
        hw->n_held--;
    } else if (is_free(host)) {
        take_from_free(host);
    }
    set_kept(host, NULL, false);
    hw->n_draining -= host->draining;
    hw->n_disabled -= host->disabled;
    hw->n_hosts--;
    TAILQ_REMOVE(&hw->hosts, host, in_all);
    free(host);
    keep_up(queue, hw, now_ns);
    fail_if_gone(queue, hw, now_ns);
    return holder;
}

void prn_queue_drain_host(struct prn_queue *queue, struct prn_queue_host *host, int64_t now_ns)
{
    if (host->draining)
        return;
    if (is_free(host))
        take_from_free(host);
    host->draining = true;
    host->hardware->n_draining++;
    set_kept(host, NULL, false);
    keep_up(queue, host->hardware, now_ns);
    fail_if_gone(queue, host->hardware, now_ns);
}

void prn_queue_disable_host(struct prn_queue *queue, struct prn_queue_host *host, bool disabled,
                            int64_t now_ns)
{
    if (host->disabled == disabled)
        return;
    if (disabled && is_free(host))
        take_from_free(host);
    if (disabled && !host->pinned)
        set_kept(host, NULL, false);
    host->disabled = disabled;
    host->hardware->n_disabled += disabled ? 1 : SIZE_MAX;
    put_to_free(host);
    keep_up(queue, host->hardware, now_ns);
}

bool prn_queue_pause(struct prn_queue *queue, const char *hardware, bool paused, int64_t now_ns)
{
    struct hardware *hw = find_hardware(queue, hardware);
    if (!hw)
        return false;
    hw->paused = paused;
    for (struct kept *k = TAILQ_FIRST(&hw->kept); k; k = TAILQ_NEXT(k, in_all))
        spill(k);
    reach_less(hw);
    reach_more(queue, hw, now_ns);
    return true;
}

int prn_queue_promise(struct prn_queue *queue, const char *hardware, size_t hosts, int64_t now_ns,
                      struct prony_error *err)
{
    struct hardware *hw = NULL;
    int code = need_hardware(queue, hardware, &hw, err);
    if (code < 0)
        return code;
    hw->promised = hosts;
    fail_if_gone(queue, hw, now_ns);
    return 0;
}

/* ---- Hosts kept for users ---- */

static int need_kept(struct prn_queue *queue, struct hardware *hw, const char *user,
                     struct kept **ret_kept, struct prony_error *err)
{
    size_t index = 0;
    int code = need_user(queue, user, &index, err);
    if (code < 0)
        return code;
    struct kept *k = find_kept(hw, index);
    if (!k) {
        k = calloc(1, sizeof *k);
        if (!k)
            return prn_fail_memory(err);
        *k = (struct kept){.hardware = hw, .user = index};
        TAILQ_INIT(&k->free);
        TAILQ_INSERT_TAIL(&hw->kept, k, in_all);
    }
    *ret_kept = k;
    return 0;
}

/* Free ones go first; who holds one keeps it. */
static void keep_less(struct kept *k)
{
    for (int held = 0; held < 2; held++) {
        struct prn_queue_host *next;
        for (struct prn_queue_host *host = TAILQ_FIRST(&k->hardware->hosts);
             host && k->n_hosts > k->wanted; host = next) {
            next = TAILQ_NEXT(host, in_all);
            if (host->kept == k && !host->pinned && (host->holder != NULL) == held)
                move_host(host, NULL, false);
        }
    }
}

int prn_queue_keep(struct prn_queue *queue, const char *hardware, const char *user, size_t hosts,
                   int64_t now_ns, struct prony_error *err)
{
    struct hardware *hw = NULL;
    struct kept *k = NULL;
    int code = need_hardware(queue, hardware, &hw, err);
    if (code == 0)
        code = need_kept(queue, hw, user, &k, err);
    if (code < 0)
        return code;
    k->wanted = hosts;
    keep_less(k);
    keep_up(queue, hw, now_ns);
    return 0;
}

int prn_queue_keep_host(struct prn_queue *queue, struct prn_queue_host *host, const char *user,
                        int64_t now_ns, struct prony_error *err)
{
    struct kept *k = NULL;
    int code = user ? need_kept(queue, host->hardware, user, &k, err) : 0;
    if (code < 0 || (!user && !host->pinned) || host->draining)
        return code;
    move_host(host, k, user != NULL);
    keep_up(queue, host->hardware, now_ns);
    return 0;
}

const char *prn_queue_host_kept_for(const struct prn_queue *queue,
                                    const struct prn_queue_host *host)
{
    return host->kept ? queue->users[host->kept->user]->name : NULL;
}

void *prn_queue_host_data(const struct prn_queue_host *host)
{
    return host->data;
}

struct prn_queue_session *prn_queue_host_holder(const struct prn_queue_host *host)
{
    return host->holder ? host->holder->session : NULL;
}

bool prn_queue_host_disabled(const struct prn_queue_host *host)
{
    return host->disabled;
}

bool prn_queue_host_draining(const struct prn_queue_host *host)
{
    return host->draining;
}

/* ---- Asking and leaving ---- */

static int fail_unknown(const struct prn_queue *queue, const char *name, struct prony_error *err)
{
    struct prn_buffer known = PRN_BUFFER_INIT(PRONY_ERROR_TEXT_SIZE);
    for (size_t i = 0; i < queue->n_hardware; i++)
        if (is_offered(queue->hardware[i]))
            prn_buffer_printf(&known, "%s%s", known.len ? ", " : "", queue->hardware[i]->name);
    int code = prn_fail(err, PRONY_ENOENT, "there is no hardware '%.200s' here (there is: %s)",
                        name, known.len ? prn_buffer_text(&known) : "none");
    prn_buffer_release(&known);
    return code;
}

static int compare_hardware(const void *a, const void *b)
{
    return strcmp((*(struct hardware *const *)a)->name, (*(struct hardware *const *)b)->name);
}

/* Fails when a kind occurs more often than there are hosts of it. */
static int check_enough(struct hardware *const *sorted, size_t n, struct prony_error *err)
{
    size_t same = 0;
    for (size_t i = 0; i < n; i++) {
        same = i > 0 && sorted[i] == sorted[i - 1] ? same + 1 : 1;
        if (same > offered(sorted[i]))
            return prn_fail(
                err, PRONY_ENOENT,
                "more than %zu hosts of '%.200s' were requested; there are only that many",
                offered(sorted[i]), sorted[i]->name);
    }
    return 0;
}

/* The different hardware of a request, sorted, with a place in each line; with hosts of their own,
 * equal ones too. */
static int find_wanted(const struct prn_queue *queue, const struct prn_queue_request *request,
                       struct hardware **wanted, size_t *ret_n, struct prony_error *err)
{
    for (size_t i = 0; i < request->n; i++) {
        wanted[i] = find_hardware(queue, request->hardware[i]);
        if (!wanted[i] || !is_offered(wanted[i]))
            return fail_unknown(queue, request->hardware[i], err);
    }
    qsort(wanted, request->n, sizeof(struct hardware *), compare_hardware);
    size_t n = 0;
    for (size_t i = 0; i < request->n; i++)
        if (n == 0 || request->own_hosts || wanted[n - 1] != wanted[i])
            wanted[n++] = wanted[i];
    *ret_n = n;
    return check_enough(wanted, n, err);
}

static struct prn_queue_session *new_session(struct prn_queue *queue,
                                             struct hardware *const *wanted, size_t n, size_t user)
{
    struct prn_queue_session *s = calloc(1, sizeof *s + n * sizeof s->entries[0]);
    if (!s)
        return NULL;
    s->n = n;
    s->user = user;
    s->user_name = queue->users[user]->name;
    for (size_t i = 0; i < n; i++) {
        struct entry *e = &s->entries[i];
        *e = (struct entry){.session = s, .hardware = wanted[i]};
        if (!share_of(queue, e)) {
            free(s);
            return NULL;
        }
    }
    for (size_t i = 0; i < n; i++) {
        s->entries[i].node.ticket = ++queue->tickets;
        s->entries[i].one_of_many = wanted_of(s, wanted[i]) > 1;
    }
    return s;
}

static int check_quota(const struct prn_queue *queue, const struct prn_queue_request *request,
                       size_t user, struct prony_error *err)
{
    size_t used = queue->users[user]->backends;
    if (request->quota == PRN_QUEUE_NO_LIMIT ||
        (used <= request->quota && request->n <= request->quota - used))
        return 0;
    return prn_fail(err, PRONY_ELIMIT,
                    "%zu backends were requested and %zu are held or queued, but the user's limit "
                    "is %zu; close sessions that aren't needed",
                    request->n, used, request->quota);
}

static void begin_waiting(struct prn_queue *queue, struct prn_queue_session *s, int64_t now_ns)
{
    struct user *user = queue->users[s->user];
    user->backends += s->backends;
    user->n_waiting++;
    queue->n_waiting++;
    TAILQ_INSERT_TAIL(&user->waiting, s, in_user);
    TAILQ_INSERT_TAIL(&queue->sessions, s, in_all);
    join_lines(queue, s, now_ns);
    for (size_t i = 0; i < s->n; i++)
        reach_more(queue, s->entries[i].hardware, now_ns);
    grant_if_within(queue, s, now_ns);
}

int prn_queue_ask(struct prn_queue *queue, const struct prn_queue_request *request, int64_t now_ns,
                  struct prn_queue_session **ret_session, struct prony_error *err)
{
    if (request->n == 0)
        return prn_fail(err, PRONY_EUSAGE, "no hardware was requested");
    struct hardware **wanted = reallocarray(NULL, request->n, sizeof(struct hardware *));
    if (!wanted)
        return prn_fail_memory(err);
    size_t n = 0;
    size_t user = 0;
    int code = find_wanted(queue, request, wanted, &n, err);
    if (code == 0)
        code = need_user(queue, request->user, &user, err);
    if (code == 0)
        code = check_quota(queue, request, user, err);
    struct prn_queue_session *s = code == 0 ? new_session(queue, wanted, n, user) : NULL;
    free(wanted);
    if (!s)
        return code < 0 ? code : prn_fail_memory(err);

    s->backends = request->n;
    s->share = request->share > 0 ? request->share : 1;
    s->priority = request->priority;
    s->first = request->first;
    s->data = request->data;
    s->state = PRN_QUEUE_WAITING;
    s->asked_ns = now_ns - request->waited_ns;
    begin_waiting(queue, s, now_ns);
    if (s->state == PRN_QUEUE_WAITING && queue->users[user]->n_waiting > request->waiting) {
        prn_queue_leave(queue, s, now_ns);
        return prn_fail(err, PRONY_ELIMIT,
                        "%zu sessions of the user are waiting, the limit; close some, or wait",
                        request->waiting);
    }
    *ret_session = s;
    return 0;
}

/* Its user's other sessions are ranked by what it has taken before anybody gets its hosts. True:
 * that changed. */
static bool charge(struct prn_queue *queue, const struct prn_queue_session *s, int64_t now_ns)
{
    struct user *user = queue->users[s->user];
    for (size_t i = 0; i < s->n; i++)
        prn_share_give_back(&user->shares, share_of(queue, &s->entries[i]), s->ended_ns, now_ns,
                            queue->policy.window_s);
    if (!queue->policy.fair || !prn_shares_drifted(&user->shares, user->n_waiting))
        return false;
    rank_again(queue, user, now_ns);
    return true;
}

static void give_back(struct prn_queue *queue, struct prn_queue_session *s, int64_t now_ns)
{
    bool ranked = charge(queue, s, now_ns);
    for (size_t i = 0; i < s->n; i++) {
        struct prn_queue_host *host = s->entries[i].host;
        if (!host)
            continue;
        host->holder = NULL;
        host->hardware->n_held--;
        put_to_free(host);
        fill(host->hardware);
    }
    for (size_t i = 0; i < s->n; i++)
        reach_more(queue, s->entries[i].hardware, now_ns);
    if (ranked)
        settle_user(queue, queue->users[s->user], now_ns);
}

int prn_queue_add_past(struct prn_queue *queue, const char *user, const char *hardware,
                       double host_s, double ago_s, int64_t now_ns, struct prony_error *err)
{
    struct hardware *hw = NULL;
    size_t index = 0;
    int code = need_hardware(queue, hardware, &hw, err);
    if (code == 0)
        code = need_user(queue, user, &index, err);
    if (code < 0)
        return code;
    struct prn_share *share = prn_share_of(&queue->users[index]->shares, hw);
    if (!share)
        return prn_fail_memory(err);
    prn_share_add_past(share, host_s, ago_s, now_ns, queue->policy.window_s);
    return 0;
}

void prn_queue_leave(struct prn_queue *queue, struct prn_queue_session *session, int64_t now_ns)
{
    if (session->state == PRN_QUEUE_WAITING)
        stop_waiting(queue, session, now_ns);
    else if (session->state == PRN_QUEUE_GRANTED)
        give_back(queue, session, now_ns);
    if (session->news)
        TAILQ_REMOVE(session->news, session, in_news);
    TAILQ_REMOVE(&queue->sessions, session, in_all);
    queue->users[session->user]->backends -= session->backends;
    free(session);
}

static struct prn_queue_session *take_news(struct sessions *news)
{
    struct prn_queue_session *s = TAILQ_FIRST(news);
    if (s) {
        TAILQ_REMOVE(news, s, in_news);
        s->news = NULL;
    }
    return s;
}

struct prn_queue_session *prn_queue_next_granted(struct prn_queue *queue)
{
    return take_news(&queue->granted);
}

struct prn_queue_session *prn_queue_next_failed(struct prn_queue *queue)
{
    return take_news(&queue->failed);
}

/* ---- What there is to know ---- */

enum prn_queue_state prn_queue_session_state(const struct prn_queue_session *session)
{
    return session->state;
}

void *prn_queue_session_data(const struct prn_queue_session *session)
{
    return session->data;
}

const char *prn_queue_session_user(const struct prn_queue_session *session)
{
    return session->user_name;
}

int64_t prn_queue_session_asked_ns(const struct prn_queue_session *session)
{
    return session->asked_ns;
}

bool prn_queue_session_before(const struct prn_queue_session *a, const struct prn_queue_session *b)
{
    return prn_line_before(&a->entries[0].node, &b->entries[0].node);
}

int64_t prn_queue_session_waited_ns(const struct prn_queue_session *session, int64_t now_ns)
{
    return (session->state == PRN_QUEUE_WAITING ? now_ns : session->ended_ns) - session->asked_ns;
}

const char *prn_queue_session_missing(const struct prn_queue_session *session)
{
    return session->missing ? session->missing->name : NULL;
}

const char *prn_queue_session_hardware(const struct prn_queue_session *session, size_t index)
{
    return index < session->n ? session->entries[index].hardware->name : NULL;
}

static const struct entry *find_entry(const struct prn_queue_session *session, const char *hardware,
                                      size_t which)
{
    for (size_t i = 0; i < session->n; i++)
        if (strcmp(session->entries[i].hardware->name, hardware) == 0 && which-- == 0)
            return &session->entries[i];
    return NULL;
}

void *prn_queue_session_host(const struct prn_queue_session *session, const char *hardware,
                             size_t which)
{
    const struct entry *e = find_entry(session, hardware, which);
    return e && e->host ? e->host->data : NULL;
}

static size_t place_of(const struct entry *e)
{
    return prn_line_place(&e->node);
}

size_t prn_queue_session_place(const struct prn_queue_session *session, const char *hardware)
{
    const struct entry *e = find_entry(session, hardware, 0);
    return e && session->state == PRN_QUEUE_WAITING ? place_of(e) : 0;
}

size_t prn_queue_session_worst_place(const struct prn_queue_session *session)
{
    size_t worst = 0;
    for (size_t i = 0; session->state == PRN_QUEUE_WAITING && i < session->n; i++) {
        size_t place = place_of(&session->entries[i]);
        worst = place > worst ? place : worst;
    }
    return worst;
}

static struct prn_queue_hardware describe(const struct hardware *hw)
{
    return (struct prn_queue_hardware){.name = hw->name,
                                       .hosts = hw->n_hosts,
                                       .free = hw->n_free,
                                       .held = hw->n_held,
                                       .draining = hw->n_draining,
                                       .disabled = hw->n_disabled,
                                       .kept = hw->n_kept_free,
                                       .paused = hw->paused,
                                       .promised = hw->promised,
                                       .waiting = hw->n_waiting};
}

bool prn_queue_hardware(const struct prn_queue *queue, size_t index,
                        struct prn_queue_hardware *ret_hardware)
{
    if (index >= queue->n_hardware)
        return false;
    *ret_hardware = describe(queue->hardware[index]);
    return true;
}

bool prn_queue_find_hardware(const struct prn_queue *queue, const char *hardware,
                             struct prn_queue_hardware *ret_hardware)
{
    const struct hardware *hw = find_hardware(queue, hardware);
    if (!hw)
        return false;
    *ret_hardware = describe(hw);
    return true;
}

bool prn_queue_has(const struct prn_queue *queue, const char *hardware)
{
    const struct hardware *hw = find_hardware(queue, hardware);
    return hw && is_offered(hw);
}

struct prn_queue_host *prn_queue_next_host(const struct prn_queue *queue, const char *hardware,
                                           const struct prn_queue_host *after)
{
    if (after)
        return TAILQ_NEXT(after, in_all);
    const struct hardware *hw = find_hardware(queue, hardware);
    return hw ? TAILQ_FIRST(&hw->hosts) : NULL;
}

struct prn_queue_session *prn_queue_next_waiting(const struct prn_queue *queue,
                                                 const char *hardware,
                                                 const struct prn_queue_session *after)
{
    const struct hardware *hw = find_hardware(queue, hardware);
    const struct entry *e = after ? find_entry(after, hardware, 0) : NULL;
    do
        e = hw ? next_entry(hw, e) : NULL;
    while (e && e != find_entry(e->session, hardware, 0)); /* one of its others */
    return e ? e->session : NULL;
}

size_t prn_queue_waiting(const struct prn_queue *queue)
{
    return queue->n_waiting;
}

size_t prn_queue_user_backends(const struct prn_queue *queue, const char *user)
{
    size_t index = prn_map_get(&queue->user_names, user);
    return index == PRN_MAP_NONE ? 0 : queue->users[index]->backends;
}
