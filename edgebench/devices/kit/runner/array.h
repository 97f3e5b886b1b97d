/* Element types and shapes, and the .npy files that hold them (numpy.lib.format, versions 1 to 3). */
#pragma once

#include <stdint.h>
#include <stdio.h>

#define MAX_RANK 32

enum dtype {
    NO_DTYPE, FLOAT16, FLOAT32, FLOAT64, INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, BOOL, DTYPES
};

/* numpy's name of a type, like "float32", and its bytes. */
const char *dtype_name(enum dtype type);
size_t dtype_size(enum dtype type);

/* `data` has the values in C order; an open dimension of a model's input is -1. */
struct array {
    enum dtype type;
    int rank;
    int64_t shape[MAX_RANK];
    const void *data;
};

/* The bytes of `count` dimensions from `from` on, or `fail` where they are more than memory can hold. */
uint64_t array_bytes(const struct array *array, int from);

/* The values that are NaN or infinite in `count` values at `data`. */
int64_t count_non_finite(enum dtype type, const void *data, uint64_t count);

/* A .npy file, mapped into memory for good, or `fail`. */
struct array npy_open(const char *path);

/* A new .npy file, open behind its header, for `array`'s type and shape; or `fail`. */
FILE *npy_create(const char *path, const struct array *array);

/* "2x3", "?" for open, "scalar" for none: as the runner in Python writes a shape for the user. */
const char *shape_text(const struct array *array, char *text, size_t size);

/* "(2, 3)": as Python writes a tuple, which is what .npy headers hold. */
const char *shape_tuple(const struct array *array, int from, char *text, size_t size);
