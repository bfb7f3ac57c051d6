/*
 * OpenVINO's C API as prony declares it for itself: the library is loaded at run time, so no header
 * of it is needed to build. Functions are found by name. Only those are used that exist since
 * 2024.0; tests hold the declarations against the headers of the release that set-up fetches.
 */
#ifndef PRN_RUNTIME_OPENVINO_API_H
#define PRN_RUNTIME_OPENVINO_API_H

#include "runtime/library.h"

typedef struct ov_core ov_core_t;
typedef struct ov_model ov_model_t;
typedef struct ov_compiled_model ov_compiled_model_t;
typedef struct ov_infer_request ov_infer_request_t;
typedef struct ov_tensor ov_tensor_t;
typedef struct ov_output_const_port ov_output_const_port_t;

typedef struct ov_version {
    const char *buildNumber;
    const char *description;
} ov_version_t;

/* Made by hand where it is passed in: the library's own maker refuses scalars. */
typedef struct {
    int64_t rank;
    int64_t *dims;
} ov_shape_t;

enum { OV_INVALID_C_PARAM = -14 }; /* a status */

typedef struct {
    int status;        /* 0: not run, 1: optimised out, 2: executed */
    int64_t real_time; /* µs */
    int64_t cpu_time;
    const char *node_name;
    const char *exec_type;
    const char *node_type;
} ov_profiling_info_t;

typedef struct {
    ov_profiling_info_t *profiling_infos;
    size_t size;
} ov_profiling_info_list_t;

/* Enums there. */
#define OV_STATUS int
#define OV_ELEMENT unsigned

/* name, result, parameters */
#define OV_FUNCTIONS(X)                                                                           \
    X(ov_get_openvino_version, OV_STATUS, (ov_version_t *))                                       \
    X(ov_version_free, void, (ov_version_t *))                                                    \
    X(ov_get_last_err_msg, const char *, (void))                                                  \
    X(ov_get_error_info, const char *, (OV_STATUS))                                               \
    X(ov_free, void, (const char *))                                                              \
    X(ov_core_create, OV_STATUS, (ov_core_t **))                                                  \
    X(ov_core_free, void, (ov_core_t *))                                                          \
    X(ov_core_set_property, OV_STATUS, (const ov_core_t *, const char *, ...))                    \
    X(ov_core_get_property, OV_STATUS, (const ov_core_t *, const char *, const char *, char **))  \
    X(ov_core_read_model, OV_STATUS,                                                              \
      (const ov_core_t *, const char *, const char *, ov_model_t **))                             \
    X(ov_core_read_model_from_memory_buffer, OV_STATUS,                                           \
      (const ov_core_t *, const char *, const size_t, const ov_tensor_t *, ov_model_t **))        \
    X(ov_core_compile_model, OV_STATUS,                                                           \
      (const ov_core_t *, const ov_model_t *, const char *, const size_t, ov_compiled_model_t **, \
       ...))                                                                                      \
    X(ov_model_free, void, (ov_model_t *))                                                        \
    X(ov_model_outputs_size, OV_STATUS, (const ov_model_t *, size_t *))                           \
    X(ov_model_const_output_by_index, OV_STATUS,                                                  \
      (const ov_model_t *, const size_t, ov_output_const_port_t **))                              \
    X(ov_port_get_any_name, OV_STATUS, (const ov_output_const_port_t *, char **))                 \
    X(ov_output_const_port_free, void, (ov_output_const_port_t *))                                \
    X(ov_compiled_model_get_property, OV_STATUS,                                                  \
      (const ov_compiled_model_t *, const char *, char **))                                       \
    X(ov_compiled_model_inputs_size, OV_STATUS, (const ov_compiled_model_t *, size_t *))          \
    X(ov_compiled_model_input_by_index, OV_STATUS,                                                \
      (const ov_compiled_model_t *, const size_t, ov_output_const_port_t **))                     \
    X(ov_compiled_model_input_by_name, OV_STATUS,                                                 \
      (const ov_compiled_model_t *, const char *, ov_output_const_port_t **))                     \
    X(ov_compiled_model_create_infer_request, OV_STATUS,                                          \
      (const ov_compiled_model_t *, ov_infer_request_t **))                                       \
    X(ov_compiled_model_free, void, (ov_compiled_model_t *))                                      \
    X(ov_infer_request_set_input_tensor_by_index, OV_STATUS,                                      \
      (ov_infer_request_t *, const size_t, const ov_tensor_t *))                                  \
    X(ov_infer_request_get_output_tensor_by_index, OV_STATUS,                                     \
      (const ov_infer_request_t *, const size_t, ov_tensor_t **))                                 \
    X(ov_infer_request_infer, OV_STATUS, (ov_infer_request_t *))                                  \
    X(ov_infer_request_get_profiling_info, OV_STATUS,                                             \
      (const ov_infer_request_t *, ov_profiling_info_list_t *))                                   \
    X(ov_profiling_info_list_free, void, (ov_profiling_info_list_t *))                            \
    X(ov_infer_request_free, void, (ov_infer_request_t *))                                        \
    X(ov_shape_free, OV_STATUS, (ov_shape_t *))                                                   \
    X(ov_tensor_create, OV_STATUS, (const OV_ELEMENT, const ov_shape_t, ov_tensor_t **))          \
    X(ov_tensor_create_from_host_ptr, OV_STATUS,                                                  \
      (const OV_ELEMENT, const ov_shape_t, void *, ov_tensor_t **))                               \
    X(ov_tensor_create_from_string_array, OV_STATUS,                                              \
      (const char **, const size_t, const ov_shape_t, ov_tensor_t **))                            \
    X(ov_tensor_get_shape, OV_STATUS, (const ov_tensor_t *, ov_shape_t *))                        \
    X(ov_tensor_get_element_type, OV_STATUS, (const ov_tensor_t *, OV_ELEMENT *))                 \
    X(ov_tensor_get_size, OV_STATUS, (const ov_tensor_t *, size_t *))                             \
    X(ov_tensor_get_byte_size, OV_STATUS, (const ov_tensor_t *, size_t *))                        \
    X(ov_tensor_data, OV_STATUS, (const ov_tensor_t *, void **))                                  \
    X(ov_tensor_free, void, (ov_tensor_t *))

struct ov_api {
#define OV_X(name, result, parameters) result(*name) parameters;
    OV_FUNCTIONS(OV_X)
#undef OV_X
};

struct ov_library {
    struct ov_api api;
    struct prn_library loaded;
    char version[32]; /* "2026.4.1" */
};

extern const struct prn_library_search ov_search;

/* Loads libopenvino_c.so, as runtime/library.h finds it, and checks that prony knows it. */
PRONY_MUST_CHECK int ov_library_load(struct ov_library *library,
                                     const struct prn_runtime_config *config,
                                     struct prony_error *err);

/* Element types: OpenVINO's number, ONNX's name, bits. The numbers have moved between releases, so
 * ov_library_load() checks them by the sizes of tensors. */
#define OV_ELEMENT_MAP(X)  \
    X(1, BOOL, 8)          \
    X(2, BFLOAT16, 16)     \
    X(3, FLOAT16, 16)      \
    X(4, FLOAT, 32)        \
    X(5, DOUBLE, 64)       \
    X(6, INT4, 4)          \
    X(7, INT8, 8)          \
    X(8, INT16, 16)        \
    X(9, INT32, 32)        \
    X(10, INT64, 64)       \
    X(12, UINT2, 2)        \
    X(14, UINT4, 4)        \
    X(16, UINT8, 8)        \
    X(17, UINT16, 16)      \
    X(18, UINT32, 32)      \
    X(19, UINT64, 64)      \
    X(21, FLOAT8E4M3FN, 8) \
    X(22, FLOAT8E5M2, 8)   \
    X(23, STRING, 0)       \
    X(24, FLOAT4E2M1, 4)   \
    X(25, FLOAT8E8M0, 8)

/* -1 and PRN_DTYPE_UNDEFINED for what the other side doesn't have. */
int ov_element_of(int dtype);
int ov_element_dtype(int element);

#endif
