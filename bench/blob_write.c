/*
 * How fast uploads become blobs: the cache with hashing and syncing, beside SHA-256 alone and a
 * plain write and fsync of the same bytes, in turns.
 *   blob_write FOLDER [MiB] [ROUNDS]
 * The pieces are as gRPC delivers a chunk of 1 MiB: of 62 KiB, at odd addresses.
 */
#include "bare_rpc.h"

#include "service/store/blobs.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { CHUNK = 1 << 20, PIECE = 62 << 10, PIECES = (CHUNK + PIECE - 1) / PIECE };

static char *data;
static struct iovec pieces[PIECES];

static double now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void hash_alone(const char *folder, size_t chunks, unsigned round)
{
    (void)folder;
    (void)round;
    EVP_MD_CTX *hash = EVP_MD_CTX_new();
    unsigned char digest[EVP_MAX_MD_SIZE];
    EVP_DigestInit_ex(hash, EVP_sha256(), NULL);
    for (size_t i = 0; i < chunks; i++)
        for (size_t k = 0; k < PIECES; k++)
            EVP_DigestUpdate(hash, pieces[k].iov_base, pieces[k].iov_len);
    EVP_DigestFinal_ex(hash, digest, NULL);
    EVP_MD_CTX_free(hash);
}

static void plain_write(const char *folder, size_t chunks, unsigned round)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/plain-%u", folder, round);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    for (size_t i = 0; i < chunks; i++)
        if (pwritev(fd, pieces, PIECES, (off_t)(i * CHUNK)) != CHUNK)
            bench_die("cannot write");
    if (fsync(fd) < 0 || close(fd) < 0 || unlink(path) < 0)
        bench_die("cannot sync");
}

static struct prn_blobs *blobs;

static void blob_write(const char *folder, size_t chunks, unsigned round)
{
    (void)folder;
    struct prony_error err;
    struct prn_blob_writer *writer;
    struct prn_blob *blob;
    memcpy(data, &round, sizeof round); /* another blob each time */
    if (prn_blob_writer_new(blobs, &writer, &err) < 0)
        bench_die(err.text);
    for (size_t i = 0; i < chunks; i++)
        if (prn_blob_writer_write(writer, pieces, PIECES, &err) < 0)
            bench_die(err.text);
    if (prn_blob_writer_finish(writer, NULL, &blob, &err) < 0)
        bench_die(err.text);
    prn_blob_release(blob);
}

int main(int argc, char **argv)
{
    if (argc < 2)
        bench_die("usage: blob_write FOLDER [MiB] [ROUNDS]");
    size_t chunks = argc > 2 ? strtoul(argv[2], NULL, 10) : 512;
    unsigned rounds = argc > 3 ? (unsigned)strtoul(argv[3], NULL, 10) : 5;
    struct prony_error err;
    struct prn_state *state;
    if (prn_state_open(argv[1], true, &state, &err) < 0 ||
        prn_blobs_open(state, NULL, 2 * chunks * CHUNK, &blobs, &err) < 0)
        bench_die(err.text);
    data = malloc(CHUNK + 1);
    if (!data)
        bench_die("out of memory");
    for (size_t i = 0; i <= CHUNK; i++)
        data[i] = (char)(i * 2654435761u >> 13);
    for (size_t i = 0; i < PIECES; i++)
        pieces[i] = (struct iovec){data + 1 + i * PIECE,
                                   i + 1 < PIECES ? PIECE : CHUNK - (PIECES - 1) * PIECE};
    static const struct {
        const char *name;
        void (*run)(const char *folder, size_t chunks, unsigned round);
    } ways[] = {{"sha256 alone", hash_alone}, {"write + fsync", plain_write}, {"blob", blob_write}};
    for (unsigned round = 0; round < rounds; round++) {
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
            double start = now(CLOCK_MONOTONIC), cpu = now(CLOCK_PROCESS_CPUTIME_ID);
            ways[i].run(argv[1], chunks, round);
            double gb = (double)chunks * CHUNK / 1e9;
            printf("%-14s %6.2f GB/s %6.2f cpu s/GB\n", ways[i].name,
                   gb / (now(CLOCK_MONOTONIC) - start), (now(CLOCK_PROCESS_CPUTIME_ID) - cpu) / gb);
        }
    }
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("peak memory %ld KiB\n", usage.ru_maxrss);
    prn_blobs_close(blobs);
    prn_state_close(state);
    free(data);
    return 0;
}
