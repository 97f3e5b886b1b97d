/* Run one model on this machine and report what happened: `edgebench-runner JOB.json RESULT.json`.
 *
 * Does on a phone, which has no Python, what edgebench/runner/runner.py does elsewhere: the same job, the same result,
 * the same rules; that file says what the fields mean. Only delegate "cpu" and the runtimes "litert" and "onnxruntime"
 * are here, whose libraries are looked for by the dynamic linker (`--library-path`).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "array.h"
#include "failure.h"
#include "feed.h"
#include "json.h"
#include "measure.h"
#include "session.h"
#include "sha256.h"

#define MAX_RUNS 1000000000

void *library_symbol(void *library, const char *library_name, const char *name) {
    void *address = dlsym(library, name);
    if (!address) {
        fail("%s has no %s; the kit must be built with the version that it names", library_name, name);
    }
    return address;
}

/* Before any library starts its threads, which inherit the CPUs of the thread that starts them. */
static void stay_on(const struct json *cpus) {
    if (!cpus || cpus->kind == JSON_NULL) {
        return;
    }
    cpu_set_t set;
    char text[TEXT] = "";
    CPU_ZERO(&set);
    int is_valid = cpus->kind == JSON_ARRAY;
    for (size_t i = 0; i < cpus->count && is_valid; i++) {
        const struct json *cpu = &cpus->items[i];
        is_valid = cpu->kind == JSON_INTEGER && cpu->integer >= 0 && cpu->integer < CPU_SETSIZE;
        if (is_valid) {
            CPU_SET((int)cpu->integer, &set);
            size_t used = strlen(text);
            snprintf(text + used, sizeof text - used, "%s%d", i ? ", " : "", (int)cpu->integer);
        }
    }
    if (!is_valid) {
        fail("the job's 'cpus' must be null or a list of numbers from 0 to %d", CPU_SETSIZE - 1);
    }
    if (sched_setaffinity(0, sizeof set, &set) != 0) {
        fail("this process may not run on CPUs [%s]: %s", text, strerror(errno));
    }
}

static int64_t process_time_ns(void) {
    struct timespec spent;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &spent);
    return (int64_t)spent.tv_sec * 1000000000 + spent.tv_nsec;
}

static struct rusage usage(void) {
    struct rusage usage = {0};
    getrusage(RUSAGE_SELF, &usage);
    return usage;
}

/* VmHWM first: ru_maxrss also counts the memory of the program that this process was before its exec. */
static int64_t peak_rss_bytes(void) {
    char line[256];
    long long kib = usage().ru_maxrss;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "VmHWM: %lld", &kib) == 1) {
            break;
        }
    }
    if (file) {
        fclose(file);
    }
    return (int64_t)kib * 1024;
}

static void write_non_finite(FILE *result, const struct session *session, const int64_t *counts) {
    fputs("\"non_finite\": {", result);
    for (int i = 0; i < session->output_count; i++) {
        fputs(i ? ", " : "", result);
        json_write_string(result, session->output_names[i]);
        fprintf(result, ": %lld", (long long)counts[i]);
    }
    fputs("}", result);
}

/* What `measure_latency` of runner.py reports, as text of an object that is not closed. */
static void measure_latency(FILE *result, struct session *session, const struct json *job, const struct feed *feed) {
    int64_t min_runs = json_integer(job, "min_runs", 0, MAX_RUNS);
    int64_t max_runs = json_integer(job, "max_runs", 1, MAX_RUNS);
    int64_t min_ns = json_integer(job, "min_ns", 0, INT64_MAX), max_ns = json_integer(job, "max_ns", 0, INT64_MAX);
    int64_t warmup_min_runs = json_integer(job, "warmup_min_runs", 0, MAX_RUNS);
    int64_t warmup_max_ns = json_integer(job, "warmup_max_ns", 0, INT64_MAX);
    bool is_steady;
    set_batch(session, feed, 0);
    int64_t started = now_ns();
    session->invoke(session);
    int64_t first_ns = now_ns() - started;
    struct times warmup = warm_up(session, warmup_min_runs, warmup_max_ns, max_runs, &is_steady);
    int64_t switches = usage().ru_nivcsw, cpu_time = process_time_ns();
    struct times latencies = time_runs(session, min_runs, min_ns, max_runs, max_ns);
    cpu_time = process_time_ns() - cpu_time;
    switches = usage().ru_nivcsw - switches;
    int64_t loop_ns = now_ns() - started;
    fprintf(result, "{\"loop_ns\": %lld, \"first_ns\": %lld, \"warmup_ns\": ", (long long)loop_ns, (long long)first_ns);
    json_write_integers(result, warmup.ns, warmup.count);
    fprintf(result, ", \"is_steady\": %s, \"latencies_ns\": ", is_steady ? "true" : "false");
    json_write_integers(result, latencies.ns, latencies.count);
    fprintf(result, ", \"cpu_time_ns\": %lld, \"involuntary_switches\": %lld, ", (long long)cpu_time,
            (long long)switches);
    int64_t *non_finite = allocate((unsigned)session->output_count, sizeof *non_finite);
    session->invoke(session);
    for (int i = 0; i < session->output_count; i++) {
        struct array value = session->output(session, i);
        non_finite[i] = count_non_finite(value.type, value.data, array_bytes(&value, 0) / dtype_size(value.type));
    }
    write_non_finite(result, session, non_finite);
}

/* One run's output with the samples on its first axis; an output without a batch axis is accepted from a batch of 1. */
static struct array batched_output(struct session *session, int place, int64_t batch) {
    struct array value = session->output(session, place);
    if (batch == 1 && (value.rank == 0 || value.shape[0] != 1) && value.rank < MAX_RANK) {
        memmove(value.shape + 1, value.shape, (size_t)value.rank * sizeof *value.shape);
        value.shape[0] = 1;
        value.rank++;
    }
    if (value.rank == 0 || value.shape[0] != batch) {
        char text[TEXT];
        fail("output '%s' has shape %s for a batch of %lld samples", session->output_names[place],
             shape_tuple(&value, 0, text, sizeof text), (long long)batch);
    }
    return value;
}

/* What `save_outputs` of runner.py reports, as text of an object that is not closed. */
static void save_outputs(FILE *result, struct session *session, const struct json *job, const struct feed *feed) {
    const struct json *paths = json_paths(job, "outputs");
    size_t count = (size_t)session->output_count;
    char here[TEXT], there[TEXT];
    if (!same_names(session->output_names, count, paths)) {
        fail("the file's outputs are %s, the job wants %s", name_list(session->output_names, count, here),
             name_list(paths->names, paths->count, there));
    }
    FILE **files = allocate(count, sizeof *files);
    struct array *written = allocate(count, sizeof *written);
    int64_t *non_finite = allocate(count, sizeof *non_finite);
    int64_t begin = now_ns();
    for (int64_t start = 0; start < feed->samples; start += feed->batch) {
        int64_t samples = feed->samples - start < feed->batch ? feed->samples - start : feed->batch;
        set_batch(session, feed, start);
        session->invoke(session);
        for (size_t i = 0; i < count; i++) {
            struct array value = batched_output(session, (int)i, feed->batch);
            if (!files[i]) {
                written[i] = value;
                written[i].shape[0] = feed->samples;
                array_bytes(&written[i], 0);
                files[i] = npy_create(json_member(paths, session->output_names[i])->string, &written[i]);
            }
            size_t tail = (size_t)(value.rank - 1) * sizeof *value.shape;
            if (value.rank != written[i].rank || memcmp(value.shape + 1, written[i].shape + 1, tail) != 0) {
                fail("output '%s' changes its shape: %s, then %s", session->output_names[i],
                     shape_tuple(&written[i], 1, here, sizeof here), shape_tuple(&value, 1, there, sizeof there));
            }
            uint64_t bytes = (uint64_t)samples * array_bytes(&value, 1);
            if (fwrite(value.data, 1, bytes, files[i]) != bytes) {
                fail("%s can't be written: %s", json_member(paths, session->output_names[i])->string, strerror(errno));
            }
            non_finite[i] += count_non_finite(value.type, value.data, bytes / dtype_size(value.type));
        }
    }
    int64_t loop_ns = now_ns() - begin;
    for (size_t i = 0; i < count; i++) {
        if (fclose(files[i]) != 0) {
            fail("%s can't be written: %s", json_member(paths, session->output_names[i])->string, strerror(errno));
        }
    }
    fprintf(result, "{\"n\": %lld, \"loop_ns\": %lld, ", (long long)feed->samples, (long long)loop_ns);
    write_non_finite(result, session, non_finite);
}

/* The fields that both modes have; the delegation comes last, because asking may change the session. */
static void write_facts(FILE *result, struct session *session, const struct json *inputs) {
    int64_t peak = peak_rss_bytes(), cpus[CPU_SETSIZE];
    size_t cpu_count = 0;
    cpu_set_t set;
    CPU_ZERO(&set);
    sched_getaffinity(0, sizeof set, &set);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &set)) {
            cpus[cpu_count++] = cpu;
        }
    }
    fputs(", \"runtime_version\": ", result);
    json_write_string(result, session->runtime_version);
    fputs(", \"affinity\": ", result);
    json_write_integers(result, cpus, cpu_count);
    fprintf(result, ", \"load_ns\": %lld, \"peak_rss_bytes\": %lld, \"input_sha256\": {",
            (long long)session->load_ns, (long long)peak);
    for (size_t i = 0; i < inputs->count; i++) {
        char hex[65];
        sha256_of_file(inputs->items[i].string, hex);
        fputs(i ? ", " : "", result);
        json_write_string(result, inputs->names[i]);
        fprintf(result, ": \"%s\"", hex);
    }
    double fraction;
    const char *delegate = session->delegation(session, &fraction);
    fputs("}, \"delegate\": ", result);
    json_write_string(result, delegate);
    if (fraction < 0) {
        fputs(", \"delegated_fraction\": null}", result);
    } else {
        fprintf(result, ", \"delegated_fraction\": %#.17g}", fraction);
    }
}

static void open_session(struct session *session, const struct json *job) {
    const char *runtime = json_text(job, "runtime"), *delegate = json_text(job, "delegate");
    const char *model = json_text(job, "model");
    int threads = (int)json_integer(job, "threads", 1, 1024);
    int is_litert = strcmp(runtime, "litert") == 0;
    if (!is_litert && strcmp(runtime, "onnxruntime") != 0) {
        fail("runtime '%s' is none of litert, onnxruntime, which are what runs without Python", runtime);
    }
    if (strcmp(delegate, "cpu") != 0) {
        fail("%s runs on cpu only, not on %s", runtime, delegate);
    }
    if (is_litert) {
        tflite_open(session, model, threads);
    } else {
        onnx_open(session, model, threads, json_truth(job, "spinning"));
    }
}

int main(int count, char **arguments) {
    if (count != 3) {
        fprintf(stderr, "usage: edgebench-runner JOB.json RESULT.json\n");
        return 2;
    }
    const char *result_path = arguments[2];
    fail_into(result_path);
    struct json job = json_read(arguments[1]);
    if (job.kind != JSON_OBJECT) {
        fail("the job is not a JSON object");
    }
    const char *mode = json_text(&job, "mode");
    int is_latency = strcmp(mode, "latency") == 0;
    if (!is_latency && strcmp(mode, "outputs") != 0) {
        fail("mode '%s' is none of latency, outputs", mode);
    }
    stay_on(json_member(&job, "cpus"));
    const struct json *inputs = json_paths(&job, "inputs");
    int64_t samples, batch = json_integer(&job, "batch", INT32_MIN, INT32_MAX);
    struct array *arrays = open_arrays(inputs, batch, &samples);
    struct session session = {0};
    open_session(&session, &job);
    struct feed feed = match_feed(&session, inputs, arrays, batch, samples);

    char *text = NULL;
    size_t size = 0;
    FILE *result = open_memstream(&text, &size); /* nothing is written to disk before it is whole */
    if (!result) {
        fail("MemoryError: no memory for the result");
    }
    if (is_latency) {
        measure_latency(result, &session, &job, &feed);
    } else {
        save_outputs(result, &session, &job, &feed);
    }
    write_facts(result, &session, inputs);
    fclose(result);
    FILE *file = json_begin(result_path);
    if (!file || fwrite(text, 1, size, file) != size || !json_commit(file, result_path)) {
        fprintf(stderr, "edgebench-runner: %s can't be written: %s\n", result_path, strerror(errno));
        return 1;
    }
    fflush(stderr);
    /* Not `return`: the destructors of runtimes have nothing to do here, and may crash after the work is done. */
    _Exit(0);
}
