/* Minuet: tuning. It measures which kernels are fastest for a network's layers on one device (paper 6), and
 * keeps the results in a folder. Part of the C ABI, beside minuet.h, whose rules hold here too.
 *
 * Nothing is tuned, and no result is used, unless the program asks for it:
 * - minuet_tune measures, and stores results in a folder.
 * - After minuet_context_load_tuning, new plans of that context are made with the results.
 * - minuet_plan_visit_tuning tells which results a plan was made with.
 * - minuet_precompile_tuned puts results and their kernels into bundles, for other machines.
 *
 * A result holds for one kind of device, one CUDA toolkit, and the set of kernels among which it was chosen.
 * Most versions of the library do not change that set. Processes that load the same results choose the same
 * kernels.
 */
#ifndef MINUET_TUNING_H_
#define MINUET_TUNING_H_

#include <minuet/minuet.h>
#include <minuet/precompile.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- measuring ------------------------------------------------------------------------------------- */

/* One cloud to measure on. This struct never grows. */
typedef struct minuet_tuning_cloud {
  const int32_t* coordinates; /* device memory, int32 [count, 1 + ndim], without duplicates, as for
                                 minuet_execution_prepare */
  int64_t count;              /* 1 or more */
} minuet_tuning_cloud;

/* The progress of minuet_tune. The strings are valid during the callback only. */
typedef struct minuet_tuning_progress {
  size_t struct_size;
  const char* step; /* "fused kernels", "tiles and GEMMs", "weight gradients", "input gradients", "groups of
                       GEMMs", "sorted maps", "row order", "dataflows", "the whole network" */
  /* Rounds of measurements of this step: those that are done, and all if there is time for all. */
  int64_t rounds, most_rounds;
  double seconds_left; /* the most that this step still takes, as expected now */
} minuet_tuning_progress;

/* A candidate that minuet_tune does not use, because it does not run or because it changes the network's
 * output. The strings are valid during the callback only. */
typedef struct minuet_tuning_skip {
  size_t struct_size;
  const char* operation; /* as in minuet_tuned_choice */
  const char* config;    /* the candidate's configuration, in the form of minuet_tuned_choice.chosen */
  const char* reason;
} minuet_tuning_skip;

/* Says on which clouds minuet_tune measures, and for how long.
 *
 * budget_seconds limits the whole call. The measurements that are expected to gain most come first. The time
 * to compile the default kernels and to run them once counts too, and the call always completes that part.
 * The call compares whole inferences only if three passes over the clouds fit into the time that is left, and
 * it decides between dataflows only if it can compare whole inferences. */
typedef struct minuet_tuning_options {
  size_t struct_size;
  void* ext;
  const minuet_tuning_cloud* clouds; /* required: clouds like those that are to be fast, with about as many
                                        voxels */
  int32_t cloud_count;               /* 1 or more */
  int32_t repeats;                   /* timed runs of each cloud in a round, 3 to 10000; 0: 16 on a GPU, 5 on
                                        the CPU */
  double budget_seconds;             /* 0: 120 */
  int32_t exhaustive;                /* 1: every candidate is measured, and budget_seconds is ignored */
  int32_t training;      /* for GPUs: whether the kernels for the gradients of a training step are measured.
                            0: they are not; 1: they are, too; 2: nothing else is */
  const char* directory; /* the folder of the results, an absolute path; it is created if it does not exist;
                            null: the context's cache folder */
  /* Optional callbacks. The library calls them on the thread that called minuet_tune. */
  void (*progress)(const minuet_tuning_progress* progress, void* user);
  void (*skipped)(const minuet_tuning_skip* skip, void* user);
  int32_t (*cancelled)(void* user); /* is called between runs and during compiles; 1 stops the call soon */
  void* user;                       /* is passed to the callbacks */
} minuet_tuning_options;
#define MINUET_TUNING_OPTIONS_INIT \
  { sizeof(minuet_tuning_options), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/* The outcome of minuet_tune. A kind of layer and size is the unit of a result: equal layers with about as
 * many rows share one. */
typedef struct minuet_tuning_result {
  size_t struct_size;
  int64_t tried, skipped; /* candidates that were measured; those that were skipped (minuet_tuning_skip) */
  int64_t decided, won;   /* kinds of layer and size that have a result now; those that a candidate won */
  /* Median times of the whole network on all clouds, from coordinates and features to the output, by the
   * host's clock: with the default and with the results. Both are 0 if no candidate won for an inference,
   * if the call was stopped before the comparison, or if there was no time for it. */
  double untuned_ms, tuned_ms;
  double seconds; /* that the call took */
} minuet_tuning_result;

/* Measures the candidates that may run each convolution of a network on the device, and stores the results.
 *
 * It measures
 * - on a GPU the Specs of the fused kernel and the order of its rows, the tiles of gather and scatter,
 *   cuBLASLt's algorithms, how GEMMs are grouped and spread over streams, and how sorted keys are searched;
 * - on every device which dataflow is faster, if the plan leaves that choice to the library;
 * - with `training`, on a GPU, the kernels for the gradients of weights, and those for the gradients of the
 *   inputs of convolutions, in backward calls of a training plan (minuet/training.h) of the network. They are
 *   results of their own, apart from those of the forward layers. The library makes the weights of the
 *   training plan. The call needs the memory of a training step of the largest cloud.
 * Each layer is timed by itself, inside runs of the whole network, without the preparation of the cloud.
 * There are two exceptions: a search of sorted keys is timed in preparations, and an order of rows is timed
 * over a preparation and a run together. The default is always the library's own choice, also for a plan that
 * was made with results. A candidate wins if it beats the default in two measurements, each time by more than
 * the spread of their difference and by more than 1 %; after a cancel, one such measurement suffices. A
 * candidate is skipped if the network's output with it differs from that of the default by more than 1/32 of
 * the greatest value, or, for gradients, if the gradient of a weight does. The library makes the features. If
 * the network needs a batch size, it is the greatest batch index of the clouds plus 1.
 *
 * The plan must be that of a network and must have values. It need be neither compiled nor loaded. The device
 * should have no other work during the call. The clouds must stay unchanged until the call returns.
 *
 * The call compiles, allocates and waits. When a step is over, its results replace those of the same layers
 * in the folder, and they stay there if the call fails or is stopped later. No plan uses them before
 * minuet_context_load_tuning. `result` is optional and is filled in with OK and CANCELLED.
 *
 * CANCELLED: `cancelled` stopped the call.
 * INVALID_ARGUMENT: also for clouds with duplicates or without coordinates, and for a relative path.
 * FAILED_PRECONDITION, in these cases:
 * - The plan has no values.
 * - `directory` is null, and the context has no cache folder.
 * - The folder cannot be written, or it has results of the same layers from a newer version.
 * - With the plan's weights the output is 0 or not finite everywhere, so that a wrong kernel could not be
 *   detected.
 * UNIMPLEMENTED: the plan is that of a single op.
 *
 * With `training` on a GPU, the errors of minuet_training_create are possible too, and FAILED_PRECONDITION if
 * the gradients of all weights are 0 or not finite. The CPU device has one kernel for each gradient, so that
 * 1 measures what 0 does, and 2 measures nothing. */
MINUET_API minuet_status minuet_tune(minuet_context* context, minuet_plan* plan, minuet_device* device,
                                     const minuet_tuning_options* options, minuet_tuning_result* result);

/* ---- using results --------------------------------------------------------------------------------- */

/* Loads the results that were measured on devices like this one, for plans that are made from this context
 * after the call. It reads `directory` first (an absolute path; null: the cache folder, if the context has
 * one) and then the bundles of the context; for each kind of layer and size, the first result counts.
 *
 * The results replace those of an earlier call, so that a context has results for one kind of device at a
 * time. Plans that exist stay as they are. Options of a plan have priority over results. Capacity mode needs
 * layers that all run by the fused dataflow, which results may not choose: set MINUET_DATAFLOW_FUSED in the
 * network's options.
 *
 * Training plans of such plans, and gradient ops (minuet/gradient.h) that are created from the context after
 * the call, use the results for gradients. The kernel of a weight's gradient decides in which order its sums
 * are added, so that rounding may differ from that without results. The kernel is chosen by the rows of
 * out_gradient, and by the room that the list of pairs has for each of these rows. In a training plan, the
 * rows are the capacity of a level. So the same results and capacities give the same bits.
 *
 * `results` is optional and gets the number of kinds of layer and size that have a result, which may be 0.
 * Results that cannot be read are left out, with a warning to the context's log. INVALID_ARGUMENT: also for a
 * relative path. */
MINUET_API minuet_status minuet_context_load_tuning(minuet_context* context, minuet_device* device,
                                                    const char* directory, int64_t* results);

/* One result: the choice that was measured for a layer at some number of rows. The strings are valid during
 * the callback only.
 *
 * The operations of one layer are
 * - "fused", "gather", "scatter": the configuration of this kernel;
 * - "gemm": an algorithm, by its place in cuBLASLt's list;
 * - "weight_gradient": the kernel for the gradient of the layer's weight, and "input_gradient": the
 *   configuration of the fused kernel that computes the gradient of its input;
 * - "dataflow": 0 is gather-GEMM-scatter, 1 is fused.
 * Those that serve all layers of a network are
 * - "grouping": the groups of GEMMs and their streams;
 * - "search": the search of sorted maps;
 * - "order": the order of rows in the fused dataflow: 0 as they come, 1 by mask, 2 by mask, with the blocks
 *   that have the most work first.
 * If there are several results for all layers, the one with the most rows is used.
 *
 * A configuration is a list of names with whole numbers, such as "tile=16". */
typedef struct minuet_tuned_choice {
  size_t struct_size;
  const char* layer;             /* the layer's name, which is its parameter prefix; "": serves all layers */
  const char* operation;         /* see above */
  const char* chosen;            /* the configuration that plans use */
  const char* otherwise;         /* the default configuration; the same if nothing beats it */
  const char* origin;            /* "user": it is from the directory; "bundle" */
  int64_t least_rows, most_rows; /* of the layer's output, for "input_gradient" of its input; both included */
  /* Times in nanoseconds of all layers of that kind and size together, on the clouds that were measured. */
  int64_t chosen_ns, default_ns;
  /* Pairs per output row, for "fused", "dataflow" and "weight_gradient". The result is for densities from
   * least_density to below most_density, or for any density if these are 0 and infinity. In capacity mode and
   * for single convolutions the host does not know the pairs, and the density that took the most time is
   * used. For the gradient of a weight, it is the greatest density for which the list of pairs has room. A
   * training plan's lists have room for every pair. */
  double least_density, most_density;
} minuet_tuned_choice;
typedef void (*minuet_tuned_visitor)(const minuet_tuned_choice* choice, void* user);

/* Calls `visit`, on the calling thread, for every result with which the plan was made: layer by layer with
 * ascending rows, and last those that serve all layers. It is not called for a plan that was made without
 * results. If no kernel may be compiled and a tuned kernel is in no bundle and no cache folder, the default
 * may run instead, with a warning to the log; the visitor gets this result too. */
MINUET_API minuet_status minuet_plan_visit_tuning(minuet_plan* plan, minuet_tuned_visitor visit, void* user);

/* Does what minuet_precompile does, and adds tuning results to the bundles. For every arch, it takes the
 * results that `directory` (an absolute path; null: the cache folder) has of GPUs of that arch. It compiles
 * the kernels that they choose beside those of the default, and writes the results into the bundle, where
 * minuet_context_load_tuning finds them.
 *
 * - options->archs are required, also with requests_path. For recorded kernels no tuned ones are compiled,
 *   except those for the gradients of weights.
 * - Results for the gradients of weights are taken with requests_path only. Plans have no such kernels, but
 *   the programs that recorded the list may have training plans and gradient ops. The list must have the
 *   other kernels of these.
 * - Only results of this version's kernels and of the toolkit that compiles are taken. They replace the
 *   results that a bundle has of the same layers.
 * - No results are written after a failure or a cancel.
 * - A program that may compile nothing runs the default, with a warning, if a tuned kernel of a plan is in no
 *   bundle. For the gradient of a weight, the kernel must be there (minuet_training_load).
 *
 * NOT_FOUND: there are no results for any of the archs. If only some have none, a warning goes to the log.
 * FAILED_PRECONDITION: `directory` is null and the context has no cache folder, or a bundle that is there has
 * results that this version cannot read.
 * UNAVAILABLE: also if NVRTC is missing.
 *
 * All other errors are those of minuet_precompile. */
MINUET_API minuet_status minuet_precompile_tuned(minuet_context* context,
                                                 const minuet_precompile_options* options,
                                                 const char* directory, minuet_precompile_result* result);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MINUET_TUNING_H_ */
