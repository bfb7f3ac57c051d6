/*
 * Locks whose use the compiler checks: `make check` builds with Clang's -Wthread-safety.
 *
 *     PRN_LOCK(queue);
 *     struct queue {
 *         pthread_mutex_t lock;
 *         size_t length PRN_GUARDED(queue);            only for those who hold it
 *     };
 *     PRN_LOCK_FUNCTIONS(queue, struct queue, lock)    queue_lock(), queue_unlock()
 *     void trim_locked(struct queue *q) PRN_HOLDS(queue);
 *
 * The last one is only for those who hold it, too; the names of such functions end in `_locked`.
 * Such a function doesn't give the lock up for its caller. Those of a thread's own loop may while
 * they wait, if they say so, and take it again before they return. In C an attribute can't refer to
 * another member of its struct, so all locks with one name are the same to the compiler: it finds
 * out whether a lock is held, not whose.
 */
#ifndef PRN_BASE_LOCK_H
#define PRN_BASE_LOCK_H

#include <pthread.h>

#ifdef __clang__
#define PRN_LOCK_ATTRIBUTE(x) __attribute__((x))
#else
#define PRN_LOCK_ATTRIBUTE(x)
#endif

struct PRN_LOCK_ATTRIBUTE(capability("lock")) prn_lock_name {
    int unused;
};

#define PRN_GUARDED(name) PRN_LOCK_ATTRIBUTE(guarded_by(name##_held))
/* The pointer itself may be read; what it points to may not. */
#define PRN_POINTS_GUARDED(name) PRN_LOCK_ATTRIBUTE(pt_guarded_by(name##_held))
#define PRN_HOLDS(name) PRN_LOCK_ATTRIBUTE(requires_capability(name##_held))
#define PRN_TAKES(name) PRN_LOCK_ATTRIBUTE(acquire_capability(name##_held))
#define PRN_GIVES(name) PRN_LOCK_ATTRIBUTE(release_capability(name##_held))
/* For what runs before there is a second thread, or after the last one has ended. */
#define PRN_ALONE PRN_LOCK_ATTRIBUTE(no_thread_safety_analysis)

#define PRN_LOCK(name) extern struct prn_lock_name name##_held
#define PRN_LOCK_FUNCTIONS(name, type, member)                          \
    static inline void name##_lock(type *x) PRN_TAKES(name) PRN_ALONE   \
    {                                                                   \
        pthread_mutex_lock(&x->member);                                 \
    }                                                                   \
    static inline void name##_unlock(type *x) PRN_GIVES(name) PRN_ALONE \
    {                                                                   \
        pthread_mutex_unlock(&x->member);                               \
    }

#endif
