#include "measure/machine/kernels.h"

#include <string.h>

/* Sums that don't wait for each other: enough to fill two pipelines of four or five steps. With two
 * factors they fit 16 registers. */
#define SUMS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)
#define N_SUMS 12

/* Registers that a reading loop fills per step. */
#define N_LOADS 8

/* What a loop computes must seem to be needed. */
static volatile float sink;

/* Keeps the compiler from knowing what is in memory. */
#define FORGET() __asm__ volatile("" ::: "memory")
/* And from knowing that sums which begin alike are alike: it would compute one of them. */
#define UNKNOWN(array) __asm__ volatile("" ::"r"(array) : "memory")

/* Numbers that nobody knows before the program runs; x ← x · 0.5 + 0.5 stays near 1. */
static volatile float unknown_half = 0.5F;

static bool always(void)
{
    return true;
}

/* A kernel that multiplies and adds: `step(sum)` gives the new sum. */
#define COMPUTE_KERNEL(name, target, type, prepare, step, first)                                 \
    target static void name(void *buffer, size_t bytes, int64_t passes, bool past_caches)        \
    {                                                                                            \
        (void)buffer;                                                                            \
        (void)bytes;                                                                             \
        (void)past_caches;                                                                       \
        prepare;                                                                                 \
        type from[N_SUMS];                                                                       \
        memset(from, 0, sizeof from);                                                            \
        UNKNOWN(from);                                                                           \
        type s0 = from[0], s1 = from[1], s2 = from[2], s3 = from[3], s4 = from[4], s5 = from[5]; \
        type s6 = from[6], s7 = from[7], s8 = from[8], s9 = from[9], s10 = from[10],             \
             s11 = from[11];                                                                     \
        for (int64_t i = 0; i < passes; i++) {                                                   \
            SUMS(step)                                                                           \
        }                                                                                        \
        type all[N_SUMS] = {s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11};                   \
        float total = 0;                                                                         \
        for (int i = 0; i < N_SUMS; i++)                                                         \
            total += first;                                                                      \
        sink = total;                                                                            \
    }

/* Kernels that move bytes: registers of `type`, which are `width` bytes wide. */
#define READ_KERNEL(name, target, type, combine)                                          \
    target static void name(void *buffer, size_t bytes, int64_t passes, bool past_caches) \
    {                                                                                     \
        (void)past_caches;                                                                \
        const type *end = (const type *)((const char *)buffer + bytes);                   \
        type r[N_LOADS];                                                                  \
        memset(r, 0, sizeof r);                                                           \
        type r0 = r[0], r1 = r[1], r2 = r[2], r3 = r[3];                                  \
        type r4 = r[4], r5 = r[5], r6 = r[6], r7 = r[7];                                  \
        for (int64_t i = 0; i < passes; i++) {                                            \
            FORGET();                                                                     \
            for (const type *p = buffer; p < end; p += N_LOADS) {                         \
                r0 = combine(r0, p[0]);                                                   \
                r1 = combine(r1, p[1]);                                                   \
                r2 = combine(r2, p[2]);                                                   \
                r3 = combine(r3, p[3]);                                                   \
                r4 = combine(r4, p[4]);                                                   \
                r5 = combine(r5, p[5]);                                                   \
                r6 = combine(r6, p[6]);                                                   \
                r7 = combine(r7, p[7]);                                                   \
            }                                                                             \
        }                                                                                 \
        r0 = combine(combine(r0, r1), combine(r2, r3));                                   \
        r4 = combine(combine(r4, r5), combine(r6, r7));                                   \
        r0 = combine(r0, r4);                                                             \
        float first;                                                                      \
        memcpy(&first, &r0, sizeof first);                                                \
        sink = first;                                                                     \
    }

/* a ← b + s · c: three arrays that share the buffer. */
#define THIRD(bytes) ((bytes) / 3 / 256 * 256)
#define TRIAD_LOOP(width, store)                                         \
    for (int64_t i = 0; i < passes; i++) {                               \
        FORGET();                                                        \
        for (size_t at = 0; at < third; at += 2 * (width)) {             \
            store(a + at, b + at, c + at);                               \
            store(a + at + (width), b + at + (width), c + at + (width)); \
        }                                                                \
    }
#define TRIAD_KERNEL(name, target, prepare, width, store, store_past, fence)              \
    target static void name(void *buffer, size_t bytes, int64_t passes, bool past_caches) \
    {                                                                                     \
        size_t third = THIRD(bytes);                                                      \
        char *a = buffer;                                                                 \
        const char *b = a + third;                                                        \
        const char *c = b + third;                                                        \
        prepare;                                                                          \
        if (past_caches) {                                                                \
            TRIAD_LOOP(width, store_past)                                                 \
            fence;                                                                        \
        } else {                                                                          \
            TRIAD_LOOP(width, store)                                                      \
        }                                                                                 \
    }

/* ---- Any processor ---- */

typedef float vector_float __attribute__((vector_size(16)));
typedef int vector_int __attribute__((vector_size(16)));

#if defined(__aarch64__)
#include <arm_neon.h>
#define PORTABLE_NAME "NEON"
#define PORTABLE_FMA(s, x) \
    ((vector_float)vfmaq_f32((float32x4_t)(x), (float32x4_t)(s), (float32x4_t)(x)))
#else
#define PORTABLE_NAME "portable"
#define PORTABLE_FMA(s, x) ((s) * (x) + (x))
#endif
#define PORTABLE_STEP(i) s##i = PORTABLE_FMA(s##i, half);
COMPUTE_KERNEL(compute_portable, , vector_float,
               vector_float half = (vector_float){0} + unknown_half, PORTABLE_STEP, all[i][0])

#define PORTABLE_OR(x, y) ((x) | (y))
READ_KERNEL(read_portable, , vector_int, PORTABLE_OR)

#define PORTABLE_STORE(a, b, c) \
    *(vector_float *)(a) = *(const vector_float *)(b) + *(const vector_float *)(c)*half
TRIAD_KERNEL(triad_portable, , vector_float half = (vector_float){0} + unknown_half, 16,
             PORTABLE_STORE, PORTABLE_STORE, )

/* ---- x86 ---- */

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#define AVX2 __attribute__((target("avx2,fma")))
#define AVX512 __attribute__((target("avx512f")))

static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static bool has_avx512(void)
{
    return __builtin_cpu_supports("avx512f");
}

/* A bit of leaf 7 of the processor's own description. */
static bool has_feature(unsigned subleaf, bool in_edx, unsigned bit)
{
    unsigned eax;
    unsigned ebx;
    unsigned ecx;
    unsigned edx;
    return __get_cpuid_count(7, subleaf, &eax, &ebx, &ecx, &edx) &&
           ((in_edx ? edx : eax) >> bit & 1);
}

#define AVX2_STEP(i) s##i = _mm256_fmadd_ps(s##i, half, half);
COMPUTE_KERNEL(compute_avx2, AVX2, __m256, __m256 half = _mm256_set1_ps(unknown_half), AVX2_STEP,
               _mm256_cvtss_f32(all[i]))
#define AVX512_STEP(i) s##i = _mm512_fmadd_ps(s##i, half, half);
COMPUTE_KERNEL(compute_avx512, AVX512, __m512, __m512 half = _mm512_set1_ps(unknown_half),
               AVX512_STEP, _mm512_cvtss_f32(all[i]))

READ_KERNEL(read_avx2, AVX2, __m256i, _mm256_or_si256)
READ_KERNEL(read_avx512, AVX512, __m512i, _mm512_or_si512)

#define AVX2_SUM(b, c) \
    _mm256_fmadd_ps(half, _mm256_load_ps((const float *)(c)), _mm256_load_ps((const float *)(b)))
#define AVX2_STORE(a, b, c) _mm256_store_ps((float *)(a), AVX2_SUM(b, c))
#define AVX2_STREAM(a, b, c) _mm256_stream_ps((float *)(a), AVX2_SUM(b, c))
TRIAD_KERNEL(triad_avx2, AVX2, __m256 half = _mm256_set1_ps(unknown_half), 32, AVX2_STORE,
             AVX2_STREAM, _mm_sfence())
#define AVX512_SUM(b, c) \
    _mm512_fmadd_ps(half, _mm512_load_ps((const float *)(c)), _mm512_load_ps((const float *)(b)))
#define AVX512_STORE(a, b, c) _mm512_store_ps((float *)(a), AVX512_SUM(b, c))
#define AVX512_STREAM(a, b, c) _mm512_stream_ps((float *)(a), AVX512_SUM(b, c))
TRIAD_KERNEL(triad_avx512, AVX512, __m512 half = _mm512_set1_ps(unknown_half), 64, AVX512_STORE,
             AVX512_STREAM, _mm_sfence())

/* Products of 16-bit floats, summed in pairs. */
static bool has_avx512_bf16(void)
{
    return has_avx512() && has_feature(1, false, 5);
}
#define BF16_STEP(i) s##i = _mm512_dpbf16_ps(s##i, x, x);
COMPUTE_KERNEL(compute_avx512_bf16, __attribute__((target("avx512f,avx512bf16"))), __m512,
               __m512bh x = (__m512bh)_mm512_set1_ps(unknown_half), BF16_STEP,
               _mm512_cvtss_f32(all[i]))

/* Products of 8-bit integers, summed in fours. */
static bool has_avx512_vnni(void)
{
    return has_avx512() && __builtin_cpu_supports("avx512vnni");
}
#define VNNI512_STEP(i) s##i = _mm512_dpbusd_epi32(s##i, x, x);
COMPUTE_KERNEL(compute_avx512_vnni, __attribute__((target("avx512f,avx512vnni"))), __m512i,
               __m512i x = _mm512_set1_epi8((char)(2 * unknown_half)), VNNI512_STEP,
               (float)_mm_cvtsi128_si32(_mm512_castsi512_si128(all[i])))

static bool has_avx_vnni(void)
{
    return has_avx2() && has_feature(1, false, 4);
}
#define VNNI256_STEP(i) s##i = _mm256_dpbusd_avx_epi32(s##i, x, x);
COMPUTE_KERNEL(compute_avx_vnni, __attribute__((target("avx2,avxvnni"))), __m256i,
               __m256i x = _mm256_set1_epi8((char)(2 * unknown_half)), VNNI256_STEP,
               (float)_mm_cvtsi128_si32(_mm256_castsi256_si128(all[i])))

/* ---- Tiles ---- */

#define TILE_ROWS 16
#define TILE_ROW_BYTES 64
#define TILES 8
/* Products of a tile of 16 by 64 bytes with one of 64 bytes by 16, in each of four sums. */
#define TILE_OPERATIONS(bytes_each) \
    (4 * 2.0 * TILE_ROWS * TILE_ROWS * TILE_ROW_BYTES / (bytes_each))

/* The kernel lets a process use tiles when it asks. */
static bool has_tiles(unsigned kind_bit)
{
    static const long request = 0x1023; /* ARCH_REQ_XCOMP_PERM */
    static const long tile_data = 18;
    return has_feature(0, true, 24) && has_feature(0, true, kind_bit) &&
           syscall(SYS_arch_prctl, request, tile_data) == 0;
}

static bool has_amx_bf16(void)
{
    return has_tiles(22);
}

static bool has_amx_int8(void)
{
    return has_tiles(25);
}

struct tile_shapes {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

#define TILE_KERNEL(name, features, multiply)                                                      \
    __attribute__((target(features))) static void name(void *buffer, size_t bytes, int64_t passes, \
                                                       bool past_caches)                           \
    {                                                                                              \
        (void)buffer;                                                                              \
        (void)bytes;                                                                               \
        (void)past_caches;                                                                         \
        struct tile_shapes shapes __attribute__((aligned(64))) = {.palette = 1};                   \
        static const uint8_t data[TILE_ROWS * TILE_ROW_BYTES] __attribute__((aligned(64)));        \
        for (int i = 0; i < TILES; i++) {                                                          \
            shapes.row_bytes[i] = TILE_ROW_BYTES;                                                  \
            shapes.rows[i] = TILE_ROWS;                                                            \
        }                                                                                          \
        _tile_loadconfig(&shapes);                                                                 \
        _tile_zero(0);                                                                             \
        _tile_zero(1);                                                                             \
        _tile_zero(2);                                                                             \
        _tile_zero(3);                                                                             \
        _tile_loadd(4, data, TILE_ROW_BYTES);                                                      \
        _tile_loadd(5, data, TILE_ROW_BYTES);                                                      \
        _tile_loadd(6, data, TILE_ROW_BYTES);                                                      \
        _tile_loadd(7, data, TILE_ROW_BYTES);                                                      \
        for (int64_t i = 0; i < passes; i++) {                                                     \
            multiply(0, 4, 6);                                                                     \
            multiply(1, 4, 7);                                                                     \
            multiply(2, 5, 6);                                                                     \
            multiply(3, 5, 7);                                                                     \
        }                                                                                          \
        _tile_release();                                                                           \
    }
TILE_KERNEL(compute_amx_bf16, "amx-tile,amx-bf16", _tile_dpbf16ps)
TILE_KERNEL(compute_amx_int8, "amx-tile,amx-int8", _tile_dpbssd)
#endif

/* ---- Which there are ---- */

/* Of each kind, the best first. A multiplication and an addition are two operations. */
static const struct prn_machine_kernel kernels[] = {
#define COMPUTES(of, name, has, lanes, function)                            \
    {                                                                       \
        PRN_MACHINE_COMPUTE, of, name, has, 2.0 * N_SUMS *(lanes), function \
    }
#if defined(__x86_64__)
    COMPUTES(PRN_MACHINE_FLOAT32, "AVX-512", has_avx512, 16, compute_avx512),
    COMPUTES(PRN_MACHINE_FLOAT32, "AVX2", has_avx2, 8, compute_avx2),
    {PRN_MACHINE_COMPUTE, PRN_MACHINE_BFLOAT16, "AMX", has_amx_bf16, TILE_OPERATIONS(2),
     compute_amx_bf16},
    COMPUTES(PRN_MACHINE_BFLOAT16, "AVX-512", has_avx512_bf16, 32, compute_avx512_bf16),
    {PRN_MACHINE_COMPUTE, PRN_MACHINE_INT8, "AMX", has_amx_int8, TILE_OPERATIONS(1),
     compute_amx_int8},
    COMPUTES(PRN_MACHINE_INT8, "AVX-512 VNNI", has_avx512_vnni, 64, compute_avx512_vnni),
    COMPUTES(PRN_MACHINE_INT8, "AVX-VNNI", has_avx_vnni, 32, compute_avx_vnni),
    {PRN_MACHINE_READ, NULL, "AVX-512", has_avx512, 0, read_avx512},
    {PRN_MACHINE_READ, NULL, "AVX2", has_avx2, 0, read_avx2},
    {PRN_MACHINE_TRIAD, NULL, "AVX-512", has_avx512, 0, triad_avx512},
    {PRN_MACHINE_TRIAD, NULL, "AVX2", has_avx2, 0, triad_avx2},
#endif
    COMPUTES(PRN_MACHINE_FLOAT32, PORTABLE_NAME, always, 4, compute_portable),
    {PRN_MACHINE_READ, NULL, PORTABLE_NAME, always, 0, read_portable},
    {PRN_MACHINE_TRIAD, NULL, PORTABLE_NAME, always, 0, triad_portable},
};

size_t prn_kernel_triad_bytes(size_t bytes)
{
    return 3 * THIRD(bytes);
}

const struct prn_machine_kernel *prn_machine_kernel(enum prn_machine_kind kind, const char *of)
{
    for (size_t i = 0; i < PRN_ARRAY_SIZE(kernels); i++) {
        const struct prn_machine_kernel *k = &kernels[i];
        if (k->kind == kind && (!k->of || strcmp(k->of, of) == 0) && k->available())
            return k;
    }
    return NULL;
}
