/*
 * Each hardware has a line of entries, one per waiting session (or several, one behind the other,
 * if it wants more hosts), in the order in which they asked. The first entries of a line, as many
 * as there are free hosts, are within reach; `edge` is the last of them. A session counts its
 * entries within reach and is granted when all are.
 *
 * That keeps every change small. A host that becomes free brings one more entry within reach, one
 * that goes takes one out. A grant takes the session's entry out of a line together with a free
 * host, so the entries behind it are as far within reach as before, and those in front of it have
 * enough hosts left, because it needed as many as there are up to itself.
 */
#include "service/session/queue.h"

#include "base/array.h"
#include "base/buffer.h"
#include "base/map.h"
#include "service/session/places.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

struct hardware;

struct prn_queue_host {
    struct hardware *hardware;
    void *data;
    struct entry *holder; /* NULL: nobody */
    bool draining, disabled;
    TAILQ_ENTRY(prn_queue_host) in_all;
    TAILQ_ENTRY(prn_queue_host) in_free; /* unless held, draining or disabled */
};

/* What a session wants of one hardware. */
struct entry {
    struct prn_queue_session *session;
    struct hardware *hardware;
    struct prn_queue_host *host; /* once granted, until it is lost */
    size_t number;               /* in the hardware's places, while it waits */
    bool within;
    bool one_of_many; /* its session wants others of the hardware */
    TAILQ_ENTRY(entry) in_line;
};

struct user {
    char *name;
    size_t backends;
};

TAILQ_HEAD(sessions, prn_queue_session);
TAILQ_HEAD(hosts, prn_queue_host);
TAILQ_HEAD(line, entry);

struct prn_queue_session {
    size_t user; /* index */
    const char *user_name;
    size_t backends;
    void *data;
    enum prn_queue_state state;
    int64_t asked_ns, ended_ns; /* waiting */
    const struct hardware *missing;
    struct sessions *news; /* the list of news that it is in; NULL: none */
    TAILQ_ENTRY(prn_queue_session) in_all;
    TAILQ_ENTRY(prn_queue_session) in_news;
    size_t n_within;
    size_t n;
    struct entry entries[]; /* sorted by the name of their hardware */
};

struct hardware {
    char *name;
    struct hosts hosts, free; /* the one that became free last is the first */
    size_t n_hosts, n_free, n_held, n_draining, n_disabled, promised;
    bool paused;
    struct line line;
    struct entry *edge; /* NULL: none is within reach */
    size_t n_within, n_waiting;
    size_t n_one_of_many; /* of those that wait */
    struct prn_places places;
};

struct prn_queue {
    struct prn_map hardware_names, user_names; /* → indices */
    struct hardware **hardware;
    size_t n_hardware;
    struct user *users;
    size_t n_users;
    struct sessions sessions, granted, failed;
    size_t n_waiting;
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
    prn_places_release(&hw->places);
    free(hw->name);
    free(hw);
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
        free(queue->users[i].name);
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
    TAILQ_INIT(&hw->line);
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
        struct user *users = prn_array_grow(queue->users, index, sizeof *users);
        if (!users)
            return prn_fail_memory(err);
        queue->users = users;
        users[index] = (struct user){.name = strdup(name)};
        if (!users[index].name || prn_map_set(&queue->user_names, users[index].name, index) < 0) {
            free(users[index].name);
            return prn_fail_memory(err);
        }
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

static void tell(struct sessions *news, struct prn_queue_session *s)
{
    TAILQ_INSERT_TAIL(news, s, in_news);
    s->news = news;
}

static void take_from_line(struct entry *e)
{
    struct hardware *hw = e->hardware;
    if (e->within) {
        if (hw->edge == e)
            hw->edge = TAILQ_PREV(e, line, in_line);
        hw->n_within--;
        e->within = false;
    }
    TAILQ_REMOVE(&hw->line, e, in_line);
    prn_places_leave(&hw->places, e->number);
    hw->n_waiting--;
    hw->n_one_of_many -= e->one_of_many;
}

static void grant(struct prn_queue *queue, struct prn_queue_session *s, int64_t now_ns)
{
    for (size_t i = 0; i < s->n; i++) {
        struct entry *e = &s->entries[i];
        struct hardware *hw = e->hardware;
        take_from_line(e);
        e->host = TAILQ_FIRST(&hw->free);
        TAILQ_REMOVE(&hw->free, e->host, in_free);
        e->host->holder = e;
        hw->n_free--;
        hw->n_held++;
    }
    s->state = PRN_QUEUE_GRANTED;
    s->ended_ns = now_ns;
    queue->n_waiting--;
    tell(&queue->granted, s);
}

/* Hosts that somebody may be granted now. */
static size_t at_hand(const struct hardware *hw)
{
    return hw->paused ? 0 : hw->n_free;
}

/* Moves the edge behind the entries that the free hosts suffice for, and grants whom that lets go.
 */
static void reach_more(struct prn_queue *queue, struct hardware *hw, int64_t now_ns)
{
    while (hw->n_within < at_hand(hw) && hw->n_within < hw->n_waiting) {
        struct entry *e = hw->edge ? TAILQ_NEXT(hw->edge, in_line) : TAILQ_FIRST(&hw->line);
        e->within = true;
        hw->edge = e;
        hw->n_within++;
        if (++e->session->n_within == e->session->n)
            grant(queue, e->session, now_ns);
    }
}

/* After a free host has gone, or all are kept back. */
static void reach_less(struct hardware *hw)
{
    while (hw->n_within > at_hand(hw)) {
        struct entry *e = hw->edge;
        e->within = false;
        e->session->n_within--;
        hw->edge = TAILQ_PREV(e, line, in_line);
        hw->n_within--;
    }
}

/* Takes a waiting session out of all lines; those behind it move up. */
static void stop_waiting(struct prn_queue *queue, struct prn_queue_session *s, int64_t now_ns)
{
    for (size_t i = 0; i < s->n; i++)
        take_from_line(&s->entries[i]);
    queue->n_waiting--;
    for (size_t i = 0; i < s->n; i++)
        reach_more(queue, s->entries[i].hardware, now_ns);
}

/* The first session that waits for more hosts than will ever be there. */
static struct prn_queue_session *find_hopeless(const struct hardware *hw)
{
    size_t enough = offered(hw);
    if (enough > 0 && hw->n_one_of_many == 0)
        return NULL;
    for (struct entry *e = TAILQ_FIRST(&hw->line); e; e = TAILQ_NEXT(e, in_line))
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
        s->ended_ns = now_ns;
        s->missing = hw;
        tell(&queue->failed, s);
    }
}

/* ---- Hosts ---- */

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
    TAILQ_INSERT_HEAD(&hw->free, host, in_free);
    hw->n_hosts++;
    hw->n_free++;
    *ret_host = host;
    reach_more(queue, hw, now_ns);
    return 0;
}

static void take_from_free(struct prn_queue_host *host)
{
    TAILQ_REMOVE(&host->hardware->free, host, in_free);
    host->hardware->n_free--;
    reach_less(host->hardware);
}

struct prn_queue_session *prn_queue_remove_host(struct prn_queue *queue,
                                                struct prn_queue_host *host, int64_t now_ns)
{
    struct hardware *hw = host->hardware;
    struct prn_queue_session *holder = prn_queue_host_holder(host);
    if (holder) {
        host->holder->host = NULL;
        hw->n_held--;
    } else if (!host->draining && !host->disabled) {
        take_from_free(host);
    }
    hw->n_draining -= host->draining;
    hw->n_disabled -= host->disabled;
    hw->n_hosts--;
    TAILQ_REMOVE(&hw->hosts, host, in_all);
    free(host);
    fail_if_gone(queue, hw, now_ns);
    return holder;
}

void prn_queue_drain_host(struct prn_queue *queue, struct prn_queue_host *host, int64_t now_ns)
{
    if (host->draining)
        return;
    if (!host->holder && !host->disabled)
        take_from_free(host);
    host->draining = true;
    host->hardware->n_draining++;
    fail_if_gone(queue, host->hardware, now_ns);
}

static void put_to_free(struct prn_queue_host *host)
{
    if (host->holder || host->draining || host->disabled)
        return;
    TAILQ_INSERT_HEAD(&host->hardware->free, host, in_free);
    host->hardware->n_free++;
}

void prn_queue_disable_host(struct prn_queue *queue, struct prn_queue_host *host, bool disabled,
                            int64_t now_ns)
{
    if (host->disabled == disabled)
        return;
    if (disabled && !host->holder && !host->draining)
        take_from_free(host);
    host->disabled = disabled;
    host->hardware->n_disabled += disabled ? 1 : SIZE_MAX;
    put_to_free(host);
    reach_more(queue, host->hardware, now_ns);
}

bool prn_queue_pause(struct prn_queue *queue, const char *hardware, bool paused, int64_t now_ns)
{
    struct hardware *hw = find_hardware(queue, hardware);
    if (!hw)
        return false;
    hw->paused = paused;
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

/* For as many more. */
static int make_room(struct hardware *hw, size_t n)
{
    if (prn_places_has_room(&hw->places, n))
        return 0;
    int code = prn_places_renumber(&hw->places, hw->n_waiting, n);
    if (code < 0)
        return code;
    size_t number = 0;
    for (struct entry *e = TAILQ_FIRST(&hw->line); e; e = TAILQ_NEXT(e, in_line))
        e->number = ++number;
    return 0;
}

static struct prn_queue_session *new_session(struct hardware *const *wanted, size_t n)
{
    struct prn_queue_session *s = calloc(1, sizeof *s + n * sizeof s->entries[0]);
    if (!s)
        return NULL;
    s->n = n;
    for (size_t i = 0; i < n; i++) {
        s->entries[i].session = s;
        s->entries[i].hardware = wanted[i];
        if (make_room(wanted[i], n) < 0) {
            free(s);
            return NULL;
        }
    }
    return s;
}

static int check_quota(const struct prn_queue *queue, const struct prn_queue_request *request,
                       size_t user, struct prony_error *err)
{
    size_t used = queue->users[user].backends;
    if (request->quota == PRN_QUEUE_NO_LIMIT ||
        (used <= request->quota && request->n <= request->quota - used))
        return 0;
    return prn_fail(err, PRONY_ELIMIT,
                    "%zu backends were requested and %zu are held or queued, but the user's limit "
                    "is %zu; close sessions that aren't needed",
                    request->n, used, request->quota);
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
    struct prn_queue_session *s = code == 0 ? new_session(wanted, n) : NULL;
    free(wanted);
    if (!s)
        return code < 0 ? code : prn_fail_memory(err);

    s->user = user;
    s->user_name = queue->users[user].name;
    s->backends = request->n;
    s->data = request->data;
    s->state = PRN_QUEUE_WAITING;
    s->asked_ns = now_ns;
    queue->users[user].backends += request->n;
    queue->n_waiting++;
    TAILQ_INSERT_TAIL(&queue->sessions, s, in_all);
    for (size_t i = 0; i < n; i++) {
        struct entry *e = &s->entries[i];
        TAILQ_INSERT_TAIL(&e->hardware->line, e, in_line);
        e->number = prn_places_join(&e->hardware->places);
        e->hardware->n_waiting++;
        e->one_of_many = wanted_of(s, e->hardware) > 1;
        e->hardware->n_one_of_many += e->one_of_many;
    }
    for (size_t i = 0; i < n; i++)
        reach_more(queue, s->entries[i].hardware, now_ns);
    *ret_session = s;
    return 0;
}

static void give_back(struct prn_queue *queue, struct prn_queue_session *s, int64_t now_ns)
{
    for (size_t i = 0; i < s->n; i++) {
        struct prn_queue_host *host = s->entries[i].host;
        if (!host)
            continue;
        host->holder = NULL;
        host->hardware->n_held--;
        put_to_free(host);
    }
    for (size_t i = 0; i < s->n; i++)
        reach_more(queue, s->entries[i].hardware, now_ns);
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
    queue->users[session->user].backends -= session->backends;
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
    return prn_places_count(&e->hardware->places, e->number);
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
    if (!after && hw)
        e = TAILQ_FIRST(&hw->line);
    while (e && e->session == after) /* its others are behind it */
        e = TAILQ_NEXT(e, in_line);
    return e ? e->session : NULL;
}

size_t prn_queue_waiting(const struct prn_queue *queue)
{
    return queue->n_waiting;
}

size_t prn_queue_user_backends(const struct prn_queue *queue, const char *user)
{
    size_t index = prn_map_get(&queue->user_names, user);
    return index == PRN_MAP_NONE ? 0 : queue->users[index].backends;
}
