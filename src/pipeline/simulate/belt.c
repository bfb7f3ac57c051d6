#include "pipeline/simulate/belt.h"

void prn_belt_init(struct prn_belt *belt, size_t capacity)
{
    *belt = (struct prn_belt){.capacity = capacity};
    belt->end = &belt->first;
    pthread_mutex_init(&belt->lock, NULL);
    pthread_cond_init(&belt->changed, NULL);
}

void prn_belt_release(struct prn_belt *belt)
{
    pthread_mutex_destroy(&belt->lock);
    pthread_cond_destroy(&belt->changed);
}

bool prn_belt_put(struct prn_belt *belt, struct prn_belt_item *item)
{
    pthread_mutex_lock(&belt->lock);
    while (!belt->stopped && belt->n >= belt->capacity + belt->takers)
        pthread_cond_wait(&belt->changed, &belt->lock);
    bool put = !belt->stopped;
    if (put) {
        item->next = NULL;
        *belt->end = item;
        belt->end = &item->next;
        belt->n++;
        pthread_cond_broadcast(&belt->changed);
    }
    pthread_mutex_unlock(&belt->lock);
    return put;
}

static struct prn_belt_item *remove_first(struct prn_belt *belt)
{
    struct prn_belt_item *item = belt->first;
    if (!item)
        return NULL;
    belt->first = item->next;
    belt->n--;
    if (!belt->first)
        belt->end = &belt->first;
    pthread_cond_broadcast(&belt->changed);
    return item;
}

struct prn_belt_item *prn_belt_take(struct prn_belt *belt)
{
    pthread_mutex_lock(&belt->lock);
    if (belt->n == 0 && belt->capacity == 0)
        pthread_cond_broadcast(&belt->changed); /* somebody may wait for a hand */
    belt->takers++;
    while (!belt->stopped && belt->n == 0)
        pthread_cond_wait(&belt->changed, &belt->lock);
    belt->takers--;
    struct prn_belt_item *item = belt->stopped ? NULL : remove_first(belt);
    pthread_mutex_unlock(&belt->lock);
    return item;
}

struct prn_belt_item *prn_belt_pick(struct prn_belt *belt)
{
    pthread_mutex_lock(&belt->lock);
    struct prn_belt_item *item = remove_first(belt);
    pthread_mutex_unlock(&belt->lock);
    return item;
}

void prn_belt_stop(struct prn_belt *belt)
{
    pthread_mutex_lock(&belt->lock);
    belt->stopped = true;
    pthread_cond_broadcast(&belt->changed);
    pthread_mutex_unlock(&belt->lock);
}
