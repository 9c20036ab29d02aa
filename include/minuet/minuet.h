/* Minuet: 3-D sparse convolution networks on NVIDIA GPUs and on the CPU. This header is enough to run
 * networks and single ops. Beside it: parameters.h (weights as data), precompile.h (kernels for GPUs that
 * are elsewhere), tuning.h, diagnostics.h (counts and times), pyramid.h (runs that keep no state), points.h
 * (voxels from points, and back), select.h (levels that a rule selects), generate.h (sets that a generative
 * layer makes), pointwise.h, space.h (space to channel and back), gradient.h (gradients of convolutions),
 * kernels.h (kernels for other launchers), quantize.h (8 bits). kernel_shape.h (offsets) is included.
 *
 * A program creates a context and opens a device. It creates a plan of a network or of one op, compiles it
 * for the device's architecture and loads it on the device. An execution of the plan then works cloud by
 * cloud: prepare takes coordinates, run takes features. Creating and compiling a plan need no GPU. These may
 * be slow: creating, compiling, serializing or loading a plan, creating an execution, and the first set of a
 * device, because it compiles. The cache folder keeps compiled kernels for the next process.
 *
 * Words: a voxel is a cell of space with features; a cloud is all voxels of one prepare. A level is a
 * coordinate set of a network; level 0 has the caller's coordinates. Its tensor stride is the step between
 * neighbouring cells. In exact mode prepare learns the sizes of levels from the device; in capacity mode they
 * have given limits, and prepare never waits. "The paper" is Yang, Giannoula, Wu, Elhoushi, Gleeson,
 * Pekhimenko: "Minuet: Accelerating 3D Sparse Convolutions on GPUs", EuroSys 2024. The ops of networks
 * (global_pool, collapse, ...) are described in share/doc/minuet/networks/README.md.
 *
 * These rules hold for every function, except where its comment says otherwise:
 * - Status. A function that can fail returns a status, and minuet_last_error() has the text for the calling
 *   thread. A failed call leaves its outputs and its objects unchanged. INVALID_ARGUMENT: an argument is
 *   wrong. FAILED_PRECONDITION: the state of an object forbids the call. RESOURCE_EXHAUSTED: memory is too
 *   small. UNAVAILABLE: the driver, a library or a device is missing. INTERNAL: the driver failed, or Minuet
 *   has an error. A function's comment names the statuses that it returns for more than these reasons.
 * - Pointers. A pointer must not be null unless its comment calls it optional; `user` may be null. An
 *   optional array is null with a count of 0. Strings end in a zero. The library reads arrays, structs and
 *   strings only during the call.
 * - Structs. `struct_size` is sizeof the struct, which tells the version of the caller's header. Later
 *   versions only append fields, which have defaults for older callers. In options, the _INIT macro sets it,
 *   0 or null selects the default of a field that is not required, `ext` must be null, and `reserved` 0. In
 *   an info, the caller sets struct_size alone, and the call writes the fields that the caller has.
 * - Objects. The caller owns each object that a call gives it; _destroy releases it, waits for work that
 *   uses it, and accepts null. An object keeps those from which it was made alive, so that the caller may
 *   destroy them in any order.
 * - Threads. Any number of threads may use an object at once. Only an execution, and all objects of one
 *   queue together, serve one call at a time: a second call is FAILED_PRECONDITION.
 * - Streams. `stream` is a CUstream (cudaStream_t) of the device's primary context, or null for the legacy
 *   default stream. A call "enqueues" if it may return before the device has done the work, and "waits" if
 *   it waits for the stream. The caller orders the calls on one execution, by one stream or by events.
 *   The CPU device ignores `stream` and finishes its work in the call.
 * - Data. Matrices are row-major. Coordinates are int32 [count, 1 + ndim]: the batch index, 0 or more, then
 *   x, y, z, ..., which may be negative. Row i of the features belongs to row i of the coordinates that the
 *   caller gave. What a call writes must not overlap what else it reads or writes: INVALID_ARGUMENT.
 * - Process. The library does not print, exit, throw or touch signal handlers, and does nothing at exit. It
 *   compiles in child processes of the program minuet-compile, installed beside it; where that is missing,
 *   kernels come from bundles only, and a compile is UNAVAILABLE. After fork() a child may create and
 *   compile plans, with the parent's contexts and plans too, and must use nothing else of the parent's. */
#ifndef MINUET_MINUET_H_
#define MINUET_MINUET_H_

#include <minuet/kernel_shape.h>
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
#define MINUET_VERSION_SUFFIX "" /* "-dev" between releases */

/* ---- status ---------------------------------------------------------------------------------- */

/* The numbers are those of absl::StatusCode, so that XLA and PJRT can cast. The rules above explain most. */
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
 * - `row_stride` in bytes is a multiple of the largest power of two, at most 16, that divides a row's bytes.
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
 * library that they name is first needed. share/doc/minuet/ENVIRONMENT.md lists the variables. */
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

/* Copies the path of the cache folder, or "" if there is none. All else is as for minuet_last_error. */
MINUET_API size_t minuet_context_cache_directory(minuet_context* context, char* buffer, size_t size);

/* Describes one kernel of a plan, compiled for one architecture. Strings live during the visitor's call. */
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
 * Pinned host memory, and what the driver and cuBLASLt keep, do not come from the allocator. */
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

/* Opens a device and retains the GPU's primary context. name is "cuda:N" or "cpu". With an allocator it is
 * required; without one, null selects cuda:0 if that is usable, else cpu. options is optional.
 *
 * Without an allocator, equal names of a context open the same device, which the context keeps. Devices of
 * two contexts differ, but any device of a GPU can use all memory of its primary context. With an
 * allocator, every call opens a device of its own, with its own threads and loaded kernels:
 * - Queues and sets of another device are INVALID_ARGUMENT for this one, and a plan that is loaded only on
 *   another is FAILED_PRECONDITION.
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
 * which the caller gives back with minuet_device_free before it destroys the device; else it may leak. */
MINUET_API minuet_status minuet_device_allocate(minuet_device* device, int64_t bytes, void** memory);
/* Frees memory that minuet_device_allocate gave for this device. memory is optional. Work that uses the
 * memory must be done: with an allocator the call does not wait; without one the driver may wait. */
MINUET_API minuet_status minuet_device_free(minuet_device* device, void* memory);
/* Copies `bytes` bytes: direction 0 from the host to the device, 1 from the device to the host. Returns when
 * the copy is done. It does not wait for work on any stream: if such work writes `source` or uses `target`,
 * call minuet_device_synchronize first. target and source are optional if bytes is 0. */
MINUET_API minuet_status minuet_device_copy(minuet_device* device, void* target, const void* source,
                                            int64_t bytes, int32_t direction);
/* Waits for all work on the stream. On the CPU device it does nothing. */
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
 * from axis ndim on (counted from 0) they are 0, or also 1 if 0 counts as 1 or the array is in an info. */
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
/* Creates the set of all outputs that a dense convolution reaches from the coordinates of `parent`: the
 * expanded outputs of a regular (not submanifold) sparse convolution. The tensor stride of `parent` is t.
 * They are every multiple q of stride * t for which q + (k * dilation - padding) * t is in `parent` for an
 * offset k, 0 to kernel_size - 1 on each axis. This is the rule of spconv's SparseConv3d;
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
 * thread's call of the queue. Returns -1 if the device or its memory fails, if the set could not be
 * made, or if a capture began before it was made. minuet_last_error then has the reason, and
 * minuet_coordinates_export, which needs the count too, returns its status. */
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
  int32_t kernel_size[MINUET_MAX_DIM]; /* 0: 1 */
  int32_t dilation[MINUET_MAX_DIM];    /* 0: 1 */
  int32_t transposed;                  /* 1: the matching forward map with input and output swapped */
  int32_t dense_offsets;               /* 1: not centred, as a dense convolution (minuet_coordinates_reach) */
  int32_t padding[MINUET_MAX_DIM];     /* 0 or more; only with dense_offsets */
  const int32_t* offsets;              /* [offset_count, ndim]; only of a custom kernel, else null */
  int32_t offset_count, kernel_shape;  /* kernel_shape: minuet_kernel_shape (kernel_shape.h) */
} minuet_kernel_map_options;
#define MINUET_KERNEL_MAP_OPTIONS_INIT \
  { sizeof(minuet_kernel_map_options), 0, {0}, {0}, 0, 0, {0}, 0, 0, 0 }

/* Creates the map that says which input feeds which output at which offset: out[q] takes in[q + offset_k] for
 * every offset k or, if transposed, out[q + offset_k] takes in[q]. kernel_shape.h has the offsets, their
 * numbers k, by which weights are ordered too, and their unit. If input and output are the same set, the map
 * is submanifold. options is optional: one offset.
 * Waits for sets that are not yet counted and, without a queue, once for the stream. Without a queue it
 * allocates all tables of the map; with a queue, some are made when they are first needed. May not be
 * captured: FAILED_PRECONDITION.
 *
 * INVALID_ARGUMENT: the sets differ in device, ndim or queue, or the kernel is past a limit of
 * kernel_shape.h. OUT_OF_RANGE: offsets times rows of the output set (input set if transposed) are more than
 * 2^31 - 1. */
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
 * allocate. These need them: this call, minuet_kernel_map_export, minuet_execution_query_layer, and
 * minuet_execution_prepare_maps of a convolution by gather-GEMM-scatter. The first two then count as calls of
 * the queue. FAILED_PRECONDITION: the pairs are not known and the stream is being captured. */
MINUET_API minuet_status minuet_kernel_map_query_pairs(minuet_kernel_map* map, int64_t* pairs);
/* Copies the pairs to host memory, int32 [pairs, 3]: k, input row, output row, in the caller's order of rows.
 * They are sorted by k (minuet_kernel_map_create), and unordered within a k. pairs is optional if there are
 * none. Waits, and allocates as much device memory meanwhile. May not be captured: FAILED_PRECONDITION. */
MINUET_API minuet_status minuet_kernel_map_export(minuet_kernel_map* map, int32_t* pairs, void* stream);

/* ---- one op ----------------------------------------------------------------------------------------- */

/* The algorithm that computes a convolution, on a GPU or the CPU. Results of two dataflows may differ in
 * their last bits; each repeats its own. AUTO ignores the mode: choose FUSED for capacity mode. */
typedef int32_t minuet_dataflow;
enum {
  MINUET_DATAFLOW_AUTO = 0,                /* for each layer, the one that is expected to be faster */
  MINUET_DATAFLOW_GATHER_GEMM_SCATTER = 1, /* paper 5.2; not in capacity mode */
  MINUET_DATAFLOW_FUSED = 2 /* one kernel per layer; above 4096 offsets compile is UNIMPLEMENTED. The only one
                               for groups above 1 */
};

/* The last step of a convolution, which is the pointwise step of the same name and number (pointwise.h). */
typedef int32_t minuet_activation;
enum { MINUET_ACTIVATION_NONE = 0, MINUET_ACTIVATION_RELU = 1, MINUET_ACTIVATION_LEAKY_RELU = 2 };
enum { MINUET_ACTIVATION_GELU = 3, MINUET_ACTIVATION_GELU_TANH = 4, MINUET_ACTIVATION_SILU = 5 };
enum { MINUET_ACTIVATION_SIGMOID = 6, MINUET_ACTIVATION_TANH = 7 };

/* One convolution: activation(scale * sum + shift + residual), where `sum` adds the products of weights and
 * inputs over the offsets and the input channels.
 *
 * kernel_size, stride and dilation are 1 to 2^24 on each axis (0 counts as 1). kernel_shape.h has the limits
 * of kernels. submanifold excludes transposed, dense_offsets and strides > 1. Floats are in host memory. */
typedef struct minuet_convolution_options {
  size_t struct_size;
  void* ext;
  int32_t ndim;                      /* number of axes, 1 to 4; 0: 3 */
  minuet_dtype dtype;                /* of weights and features */
  int32_t in_channels, out_channels; /* required: 1 to 65536 */
  int32_t kernel_size[MINUET_MAX_DIM];
  int32_t stride[MINUET_MAX_DIM]; /* the quotient of the tensor strides of the coarser and the finer set */
  int32_t dilation[MINUET_MAX_DIM];
  int32_t groups; /* 0: 1; output channel c reads group c / (out_channels / groups). Above 1: fused only */
  int32_t submanifold; /* 1: the output set is the input set */
  int32_t transposed;  /* 1: takes a transposed kernel map, from the coarser set to the finer */
  minuet_activation activation;
  int32_t residual;    /* 1: run takes a residual as its second input */
  const float* weight; /* required, unless without_values is 1: [offsets, in_channels / groups, out_channels]
                          in the order of kernel_shape.h; rounded to dtype once */
  const float* scale;  /* [out_channels], of a batch norm; null: 1 */
  const float* shift;  /* [out_channels], of a batch norm, or the bias; null: 0 */
  minuet_dataflow dataflow;
  float negative_slope;                /* of MINUET_ACTIVATION_LEAKY_RELU, finite; 0 for other activations */
  int32_t allow_non_finite_parameters; /* 1: accepts infinite and NaN parameters */
  int32_t dense_offsets;               /* 1: takes a kernel map with dense_offsets and the same padding */
  /* Number of floats at weight, scale and shift; 0 for a null pointer. */
  int64_t weight_count, scale_count, shift_count;
  int64_t without_values; /* 1: the three pointers are null, and executions get the values (minuet_parameters,
                             parameter_inputs). scale_count and shift_count are both out_channels or both 0 */
  int32_t padding[MINUET_MAX_DIM]; /* 0 to 2^24; only with dense_offsets */
  const int32_t* offsets;          /* these three: as in minuet_kernel_map_options */
  int32_t offset_count, kernel_shape;
} minuet_convolution_options;
#define MINUET_CONVOLUTION_OPTIONS_INIT                                                                      \
  {                                                                                                          \
    sizeof(minuet_convolution_options), 0, 3, 0, 0, 0, {0}, {0}, {0}, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, \
        0, 0, 0, {0}, 0, 0, 0                                                                                \
  }

/* Creates a plan of one convolution. It copies the parameters and needs no device.
 * The caller makes the coordinate sets and the kernel map, and gives the map to
 * minuet_execution_prepare_maps. The map must have the kernel (kernel_shape.h) and the direction of the
 * options, and the tensor stride of its coarser set must be `stride` times that of its finer. But with stride
 * 1, not submanifold, not transposed and without dense_offsets, sets of any tensor strides are taken.
 * - INVALID_ARGUMENT, unless allow_non_finite_parameters is 1: a parameter is infinite or NaN, or a weight is
 *   past the range of dtype.
 * minuet_plan_compile is UNIMPLEMENTED for groups above 1 with MINUET_DATAFLOW_GATHER_GEMM_SCATTER.
 * With allow_non_finite_parameters, a weight past the range becomes infinite, and results follow IEEE
 * arithmetic with one exception: on a GPU, the fused dataflow multiplies weights by 0 where an output has no
 * input at an offset, so that a weight that is not finite may make NaN of such outputs too. Inputs of other
 * groups that share a launch are multiplied by 0 likewise. */
MINUET_API minuet_status minuet_plan_create_convolution(minuet_context* context,
                                                        const minuet_convolution_options* options,
                                                        minuet_plan** plan);

/* The operands of a convolution for which a gradient is computed: one of these bits, or several, or-ed. */
typedef int32_t minuet_gradient;
enum { MINUET_GRADIENT_INPUT = 1, MINUET_GRADIENT_WEIGHT = 2, MINUET_GRADIENT_BIAS = 4 };

/* Creates a plan that computes the gradient of a convolution's input: `which` is MINUET_GRADIENT_INPUT. The
 * page is gradient.h, which has those of the weight and the bias too; here they are UNIMPLEMENTED.
 * INVALID_ARGUMENT if `which` is 0 or has other bits. */
MINUET_API minuet_status minuet_plan_create_convolution_gradient(minuet_context* context,
                                                                 const minuet_convolution_options* options,
                                                                 minuet_gradient which, minuet_plan** plan);

/* The operation by which a pooling reduces, channel by channel, the inputs that lead to an output. */
typedef int32_t minuet_reduction;
enum { MINUET_REDUCE_MAX = 0, MINUET_REDUCE_AVERAGE = 1, MINUET_REDUCE_SUM = 2 };

/* One pooling. The fields with the names of those of minuet_convolution_options have the same rules. */
typedef struct minuet_pooling_options {
  size_t struct_size;
  void* ext;
  int32_t ndim;       /* number of axes, 1 to 4; 0: 3 */
  minuet_dtype dtype; /* of the features */
  int32_t channels;   /* required: 1 to 65536 */
  int32_t kernel_size[MINUET_MAX_DIM];
  int32_t stride[MINUET_MAX_DIM];
  int32_t dilation[MINUET_MAX_DIM];
  minuet_reduction reduction;
  int32_t submanifold;   /* 1: the output set is the input set */
  int32_t transposed;    /* 1: takes a transposed kernel map, from the coarser set to the finer */
  int64_t winners;       /* 1: a second output has the argmax indices; only with MINUET_REDUCE_MAX */
  int32_t dense_offsets; /* 1: takes a kernel map with dense_offsets and the same padding */
  int32_t padding[MINUET_MAX_DIM]; /* only with dense_offsets */
  int32_t reserved;                /* 0 */
  const int32_t* offsets;          /* these three: as in minuet_kernel_map_options */
  int32_t offset_count, kernel_shape;
} minuet_pooling_options;
#define MINUET_POOLING_OPTIONS_INIT \
  { sizeof(minuet_pooling_options), 0, 3, 0, 0, {0}, {0}, {0}, 0, 0, 0, 0, 0, {0}, 0, 0, 0, 0 }

/* Creates a plan of one pooling. The kernel map and its sets are the caller's, as for
 * minuet_plan_create_convolution.
 * Sums are fp32 and add the offsets in ascending order. An average divides by the number of inputs that
 * exist. An output with no input is 0. NaN propagates.
 *
 * With `winners`, minuet_execution_run_arrays gives a second output, the argmax indices (return_indices in
 * PyTorch): i32 [output rows, channels]. Each is the row of the input that won, in the caller's order of rows
 * of the map's input set; for duplicates it is the first row. It is -1 if the output has no input. Of equal
 * inputs the one whose offset has the least number k wins. NaN wins over numbers, and the first NaN over
 * later ones. The gradient of the pooling adds each element of the output's gradient to that row. Poolings in
 * networks have no winners. */
MINUET_API minuet_status minuet_plan_create_pooling(minuet_context* context,
                                                    const minuet_pooling_options* options,
                                                    minuet_plan** plan);

/* ---- networks --------------------------------------------------------------------------------------- */

/* The layout of the weights in a file (share/doc/minuet/networks/WEIGHTS.md). Tensors that cannot be
 * converted are INVALID_ARGUMENT. */
typedef int32_t minuet_weights_order;
enum {
  MINUET_WEIGHTS_AS_DESCRIBED = 0, /* the description's "weights_order", else MINUET_WEIGHTS_MINUET */
  MINUET_WEIGHTS_MINUET = 1,       /* [k_x * k_y * k_z, C_in, C_out], x slowest */
  MINUET_WEIGHTS_MINKOWSKI = 2,    /* MinkowskiEngine */
  MINUET_WEIGHTS_TORCHSPARSE = 3,
  MINUET_WEIGHTS_SPCONV = 4,     /* indices were batch, z, y, x; the shape tells spconv 1.x from 2.x */
  MINUET_WEIGHTS_SPCONV_XYZ = 5, /* indices were batch, x, y, z */
  MINUET_WEIGHTS_SPCONV1 = 6,    /* 1.x, for weights whose shape fits both versions */
  MINUET_WEIGHTS_SPCONV1_XYZ = 7,
  MINUET_WEIGHTS_SPCONV2 = 8, /* 2.x, for the same weights */
  MINUET_WEIGHTS_SPCONV2_XYZ = 9,
  MINUET_WEIGHTS_SPCONV2_LINEAR = 10, /* the same with [C_out, C_in] for kernels of one offset */
  MINUET_WEIGHTS_SPCONV2_XYZ_LINEAR = 11
};

/* A network and its weights. Exactly one of name and description is required. weights_order, allow_unused,
 * weights_prefix, weights_map, weights_key and allow_non_finite_parameters require weights_path. */
typedef struct minuet_network_options {
  size_t struct_size;
  void* ext;
  const char* name;        /* of a shipped network, or null */
  const char* description; /* JSON text of a network (share/doc/minuet/networks/README.md), or null */
  minuet_dtype dtype;      /* of weights and features */
  const int32_t* channels; /* optional: other widths, 1 to 65536, as many as the description lists */
  int32_t channel_count;
  int32_t ndim;             /* 0, or the description's number of axes */
  const char* weights_path; /* a safetensors file or a PyTorch checkpoint; null: random weights from `seed` */
  uint64_t seed; /* any, 0 too: weights about normal, of variance 2 / (offsets * inputs); scales and
                    variances of batch norms near 1, all else near 0 (deviation 0.05) */
  minuet_weights_order weights_order;
  int32_t allow_unused;       /* 1: the file may have tensors that no layer uses */
  const char* weights_prefix; /* optional: the beginning of all names in the file, for example "module." */
  const char* weights_map; /* optional: JSON {"name in the file, after the prefix": "name in the description",
                              ...}; names that end in a dot rename all names that begin with them. Null: the
                              map that is shipped with the network of the description's name, if any */
  minuet_dataflow dataflow;            /* of all convolutions */
  int32_t allow_non_finite_parameters; /* 1: accepts infinite and NaN parameters of the file */
  int64_t without_values;  /* 1: the plan has no values, and executions get them (minuet_parameters,
                              parameter_inputs), unless it has no parameters; not with weights_path or seed */
  const int32_t* shape;    /* optional: cells along each axis, 1 to 2^24; null: the description's "shape" */
  int32_t shape_count;     /* the number of axes, or 0 */
  int32_t in_channels;     /* 1 to 65536, only for networks of one input; 0: as described */
  const char* weights_key; /* optional: the dict of a checkpoint that has the tensors, "model_state", or in
                              nested dicts "ema/state_dict". Null: the root, or the only usual key */
} minuet_network_options;
#define MINUET_NETWORK_OPTIONS_INIT \
  { sizeof(minuet_network_options), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/* A network that is built into the library. Strings live as long as the library. range_low, range_high and
 * voxel_size are the space in which its voxels are counted by default, in metres: the cell of a point p is
 * floor((p - low) / size), and the shape is round((high - low) / size) + extra_cells. A voxel_size of 0 means
 * that the input has no shape. */
typedef struct minuet_shipped_network_info {
  size_t struct_size;
  const char* name;
  const char* summary;     /* one line */
  const char* description; /* JSON */
  const char* weights_map; /* JSON, as in minuet_network_options; null if there is none */
  double range_low[3], range_high[3], voxel_size[3];
  int32_t extra_cells[3];
  int32_t reserved;
} minuet_shipped_network_info;
/* Describes shipped network `index`, counted from 0. OUT_OF_RANGE past the last one ends the list. */
MINUET_API minuet_status minuet_query_shipped_network(int32_t index, minuet_shipped_network_info* info);

/* Creates a plan of a network: checks the description, reads or draws the weights, folds batch norms into
 * scale and shift, and rounds weights to dtype. It needs no device.
 * - NOT_FOUND: no network of this name is shipped, or the weights file cannot be read.
 * - INVALID_ARGUMENT: the description is wrong, or the tensors of the file are not those of the network. The
 *   message lists up to eight of each kind; minuet_last_error_detail lists all, one per line.
 * - INVALID_ARGUMENT, unless allow_non_finite_parameters is 1: a parameter is infinite or NaN, a weight is
 *   past the range of dtype, a running variance is negative, or a folded scale or shift is past float32.
 * - UNIMPLEMENTED: the message names the layer and the feature.
 * With allow_non_finite_parameters, results are as minuet_plan_create_convolution says, and a batch norm with
 * a negative running variance is NaN. */
MINUET_API minuet_status minuet_plan_create_network(minuet_context* context,
                                                    const minuet_network_options* options,
                                                    minuet_plan** plan);
/* Converts the weights file of `options`, whose weights_path is required, to a safetensors file of float32 in
 * Minuet's order and with the description's names. It needs no context and no device.
 *
 * The new file has what the network takes from the old one; a network of it gives the same bits. Its metadata
 * are "minuet.weights_order": "minuet". They override the description's order, and reading the file with
 * another weights_order is INVALID_ARGUMENT. The file is written whole or not at all. Errors are those of
 * minuet_plan_create_network, for the dtype of `options` too. INVALID_ARGUMENT if output_path is the weights
 * file itself. FAILED_PRECONDITION if the file cannot be written. */
MINUET_API minuet_status minuet_weights_convert(const minuet_network_options* options,
                                                const char* output_path);

/* ---- plans: immutable, shared by devices and threads ----------------------------------------------- */

/* Releases a plan. Executions, parameters and jobs that were made from it keep it alive. */
MINUET_API void minuet_plan_destroy(minuet_plan* plan);

/* Chooses the kernels that any cloud may need on `arch`, and compiles into the cache those that are neither
 * in memory nor in a bundle nor in the cache folder. It needs no GPU and no driver.
 *
 * `arch` is "sm_90a", or the arch of minuet_device_info. "cpu" has no kernels, but the CPU device needs this
 * call too. A plan may be compiled for any number of architectures. Compiling it again for one is quick.
 * `visit` is optional; the calling thread calls it once for each kernel, after all are there.
 * - INVALID_ARGUMENT: `arch` is not an architecture. PTX ("compute_90") is for minuet_precompile only.
 * - UNIMPLEMENTED: a kernel cannot run on `arch`, the installed NVRTC cannot compile for it, or the kernel of
 *   a layer has too many offsets for MINUET_DATAFLOW_FUSED.
 * - FAILED_PRECONDITION, UNAVAILABLE: a kernel is missing, and MINUET_JIT_OFF forbids a compile, or there is
 *   no compiler.
 * - INTERNAL: a kernel does not compile. minuet_last_error_detail has the log.
 * If only kernels that tuning results choose are missing and cannot be compiled, the plan gets the default
 * kernels, and the log callback gets a warning. */
MINUET_API minuet_status minuet_plan_compile(minuet_plan* plan, const char* arch, minuet_kernel_visitor visit,
                                             void* user);
/* Loads a plan on a device: allocates memory for its parameters, uploads them, loads the kernels, and loads
 * cuBLASLt's kernels for every size of cloud by running each once. It returns when all of that is done, and
 * uses as many threads as there are cores. The memory is released with the plan and its executions. Loading
 * again does nothing. The device may be another context's. The kernels are those that were compiled for the
 * device's architecture or, if there are none, for the nearest older one of the same major capability that
 * the device runs ("sm_80" on an sm_86). FAILED_PRECONDITION if there are none either. */
MINUET_API minuet_status minuet_plan_load(minuet_plan* plan, minuet_device* device);

/* Properties of a plan. Strings live as long as the plan. On one device its results are the same bit by bit
 * with the same kernels, tuning results, options and cuBLASLt, also after serialization, in another context,
 * and with any cpu_threads. */
typedef struct minuet_plan_info {
  size_t struct_size;
  const char* name; /* of the network, or of the single op, such as "convolution" */
  minuet_dtype dtype;
  int32_t ndim, in_channels, out_channels; /* channels of the first input and the first output */
  int32_t levels, layers;                  /* number of coordinate sets and of ops */
  int32_t output_level;                    /* of the first output; 0: its rows are in the caller's order */
  int32_t inputs, outputs;   /* tensors that run takes and gives (minuet_plan_query_input, _output) */
  int32_t maps;              /* kernel maps that prepare_maps takes: 1 for every single op, 0 for a network */
  int32_t missing_head;      /* 1: a head of unknown width is left out: outputs are features, not classes */
  int32_t parameter_tensors; /* numbers for minuet_plan_query_parameter are less than this */
  int64_t parameters;        /* number of values; a batch norm counts as its scale and shift */
  int32_t convolutions, int8_convolutions; /* among the layers: all, and those that compute in 8 bits */
} minuet_plan_info;
/* Describes a plan. */
MINUET_API minuet_status minuet_plan_query(minuet_plan* plan, minuet_plan_info* info);

/* One input or output of a run. Strings live as long as the plan. */
typedef struct minuet_tensor_info {
  size_t struct_size;
  const char* name; /* the description's; of a single op "input", "residual", "output" or "winners" */
  int64_t shape[MINUET_MAX_RANK]; /* -1: not decided by the plan (rows, batch size of a dense output) */
  int32_t tensor_stride[MINUET_MAX_DIM]; /* of its level; 0 if the coordinate set is the caller's */
  int32_t rank;                          /* 2: [rows, channels]; 3 to 6: a dense output */
  int32_t level;          /* for minuet_execution_query_level; 0: its rows are in the caller's order */
  int32_t channels;       /* channels of a row */
  minuet_element element; /* of its array in minuet_execution_run_arrays */
  int32_t ndim, axes;     /* number of axes of its level, and which: bit a stands for axis a of the plan */
} minuet_tensor_info;
/* Describes the input or output of this number, counted from 0. OUT_OF_RANGE past the last one. */
MINUET_API minuet_status minuet_plan_query_input(minuet_plan* plan, int32_t input, minuet_tensor_info* info);
MINUET_API minuet_status minuet_plan_query_output(minuet_plan* plan, int32_t output,
                                                  minuet_tensor_info* info);

/* Writes the description of a network as JSON, with the widths and the heads that the plan has. It is the
 * same text for all descriptions of the same layers, names and fields. A plan that is created from it has the
 * same program; dtype, dataflow and weights are options, and not in the text. The text is "" for a plan of
 * one op. `buffer`, `size` and the result are as for minuet_last_error. */
MINUET_API size_t minuet_plan_description(minuet_plan* plan, char* buffer, size_t size);

/* One parameter tensor, with its name and shape in a weights file. A plan of a convolution has "weight" and,
 * if it has a scale or a shift, "scale" and "shift". Strings live as long as the plan. */
typedef struct minuet_parameter_info {
  size_t struct_size;
  const char* name;
  int64_t shape[MINUET_MAX_RANK]; /* the first `rank` elements; the others are 0 */
  int32_t rank;
  int32_t reserved;
} minuet_parameter_info;
/* Describes the parameter of this number, counted from 0. OUT_OF_RANGE past the last one. */
MINUET_API minuet_status minuet_plan_query_parameter(minuet_plan* plan, int32_t parameter,
                                                     minuet_parameter_info* info);

/* ---- plans as bytes ---------------------------------------------------------------------------------- */

enum { MINUET_SERIALIZE_WITHOUT_VALUES = 1 }; /* leaves the values of the parameters out */
/* Writes a plan to `buffer` as bytes for a file, another process or a program's data. It needs no GPU.
 *
 * The bytes hold:
 * - the problem with all its options and, for a network, its description
 * - the parameters after folding and rounding, if the plan has values and `flags` does not leave them out
 * - the tuning results with which the plan was created
 * - for each of `archs` ("sm_80", "sm_90a", ...), the kernels that any cloud may need. They are found or
 *   compiled as by minuet_plan_compile, with the same errors. "cpu" adds nothing. `archs` is optional
 * - the version of the library, and the versions of the compilers
 * They name no file. The same plan, kernels and archs, in any order, give the same bytes in every process.
 *
 * `flags` is 0 or MINUET_SERIALIZE_WITHOUT_VALUES. *needed gets the number of bytes. With a null `buffer` and
 * size 0 the call only does that. If `size` is too small, the call is OUT_OF_RANGE and writes *needed, but
 * not `buffer`. After either result the plan keeps the bytes, so that the work is done once: until a call
 * with the same archs and flags writes them, which drops them, the next such query, or its end.
 * FAILED_PRECONDITION if a bundle has a kernel for an older architecture only: the message says which one. */
MINUET_API minuet_status minuet_plan_serialize(minuet_plan* plan, const char* const* archs,
                                               int32_t arch_count, uint32_t flags, void* buffer, size_t size,
                                               size_t* needed);
/* Creates a plan from bytes of minuet_plan_serialize, to be compiled, loaded and destroyed like any other.
 *
 * minuet_plan_compile is still required. For an arch that was serialized it compiles nothing, and needs
 * neither NVRTC nor a cache folder: this call adds the kernels to the bundles of the context, as
 * minuet_context_add_bundle_memory does, where they stay as long as the context and serve its coordinate sets
 * too. For other archs it compiles as for any plan. Tuning results of the context are not used. Every library
 * of the same 0.x that knows the plan's ops reads the bytes. If a patch release changed a kernel or the
 * tuning, the old one in the bytes is not used.
 * - FAILED_PRECONDITION: the bytes are of another 0.x of the library, or of a newer format.
 * - INVALID_ARGUMENT: the bytes are no serialized plan, were cut short, have others behind them, or differ
 *   from those that were written, by a SHA-256 of all. The message has the reason.
 * After a failure the context is unchanged. The digest is no signature. Take bytes from a trusted source
 * only, because their kernels run on the GPU. */
MINUET_API minuet_status minuet_plan_deserialize(minuet_context* context, const void* bytes, size_t size,
                                                 minuet_plan** plan);

/* ---- executions ---------------------------------------------------------------------------------------- */

/* The method that makes a network's coordinate sets and kernel maps. Both methods make the same sets and
 * pairs; the rows of the sets have another order (minuet_execution_run). */
typedef int32_t minuet_map_method;
enum {
  MINUET_MAPS_AUTO = 0,   /* indexed if that is possible, else sorted */
  MINUET_MAPS_SORTED = 1, /* sorts keys, and searches the sorted keys (paper 5.1) */
  /* A hash table holds the blocks of space that have voxels, so that the cost depends on the number of voxels
   * and not on the extent. It takes about 90 bytes for each coordinate and level; in capacity mode, for each
   * voxel of a level's capacity, or less with level_slots.
   *
   * Networks of more than 16 levels are always sorted, because one index holds all levels. Over 2^26 blocks
   * or superblocks in a level: RESOURCE_EXHAUSTED; use SORTED.
   *
   * Without bounds, the keys of the table hold batch indices 0 to 8191 and these coordinates:
   *   one axis     -2^30 to 2^30 - 4097
   *   two axes     -2^30 to 2^30 - 65
   *   three axes   -2^20 to 2^20 - 17
   *   four axes    -2^15 to 2^15 - 17 on axes 0 and 1, to 2^15 - 5 on axis 2, -2^14 to 2^14 - 5 on axis 3
   * Sets that are reached (minuet_coordinates_reach) may need more bits of a key. The axes then lose 1/64 of
   * their range or, if that is too little, the batch indices lose a half or more.
   *
   * Declared bounds replace this range. They may be wider or elsewhere, if 64 bits of a key hold them. In
   * exact mode, a cloud outside the range costs two more waits and a second build; the range then fits this
   * cloud and similar ones. */
  MINUET_MAPS_INDEXED = 2
};

/* Options of an execution of a network or of a single op.
 *
 * A single op takes its sets from its kernel maps: max_points, keep_first_duplicate, has_bounds,
 * level_capacity and batch_size must be 0 for it.
 *
 * The memory of an execution is its workspace. By default it is allocated, and grows when a cloud needs more.
 * With `workspace` or defer_workspace it is the caller's and does not grow: a cloud that needs more is
 * RESOURCE_EXHAUSTED, and the message has the bytes. minuet_plan_workspace_bytes and minuet_execution_query
 * tell the size. With level_capacity, the execution is in capacity mode, else in exact mode
 * (minuet_execution_prepare). */
typedef struct minuet_execution_options {
  size_t struct_size;
  void* ext;
  int64_t max_points; /* create makes room for the sets and maps of this many coordinates; the first cloud,
                         and any that needs more, allocates the rest. 0 in capacity mode */
  int32_t keep_first_duplicate; /* 0: duplicates are an error; 1: the first row of equal coordinates is used,
                                   and outputs of level 0 repeat its row for the others */
  int32_t has_bounds; /* 1: every coordinate lies in [least, greatest]. The bounds are the range of the keys
                         of indexed maps; for sorted maps they save a wait */
  int32_t least[1 + MINUET_MAX_DIM]; /* of the batch index, then of each axis; 0 on axes from ndim on */
  int32_t greatest[1 + MINUET_MAX_DIM];
  void* workspace; /* optional: device memory of the caller, 256-byte aligned, idle at create. It must live
                      until the execution is destroyed or gets another one (minuet_execution_set_workspace) */
  int64_t workspace_bytes;
  minuet_queue* queue; /* optional: scratch is then shared in the queue, and not in the workspace */
  /* Most bytes that the gather and GEMM buffers of a layer (paper 5.2) take together; 0: 4 KiB for each voxel
   * of the finest level, and at least 64 MiB. A layer with more pairs processes them in slices of whole
   * offsets, which changes the order of its sums: the bits of results may depend on this number, and repeat
   * with it. The pairs of one offset always fit. */
  int64_t scratch_bytes;
  /* Optional: the most voxels of each level, 1 or more; selects capacity mode. Level 0 limits the coordinates
   * too. A level of batch items (of global_pool) needs at least batch_size. */
  const int64_t* level_capacity;
  int32_t level_count; /* minuet_plan_info.levels, or 0 */
  int32_t key_bits; /* bits of a voxel's key, all its fields: 32 or 64 (0: 64). Only in capacity mode without
                       has_bounds; no effect on indexed maps */
  minuet_map_method map_method;
  int32_t defer_workspace; /* 1: create takes no workspace; minuet_execution_set_workspace gives it before the
                              first prepare. Not with `workspace` */
  /* Optional: run uses these values, made for the same plan and device; null: the plan's own. A prepare that
   * selects a kernel for the first time then allocates memory for its form of the weights, and waits for
   * earlier calls of minuet_parameters_set; in capacity mode create does so. */
  minuet_parameters* parameters;
  int64_t parameter_inputs; /* 1: run takes the plan's parameters as inputs behind the features, in the order
                               of minuet_plan_query_parameter; not with `parameters`. Their device memory is
                               not part of the workspace */
  int64_t batch_size; /* number of batch items, above every batch index; items without voxels are legal. 0:
                         not declared. Networks with to_dense, birds_eye or global_pool require it */
  const int64_t* level_slots; /* optional, with level_capacity: slots of each level's hash table (index.h) */
} minuet_execution_options;
#define MINUET_EXECUTION_OPTIONS_INIT \
  { sizeof(minuet_execution_options), 0, 0, 0, 0, {0}, {0}, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/* Computes how many bytes of workspace (256-byte aligned) an execution of the plan needs. It needs no GPU, no
 * driver and no loaded plan, and allocates no device memory. The plan must have been compiled for exactly
 * this `arch` ("sm_90a", "cpu"; as for minuet_plan_compile), else FAILED_PRECONDITION. `options` is optional.
 * - With level_capacity, *bytes is exactly minuet_execution_info.workspace_bytes of an execution with these
 *   options. The arguments max_points and max_neighbours must be 0.
 * - Otherwise *bytes suffices in exact mode for every cloud of at most max_points points whose voxels have at
 *   most max_neighbours inputs per output and kernel map on average: 1 or more, because a voxel counts as its
 *   own neighbour (LiDAR: 5 to 6, indoor: 10 to 16, at most the number of offsets). It suffices on every GPU
 *   of the architecture, with every cuBLASLt, with MINUET_MAPS_AUTO for either method, and for
 *   options.max_points.
 * *bytes grows with each capacity, with max_points and with max_neighbours. For "cpu" it also depends on the
 * number of threads (cpu_threads, and the CPUs of this machine). INVALID_ARGUMENT if the options set
 * workspace, workspace_bytes or defer_workspace, because the workspace is what is asked for, or queue or
 * parameters, which belong to a device. With a queue it is less; parameters and parameter_inputs add 0. */
MINUET_API minuet_status minuet_plan_workspace_bytes(minuet_plan* plan, const char* arch,
                                                     const minuet_execution_options* options,
                                                     int64_t max_points, double max_neighbours,
                                                     int64_t* bytes);

/* Creates an execution: one caller's use of a loaded plan on a device, with memory, side streams and events
 * of its own. Executions are independent of one another; those with one queue share it.
 *
 * `options` is optional. The call allocates memory, for all clouds in capacity mode, else for max_points; an
 * execution of a single op allocates its workspace in prepare_maps. It may wait for the queue's stream.
 * - FAILED_PRECONDITION: the plan is not loaded on the device; it was created without values, and neither
 *   `parameters` nor parameter_inputs is given; a layer of a network in capacity mode runs as
 *   gather-GEMM-scatter (the message names it); or, for a network, the queue's stream is being captured.
 * - RESOURCE_EXHAUSTED: `workspace` is too small for level_capacity or max_points.
 * - OUT_OF_RANGE: max_points or a capacity is more than 2^30 - 1, or more than 2^31 - 1 divided by the
 *   offsets of the largest kernel; or the dense tensor of batch_size items has more than 2^31 - 1 cells. */
MINUET_API minuet_status minuet_execution_create(minuet_plan* plan, minuet_device* device,
                                                 const minuet_execution_options* options,
                                                 minuet_execution** execution);
/* Releases an execution. It waits for a call of another thread on it, and for its enqueued work: with a queue
 * for the queue's stream, unless that is being captured. Graphs of its calls must not be replayed later. */
MINUET_API void minuet_execution_destroy(minuet_execution* execution);

/* Makes all coordinate sets and kernel maps of a network for one cloud, and selects the kernels that run it.
 * run may then be called any number of times.
 *
 * `coordinates` are int32 [count, 1 + ndim] in device memory, 4-byte aligned, and may be null for a count of
 * 0. In capacity mode the enqueued work reads them, else only the call does.
 *
 * If a network has a shape or the options a batch_size, coordinates must lie in [0, shape) and batch indices
 * in [0, batch_size). If both are declared they act as has_bounds, provided that 64-bit keys hold them.
 * has_bounds may give narrower bounds; wider ones are INVALID_ARGUMENT at create.
 *
 * In exact mode the call waits for the stream and must not be captured (FAILED_PRECONDITION):
 * - indexed maps: once; three times if no bounds are known and the cloud is outside the range of the keys
 * - sorted maps: once if bounds are known, else at most twice
 * - more often if the cloud needs more memory than the workspace has, or a set that is reached has more
 *   voxels than expected
 * In capacity mode the call only enqueues and may be captured (below). The call allocates if the workspace is
 * too small and not the caller's. A failure leaves no cloud prepared, but changes nothing if the execution is
 * a single op's or serves another call.
 * - INVALID_ARGUMENT: duplicates, or a negative batch index.
 * - OUT_OF_RANGE: a coordinate is outside the bounds, the shape or the batch size; 64-bit keys do not hold
 *   the extent; there are too many coordinates (minuet_execution_create), or more than level_capacity[0].
 * - RESOURCE_EXHAUSTED: the caller's workspace is too small; a set that is reached has too many voxels; or an
 *   index has too many blocks (MINUET_MAPS_INDEXED).
 * - FAILED_PRECONDITION: the execution is that of a single op, has no workspace yet (defer_workspace), or a
 *   captured graph uses the caller's workspace (minuet_execution_release_captures).
 * In capacity mode only the device knows of errors in the coordinates, and sets bits of the status word. */
MINUET_API minuet_status minuet_execution_prepare(minuet_execution* execution, const int32_t* coordinates,
                                                  int64_t count, void* stream);

/* Capacity mode needs every layer to run fused: choose MINUET_DATAFLOW_FUSED. Sizes live on the device:
 * - prepare and run only enqueue. They may be captured, together, in a graph that is replayed for other
 *   coordinates, features and counts. The caller orders calls and replays with one another.
 * - Tensors have as many rows as the capacity of their level. Rows of an input past the count are not read.
 *   Rows of an output past the count are zeros, or -1 for an output of i32.
 * - Kernels are selected by the capacities, and not by the number of neighbours, so that bits may differ from
 *   those of exact mode.
 * - A cloud that does not fit gives outputs without rows, thus zeros, counts of 0, and writes nothing
 *   outside. Its status word has at least one bit below, each for a reason that holds; others may lack their
 *   bit. If the cloud fits, the word is 0.
 * - The range of the keys of an index does not follow the clouds: declare bounds if the default
 *   (MINUET_MAPS_INDEXED) is too narrow.
 * minuet_execution_query_cloud locates the status word and counts; _copy_cloud and _read_cloud copy them. */
enum {
  MINUET_CLOUD_OUT_OF_BOUNDS = 1, /* outside the bounds, the network's shape or the batch size */
  MINUET_CLOUD_NEGATIVE_BATCH = 2,
  MINUET_CLOUD_DUPLICATE = 4,       /* unless keep_first_duplicate is 1 */
  MINUET_CLOUD_PAST_CAPACITY = 8,   /* too many coordinates or voxels of a level, or a negative count */
  MINUET_CLOUD_KEY_TOO_NARROW = 16, /* sorted: key_bits do not hold the extent: use 64, or larger voxels */
  MINUET_CLOUD_TOO_FAR = 32,        /* sorted: the coordinates of a coarser level would leave 32 bits */
  MINUET_CLOUD_INDEX_FULL = 64,     /* indexed: a level has too many superblocks for its slots (index.h) */
  MINUET_CLOUD_OUTSIDE_KEYS = 128   /* indexed, without bounds: outside the range of the keys */
};
/* Prepares a cloud as minuet_execution_prepare does, in capacity mode only, with the number of coordinates in
 * device memory. It enqueues, allocates nothing, and may be captured. `count` is int32 [1], 4-byte aligned,
 * and is read whenever the work runs. `coordinates` have at least one row, and as many as each count says;
 * rows past the count are not read. They must not overlap the workspace; the host, which does not know the
 * count, checks this for the first row only. FAILED_PRECONDITION in exact mode. */
MINUET_API minuet_status minuet_execution_prepare_on_device(minuet_execution* execution,
                                                            const int32_t* coordinates, const int32_t* count,
                                                            void* stream);
/* Returns pointers to device memory that each prepare in capacity mode writes: *status is uint32 [1], the
 * status word, and *counts is int32 [1 + levels], the number of coordinates that were taken, then the voxels
 * of each level. The memory is the execution's, and the pointers stay valid until it is destroyed or gets
 * another workspace (minuet_execution_set_workspace). FAILED_PRECONDITION in exact mode, and if the execution
 * has no workspace yet (defer_workspace). */
MINUET_API minuet_status minuet_execution_query_cloud(minuet_execution* execution, const uint32_t** status,
                                                      const int32_t** counts);
/* Copies the status word and the counts to the caller's device memory or pinned host memory, 4-byte aligned:
 * `status` is uint32 [1], and `counts` is int32 [count], where count is 1 + levels. `counts` is optional:
 * null with a count of 0. It enqueues, and may be captured. INVALID_ARGUMENT: a target is in the workspace
 * or memory of query_cloud. FAILED_PRECONDITION in exact mode, and before the first prepare. */
MINUET_API minuet_status minuet_execution_copy_cloud(minuet_execution* execution, uint32_t* status,
                                                     int32_t* counts, int32_t count, void* stream);
/* Copies the same to host memory, with the same preconditions. It waits, and must not be captured. */
MINUET_API minuet_status minuet_execution_read_cloud(minuet_execution* execution, uint32_t* status,
                                                     int32_t* counts, int32_t count, void* stream);
/* Writes, for each level of the cloud that is prepared, its number of rows times `factor`, rounded up to a
 * multiple of 256: capacities for clouds like this one. `factor` is 1 to 1024, and level_count is
 * minuet_plan_info.levels. FAILED_PRECONDITION in capacity mode, for single ops, and unless prepared. */
MINUET_API minuet_status minuet_execution_suggest_capacities(minuet_execution* execution, double factor,
                                                             int64_t* level_capacity, int32_t level_count);

/* Prepares a single op for kernel maps: selects its kernels, and makes the views of the maps that they read.
 * run may then be called any number of times.
 *
 * `count` is minuet_plan_info.maps. The maps are of the execution's device, and of its queue or, if it has
 * none, of no queue. The execution keeps them alive until the next prepare_maps.
 *
 * The call enqueues, and allocates if the workspace is too small and not the caller's. It waits only:
 * - for an earlier prepare_maps of this execution, if the device still works on it
 * - for the stream, if the workspace grows and there is no queue
 * - for earlier calls, if the device has an allocator, there is no queue, and the maps are not those of
 *   before
 * - for the pairs of a map, if the op runs as gather-GEMM-scatter and they have not been read yet
 *   (minuet_kernel_map_query_pairs)
 * A failure leaves no map prepared, but changes nothing if the execution is a network's or serves a call.
 * - INVALID_ARGUMENT: a map does not fit the op (minuet_plan_create_convolution), the device or the queue.
 * - FAILED_PRECONDITION: the execution is that of a network; the stream is being captured; it has no
 *   workspace yet; or a captured graph uses the caller's workspace (minuet_execution_release_captures).
 * - RESOURCE_EXHAUSTED: the caller's workspace is too small. */
MINUET_API minuet_status minuet_execution_prepare_maps(minuet_execution* execution,
                                                       minuet_kernel_map* const* maps, int32_t count,
                                                       void* stream);
/* Prepares `count` executions of single ops with one map each: executions[i] takes maps[i]. It does the same
 * as `count` calls of minuet_execution_prepare_maps in about as many launches as one. The executions must be
 * distinct and made with one queue, and their workspaces must not overlap. If this does not hold, if a
 * pointer is null, or if an execution is that of a network or serves another call, the call changes nothing.
 * After any other failure, such as a map that does not fit, none of the executions is prepared. */
MINUET_API minuet_status minuet_executions_prepare_maps(minuet_execution* const* executions,
                                                        minuet_kernel_map* const* maps, int32_t count,
                                                        void* stream);
/* Gives the rows and channels of the first output, or of output number `output`, for what is prepared. In
 * capacity mode the rows are the capacity. In exact mode the first input has as many rows as the cloud has
 * coordinates. For others see minuet_execution_query_level. OUT_OF_RANGE past the last output.
 * FAILED_PRECONDITION if nothing is prepared, or the output is a dense array (minuet_plan_query_output). */
MINUET_API minuet_status minuet_execution_output_shape(minuet_execution* execution, int64_t* rows,
                                                       int32_t* channels);
MINUET_API minuet_status minuet_execution_output_shape_of(minuet_execution* execution, int32_t output,
                                                          int64_t* rows, int32_t* channels);
/* Runs what is prepared: reads the inputs and writes the outputs. It may run again with other tensors.
 *
 * A network takes the inputs and gives the outputs of its description, in its order: matrices [rows of the
 * level, channels] of the plan's dtype. In exact mode the first input has one row for each coordinate of the
 * cloud; in capacity mode each has its level's capacity. Rows of level 0 are in the caller's order. Rows of
 * other levels have an order that depends only on the coordinates and the tensor stride of that level; if
 * maps are sorted it is ascending.
 *
 * A convolution takes its input [rows of the map's input set, in_channels] and, if it has one, its residual
 * [output rows, out_channels], and gives one output [rows of the map's output set, out_channels]
 * (minuet_coordinates_rows).
 *
 * With parameter_inputs, each parameter follows as a matrix of any dtype: its last axis is the channels, and
 * all other axes are the rows. The run sets them as minuet_parameters_set does, in Minuet's order.
 * - Memory: inputs may overlap inputs. An output must not share a byte with an input, another output or the
 *   caller's workspace, nor an input with the workspace. Two ranges of columns of one wider matrix do not
 *   overlap. Matrices of different row strides are accepted only if one ends before the other begins.
 * - Stream: the call enqueues. It neither waits nor allocates nor compiles. A run may be captured
 *   once what is prepared has run without a capture. Outputs are wholly written.
 * - Errors: after a failure the contents of the outputs are undefined. FAILED_PRECONDITION if nothing is
 *   prepared, a parameter of `parameters` was never set (the message names it), or an output is winners, the
 *   result of an argmax, or a dense array (minuet_execution_run_arrays). */
MINUET_API minuet_status minuet_execution_run(minuet_execution* execution, const minuet_tensor* inputs,
                                              int32_t input_count, const minuet_tensor* outputs,
                                              int32_t output_count, void* stream);
/* Runs as minuet_execution_run, with arrays in place of matrices, for outputs of any element and rank.
 * - Features are arrays [rows, channels], of f32 for plans of MINUET_F32 and MINUET_TF32, else of f16 or bf16
 *   as the plan. stride[1] is 1; stride[0] and data are as minuet_tensor allows. The stride of an axis of one
 *   element does not matter, and data may be null if there are no rows.
 * - Winners (minuet_pooling_options), the second output, and the result of an argmax are such arrays of i32.
 * - A dense output (to_dense, birds_eye) is a contiguous array of rank 3 to 6, [batch_size, ...], of the
 *   features' element, that begins on a multiple of an element's size. Every element is written, with 0 if
 *   there is no voxel.
 * - With parameter_inputs, each parameter follows as an array of its own shape, as minuet_parameters_set
 *   takes it in Minuet's order, of f32, f16, bf16 or f64, with any strides.
 * INVALID_ARGUMENT names the array that does not fit, or that is on_host for a GPU. */
MINUET_API minuet_status minuet_execution_run_arrays(minuet_execution* execution, const minuet_array* inputs,
                                                     int32_t input_count, const minuet_array* outputs,
                                                     int32_t output_count, void* stream);
/* Writes the coordinates of the rows of the first output, or of output number `output`, in the order of its
 * rows: int32 [rows, 1 + ndim of its level] in device memory, 4-byte aligned. In capacity mode rows past the
 * count are zeros. The call enqueues. It is for networks, because the sets of a single op are the caller's.
 * OUT_OF_RANGE past the last output. FAILED_PRECONDITION unless prepared, for single ops and dense arrays. */
MINUET_API minuet_status minuet_execution_output_coordinates(minuet_execution* execution,
                                                             int32_t* coordinates, void* stream);
MINUET_API minuet_status minuet_execution_output_coordinates_of(minuet_execution* execution, int32_t output,
                                                                int32_t* coordinates, void* stream);

/* Properties of an execution that a caller needs before it gives it memory or captures its calls.
 *
 * workspace_bytes is what the workspace needs; minuet_execution_counters have what there is. With a queue,
 * scratch lies there and does not count.
 * - In capacity mode it suffices for every cloud. It depends on the compiled plan with its tuning, on the
 *   options, on the version of the library, and on the CPU device on its threads.
 * - In exact mode it is what max_points need and, after a prepare, what that prepare needed; after one that
 *   failed, what it needed until then. Ask before minuet_execution_set_workspace. */
typedef struct minuet_execution_info {
  size_t struct_size;
  int32_t has_capacities;       /* 1: capacity mode */
  int32_t prepare_capturable;   /* 1: prepare may be captured: in capacity mode, on a GPU */
  int32_t run_capturable;       /* 1: run may be captured, by its rules: on a GPU */
  minuet_map_method map_method; /* that prepare uses: SORTED or INDEXED; MINUET_MAPS_AUTO for a single op */
  int64_t workspace_bytes;
} minuet_execution_info;
#define MINUET_EXECUTION_INFO_INIT \
  { sizeof(minuet_execution_info), 0, 0, 0, 0, 0 }
/* Describes an execution. Like its other calls, it is FAILED_PRECONDITION during a call of another thread. */
MINUET_API minuet_status minuet_execution_query(minuet_execution* execution, minuet_execution_info* info);
/* Replaces the workspace of the execution, its own or the caller's, by `bytes` bytes of the caller's device
 * memory: 256-byte aligned and idle. The execution uses them until it is destroyed or this is called again.
 *
 * The call waits for `stream` only: earlier calls on other streams must be done, or ordered before it by an
 * event. Then the caller may free the previous workspace, and nothing is prepared.
 * - FAILED_PRECONDITION: the stream is being captured, or a captured graph uses the previous workspace. In
 *   the second case call minuet_execution_release_captures first; the graph must not be replayed afterwards.
 *   This error, wrong arguments and a failed wait change nothing.
 * - RESOURCE_EXHAUSTED: the memory is too small for level_capacity or max_points. After this and any later
 *   error the execution has no workspace, and prepare is FAILED_PRECONDITION. */
MINUET_API minuet_status minuet_execution_set_workspace(minuet_execution* execution, void* workspace,
                                                        int64_t bytes, void* stream);

/* Frees the memory that only captured graphs use. The caller must not replay any graph of this execution's
 * runs afterwards, and none may still be running. A graph that captured a run reads the memory of what was
 * prepared then. A later prepare in exact mode, or of maps, therefore takes other memory; in a workspace of
 * the caller's it is FAILED_PRECONDITION. In capacity mode a graph reads what was prepared last. */
MINUET_API minuet_status minuet_execution_release_captures(minuet_execution* execution);

/* One level (coordinate set) of what is prepared. Before that, voxels is 0, and so is the tensor stride of a
 * level whose set is the caller's. */
typedef struct minuet_level_info {
  size_t struct_size;
  int32_t tensor_stride[MINUET_MAX_DIM];
  int64_t voxels;               /* rows of the set; in capacity mode its capacity */
  minuet_map_method map_method; /* that made the set; AUTO before prepare and for every single op */
  int32_t ndim; /* number of its axes: fewer than the plan's below a collapse, 0 for a level of batch items */
} minuet_level_info;
/* Describes level `level`, 0 to minuet_plan_info.levels - 1. OUT_OF_RANGE past the last one. */
MINUET_API minuet_status minuet_execution_query_level(minuet_execution* execution, int32_t level,
                                                      minuet_level_info* info);
#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MINUET_MINUET_H_ */
