/* Minuet: tuning. Measures which kernels are fastest for a network's layers on one device (paper 6), keeps
 * what it finds in a folder, and has plans go by it. Part of the C ABI, beside minuet.h, whose rules
 * hold here too.
 *
 * Nothing is tuned, and no result is used, unless it is asked for: minuet_tune measures; after
 * minuet_context_load_tuning plans of that context are made by the results; minuet_plan_visit_tuning tells
 * what they changed. A result holds for one kind of device, toolkit, and set of kernels that it chose among,
 * which most versions of the library leave as it was; processes that load the same results choose the same.
 */
#ifndef MINUET_TUNING_H_
#define MINUET_TUNING_H_

#include <minuet/minuet.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Coordinates as for minuet_execution_prepare: device memory int32 [count, 1 + ndim], without duplicates.
 * This struct never grows. */
typedef struct minuet_tuning_cloud {
  const int32_t* coordinates;
  int64_t count; /* 1 or more */
} minuet_tuning_cloud;

/* How far minuet_tune is. Strings live during the call. */
typedef struct minuet_tuning_progress {
  size_t struct_size;
  const char* step;            /* "fused kernels", "tiles and GEMMs", "groups of GEMMs", "sorted
                                  maps", "row order", "dataflows", "the whole network" */
  int64_t rounds, most_rounds; /* of this step: done; done and to come, where there is time for all */
  double seconds_left;         /* of this step, at most */
} minuet_tuning_progress;

/* A candidate that does not run. Strings live during the call. */
typedef struct minuet_tuning_skip {
  size_t struct_size;
  const char* operation; /* as in minuet_tuned_choice, and the next one */
  const char* config;
  const char* reason;
} minuet_tuning_skip;

typedef struct minuet_tuning_options {
  size_t struct_size;
  void* ext;
  const minuet_tuning_cloud* clouds; /* like those that are to be fast, of their numbers of voxels */
  int32_t cloud_count;               /* 1 or more */
  int32_t repeats;       /* timed runs of each cloud in a round, 3 or more; 0: 16 on a GPU, 5 on the CPU */
  double budget_seconds; /* in which the call is to end, what is expected to gain most first; 0: 120. What
                            compiles and runs the default first counts, and is waited for however long it
                            takes. Whole inferences are compared where three passes over the clouds fit into
                            what is left; dataflows are decided between where they do. */
  int32_t exhaustive;    /* 1: every candidate, whatever the time */
  int32_t reserved;
  const char* directory; /* for the results, an absolute path, made where it is not there; null: the context's
                            cache folder */
  /* Optional callbacks, from the calling thread. */
  void (*progress)(const minuet_tuning_progress* progress, void* user);
  void (*skipped)(const minuet_tuning_skip* skip, void* user);
  int32_t (*cancelled)(void* user); /* asked between runs, and while kernels compile; 1 stops soon */
  void* user;
} minuet_tuning_options;
#define MINUET_TUNING_OPTIONS_INIT \
  { sizeof(minuet_tuning_options), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

typedef struct minuet_tuning_result {
  size_t struct_size;
  int64_t tried, skipped; /* candidates that were measured; that do not run */
  int64_t decided, won;   /* kinds of layer and size that were measured; those that the default lost */
  /* The whole network on all clouds, from coordinates and features to the output: medians by the host's
   * clock, without and with what was found; 0 where nothing was, it was stopped before, or no time was left
   * to compare. */
  double untuned_ms, tuned_ms;
  double seconds;
} minuet_tuning_result;

/* Measures on the device what may run each layer of a network: on a GPU the Specs of the fused kernel and the
 * order of its rows, the tiles of gather and scatter, cuBLASLt's algorithms, how GEMMs are grouped and spread
 * over streams, and how sorted keys are searched; and everywhere which dataflow is faster, where the plan
 * leaves that to be chosen. Layers are timed inside runs of the whole network, by themselves, the preparation
 * of a cloud not counted, but for an order; a candidate is kept where it beats the default by more than the
 * spread of their difference, twice, and is skipped where the network's output is another with it. As soon as
 * a step is over, its results take the place of those that the folder has of the same layers; nothing uses
 * them before minuet_context_load_tuning. Compiles, allocates and waits; the device should have nothing else
 * to do. The plan need be neither compiled nor loaded; one that was made by tuning results is measured
 * against the default all the same.
 *
 * CANCELLED where it was stopped; FAILED_PRECONDITION where there is no directory and kernels live in memory
 * only, or the output is 0 everywhere with the plan's weights; UNIMPLEMENTED for the plan of a single op.
 * result is optional, and is filled in with OK and CANCELLED. */
MINUET_API minuet_status minuet_tune(minuet_context* context, minuet_plan* plan, minuet_device* device,
                                     const minuet_tuning_options* options, minuet_tuning_result* result);

/* Plans of this context that are made from now on go by what was measured on devices like this one: results
 * of the directory (null: the cache folder) first, then those of bundles. results, optional: for how many
 * kinds of layer and size there are any. Plans that are there stay as they are. Capacity mode takes layers of
 * the fused dataflow alone: for it, ask for that one in the network's options, which goes before results. */
MINUET_API minuet_status minuet_context_load_tuning(minuet_context* context, minuet_device* device,
                                                    const char* directory, int64_t* results);

/* What was measured for a layer at some number of rows. Strings live during the call. Configurations are
 * names and whole numbers: "tile=16". */
typedef struct minuet_tuned_choice {
  size_t struct_size;
  const char* layer; /* the parameter prefix; "" of what serves all layers, of which that of most rows does */
  /* "fused", "gather", "scatter": a kernel; "gemm": an algorithm, by its place in cuBLASLt's list;
   * "dataflow": 0 gather-GEMM-scatter, 1 fused; of all layers "grouping" (of GEMMs, with their streams),
   * "search" (of sorted maps) and "order" (of the fused dataflow's rows: 0 as they come, 1 by mask, 2 with
   * their blocks). */
  const char* operation;
  const char* chosen;
  const char* otherwise;         /* what the default is; the same where nothing beats it */
  const char* origin;            /* "user": the directory; "bundle" */
  int64_t least_rows, most_rows; /* of the layer's output */
  int64_t chosen_ns, default_ns; /* of all layers of that kind together, on the clouds that were measured */
  /* Pairs a row of it, of "fused" and "dataflow": from one up to the other, which is not included. 0 and
   * infinity where it holds for any. In capacity mode and for single convolutions, whose pairs nobody waits
   * for, the density of most time is taken. */
  double least_density, most_density;
} minuet_tuned_choice;
typedef void (*minuet_tuned_visitor)(const minuet_tuned_choice* choice, void* user);

/* Every result that the plan was made by, layer by layer, rows ascending. None before
 * minuet_context_load_tuning. Where nothing may be compiled, the default may run instead, with a
 * warning. */
MINUET_API minuet_status minuet_plan_visit_tuning(minuet_plan* plan, minuet_tuned_visitor visit, void* user);

/* minuet_precompile, for GPUs that have been tuned: for every arch the kernels that its GPUs' results in the
 * directory (null: the cache folder) choose are compiled beside those of the default, and the results go into
 * the bundle, where minuet_context_load_tuning finds them. Results of this version's kernels and of the
 * toolkit that compiles; of the same layers they take the place of those that a bundle has, and there are
 * none after a failure or a cancel. options->archs are needed, for a recorded list too, beside whose kernels
 * none are compiled. NOT_FOUND where there are no results for any of them; for one alone a warning says so.
 * A program that may compile nothing runs the default where a tuned kernel is in no bundle, with a warning.
 */
MINUET_API minuet_status minuet_precompile_tuned(minuet_context* context,
                                                 const minuet_precompile_options* options,
                                                 const char* directory, minuet_precompile_result* result);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MINUET_TUNING_H_ */
