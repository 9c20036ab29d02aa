/* Minuet: 3-D sparse convolution networks on NVIDIA GPUs and on the CPU. The C ABI; pyramids and runs that
 * keep no state: pyramid.h; tuning: tuning.h; kernels for other launchers: kernels.h.
 *
 * The road: context -> device; plan (of a network or of one convolution) -> compile(arch) -> load(device) ->
 * execution -> prepare(coordinates) -> run(features). Only create and compile may be slow, and both
 * work with no GPU. Kernels are specialized for each layer and compiled at run time; they are found
 * again in the cache folder by the next process.
 *
 * 0.3 breaks 0.2: a convolution's weight, scale and shift need their counts; a plan must be compiled for the
 * CPU device too, as arch "cpu"; outputs must not overlap inputs; the default dtype is MINUET_F32;
 * minuet_device_open takes options; a convolution has an activation in place of relu.
 *
 * Rules that hold everywhere:
 * - What can fail returns a status; the text of a failure is in minuet_last_error() of the thread.
 *   A failed call leaves its outputs and its objects as they were, but for what its comment says. Any pointer
 *   that a function's comment does not call optional must not be null. Every array that the library reads has
 *   its length beside it; an optional array has both, or null and 0. Strings end in a zero.
 * - Every struct starts with struct_size: set by the _INIT macro of options and counters, by the caller
 *   for the info structs, where the library writes how much it filled in. New fields are only appended:
 *   behind the caller's struct_size, options have their defaults and info structs are not written. A field of
 *   options that is 0 or null has its default, unless it must be given. `ext` must be null, `reserved` 0.
 * - Objects are made by _create or _open and released by _destroy (null is fine). An object keeps
 *   what it was made from alive. Nothing is released while it is in use: destroy waits.
 * - Threads: contexts, devices, plans, coordinates, kernel maps and pyramids may be used from many threads at
 *   once. An execution serves one at a time: a call that meets another's is FAILED_PRECONDITION.
 * - Matrices are row-major (minuet_tensor): a row of features is `channels` consecutive elements. Row i of
 *   features belongs to row i of the coordinates that the caller gave.
 * - Coordinates are int32 [count, 1 + ndim]: the batch index (>= 0), then x, y, z..., which may be negative.
 * - Arrays, matrices and numbers that a call writes must not overlap one another, nor arrays and matrices
 *   that it reads: INVALID_ARGUMENT names both.
 * - `stream` is a CUstream (cudaStream_t) of the device's primary context, null for its default
 *   stream; the CPU device ignores it and works at once.
 * - The calls on one execution must be ordered on the device too: one stream, or events between them.
 * - The library never prints, exits, throws, or touches signal handlers, and does nothing at exit. NVRTC is
 *   opened, and kernels are compiled, in child processes only: minuet-compile, which is installed beside the
 *   library and has to go with it. Where it is not there, or of another version, kernels are found in
 *   bundles, but not in the cache folder, and compiling is UNAVAILABLE.
 * - After fork() a child may compile, with the parent's objects too, and waits for none of its threads.
 *   All else of the parent's it must leave alone: GPU contexts and jobs stay behind.
 */
#ifndef MINUET_MINUET_H_
#define MINUET_MINUET_H_

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define MINUET_API
#else
#define MINUET_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define MINUET_VERSION_MAJOR 0
#define MINUET_VERSION_MINOR 3
#define MINUET_VERSION_PATCH 0
#define MINUET_VERSION_SUFFIX "-dev" /* "" in a release */

/* ---- status ---------------------------------------------------------------------------------- */

/* absl's numbers, so that XLA and PJRT adapters can cast. */
typedef enum minuet_status {
  MINUET_OK = 0,
  MINUET_CANCELLED = 1,
  MINUET_INVALID_ARGUMENT = 3,
  MINUET_NOT_FOUND = 5,
  MINUET_RESOURCE_EXHAUSTED = 8,
  MINUET_FAILED_PRECONDITION = 9,
  MINUET_OUT_OF_RANGE = 11,
  MINUET_UNIMPLEMENTED = 12,
  MINUET_INTERNAL = 13,
  MINUET_UNAVAILABLE = 14
} minuet_status;

/* The message of this thread's last failed call, zero-terminated. Returns the bytes it needs,
 * terminator included; writes at most `size` bytes. buffer is optional where size is 0. */
MINUET_API size_t minuet_last_error(char* buffer, size_t size);
/* What is too long for the message, in the same way: the log of NVRTC or of the driver, or all that does not
 * match in a weights file. Often empty. */
MINUET_API size_t minuet_last_error_detail(char* buffer, size_t size);

/* "INVALID_ARGUMENT"; "UNKNOWN" for what is no status. Lives forever. */
MINUET_API const char* minuet_status_name(minuet_status status);

/* major * 10000 + minor * 100 + patch of the library that is loaded. */
MINUET_API uint32_t minuet_version(void);

/* ---- types ----------------------------------------------------------------------------------- */

/* Storage of features and weights. Accumulation is fp32 on every path. TF32 is fp32 storage whose
 * GEMM operands are rounded to the nearest tf32. */
typedef int32_t minuet_dtype;
enum { MINUET_F32 = 0, MINUET_TF32 = 1, MINUET_F16 = 2, MINUET_BF16 = 3 };

typedef enum minuet_log_level { MINUET_LOG_INFO = 0, MINUET_LOG_WARNING = 1 } minuet_log_level;
/* Called from any thread, never with a lock held; `text` has `length` bytes. `user` must live as long as
 * anything that was made from the context. */
typedef void (*minuet_log_callback)(minuet_log_level level, const char* text, size_t length, void* user);

typedef struct minuet_context minuet_context;
typedef struct minuet_device minuet_device;
typedef struct minuet_queue minuet_queue;
typedef struct minuet_coordinates minuet_coordinates;
typedef struct minuet_kernel_map minuet_kernel_map;
typedef struct minuet_plan minuet_plan;
typedef struct minuet_execution minuet_execution;
typedef struct minuet_parameters minuet_parameters;

/* A matrix in device memory, the caller's: rows of `channels` consecutive elements. This struct never grows.
 * `data` begins on a multiple of 16 bytes. A row stride that is not `channels` makes the matrix a range of
 * columns of a wider one, so that a concatenation needs no copy; in bytes it is a multiple of the largest
 * power of two, at most 16, that divides a row. Otherwise INVALID_ARGUMENT. */
typedef struct minuet_tensor {
  void* data; /* may be null where there are no rows; only read where it is an input */
  int64_t rows;
  int64_t row_stride; /* in elements, from row to row, at most 2^28; 0: channels */
  int32_t channels;
  minuet_dtype dtype;
} minuet_tensor;

/* Types of an array's elements. The first three are those of minuet_dtype; TF32 is a way to compute with f32.
 */
typedef int32_t minuet_element;
enum {
  MINUET_ELEMENT_F32 = 0,
  MINUET_ELEMENT_F16 = 2,
  MINUET_ELEMENT_BF16 = 3,
  MINUET_ELEMENT_F64 = 4,
  MINUET_ELEMENT_I8 = 5,
  MINUET_ELEMENT_U8 = 6,
  MINUET_ELEMENT_I32 = 7,
  MINUET_ELEMENT_I64 = 8,
  MINUET_ELEMENT_BOOL = 9 /* one byte, 0 or 1 */
};

#define MINUET_MAX_RANK 6

/* An array of up to six axes, the caller's. This struct never grows. `data` begins on a multiple of an
 * element's size. Without strides the elements lie one behind the other, the last axis fastest. A stride of 0
 * repeats the same elements, which only an array that is read may do. */
typedef struct minuet_array {
  void* data; /* only read where the array is an input */
  int64_t shape[MINUET_MAX_RANK];
  int64_t stride[MINUET_MAX_RANK]; /* elements between neighbours, not negative; 0 without has_strides */
  int32_t rank;                    /* 1 to 6 */
  minuet_element element;
  int32_t on_host;     /* 1: data is host memory; without effect on the CPU device */
  int32_t has_strides; /* 1: `stride` is given */
} minuet_array;

/* ---- context --------------------------------------------------------------------------------- */

/* Whether a kernel that is nowhere to be found is compiled. */
typedef int32_t minuet_jit;
enum {
  MINUET_JIT_DEFAULT = 0, /* yes, unless MINUET_NO_JIT is 1 */
  MINUET_JIT_ON = 1,
  MINUET_JIT_OFF = 2 /* FAILED_PRECONDITION, with what to do; the cache folder is only read */
};

/* Which kernels of a bundle are taken, by the compiler that made them. */
typedef int32_t minuet_bundle_policy;
enum {
  MINUET_BUNDLE_SAME_MAJOR = 0, /* of CUDA 13 or older, whatever compiler is here, or none */
  MINUET_BUNDLE_ANY = 1
};

/* What is left open comes from the environment, which is read here, once ("Environment" in
 * share/doc/minuet/README.md). */
typedef struct minuet_context_options {
  size_t struct_size;
  void* ext;
  const char* cache_directory; /* null: MINUET_CACHE_DIR, XDG_CACHE_HOME/minuet, HOME/.cache/minuet */
  int32_t disable_disk_cache;  /* 1: kernels live in memory only */
  minuet_log_callback log;     /* null: silent */
  void* log_user;
  minuet_jit jit;
  minuet_bundle_policy bundle_policy;
  const char* record_path;   /* file that gets what no bundle had; null: MINUET_RECORD; "": none */
  uint64_t cache_max_bytes;  /* least recently used kernels go past it; 0: MINUET_CACHE_MAX_BYTES, else 1 GiB;
                                UINT64_MAX: no limit, and opening and closing the folder removes nothing */
  int64_t trace;             /* 1: times are kept for minuet_context_write_trace */
  const char* bundle_path;   /* files and folders, with colons between; null: MINUET_BUNDLE_PATH; "": none */
  const char* nvrtc_path;    /* the library to use, or its folder; null: MINUET_NVRTC, else looked for */
  const char* cublaslt_path; /* the library to use; null: MINUET_CUBLASLT, else looked for */
  int64_t cache_shared; /* 1: the cache folder may belong to, and be written by, other users, whose kernels
                           are run; 2: it may not; 0: as MINUET_CACHE_SHARED says */
  int64_t bundle_ptx;   /* 1: where no bundle has code for the GPU, PTX of its own or an older capability is
                           taken, which the driver compiles at load */
  int64_t cpu_threads; /* of the CPU device, 0 to 4096, else INVALID_ARGUMENT; 0, or more than there are CPUs:
                          one a CPU (share/doc/minuet/LIMITS.md) */
} minuet_context_options;
#define MINUET_CONTEXT_OPTIONS_INIT \
  { sizeof(minuet_context_options), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/* Process-wide, tied to no device. Opens neither the driver nor NVRTC. options is optional. Kernels are
 * looked for in memory, in bundles (added ones, then bundle_path, then minuet-*.bundle beside the
 * library), in the cache folder, and are compiled then. */
MINUET_API minuet_status minuet_context_create(const minuet_context_options* options,
                                               minuet_context** context);
MINUET_API void minuet_context_destroy(minuet_context* context);

/* Where this context's kernels came from so far; those of minuet_precompile count too. */
typedef struct minuet_kernel_counters {
  size_t struct_size;
  int64_t compiled, disk_hits, memory_hits;
  double compile_ms; /* summed over threads */
  int64_t bundle_hits;
  int64_t failures;      /* compiles that gave an error */
  int64_t waits;         /* for another thread's or another process's compile of the same kernel */
  int64_t lock_timeouts; /* waits for another process that were given up */
  int64_t cubin_bytes;   /* from bundles, the cache folder and compiles */
  double wait_ms;        /* summed over threads */
} minuet_kernel_counters;
#define MINUET_KERNEL_COUNTERS_INIT \
  { sizeof(minuet_kernel_counters), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
MINUET_API minuet_status minuet_context_kernel_counters(minuet_context* context,
                                                        minuet_kernel_counters* counters);

/* Opens a bundle that minuet_precompile wrote, and looks in it before all others. sha256: 64 hex digits that
 * the whole file must have, or null. INVALID_ARGUMENT for any other text, and for what is no bundle or is
 * damaged at its head, FAILED_PRECONDITION for a file that cannot be read, has another digest, or has none to
 * expect and may be written to by others than this user and root: nothing is added then. */
MINUET_API minuet_status minuet_context_add_bundle(minuet_context* context, const char* path,
                                                   const char* sha256);
/* Does the same for `size` bytes in memory, such as those of a bundle that is linked into the program. The
 * library copies them, so the caller owns them still and may free them after the call. Bytes that the context
 * has from memory already are not copied again, and keep their place. No owner or mode is checked.
 * INVALID_ARGUMENT also for null and for size 0. Any thread may call both functions at any time. */
MINUET_API minuet_status minuet_context_add_bundle_memory(minuet_context* context, const void* bytes,
                                                          size_t size, const char* sha256);

/* Writes the times of look-ups, compiles, loads, runs and each run's layers so far (on the host's clock) as a
 * trace that ui.perfetto.dev opens. FAILED_PRECONDITION where the context was made without `trace`. */
MINUET_API minuet_status minuet_context_write_trace(minuet_context* context, const char* path);

/* The cache folder in use; "" when kernels live in memory only. Like minuet_last_error. */
MINUET_API size_t minuet_context_cache_directory(minuet_context* context, char* buffer, size_t size);

/* One kernel that a plan needs, as compiled for one architecture. Strings live during the call. */
typedef struct minuet_kernel_info {
  size_t struct_size;
  const char* name; /* with every compiled-in size */
  const char* arch;
  const char* origin; /* "memory", "bundle", "disk", "compiled" */
  int32_t registers;  /* per thread; 0, like the next two, for PTX ("compute_90"): the driver decides */
  int32_t shared_bytes, local_bytes;
  int64_t cubin_bytes; /* or of PTX */
  double compile_ms;   /* of the compile that made it, in whatever process */
} minuet_kernel_info;
typedef void (*minuet_kernel_visitor)(const minuet_kernel_info* kernel, void* user);

/* What a system has: for `minuet info` and for error texts. Strings are "" where absent. */
typedef struct minuet_system_info {
  size_t struct_size;
  char driver[32]; /* "13.0" */
  int32_t cuda_devices;
  char nvrtc[32]; /* "13.0" */
  char nvrtc_path[512];
  char cublaslt_path[512];
  char llvm[32];
  char missing[1024]; /* what is missing and how to get it, one sentence a line */
  int32_t reserved;
} minuet_system_info;
MINUET_API minuet_status minuet_query_system(minuet_system_info* info);

/* ---- device ---------------------------------------------------------------------------------- */

/* The caller's allocator, for example of PyTorch, RMM or XLA, so that the library and its host share one pool
 * of memory.
 * - `allocate` returns `bytes` (1 or more) bytes of the device's memory (host memory on the CPU device) that
 *   begin on a multiple of 256, or null if there are none. The call of the library that needed them is then
 *   RESOURCE_EXHAUSTED and names the bytes; the library may first ask again for fewer bytes, or give unused
 *   blocks back. Memory that is not aligned is given back at once, and the call is INVALID_ARGUMENT.
 * - `free` takes back a block of `allocate`, with the same bytes, exactly once.
 * - `stream` is the queue's stream for memory of a queue: the memory must be ready for work that is enqueued
 *   on it after `allocate`, and work that was enqueued on it before `free` may still use the memory.
 *   It is null for all other memory, for queues of the null stream, and on the CPU device: the memory must be
 *   ready for every stream at once, and at `free` no work of the library uses it any more. The library waits
 *   for that where the driver would have waited: minuet_coordinates_export of a set without a queue, and
 *   minuet_execution_prepare_maps without a queue, then wait for the stream.
 * - They are called from any thread, also from threads of the library and from several at once, with the
 *   device's primary context current. No lock is held that calls on other objects need: they may call the
 *   library, but not for the queue, set, map, execution, parameters or plan of the call that needs the
 *   memory, because that call is in progress.
 * - They are not called in a call on a stream that is being captured, nor for such a stream. The memory of a
 *   queue that is destroyed while its stream is being captured is given back with the device.
 * Pinned host memory, and what the driver and cuBLASLt keep for themselves, do not come from the allocator.
 */
typedef void* (*minuet_allocate_callback)(int64_t bytes, void* stream, void* user);
typedef void (*minuet_free_callback)(void* memory, int64_t bytes, void* stream, void* user);

typedef struct minuet_device_options {
  size_t struct_size;
  void* ext;
  minuet_allocate_callback allocate; /* give both, or neither: memory then comes from the driver, or malloc */
  minuet_free_callback free;
  void* user; /* is passed to both, and must live as long as they are called */
} minuet_device_options;
#define MINUET_DEVICE_OPTIONS_INIT \
  { sizeof(minuet_device_options), 0, 0, 0, 0 }

/* name: "cuda:N", "cpu", or null for cuda:0 where it is usable, else cpu. UNAVAILABLE says what is
 * missing; INVALID_ARGUMENT says which names there are. options is optional.
 * Without an allocator, equal names of a context are one device inside, which the context keeps. With one,
 * `name` must be given, because the allocator has to know whose memory it is, and every call opens a device
 * of its own, with threads and loaded kernels of its own: queues, sets and plans that were made with or
 * loaded on another one are INVALID_ARGUMENT or FAILED_PRECONDITION for it. All of its memory then comes from
 * its allocator, and all has been given back when the device and everything that was made with it are
 * destroyed, plans that are loaded on it too; what minuet_device_allocate gave and was not freed is given
 * back then. */
MINUET_API minuet_status minuet_device_open(minuet_context* context, const char* name,
                                            const minuet_device_options* options, minuet_device** device);
MINUET_API void minuet_device_destroy(minuet_device* device);

typedef struct minuet_device_info {
  size_t struct_size;
  char name[32];         /* "cuda:0" */
  char description[256]; /* "NVIDIA H200" */
  char arch[32];         /* "sm_90a"; "cpu" on the CPU: for minuet_plan_compile */
  int64_t memory_bytes;
} minuet_device_info;
MINUET_API minuet_status minuet_device_query(minuet_device* device, minuet_device_info* info);

/* Memory of a device (of the host on the CPU), 256-byte aligned, for callers who have no CUDA code
 * of their own. On a device with an allocator, free waits for no work that uses the memory. Direction 0 is
 * host to device, 1 device to host. A copy blocks until it is done, but it does not wait for work on any
 * stream: synchronize first. */
MINUET_API minuet_status minuet_device_allocate(minuet_device* device, int64_t bytes, void** memory);
MINUET_API minuet_status minuet_device_free(minuet_device* device, void* memory);
MINUET_API minuet_status minuet_device_copy(minuet_device* device, void* target, const void* source,
                                            int64_t bytes, int32_t direction);
MINUET_API minuet_status minuet_device_synchronize(minuet_device* device, void* stream);

/* ---- queues: what calls on one stream share ------------------------------------------------------- */

/* Optional. Coordinate sets, kernel maps and executions that are made with one queue share side streams,
 * cuBLASLt's workspace, scratch, a map's tables, and the memory that destroyed ones leave: forty-nine
 * convolutions cost one workspace, and where sizes repeat the driver is not asked for any. What was made with
 * a queue goes with what was made with the same one only, and its calls name the queue's stream, else
 * INVALID_ARGUMENT; they come from one thread at a time, else FAILED_PRECONDITION (destroy from any). The
 * stream must outlive the queue and all of them. Graphs that hold runs of one queue's executions share its
 * scratch: their replays, on whatever stream, must be ordered with one another and with the queue's calls. */
MINUET_API minuet_status minuet_queue_create(minuet_device* device, void* stream, minuet_queue** queue);
/* Its memory is kept until then, and until all that was made with it is gone. */
MINUET_API void minuet_queue_destroy(minuet_queue* queue);

/* ---- coordinate sets (paper 5.1) --------------------------------------------------------------- */

#define MINUET_MAX_DIM 4

typedef struct minuet_coordinates_options {
  size_t struct_size;
  void* ext;
  int32_t ndim;                          /* 1 to 4; 0: 3 */
  int32_t tensor_stride[MINUET_MAX_DIM]; /* 0 counts as 1 */
  int32_t keep_first_duplicate;          /* 0: duplicates are INVALID_ARGUMENT; 1: the first row wins */
  int32_t has_bounds; /* 1: every coordinate lies in [least, greatest], else OUT_OF_RANGE */
  int32_t least[1 + MINUET_MAX_DIM];
  int32_t greatest[1 + MINUET_MAX_DIM];
  int32_t reserved;
  minuet_queue* queue; /* optional */
} minuet_coordinates_options;
#define MINUET_COORDINATES_OPTIONS_INIT \
  { sizeof(minuet_coordinates_options), 0, 3, {0}, 0, 0, {0}, {0}, 0, 0 }

/* Makes an index of `count` coordinates (device memory, the caller's, read only during the call), of about 90
 * bytes a coordinate and level. options is optional. Compiles and loads the kernels for the first set of a
 * device and ndim. Waits for the stream once; three times, and builds twice, where no bounds are declared and
 * a coordinate is outside the default range of the keys (MINUET_MAPS_INDEXED). OUT_OF_RANGE where the bounds,
 * declared or found, need keys of more than 64 bits. */
MINUET_API minuet_status minuet_coordinates_create(minuet_device* device,
                                                   const minuet_coordinates_options* options,
                                                   const int32_t* coordinates, int64_t count, void* stream,
                                                   minuet_coordinates** set);
/* The coarser set: unique floor(p / (s t)) * (s t); floor for negatives too. Has room for the rows of `fine`.
 * The order of its rows depends on its coordinates and tensor stride alone, and is not ascending. Waits; with
 * a queue who first asks for its count, rows, coordinates or a map does, and may have it made only then, in
 * one index with all others of its finest set (16 levels at most): make all sets first. */
MINUET_API minuet_status minuet_coordinates_downsample(minuet_coordinates* fine,
                                                       const int32_t stride[MINUET_MAX_DIM], void* stream,
                                                       minuet_coordinates** coarse);

/* The op whose outputs are the coordinates of a set. All in cells of the parent set: multiples of its tensor
 * stride. */
typedef struct minuet_reach_options {
  size_t struct_size;
  void* ext;
  int32_t kernel_size[MINUET_MAX_DIM]; /* 0 counts as 1, here and in the two below */
  int32_t stride[MINUET_MAX_DIM];      /* 1 is legal, and dilates the set */
  int32_t dilation[MINUET_MAX_DIM];
  int32_t padding[MINUET_MAX_DIM]; /* 0 or more */
  int32_t shape[MINUET_MAX_DIM];   /* of the new set: its coordinates divided by its tensor stride are 0 to
                                      shape - 1; all 0: no limit, and negative coordinates are legal */
} minuet_reach_options;
#define MINUET_REACH_OPTIONS_INIT                              \
  {                                                            \
    sizeof(minuet_reach_options), 0, {0}, {0}, {0}, {0}, { 0 } \
  }
/* Makes the set of all outputs that a dense convolution reaches from the coordinates of `parent`, whose
 * tensor stride is t: every multiple q of stride * t for which q + (k * dilation - padding) * t is in
 * `parent` for an offset k, 0 to kernel_size - 1 on each axis. This is the rule of spconv's SparseConv3d;
 * that of minuet_coordinates_downsample rounds coordinates down instead. A dense convolution of an input with
 * D cells has shape = (D + 2 * padding - dilation * (kernel_size - 1) - 1) / stride + 1. Coordinates are in
 * units of the finest voxel, as everywhere: spconv's indices are ours divided by the tensor stride. The order
 * of rows depends on the coordinates and the tensor stride alone. Waits until the set is made; with a queue
 * it only enqueues, and takes memory for as many rows as `parent` may reach at most. INVALID_ARGUMENT names
 * the axis. OUT_OF_RANGE for coordinates that the keys of the new set do not hold, RESOURCE_EXHAUSTED if the
 * set would have too many voxels. With a queue, the first call that needs the count returns these. */
MINUET_API minuet_status minuet_coordinates_reach(minuet_coordinates* parent,
                                                  const minuet_reach_options* options, void* stream,
                                                  minuet_coordinates** set);
MINUET_API void minuet_coordinates_destroy(minuet_coordinates* set);
/* Coordinates in the set, without duplicates. This and the next: any thread, after what another calls of the
 * queue; -1 where the device or its memory fails, or a capture began before the set was made. */
MINUET_API int64_t minuet_coordinates_count(const minuet_coordinates* set);
/* Rows of features on this set: as many as the caller gave, duplicates too; the count of a derived set. */
MINUET_API int64_t minuet_coordinates_rows(const minuet_coordinates* set);
/* int32 [rows, 1 + ndim] to device memory, in the order of the rows: the caller's, or that of the derived set
 * (minuet_coordinates_downsample). Enqueued on the stream. */
MINUET_API minuet_status minuet_coordinates_export(minuet_coordinates* set, int32_t* coordinates,
                                                   void* stream);

/* ---- kernel maps -------------------------------------------------------------------------------- */

typedef struct minuet_kernel_map_options {
  size_t struct_size;
  void* ext;
  int32_t kernel_size[MINUET_MAX_DIM]; /* offsets -(K-1)/2 ... K/2 per axis, x slowest; 0 counts as 1 */
  int32_t dilation[MINUET_MAX_DIM];    /* 0 counts as 1 */
  int32_t transposed;                  /* 1: the matching forward map with input and output swapped */
  int32_t dense_offsets;               /* 1: offsets are k - padding / dilation, k = 0 ... K-1, as of a dense
                                          convolution (minuet_coordinates_reach), and not centred */
  int32_t padding[MINUET_MAX_DIM];     /* 0 or more; with dense_offsets */
} minuet_kernel_map_options;
#define MINUET_KERNEL_MAP_OPTIONS_INIT                          \
  {                                                             \
    sizeof(minuet_kernel_map_options), 0, {0}, {0}, 0, 0, { 0 } \
  }

/* Which input feeds which output at which offset: out[q] takes in[q + offset_k] for every offset.
 * Offsets are in steps of dilation * the tensor stride of the input (of the output where transposed). The
 * same set as input and output makes a submanifold map. options is optional: one offset. Waits for sets not
 * yet counted and, without a queue, once for the stream. Sets and maps in a capture: FAILED_PRECONDITION. */
MINUET_API minuet_status minuet_kernel_map_create(minuet_coordinates* input, minuet_coordinates* output,
                                                  const minuet_kernel_map_options* options, void* stream,
                                                  minuet_kernel_map** map);
/* The same pairs in the other direction, which a transposed convolution goes back by ("inverse" elsewhere):
 * shares the memory of `forward`, and neither searches nor waits. */
MINUET_API minuet_status minuet_kernel_map_transpose(minuet_kernel_map* forward, minuet_kernel_map** map);
MINUET_API void minuet_kernel_map_destroy(minuet_kernel_map* map);
/* Number of offsets, and of pairs over all of them. Of a map with a queue, pairs are read back, with one
 * wait, for the first who asks: query_pairs and export, which are calls of the queue then, query_layer, and
 * prepare_maps of a convolution by gather-GEMM-scatter. */
MINUET_API int32_t minuet_kernel_map_volume(const minuet_kernel_map* map);
MINUET_API minuet_status minuet_kernel_map_query_pairs(minuet_kernel_map* map, int64_t* pairs);
/* int32 [pairs, 3] (k, input row, output row) to host memory, by k; rows in the caller's order. Waits. */
MINUET_API minuet_status minuet_kernel_map_export(minuet_kernel_map* map, int32_t* pairs, void* stream);

/* ---- one op ----------------------------------------------------------------------------------------- */

/* How convolutions are computed. Bits of results may differ between dataflows, and repeat with each. */
typedef int32_t minuet_dataflow;
enum {
  MINUET_DATAFLOW_AUTO = 0, /* by what is expected to be faster, layer by layer */
  MINUET_DATAFLOW_GATHER_GEMM_SCATTER = 1,
  MINUET_DATAFLOW_FUSED = 2 /* one kernel a layer; kernels of at most 4096 offsets, else UNIMPLEMENTED */
};

/* The last step of a convolution, which is the pointwise step of the same name and number (pointwise.h). */
typedef int32_t minuet_activation;
enum { MINUET_ACTIVATION_NONE = 0, MINUET_ACTIVATION_RELU = 1, MINUET_ACTIVATION_LEAKY_RELU = 2 };
enum { MINUET_ACTIVATION_GELU = 3, MINUET_ACTIVATION_GELU_TANH = 4, MINUET_ACTIVATION_SILU = 5 };
enum { MINUET_ACTIVATION_SIGMOID = 6, MINUET_ACTIVATION_TANH = 7 };

typedef struct minuet_convolution_options {
  size_t struct_size;
  void* ext;
  int32_t ndim; /* 1 to 4; 0: 3 */
  minuet_dtype dtype;
  int32_t in_channels, out_channels;   /* must be given: 1 to 65536 */
  int32_t kernel_size[MINUET_MAX_DIM]; /* 0 counts as 1, here and below */
  int32_t stride[MINUET_MAX_DIM];
  int32_t dilation[MINUET_MAX_DIM];
  int32_t groups; /* 0: 1; output channel c reads group c / (out_channels / groups). Above 1: fused only */
  int32_t submanifold; /* 1: the output set is the input set */
  int32_t transposed;
  minuet_activation activation;
  int32_t residual;    /* 1: run takes a residual that is added before the activation */
  const float* weight; /* host [k_x * k_y * ..., in_channels / groups, out_channels], rounded to dtype once */
  const float* scale;  /* host [out_channels], optional: batch norm, folded */
  const float* shift;  /* host [out_channels], optional: batch norm or bias */
  minuet_dataflow dataflow;
  float negative_slope;                /* of MINUET_ACTIVATION_LEAKY_RELU, finite; else 0 */
  int32_t allow_non_finite_parameters; /* 1: parameters are taken as they are (below) */
  int32_t dense_offsets;               /* 1: the kernel map has dense_offsets and this padding */
  /* Floats at weight: k_x * k_y * ... * in_channels / groups * out_channels; at scale and shift. */
  int64_t weight_count, scale_count, shift_count;
  int64_t without_values; /* 1: weight, scale and shift are null. The counts say whether there are scale and
                             shift, both or neither; executions get the values from minuet_parameters */
  int32_t padding[MINUET_MAX_DIM]; /* with dense_offsets */
} minuet_convolution_options;
#define MINUET_CONVOLUTION_OPTIONS_INIT                                                                      \
  {                                                                                                          \
    sizeof(minuet_convolution_options), 0, 3, 0, 0, 0, {0}, {0}, {0}, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, \
        0, 0, 0, {                                                                                           \
      0                                                                                                      \
    }                                                                                                        \
  }

/* A plan of one convolution, whose coordinate sets and kernel map are the caller's. Copies the parameters.
 * INVALID_ARGUMENT where one is infinite or NaN, or a weight is past the range of dtype, unless
 * allow_non_finite_parameters is 1. Such a weight then becomes infinite, and results are those of IEEE
 * arithmetic; but on a GPU the fused dataflow multiplies weights by 0 where an output has no input, so that a
 * weight that is not finite may make NaN of such outputs too. UNIMPLEMENTED says what is not built yet. */
MINUET_API minuet_status minuet_plan_create_convolution(minuet_context* context,
                                                        const minuet_convolution_options* options,
                                                        minuet_plan** plan);

/* By what a loss is differentiated through a convolution: one of these, or several, or-ed. */
typedef int32_t minuet_gradient;
enum { MINUET_GRADIENT_INPUT = 1, MINUET_GRADIENT_WEIGHT = 2, MINUET_GRADIENT_BIAS = 4 };

/* A plan that takes the gradient of a convolution's output to those of its input, weight and bias, as `which`
 * says. UNIMPLEMENTED so far: the message says what to do. INVALID_ARGUMENT for 0 and for other bits. */
MINUET_API minuet_status minuet_plan_create_convolution_gradient(minuet_context* context,
                                                                 const minuet_convolution_options* options,
                                                                 minuet_gradient which, minuet_plan** plan);

/* What a pooling makes, per channel, of the inputs that the map leads to one output. */
typedef int32_t minuet_reduction;
enum { MINUET_REDUCE_MAX = 0, MINUET_REDUCE_AVERAGE = 1, MINUET_REDUCE_SUM = 2 };

typedef struct minuet_pooling_options {
  size_t struct_size;
  void* ext;
  int32_t ndim; /* 1 to 4; 0: 3 */
  minuet_dtype dtype;
  int32_t channels;                    /* must be given: 1 to 65536 */
  int32_t kernel_size[MINUET_MAX_DIM]; /* 0 counts as 1, here and below */
  int32_t stride[MINUET_MAX_DIM];
  int32_t dilation[MINUET_MAX_DIM];
  minuet_reduction reduction;
  int32_t submanifold;   /* 1: the outputs are the input's set; stride 1 */
  int32_t transposed;    /* 1: the kernel map leads from the coarser set to the finer */
  int64_t winners;       /* 1: a second output says which inputs the maxima are (below); only with
                            MINUET_REDUCE_MAX */
  int32_t dense_offsets; /* 1: the kernel map has dense_offsets and this padding */
  int32_t padding[MINUET_MAX_DIM];
  int32_t reserved; /* 0 */
} minuet_pooling_options;
#define MINUET_POOLING_OPTIONS_INIT \
  { sizeof(minuet_pooling_options), 0, 3, 0, 0, {0}, {0}, {0}, 0, 0, 0, 0, 0, {0}, 0 }

/* A plan of one pooling, whose coordinate sets and kernel map are the caller's. Sums are fp32, offset by
 * offset in ascending order. An average is over the inputs that are there. An output with no input is 0, and
 * NaN propagates.
 *
 * With `winners`, minuet_execution_run_arrays gives a second output, i32 [output rows, channels]: for every
 * element of the first one, the row of the input that it comes from, in the caller's order of rows of the
 * map's input set (the first of duplicates). It is -1 where an output has no input. Of equal inputs the one
 * of the least offset wins; NaN wins over numbers, and the first NaN over later ones. The gradient of the
 * pooling adds each element of the output's gradient to that row. Poolings in networks have no winners. */
MINUET_API minuet_status minuet_plan_create_pooling(minuet_context* context,
                                                    const minuet_pooling_options* options,
                                                    minuet_plan** plan);

/* ---- networks --------------------------------------------------------------------------------------- */

/* Whose layout of weights a file has (share/doc/minuet/networks/WEIGHTS.md); what cannot be carried over is
 * INVALID_ARGUMENT. */
typedef int32_t minuet_weights_order;
enum {
  MINUET_WEIGHTS_AS_DESCRIBED = 0, /* by the description's "weights_order", else MINUET_WEIGHTS_MINUET */
  MINUET_WEIGHTS_MINUET = 1,       /* [k_x * k_y * k_z, C_in, C_out], x slowest */
  MINUET_WEIGHTS_MINKOWSKI = 2,
  MINUET_WEIGHTS_TORCHSPARSE = 3,
  MINUET_WEIGHTS_SPCONV = 4,     /* indices were batch, z, y, x; the shape tells spconv 1.x from 2.x */
  MINUET_WEIGHTS_SPCONV_XYZ = 5, /* indices were batch, x, y, z */
  MINUET_WEIGHTS_SPCONV1 = 6,    /* 1.x, where a weight's shape fits both versions */
  MINUET_WEIGHTS_SPCONV1_XYZ = 7,
  MINUET_WEIGHTS_SPCONV2 = 8, /* 2.x */
  MINUET_WEIGHTS_SPCONV2_XYZ = 9
};

typedef struct minuet_network_options {
  size_t struct_size;
  void* ext;
  const char* name;        /* that of a shipped network, or null where `description` is given */
  const char* description; /* JSON text of a network (share/doc/minuet/networks/README.md), or null */
  minuet_dtype dtype;
  const int32_t* channels; /* optional: other widths, as many as the description lists */
  int32_t channel_count;
  int32_t ndim;             /* 0: as described */
  const char* weights_path; /* safetensors, or a checkpoint of PyTorch; null: seeded random */
  uint64_t seed;
  minuet_weights_order weights_order;
  int32_t allow_unused;       /* 1: the file may have tensors that no layer uses */
  const char* weights_prefix; /* optional: what all names of the file begin with, "module." */
  const char* weights_map;  /* optional: JSON {"the file's name": "the description's", ...}, after the prefix;
                               an entry whose names end in a dot renames all below. Null: the map that is
                               shipped with the network of the description's name, if there is one */
  minuet_dataflow dataflow; /* of all layers */
  int32_t allow_non_finite_parameters; /* 1: parameters of the file are taken as they are (below) */
  int64_t without_values; /* 1: no values are drawn or read; executions get them from minuet_parameters. Not
                             with weights_path or seed */
  const int32_t*
      shape;           /* optional: other cells of the input along each axis than the description's "shape" */
  int32_t shape_count; /* the number of axes, or 0 */
  int32_t in_channels; /* 0: as described. Only for networks of one input */
  const char* weights_key; /* optional: the dict of a checkpoint that has the tensors, "model_state", or in
                              nested dicts "ema/state_dict". Null: the root, or the only usual key */
} minuet_network_options;
#define MINUET_NETWORK_OPTIONS_INIT \
  { sizeof(minuet_network_options), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/* A network that is built into the library. Strings live as long as the library. */
typedef struct minuet_shipped_network_info {
  size_t struct_size;
  const char* name;
  const char* summary;     /* one line */
  const char* description; /* JSON */
  const char* weights_map; /* JSON, as in minuet_network_options; null where there is none */
  /* The space in which its voxels are counted by default, in metres: cells are floor((p - low) / size), and
   * the shape is round((high - low) / size) + extra_cells. A voxel_size of 0: its input has no shape. */
  double range_low[3], range_high[3], voxel_size[3];
  int32_t extra_cells[3];
  int32_t reserved;
} minuet_shipped_network_info;
/* OUT_OF_RANGE past the last. */
MINUET_API minuet_status minuet_query_shipped_network(int32_t index, minuet_shipped_network_info* info);

/* Validates, folds batch norm into scale and shift, rounds weights to dtype. Needs no device.
 * NOT_FOUND where no such network is shipped, and where the weights file is not there.
 * INVALID_ARGUMENT for a weights file whose tensors are not those of the network (the message has up to eight
 * of each kind, minuet_last_error_detail all, a line for each), and, unless allow_non_finite_parameters is 1,
 * where a parameter is infinite or NaN, a weight past the range of dtype, a running variance negative, or a
 * folded scale or shift past float32. Where it is 1, results are as minuet_plan_create_convolution says; the
 * square root of a negative number, in a batch norm, is NaN. */
MINUET_API minuet_status minuet_plan_create_network(minuet_context* context,
                                                    const minuet_network_options* options,
                                                    minuet_plan** plan);
/* Reads the weights file of `options` as create does, with the same answers (dtype's too), and writes what
 * the network takes from it: a safetensors file in Minuet's order and by the description's names, float32. A
 * network of that file gives the same bits. Its metadata say "minuet.weights_order": "minuet", which goes
 * before the description's order; another weights_order of the options is then INVALID_ARGUMENT. The file is
 * there whole or not at all; FAILED_PRECONDITION where it cannot be written. */
MINUET_API minuet_status minuet_weights_convert(const minuet_network_options* options,
                                                const char* output_path);
/* ---- plans: immutable, shared by devices and threads ----------------------------------------------- */

MINUET_API void minuet_plan_destroy(minuet_plan* plan);

/* Chooses and compiles every kernel that any cloud may need on `arch` ("sm_90a", or a device's arch; "cpu"
 * has no kernels) into the cache. No GPU, no driver. visit is optional and called once a kernel. */
MINUET_API minuet_status minuet_plan_compile(minuet_plan* plan, const char* arch, minuet_kernel_visitor visit,
                                             void* user);
/* Uploads weights and loads the kernels that were compiled for the device's architecture, or, where there are
 * none, for the nearest older one of the same major capability that it runs ("sm_80" on an sm_86); brings in
 * cuBLASLt's kernels for every size of cloud, too, by running each once. On as many threads as there are
 * cores. FAILED_PRECONDITION where there are none either; the CPU device needs a compile for "cpu". */
MINUET_API minuet_status minuet_plan_load(minuet_plan* plan, minuet_device* device);

/* Strings live as long as the plan. The results of every plan are bitwise repeatable on one device. */
typedef struct minuet_plan_info {
  size_t struct_size;
  const char* name; /* of the network; "convolution" */
  minuet_dtype dtype;
  int32_t ndim, in_channels, out_channels; /* of the first input and the first output */
  int32_t levels, layers;                  /* coordinate sets, ops */
  int32_t output_level;                    /* of the first output. 0: it is in the caller's row order */
  int32_t inputs, outputs; /* tensors that run takes and gives (minuet_plan_query_input, _output) */
  int32_t maps;            /* kernel maps that prepare_maps takes; 0 where prepare builds them */
  int32_t missing_head; /* 1: a head is left out, for nothing says how wide it is: outputs are no classes */
  int32_t parameter_tensors; /* for minuet_plan_query_parameter */
  int64_t parameters;        /* numbers, scale and shift counted for a batch norm */
} minuet_plan_info;
MINUET_API minuet_status minuet_plan_query(minuet_plan* plan, minuet_plan_info* info);

/* One input or output of a run. The name is that of the description, else "input" and "output"; of a single
 * op, "residual" and "winners" too. */
typedef struct minuet_tensor_info {
  size_t struct_size;
  const char* name;
  int64_t shape[MINUET_MAX_RANK];        /* -1 where the plan does not decide: rows, and the batch size of a
                                            dense output */
  int32_t tensor_stride[MINUET_MAX_DIM]; /* of its level; 0 where the set is the caller's */
  int32_t rank;                          /* 2: [rows, channels]; 3 to 6: a dense output */
  int32_t level;                         /* for minuet_execution_query_level; 0: in the caller's row order */
  int32_t channels;
  minuet_element element; /* of an array of minuet_execution_run_arrays */
  int32_t ndim, axes;     /* of its level: how many, and which: bit a stands for axis a of the plan */
} minuet_tensor_info;
/* OUT_OF_RANGE past the last. */
MINUET_API minuet_status minuet_plan_query_input(minuet_plan* plan, int32_t input, minuet_tensor_info* info);
MINUET_API minuet_status minuet_plan_query_output(minuet_plan* plan, int32_t output,
                                                  minuet_tensor_info* info);

/* The description of a network as JSON, with the widths and the heads that the plan has: the same text for
 * all descriptions of the same layers, names and fields. A plan that is made of it has the same program;
 * dtype, dataflow and weights are options. "" for a plan of one op. Like minuet_last_error. */
MINUET_API size_t minuet_plan_description(minuet_plan* plan, char* buffer, size_t size);

/* One parameter tensor by its name and shape in a weights file; "weight" of a convolution, and, where it has
 * either, "scale" and "shift". Strings live as long as the plan. */
typedef struct minuet_parameter_info {
  size_t struct_size;
  const char* name;
  int64_t shape[4];
  int32_t rank;
  int32_t reserved;
} minuet_parameter_info;
/* OUT_OF_RANGE past the last. */
MINUET_API minuet_status minuet_plan_query_parameter(minuet_plan* plan, int32_t parameter,
                                                     minuet_parameter_info* info);

/* ---- parameters: weights as data -------------------------------------------------------------------- */

typedef struct minuet_parameters_options {
  size_t struct_size;
  void* ext;
  int64_t master; /* 1: also keeps weights in f32, as minuet_parameters_get gives them back then */
} minuet_parameters_options;
#define MINUET_PARAMETERS_OPTIONS_INIT \
  { sizeof(minuet_parameters_options), 0, 0 }

/* One set of values of a plan's parameters on a device, in memory of the device, for any number of executions
 * (minuet_execution_options.parameters): training, adapters, weights that are operands of a compiler. It
 * starts with no values, whatever the plan has. The plan must be loaded on the device: FAILED_PRECONDITION.
 * INVALID_ARGUMENT where the plan has no parameters. options is optional. */
MINUET_API minuet_status minuet_parameters_create(minuet_plan* plan, minuet_device* device,
                                                  const minuet_parameters_options* options,
                                                  minuet_parameters** parameters);
/* Waits for what it has enqueued. Executions keep it alive. When both are gone, no graph that captured
 * minuet_parameters_set, minuet_parameters_get or a run with these values may be replayed. */
MINUET_API void minuet_parameters_destroy(minuet_parameters* parameters);
/* Sets `count` parameters, numbered as for minuet_plan_query_parameter, to values[i]: arrays of
 * f32, f16, bf16 or f64 of the parameter's shape, weights in the shape and order of `order` (0: as the
 * network's description says, else Minuet's). indices is optional: the first `count`. Numbers become f32,
 * weights then the plan's dtype; they are taken as they are, not finite too. Batch norms are folded again.
 *
 * For device memory it only enqueues, and may be captured: each replay reads the same arrays anew. Where an
 * array is on the host it waits, and a capture is FAILED_PRECONDITION. A captured call counts as setting,
 * though values come with the replays only. Its graph writes what the kernels read that executions had
 * selected before: a prepare that selects another kernel for such a weight is FAILED_PRECONDITION, until
 * minuet_parameters_release_captures.
 *
 * Calls of this and of minuet_parameters_get, from any thread and on any streams, are ordered among
 * themselves, but for captured ones. Runs see the values that were set before them on the device: with them
 * the caller orders. OUT_OF_RANGE for a number that is no parameter's, INVALID_ARGUMENT, with the parameter's
 * name, for an array that does not fit: nothing is set. */
MINUET_API minuet_status minuet_parameters_set(minuet_parameters* parameters, const int32_t* indices,
                                               const minuet_array* values, int32_t count,
                                               minuet_weights_order order, void* stream);
/* Copies a value to an array of f32, f16 or bf16, contiguous, of the shape that minuet_plan_query_parameter
 * gives. With `master`, f32 has the same bits that were set as f32; without it, weights are as rounded to the
 * plan's dtype. Enqueued, or waiting, as set is. FAILED_PRECONDITION where the parameter was never set. */
MINUET_API minuet_status minuet_parameters_get(minuet_parameters* parameters, int32_t index,
                                               const minuet_array* value, void* stream);
/* Says that no graph which captured minuet_parameters_set or a run with these parameters is replayed any
 * more, and frees what only such graphs use. */
MINUET_API minuet_status minuet_parameters_release_captures(minuet_parameters* parameters);

/* ---- plans as bytes ---------------------------------------------------------------------------------- */

enum { MINUET_SERIALIZE_WITHOUT_VALUES = 1 }; /* the plan that is made again has no values */
/* Writes a plan to `buffer`: its problem with all options and, of a network, its description; its parameters,
 * as they are after folding and rounding, where it has values; the tuning results by which
 * it was created; for every arch ("sm_80", "sm_90a", ...; "cpu" adds nothing, and null and 0 are fine) the
 * kernels that any cloud may need; the version of the library, and the compilers' versions. No file is named
 * in it. Needs no GPU: kernels are found or compiled as by minuet_plan_compile, with the same errors.
 *
 * The bytes are the caller's: a file, a message to other processes, data in a program. The same plan, kernels
 * and archs, in any order, give the same bytes in every process. `flags` is 0 or
 * MINUET_SERIALIZE_WITHOUT_VALUES. *needed gets the number of bytes. buffer null and size 0: no more is done.
 * OUT_OF_RANGE where `size` is less: *needed is written then, and buffer is not. After either the plan keeps
 * the bytes until a call for the same archs and flags takes them, so that the work is done once.
 * FAILED_PRECONDITION where a kernel is there for an older arch only, in a bundle: the message says which.
 * Any thread may call it at any time. */
MINUET_API minuet_status minuet_plan_serialize(minuet_plan* plan, const char* const* archs,
                                               int32_t arch_count, uint32_t flags, void* buffer, size_t size,
                                               size_t* needed);
/* Makes the plan again, to be compiled, loaded and destroyed like any other. Its compile for an arch that
 * was serialized needs neither NVRTC nor a cache folder, and compiles nothing: its kernels are added to the
 * context's bundles, as by minuet_context_add_bundle_memory, and stay there as long as the context, for its
 * coordinate sets too. For another arch it compiles as any plan does. Tuning results of the context have no
 * part in it. The bytes are read during the call only.
 *
 * Every library of the same 0.x reads the bytes; where a patch release changed a kernel or tuning, it is as
 * if the bytes lacked the old one. FAILED_PRECONDITION for another version of library or format.
 * INVALID_ARGUMENT with the reason for what is no serialized plan, was cut short, has bytes behind it, or has
 * any byte changed (by a SHA-256 of all). No plan is made then, and the context is as it was. The digest is
 * no signature: bytes of others' run on the GPU, so that they need a trusted source. */
MINUET_API minuet_status minuet_plan_deserialize(minuet_context* context, const void* bytes, size_t size,
                                                 minuet_plan** plan);

/* ---- compiling in the background ------------------------------------------------------------------- */

typedef struct minuet_job minuet_job;
/* Called once at the end, from the job's own thread, with minuet_last_error of that thread; maybe before the
 * call that started the job has returned, but after it has stored the job. It may destroy the job, and must
 * not wait for it. */
typedef void (*minuet_job_callback)(minuet_status status, void* user);

/* minuet_plan_compile in a thread of its own. done is optional. The plan may be destroyed before. */
MINUET_API minuet_status minuet_plan_compile_async(minuet_plan* plan, const char* arch,
                                                   minuet_job_callback done, void* user, minuet_job** job);
/* Asks the job to stop; a compile that is running is stopped too. Returns at once. */
MINUET_API void minuet_job_cancel(minuet_job* job);
/* 1 where it has ended. */
MINUET_API int32_t minuet_job_done(const minuet_job* job);
/* Waits for the end; gives its status: CANCELLED where it was stopped before. */
MINUET_API minuet_status minuet_job_wait(minuet_job* job);
/* Cancels and waits. */
MINUET_API void minuet_job_destroy(minuet_job* job);

/* ---- compiling ahead, for GPUs that are elsewhere -------------------------------------------------- */

/* What has become of one kernel. Strings live during the call. */
typedef struct minuet_precompile_step {
  size_t struct_size;
  int64_t done, total; /* this kernel counted */
  const char* name;
  const char* arch;
  const minuet_kernel_info* kernel; /* null where it failed */
  const char* error;                /* null where it did not */
} minuet_precompile_step;

typedef struct minuet_bundle_info {
  size_t struct_size;
  const char* arch;
  const char* path;
  const char* sha256; /* of the whole file, 64 hex digits */
  int64_t bytes, kernels;
} minuet_bundle_info;

typedef struct minuet_precompile_options {
  size_t struct_size;
  void* ext;
  minuet_plan* const* plans;
  int32_t plan_count;
  int32_t reserved;
  const char* requests_path; /* list that record_path made, or null */
  const char* const* archs;  /* "sm_80", "sm_90a", "compute_90" for PTX; none: as recorded. "cpu" has no
                                kernels  and is INVALID_ARGUMENT */
  int32_t arch_count;
  int32_t jobs;                 /* helper programs; 0: as many as there are cores, and memory for */
  const char* output_directory; /* gets minuet-<arch>.bundle; made where it is not there; null: no bundle is
                                   written, and kernels go to the cache folder alone */
  /* Optional callbacks: step comes from a thread of the library's, never two at once; the others come from
   * the calling thread. */
  void (*step)(const minuet_precompile_step* step, void* user);
  void (*bundle)(const minuet_bundle_info* bundle, void* user);
  int32_t (*cancelled)(void* user); /* asked every 100 ms or so; 1 stops soon */
  void* user;
} minuet_precompile_options;
#define MINUET_PRECOMPILE_OPTIONS_INIT \
  { sizeof(minuet_precompile_options), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

typedef struct minuet_precompile_result {
  size_t struct_size;
  int64_t kernels, compiled, found, failed; /* found: in the cache folder or in the bundle that was there */
  int64_t bytes;                            /* of all cubins */
  double seconds;
} minuet_precompile_result;

/* Compiles every kernel that any cloud may need, for every arch, in helper programs (minuet-compile, which
 * is installed beside the library), and writes one bundle an arch: no GPU, no driver. The same kernels give
 * the same bytes. A bundle that is already there keeps its other kernels. result is optional and is filled in
 * once work has begun: OK where all are there; the first failure's status where kernels or bundles are
 * missing; CANCELLED where it was stopped. The bundles then hold what is done. Two calls may write to one
 * directory. */
MINUET_API minuet_status minuet_precompile(minuet_context* context, const minuet_precompile_options* options,
                                           minuet_precompile_result* result);

/* ---- executions ---------------------------------------------------------------------------------------- */

/* How a network's coordinate sets and kernel maps are made. The same sets and pairs, in another order of rows
 * (minuet_execution_run). */
typedef int32_t minuet_map_method;
enum {
  MINUET_MAPS_AUTO = 0,   /* indexed where that is possible, else sorted */
  MINUET_MAPS_SORTED = 1, /* keys are sorted, and sorted keys are searched (paper 5.1) */
  /* A hash table holds the blocks that have voxels, so that the cost is by occupied voxels, not by the
   * extent. Takes about 90 bytes of memory a coordinate and level; in capacity mode, a voxel of a level's
   * capacity. Sorted all the same: networks in which an op makes a level in a run, and those of more than 16
   * levels, because one index holds all levels and is made before the run. More than 2^26 blocks or
   * superblocks in one level are RESOURCE_EXHAUSTED: use MINUET_MAPS_SORTED.
   *
   * Without bounds, the keys of the table have a range of batches 0 to 8191 and of these coordinates:
   *   one axis     -2^30 to 2^30 - 4097
   *   two axes     -2^30 to 2^30 - 65
   *   three axes   -2^20 to 2^20 - 17
   *   four axes    -2^15 to 2^15 - 17 on axes 0 and 1, to 2^15 - 5 on axis 2, -2^14 to 2^14 - 5 on axis 3
   * Sets that are reached (minuet_coordinates_reach) may need more key bits; the axes then lose 1/64, or, if
   * that is too little, the batches a half or more.
   * Declared bounds are the range instead, wider or moved, as far as 64 bits of key hold it. In exact mode a
   * cloud outside the range costs two more waits and a second build; the range then fits it and clouds like
   * it. */
  MINUET_MAPS_INDEXED = 2
};

typedef struct minuet_execution_options {
  size_t struct_size;
  void* ext;
  int64_t max_points; /* room for coordinates and maps to begin with. The rest of the arena is sized by
                         the clouds seen: the first one, and any that needs more, allocates */
  int32_t keep_first_duplicate; /* as for coordinate sets */
  int32_t has_bounds; /* 1: every coordinate lies in [least, greatest]. Indexed, it is the range of the keys;
                         sorted, it saves the read-back of the bounds */
  int32_t least[1 + MINUET_MAX_DIM];
  int32_t greatest[1 + MINUET_MAX_DIM];
  /* Optional: device memory of the caller, 256-byte aligned, idle at create. It never grows: a cloud that
   * needs more is RESOURCE_EXHAUSTED and says how much. */
  void* workspace;
  int64_t workspace_bytes;
  minuet_queue* queue; /* optional: scratch lies there, and not in the arena */
  /* Bytes that a layer's gather and GEMM buffers (paper 5.2) may take together; 0: 4 KiB a voxel of the
   * finest level, and at least 64 MiB. A layer with more pairs goes through them in slices of whole offsets,
   * which orders its sums differently: bits may differ with this number, and repeat with it. One offset's
   * pairs always fit. */
  int64_t scratch_bytes;
  /* Optional: the most voxels of each level, level_count as many as minuet_plan_info.levels, which puts the
   * execution in capacity mode (below). Level 0's is that of the coordinates too. */
  const int64_t* level_capacity;
  int32_t level_count;
  int32_t key_bits; /* 32 or 64 (0: 64), in capacity mode without bounds, and of no effect where maps are
                       indexed: of a voxel's key, all fields */
  minuet_map_method map_method;
  int32_t defer_workspace; /* 1: create takes no memory but the queue's, and minuet_execution_set_workspace
                              gives it before the first prepare; not with `workspace` */
  /* Optional: run uses these values; null: the plan's own. A prepare that selects a kernel for the first time
   * then allocates its form of the weights on the device and waits for earlier calls of
   * minuet_parameters_set, in capacity mode at create. */
  minuet_parameters* parameters;
  int64_t parameter_inputs; /* 1: run takes the plan's parameters as inputs behind the features, in the order
                               of minuet_plan_query_parameter; not with `parameters`. The execution has device
                               memory for them, which workspace_bytes does not count */
  /* The number of batch items: each batch index is less. Items without voxels are fine, at the end too. 0:
   * not declared. A network with to_dense, birds_eye or global_pool needs it: INVALID_ARGUMENT. */
  int64_t batch_size;
} minuet_execution_options;
#define MINUET_EXECUTION_OPTIONS_INIT \
  { sizeof(minuet_execution_options), 0, 0, 0, 0, {0}, {0}, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/* Tells how many bytes of workspace (256-byte aligned) an execution of the plan needs. It needs no GPU, no
 * driver and no loaded plan, and allocates no device memory. The plan must have been compiled for just this
 * `arch` ("sm_90a", "cpu"; as in minuet_plan_compile), or the answer is FAILED_PRECONDITION. Any thread may
 * call it at any time.
 *
 * `options` is optional. Where it gives level_capacity, *bytes is exactly the workspace_bytes that
 * minuet_execution_query tells of an execution with these options; max_points and max_neighbours must be 0.
 * Otherwise *bytes is enough, in exact mode, for every cloud of at most max_points points whose voxels have
 * at most max_neighbours inputs per output and kernel map on average, themselves counted (LiDAR: 5 to 6,
 * indoor: 10 to 16, at most the number of offsets), on every GPU of the architecture and with every cuBLASLt;
 * with MINUET_MAPS_AUTO for either method. *bytes grows with each capacity, with max_points and with
 * max_neighbours. For "cpu" it also depends on the number of threads (cpu_threads, and the CPUs of this
 * machine).
 *
 * INVALID_ARGUMENT where the options set workspace, workspace_bytes or defer_workspace, because the workspace
 * is what is asked for, or queue or parameters, which belong to a device: an execution with a queue needs
 * less, and parameters and parameter_inputs change nothing. */
MINUET_API minuet_status minuet_plan_workspace_bytes(minuet_plan* plan, const char* arch,
                                                     const minuet_execution_options* options,
                                                     int64_t max_points, double max_neighbours,
                                                     int64_t* bytes);

/* One caller's use of a loaded plan on a device: arena, streams, events, counts. options is optional.
 * FAILED_PRECONDITION where the plan is not loaded on the device, or has no values of its own and none are
 * given. */
MINUET_API minuet_status minuet_execution_create(minuet_plan* plan, minuet_device* device,
                                                 const minuet_execution_options* options,
                                                 minuet_execution** execution);
/* Waits for what it has enqueued (with a queue: its stream, unless captured), and for another's call. */
MINUET_API void minuet_execution_destroy(minuet_execution* execution);

/* No prepare may be captured but in capacity mode: FAILED_PRECONDITION.
 *
 * For networks: builds all coordinate sets and kernel maps for one cloud (device memory int32
 * [count, 1 + ndim], read only during the call). Waits for the stream: once; three times where maps are
 * indexed, no bounds were given, and the cloud is outside the range of the keys; at most twice where they are
 * sorted, once where bounds were given; more where the arena grows. Duplicates, coordinates outside the
 * bounds, an extent that 64-bit keys do not hold: an error. After a failure no cloud is prepared.
 *
 * A network's shape and batch_size bound the coordinates too: they lie in [0, shape), batch indices in
 * [0, batch_size). Where both are declared, they are the bounds, unless has_bounds gives narrower ones;
 * bounds that exceed them are INVALID_ARGUMENT at create. A coordinate outside is OUT_OF_RANGE, in capacity
 * mode MINUET_CLOUD_OUT_OF_BOUNDS. */
MINUET_API minuet_status minuet_execution_prepare(minuet_execution* execution, const int32_t* coordinates,
                                                  int64_t count, void* stream);

/* Capacity mode, for networks whose layers all run by the fused dataflow: sizes live on the device. prepare
 * and run only enqueue and may be captured, together, in a graph that is replayed for other coordinates,
 * features and counts. Tensors have level_capacity rows; those of the input past the count are not read,
 * those of the output are zeros. Kernels go by the capacities, whatever numbers of neighbours they are for,
 * so that bits may differ from exact mode. A cloud that does not fit leaves an output of zeros, and a status
 * word on the device has at least one of the bits that apply. Calls and replays must be ordered. The range of
 * the index's keys cannot follow the clouds here: declare bounds where the default (MINUET_MAPS_INDEXED) is
 * too narrow. */
enum {
  MINUET_CLOUD_OUT_OF_BOUNDS = 1, /* outside the declared bounds, the network's shape or the batch size */
  MINUET_CLOUD_NEGATIVE_BATCH = 2,
  MINUET_CLOUD_DUPLICATE = 4,       /* unless keep_first_duplicate */
  MINUET_CLOUD_PAST_CAPACITY = 8,   /* the count, or the voxels of a level; a negative count too */
  MINUET_CLOUD_KEY_TOO_NARROW = 16, /* sorted: key_bits do not hold the extent: 64, or larger voxels */
  MINUET_CLOUD_TOO_FAR = 32,        /* sorted: a coarser level's coordinates would leave 32 bits */
  MINUET_CLOUD_INDEX_FULL = 64,     /* indexed: voxels so far past a level's capacity that no slot is left */
  MINUET_CLOUD_OUTSIDE_KEYS = 128   /* indexed without bounds: outside the range of the keys */
};
/* As prepare, with the number of coordinates in device memory: int32 [1], read whenever the work runs. The
 * buffer at `coordinates` has one row or more, and as many as each count says; rows past the count are not
 * read. The host does not know the count, so that only the first row is checked against the workspace. */
MINUET_API minuet_status minuet_execution_prepare_on_device(minuet_execution* execution,
                                                            const int32_t* coordinates, const int32_t* count,
                                                            void* stream);
/* Device memory that each prepare writes: the status word, and int32 [1 + levels], the coordinates taken and
 * each level's voxels. They stay there as long as the execution lives and keeps its memory
 * (minuet_execution_set_workspace). FAILED_PRECONDITION while it has none (defer_workspace). */
MINUET_API minuet_status minuet_execution_query_cloud(minuet_execution* execution, const uint32_t** status,
                                                      const int32_t** counts);
/* Copies the same to memory of the caller on the device: status uint32 [1], counts int32 [count], count = 1 +
 * levels, or null and 0. Pinned host memory is fine too. Only enqueues, and may be captured;
 * FAILED_PRECONDITION before the first prepare. INVALID_ARGUMENT where a target lies in the workspace or in
 * what query_cloud gives. */
MINUET_API minuet_status minuet_execution_copy_cloud(minuet_execution* execution, uint32_t* status,
                                                     int32_t* counts, int32_t count, void* stream);
/* The same on the host; waits. counts: int32 [count], count = 1 + levels, or null and 0. */
MINUET_API minuet_status minuet_execution_read_cloud(minuet_execution* execution, void* stream,
                                                     uint32_t* status, int32_t* counts, int32_t count);
/* After a prepare in exact mode: capacities of factor, 1 or more, times its cloud's levels, in 256s. */
MINUET_API minuet_status minuet_execution_suggest_capacities(minuet_execution* execution, double factor,
                                                             int64_t* level_capacity, int32_t level_count);

/* For a plan of one op: takes `count` kernel maps, as many as minuet_plan_info.maps says, and enqueues
 * what makes the views of them that the op's kernels read; allocates where the arena is too small. Waits for
 * nothing but, where an earlier prepare_maps of this execution is still under way on the device, for that;
 * without a queue, where the arena grows, for the stream; and for the pairs of a map where it is the first to
 * ask (minuet_kernel_map_query_pairs). After a failure no map is prepared. The execution keeps the maps alive
 * until the next prepare_maps. */
MINUET_API minuet_status minuet_execution_prepare_maps(minuet_execution* execution,
                                                       minuet_kernel_map* const* maps, int32_t count,
                                                       void* stream);
/* The same for `count` executions of one queue, the i-th with maps[i], in about as many launches as one
 * takes. Their workspaces must not overlap. Arguments that are refused change nothing; after any other
 * failure none is prepared. */
MINUET_API minuet_status minuet_executions_prepare_maps(minuet_execution* const* executions,
                                                        minuet_kernel_map* const* maps, int32_t count,
                                                        void* stream);
/* Rows and channels of the first output, or of any, for what is prepared. An input on another level than 0
 * has as many rows as minuet_execution_query_level says. OUT_OF_RANGE past the last output.
 * FAILED_PRECONDITION where it is a dense array (minuet_plan_query_output). */
MINUET_API minuet_status minuet_execution_output_shape(minuet_execution* execution, int64_t* rows,
                                                       int32_t* channels);
MINUET_API minuet_status minuet_execution_output_shape_of(minuet_execution* execution, int32_t output,
                                                          int64_t* rows, int32_t* channels);
/* Networks take the inputs and give the outputs of their description, in its order: matrices [rows of the
 * level, channels]. The first input has the caller's `count` rows. Rows of level 0 are in the caller's order,
 * others in an order that depends on the coordinates and the tensor stride of that level alone (ascending
 * where maps are sorted). A convolution
 * takes its input [rows of the map's input set, in_channels], where it has one its residual [output rows,
 * out_channels], and one output [rows of the map's output set, out_channels] (minuet_coordinates_rows). With
 * parameter_inputs, each parameter follows as a matrix of any dtype: its last axis is the channels, and all
 * other axes are the rows; a run sets them as minuet_parameters_set does. Where a parameter was never set, a
 * run with `parameters` is FAILED_PRECONDITION and names it. Outputs are wholly written. Only enqueues: no
 * wait, no allocation, no compile; after one plain run for what is prepared it may be captured. May run again
 * with other tensors. After a failure the output is undefined. No output may share a byte with an input,
 * another output or the caller's workspace, and no input with that. Two column ranges of one wider matrix do
 * not overlap. Matrices of different row strides are accepted only if one ends before the other begins.
 * Inputs may overlap inputs. FAILED_PRECONDITION for a plan with winners or a dense output. */
MINUET_API minuet_status minuet_execution_run(minuet_execution* execution, const minuet_tensor* inputs,
                                              int32_t input_count, const minuet_tensor* outputs,
                                              int32_t output_count, void* stream);
/* The same run, with all its rules, with arrays in place of matrices, for outputs of other elements too. A
 * matrix of features is an array of rank 2, [rows, channels], of f32 for plans of MINUET_F32 and MINUET_TF32,
 * else of f16 or bf16 as the plan. stride[1] is 1, stride[0] and data are as minuet_tensor allows; the stride
 * of an axis of one element does not matter, and data may be null where there are no rows. Winners
 * (minuet_pooling_options) are the second output, of i32, under the same rules, as an argmax is an output. A
 * dense output (to_dense, birds_eye) is one contiguous array of rank 3 to 6 whose first axis is the batch,
 * [batch_size, ...], which begins on a multiple of an element's size; every element is written, with 0 where
 * there is no voxel. With parameter_inputs, each parameter follows as an array of its own shape, as
 * minuet_parameters_set takes it in Minuet's order, of f32, f16, bf16 or f64, with any strides. Arrays and
 * what they point to are the caller's; the structs are read during the call only. INVALID_ARGUMENT names the
 * array that does not fit, or that is on_host on a GPU. An execution serves one thread at a time, as for
 * minuet_execution_run. */
MINUET_API minuet_status minuet_execution_run_arrays(minuet_execution* execution, const minuet_array* inputs,
                                                     int32_t input_count, const minuet_array* outputs,
                                                     int32_t output_count, void* stream);
/* int32 [rows, 1 + ndim of its level] to device memory, in the row order of the first output, or of any.
 * Enqueued. For networks; the sets of a convolution are the caller's. OUT_OF_RANGE past the last output. */
MINUET_API minuet_status minuet_execution_output_coordinates(minuet_execution* execution,
                                                             int32_t* coordinates, void* stream);
MINUET_API minuet_status minuet_execution_output_coordinates_of(minuet_execution* execution, int32_t output,
                                                                int32_t* coordinates, void* stream);

/* What a caller must know of this execution before it gives it memory or captures its calls. */
typedef struct minuet_execution_info {
  size_t struct_size;
  int32_t has_capacities;     /* 1: capacity mode */
  int32_t prepare_capturable; /* 1: prepare may be captured: in capacity mode, on a GPU */
  int32_t run_capturable;     /* 1: run may be captured, as it says: on a GPU */
  minuet_map_method
      map_method; /* of the sets and maps that prepare makes; MINUET_MAPS_AUTO for a single op */
  /* What the workspace needs (counters have what there is). In capacity mode it suffices for every cloud, and
   * depends on the compiled plan with its tuning, the options and the library's version, on the CPU device
   * also on its threads. In exact mode it is what max_points need, and after a prepare, what that needed, as
   * far as it went if it failed: ask before minuet_execution_set_workspace. With a queue, scratch lies there
   * and does not count. */
  int64_t workspace_bytes;
} minuet_execution_info;
#define MINUET_EXECUTION_INFO_INIT \
  { sizeof(minuet_execution_info), 0, 0, 0, 0, 0 }
/* FAILED_PRECONDITION while another thread is in the execution, as for its other calls. */
MINUET_API minuet_status minuet_execution_query(minuet_execution* execution, minuet_execution_info* info);
/* Gives the execution other device memory (bytes, 256-byte aligned, idle) for good in place of what it has,
 * as often as the caller likes. Waits for `stream` and no other: earlier calls on another one must be done,
 * or ordered before it by an event. The memory it had may be freed then. FAILED_PRECONDITION in a capture,
 * and where a captured graph uses that memory (first minuet_execution_release_captures, after which the graph
 * must not be replayed); like wrong arguments and a failed wait, this changes nothing. Otherwise nothing is
 * prepared afterwards. RESOURCE_EXHAUSTED where the new memory is too small for level_capacity or max_points:
 * the execution then has no memory at all, as after any later failure, and prepare is FAILED_PRECONDITION. */
MINUET_API minuet_status minuet_execution_set_workspace(minuet_execution* execution, void* workspace,
                                                        int64_t bytes, void* stream);

/* A graph that captured a run reads the memory of what was prepared then. A later prepare in exact mode
 * therefore leaves it alone, and takes other memory; in a workspace of the caller's it is
 * FAILED_PRECONDITION. (In capacity mode a graph reads what was prepared last.) This call frees what was
 * left: no graph of this execution's runs is replayed any more, or under way. */
MINUET_API minuet_status minuet_execution_release_captures(minuet_execution* execution);

/* What one prepare and run did. */
typedef struct minuet_execution_counters {
  size_t struct_size;
  int64_t kernels, copies, fills, matmuls;
  int64_t host_syncs;  /* waits inside the calls */
  int64_t allocations; /* of the driver: 0 when warm */
  int64_t workspace_bytes;
  int64_t gemm_lookups; /* of cuBLASLt's algorithms: load makes those that layers need, so that calls make
                           none, but for a single convolution's rows further apart than its channels */
} minuet_execution_counters;
#define MINUET_EXECUTION_COUNTERS_INIT \
  { sizeof(minuet_execution_counters), 0, 0, 0, 0, 0, 0, 0, 0 }
/* Since the last reset. */
MINUET_API minuet_status minuet_execution_query_counters(minuet_execution* execution,
                                                         minuet_execution_counters* counters);
MINUET_API minuet_status minuet_execution_reset_counters(minuet_execution* execution);

/* Timed stages of the last prepare and the last run since profiling was turned on, milliseconds; it adds
 * events between stages. A layer of the fused dataflow is of the stage gemm, a pooling of the stage gather.
 */
typedef struct minuet_stage_times {
  size_t struct_size;
  double sort, map, gather, gemm, scatter, other;
} minuet_stage_times;
#define MINUET_STAGE_TIMES_INIT \
  { sizeof(minuet_stage_times), 0, 0, 0, 0, 0, 0 }
MINUET_API minuet_status minuet_execution_set_profiling(minuet_execution* execution, int32_t on);
/* Waits. FAILED_PRECONDITION without profiling. */
MINUET_API minuet_status minuet_execution_query_stages(minuet_execution* execution,
                                                       minuet_stage_times* times);

/* Levels and layers of an execution's plan, for what is prepared (counts 0 before that). A level's tensor
 * stride is 0 before that where its set is the caller's. */
typedef struct minuet_level_info {
  size_t struct_size;
  int32_t tensor_stride[MINUET_MAX_DIM];
  int64_t voxels;
  minuet_map_method map_method; /* by which its set was made; MINUET_MAPS_AUTO before prepare */
  int32_t ndim; /* its axes, fewer than the plan's below a collapse, 0 of a level of batch items */
} minuet_level_info;
typedef struct minuet_layer_info {
  size_t struct_size;
  const char* name; /* the parameter prefix; lives as long as the execution */
  int32_t kernel_size[MINUET_MAX_DIM], stride[MINUET_MAX_DIM]; /* on the axes of the plan */
  int32_t in_channels, out_channels, transposed;
  int64_t pairs, padded_rows; /* useful rows of the GEMMs; rows added by padding */
  int32_t gemm_groups;        /* GEMMs, one for each group of offsets */
  minuet_dataflow dataflow;   /* that was chosen; MINUET_DATAFLOW_AUTO before prepare, and of other ops */
  /* The one kernel that runs the layer on a GPU, with its Spec, or "" where several do. For a shortcut
   * or a chain that the kernel of the layer before it computes, that kernel. */
  const char* kernel;
  double gather, gemm, scatter; /* milliseconds, of what minuet_execution_query_stages told last; else 0 */
} minuet_layer_info;
MINUET_API minuet_status minuet_execution_query_level(minuet_execution* execution, int32_t level,
                                                      minuet_level_info* info);
MINUET_API minuet_status minuet_execution_query_layer(minuet_execution* execution, int32_t layer,
                                                      minuet_layer_info* info);
/* The first layer, for query_layer, that wrote a number past its dtype (infinite or NaN) in any run since
 * prepare, or -1. What comes after it means nothing, finite numbers too: a ReLU makes 0 of minus infinity.
 * Waits for the stream. */
MINUET_API minuet_status minuet_execution_find_overflow(minuet_execution* execution, void* stream,
                                                        int32_t* layer);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MINUET_MINUET_H_ */
