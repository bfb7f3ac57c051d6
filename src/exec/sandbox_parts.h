/* The parts of the sandbox, for trying them one by one. */
#ifndef PRN_EXEC_SANDBOX_PARTS_H
#define PRN_EXEC_SANDBOX_PARTS_H

#include "exec/sandbox.h"

/* Negative: the kernel has none. */
long prn_landlock_abi(void);
/* 0, or -1 with errno. */
int prn_landlock_enter(const struct prn_sandbox *sandbox, long abi);
/* 0, or a negative errno. `programs`: other programs may be started. */
int prn_seccomp_enter(bool programs);

#endif
