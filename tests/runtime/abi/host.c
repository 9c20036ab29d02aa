/* A program that knows libminuet by dlopen alone, as a plug-in's host does; process_test.cc runs it.
 *
 * usage: host LIBRARY COMMAND [ARGUMENT...]
 *   run [BESIDE...]   loads the libraries named BESIDE into the global scope, then a CPU network
 *   run-first BESIDE  the same, but libminuet is loaded first
 *   reload TIMES      a CPU network in a thread, dlclose, and the library must be gone
 *   exit-running MS   exit() in the main thread while another runs networks
 *   exit-compiling MS the same, while another compiles kernels in helper programs, from when the first starts
 *   compile           until the first of many kernels is compiled, when no libnvrtc may be loaded
 *   alone             with no helper program beside LIBRARY, asks for kernels
 *   exit-in-thread MS exit() in a thread while the main thread runs networks
 *   leave             ends with everything still open
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <minuet/diagnostics.h>
#include <minuet/minuet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Every pass of clang-format moves these on. */
/* clang-format off */
#define FUNCTIONS(ROW) \
  ROW(last_error) ROW(context_create) ROW(context_destroy) ROW(context_kernel_counters) \
  ROW(device_open) ROW(device_destroy) ROW(plan_create_network) ROW(plan_destroy) \
  ROW(plan_compile) ROW(plan_load) ROW(execution_create) ROW(execution_destroy) \
  ROW(execution_prepare) ROW(execution_output_shape) ROW(execution_run) ROW(query_system)
/* clang-format on */

static struct {
#define ROW(name) __typeof__(minuet_##name)* name;
  FUNCTIONS(ROW)
#undef ROW
} api;

static const char* library_path;

static void leave(const char* what, int code) {
  char message[512] = "";
  if (api.last_error) api.last_error(message, sizeof(message));
  fprintf(stderr, "%s: %s\n", what, message);
  _exit(code);
}

static void fail(const char* what) { leave(what, 1); }

static void check(minuet_status status, const char* what) {
  if (status != MINUET_OK) fail(what);
}

static void* load(const char* path, int scope) {
  void* library = dlopen(path, RTLD_NOW | scope);
  if (!library) {
    fprintf(stderr, "%s\n", dlerror());
    _exit(1);
  }
  return library;
}

static void* load_minuet(void) {
  void* library = load(library_path, RTLD_LOCAL);
#define ROW(name) \
  if (!(api.name = (__typeof__(api.name))dlsym(library, "minuet_" #name))) fail("minuet_" #name);
  FUNCTIONS(ROW)
#undef ROW
  return library;
}

typedef struct {
  minuet_context* context;
  minuet_device* device;
  minuet_plan* network;
  minuet_execution* execution;
} Stack;

static void open_stack(Stack* stack, int disable_disk_cache) {
  static const int32_t widths[] = {8, 8, 16, 24, 32, 32, 24, 16, 16};
  minuet_context_options context = MINUET_CONTEXT_OPTIONS_INIT;
  minuet_network_options network = MINUET_NETWORK_OPTIONS_INIT;
  context.disable_disk_cache = disable_disk_cache;
  check(api.context_create(&context, &stack->context), "context");
  check(api.device_open(stack->context, "cpu", NULL, &stack->device), "device");
  network.name = "minkunet42";
  network.dtype = MINUET_F32;
  network.channels = widths;
  network.channel_count = 9;
  check(api.plan_create_network(stack->context, &network, &stack->network), "network");
  check(api.plan_compile(stack->network, "cpu", NULL, NULL), "compile");
  check(api.plan_load(stack->network, stack->device), "load");
  check(api.execution_create(stack->network, stack->device, NULL, &stack->execution), "execution");
}

static void close_stack(Stack* stack) {
  api.execution_destroy(stack->execution);
  api.plan_destroy(stack->network);
  api.device_destroy(stack->device);
  api.context_destroy(stack->context);
}

static void run_network(Stack* stack) {
  static const int32_t coordinates[3][4] = {{0, 0, 0, 0}, {0, 1, 0, 0}, {0, -7, 2, 5}};
  static const float features[3][4] = {{.1f, .2f, .3f, 1}, {.4f, .5f, .6f, 1}, {.7f, .8f, .9f, 1}};
  int64_t rows = 0;
  int32_t channels = 0;
  check(api.execution_prepare(stack->execution, coordinates[0], 3, NULL), "prepare");
  check(api.execution_output_shape(stack->execution, &rows, &channels), "shape");
  float* output = aligned_alloc(64, (size_t)(rows * channels) * 64);
  const minuet_tensor in = {(void*)features, 3, 0, 4, MINUET_F32};
  const minuet_tensor out = {output, rows, 0, channels, MINUET_F32};
  check(api.execution_run(stack->execution, &in, 1, &out, 1, NULL), "run");
  if (output[0] != output[0]) fail("the output is not a number");
  free(output);
}

/* Names its kernels by hashes and looks for them; there is no compiler, by MINUET_NVRTC. */
static void ask_for_kernels(Stack* stack) {
  if (api.plan_compile(stack->network, "sm_90a", NULL, NULL) != MINUET_UNAVAILABLE) fail("compile");
}

static void* run_once(void* unused) {
  Stack stack;
  (void)unused;
  open_stack(&stack, 1);
  run_network(&stack);
  close_stack(&stack);
  return NULL;
}

static void* run_for_ever(void* unused) {
  Stack stack;
  (void)unused;
  open_stack(&stack, 1);
  for (;;) run_network(&stack);
  return NULL;
}

/* To end with: the library's other half is never missing where it is tested. */
static void leave_without_compiler(void) {
  char message[512] = "";
  api.last_error(message, sizeof(message));
  if (strstr(message, "minuet-compile")) fail("compile");
  leave("there is no compiler", 77);
}

static void* compile_for_ever(void* unused) {
  (void)unused;
  for (;;) {
    Stack stack;
    open_stack(&stack, 1);
    const minuet_status status = api.plan_compile(stack.network, "sm_90a", NULL, NULL);
    if (status == MINUET_UNAVAILABLE) leave_without_compiler();
    check(status, "compile");
    close_stack(&stack);
  }
  return NULL;
}

static void wait_for_a_child(void) {
  siginfo_t info;
  while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0) usleep(200);
}

static int has_nvrtc(void) {
  return dlopen("libnvrtc.so.13", RTLD_NOW | RTLD_NOLOAD) || dlopen("libnvrtc.so.12", RTLD_NOW | RTLD_NOLOAD);
}

static pthread_t start(void* (*work)(void*), void* argument) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, work, argument) != 0) fail("pthread_create");
  return thread;
}

static void* compile_once(void* stack) {
  const minuet_status status = api.plan_compile(((Stack*)stack)->network, "sm_90a", NULL, NULL);
  if (status == MINUET_UNAVAILABLE) leave_without_compiler();
  check(status, "compile");
  return NULL;
}

static void compile_one_kernel(Stack* stack) {
  minuet_kernel_counters counters = MINUET_KERNEL_COUNTERS_INIT;
  open_stack(stack, 1);
  start(compile_once, stack);
  while (counters.compiled == 0) {
    usleep(1000);
    check(api.context_kernel_counters(stack->context, &counters), "counters");
  }
  if (has_nvrtc()) fail("libnvrtc is loaded");
}

/* Says what is missing, and opens nothing in its place. */
static void compile_alone(void) {
  Stack stack;
  static minuet_system_info info = {.struct_size = sizeof(info)};
  char message[512] = "";
  open_stack(&stack, 1);
  if (api.plan_compile(stack.network, "sm_90a", NULL, NULL) != MINUET_UNAVAILABLE) fail("compile");
  api.last_error(message, sizeof(message));
  if (!strstr(message, "minuet-compile does not exist")) fail("the error");
  check(api.query_system(&info), "query_system");
  if (info.nvrtc[0] || !strstr(info.missing, "minuet-compile does not exist")) fail("what is missing");
  if (has_nvrtc()) fail("libnvrtc is loaded");
  run_network(&stack);
  close_stack(&stack);
}

static void* exit_later(void* milliseconds) {
  usleep((useconds_t)atoi(milliseconds) * 1000);
  exit(0);
}

/* In a thread: what it leaves behind goes with it, and not with the process. */
static void reload(int times) {
  for (int i = 0; i < times; ++i) {
    void* library = load_minuet();
    pthread_join(start(run_once, NULL), NULL);
    memset(&api, 0, sizeof(api));
    if (dlclose(library) != 0) fail("dlclose");
    if (dlopen(library_path, RTLD_NOW | RTLD_NOLOAD)) fail("the library stays after dlclose");
  }
}

static void run_beside(int count, char** beside, int minuet_first) {
  Stack stack;
  if (minuet_first) load_minuet();
  for (int i = 0; i < count; ++i) load(beside[i], RTLD_GLOBAL);
  if (!minuet_first) load_minuet();
  open_stack(&stack, 1);
  run_network(&stack);
  ask_for_kernels(&stack);
  close_stack(&stack);
}

int main(int argc, char** argv) {
  static Stack left_open;
  if (argc < 3) return 2;
  library_path = argv[1];
  const char* command = argv[2];
  char* argument = argc > 3 ? argv[3] : "0";
  if (strcmp(command, "reload") == 0) {
    reload(atoi(argument));
  } else if (strcmp(command, "run") == 0 || strcmp(command, "run-first") == 0) {
    run_beside(argc - 3, argv + 3, strcmp(command, "run-first") == 0);
  } else if (strcmp(command, "exit-running") == 0) {
    load_minuet();
    start(run_for_ever, NULL);
    exit_later(argument);
  } else if (strcmp(command, "exit-compiling") == 0) {
    load_minuet();
    start(compile_for_ever, NULL);
    wait_for_a_child();
    exit_later(argument);
  } else if (strcmp(command, "compile") == 0) {
    load_minuet();
    compile_one_kernel(&left_open);
  } else if (strcmp(command, "alone") == 0) {
    load_minuet();
    compile_alone();
  } else if (strcmp(command, "exit-in-thread") == 0) {
    load_minuet();
    start(exit_later, argument);
    run_for_ever(NULL);
  } else if (strcmp(command, "leave") == 0) {
    load_minuet();
    open_stack(&left_open, 1);
    run_network(&left_open);
  } else {
    return 2;
  }
  puts("done");
  return 0;
}
