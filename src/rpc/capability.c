#include "rpc/capability.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool prn_hello_can(const Prony__Hello *hello, const char *capability)
{
    for (size_t i = 0; i < hello->n_capabilities; i++)
        if (strcmp(hello->capabilities[i], capability) == 0)
            return true;
    return false;
}

static bool parse(const char *text, unsigned *major, unsigned *minor)
{
    char end = 0;
    return text && strlen(text) < 64 && sscanf(text, "%5u.%5u%c", major, minor, &end) == 3 &&
           end == '.';
}

bool prn_version_is_near(const char *a, const char *b)
{
    unsigned major[2];
    unsigned minor[2];
    if (!parse(a, &major[0], &minor[0]) || !parse(b, &major[1], &minor[1]))
        return false;
    return major[0] == major[1] && abs((int)minor[0] - (int)minor[1]) <= 1;
}
