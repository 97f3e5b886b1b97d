/* One-line errors: the result file says what went wrong, and the exit status is 1. */
#include "failure.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "json.h"

static const char *result_file;

void fail_into(const char *result_path) { result_file = result_path; }

/* Runs of white space become one space, as Python's " ".join(text.split()) makes them. */
static void to_one_line(char *text) {
    char *out = text;
    for (const char *in = text; *in; in++) {
        int is_space = *in == ' ' || (*in >= '\t' && *in <= '\r');
        if (!is_space) {
            *out++ = *in;
        } else if (out > text && out[-1] != ' ') {
            *out++ = ' ';
        }
    }
    if (out > text && out[-1] == ' ') {
        out--;
    }
    *out = 0;
}

void fail(const char *format, ...) {
    char message[1000];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    to_one_line(message);
    fprintf(stderr, "edgebench-runner: %s\n", message);
    if (result_file) {
        FILE *file = json_begin(result_file);
        if (file) {
            fputs("{\"error\": ", file);
            json_write_string(file, message);
            fputs("}", file);
            json_commit(file, result_file);
        }
    }
    exit(1);
}

void *allocate(unsigned long long count, unsigned long long size) {
    unsigned long long bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX / 2) {
        fail("MemoryError: the job asks for more memory than there can be");
    }
    void *memory = calloc(1, bytes ? (size_t)bytes : 1);
    if (!memory) {
        fail("MemoryError: %llu bytes were not to be had", bytes);
    }
    return memory;
}
