/* onnxruntime through its C API, opened at run time so that one binary serves many versions.
 *
 * OrtApi is a table of functions whose order never changes once a version has shipped: new ones are added at the end
 * (onnxruntime/core/session/onnxruntime_c_api.cc, "The ordering of these fields MUST not change"). So a place in the
 * table, with the arguments of include/onnxruntime/core/session/onnxruntime_c_api.h, is all that is needed. The places
 * below were counted there; that file itself asserts ReleaseCustomOpDomain at 101 (the end of version 1) and
 * SetGlobalSpinControl at 149 (the end of version 5), the frame that all of these lie in.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "failure.h"
#include "session.h"

#define LIBRARY "libonnxruntime.so.1"
#define API_VERSION 16

struct api_base {
    const void *(*get_api)(uint32_t version);
    const char *(*get_version)(void);
};

enum place {
    GET_ERROR_MESSAGE = 2, CREATE_ENV = 3, CREATE_SESSION = 7, RUN = 9, CREATE_SESSION_OPTIONS = 10,
    SET_LOG_SEVERITY = 22, SET_INTRA_OP_THREADS = 24, SET_INTER_OP_THREADS = 25, GET_INPUT_COUNT = 30,
    GET_OUTPUT_COUNT = 31, GET_INPUT_TYPE = 33, GET_INPUT_NAME = 36, GET_OUTPUT_NAME = 37, CREATE_TENSOR_WITH_DATA = 49,
    IS_TENSOR = 50, GET_TENSOR_DATA = 51, CAST_TO_TENSOR_INFO = 55, GET_ELEMENT_TYPE = 60, GET_RANK = 61,
    GET_DIMENSIONS = 62,
    GET_TENSOR_INFO = 65, CREATE_CPU_MEMORY_INFO = 69, GET_DEFAULT_ALLOCATOR = 78, RELEASE_VALUE = 96,
    RELEASE_TENSOR_INFO = 99, ADD_CONFIG_ENTRY = 130,
};

/* Objects of the library are opaque; NULL as a status is success. */
typedef void *status;
typedef void (*function)(void);
#define CALL(place, ...) ((status(*)(__VA_ARGS__))api[place])

/* enum ONNXTensorElementDataType of the same header, by number. */
static const enum dtype ELEMENTS[] = {
    NO_DTYPE, FLOAT32, UINT8, INT8, UINT16, INT16, INT32, INT64, NO_DTYPE, BOOL, FLOAT16, FLOAT64, UINT32, UINT64,
};
static const char *const ELEMENT_NAMES[] = {
    "undefined", "float", "uint8", "int8", "uint16", "int16", "int32", "int64", "string", "bool", "float16", "double",
    "uint32", "uint64", "complex64", "complex128", "bfloat16",
};

static const function *api;

struct model {
    void *session;
    void **values, **results; /* OrtValue of each input and output */
};

static void check(status failed, const char *doing) {
    if (failed) {
        fail("onnxruntime: %s: %s", doing, ((const char *(*)(const void *))api[GET_ERROR_MESSAGE])(failed));
    }
}

static int element_of(enum dtype type) {
    int place = 0;
    while (ELEMENTS[place] != type) {
        place++;
    }
    return place;
}

static struct array describe(const void *info, const char *what, const char *name) {
    int element = 0;
    size_t rank = 0;
    struct array array = {0};
    check(CALL(GET_ELEMENT_TYPE, const void *, int *)(info, &element), "reading a type");
    if (element >= 0 && element < (int)(sizeof ELEMENTS / sizeof *ELEMENTS)) {
        array.type = ELEMENTS[element];
    }
    if (array.type == NO_DTYPE) {
        int is_known = element >= 0 && element < (int)(sizeof ELEMENT_NAMES / sizeof *ELEMENT_NAMES);
        fail("%s '%s' is a tensor(%s); only tensors of numbers can be fed", what, name,
             is_known ? ELEMENT_NAMES[element] : "?");
    }
    check(CALL(GET_RANK, const void *, size_t *)(info, &rank), "reading a rank");
    if (rank > MAX_RANK) {
        fail("%s '%s' has %zu dimensions; this runner takes up to %d", what, name, rank, MAX_RANK);
    }
    array.rank = (int)rank;
    check(CALL(GET_DIMENSIONS, const void *, int64_t *, size_t)(info, array.shape, rank), "reading a shape");
    for (int i = 0; i < array.rank; i++) {
        array.shape[i] = array.shape[i] < 0 ? -1 : array.shape[i];
    }
    return array;
}

static void prepare(struct session *session, const struct array *feed) {
    struct model *model = session->runtime;
    void *memory = NULL;
    const int arena = 1, default_memory = 0; /* OrtArenaAllocator, OrtMemTypeDefault */
    check(CALL(CREATE_CPU_MEMORY_INFO, int, int, void **)(arena, default_memory, &memory), "describing memory");
    for (int i = 0; i < session->input_count; i++) {
        struct array *input = &session->inputs[i];
        memcpy(input->shape, feed[i].shape, sizeof input->shape);
        size_t bytes = (size_t)array_bytes(input, 0);
        void *buffer = NULL;
        if (posix_memalign(&buffer, 64, bytes ? bytes : 1) != 0) {
            fail("MemoryError: %zu bytes were not to be had", bytes);
        }
        input->data = buffer;
        check(CALL(CREATE_TENSOR_WITH_DATA, const void *, void *, size_t, const int64_t *, size_t, int, void **)(
                  memory, buffer, bytes, input->shape, (size_t)input->rank, element_of(input->type), &model->values[i]),
              "making an input");
    }
}

static void set_inputs(struct session *session, void *const *data) {
    for (int i = 0; i < session->input_count; i++) {
        memcpy((void *)session->inputs[i].data, data[i], (size_t)array_bytes(&session->inputs[i], 0));
    }
}

/* The outputs of the run before are given back here, within the time of a run, as an application pays for them too. */
static void invoke(struct session *session) {
    struct model *model = session->runtime;
    for (int i = 0; i < session->output_count; i++) {
        if (model->results[i]) {
            ((void (*)(void *))api[RELEASE_VALUE])(model->results[i]);
            model->results[i] = NULL;
        }
    }
    check(CALL(RUN, void *, const void *, char **, void **, size_t, char **, size_t, void **)(
              model->session, NULL, session->input_names, model->values, (size_t)session->input_count,
              session->output_names, (size_t)session->output_count, model->results),
          "running the model");
}

static struct array output(struct session *session, int place) {
    struct model *model = session->runtime;
    void *info = NULL, *data = NULL;
    int is_tensor = 0;
    check(CALL(IS_TENSOR, const void *, int *)(model->results[place], &is_tensor), "reading an output");
    if (!is_tensor) {
        fail("output '%s' is no tensor", session->output_names[place]);
    }
    check(CALL(GET_TENSOR_INFO, const void *, void **)(model->results[place], &info), "reading an output");
    struct array array = describe(info, "output", session->output_names[place]);
    ((void (*)(void *))api[RELEASE_TENSOR_INFO])(info);
    check(CALL(GET_TENSOR_DATA, void *, void **)(model->results[place], &data), "reading an output");
    array.data = data;
    return array;
}

static const char *delegation(struct session *session, double *fraction) {
    (void)session;
    *fraction = 0.0;
    return "cpu";
}

void onnx_open(struct session *session, const char *path, int threads, int spinning) {
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fail("onnxruntime can't be loaded here: %s", dlerror());
    }
    const struct api_base *(*get_base)(void) = library_symbol(library, LIBRARY, "OrtGetApiBase");
    const struct api_base *base = get_base();
    api = base->get_api(API_VERSION);
    session->runtime_version = base->get_version();
    if (!api) {
        fail("onnxruntime %s has no C API of version %d", session->runtime_version, API_VERSION);
    }
    struct model *model = allocate(1, sizeof *model);
    void *environment = NULL, *options = NULL, *allocator = NULL;
    const int only_errors = 3;
    check(CALL(CREATE_ENV, int, const char *, void **)(only_errors, "edgebench", &environment), "starting");
    check(CALL(CREATE_SESSION_OPTIONS, void **)(&options), "making options");
    check(CALL(SET_INTRA_OP_THREADS, void *, int)(options, threads), "setting the threads");
    check(CALL(SET_INTER_OP_THREADS, void *, int)(options, 1), "setting the threads");
    check(CALL(SET_LOG_SEVERITY, void *, int)(options, only_errors), "setting the log");
    check(CALL(ADD_CONFIG_ENTRY, void *, const char *, const char *)(options, "session.intra_op.allow_spinning",
                                                                      spinning ? "1" : "0"),
          "setting the spinning");
    int64_t started = now_ns();
    check(CALL(CREATE_SESSION, const void *, const char *, const void *, void **)(environment, path, options,
                                                                                  &model->session),
          "loading the model");
    session->load_ns = now_ns() - started;

    size_t inputs = 0, outputs = 0;
    check(CALL(GET_INPUT_COUNT, const void *, size_t *)(model->session, &inputs), "counting inputs");
    check(CALL(GET_OUTPUT_COUNT, const void *, size_t *)(model->session, &outputs), "counting outputs");
    check(CALL(GET_DEFAULT_ALLOCATOR, void **)(&allocator), "finding memory");
    session->input_count = (int)inputs;
    session->output_count = (int)outputs;
    session->input_names = allocate(inputs, sizeof(char *));
    session->output_names = allocate(outputs, sizeof(char *));
    session->inputs = allocate(inputs, sizeof(struct array));
    model->values = allocate(inputs, sizeof(void *));
    model->results = allocate(outputs, sizeof(void *));
    for (size_t i = 0; i < inputs; i++) {
        void *type = NULL;
        const void *info = NULL;
        check(CALL(GET_INPUT_NAME, const void *, size_t, void *, char **)(model->session, i, allocator,
                                                                           &session->input_names[i]),
              "reading a name");
        check(CALL(GET_INPUT_TYPE, const void *, size_t, void **)(model->session, i, &type), "reading a type");
        check(CALL(CAST_TO_TENSOR_INFO, const void *, const void **)(type, &info), "reading a type");
        if (!info) {
            fail("input '%s' is no tensor; only tensors of numbers can be fed", session->input_names[i]);
        }
        session->inputs[i] = describe(info, "input", session->input_names[i]);
    }
    for (size_t i = 0; i < outputs; i++) {
        check(CALL(GET_OUTPUT_NAME, const void *, size_t, void *, char **)(model->session, i, allocator,
                                                                            &session->output_names[i]),
              "reading a name");
    }
    session->runtime = model;
    session->prepare = prepare;
    session->set_inputs = set_inputs;
    session->invoke = invoke;
    session->output = output;
    session->delegation = delegation;
}
