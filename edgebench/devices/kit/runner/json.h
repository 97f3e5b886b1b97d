/* A small JSON reader (RFC 8259) for job files, and the writer of results. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum json_kind { JSON_NULL, JSON_BOOL, JSON_INTEGER, JSON_REAL, JSON_STRING, JSON_ARRAY, JSON_OBJECT };

/* `count` items of an array, or members of an object whose names are `names`; all live until the process ends. */
struct json {
    enum json_kind kind;
    bool truth;
    int64_t integer;
    char *string; /* UTF-8 without NUL */
    size_t count;
    struct json *items;
    char **names;
};

/* The file's one value, or `fail`: at most 16 MiB, 32 levels deep, numbers within 64 bits. */
struct json json_read(const char *path);

/* The member `name` of an object, or NULL; of two with one name the last counts, as in Python. */
const struct json *json_member(const struct json *object, const char *name);

/* A member that must be there and of that kind; `fail` names it otherwise. */
const char *json_text(const struct json *object, const char *name);
int64_t json_integer(const struct json *object, const char *name, int64_t least, int64_t most);
bool json_truth(const struct json *object, const char *name);
/* An object whose members are all strings: names to paths. */
const struct json *json_paths(const struct json *object, const char *name);

/* A stream to `path`.unfinished, or NULL; `json_commit` closes it and moves it to `path`, and says whether it could. */
FILE *json_begin(const char *path);
bool json_commit(FILE *file, const char *path);
/* A string in quotes; bytes that are not UTF-8 become U+FFFD. */
void json_write_string(FILE *file, const char *text);
void json_write_integers(FILE *file, const int64_t *values, size_t count);
