/* What the runner needs of a runtime: a loaded model that can be fed, run and read. One file per runtime makes one. */
#pragma once

#include <stdint.h>

#include "array.h"

struct session {
    const char *runtime_version;
    int64_t load_ns;
    int input_count, output_count;
    char **input_names, **output_names;
    struct array *inputs; /* type and shape; the shape is the batch's once `prepare` was called */
    void *runtime;        /* the runtime's own */

    /* Fix open dimensions to the shapes of the feed, and make everything ready to run. `load_ns` is complete then. */
    void (*prepare)(struct session *session, const struct array *feed);
    /* Take the arrays of the next run, in the order of `inputs`; they stay where they are until the run is over. */
    void (*set_inputs)(struct session *session, void *const *data);
    /* One run and nothing else. */
    void (*invoke)(struct session *session);
    /* Output `place` of the latest run; its data are good until the next one. */
    struct array (*output)(struct session *session, int place);
    /* What really ran: the delegate's name, and the share of operators that it took, -1 where the runtime can't say.
     * Asked once, when nothing is left to measure: it may change the session. */
    const char *(*delegation)(struct session *session, double *fraction);
};

/* Load a model for the CPU, or `fail`. */
void tflite_open(struct session *session, const char *model, int threads);
void onnx_open(struct session *session, const char *model, int threads, int spinning);

/* The address of `name` in a library that was opened, or `fail`. */
void *library_symbol(void *library, const char *library_name, const char *name);

/* Nanoseconds of a clock that never goes back. */
int64_t now_ns(void);
