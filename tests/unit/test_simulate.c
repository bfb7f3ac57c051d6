/*
 * What a simulated pipeline is made of: belts, with threads on both ends, and the tally, with times
 * made by hand. tests/e2e/test_simulate.py has the processes.
 */
#include "unit.h"

#include "model/dtype.h"
#include "pipeline/simulate/batch.h"
#include "pipeline/simulate/belt.h"
#include "pipeline/simulate/tally.h"

#include <stdlib.h>

/* ---- Belts ---- */

#define ITEMS 20000

struct item {
    struct prn_belt_item item;
    size_t number;
};

struct carrier {
    struct prn_belt *from, *to;
    struct item *items; /* of the first, which makes them up */
    size_t moved;
    bool in_order;
};

static void *put_all(void *context)
{
    struct carrier *c = context;
    for (size_t i = 0; i < ITEMS; i++) {
        c->items[i].number = i;
        if (!prn_belt_put(c->to, &c->items[i].item))
            break;
        c->moved++;
    }
    return NULL;
}

static void *carry_all(void *context)
{
    struct carrier *c = context;
    c->in_order = true;
    for (struct prn_belt_item *item; c->moved < ITEMS && (item = prn_belt_take(c->from));) {
        c->in_order = c->in_order && ((struct item *)item)->number == c->moved;
        c->moved++;
        if (c->to && !prn_belt_put(c->to, item))
            break;
    }
    return NULL;
}

/* Everything arrives, once and in order, whatever the belts hold. */
static void belts_keep_the_order(void **state)
{
    (void)state;
    static const size_t capacities[][2] = {{0, 0}, {1, 0}, {0, 3}, {2, 2}, {ITEMS, 1}};
    struct item *items = calloc(ITEMS, sizeof *items);
    assert_non_null(items);
    for (size_t i = 0; i < PRN_ARRAY_SIZE(capacities); i++) {
        struct prn_belt belts[2];
        pthread_t threads[3];
        prn_belt_init(&belts[0], capacities[i][0]);
        prn_belt_init(&belts[1], capacities[i][1]);
        struct carrier first = {.to = &belts[0], .items = items};
        struct carrier second = {.from = &belts[0], .to = &belts[1]};
        struct carrier third = {.from = &belts[1]};
        assert_int_equal(pthread_create(&threads[0], NULL, put_all, &first), 0);
        assert_int_equal(pthread_create(&threads[1], NULL, carry_all, &second), 0);
        assert_int_equal(pthread_create(&threads[2], NULL, carry_all, &third), 0);
        for (size_t k = 0; k < 3; k++)
            pthread_join(threads[k], NULL);
        assert_int_equal(first.moved, ITEMS);
        assert_int_equal(third.moved, ITEMS);
        assert_true(second.in_order && third.in_order);
        assert_null(prn_belt_pick(&belts[0]));
        assert_null(prn_belt_pick(&belts[1]));
        prn_belt_release(&belts[0]);
        prn_belt_release(&belts[1]);
    }
    free(items);
}

/* Somebody who waits for room, or for an item, is let go; what is on the belt can be picked. */
static void stopping_ends_all_waiting(void **state)
{
    (void)state;
    struct item *items = calloc(ITEMS, sizeof *items);
    assert_non_null(items);
    struct prn_belt full, empty;
    pthread_t threads[2];
    prn_belt_init(&full, 2);
    prn_belt_init(&empty, 2);
    struct carrier putter = {.to = &full, .items = items};
    struct carrier taker = {.from = &empty};
    assert_int_equal(pthread_create(&threads[0], NULL, put_all, &putter), 0);
    assert_int_equal(pthread_create(&threads[1], NULL, carry_all, &taker), 0);
    prn_belt_stop(&full);
    prn_belt_stop(&empty);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    assert_true(putter.moved <= 2);
    assert_int_equal(taker.moved, 0);
    for (size_t i = 0; i < putter.moved; i++)
        assert_non_null(prn_belt_pick(&full));
    assert_null(prn_belt_pick(&full));
    assert_false(prn_belt_put(&full, &items[0].item));
    assert_null(prn_belt_take(&full));
    prn_belt_release(&full);
    prn_belt_release(&empty);
    free(items);
}

/* ---- Batches as bytes ---- */

static void make_batch(struct prn_batch *batch, struct prn_place places[2], unsigned char *data)
{
    for (unsigned char i = 0; i < 88; i++)
        data[i] = i;
    places[0] = (struct prn_place){"ids", PRN_DTYPE_INT64, 1, {3}, 0, 24};
    places[1] = (struct prn_place){"x", PRN_DTYPE_FLOAT, 2, {2, 3}, 64, 24};
    *batch = (struct prn_batch){.number = 7, .alone = true, .begin_ns = -5, .n = 2};
    batch->places = places;
    batch->data = data;
    batch->bytes = 88;
}

static void batches_come_back(void **state)
{
    (void)state;
    struct prn_place places[2];
    unsigned char data[88];
    struct prn_batch batch;
    struct prony_error err;
    struct prn_buffer bytes = PRN_BUFFER_INIT(10000);
    struct prn_batch *back = prn_batch_new();
    make_batch(&batch, places, data);
    assert_int_equal(prn_batch_write(&batch, &bytes, &err), 0);
    assert_int_equal(prn_batch_parse(back, bytes.data, bytes.len, &err), 0);
    assert_int_equal(back->number, 7);
    assert_true(back->alone && !back->last && back->begin_ns == -5 && back->n == 2);
    const struct prn_place *x = prn_batch_find(back, "x");
    assert_non_null(x);
    assert_true(x->rank == 2 && x->dims[0] == 2 && x->dims[1] == 3 && x->bytes == 24);
    assert_memory_equal(back->data + x->offset, data + 64, 24);
    assert_memory_equal(back->data + prn_batch_find(back, "ids")->offset, data, 24);
    prn_batch_free(back);
    prn_buffer_release(&bytes);
}

/* Whatever is missing or changed on the way, nothing is read or written where it doesn't belong. */
static void bytes_are_not_trusted(void **state)
{
    (void)state;
    struct prn_place places[2];
    unsigned char data[88];
    struct prn_batch batch;
    struct prony_error err;
    struct prn_buffer bytes = PRN_BUFFER_INIT(10000);
    make_batch(&batch, places, data);
    assert_int_equal(prn_batch_write(&batch, &bytes, &err), 0);
    size_t refused = 0;
    for (size_t i = 0; i < bytes.len; i++) {
        struct prn_batch *back = prn_batch_new();
        unsigned char *changed = malloc(bytes.len);
        assert_true(back && changed);
        assert_int_equal(prn_batch_parse(back, bytes.data, i, &err), PRONY_EFORMAT);
        memcpy(changed, bytes.data, bytes.len);
        changed[i] ^= 0x80;
        refused += prn_batch_parse(back, changed, bytes.len, &err) < 0;
        free(changed);
        prn_batch_free(back);
    }
    assert_true(refused > 60); /* the others changed values, names and numbers */
    prn_buffer_release(&bytes);
}

/* What goes over a link, up to the first tensor that is too large for it. */
struct tape {
    unsigned char bytes[1000];
    size_t n, played;
};

static int record_head(void *context, const void *data, size_t bytes, struct prony_error *err)
{
    struct tape *tape = context;
    if (bytes > sizeof tape->bytes - tape->n)
        return prn_fail(err, PRONY_ELIMIT, "a tensor");
    memcpy(tape->bytes + tape->n, data, bytes);
    tape->n += bytes;
    return 0;
}

static int play(void *context, void *data, size_t bytes, struct prony_error *err)
{
    struct tape *tape = context;
    if (bytes > tape->n - tape->played)
        return prn_fail(err, PRONY_ELIMIT, "a tensor");
    memcpy(data, tape->bytes + tape->played, bytes);
    tape->played += bytes;
    return 0;
}

/* Sizes that have no sum are refused, before there is memory for them that would be too small. */
static void sizes_do_not_wrap(void **state)
{
    (void)state;
    const size_t most = SIZE_MAX / 2;
    const size_t sizes[][2] = {
        {most, most}, {most - 64, most}, {most - 127, most}, {most / 2, most / 2 + 2}};
    for (size_t i = 0; i < PRN_ARRAY_SIZE(sizes); i++) {
        struct prn_place places[2] = {{"a", PRN_DTYPE_STRING, 0, {0}, 0, sizes[i][0]},
                                      {"b", PRN_DTYPE_STRING, 0, {0}, 0, sizes[i][1]}};
        unsigned char data[1] = {0};
        const struct prn_batch batch = {.n = 2, .places = places, .data = data};
        struct prn_batch *back = prn_batch_new();
        struct tape tape = {.n = 0};
        struct prony_error err;
        assert_int_equal(prn_batch_store(&batch, NULL, 0, record_head, &tape, &err), PRONY_ELIMIT);
        assert_int_equal(prn_batch_fetch(back, play, &tape, &err), PRONY_EFORMAT);
        assert_int_equal(tape.played, tape.n);
        prn_batch_free(back);
    }
}

/* ---- Tallies ---- */

#define MS 1000000

static void spell(struct prn_spells *spells, size_t number, bool alone, int64_t begin_ms,
                  int64_t end_ms, int64_t run_ms)
{
    struct prn_spell s = {number, alone, begin_ms * MS, end_ms * MS, run_ms * MS};
    assert_int_equal(prn_spells_add(spells, &s), 0);
}

struct figures {
    struct prn_spells stages[2], links[2], whole;
};

/* Two stages. Alone, a run takes 10 and 20 ms, each with 1 ms of handling, and the link 5. In the
 * full pipeline the runs take 12 and 24 + `slower`, and a batch comes out every 30. */
static void make_launch(struct figures *f, int64_t slower, struct prn_tally_launch *ret_launch)
{
    int64_t at = 0;
    for (size_t i = 0; i < 4; i++, at += 100) {
        int64_t warming = i < PRN_TALLY_WARMUPS ? 50 : 0; /* isn't counted */
        spell(&f->stages[0], i, true, at, at + 11 + warming, 10);
        spell(&f->links[0], i, true, at + 11, at + 16, 0);
        spell(&f->stages[1], i, true, at + 16, at + 37 + warming, 20);
        spell(&f->whole, i, true, at, at + 37 + warming, 0);
    }
    int64_t full = 0;
    for (size_t i = 4; i < 44; i++, at += 30) {
        spell(&f->stages[0], i, false, at - 60, at - 47, 12);
        spell(&f->links[0], i, false, at - 47, at - 40, 0);
        spell(&f->stages[1], i, false, at - 26 - slower, at, 24 + slower);
        spell(&f->whole, i, false, at - 60, at, 0);
        if (i == 13)
            full = at;
    }
    *ret_launch = (struct prn_tally_launch){.stages = f->stages,
                                            .links = f->links,
                                            .whole = &f->whole,
                                            .full_ns = full * MS,
                                            .end_ns = (at - 30) * MS};
}

static void free_launch(struct figures *f)
{
    for (size_t i = 0; i < 2; i++) {
        free(f->stages[i].items);
        free(f->links[i].items);
    }
    free(f->whole.items);
}

static void tally(size_t launches, struct prn_simulation *s)
{
    struct prn_simulate_tally *t = prn_tally_new(2, launches);
    assert_non_null(t);
    for (size_t i = 0; i < launches; i++) {
        struct figures f = {0};
        struct prn_tally_launch launch;
        make_launch(&f, i % 2 ? 2 : 0, &launch);
        prn_tally_add(t, &launch);
        free_launch(&f);
    }
    prn_tally_finish(t, s);
    prn_tally_free(t);
}

static void one_launch_is_its_own_figures(void **state)
{
    (void)state;
    struct prn_simulated_stage stages[2] = {{0}};
    struct prn_simulation s = {.n_stages = 2, .stages = stages, .links = true};
    tally(1, &s);
    assert_int_equal(s.launches, 1);
    assert_int_equal(s.lone_batches, 2);
    assert_int_equal(s.batches, 30);
    assert_near(stages[0].alone_s.estimate, 0.010, 1e-12);
    assert_near(stages[1].alone_s.estimate, 0.020, 1e-12);
    assert_near(stages[1].alone_handling_s, 0.001, 1e-12);
    assert_near(stages[0].together_s.estimate, 0.012, 1e-12);
    assert_near(stages[1].together_s.estimate, 0.024, 1e-12);
    assert_near(stages[1].handling_s.estimate, 0.002, 1e-12);
    assert_near(stages[1].busy, 26.0 / 30, 1e-12);
    assert_near(stages[0].link_s.estimate, 0.007, 1e-12);
    assert_true(isnan(stages[1].link_s.estimate));
    assert_near(s.latency_s.estimate, 0.037, 1e-12);
    assert_near(s.full_latency_s.estimate, 0.060, 1e-12);
    assert_near(s.period_s.estimate, 0.030, 1e-12);
    /* One process can't tell how others would differ. */
    assert_true(isnan(s.period_s.low) && isnan(s.period_s.high));
    assert_near(s.expected_period_s, 0.021, 1e-12);
    assert_near(s.expected_latency_s, 0.011 + 0.007 + 0.021, 1e-12);
    assert_int_equal(s.bottleneck, 1);
    assert_false(s.bottleneck_is_link);
}

static void launches_are_the_units(void **state)
{
    (void)state;
    struct prn_simulated_stage stages[2] = {{0}};
    struct prn_simulation s = {.n_stages = 2, .stages = stages, .links = true};
    tally(6, &s);
    assert_int_equal(s.batches, 180);
    assert_near(stages[1].together_s.estimate, 0.025, 1e-12);
    /* Of 24, 26, 24, 26, 24, 26: sd √1.2, over √6, times Student's t of 5 degrees of freedom. */
    assert_near(stages[1].together_s.high - 0.025, 0.001 * sqrt(0.2) * 2.570581836, 1e-9);
    assert_near(s.period_s.high, 0.030, 1e-12);
    tally(4, &s);
    assert_near(stages[1].together_s.estimate, 0.025, 1e-12);
    assert_true(isnan(stages[1].together_s.low) && isnan(stages[1].together_s.high));
}

static void a_link_can_be_the_bottleneck(void **state)
{
    (void)state;
    struct prn_simulated_stage stages[2] = {{0}};
    struct prn_simulation s = {.n_stages = 2, .stages = stages, .links = true};
    struct prn_simulate_tally *t = prn_tally_new(2, 1);
    struct figures f = {0};
    struct prn_tally_launch launch;
    assert_non_null(t);
    make_launch(&f, 0, &launch);
    for (size_t i = 0; i < f.links[0].n; i++)
        f.links[0].items[i].begin_ns = f.links[0].items[i].end_ns - 29 * (int64_t)MS;
    prn_tally_add(t, &launch);
    prn_tally_finish(t, &s);
    assert_int_equal(s.bottleneck, 0);
    assert_true(s.bottleneck_is_link);
    assert_near(s.expected_period_s, 0.029, 1e-12);
    s.links = false; /* what takes no time by order isn't one */
    prn_tally_finish(t, &s);
    assert_false(s.bottleneck_is_link);
    prn_tally_free(t);
    free_launch(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(belts_keep_the_order),   cmocka_unit_test(stopping_ends_all_waiting),
        cmocka_unit_test(batches_come_back),      cmocka_unit_test(sizes_do_not_wrap),
        cmocka_unit_test(bytes_are_not_trusted),  cmocka_unit_test(one_launch_is_its_own_figures),
        cmocka_unit_test(launches_are_the_units), cmocka_unit_test(a_link_can_be_the_bottleneck),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
