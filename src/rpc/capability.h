/*
 * How a service and a worker of neighbouring versions work together. A worker says in its hello
 * what it can be asked for beyond what every worker since 0.1 can; the service asks for nothing
 * that isn't in that list, and ignores what it doesn't know of it. A new thing to ask for is a name
 * here, a row in what a worker says (worker/hello.c), and a check where it is asked for.
 */
#ifndef PRN_RPC_CAPABILITY_H
#define PRN_RPC_CAPABILITY_H

#include <prony.pb-c.h>
#include <stdbool.h>

#define PRN_CAPABILITY_LIMITS "limits"     /* of a session hold for measurements */
#define PRN_CAPABILITY_MODELS "models"     /* measures several side by side */
#define PRN_CAPABILITY_PIPELINE "pipeline" /* is a stage of one */

bool prn_hello_can(const Prony__Hello *hello, const char *capability);

/* Whether they are of the same major version, and their minor ones differ by one at most. NULL or
 * what isn't a version is near nothing. */
bool prn_version_is_near(const char *a, const char *b);

#endif
