/*
 * What recording costs: regions without graphs, begun and ended as fast as they can be, beside
 * pairs of bare clock_gettime calls, in turns.
 *
 *     region_edge ROUNDS REGIONS
 *
 * Prints, for each round, ns per region edge and per bare clock reading; then how long an empty
 * region is in the profile, in ns.
 */
#include <prony/prony.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_RAW, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static double bare_ns(long pairs)
{
    static volatile int64_t sink; /* what is recorded is a difference of two readings */
    int64_t start = now_ns();
    for (long i = 0; i < pairs; i++) {
        int64_t before = now_ns();
        sink = now_ns() - before;
    }
    return (double)(now_ns() - start) / (double)pairs / 2;
}

static double edge_ns(struct prony_session *session, long regions)
{
    int64_t start = now_ns();
    for (long i = 0; i < regions; i++)
        if (prony_region_begin(session, "empty", NULL) < 0 || prony_region_end(session, NULL) < 0)
            exit(1);
    return (double)(now_ns() - start) / (double)regions / 2;
}

int main(int argc, char **argv)
{
    static const char *const backends[] = {"onnxrt-cpu"};
    struct prony_session_options options = PRONY_SESSION_OPTIONS_INIT;
    struct prony_session *session;
    struct prony_profile *profile;
    struct prony_recording recording;
    struct prony_error err;
    if (argc != 3)
        return 2;
    long rounds = strtol(argv[1], NULL, 10);
    long regions = strtol(argv[2], NULL, 10);
    options.backends = backends;
    options.n_backends = 1;
    if (prony_session_open(&options, &session, &err) < 0) {
        fprintf(stderr, "region_edge: %s\n", err.text);
        return 1;
    }
    for (long i = 0; i < rounds; i++) {
        double bare = bare_ns(regions);
        printf("%.2f %.2f\n", edge_ns(session, regions), bare);
    }
    if (prony_session_profile(session, &profile, &err) < 0 ||
        prony_profile_recording(profile, 0, &recording) < 0)
        return 1;
    printf("%.2f\n", recording.local_ns);
    prony_profile_free(profile);
    prony_session_close(session);
    return 0;
}
