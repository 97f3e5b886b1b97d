/* Checks the job's arrays against the loaded file, in the words of runner.py, and cuts them into batches. */
#include "feed.h"

#include <stdlib.h>
#include <string.h>

#include "failure.h"

static int by_text(const void *left, const void *right) { return strcmp(*(char *const *)left, *(char *const *)right); }

const char *name_list(char *const *names, size_t count, char text[TEXT]) {
    char **sorted = allocate(count, sizeof *sorted);
    memcpy(sorted, names, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, by_text);
    size_t used = (size_t)snprintf(text, TEXT, "[");
    for (size_t i = 0; i < count && used < TEXT; i++) {
        used += (size_t)snprintf(text + used, TEXT - used, "%s'%s'", i ? ", " : "", sorted[i]);
    }
    if (used < TEXT) {
        snprintf(text + used, TEXT - used, "]");
    }
    free(sorted);
    return text;
}

int same_names(char *const *names, size_t count, const struct json *object) {
    for (size_t i = 0; i < count; i++) {
        if (!json_member(object, names[i])) {
            return 0;
        }
    }
    for (size_t k = 0; k < object->count; k++) {
        int is_found = 0;
        for (size_t i = 0; i < count; i++) {
            is_found |= strcmp(object->names[k], names[i]) == 0;
        }
        if (!is_found) {
            return 0;
        }
    }
    return 1;
}

struct array *open_arrays(const struct json *inputs, int64_t batch, int64_t *samples) {
    struct array *arrays = allocate(inputs->count, sizeof *arrays);
    *samples = -1;
    int64_t least = INT64_MAX;
    for (size_t i = 0; i < inputs->count; i++) {
        arrays[i] = npy_open(inputs->items[i].string);
        int64_t here = arrays[i].rank ? arrays[i].shape[0] : 0;
        if (*samples >= 0 && here != *samples) {
            fail("every input needs the same number of samples on its first axis");
        }
        *samples = here;
        least = here < least ? here : least;
    }
    if (*samples < 0) {
        fail("every input needs the same number of samples on its first axis");
    }
    if (least == 0 || batch < 1) {
        fail("there is nothing to run: no samples, or a batch below 1");
    }
    return arrays;
}

struct feed match_feed(struct session *session, const struct json *inputs, const struct array *arrays, int64_t batch,
                       int64_t samples) {
    char here[TEXT], there[TEXT];
    size_t count = (size_t)session->input_count;
    if (!same_names(session->input_names, count, inputs)) {
        fail("the file's inputs are %s, the job feeds %s", name_list(session->input_names, count, here),
             name_list(inputs->names, inputs->count, there));
    }
    struct feed feed = {.count = session->input_count, .samples = samples, .batch = batch};
    feed.arrays = allocate(count, sizeof *feed.arrays);
    feed.buffers = allocate(count, sizeof *feed.buffers);
    feed.sample_bytes = allocate(count, sizeof *feed.sample_bytes);
    struct array *shapes = allocate(count, sizeof *shapes);
    for (size_t i = 0; i < count; i++) {
        const struct array *wanted = &session->inputs[i];
        feed.arrays[i] = arrays[json_member(inputs, session->input_names[i]) - inputs->items];
        shapes[i] = feed.arrays[i];
        shapes[i].shape[0] = batch;
        int fits = wanted->rank == shapes[i].rank;
        for (int axis = 0; fits && axis < wanted->rank; axis++) {
            fits = wanted->shape[axis] < 0 || wanted->shape[axis] == shapes[i].shape[axis];
        }
        if (!fits) {
            fail("input '%s' of the file is %s, a batch of the job is %s", session->input_names[i],
                 shape_text(wanted, here, sizeof here), shape_text(&shapes[i], there, sizeof there));
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (feed.arrays[i].type != session->inputs[i].type) {
            fail("input '%s' of the file is %s, the job feeds %s", session->input_names[i],
                 dtype_name(session->inputs[i].type), dtype_name(feed.arrays[i].type));
        }
        feed.sample_bytes[i] = array_bytes(&feed.arrays[i], 1);
        feed.buffers[i] = allocate((uint64_t)batch, feed.sample_bytes[i]);
    }
    session->prepare(session, shapes);
    free(shapes);
    return feed;
}

void set_batch(struct session *session, const struct feed *feed, int64_t start) {
    for (int i = 0; i < feed->count; i++) {
        for (int64_t k = 0; k < feed->batch; k++) {
            int64_t place = start + k < feed->samples ? start + k : feed->samples - 1;
            memcpy((char *)feed->buffers[i] + (uint64_t)k * feed->sample_bytes[i],
                   (const char *)feed->arrays[i].data + (uint64_t)place * feed->sample_bytes[i], feed->sample_bytes[i]);
        }
    }
    session->set_inputs(session, feed->buffers);
}
