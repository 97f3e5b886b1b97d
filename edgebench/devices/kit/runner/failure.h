/* How the runner gives up: one line for the user in the result file, exit status 1. */
#pragma once

/* Where `fail` writes; before this call it only prints. The path is kept, not copied. */
void fail_into(const char *result_path);

/* Write {"error": one line} as the result and end the process. The message is cut at 1000 bytes. */
_Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* `malloc` of zeroed memory for `count` items of `size` bytes, or `fail`. */
void *allocate(unsigned long long count, unsigned long long size);
