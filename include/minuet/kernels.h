/* Minuet: the compiled kernels of a plan, for programs that launch them themselves through the driver API.
 * Part of the C ABI, beside minuet.h, whose rules hold here too.
 *
 * A compiler backend that has its own launcher, command buffer format or cubin linker may take the kernels of
 * a plan without the rest of the library. minuet_plan_visit_kernels tells all that cuModuleLoadData and
 * cuLaunchKernel need: the code, the symbol, threads, shared memory, the rule for the grid, and the layout of
 * the one struct that a kernel takes by value. share/doc/minuet/COMPILERS.md explains what each field means,
 * and how a kernel map becomes the tables that kernels read.
 *
 * These structs and this call are stable, as all of the ABI is. The answers are not: kernels, symbols, names,
 * candidates, layouts, grids and images of weights belong to this very library version (minuet_version) and
 * build. A program may keep them beyond the process only together with the code itself, and must never fill
 * in a struct from the answers of another version. A program that wants to be independent of versions runs
 * plans instead (minuet_plan_run, minuet_execution_run).
 */
#ifndef MINUET_KERNELS_H_
#define MINUET_KERNELS_H_

#include <minuet/minuet.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Says how the bytes of a field are read. */
typedef int32_t minuet_field_kind;
enum {
  MINUET_FIELD_POINTER = 0, /* an address of device memory, or null */
  MINUET_FIELD_I32 = 1,
  MINUET_FIELD_U32 = 2,
  MINUET_FIELD_I64 = 3,
  MINUET_FIELD_F32 = 4
};

/* One field of the struct that a kernel takes. This struct never grows. */
typedef struct minuet_kernel_field {
  const char* name; /* "input"; for a field of a struct inside the struct, "shortcut.output" */
  int32_t offset;   /* in bytes, from the start of the struct */
  int32_t bytes;    /* of all elements together */
  minuet_field_kind kind;
  int32_t count; /* number of elements; 1 unless the field is an array */
  /* If the field points to parameters of the plan, data_bytes is their size in the layout that this kernel
   * reads, and data has these bytes, or is null if the plan has no values. The caller must copy them to
   * device memory that begins on a multiple of 16 bytes. Otherwise they are null and 0. */
  const void* data;
  int64_t data_bytes;
} minuet_kernel_field;

/* One kernel of a candidate. A candidate is one way to run a layer, for the numbers of output rows and the
 * densities (pairs of the kernel map per output row) in its ranges, which include their ends. If several
 * candidates serve a size, the library takes the first. All pointers are valid during the call of the visitor
 * only.
 *
 * The grid is one-dimensional, in one of two forms:
 * - grid_rows is 0: a grid-stride kernel. Any number of blocks that is a multiple of `cluster` is right, and
 *   8 to 64 for each multiprocessor are fast.
 * - Otherwise, let g = ceil(output rows / grid_rows). The grid has g * grid_blocks blocks, and
 *   g * grid_shortcut_blocks more, which compute the covered layer. The sum is rounded up to a multiple of
 *   `cluster`. A kernel that runs as one block has INT32_MAX for grid_rows. */
typedef struct minuet_kernel_code {
  size_t struct_size;
  const char* layer_name; /* the parameter prefix, as in minuet_layer_info */
  int32_t layer;          /* the number of the layer, for minuet_execution_query_layer */
  int32_t candidate;      /* the number of the candidate within the layer, from 0 */
  const char* family;     /* how the candidate works: "fused", "gather-gemm-scatter", "pooling", ... */
  int32_t kernel_count;   /* kernels of this candidate; "gather-gemm-scatter" calls cuBLASLt too */
  int32_t covers;         /* number of layers after this one that the candidate computes too */
  int64_t least_rows, most_rows;
  double least_density, most_density; /* most_density may be infinite */
  const char* name;   /* of the kernel, with every compiled-in size: minuet_layer_info.kernel */
  const char* arch;   /* of the code: the arch of the call, or an older one */
  const char* symbol; /* for cuModuleGetFunction */
  const void* image;  /* for cuModuleLoadData: a cubin, or PTX with its final zero if arch is virtual
                         ("compute_90") */
  int64_t image_bytes;
  int32_t threads;             /* of a block, along x */
  int32_t static_shared_bytes; /* shared memory that the driver knows from the code; 0 for PTX */
  /* Shared memory that the launch must be given. If static and dynamic shared memory together exceed 48 KiB,
   * the function must be allowed this number first (CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES). */
  int32_t dynamic_shared_bytes;
  int32_t cluster;      /* blocks of a cluster; more than 1: launch by cuLaunchKernelEx with this dimension */
  int32_t programmatic; /* 1: the kernel may be launched with programmatic stream serialization */
  int32_t grid_rows, grid_blocks, grid_shortcut_blocks; /* the grid: see above */
  int32_t arguments_bytes; /* size of the struct, the kernel's only argument; bytes between fields are 0 */
  int32_t field_count;
  const minuet_kernel_field* fields; /* in ascending order of offset */
  int32_t launches; /* 1; more for a convolution with groups, of which each launch computes as many output
                       channels: share/doc/minuet/COMPILERS.md says how its pointers move */
  int32_t reserved;
} minuet_kernel_code;

/* Is called on the thread of minuet_plan_visit_kernels, with no lock held. It may call the library. */
typedef void (*minuet_kernel_code_visitor)(const minuet_kernel_code* kernel, void* user);

/* Calls `visitor` for each kernel of each candidate of each layer of the plan, in ascending order of layer
 * and candidate. The kernels of a candidate come in the order in which the candidate has them.
 *
 * A kernel that several candidates have comes once for each of them. A layer that every candidate of an
 * earlier layer computes too has no candidates. Kernels that build coordinate sets and kernel maps, permute
 * rows or convert parameters belong to no layer and are not visited. For arch "cpu" there are no kernels, and
 * the visitor is not called.
 *
 * The plan must be compiled for exactly this `arch` (minuet_plan_compile). The call needs no device and
 * compiles nothing. It makes the images of weights for the time of the call, which takes time, and host
 * memory of about one layer's weights. It may run while other threads compile, load or run the plan.
 *
 * FAILED_PRECONDITION: the plan is not compiled for this arch. */
MINUET_API minuet_status minuet_plan_visit_kernels(minuet_plan* plan, const char* arch,
                                                   minuet_kernel_code_visitor visitor, void* user);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MINUET_KERNELS_H_ */
