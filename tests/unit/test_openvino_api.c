/* Holds prony's declarations of OpenVINO's C API against the headers of the release that set-up
 * fetches; all of it happens while this is compiled. */
#include "unit.h"

#define ov_version our_version
#define ov_version_t our_version_t
#define ov_shape_t our_shape_t
#define ov_profiling_info_t our_profiling_info_t
#define ov_profiling_info_list_t our_profiling_info_list_t
#include "model/dtype.h"
#include "runtime/openvino/api.h"
#undef ov_version
#undef ov_version_t
#undef ov_shape_t
#undef ov_profiling_info_t
#undef ov_profiling_info_list_t
#undef OV_STATUS
#undef OV_ELEMENT

#include <openvino/c/openvino.h>

#define SAME_FIELD(ours, theirs, field)                                            \
    _Static_assert(offsetof(ours, field) == offsetof(theirs, field) &&             \
                       sizeof(((ours *)0)->field) == sizeof(((theirs *)0)->field), \
                   #theirs "." #field)

SAME_FIELD(our_version_t, ov_version_t, buildNumber);
SAME_FIELD(our_shape_t, ov_shape_t, rank);
SAME_FIELD(our_shape_t, ov_shape_t, dims);
SAME_FIELD(our_profiling_info_t, ov_profiling_info_t, status);
SAME_FIELD(our_profiling_info_t, ov_profiling_info_t, real_time);
SAME_FIELD(our_profiling_info_t, ov_profiling_info_t, node_name);
SAME_FIELD(our_profiling_info_t, ov_profiling_info_t, exec_type);
SAME_FIELD(our_profiling_info_t, ov_profiling_info_t, node_type);
SAME_FIELD(our_profiling_info_list_t, ov_profiling_info_list_t, profiling_infos);
SAME_FIELD(our_profiling_info_list_t, ov_profiling_info_list_t, size);
_Static_assert(sizeof(our_profiling_info_t) == sizeof(ov_profiling_info_t), "an array's stride");

#define OV_STATUS ov_status_e
#define OV_ELEMENT ov_element_type_e
#define OV_X(name, result, parameters) \
    _Static_assert(__builtin_types_compatible_p(__typeof__(&name), result(*) parameters), #name);
OV_FUNCTIONS(OV_X)
#undef OV_X

_Static_assert((int)OV_INVALID_C_PARAM == (int)INVALID_C_PARAM, "status");

static void test_element_types_have_their_numbers(void **state)
{
    (void)state;
    static const struct {
        int theirs, dtype;
    } pairs[] = {{BOOLEAN, PRN_DTYPE_BOOL},
                 {BF16, PRN_DTYPE_BFLOAT16},
                 {F16, PRN_DTYPE_FLOAT16},
                 {F32, PRN_DTYPE_FLOAT},
                 {F64, PRN_DTYPE_DOUBLE},
                 {I4, PRN_DTYPE_INT4},
                 {I8, PRN_DTYPE_INT8},
                 {I16, PRN_DTYPE_INT16},
                 {I32, PRN_DTYPE_INT32},
                 {I64, PRN_DTYPE_INT64},
                 {U2, PRN_DTYPE_UINT2},
                 {U4, PRN_DTYPE_UINT4},
                 {U8, PRN_DTYPE_UINT8},
                 {U16, PRN_DTYPE_UINT16},
                 {U32, PRN_DTYPE_UINT32},
                 {U64, PRN_DTYPE_UINT64},
                 {F8E4M3, PRN_DTYPE_FLOAT8E4M3FN},
                 {F8E5M3, PRN_DTYPE_FLOAT8E5M2},
                 {STRING, PRN_DTYPE_STRING},
                 {F4E2M1, PRN_DTYPE_FLOAT4E2M1},
                 {F8E8M0, PRN_DTYPE_FLOAT8E8M0}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        assert_int_equal(ov_element_of(pairs[i].dtype), pairs[i].theirs);
        assert_int_equal(ov_element_dtype(pairs[i].theirs), pairs[i].dtype);
    }
    assert_int_equal(ov_element_of(PRN_DTYPE_COMPLEX64), -1);
    assert_int_equal(ov_element_dtype(DYNAMIC), PRN_DTYPE_UNDEFINED);
    assert_int_equal(ov_element_dtype(NF4), PRN_DTYPE_UNDEFINED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_element_types_have_their_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
