/* The two loops of a latency job. Nothing but the clock stands between a run and its times. */
#include "measure.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "failure.h"

/* Warm-up is over when the medians of the last windows agree. A window spans several ticks of a frequency governor
 * (about 10 ms each), so that a microsecond model is not called steady before the clock has risen. */
#define STEADY_WINDOWS 3
#define STEADY_RATIO 1.05
#define WINDOW_NS 20000000

int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int by_size(const void *left, const void *right) {
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

static int64_t median(const int64_t *values, size_t count) {
    int64_t *sorted = allocate(count, sizeof *sorted);
    memcpy(sorted, values, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, by_size);
    int64_t middle = sorted[count / 2];
    free(sorted);
    return middle;
}

static bool agree(const int64_t medians[STEADY_WINDOWS]) {
    int64_t least = medians[0], most = medians[0];
    for (int i = 1; i < STEADY_WINDOWS; i++) {
        least = medians[i] < least ? medians[i] : least;
        most = medians[i] > most ? medians[i] : most;
    }
    return (double)most <= STEADY_RATIO * (double)least;
}

struct times warm_up(struct session *session, int64_t min_runs, int64_t max_ns, int64_t max_runs, bool *is_steady) {
    size_t room = 4096, window_start = 0, windows = 0;
    struct times times = {.ns = allocate(room, sizeof *times.ns)};
    int64_t medians[STEADY_WINDOWS];
    int64_t begin = now_ns(), window_begin = begin;
    *is_steady = false;
    while ((int64_t)times.count < min_runs || (now_ns() - begin < max_ns && (int64_t)times.count < max_runs)) {
        if (times.count == room) {
            room *= 2;
            times.ns = realloc(times.ns, room * sizeof *times.ns);
            if (!times.ns) {
                fail("MemoryError: the warm-up has more runs than there is memory for");
            }
        }
        int64_t before = now_ns();
        session->invoke(session);
        int64_t after = now_ns();
        times.ns[times.count++] = after - before;
        int64_t in_window = (int64_t)(times.count - window_start);
        if (in_window >= (min_runs > 1 ? min_runs : 1) && after - window_begin >= WINDOW_NS) {
            memmove(medians, medians + 1, sizeof medians - sizeof *medians);
            medians[STEADY_WINDOWS - 1] = median(times.ns + window_start, times.count - window_start);
            if (++windows >= STEADY_WINDOWS && agree(medians)) {
                *is_steady = true;
                break;
            }
            window_start = times.count;
            window_begin = now_ns();
        }
    }
    return times;
}

struct times time_runs(struct session *session, int64_t min_runs, int64_t min_ns, int64_t max_runs, int64_t max_ns) {
    struct times times = {.ns = allocate((uint64_t)max_runs, sizeof *times.ns)};
    /* Every page is there before the first run: a page fault would be counted into nothing but stand between runs. */
    memset(times.ns, 1, (size_t)max_runs * sizeof *times.ns);
    size_t count = 0;
    int64_t begin = now_ns();
    for (;;) {
        int64_t before = now_ns();
        session->invoke(session);
        int64_t after = now_ns();
        times.ns[count++] = after - before;
        int64_t elapsed = after - begin;
        if ((int64_t)count >= max_runs || elapsed >= max_ns || ((int64_t)count >= min_runs && elapsed >= min_ns)) {
            break;
        }
    }
    times.count = count;
    return times;
}
