/* Latency: warm-up until steady, then the runs that count. The rules are those of runner.py. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "session.h"

struct times {
    int64_t *ns;
    size_t count;
};

/* The times of the runs until the last windows' medians agree within 5 %; `is_steady` says whether they ever did. */
struct times warm_up(struct session *session, int64_t min_runs, int64_t max_ns, int64_t max_runs, bool *is_steady);

/* The times of the runs until both minimums are met or one maximum is reached. */
struct times time_runs(struct session *session, int64_t min_runs, int64_t min_ns, int64_t max_runs, int64_t max_ns);
