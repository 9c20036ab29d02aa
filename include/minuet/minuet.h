/* Minuet: 3-D sparse convolution networks on NVIDIA GPUs and on the CPU. This header is enough to run
 * networks and single ops. Beside it: parameters.h (weights as data), precompile.h (kernels for GPUs that
 * are elsewhere), tuning.h, diagnostics.h (counts and times), pyramid.h (runs that keep no state),
 * pointwise.h, kernels.h (kernels for programs that launch them themselves).
 *
 * A program creates a context and opens a device. It creates a plan of a network or of one op, compiles it
 * for the device's architecture and loads it on the device. An execution of the plan then works cloud by
 * cloud: prepare takes coordinates, run takes features. Only create, compile and load may be slow; create
 * and compile need no GPU. Compiled kernels stay in the cache folder, where the next process finds them.
 *
 * These rules hold for every function, except where its comment says otherwise:
 * - Status. A function that can fail returns a status, and minuet_last_error() has the text for the calling
 *   thread. A failed call leaves its outputs and its objects unchanged. INVALID_ARGUMENT: an argument is
 *   wrong. FAILED_PRECONDITION: the state of an object forbids the call. RESOURCE_EXHAUSTED: memory is too
 *   small. UNAVAILABLE: the driver, a library or a device is missing. INTERNAL: the driver failed, or Minuet
 *   has an error. A function's comment names the statuses that it returns for more than these reasons.
 * - Pointers. A pointer must not be null unless its comment calls it optional. An optional array is null
 *   with a count of 0. Strings end in a zero. The library reads arrays, structs and strings only during the
 *   call.
 * - Structs. `struct_size` is sizeof the struct, by which the library knows the version of the caller's
 *   header: the _INIT macro sets it, or the caller. Later versions only append fields; those that the caller
 *   does not have get their defaults in options and are not written in infos. In options, 0 or null selects
 *   the default of a field, unless the field is required. `ext` must be null and `reserved` 0.
 * - Objects. _create and _open make an object; _destroy releases it, waits for work that uses it, and
 *   accepts null. An object keeps those from which it was made alive, so that the caller may destroy them in
 *   any order.
 * - Threads. Any number of threads may use an object at once. Only an execution, and all objects of one
 *   queue together, serve one call at a time: a second call is FAILED_PRECONDITION.
 * - Streams. `stream` is a CUstream (cudaStream_t) of the device's primary context, or null for its default
 *   stream. A call "enqueues" if it may return before the device has done the work, and "waits" if it waits
 *   for the stream. The caller orders the calls on one execution, by one stream or by events. The CPU device
 *   ignores `stream` and finishes its work in the call.
 * - Data. Matrices are row-major. Coordinates are int32 [count, 1 + ndim]: the batch index, 0 or more, then
 *   x, y, z, ..., which may be negative. Row i of the features belongs to row i of the coordinates that the
 *   caller gave. What a call writes must not overlap anything else that it reads or writes:
 *   INVALID_ARGUMENT.
 * - Process. The library does not print, exit, throw or touch signal handlers, and does nothing at exit. It
 *   compiles in child processes of the program minuet-compile, which is installed beside it; where that is
 *   missing, kernels come from bundles only, and a compile is UNAVAILABLE. After fork() a child may create
 *   and compile plans, with the parent's contexts and plans too, and must not use anything else of the
 *   parent's.
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

/* The numbers are those of absl::StatusCode, so that XLA and PJRT adapters can cast. The rules above say what
 * the statuses without a comment mean. */
typedef enum minuet_status {
  MINUET_OK = 0,
  MINUET_CANCELLED = 1, /* the caller stopped the work */
  MINUET_INVALID_ARGUMENT = 3,
  MINUET_NOT_FOUND = 5, /* a file or a shipped network does not exist */
  MINUET_RESOURCE_EXHAUSTED = 8,
  MINUET_FAILED_PRECONDITION = 9,
  MINUET_OUT_OF_RANGE = 11,  /* an index is past the last, or a coordinate or a size is outside its range */
  MINUET_UNIMPLEMENTED = 12, /* this version does not have the feature; the message says which */
  MINUET_INTERNAL = 13,
  MINUET_UNAVAILABLE = 14
} minuet_status;

/* Copies the message of the last call that failed on this thread. It is "" if none has failed; a call that
 * succeeds does not clear it. Writes at most `size` bytes, the terminating zero included, and cuts a longer
 * text. Returns the number of bytes that the whole text needs, terminator included. buffer is optional. */
MINUET_API size_t minuet_last_error(char* buffer, size_t size);
/* Copies the details of the same error, which are too long for its message: the log of NVRTC or of the
 * driver, or a list of everything that does not match in a weights file. They are often "". The arguments and
 * the result are as for minuet_last_error. */
MINUET_API size_t minuet_last_error_detail(char* buffer, size_t size);

/* Returns the name of a status, such as "INVALID_ARGUMENT", or "UNKNOWN" for any other number. The string
 * lives as long as the library is loaded. */
MINUET_API const char* minuet_status_name(minuet_status status);

/* Returns the version of the loaded library as major * 10000 + minor * 100 + patch. */
MINUET_API uint32_t minuet_version(void);

/* ---- types ----------------------------------------------------------------------------------- */

/* The type in which features and weights are stored. Every path accumulates in fp32. TF32 is stored as fp32,
 * and the operands of its GEMMs are rounded to the nearest tf32. */
typedef int32_t minuet_dtype;
enum { MINUET_F32 = 0, MINUET_TF32 = 1, MINUET_F16 = 2, MINUET_BF16 = 3 };

typedef enum minuet_log_level { MINUET_LOG_INFO = 0, MINUET_LOG_WARNING = 1 } minuet_log_level;
/* Receives a message of the library: `length` bytes at `text`, which live during the call. The library calls
 * it from any thread, never with a lock held. `user` must live as long as anything that was made from the
 * context. */
typedef void (*minuet_log_callback)(minuet_log_level level, const char* text, size_t length, void* user);

typedef struct minuet_context minuet_context;         /* kernel cache and options of a process */
typedef struct minuet_device minuet_device;           /* a GPU, or the CPU */
typedef struct minuet_queue minuet_queue;             /* what calls on one stream share */
typedef struct minuet_coordinates minuet_coordinates; /* a coordinate set */
typedef struct minuet_kernel_map minuet_kernel_map;   /* which input feeds which output at which offset */
typedef struct minuet_plan minuet_plan;               /* a network or a single op */
typedef struct minuet_execution minuet_execution;     /* one caller's use of a plan on a device */
typedef struct minuet_parameters minuet_parameters;   /* values of a plan's parameters (parameters.h) */

/* A matrix in device memory that the caller owns. Each row has `channels` consecutive elements. This struct
 * never grows. INVALID_ARGUMENT unless these conditions hold:
 * - `data` begins on a multiple of 16 bytes.
 * - `row_stride` in bytes is a multiple of the largest power of two, at most 16, that divides the bytes of a
 *   row.
 * If `row_stride` is larger than `channels`, the matrix is a range of columns of a wider one, so that a
 * concatenation needs no copy. */
typedef struct minuet_tensor {
  void* data; /* may be null if there are no rows; the data of an input are not written */
  int64_t rows;
  int64_t row_stride; /* elements from one row to the next, at most 2^28; 0: channels */
  int32_t channels;
  minuet_dtype dtype;
} minuet_tensor;

/* The type of an array's elements. The numbers of the first three are those of minuet_dtype; TF32 is missing
 * because it is a way to compute with f32. Each function says which elements it takes. */
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

#define MINUET_MAX_RANK 6 /* axes of an array */

/* An array of up to six axes that the caller owns. This struct never grows. `data` begins on a multiple of
 * an element's size. Without strides the elements are contiguous, and the last axis is the fastest. A stride
 * of 0 repeats the same elements; only an array that is read may have one. */
typedef struct minuet_array {
  void* data;                      /* the data of an input are not written */
  int64_t shape[MINUET_MAX_RANK];  /* at most 2^31 - 1 each */
  int64_t stride[MINUET_MAX_RANK]; /* elements between neighbours, not negative; 0 without has_strides */
  int32_t rank;                    /* 1 to 6 */
  minuet_element element;
  int32_t on_host;     /* 1: `data` is host memory; ignored on the CPU device */
  int32_t has_strides; /* 1: `stride` is given */
} minuet_array;

/* ---- context --------------------------------------------------------------------------------- */

/* Says whether the library compiles a kernel that it finds nowhere else. */
typedef int32_t minuet_jit;
enum {
  MINUET_JIT_DEFAULT = 0, /* it compiles, unless the environment variable MINUET_NO_JIT is 1 */
  MINUET_JIT_ON = 1,
  MINUET_JIT_OFF = 2 /* a missing kernel is FAILED_PRECONDITION, and the message says what to do; the cache
                        folder is only read */
};

/* Selects the kernels of a bundle that may be used, by the compiler that made them. */
typedef int32_t minuet_bundle_policy;
enum {
  MINUET_BUNDLE_SAME_MAJOR = 0, /* those that CUDA 13 or older compiled, whether or not a compiler is here */
  MINUET_BUNDLE_ANY = 1
};

/* Fields that are 0 or null take the environment variable that is named beside them.
 * minuet_context_create reads the environment once; only MINUET_NVRTC and MINUET_CUBLASLT are read when the
 * library that they name is first needed. share/doc/minuet/README.md ("Environment") lists the variables. */
typedef struct minuet_context_options {
  size_t struct_size;
  void* ext;
  const char* cache_directory; /* null: MINUET_CACHE_DIR, XDG_CACHE_HOME/minuet or HOME/.cache/minuet */
  int32_t disable_disk_cache;  /* 1: kernels are kept in memory only */
  minuet_log_callback log;     /* optional: receives warnings, each kind once; null: silent */
  void* log_user;              /* optional: is passed to log */
  minuet_jit jit;
  minuet_bundle_policy bundle_policy;
  const char* record_path;   /* file to which requests for kernels that no bundle has are appended; null:
                                MINUET_RECORD; "": none */
  uint64_t cache_max_bytes;  /* limit of the cache folder; past it, the least recently used kernels are
                                removed. 0: MINUET_CACHE_MAX_BYTES, else 1 GiB. UINT64_MAX: no limit, and
                                opening and closing the folder removes nothing */
  int64_t trace;             /* 1: keeps times for minuet_context_write_trace */
  const char* bundle_path;   /* bundle files and folders, separated by colons; null: MINUET_BUNDLE_PATH; "":
                                none */
  const char* nvrtc_path;    /* NVRTC's library or its folder; null: MINUET_NVRTC, else it is searched for */
  const char* cublaslt_path; /* cuBLASLt's library; null: MINUET_CUBLASLT, else it is searched for */
  int64_t cache_shared;      /* 1: the cache folder and bundles may belong to other users, or be writable by
                                them, and their kernels are run; 2: they may not; 0: MINUET_CACHE_SHARED */
  int64_t bundle_ptx;  /* 1: if no bundle has code for the GPU, PTX for its capability or an older one is
                          used, which the driver compiles at load */
  int64_t cpu_threads; /* threads of the CPU device, 0 to 4096, else INVALID_ARGUMENT; 0, or more than there
                          are CPUs: one per CPU (share/doc/minuet/LIMITS.md) */
} minuet_context_options;
#define MINUET_CONTEXT_OPTIONS_INIT \
  { sizeof(minuet_context_options), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/* Creates a context, which is not tied to a device. Most processes need one. options is optional. The call
 * opens neither the driver nor NVRTC.
 *
 * The context searches for a kernel in memory, bundles and the cache folder, and compiles it if it is
 * nowhere. It searches bundles in this order: those that were added last, those of bundle_path, and files
 * minuet-*.bundle beside the library. If the cache folder or a bundle cannot be used, the call succeeds
 * without it and logs a warning. INVALID_ARGUMENT also if an environment variable has a wrong value. */
MINUET_API minuet_status minuet_context_create(const minuet_context_options* options,
                                               minuet_context** context);
MINUET_API void minuet_context_destroy(minuet_context* context);

/* Opens a bundle file that minuet_precompile wrote, and searches it before all others. sha256 is optional:
 * the digest of the whole file in 64 hex digits. After an error nothing is added:
 * - INVALID_ARGUMENT: sha256 has another form, or the file is not a bundle or has a damaged header.
 * - FAILED_PRECONDITION: the file cannot be read or has another digest, or sha256 is null and users other
 *   than this one and root may write the file (cache_shared allows that). */
MINUET_API minuet_status minuet_context_add_bundle(minuet_context* context, const char* path,
                                                   const char* sha256);
/* Adds a bundle of `size` bytes in memory, for example one that is linked into the program, with the same
 * errors. The library copies the bytes, so the caller may free them after the call. Bytes that the context
 * already has from memory are not copied again and keep their place. No owner or mode is checked.
 * INVALID_ARGUMENT also if size is 0. */
MINUET_API minuet_status minuet_context_add_bundle_memory(minuet_context* context, const void* bytes,
                                                          size_t size, const char* sha256);

/* Copies the path of the cache folder in use, or "" if kernels are kept in memory only. The arguments and the
 * result are as for minuet_last_error. */
MINUET_API size_t minuet_context_cache_directory(minuet_context* context, char* buffer, size_t size);

/* Describes one kernel that a plan needs, as it was compiled for one architecture. Its strings live during
 * the call of the visitor. */
typedef struct minuet_kernel_info {
  size_t struct_size;
  const char* name;   /* contains every size that is compiled in */
  const char* arch;   /* of its code, such as "sm_90a", or "compute_90" for PTX */
  const char* origin; /* "memory", "bundle", "disk" or "compiled" */
  int32_t registers;  /* per thread; this and the next two are 0 for PTX, because the driver decides */
  int32_t shared_bytes, local_bytes; /* static shared memory of a block, local memory of a thread */
  int64_t cubin_bytes;               /* size of the cubin, or of the PTX */
  double compile_ms; /* milliseconds of the compile that made it, in this process or another */
} minuet_kernel_info;
/* Receives each kernel, on the calling thread, during the call to which it was passed with `user`. */
typedef void (*minuet_kernel_visitor)(const minuet_kernel_info* kernel, void* user);

/* ---- device ---------------------------------------------------------------------------------- */

/* The caller's allocator, for example that of PyTorch, RMM or XLA, so that the library and its host share one
 * pool of memory.
 * - `allocate` returns `bytes` (1 or more) bytes of the device's memory (host memory on the CPU device) that
 *   begin on a multiple of 256, or null if there are none. The call of the library that needed them is then
 *   RESOURCE_EXHAUSTED and names the bytes; the library may first ask again for fewer bytes, or give unused
 *   blocks back. Memory that is not aligned is given back at once, and the call is INVALID_ARGUMENT.
 * - `free` takes back a block of `allocate`, with the same bytes, exactly once.
 * - `stream` is the queue's stream for memory of a queue: the memory must be ready for work that is enqueued
 *   on it after `allocate`, and work that was enqueued on it before `free` may still use the memory.
 *   It is null for all other memory, for queues of the null stream, and on the CPU device: the memory must be
 *   ready for every stream at once, and at `free` no work of the library uses it any more. The library waits
 *   if the driver would have waited: minuet_coordinates_export of a set without a queue, and
 *   minuet_execution_prepare_maps without a queue, then wait for the stream.
 * - The library calls both from any thread, also from its own threads and from several at once, with the
 *   device's primary context current. It holds no lock that calls on other objects need: they may call the
 *   library, but not for the queue, set, map, execution, parameters or plan of the call that needs the
 *   memory, because that call is in progress.
 * - The library does not call them in a call on a stream that is being captured, nor for such a stream. If a
 *   queue is destroyed while its stream is being captured, its memory is given back with the device.
 * Pinned host memory, and what the driver and cuBLASLt keep for themselves, do not come from the allocator.
 */
typedef void* (*minuet_allocate_callback)(int64_t bytes, void* stream, void* user);
typedef void (*minuet_free_callback)(void* memory, int64_t bytes, void* stream, void* user);

typedef struct minuet_device_options {
  size_t struct_size;
  void* ext;
  minuet_allocate_callback allocate; /* optional, with free; null: memory comes from the driver or malloc */
  minuet_free_callback free;         /* optional, with allocate */
  void* user; /* optional: is passed to both, and must live as long as they are called */
} minuet_device_options;
#define MINUET_DEVICE_OPTIONS_INIT \
  { sizeof(minuet_device_options), 0, 0, 0, 0 }

/* Opens a device and retains the GPU's primary context. name is "cuda:N" or "cpu". It is optional without an
 * allocator: null selects cuda:0 if that is usable, else cpu. options is optional.
 *
 * Without an allocator, equal names of a context open the same device, which the context keeps. With an
 * allocator, every call opens a device of its own, with its own threads and loaded kernels:
 * - Queues, sets and plans that were made with another device or loaded on it are INVALID_ARGUMENT or
 *   FAILED_PRECONDITION for this one.
 * - All memory of the device comes from its allocator. All of it has been given back when the device,
 *   everything that was made with it, and the plans that are loaded on it are destroyed. That includes
 *   memory of minuet_device_allocate that was not freed.
 *
 * UNAVAILABLE: the driver or the GPU is missing or too old; the message says what is missing.
 * INVALID_ARGUMENT: there is no device of this name (the message says which names there are), only one
 * function of the allocator is given, or an allocator is given without a name. */
MINUET_API minuet_status minuet_device_open(minuet_context* context, const char* name,
                                            const minuet_device_options* options, minuet_device** device);
MINUET_API void minuet_device_destroy(minuet_device* device);

typedef struct minuet_device_info {
  size_t struct_size;
  char name[32];         /* "cuda:0" */
  char description[256]; /* "NVIDIA H200" */
  char arch[32];         /* "sm_90a", or "cpu"; for minuet_plan_compile */
  int64_t memory_bytes;  /* all memory that the device has */
} minuet_device_info;
/* Describes a device. */
MINUET_API minuet_status minuet_device_query(minuet_device* device, minuet_device_info* info);

/* The next four functions are for programs without CUDA code of their own.
 *
 * Allocates `bytes` (0 or more) bytes of device memory (host memory on the CPU device), aligned to 256 bytes,
 * which the caller gives back with minuet_device_free. */
MINUET_API minuet_status minuet_device_allocate(minuet_device* device, int64_t bytes, void** memory);
/* Frees memory that minuet_device_allocate gave for this device. memory is optional. On a device with an
 * allocator the call does not wait for work that uses the memory, so that work must be done. */
MINUET_API minuet_status minuet_device_free(minuet_device* device, void* memory);
/* Copies `bytes` bytes: direction 0 from the host to the device, 1 from the device to the host. Returns when
 * the copy is done. It does not wait for work on any stream, so call minuet_device_synchronize first. target
 * and source are optional if bytes is 0. */
MINUET_API minuet_status minuet_device_copy(minuet_device* device, void* target, const void* source,
                                            int64_t bytes, int32_t direction);
/* Waits for all work on the stream. */
MINUET_API minuet_status minuet_device_synchronize(minuet_device* device, void* stream);

/* ---- queues: what calls on one stream share ------------------------------------------------------- */

/* Creates a queue for a stream. A queue is optional. Coordinate sets, kernel maps and executions that are
 * made with one queue share side streams, cuBLASLt's workspace, scratch, the tables of a map, and the memory
 * that destroyed ones leave. Forty-nine convolutions then cost one workspace, and if sizes repeat the library
 * does not ask the driver for memory.
 *
 * - The stream must outlive the queue and everything that was made with it.
 * - Objects of a queue can be combined only with objects of the same queue, and calls on them must name its
 *   stream: else INVALID_ARGUMENT.
 * - One thread at a time may call functions on them: else FAILED_PRECONDITION. Any thread may destroy them.
 * - Graphs that hold runs of one queue's executions share its scratch. Their replays, on whatever stream,
 *   must be ordered with one another and with the queue's calls. */
MINUET_API minuet_status minuet_queue_create(minuet_device* device, void* stream, minuet_queue** queue);
/* Releases a queue. It keeps its memory until everything that was made with it is destroyed too. */
MINUET_API void minuet_queue_destroy(minuet_queue* queue);

/* ---- coordinate sets (paper 5.1) --------------------------------------------------------------- */

/* The most axes of a coordinate. An array of this length has one value per axis, in the order of coordinates;
 * the values of axes past ndim are 0. */
#define MINUET_MAX_DIM 4

typedef struct minuet_coordinates_options {
  size_t struct_size;
  void* ext;
  int32_t ndim;                          /* number of axes, 1 to 4; 0: 3 */
  int32_t tensor_stride[MINUET_MAX_DIM]; /* at most 2^24; 0: 1. Coordinates need not be multiples of it */
  int32_t keep_first_duplicate;          /* 0: duplicates are INVALID_ARGUMENT; 1: the first row wins */
  int32_t has_bounds; /* 1: every coordinate must lie in [least, greatest], else OUT_OF_RANGE */
  int32_t least[1 + MINUET_MAX_DIM];    /* batch index, then the axes */
  int32_t greatest[1 + MINUET_MAX_DIM]; /* inclusive */
  int32_t reserved;
  minuet_queue* queue; /* optional */
} minuet_coordinates_options;
#define MINUET_COORDINATES_OPTIONS_INIT \
  { sizeof(minuet_coordinates_options), 0, 3, {0}, 0, 0, {0}, {0}, 0, 0 }

/* Creates a set of `count` (0 to 2^30 - 1) coordinates, int32 [count, 1 + ndim] in device memory. The library
 * copies them. coordinates is optional if count is 0. options is optional.
 *
 * - Waits for the stream once. If no bounds are declared and a coordinate is outside the default range of the
 *   keys (MINUET_MAPS_INDEXED), it waits three times and builds the set twice. May not be captured.
 * - Allocates an index of about 90 bytes per coordinate.
 * - The first set of a device and ndim compiles and loads kernels.
 *
 * INVALID_ARGUMENT: there are duplicates or a negative batch index. OUT_OF_RANGE: a coordinate is outside the
 * declared bounds, the bounds (declared or found) need keys of more than 64 bits, or there are too many
 * coordinates. RESOURCE_EXHAUSTED also if the voxels are so far apart that the index is full.
 * FAILED_PRECONDITION: the stream is being captured. */
MINUET_API minuet_status minuet_coordinates_create(minuet_device* device,
                                                   const minuet_coordinates_options* options,
                                                   const int32_t* coordinates, int64_t count, void* stream,
                                                   minuet_coordinates** set);
/* Creates the coarser set of the unique floor(p / (s t)) * (s t), for the coordinates p of `fine`, its tensor
 * stride t, which becomes s t, and the stride s (0 counts as 1). Negative coordinates are rounded down too.
 * The order of the rows depends on the coordinates and the tensor stride alone, and is not ascending.
 *
 * - Without a queue, waits for the stream. May not be captured: FAILED_PRECONDITION.
 * - With a queue, does not wait, and may defer the work. The first call that needs the count, rows,
 *   coordinates or a kernel map of the set then makes it and waits. That call also makes all other deferred
 *   sets of the same finest set, in one index of at most 16 levels: create all sets first, then use them. It
 *   also returns the errors of the work.
 * - Allocates memory for as many rows as `fine` has.
 *
 * INVALID_ARGUMENT: s t of an axis is more than 2^24. OUT_OF_RANGE: a rounded coordinate does not fit into
 * int32. */
MINUET_API minuet_status minuet_coordinates_downsample(minuet_coordinates* fine,
                                                       const int32_t stride[MINUET_MAX_DIM], void* stream,
                                                       minuet_coordinates** coarse);

/* Describes an op whose outputs are the coordinates of a new set. kernel_size, dilation and padding are in
 * cells of the parent set, which are multiples of its tensor stride. */
typedef struct minuet_reach_options {
  size_t struct_size;
  void* ext;
  int32_t kernel_size[MINUET_MAX_DIM]; /* 0: 1, also for the next two */
  int32_t stride[MINUET_MAX_DIM];      /* 1 is legal, and dilates the set */
  int32_t dilation[MINUET_MAX_DIM];
  int32_t padding[MINUET_MAX_DIM]; /* 0 or more */
  int32_t shape[MINUET_MAX_DIM];   /* cells of the new set: its coordinates divided by its tensor stride are 0
                                      to shape - 1. Given for all axes; all 0: no limit, and negative
                                      coordinates are legal */
} minuet_reach_options;
#define MINUET_REACH_OPTIONS_INIT                              \
  {                                                            \
    sizeof(minuet_reach_options), 0, {0}, {0}, {0}, {0}, { 0 } \
  }
/* Creates the set of all outputs that a dense convolution reaches from the coordinates of `parent`, whose
 * tensor stride is t. They are every multiple q of stride * t for which q + (k * dilation - padding) * t is
 * in `parent` for an offset k, 0 to kernel_size - 1 on each axis. This is the rule of spconv's SparseConv3d;
 * minuet_coordinates_downsample rounds coordinates down instead. options is required.
 *
 * - A dense convolution of an input with D cells has
 *   shape = (D + 2 * padding - dilation * (kernel_size - 1) - 1) / stride + 1.
 * - Coordinates are in units of the finest voxel, as everywhere. Divide them by the tensor stride to get
 *   spconv's indices. The order of the rows depends on the coordinates and the tensor stride alone.
 * - Without a queue, waits until the set is made: once, and again for each estimate of its size or keys that
 *   was too small. May not be captured: FAILED_PRECONDITION.
 * - With a queue, only enqueues, and takes memory for the most rows that `parent` may reach.
 *
 * INVALID_ARGUMENT: the message names the axis. Kernels have the limits of minuet_kernel_map_create, and
 * stride * t is at most 2^24. OUT_OF_RANGE: the keys of the new set do not hold a coordinate.
 * RESOURCE_EXHAUSTED also if the set would have too many voxels. With a queue, the first call that needs the
 * count returns the last two. */
MINUET_API minuet_status minuet_coordinates_reach(minuet_coordinates* parent,
                                                  const minuet_reach_options* options, void* stream,
                                                  minuet_coordinates** set);
MINUET_API void minuet_coordinates_destroy(minuet_coordinates* set);
/* Returns the number of coordinates in the set, without duplicates; 0 for a null set. Waits if the set has a
 * queue and its count is not known yet. Any thread may call this function; it first waits for another
 * thread's call of the queue. Returns -1, with a text for minuet_last_error, if the device or its memory
 * fails, if the set could not be made, or if a capture began before it was made. */
MINUET_API int64_t minuet_coordinates_count(const minuet_coordinates* set);
/* Returns the number of rows that features on this set have: as many coordinates as the caller gave,
 * duplicates included, or the count of a derived set. All else is as for minuet_coordinates_count. */
MINUET_API int64_t minuet_coordinates_rows(const minuet_coordinates* set);
/* Copies the coordinates to device memory, int32 [rows, 1 + ndim], in the order of the rows: the caller's, or
 * that of the derived set. coordinates is optional if there are no rows. Enqueues; waits if the
 * set has a queue and its count is not known yet, or if it has no queue and the device has an allocator. */
MINUET_API minuet_status minuet_coordinates_export(minuet_coordinates* set, int32_t* coordinates,
                                                   void* stream);

/* ---- kernel maps -------------------------------------------------------------------------------- */

typedef struct minuet_kernel_map_options {
  size_t struct_size;
  void* ext;
  int32_t kernel_size[MINUET_MAX_DIM]; /* K; 0: 1. Offsets are -(K-1)/2 ... K/2 per axis, x slowest */
  int32_t dilation[MINUET_MAX_DIM];    /* 0: 1 */
  int32_t transposed;                  /* 1: the matching forward map with input and output swapped */
  int32_t dense_offsets;               /* 1: offsets are k - padding / dilation, k = 0 ... K-1, as those of a
                                          dense convolution (minuet_coordinates_reach), and not centred */
  int32_t padding[MINUET_MAX_DIM];     /* 0 or more; only with dense_offsets */
} minuet_kernel_map_options;
#define MINUET_KERNEL_MAP_OPTIONS_INIT                          \
  {                                                             \
    sizeof(minuet_kernel_map_options), 0, {0}, {0}, 0, 0, { 0 } \
  }

/* Creates the map that says which input feeds which output at which offset: out[q] takes in[q + offset_k] for
 * every offset. Offsets are in steps of dilation * the tensor stride of the input (of the output if
 * transposed). If input and output are the same set, the map is submanifold. options is optional: one offset.
 *
 * Waits for sets that are not yet counted and, without a queue, once for the stream. Without a queue it
 * allocates all tables of the map; with a queue, some are made when they are first needed. May not be
 * captured: FAILED_PRECONDITION.
 *
 * INVALID_ARGUMENT: the sets differ in device, ndim or queue, or the kernel is too large. A kernel has at
 * most 2^20 offsets. With the tensor stride t that offsets use, each axis has dilation at most 2^24, and
 * kernel_size * dilation * t and padding * t at most 2^28. OUT_OF_RANGE: offsets times rows of the output set
 * (of the input set if transposed) are more than the 2^31 - 1 entries that a map can hold. */
MINUET_API minuet_status minuet_kernel_map_create(minuet_coordinates* input, minuet_coordinates* output,
                                                  const minuet_kernel_map_options* options, void* stream,
                                                  minuet_kernel_map** map);
/* Creates the map of the same pairs in the other direction, as a transposed convolution needs it ("inverse"
 * in other libraries). It shares the memory of `forward`, and neither searches nor waits. */
MINUET_API minuet_status minuet_kernel_map_transpose(minuet_kernel_map* forward, minuet_kernel_map** map);
MINUET_API void minuet_kernel_map_destroy(minuet_kernel_map* map);
/* Returns the number of offsets; 0 for a null map. */
MINUET_API int32_t minuet_kernel_map_volume(const minuet_kernel_map* map);
/* Gives the number of pairs over all offsets. Without a queue it is known and the call does not wait. With a
 * queue, the first call that needs the pairs reads them back with one wait on the queue's stream, and may
 * allocate. These calls need them: this one and minuet_kernel_map_export, which then count as calls of the
 * queue, minuet_execution_query_layer, and minuet_execution_prepare_maps of a convolution by
 * gather-GEMM-scatter. FAILED_PRECONDITION: the pairs are not known and the stream is being captured. */
MINUET_API minuet_status minuet_kernel_map_query_pairs(minuet_kernel_map* map, int64_t* pairs);
/* Copies the pairs to host memory, int32 [pairs, 3]: k, input row, output row, in the caller's order of rows.
 * They are sorted by k. pairs is optional if the map has none. Waits, and allocates as much device memory
 * during the call. May not be captured: FAILED_PRECONDITION. */
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
  int32_t groups;      /* 0 counts as 1; more than 1 is UNIMPLEMENTED so far */
  int32_t submanifold; /* 1: the output set is the input set */
  int32_t transposed;
  minuet_activation activation;
  int32_t residual;    /* 1: run takes a residual that is added before the activation */
  const float* weight; /* host [k_x * k_y * ..., in_channels, out_channels], rounded to dtype once */
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

/* Levels and layers of an execution's plan, for what is prepared (counts 0 before that). A level's tensor
 * stride is 0 before that where its set is the caller's. */
typedef struct minuet_level_info {
  size_t struct_size;
  int32_t tensor_stride[MINUET_MAX_DIM];
  int64_t voxels;
  minuet_map_method map_method; /* by which its set was made; MINUET_MAPS_AUTO before prepare */
  int32_t ndim; /* its axes, fewer than the plan's below a collapse, 0 of a level of batch items */
} minuet_level_info;
MINUET_API minuet_status minuet_execution_query_level(minuet_execution* execution, int32_t level,
                                                      minuet_level_info* info);
#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MINUET_MINUET_H_ */
