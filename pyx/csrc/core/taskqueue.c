#include "taskqueue.h"

#include "clock.h"

int taskqueue_create(struct taskqueue *queue) {
    *queue = (struct taskqueue){0};
    return -pthread_mutex_init(&queue->lock, NULL);
}

void taskqueue_destroy(struct taskqueue *queue) {
    pthread_mutex_destroy(&queue->lock);
}

static void lock(struct taskqueue *queue, struct counter_block *me) {
    if (!pthread_mutex_trylock(&queue->lock))
        return;
    int64_t start = clock_now();
    pthread_mutex_lock(&queue->lock);
    COUNT(me, lock_waits, 1);
    COUNT(me, lock_wait_ns, clock_now() - start);
}

static void set_depth(struct taskqueue *queue, uint32_t depth) {
    atomic_store(&queue->depth, depth);
    if (queue->gauge)
        counters_depth(queue->gauge, depth);
}

static uint32_t get_depth(struct taskqueue *queue) {
    return atomic_load_explicit(&queue->depth, memory_order_relaxed);
}

void taskqueue_show(struct taskqueue *queue, struct counter_block *gauge) {
    pthread_mutex_lock(&queue->lock);
    queue->gauge = gauge;
    set_depth(queue, get_depth(queue));
    pthread_mutex_unlock(&queue->lock);
}

uint32_t taskqueue_put_chain(struct taskqueue *queue, struct task *first, struct task *last, uint32_t count,
                             struct counter_block *me) {
    last->next = NULL;
    lock(queue, me);
    if (queue->first)
        queue->last->next = first;
    else
        queue->first = first;
    queue->last = last;
    uint32_t depth = get_depth(queue) + count;
    set_depth(queue, depth);
    pthread_mutex_unlock(&queue->lock);
    return depth;
}

uint32_t taskqueue_put(struct taskqueue *queue, struct task *task, struct counter_block *me) {
    return taskqueue_put_chain(queue, task, task, 1, me);
}

struct task *taskqueue_take(struct taskqueue *queue, struct counter_block *me) {
    lock(queue, me);
    struct task *task = queue->first;
    if (task) {
        queue->first = task->next;
        set_depth(queue, get_depth(queue) - 1);
    }
    pthread_mutex_unlock(&queue->lock);
    return task;
}

uint32_t taskqueue_take_half(struct taskqueue *queue, struct task **first, struct task **last,
                             struct counter_block *me) {
    lock(queue, me);
    uint32_t depth = get_depth(queue), half = depth / 2;
    if (half) {
        *first = *last = queue->first;
        for (uint32_t i = 1; i < half; i++)
            *last = (*last)->next;
        queue->first = (*last)->next;
        (*last)->next = NULL;
        set_depth(queue, depth - half);
    }
    pthread_mutex_unlock(&queue->lock);
    return half;
}
