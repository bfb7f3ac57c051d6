/* Jobs of one line run in their order and never at the same time; lines run side by side. */
#include "service/pool.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#define LINES 8
#define JOBS 500

struct line {
    struct prn_job_line line;
    atomic_int inside; /* jobs of this line that run */
    int next;          /* which one must be next; no lock needed if they take turns */
    bool wrong;
    atomic_int done;
};

struct job {
    struct prn_pool_job job;
    struct line *line;
    int number;
};

static void run_job(struct prn_pool_job *opaque)
{
    struct job *job = (struct job *)opaque;
    struct line *line = job->line;
    line->wrong |= atomic_fetch_add(&line->inside, 1) != 0 || line->next++ != job->number;
    atomic_fetch_sub(&line->inside, 1);
    atomic_fetch_add(&line->done, 1);
}

static void job_over(struct prn_pool_job *opaque)
{
    free(opaque);
}

static void test_lines(void **state)
{
    (void)state;
    struct prn_pool *pool;
    static struct line lines[LINES];
    assert_int_equal(prn_pool_new(4, &pool, NULL), 0);
    for (int i = 0; i < JOBS; i++)
        for (int k = 0; k < LINES; k++) {
            struct job *job = calloc(1, sizeof *job);
            assert_non_null(job);
            *job = (struct job){
                .job = {.run = run_job, .over = job_over}, .line = &lines[k], .number = i};
            prn_pool_add(pool, &lines[k].line, &job->job);
        }
    /* What is left is run before the threads end. */
    prn_pool_free(pool);
    for (int k = 0; k < LINES; k++) {
        assert_int_equal(atomic_load(&lines[k].done), JOBS);
        assert_false(lines[k].wrong);
    }
}

struct once {
    struct prn_pool_job job;
    struct prn_job_line line;
    atomic_int references; /* the job's, and somebody else's */
    atomic_int *done;
};

static void unref_once(struct once *once)
{
    if (atomic_fetch_sub(&once->references, 1) == 1)
        free(once);
}

static void run_once(struct prn_pool_job *opaque)
{
    struct once *once = (struct once *)opaque;
    atomic_fetch_add(once->done, 1);
}

static void once_over(struct prn_pool_job *opaque)
{
    unref_once((struct once *)opaque);
}

/* A job whose line goes with it, whoever is the last to let go of both: nobody touches them
 * afterwards (AddressSanitizer would tell). */
static void test_line_is_gone(void **state)
{
    (void)state;
    struct prn_pool *pool;
    atomic_int done = 0;
    assert_int_equal(prn_pool_new(3, &pool, NULL), 0);
    for (int i = 0; i < JOBS; i++) {
        struct once *once = calloc(1, sizeof *once);
        assert_non_null(once);
        once->job = (struct prn_pool_job){.run = run_once, .over = once_over};
        once->references = 2;
        once->done = &done;
        prn_pool_add(pool, &once->line, &once->job);
        unref_once(once);
    }
    prn_pool_free(pool);
    assert_int_equal(atomic_load(&done), JOBS);
    prn_pool_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_line_is_gone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
