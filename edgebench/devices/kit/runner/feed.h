/* The samples of a job: read, matched with the session's inputs, and given to it batch by batch. */
#pragma once

#include "array.h"
#include "json.h"
#include "session.h"

#define TEXT 1024 /* bytes of a part of an error */

/* The files of the job in the order of the session's inputs, and one batch of each. */
struct feed {
    int count;
    int64_t samples, batch;
    struct array *arrays;
    void **buffers;
    uint64_t *sample_bytes;
};

/* The files that `inputs` names, in its order, and how many samples each holds; `fail` where they differ or are
 * none. */
struct array *open_arrays(const struct json *inputs, int64_t batch, int64_t *samples);

/* The feed in the session's order, and the session made ready for it. Refuses names, shapes and types that are not the
 * file's; runtimes would broadcast, crash or run something else. */
struct feed match_feed(struct session *session, const struct json *inputs, const struct array *arrays, int64_t batch,
                       int64_t samples);

/* Give the session the samples from `start` on, the last one repeated where there are fewer than a batch. */
void set_batch(struct session *session, const struct feed *feed, int64_t start);

/* Whether `names` and the members of `object` are the same set. */
int same_names(char *const *names, size_t count, const struct json *object);

/* "['a', 'b']", sorted, as Python writes a list of names. */
const char *name_list(char *const *names, size_t count, char text[TEXT]);
