/* The tensor parsers, NumPy's and ONNX's, on the same bytes; then every element is read. */
#include "model/tensor/parts.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(struct prn_tensor *t)
{
    int64_t elements;
    if (prn_dims_elements(t->dims, t->rank, &elements) < 0)
        abort();
    double sum = 0;
    if (t->dtype == PRN_DTYPE_STRING) {
        /* Offsets must lead from the first character to the end of the block, never back. */
        const uint64_t *offsets = t->data;
        for (int64_t i = 0; i < elements; i++)
            if (offsets[i] > offsets[i + 1])
                abort();
        if ((uint64_t)(elements + 1) * sizeof *offsets + offsets[elements] != t->bytes)
            abort();
    }
    for (int64_t i = 0; t->dtype != PRN_DTYPE_STRING && i < elements; i++)
        sum += prn_tensor_get(t->data, t->dtype, (size_t)i);
    volatile double used = sum;
    (void)used;
    prn_tensor_release(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct prn_tensor t;
    struct prony_error err;
    char *name = NULL;
    /* The last byte also says which type a reader expects of opaque elements. */
    int expected = size ? data[size - 1] % 32 : 0;
    if (prn_tensor_parse_npy_as(data, size, "fuzz.npy", expected, &t, &err) == 0)
        use(&t);
    if (prn_tensor_parse_pb(data, size, "fuzz.pb", &t, &name, &err) == 0) {
        use(&t);
        free(name);
    }
    return 0;
}
