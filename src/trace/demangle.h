/*
 * Readable names for mangled ones, from a program such as c++filt: one child process for all names.
 */
#ifndef PRN_TRACE_DEMANGLE_H
#define PRN_TRACE_DEMANGLE_H

#include "base/arena.h"
#include "base/error.h"

/*
 * `command` is the name of a program, looked up in PATH; there is no shell and there are no
 * arguments. It reads one name per line and writes one line for each, as c++filt does. It isn't
 * started when no name holds "_Z", with which every mangled C++ name begins.
 *
 * On success ret_names[i] is the demangled text, in `arena`, or names[i] itself: where it is
 * unchanged, where the name has a line break in it, and where the line is empty or isn't printable
 * UTF-8.
 *
 * Fails, with `ret_names` untouched, when the program is missing (PRONY_ENOENT), fails or is killed
 * (PRONY_EIO), takes longer than `timeout_ms` (PRONY_ETIMEDOUT; it and what it started are killed),
 * writes another number of lines (PRONY_EFORMAT) or too much (PRONY_ELIMIT). No process and no
 * descriptor is left behind in any case.
 */
PRONY_MUST_CHECK int prn_demangle(const char *command, const char *const *names, size_t n,
                                  int timeout_ms, struct prn_arena *arena, const char **ret_names,
                                  struct prony_error *err);

#endif
