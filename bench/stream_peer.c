/* The triad of STREAM, a[i] = b[i] + q c[i] over doubles, as its rules have it: arrays much larger
 * than the caches, three of them counted, the best of the passes. Prints bytes per second.
 *
 *     OMP_NUM_THREADS=N stream_peer MIB_PER_ARRAY PASSES */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    const size_t n = (size_t)atol(argv[1]) << 17; /* doubles */
    const long passes = atol(argv[2]);
    double *a = malloc(n * sizeof *a);
    double *b = malloc(n * sizeof *b);
    double *c = malloc(n * sizeof *c);
    double best = 1e9;
    if (!a || !b || !c)
        return 1;
#pragma omp parallel for
    for (size_t i = 0; i < n; i++) {
        a[i] = 0;
        b[i] = 1;
        c[i] = 2;
    }
    for (long pass = 0; pass < passes; pass++) {
        double start = now();
#pragma omp parallel for
        for (size_t i = 0; i < n; i++)
            a[i] = b[i] + 3 * c[i];
        double took = now() - start;
        best = took < best ? took : best;
    }
    if (a[n / 2] != 7)
        return 1;
    printf("%.9g\n", 3.0 * (double)n * sizeof *a / best);
    return 0;
}
