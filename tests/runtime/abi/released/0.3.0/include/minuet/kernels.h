/* Minuet: the compiled kernels of a plan, for programs that launch them by the driver API themselves. Part of
 * the C ABI, beside minuet.h, whose rules hold here too.
 *
 * A compiler backend that has a launcher, a command buffer format or a cubin linker of its own may take the
 * kernels of a plan and leave the rest of the library behind. minuet_plan_visit_kernels tells all that
 * cuModuleLoadData and cuLaunchKernel need: code, symbol, threads, shared memory, the rule for the grid, and
 * the layout of the one struct that a kernel takes by value. What each field means, and how a kernel map
 * becomes the tables that kernels read, is in share/doc/minuet/COMPILERS.md.
 *
 * These structs and this call are stable, as all of the ABI is. The answers are not: kernels, symbols, names,
 * candidates, layouts, grids and images of weights are those of this very library version (minuet_version)
 * and build. Keep nothing of them beyond the process but beside the code itself, and never fill in a struct
 * by what another version said. A program that wants to be independent of versions runs plans instead
 * (minuet_plan_run, minuet_execution_run).
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
  const char* name; /* "input"; of a struct inside the struct, "shortcut.output" */
  int32_t offset;   /* from the start of the struct, in bytes */
  int32_t bytes;    /* of all elements */
  minuet_field_kind kind;
  int32_t count; /* of elements, 1 unless the field is an array */
  /* If the field points to parameters of the plan, data_bytes is their size in the layout that this kernel
   * reads, and data has the bytes, which must be copied to device memory that begins on a multiple of 16.
   * data is null for a plan without values. For other fields they are null and 0. */
  const void* data;
  int64_t data_bytes;
} minuet_kernel_field;

/* One kernel of a candidate. A candidate is one of the ways to run a layer, for the numbers of output rows
 * and the densities (pairs of the kernel map per output row) within its inclusive ranges; of those that serve
 * a size the library takes the first. All that pointers lead to is the library's, and lives during the call
 * of the visitor. */
typedef struct minuet_kernel_code {
  size_t struct_size;
  const char* layer_name; /* the parameter prefix, as in minuet_layer_info */
  int32_t layer;          /* its number, for minuet_execution_query_layer */
  int32_t candidate;      /* its number within the layer */
  const char*
      family; /* how the candidate computes the layer: "fused", "gather-gemm-scatter", "pooling", ... */
  int32_t kernel_count; /* of this candidate; beside them "gather-gemm-scatter" calls cuBLASLt */
  int32_t covers;       /* layers behind this one that the candidate computes too */
  int64_t least_rows, most_rows;
  double least_density, most_density; /* the greatest may be infinite */
  const char* name;   /* of the kernel, with every compiled-in size: minuet_layer_info.kernel */
  const char* arch;   /* that the code is for: the one that was asked for, or an older one */
  const char* symbol; /* for cuModuleGetFunction */
  const void* image;  /* a cubin, or PTX with its final zero where arch is virtual: for cuModuleLoadData */
  int64_t image_bytes;
  int32_t threads;             /* of a block, along x */
  int32_t static_shared_bytes; /* which the driver knows; 0 for PTX */
  /* The launch must be given these bytes. Where static and dynamic shared memory are more than 48 KiB
   * together, the function must be allowed these bytes first
   * (CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES). */
  int32_t dynamic_shared_bytes;
  int32_t cluster;      /* blocks of a cluster; more than 1: launch by cuLaunchKernelEx with this dimension */
  int32_t programmatic; /* 1: the kernel may be launched with programmatic stream serialization */
  /* The grid, along x. grid_rows 0: a grid-stride kernel, for which any number of blocks is right that is a
   * multiple of `cluster`, and 8 to 64 a multiprocessor are fast. Otherwise, with
   * g = ceil(output rows / grid_rows), the grid has g * grid_blocks blocks, and g * grid_shortcut_blocks
   * more, rounded up to a multiple of `cluster`, which compute the covered layer. A kernel that runs
   * as one block has INT32_MAX for grid_rows. */
  int32_t grid_rows, grid_blocks, grid_shortcut_blocks;
  int32_t
      arguments_bytes; /* of the struct, which is the kernel's only argument; bytes between fields are 0 */
  int32_t field_count;
  const minuet_kernel_field* fields; /* by offset */
} minuet_kernel_code;

/* Called on the thread that asks, with no lock held. It may call the library. */
typedef void (*minuet_kernel_code_visitor)(const minuet_kernel_code* kernel, void* user);

/* Calls `visitor` for each kernel of each candidate of each layer of the plan, by layer, candidate and the
 * order in which the candidate has them. A kernel that several candidates have comes once for each. Kernels
 * that build coordinate sets and kernel maps, permute rows or convert parameters belong to no layer, and are
 * not visited; a layer that every candidate of an earlier one computes too has no candidates. For arch "cpu"
 * there are no kernels, and the visitor is not called.
 *
 * Needs no device and compiles nothing: the plan must be compiled for just this `arch`
 * (minuet_plan_compile), else FAILED_PRECONDITION. Images of weights are made for the call, which costs time
 * and host memory of about one layer's weights. Any thread may call it at any time, also while other threads
 * compile, load or run the plan. */
MINUET_API minuet_status minuet_plan_visit_kernels(minuet_plan* plan, const char* arch,
                                                   minuet_kernel_code_visitor visitor, void* user);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MINUET_KERNELS_H_ */
