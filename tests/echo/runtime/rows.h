/* prony's own runtimes, and the line that adds another. */
#include "../../../src/runtime/rows.h"
PRN_RUNTIME(prn_echo_cpu)
