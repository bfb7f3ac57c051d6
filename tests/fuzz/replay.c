/*
 * Replays a stored corpus through a fuzz harness, without libFuzzer: `fuzz_X FILE|DIR …`. Each file
 * is fed as it is, then cut short at many places, then with single bits flipped and bytes replaced.
 * The variants are the same on every run. An input is copied to a heap block of exactly its size,
 * so that AddressSanitizer sees a read beyond it. When an input kills the process or takes too
 * long, its name and variant are printed last.
 */
#include "base/random.h"

#include <dirent.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILES_MAX 10000
#define FILE_BYTES_MAX ((size_t)64 << 20)
#ifndef SECONDS_PER_INPUT
#define SECONDS_PER_INPUT 20
#endif
/* Variants of one file, and of all files together. */
#define CUTS_MAX 64
#define FLIPS_MAX 192
#define VARIANTS_MAX 20000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv) __attribute__((weak));
void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

static char current[4200]; /* the input that is being run */
static char *files[FILES_MAX];
static size_t n_files;
static size_t n_inputs;

static void say(const char *text)
{
    if (write(STDERR_FILENO, text, strlen(text)) < 0)
        return;
}

static void name_input(void)
{
    say("\nreplay: the input was ");
    say(current);
    say("\n");
}

static void on_signal(int number)
{
    if (number == SIGALRM)
        say("\nreplay: took too long");
    name_input();
    signal(number, SIG_DFL);
    raise(number == SIGALRM ? SIGKILL : number);
}

static void die(const char *what, const char *path)
{
    fprintf(stderr, "replay: %s '%s'\n", what, path);
    exit(1);
}

static void collect(const char *path)
{
    struct stat status;
    if (stat(path, &status) < 0)
        die("cannot open", path);
    if (!S_ISDIR(status.st_mode)) {
        if (n_files == FILES_MAX || !(files[n_files++] = strdup(path)))
            die("too many files at", path);
        return;
    }
    struct dirent **entries;
    int n = scandir(path, &entries, NULL, alphasort);
    if (n < 0)
        die("cannot list", path);
    for (int i = 0; i < n; i++) {
        char inner[4096];
        snprintf(inner, sizeof inner, "%s/%s", path, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.')
            collect(inner);
        free(entries[i]);
    }
    free(entries);
}

static void feed(const uint8_t *data, size_t size)
{
    uint8_t *exact = malloc(size ? size : 1);
    if (!exact)
        die("out of memory at", current);
    if (size)
        memcpy(exact, data, size);
    alarm(SECONDS_PER_INPUT);
    LLVMFuzzerTestOneInput(exact, size);
    alarm(0);
    free(exact);
    n_inputs++;
}

static void feed_variants(const char *path, uint8_t *data, size_t size, size_t most)
{
    snprintf(current, sizeof current, "%s", path);
    feed(data, size);
    size_t cuts = size < CUTS_MAX ? size : CUTS_MAX;
    for (size_t i = 0; i < cuts && i < most; i++) {
        size_t length = size * i / cuts;
        snprintf(current, sizeof current, "%s, cut to %zu bytes", path, length);
        feed(data, length);
    }
    struct prn_random random;
    prn_random_seed(&random, size);
    for (size_t i = 0; i < FLIPS_MAX && i + cuts < most && size > 0; i++) {
        static const uint8_t extremes[] = {0x00, 0x7f, 0x80, 0xff};
        size_t at = (size_t)prn_random_below(&random, size);
        uint8_t old = data[at];
        uint64_t how = prn_random_below(&random, 12);
        data[at] = how < 8 ? old ^ (uint8_t)(1u << how) : extremes[how - 8];
        snprintf(current, sizeof current, "%s, byte %zu changed from %02x to %02x", path, at, old,
                 data[at]);
        feed(data, size);
        data[at] = old;
    }
}

static void replay(const char *path, size_t most)
{
    FILE *file = fopen(path, "rb");
    struct stat status;
    if (!file || fstat(fileno(file), &status) < 0)
        die("cannot open", path);
    if ((size_t)status.st_size > FILE_BYTES_MAX)
        die("too large:", path);
    size_t size = (size_t)status.st_size;
    uint8_t *data = malloc(size ? size : 1);
    if (!data || fread(data, 1, size, file) != size)
        die("cannot read", path);
    fclose(file);
    feed_variants(path, data, size, most);
    free(data);
}

int main(int argc, char **argv)
{
    if (__sanitizer_set_death_callback) {
        __sanitizer_set_death_callback(name_input);
    } else {
        static const int fatal[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
        for (size_t i = 0; i < sizeof fatal / sizeof fatal[0]; i++)
            signal(fatal[i], on_signal);
    }
    signal(SIGALRM, on_signal);
    if (LLVMFuzzerInitialize)
        LLVMFuzzerInitialize(&argc, &argv);
    for (int i = 1; i < argc; i++)
        collect(argv[i]);
    if (n_files == 0)
        die("no corpus in", argc > 1 ? argv[1] : "");
    for (size_t i = 0; i < n_files; i++) {
        replay(files[i], VARIANTS_MAX / n_files);
        free(files[i]);
    }
    printf("replayed %zu files, %zu inputs\n", n_files, n_inputs);
    return 0;
}
