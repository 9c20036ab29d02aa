/* Runs the rows of all files on one device, then compares them with the headers.
 *
 * usage: conformance DEVICE FOLDER HEADER...   FOLDER is for files that the rows write
 *
 * Returns 0 if every row gave what it should and no row is missing, and 77 if the device cannot be opened. */
#include "tests/runtime/abi/conformance/conformance.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ROWS = 4096, POISON = 0xa5 };

outputs out;
recorded_row rows[MOST_ROWS];
int row_count;
int faults;
size_t given_size;

static const world* current_world;
static const char* row_file;
static int row_line;

static void fault(const char* what, const char* detail) {
  const char* const call = row_count > 0 ? rows[row_count - 1].call : "";
  ++faults;
  printf("%s:%d: %s\n  %s: %s\n", row_file, row_line, call, what, detail);
}

static void last_message(char* message, size_t size) {
  message[0] = '\0';
  minuet_last_error(message, size);
}

static int is_poisoned(const void* memory, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) {
    if (((const unsigned char*)memory)[i] != POISON) return 0;
  }
  return 1;
}

/* A call that must fail replaces the message, so that no row takes the one of an earlier row for its own. */
static void forget_message(void) {
  if (minuet_job_wait(NULL) != MINUET_INVALID_ARGUMENT) fault("minuet_job_wait(NULL)", "no error");
}

/* As in tests/support/expect.h: what may be missing must be there if MINUET_EXPECT names it. */
static int must_be_there(const char* what) {
  const char* const expected = getenv("MINUET_EXPECT");
  return expected && strstr(expected, what);
}

void begin_row(const char* file, int line, const char* call) {
  row_file = file;
  row_line = line;
  if (row_count == MOST_ROWS) {
    fault("the table of rows is full", "enlarge MOST_ROWS");
    exit(1);
  }
  rows[row_count].call = call;
  rows[row_count].refused = 0;
  ++row_count;
  forget_message();
}

void poison_outputs(void) {
  memset(&out, POISON, sizeof(out));
  memset(&given_size, POISON, sizeof(given_size));
}

static void check_device_poison(void) {
  static unsigned char memory[POISON_BYTES];
  if (!current_world || !current_world->poisoned) return;
  read_device(current_world, memory, current_world->poisoned, POISON_BYTES);
  if (is_poisoned(memory, POISON_BYTES)) return;
  fault("device memory was written", "by a call that failed");
  poison_device(current_world);
}

/* A struct's struct_size may have been set by the row. */
static void check_outputs(void) {
  const size_t size = sizeof(given_size);
  const char* const bytes = (const char*)&out;
  if (memcmp(bytes, &given_size, size) == 0 && is_poisoned(bytes + size, sizeof(out) - size)) return;
  fault("an output was written", "by a call that failed");
}

/* The message begins with the name of the function. */
static int names_function(const char* message, const char* call) {
  const char* const end = strchr(call, '(');
  const size_t length = end ? (size_t)(end - call) : strlen(call);
  return strncmp(message, call, length) == 0 && message[length] == ':';
}

void end_refused(minuet_status wanted, const char* words, minuet_status status) {
  char message[1024], detail[1400];
  last_message(message, sizeof(message));
  rows[row_count - 1].refused = 1;
  snprintf(detail, sizeof(detail), "%s instead of %s: %s", minuet_status_name(status),
           minuet_status_name(wanted), status == MINUET_OK ? "" : message);
  if (status != wanted) {
    fault("wrong status", detail);
  } else if (!names_function(message, rows[row_count - 1].call)) {
    fault("the message does not begin with the function", message);
  } else if (!strstr(message, words)) {
    snprintf(detail, sizeof(detail), "\"%s\" is not in \"%s\"", words, message);
    fault("the message names something else", detail);
  }
  check_outputs();
  check_device_poison();
}
void end_accepted(minuet_status status) {
  char message[1024];
  if (status == MINUET_OK) return;
  last_message(message, sizeof(message));
  fault(minuet_status_name(status), message);
  memset(&out, 0, sizeof(out)); /* what the next rows use is null, not garbage */
}

void end_tried(minuet_status wanted, minuet_status status) {
  char message[1024];
  if (status == wanted) return;
  last_message(message, sizeof(message));
  if (status != MINUET_UNAVAILABLE || must_be_there("nvrtc")) {
    fault(minuet_status_name(status), message);
  } else {
    printf(
        "left out: conformance of compiling ahead: kernels cannot be compiled, for there is no libnvrtc: "
        "%s\n",
        message);
  }
}

void end_given(long long wanted, long long value) {
  char text[64];
  snprintf(text, sizeof(text), "%lld instead of %lld", value, wanted);
  if (value != wanted) fault("wrong number", text);
}

void end_done(void) {}

void expect(const char* file, int line, const char* condition, int holds) {
  if (holds) return;
  row_file = file;
  row_line = line;
  fault("does not hold", condition);
}

void must(const char* file, int line, const char* call, minuet_status status) {
  char message[1024];
  if (status == MINUET_OK) return;
  last_message(message, sizeof(message));
  printf("%s:%d: %s\n  %s: %s\n", file, line, call, minuet_status_name(status), message);
  exit(1);
}

void read_device(const world* world, void* target, const void* source, int64_t bytes) {
  MUST(minuet_device_synchronize(world->device, NULL));
  MUST(minuet_device_copy(world->device, target, source, bytes, 1));
}

void poison_device(const world* world) {
  static unsigned char memory[POISON_BYTES];
  memset(memory, POISON, sizeof(memory));
  MUST(minuet_device_synchronize(world->device, NULL));
  MUST(minuet_device_copy(world->device, world->poisoned, memory, POISON_BYTES, 0));
}

const char* path_in(const world* world, const char* name) {
  static char paths[8][1024];
  static int next;
  char* const path = paths[next++ % 8];
  snprintf(path, sizeof(paths[0]), "%s/%s", world->folder, name);
  return path;
}

static void call_all(world* world) {
  call_errors(world);
  call_contexts(world);
  call_devices(world);
  call_sets(world);
  call_maps(world);
  call_ops(world);
  call_pointwise(world);
  call_space(world);
  call_index(world);
  call_networks(world);
  call_plans(world);
  call_kernels(world);
  call_serialization(world);
  call_parameters(world);
  call_jobs(world);
  call_precompile(world);
  call_tuning(world);
  call_execution_create(world);
  call_prepare(world);
  call_prepare_maps(world);
  call_run(world);
  call_capacity(world);
  call_queries(world);
  call_points(world);
  call_select(world);
  call_gradients(world);
  call_batch_norm(world);
  call_row_gradients(world);
  call_pyramid_create(world);
  call_pyramids(world);
  call_pyramid_runs(world);
  call_training(world);
}

int main(int argc, char** argv) {
  static world world;
  setvbuf(stdout, NULL, _IOLBF, 0); /* what was printed must be there after a crash too */
  if (argc < 4) {
    fprintf(stderr, "usage: conformance DEVICE FOLDER HEADER...\n");
    return 2;
  }
  if (!open_world(&world, argv[1], argv[2]))
    return strcmp(argv[1], "cpu") == 0 || must_be_there("gpu") ? 1 : 77;
  current_world = &world;
  call_all(&world);
  current_world = NULL;
  close_world(&world);
  faults += compare_with_headers(argv + 3, argc - 3);
  printf("%d rows, %d faults\n", row_count, faults);
  return faults > 0;
}
