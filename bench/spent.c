/*
 * Runs a command with its output thrown away, and prints what it took:
 *
 *     spent COMMAND [ARGUMENT...]        "SECONDS CPU_SECONDS PEAK_KIB"
 *
 * A process's peak memory counts what it held before exec, too. This program holds next to nothing
 * when it forks; an interpreter that did the same would report its own size for a small command.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double seconds(struct timeval t)
{
    return (double)t.tv_sec + (double)t.tv_usec * 1e-6;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: spent COMMAND [ARGUMENT...]\n");
        return 2;
    }
    double start = now();
    pid_t child = fork();
    if (child == 0) {
        int nowhere = open("/dev/null", O_WRONLY);
        if (nowhere >= 0 && dup2(nowhere, STDOUT_FILENO) >= 0)
            execvp(argv[1], argv + 1);
        perror(argv[1]);
        _exit(127);
    }
    int status;
    struct rusage usage;
    if (child < 0 || wait4(child, &status, 0, &usage) != child) {
        perror("spent");
        return 1;
    }
    double end = now();
    printf("%.6f %.6f %ld\n", end - start, seconds(usage.ru_utime) + seconds(usage.ru_stime),
           usage.ru_maxrss);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
