#include "service/session/lease.h"

#include "base/array.h"

static void put(struct prn_leases *leases, size_t place, struct prn_lease *lease)
{
    leases->heap[place - 1] = lease;
    lease->place = place;
}

static void sift_up(struct prn_leases *leases, struct prn_lease *lease)
{
    size_t place = lease->place;
    for (; place > 1; place /= 2) {
        struct prn_lease *parent = leases->heap[place / 2 - 1];
        if (parent->known_ns <= lease->known_ns)
            break;
        put(leases, place, parent);
    }
    put(leases, place, lease);
}

static void sift_down(struct prn_leases *leases, struct prn_lease *lease)
{
    size_t place = lease->place;
    for (;;) {
        size_t child = 2 * place;
        if (child > leases->n)
            break;
        if (child < leases->n && leases->heap[child]->known_ns < leases->heap[child - 1]->known_ns)
            child++;
        if (leases->heap[child - 1]->known_ns >= lease->known_ns)
            break;
        put(leases, place, leases->heap[child - 1]);
        place = child;
    }
    put(leases, place, lease);
}

/* Makes the heap know the real deadline of the first one. */
static void settle(struct prn_leases *leases)
{
    while (leases->n > 0 && leases->heap[0]->known_ns < leases->heap[0]->deadline_ns) {
        struct prn_lease *first = leases->heap[0];
        first->known_ns = first->deadline_ns;
        sift_down(leases, first);
    }
}

void prn_leases_release(struct prn_leases *leases)
{
    free(leases->heap);
    *leases = PRN_LEASES_INIT;
}

int prn_leases_add(struct prn_leases *leases, struct prn_lease *lease, int64_t deadline_ns)
{
    struct prn_lease **heap = prn_array_grow(leases->heap, leases->n, sizeof(struct prn_lease *));
    if (!heap)
        return PRONY_ENOMEM;
    leases->heap = heap;
    lease->deadline_ns = deadline_ns;
    lease->known_ns = deadline_ns;
    lease->place = ++leases->n;
    sift_up(leases, lease);
    return 0;
}

void prn_leases_move(struct prn_leases *leases, struct prn_lease *lease, int64_t deadline_ns)
{
    if (lease->place == 0)
        return;
    lease->deadline_ns = deadline_ns;
    if (deadline_ns < lease->known_ns) {
        lease->known_ns = deadline_ns;
        sift_up(leases, lease);
    }
}

void prn_leases_remove(struct prn_leases *leases, struct prn_lease *lease)
{
    if (lease->place == 0)
        return;
    struct prn_lease *last = leases->heap[--leases->n];
    if (last != lease) {
        put(leases, lease->place, last);
        sift_up(leases, last);
        sift_down(leases, last);
    }
    lease->place = 0;
}

struct prn_lease *prn_leases_take_expired(struct prn_leases *leases, int64_t now_ns)
{
    if (prn_leases_next_ns(leases) > now_ns || leases->n == 0)
        return NULL;
    struct prn_lease *first = leases->heap[0];
    prn_leases_remove(leases, first);
    return first;
}

int64_t prn_leases_next_ns(struct prn_leases *leases)
{
    settle(leases);
    return leases->n > 0 ? leases->heap[0]->known_ns : INT64_MAX;
}
