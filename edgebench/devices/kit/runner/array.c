/* Reads and writes .npy files; a header is data from a stranger and is checked before it is used. */
#include "array.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "failure.h"

#define MAX_HEADER 65536
#define SHAPE_TEXT (MAX_RANK * 24)

/* `code` is numpy's, without the byte order: all files here are little-endian, as are the machines. */
static const struct {
    const char *name, *code;
    size_t size;
} TYPES[DTYPES] = {
    [NO_DTYPE] = {"no numbers", "", 0},
    [FLOAT16] = {"float16", "f2", 2}, [FLOAT32] = {"float32", "f4", 4}, [FLOAT64] = {"float64", "f8", 8},
    [INT8] = {"int8", "i1", 1}, [INT16] = {"int16", "i2", 2}, [INT32] = {"int32", "i4", 4},
    [INT64] = {"int64", "i8", 8},
    [UINT8] = {"uint8", "u1", 1}, [UINT16] = {"uint16", "u2", 2}, [UINT32] = {"uint32", "u4", 4},
    [UINT64] = {"uint64", "u8", 8}, [BOOL] = {"bool", "b1", 1},
};

const char *dtype_name(enum dtype type) { return TYPES[type].name; }

size_t dtype_size(enum dtype type) { return TYPES[type].size; }

uint64_t array_bytes(const struct array *array, int from) {
    uint64_t bytes = dtype_size(array->type);
    for (int i = from; i < array->rank; i++) {
        if (array->shape[i] < 0 || __builtin_mul_overflow(bytes, (uint64_t)array->shape[i], &bytes) ||
            bytes > INT64_MAX) {
            fail("an array has a shape that is open or does not fit into memory");
        }
    }
    return bytes;
}

int64_t count_non_finite(enum dtype type, const void *data, uint64_t count) {
    int64_t found = 0;
    for (uint64_t i = 0; i < count; i++) {
        /* IEEE 754: not finite is an exponent of ones. The optimizer may not assume otherwise about bits. */
        if (type == FLOAT16) {
            found += (((const uint16_t *)data)[i] & 0x7C00u) == 0x7C00u;
        } else if (type == FLOAT32) {
            found += (((const uint32_t *)data)[i] & 0x7F800000u) == 0x7F800000u;
        } else if (type == FLOAT64) {
            found += (((const uint64_t *)data)[i] & 0x7FF0000000000000u) == 0x7FF0000000000000u;
        } else {
            break;
        }
    }
    return found;
}

/* Where the value of `key` begins in a header, or NULL. */
static const char *value_of(const char *header, const char *key) {
    const char *at = strstr(header, key);
    if (!at) {
        return NULL;
    }
    at += strlen(key);
    at += strspn(at, " ");
    if (*at++ != ':') {
        return NULL;
    }
    return at + strspn(at, " ");
}

static bool read_type(const char *header, enum dtype *type) {
    const char *at = value_of(header, "'descr'");
    if (!at || at[0] != '\'' || !at[1] || !strchr("<|", at[1])) {
        return false;
    }
    for (int i = 1; i < DTYPES; i++) {
        if (strncmp(at + 2, TYPES[i].code, 2) == 0 && at[4] == '\'') {
            *type = (enum dtype)i;
            return true;
        }
    }
    return false;
}

static bool read_shape(const char *header, struct array *array) {
    const char *at = value_of(header, "'shape'");
    if (!at || *at++ != '(') {
        return false;
    }
    for (;;) {
        at += strspn(at, " ");
        if (*at == ')') {
            return true;
        }
        if (array->rank == MAX_RANK || *at < '0' || *at > '9') {
            return false;
        }
        char *rest;
        errno = 0;
        array->shape[array->rank++] = strtoll(at, &rest, 10);
        at = rest + strspn(rest, " ");
        if (errno == ERANGE || (*at != ',' && *at != ')')) {
            return false;
        }
        at += *at == ',';
    }
}

struct array npy_open(const char *path) {
    int file = open(path, O_RDONLY | O_CLOEXEC);
    struct stat about;
    if (file < 0 || fstat(file, &about) != 0) {
        fail("%s can't be read: %s", path, strerror(errno));
    }
    unsigned char start[12];
    if (!S_ISREG(about.st_mode) || pread(file, start, sizeof start, 0) != sizeof start ||
        memcmp(start, "\x93NUMPY", 6) != 0) {
        fail("%s is not a .npy file", path);
    }
    /* Version 1 has a length of two bytes, later ones of four. */
    uint64_t at = start[6] == 1 ? 10 : 12;
    uint64_t length = (uint64_t)start[8] | (uint64_t)start[9] << 8;
    length |= start[6] == 1 ? 0 : (uint64_t)start[10] << 16 | (uint64_t)start[11] << 24;
    if (start[6] < 1 || start[6] > 3 || length > MAX_HEADER || at + length > (uint64_t)about.st_size) {
        fail("%s is not a .npy file of version 1 to 3 with a whole header", path);
    }
    char *header = allocate(length + 1, 1);
    if (pread(file, header, length, (off_t)at) != (ssize_t)length) {
        fail("%s can't be read: %s", path, strerror(errno));
    }
    struct array array = {0};
    const char *is_fortran = value_of(header, "'fortran_order'");
    if (!read_type(header, &array.type) || !read_shape(header, &array)) {
        fail("%s holds no little-endian numbers of a shape that can be read", path);
    }
    if (!is_fortran || strncmp(is_fortran, "False", 5) != 0) {
        fail("%s is not in C order; save it with numpy.ascontiguousarray", path);
    }
    free(header);
    if (array_bytes(&array, 0) > (uint64_t)about.st_size - at - length) {
        fail("%s is shorter than its header says", path);
    }
    char *mapped = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    if (mapped == MAP_FAILED) {
        fail("%s can't be mapped: %s", path, strerror(errno));
    }
    close(file);
    array.data = mapped + at + length;
    return array;
}

FILE *npy_create(const char *path, const struct array *array) {
    char shape[SHAPE_TEXT], header[SHAPE_TEXT + 128];
    bool is_byte = dtype_size(array->type) == 1;
    int length = snprintf(header, sizeof header, "{'descr': '%c%s', 'fortran_order': False, 'shape': %s, }",
                          is_byte ? '|' : '<', TYPES[array->type].code, shape_tuple(array, 0, shape, sizeof shape));
    /* The values begin at a multiple of 64 bytes; the header ends with a line feed. */
    int padded = (10 + length + 1 + 63) / 64 * 64 - 10;
    FILE *file = fopen(path, "wb");
    if (!file) {
        fail("%s can't be written: %s", path, strerror(errno));
    }
    fwrite("\x93NUMPY\x01\x00", 1, 8, file);
    fputc(padded & 255, file);
    fputc(padded >> 8, file);
    fprintf(file, "%-*s\n", padded - 1, header);
    return file;
}

static const char *join_shape(const struct array *array, int from, const char *between, char *text, size_t size) {
    size_t used = 0;
    text[0] = 0;
    for (int i = from; i < array->rank && used < size; i++) {
        const char *before = i > from ? between : "";
        if (array->shape[i] < 0) {
            used += (size_t)snprintf(text + used, size - used, "%s?", before);
        } else {
            used += (size_t)snprintf(text + used, size - used, "%s%lld", before, (long long)array->shape[i]);
        }
    }
    return text;
}

const char *shape_text(const struct array *array, char *text, size_t size) {
    return array->rank ? join_shape(array, 0, "x", text, size) : "scalar";
}

const char *shape_tuple(const struct array *array, int from, char *text, size_t size) {
    char inside[SHAPE_TEXT];
    join_shape(array, from, ", ", inside, sizeof inside);
    snprintf(text, size, "(%s%s)", inside, array->rank - from == 1 ? "," : "");
    return text;
}
