/*
 * ONNX Runtime's C API as prony declares it for itself: the library is loaded at run time, so no
 * header of it is needed to build. The table of functions only ever grows; a function is known by
 * its position in it. Those of ORT_FUNCTIONS exist since 1.17; the later ones are NULL in a library
 * that is older than they are.
 */
#ifndef PRN_RUNTIME_ONNXRT_API_H
#define PRN_RUNTIME_ONNXRT_API_H

#include "runtime/library.h"

#include <stdbool.h>

#define ORT_OLDEST_MINOR 17

typedef struct OrtStatus OrtStatus;
typedef struct OrtEnv OrtEnv;
typedef struct OrtSession OrtSession;
typedef struct OrtSessionOptions OrtSessionOptions;
typedef struct OrtRunOptions OrtRunOptions;
typedef struct OrtIoBinding OrtIoBinding;
typedef struct OrtMemoryInfo OrtMemoryInfo;
typedef struct OrtAllocator OrtAllocator;
typedef struct OrtValue OrtValue;
typedef struct OrtTensorTypeAndShapeInfo OrtTensorTypeAndShapeInfo;
typedef struct OrtCUDAProviderOptionsV2 OrtCUDAProviderOptionsV2;
typedef struct OrtTensorRTProviderOptionsV2 OrtTensorRTProviderOptionsV2;
typedef struct OrtROCMProviderOptions OrtROCMProviderOptions;
typedef struct OrtCANNProviderOptions OrtCANNProviderOptions;
typedef struct OrtDnnlProviderOptions OrtDnnlProviderOptions;
typedef struct OrtKeyValuePairs OrtKeyValuePairs;
typedef struct OrtEpDevice OrtEpDevice;
typedef struct OrtHardwareDevice OrtHardwareDevice;
typedef struct OrtEpAssignedSubgraph OrtEpAssignedSubgraph;
typedef struct OrtEpAssignedNode OrtEpAssignedNode;

enum { ORT_LOGGING_ERROR = 3 };
enum { ORT_EXECUTION_PARALLEL = 1 };
enum { ORT_TYPE_TENSOR = 1 };
enum { ORT_ARENA_ALLOCATOR = 1 };
enum { ORT_MEMORY_DEFAULT = 0 };
enum { ORT_DEVICE_CPU, ORT_DEVICE_GPU, ORT_DEVICE_NPU, ORT_DEVICE_KINDS };

/* position, name, result, parameters */
#define ORT_FUNCTIONS(X)                                                                           \
    X(2, GetErrorMessage, const char *, (const OrtStatus *))                                       \
    X(3, CreateEnv, OrtStatus *, (int, const char *, OrtEnv **))                                   \
    X(7, CreateSession, OrtStatus *,                                                               \
      (const OrtEnv *, const char *, const OrtSessionOptions *, OrtSession **))                    \
    X(9, Run, OrtStatus *,                                                                         \
      (OrtSession *, const OrtRunOptions *, const char *const *, const OrtValue *const *, size_t,  \
       const char *const *, size_t, OrtValue **))                                                  \
    X(10, CreateSessionOptions, OrtStatus *, (OrtSessionOptions **))                               \
    X(11, SetOptimizedModelFilePath, OrtStatus *, (OrtSessionOptions *, const char *))             \
    X(13, SetSessionExecutionMode, OrtStatus *, (OrtSessionOptions *, int))                        \
    X(14, EnableProfiling, OrtStatus *, (OrtSessionOptions *, const char *))                       \
    X(16, EnableMemPattern, OrtStatus *, (OrtSessionOptions *))                                    \
    X(17, DisableMemPattern, OrtStatus *, (OrtSessionOptions *))                                   \
    X(18, EnableCpuMemArena, OrtStatus *, (OrtSessionOptions *))                                   \
    X(19, DisableCpuMemArena, OrtStatus *, (OrtSessionOptions *))                                  \
    X(23, SetSessionGraphOptimizationLevel, OrtStatus *, (OrtSessionOptions *, int))               \
    X(24, SetIntraOpNumThreads, OrtStatus *, (OrtSessionOptions *, int))                           \
    X(25, SetInterOpNumThreads, OrtStatus *, (OrtSessionOptions *, int))                           \
    X(31, SessionGetOutputCount, OrtStatus *, (const OrtSession *, size_t *))                      \
    X(37, SessionGetOutputName, OrtStatus *,                                                       \
      (const OrtSession *, size_t, OrtAllocator *, char **))                                       \
    X(48, CreateTensorAsOrtValue, OrtStatus *,                                                     \
      (OrtAllocator *, const int64_t *, size_t, int, OrtValue **))                                 \
    X(49, CreateTensorWithDataAsOrtValue, OrtStatus *,                                             \
      (const OrtMemoryInfo *, void *, size_t, const int64_t *, size_t, int, OrtValue **))          \
    X(51, GetTensorMutableData, OrtStatus *, (OrtValue *, void **))                                \
    X(52, FillStringTensor, OrtStatus *, (OrtValue *, const char *const *, size_t))                \
    X(53, GetStringTensorDataLength, OrtStatus *, (const OrtValue *, size_t *))                    \
    X(54, GetStringTensorContent, OrtStatus *,                                                     \
      (const OrtValue *, void *, size_t, size_t *, size_t))                                        \
    X(60, GetTensorElementType, OrtStatus *, (const OrtTensorTypeAndShapeInfo *, int *))           \
    X(61, GetDimensionsCount, OrtStatus *, (const OrtTensorTypeAndShapeInfo *, size_t *))          \
    X(62, GetDimensions, OrtStatus *, (const OrtTensorTypeAndShapeInfo *, int64_t *, size_t))      \
    X(65, GetTensorTypeAndShape, OrtStatus *, (const OrtValue *, OrtTensorTypeAndShapeInfo **))    \
    X(67, GetValueType, OrtStatus *, (const OrtValue *, int *))                                    \
    X(69, CreateCpuMemoryInfo, OrtStatus *, (int, int, OrtMemoryInfo **))                          \
    X(76, AllocatorFree, OrtStatus *, (OrtAllocator *, void *))                                    \
    X(78, GetAllocatorWithDefaultOptions, OrtStatus *, (OrtAllocator **))                          \
    X(92, ReleaseEnv, void, (OrtEnv *))                                                            \
    X(93, ReleaseStatus, void, (OrtStatus *))                                                      \
    X(94, ReleaseMemoryInfo, void, (OrtMemoryInfo *))                                              \
    X(95, ReleaseSession, void, (OrtSession *))                                                    \
    X(96, ReleaseValue, void, (OrtValue *))                                                        \
    X(99, ReleaseTensorTypeAndShapeInfo, void, (OrtTensorTypeAndShapeInfo *))                      \
    X(100, ReleaseSessionOptions, void, (OrtSessionOptions *))                                     \
    X(110, SessionEndProfiling, OrtStatus *, (OrtSession *, OrtAllocator *, char **))              \
    X(125, GetAvailableProviders, OrtStatus *, (char ***, int *))                                  \
    X(126, ReleaseAvailableProviders, OrtStatus *, (char **, int))                                 \
    X(130, AddSessionConfigEntry, OrtStatus *, (OrtSessionOptions *, const char *, const char *))  \
    X(133, RunWithBinding, OrtStatus *,                                                            \
      (OrtSession *, const OrtRunOptions *, const OrtIoBinding *))                                 \
    X(134, CreateIoBinding, OrtStatus *, (OrtSession *, OrtIoBinding **))                          \
    X(135, ReleaseIoBinding, void, (OrtIoBinding *))                                               \
    X(136, BindInput, OrtStatus *, (OrtIoBinding *, const char *, const OrtValue *))               \
    X(138, BindOutputToDevice, OrtStatus *, (OrtIoBinding *, const char *, const OrtMemoryInfo *)) \
    X(140, GetBoundOutputValues, OrtStatus *,                                                      \
      (const OrtIoBinding *, OrtAllocator *, OrtValue ***, size_t *))                              \
    X(153, SessionOptionsAppendExecutionProvider_ROCM, OrtStatus *,                                \
      (OrtSessionOptions *, const OrtROCMProviderOptions *))                                       \
    X(170, SessionOptionsAppendExecutionProvider_TensorRT_V2, OrtStatus *,                         \
      (OrtSessionOptions *, const OrtTensorRTProviderOptionsV2 *))                                 \
    X(171, CreateTensorRTProviderOptions, OrtStatus *, (OrtTensorRTProviderOptionsV2 **))          \
    X(172, UpdateTensorRTProviderOptions, OrtStatus *,                                             \
      (OrtTensorRTProviderOptionsV2 *, const char *const *, const char *const *, size_t))          \
    X(174, ReleaseTensorRTProviderOptions, void, (OrtTensorRTProviderOptionsV2 *))                 \
    X(204, SessionOptionsAppendExecutionProvider_CUDA_V2, OrtStatus *,                             \
      (OrtSessionOptions *, const OrtCUDAProviderOptionsV2 *))                                     \
    X(205, CreateCUDAProviderOptions, OrtStatus *, (OrtCUDAProviderOptionsV2 **))                  \
    X(206, UpdateCUDAProviderOptions, OrtStatus *,                                                 \
      (OrtCUDAProviderOptionsV2 *, const char *const *, const char *const *, size_t))              \
    X(208, ReleaseCUDAProviderOptions, void, (OrtCUDAProviderOptionsV2 *))                         \
    X(216, SessionOptionsAppendExecutionProvider, OrtStatus *,                                     \
      (OrtSessionOptions *, const char *, const char *const *, const char *const *, size_t))       \
    X(220, SessionOptionsAppendExecutionProvider_CANN, OrtStatus *,                                \
      (OrtSessionOptions *, const OrtCANNProviderOptions *))                                       \
    X(221, CreateCANNProviderOptions, OrtStatus *, (OrtCANNProviderOptions **))                    \
    X(222, UpdateCANNProviderOptions, OrtStatus *,                                                 \
      (OrtCANNProviderOptions *, const char *const *, const char *const *, size_t))                \
    X(224, ReleaseCANNProviderOptions, void, (OrtCANNProviderOptions *))                           \
    X(228, RegisterCustomOpsLibrary_V2, OrtStatus *, (OrtSessionOptions *, const char *))          \
    X(239, SessionOptionsAppendExecutionProvider_Dnnl, OrtStatus *,                                \
      (OrtSessionOptions *, const OrtDnnlProviderOptions *))                                       \
    X(240, CreateDnnlProviderOptions, OrtStatus *, (OrtDnnlProviderOptions **))                    \
    X(241, UpdateDnnlProviderOptions, OrtStatus *,                                                 \
      (OrtDnnlProviderOptions *, const char *const *, const char *const *, size_t))                \
    X(243, ReleaseDnnlProviderOptions, void, (OrtDnnlProviderOptions *))                           \
    X(255, CreateROCMProviderOptions, OrtStatus *, (OrtROCMProviderOptions **))                    \
    X(256, UpdateROCMProviderOptions, OrtStatus *,                                                 \
      (OrtROCMProviderOptions *, const char *const *, const char *const *, size_t))                \
    X(258, ReleaseROCMProviderOptions, void, (OrtROCMProviderOptions *))

/* minor version that has it first, position, name, result, parameters */
#define ORT_LATER_FUNCTIONS(X)                                                                     \
    X(22, 297, GetKeyValue, const char *, (const OrtKeyValuePairs *, const char *))                \
    X(22, 301, RegisterExecutionProviderLibrary, OrtStatus *,                                      \
      (OrtEnv *, const char *, const char *))                                                      \
    X(22, 303, GetEpDevices, OrtStatus *, (const OrtEnv *, const OrtEpDevice *const **, size_t *)) \
    X(22, 304, SessionOptionsAppendExecutionProvider_V2, OrtStatus *,                              \
      (OrtSessionOptions *, OrtEnv *, const OrtEpDevice *const *, size_t, const char *const *,     \
       const char *const *, size_t))                                                               \
    X(22, 307, HardwareDevice_Type, int, (const OrtHardwareDevice *))                              \
    X(22, 309, HardwareDevice_Vendor, const char *, (const OrtHardwareDevice *))                   \
    X(22, 312, EpDevice_EpName, const char *, (const OrtEpDevice *))                               \
    X(22, 314, EpDevice_EpMetadata, const OrtKeyValuePairs *, (const OrtEpDevice *))               \
    X(22, 316, EpDevice_Device, const OrtHardwareDevice *, (const OrtEpDevice *))                  \
    X(24, 407, Session_GetEpGraphAssignmentInfo, OrtStatus *,                                      \
      (const OrtSession *, const OrtEpAssignedSubgraph *const **, size_t *))                       \
    X(24, 408, EpAssignedSubgraph_GetEpName, OrtStatus *,                                          \
      (const OrtEpAssignedSubgraph *, const char **))                                              \
    X(24, 409, EpAssignedSubgraph_GetNodes, OrtStatus *,                                           \
      (const OrtEpAssignedSubgraph *, const OrtEpAssignedNode *const **, size_t *))                \
    X(24, 412, EpAssignedNode_GetOperatorType, OrtStatus *,                                        \
      (const OrtEpAssignedNode *, const char **))

struct ort_api {
#define ORT_X(position, name, result, parameters) result(*name) parameters;
    ORT_FUNCTIONS(ORT_X)
#undef ORT_X
#define ORT_X(since, position, name, result, parameters) result(*name) parameters;
    ORT_LATER_FUNCTIONS(ORT_X)
#undef ORT_X
};

struct ort_library {
    struct ort_api api;
    struct prn_library loaded;
    char version[32]; /* "1.31.1" */
};

extern const struct prn_library_search ort_search;

/* Loads the library, as runtime/library.h finds it, and its table of functions. */
PRONY_MUST_CHECK int ort_library_load(struct ort_library *library,
                                      const struct prn_runtime_config *config,
                                      struct prony_error *err);

#endif
