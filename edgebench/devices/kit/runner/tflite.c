/* LiteRT through the TensorFlow Lite C API (tensorflow/lite/core/c/c_api.h, c_api_experimental.h, c_api_opaque.h).
 *
 * Its objects are opaque pointers, so a function's name and arguments are all that is needed. An interpreter that is
 * made through this API does not choose XNNPACK by itself, as the one in Python does, so it is given it with the same
 * options: the defaults and the threads. `delegation` asks what became of that.
 */
#include <dlfcn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "delegation.h"
#include "failure.h"
#include "session.h"

#define LIBRARY "libLiteRt.so"
#ifndef LITERT_VERSION /* the version of the package; the library only knows TensorFlow's */
#define LITERT_VERSION "unknown"
#endif

/* TfLiteXNNPackDelegateOptions of tensorflow/lite/delegates/xnnpack/xnnpack_delegate.h begins with the threads and
 * grows with every version; the library fills in all of it, for which the rest is room. */
struct xnnpack_options {
    int32_t threads;
    char rest[1020];
};

static struct {
    struct xnnpack_options (*xnnpack_defaults)(void);
    void *(*xnnpack_create)(const struct xnnpack_options *options);
    void (*options_add_delegate)(void *options, void *delegate);
    void *(*model_create)(const char *path, void (*report)(void *, const char *, va_list), void *user_data);
    void *(*options_create)(void);
    void (*options_set_threads)(void *options, int32_t threads);
    void (*options_set_reporter)(void *options, void (*report)(void *, const char *, va_list), void *user_data);
    void *(*create)(const void *model, const void *options);
    int32_t (*input_count)(const void *interpreter);
    int32_t (*output_count)(const void *interpreter);
    void *(*input)(const void *interpreter, int32_t place);
    const void *(*output)(const void *interpreter, int32_t place);
    int (*resize)(void *interpreter, int32_t place, const int *shape, int32_t rank);
    int (*allocate_tensors)(void *interpreter);
    int (*reset_variables)(void *interpreter);
    int (*invoke)(void *interpreter);
    int32_t (*signature_count)(const void *interpreter);
    const char *(*signature_key)(const void *interpreter, int32_t place);
    void *(*signature_runner)(const void *interpreter, const char *key);
    void (*signature_delete)(void *runner);
    size_t (*signature_input_count)(const void *runner);
    size_t (*signature_output_count)(const void *runner);
    const char *(*signature_input_name)(const void *runner, int32_t place);
    const char *(*signature_output_name)(const void *runner, int32_t place);
    void *(*signature_input)(void *runner, const char *name);
    const void *(*signature_output)(const void *runner, const char *name);
    const char *(*name)(const void *tensor);
    int (*type)(const void *tensor);
    int32_t (*rank)(const void *tensor);
    int32_t (*dimension)(const void *tensor, int32_t axis);
    int (*signature_rank)(const void *tensor, int32_t *rank);
    int (*signature_dimension)(const void *tensor, int32_t axis, int32_t *size);
    void *(*data)(const void *tensor);
    size_t (*byte_size)(const void *tensor);
    int (*copy_in)(void *tensor, const void *data, size_t size);
} api;

/* enum TfLiteType of tensorflow/lite/core/c/c_api_types.h, by number. */
static const enum dtype TYPES[] = {
    NO_DTYPE, FLOAT32, INT32, UINT8, INT64, NO_DTYPE, BOOL, INT16, NO_DTYPE, INT8, FLOAT16, FLOAT64, NO_DTYPE, UINT64,
    NO_DTYPE, NO_DTYPE, UINT32, UINT16,
};

struct model {
    void *library, *interpreter;
    int *input_places, *output_places; /* of each named tensor among the interpreter's own */
};

/* What the runtime said last, which is the reason of a failure. */
static char reason[400];

static void report(void *user_data, const char *format, va_list arguments) {
    (void)user_data;
    vsnprintf(reason, sizeof reason, format, arguments);
}

static void check(int failed, const char *doing) {
    if (failed) {
        fail("litert: %s failed: %s", doing, reason[0] ? reason : "no message");
    }
}

static void load_library(struct model *model) {
    model->library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!model->library) {
        fail("litert can't be loaded here: %s", dlerror());
    }
    const struct {
        void *function;
        const char *name;
    } functions[] = {
        {&api.xnnpack_defaults, "TfLiteXNNPackDelegateOptionsDefault"},
        {&api.xnnpack_create, "TfLiteXNNPackDelegateCreate"},
        {&api.options_add_delegate, "TfLiteInterpreterOptionsAddDelegate"},
        {&api.model_create, "TfLiteModelCreateFromFileWithErrorReporter"},
        {&api.options_create, "TfLiteInterpreterOptionsCreate"},
        {&api.options_set_threads, "TfLiteInterpreterOptionsSetNumThreads"},
        {&api.options_set_reporter, "TfLiteInterpreterOptionsSetErrorReporter"},
        {&api.create, "TfLiteInterpreterCreate"},
        {&api.input_count, "TfLiteInterpreterGetInputTensorCount"},
        {&api.output_count, "TfLiteInterpreterGetOutputTensorCount"},
        {&api.input, "TfLiteInterpreterGetInputTensor"},
        {&api.output, "TfLiteInterpreterGetOutputTensor"},
        {&api.resize, "TfLiteInterpreterResizeInputTensor"},
        {&api.allocate_tensors, "TfLiteInterpreterAllocateTensors"},
        {&api.reset_variables, "TfLiteInterpreterResetVariableTensors"},
        {&api.invoke, "TfLiteInterpreterInvoke"},
        {&api.signature_count, "TfLiteInterpreterGetSignatureCount"},
        {&api.signature_key, "TfLiteInterpreterGetSignatureKey"},
        {&api.signature_runner, "TfLiteInterpreterGetSignatureRunner"},
        {&api.signature_delete, "TfLiteSignatureRunnerDelete"},
        {&api.signature_input_count, "TfLiteSignatureRunnerGetInputCount"},
        {&api.signature_output_count, "TfLiteSignatureRunnerGetOutputCount"},
        {&api.signature_input_name, "TfLiteSignatureRunnerGetInputName"},
        {&api.signature_output_name, "TfLiteSignatureRunnerGetOutputName"},
        {&api.signature_input, "TfLiteSignatureRunnerGetInputTensor"},
        {&api.signature_output, "TfLiteSignatureRunnerGetOutputTensor"},
        {&api.name, "TfLiteTensorName"},
        {&api.type, "TfLiteTensorType"},
        {&api.rank, "TfLiteTensorNumDims"},
        {&api.dimension, "TfLiteTensorDim"},
        {&api.signature_rank, "TfLiteOpaqueTensorGetNumDimsSignature"},
        {&api.signature_dimension, "TfLiteOpaqueTensorGetDimSignature"},
        {&api.data, "TfLiteTensorData"},
        {&api.byte_size, "TfLiteTensorByteSize"},
        {&api.copy_in, "TfLiteTensorCopyFromBuffer"},
    };
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *address = library_symbol(model->library, LIBRARY, functions[i].name);
        memcpy(functions[i].function, &address, sizeof address);
    }
}

/* Type and shape of a tensor; an input's open dimensions stand in its shape signature, which old files have not. */
static struct array describe(const void *tensor, const char *what, const char *name, int is_input) {
    struct array array = {0};
    int type = api.type(tensor);
    array.type = type >= 0 && type < (int)(sizeof TYPES / sizeof *TYPES) ? TYPES[type] : NO_DTYPE;
    if (array.type == NO_DTYPE) {
        fail("%s '%s' of the file is of TFLite type %d; only tensors of numbers can be used", what, name, type);
    }
    int32_t rank = 0;
    int has_signature = is_input && api.signature_rank(tensor, &rank) == 0 && rank > 0;
    array.rank = has_signature ? rank : api.rank(tensor);
    if (array.rank < 0 || array.rank > MAX_RANK) {
        fail("%s '%s' has %d dimensions; this runner takes up to %d", what, name, array.rank, MAX_RANK);
    }
    for (int i = 0; i < array.rank; i++) {
        int32_t size = -1;
        if (has_signature) {
            check(api.signature_dimension(tensor, i, &size), "reading a shape");
        } else {
            size = api.dimension(tensor, i);
        }
        array.shape[i] = size < 0 ? -1 : size;
    }
    return array;
}

/* The place of a signature's tensor among the interpreter's own. */
static int place_of(const struct model *model, const void *tensor, int is_input) {
    int count = is_input ? api.input_count(model->interpreter) : api.output_count(model->interpreter);
    for (int i = 0; i < count; i++) {
        if (tensor && tensor == (is_input ? api.input(model->interpreter, i) : api.output(model->interpreter, i))) {
            return i;
        }
    }
    fail("the file's signature is not of its first subgraph, which is the one that runs");
}

/* Names are those of the file's only signature; without one, the tensors' own. */
static void read_names(struct session *session, struct model *model) {
    void *runner = NULL;
    if (api.signature_count(model->interpreter) == 1) {
        runner = api.signature_runner(model->interpreter, api.signature_key(model->interpreter, 0));
    }
    session->input_count = runner ? (int)api.signature_input_count(runner) : api.input_count(model->interpreter);
    session->output_count = runner ? (int)api.signature_output_count(runner) : api.output_count(model->interpreter);
    session->input_names = allocate((unsigned)session->input_count, sizeof(char *));
    session->output_names = allocate((unsigned)session->output_count, sizeof(char *));
    model->input_places = allocate((unsigned)session->input_count, sizeof(int));
    model->output_places = allocate((unsigned)session->output_count, sizeof(int));
    for (int i = 0; i < session->input_count; i++) {
        const char *name = runner ? api.signature_input_name(runner, i) : api.name(api.input(model->interpreter, i));
        session->input_names[i] = strdup(name ? name : "");
        model->input_places[i] = runner ? place_of(model, api.signature_input(runner, name), 1) : i;
    }
    for (int i = 0; i < session->output_count; i++) {
        const char *name = runner ? api.signature_output_name(runner, i) : api.name(api.output(model->interpreter, i));
        session->output_names[i] = strdup(name ? name : "");
        model->output_places[i] = runner ? place_of(model, api.signature_output(runner, name), 0) : i;
    }
    if (runner) { /* it would keep the interpreter from being made ready */
        api.signature_delete(runner);
    }
}

static void prepare(struct session *session, const struct array *feed) {
    struct model *model = session->runtime;
    int64_t started = now_ns();
    for (int i = 0; i < session->input_count; i++) {
        struct array *input = &session->inputs[i];
        int is_open = 0, shape[MAX_RANK] = {0};
        for (int axis = 0; axis < input->rank; axis++) {
            is_open |= input->shape[axis] < 0;
            if (feed[i].shape[axis] > INT32_MAX) {
                fail("input '%s' is larger than TFLite can say", session->input_names[i]);
            }
            shape[axis] = (int)feed[i].shape[axis];
        }
        if (is_open) {
            check(api.resize(model->interpreter, model->input_places[i], shape, input->rank), "resizing an input");
        }
        memcpy(input->shape, feed[i].shape, sizeof input->shape);
    }
    check(api.allocate_tensors(model->interpreter), "allocating the tensors");
    session->load_ns += now_ns() - started;
}

static void set_inputs(struct session *session, void *const *data) {
    struct model *model = session->runtime;
    api.reset_variables(model->interpreter); /* a stateful model must not see the sample before */
    for (int i = 0; i < session->input_count; i++) {
        void *tensor = api.input(model->interpreter, model->input_places[i]);
        check(api.copy_in(tensor, data[i], (size_t)array_bytes(&session->inputs[i], 0)), "setting an input");
    }
}

static void invoke(struct session *session) {
    check(api.invoke(((struct model *)session->runtime)->interpreter), "running the model");
}

static struct array output(struct session *session, int place) {
    struct model *model = session->runtime;
    const void *tensor = api.output(model->interpreter, model->output_places[place]);
    struct array array = describe(tensor, "output", session->output_names[place], 0);
    array.data = api.data(tensor);
    if (api.byte_size(tensor) < array_bytes(&array, 0) || (!array.data && array_bytes(&array, 0))) {
        fail("output '%s' has no data", session->output_names[place]);
    }
    return array;
}

static const char *delegation(struct session *session, double *fraction) {
    struct model *model = session->runtime;
    return tflite_delegation(model->library, model->interpreter, fraction);
}

void tflite_open(struct session *session, const char *path, int threads) {
    struct model *model = allocate(1, sizeof *model);
    load_library(model);
    session->runtime_version = LITERT_VERSION;
    int64_t started = now_ns();
    const void *file = api.model_create(path, report, NULL);
    check(!file, "loading the model");
    void *options = api.options_create();
    api.options_set_threads(options, threads);
    api.options_set_reporter(options, report, NULL);
    struct xnnpack_options xnnpack = api.xnnpack_defaults();
    xnnpack.threads = threads;
    api.options_add_delegate(options, api.xnnpack_create(&xnnpack));
    model->interpreter = api.create(file, options);
    check(!model->interpreter, "making an interpreter");
    read_names(session, model);
    session->load_ns = now_ns() - started;
    session->inputs = allocate((unsigned)session->input_count, sizeof(struct array));
    for (int i = 0; i < session->input_count; i++) {
        const void *tensor = api.input(model->interpreter, model->input_places[i]);
        session->inputs[i] = describe(tensor, "input", session->input_names[i], 1);
    }
    session->runtime = model;
    session->prepare = prepare;
    session->set_inputs = set_inputs;
    session->invoke = invoke;
    session->output = output;
    session->delegation = delegation;
}
