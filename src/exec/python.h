/*
 * An executor whose runtime is Python's becomes a Python process: PRONY_PYTHON names the
 * interpreter, which has torch. Its package prony is the one that this program belongs to (in the
 * same build folder, or in the same wheel), or else the one that is installed there.
 */
#ifndef PRN_EXEC_PYTHON_H
#define PRN_EXEC_PYTHON_H

/* Doesn't return, unless there is no interpreter or it can't be started. Descriptors stay. */
void prn_python_become(void);

#endif
