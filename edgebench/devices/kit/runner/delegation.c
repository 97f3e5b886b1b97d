/* Counts what delegates took over, through a delegate of ours that takes nothing and only looks at the graph.
 *
 * The C API shows the graph to delegates alone. The graph keeps its operators and gains a DELEGATE node for each part
 * that was taken over: the part is every operator between that node's inputs and outputs. runner.py counts alike.
 */
#include "delegation.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "failure.h"

#define BUILTIN_DELEGATE 51 /* kTfLiteBuiltinDelegate of tensorflow/lite/builtin_ops.h */

/* TfLiteOpaqueDelegateBuilder of tensorflow/lite/core/c/common.h; only `prepare` is used. */
struct delegate_builder {
    void *data;
    int (*prepare)(void *context, void *delegate, void *data);
    void *copy_from, *copy_to, *free_handle;
    int64_t flags;
};

struct node {
    bool is_delegate, is_taken;
    int input_count, output_count;
    const int *inputs, *outputs;
};

struct view {
    int (*node_at)(void *context, int place, void **node, void **operator);
    size_t (*node_count)(const void *context);
    int (*inputs)(const void *node, const int **inputs, int *count);
    int (*outputs)(const void *node, const int **outputs, int *count);
    int (*code)(const void *operator);
    int taken, operators;
    bool is_done;
};

static bool holds(const int *tensors, int count, int tensor) {
    for (int i = 0; i < count; i++) {
        if (tensors[i] == tensor) {
            return true;
        }
    }
    return false;
}

/* Mark the operator that makes `tensor`, and those that make what it needs, up to the inputs of `delegate`. */
static void take(struct node *nodes, int count, const struct node *delegate, const int *tensors, int tensor_count) {
    for (int t = 0; t < tensor_count; t++) {
        for (int i = 0; i < count; i++) {
            struct node *node = &nodes[i];
            if (!node->is_delegate && !node->is_taken && !holds(delegate->inputs, delegate->input_count, tensors[t]) &&
                holds(node->outputs, node->output_count, tensors[t])) {
                node->is_taken = true;
                take(nodes, count, delegate, node->inputs, node->input_count);
            }
        }
    }
}

static int look(void *context, void *delegate, void *data) {
    (void)delegate;
    struct view *view = data;
    int count = (int)view->node_count(context);
    struct node *nodes = allocate((unsigned)count, sizeof *nodes);
    view->taken = view->operators = 0;
    for (int i = 0; i < count; i++) {
        void *node = NULL, *operator = NULL;
        if (view->node_at(context, i, &node, &operator) != 0 ||
            view->inputs(node, &nodes[i].inputs, &nodes[i].input_count) != 0 ||
            view->outputs(node, &nodes[i].outputs, &nodes[i].output_count) != 0) {
            return 0;
        }
        nodes[i].is_delegate = view->code(operator) == BUILTIN_DELEGATE;
        view->operators += !nodes[i].is_delegate;
    }
    for (int i = 0; i < count; i++) {
        if (nodes[i].is_delegate) {
            take(nodes, count, &nodes[i], nodes[i].outputs, nodes[i].output_count);
        }
    }
    for (int i = 0; i < count; i++) {
        view->taken += nodes[i].is_taken;
    }
    free(nodes);
    view->is_done = true;
    return 0;
}

const char *tflite_delegation(void *library, void *interpreter, double *fraction) {
    struct view view = {0};
    void *(*create)(const struct delegate_builder *) = dlsym(library, "TfLiteOpaqueDelegateCreate");
    int (*modify)(void *, void *) = dlsym(library, "TfLiteInterpreterModifyGraphWithDelegate");
    view.node_at = dlsym(library, "TfLiteOpaqueContextGetNodeAndRegistration");
    view.node_count = dlsym(library, "TfLiteOpaqueContextGetNumNodes");
    view.inputs = dlsym(library, "TfLiteOpaqueNodeInputs");
    view.outputs = dlsym(library, "TfLiteOpaqueNodeOutputs");
    view.code = dlsym(library, "TfLiteOperatorGetBuiltInCode");
    *fraction = -1;
    if (!create || !modify || !view.node_at || !view.node_count || !view.inputs || !view.outputs || !view.code) {
        return "unknown";
    }
    struct delegate_builder builder = {.data = &view, .prepare = look};
    modify(interpreter, create(&builder));
    if (!view.is_done) {
        return "unknown";
    }
    *fraction = view.operators ? (double)view.taken / view.operators : 0.0;
    return view.taken ? "xnnpack" : "cpu";
}
