#include <prony/prony.h>

#define STRING(x) #x
#define VERSION(major, minor, patch) STRING(major) "." STRING(minor) "." STRING(patch)

const char *prony_version(void)
{
    return VERSION(PRONY_VERSION_MAJOR, PRONY_VERSION_MINOR, PRONY_VERSION_PATCH);
}
