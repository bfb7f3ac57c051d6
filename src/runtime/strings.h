/* Tensors of strings, for runtimes that want each as a C string. */
#ifndef PRN_RUNTIME_STRINGS_H
#define PRN_RUNTIME_STRINGS_H

#include "runtime/runtime.h"

/* Takes a tensor of strings (offsets and characters, model/tensor/tensor.h) apart; the tensor isn't
 * trusted. `ret_texts` is one block of memory for free(). */
PRONY_MUST_CHECK int prn_runtime_strings(const struct prn_runtime_tensor *tensor,
                                         const char ***ret_texts, size_t *ret_n,
                                         struct prony_error *err);

#endif
