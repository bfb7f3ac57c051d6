/* Roofs that follow from a record, and the kernels that a processor must have. */
#include "unit.h"

#include "measure/machine/kernels.h"
#include "measure/machine/machine.h"
#include "measure/machine/topology.h"

#define KIB 1024
#define MIB (1024 * 1024)

static struct prn_machine_row rows[] = {
    {PRN_MACHINE_COMPUTE, "float32", "x", 1, -1, -1, 8, 100e9, NAN, NAN},
    {PRN_MACHINE_READ, "L1", "x", 1, 32 * KIB, 1, 8, 200e9, NAN, NAN},
    {PRN_MACHINE_TRIAD, "L1", "x", 1, 32 * KIB, 1, 8, 250e9, NAN, NAN},
    {PRN_MACHINE_READ, "L2", "x", 1, MIB, 1, 8, 100e9, NAN, NAN},
    {PRN_MACHINE_READ, "memory", "x", 1, -1, 1, 8, 20e9, NAN, NAN},
    {PRN_MACHINE_COMPUTE, "float32", "x", 4, -1, -1, 8, 400e9, NAN, NAN},
};
static const struct prn_machine machine = {
    .caches_bytes = 2 * MIB, .n_rows = PRN_ARRAY_SIZE(rows), .rows = rows};

static struct prn_roof roof_of(struct prn_roof_work work)
{
    struct prn_roof roof = {"?", false, NAN};
    work.precision = PRN_MACHINE_FLOAT32;
    assert_true(prn_machine_roof(&machine, 1, &work, &roof));
    return roof;
}

static void which_roof(void **state)
{
    (void)state;
    /* Much work on few bytes. */
    struct prn_roof roof = roof_of((struct prn_roof_work){.flops = 1e9, .bytes = MIB});
    assert_string_equal(roof.of, "float32");
    assert_true(!roof.memory);
    assert_near(roof.ns, 1e7, 1);
    /* Bytes that fit a cache come from there, as fast as any loop moved them. */
    roof = roof_of((struct prn_roof_work){.flops = 0, .bytes = 25000});
    assert_string_equal(roof.of, "L1");
    assert_true(roof.memory);
    assert_near(roof.ns, 100, 1e-6);
    roof = roof_of((struct prn_roof_work){.flops = 1, .bytes = 32 * KIB + 100000});
    assert_string_equal(roof.of, "L2");
    assert_near(roof.ns, 1000, 1e-6);
    roof = roof_of((struct prn_roof_work){.flops = 1, .bytes = 2 * MIB + 20e6});
    assert_string_equal(roof.of, "memory");
    assert_near(roof.ns, 1e6, 1e-3);
    /* Of a model's weights, caches keep at most what fits them from run to run. */
    roof = roof_of((struct prn_roof_work){
        .flops = 1, .bytes = 100000, .weight_bytes = 80000, .all_weights_bytes = 8 * MIB});
    assert_string_equal(roof.of, "memory");
    assert_near(roof.ns, 4000 * 0.75, 1e-6);
    roof = roof_of((struct prn_roof_work){
        .flops = 1, .bytes = 100000, .weight_bytes = 80000, .all_weights_bytes = 200000});
    assert_string_equal(roof.of, "L2");
}

static void unknown_roofs(void **state)
{
    (void)state;
    static const struct {
        struct prn_roof_work work;
        int64_t threads;
    } unknown[] = {
        {{.flops = NAN, .bytes = 1, .precision = "float32"}, 1},
        {{.flops = 1, .bytes = NAN, .precision = "float32"}, 1},
        {{.flops = 1, .bytes = 1}, 1},
        {{.flops = 1, .bytes = 1, .precision = "int8"}, 1},
        {{.flops = 0, .bytes = 0, .precision = "float32"}, 1},
        {{.flops = 1, .bytes = 1, .precision = "float32"}, 2},
        {{.flops = 1, .bytes = 1, .precision = "float32"}, 4}, /* moves nothing */
    };
    struct prn_roof roof;
    for (size_t i = 0; i < PRN_ARRAY_SIZE(unknown); i++)
        assert_true(!prn_machine_roof(&machine, unknown[i].threads, &unknown[i].work, &roof));
    assert_true(prn_machine_has_threads(&machine, 4));
    assert_true(!prn_machine_has_threads(&machine, 2));
    assert_true(prn_machine_bandwidth(&machine, 1, "L1") == 250e9);
    assert_true(isnan(prn_machine_bandwidth(&machine, 1, "L3")));
    assert_true(prn_machine_flop_per_s(&machine, 4, "float32") == 400e9);
}

static void caches_are_shared(void **state)
{
    (void)state;
    struct prn_core cores[] = {
        {0, {{32, 0}, {1000, 0}}}, {1, {{32, 1}, {1000, 0}}}, {2, {{32, 2}, {1000, 2}}}};
    struct prn_topology t = {.n_cores = 3, .cores = cores, .n_levels = 2};
    assert_true(prn_topology_capacity(&t, 0, 3) == 96);
    assert_true(prn_topology_capacity(&t, 1, 2) == 1000);
    assert_true(prn_topology_capacity(&t, 1, 3) == 2000);
    assert_true(prn_topology_share(&t, 1, 1) == 1000);
    assert_true(prn_topology_share(&t, 1, 3) == 500);
    struct prn_arena arena = PRN_ARENA_INIT(MIB);
    assert_true(prn_topology_read(&t, &arena));
    assert_true(t.n_cores >= 1);
    prn_arena_release(&arena);
}

/* Every kernel that is chosen here runs, and a triad computes what it says. */
static void kernels_run(void **state)
{
    (void)state;
    static float buffer[3 * PRN_KERNEL_BLOCK / sizeof(float)] __attribute__((aligned(4096)));
    static const char *const of[] = {"float32", "bfloat16", "int8"};
    for (size_t i = 0; i < PRN_ARRAY_SIZE(of); i++) {
        const struct prn_machine_kernel *k = prn_machine_kernel(PRN_MACHINE_COMPUTE, of[i]);
        assert_true(k || i > 0);
        if (k)
            k->pass(NULL, 0, 10, false);
    }
    prn_machine_kernel(PRN_MACHINE_READ, "L1")->pass(buffer, sizeof buffer, 2, false);
    for (int past = 0; past < 2; past++) {
        size_t third = prn_kernel_triad_bytes(sizeof buffer) / 3 / sizeof(float);
        for (size_t i = 0; i < third; i++) {
            buffer[i] = -1;
            buffer[third + i] = (float)i;
            buffer[2 * third + i] = 4;
        }
        prn_machine_kernel(PRN_MACHINE_TRIAD, "memory")->pass(buffer, sizeof buffer, 1, past);
        for (size_t i = 0; i < third; i++)
            assert_true(buffer[i] == (float)i + 2);
    }
}

static void no_rate_is_below_zero(void **state)
{
    (void)state;
    double units[] = {1, 1, 1, 1, 1, 1, 1, 1, 100};
    struct prn_machine_row row = {0};
    prn_machine_summarise(units, PRN_ARRAY_SIZE(units), &row);
    assert_int_equal(row.units, 5);
    assert_near(row.per_s, 20.8, 1e-9);
    assert_true(row.low_per_s == 0 && row.high_per_s > row.per_s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(which_roof),
        cmocka_unit_test(unknown_roofs),
        cmocka_unit_test(caches_are_shared),
        cmocka_unit_test(kernels_run),
        cmocka_unit_test(no_rate_is_below_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
