// `minuet bench --training` times whole steps of the training of a network.
#pragma once

#include <vector>

#include "llvm/Support/JSON.h"
#include "tools/minuet/cloud/bench_clouds.h"
#include "tools/minuet/library/training_step.h"

namespace minuet::tool {

/// Says what is timed.
struct TrainingBench {
  minuet_context* context;
  minuet_plan* network;  ///< Is loaded on the device.
  minuet_plan_info info;
  minuet_device* device;
  const DeviceFacts& facts;
  minuet_dtype dtype;
  const ExecutionChoice& execution;
  const Voxelizer& voxelizer;
  int unthinned, warm_up, timed;
  int branches;  ///< Is minuet_training_options.branches.
};

/// Times steps on variants of a cloud, prints a row of the table, and returns the fields of the cloud's
/// result. With ExecutionChoice::replay, a GPU replays whole steps as one CUDA graph.
llvm::Expected<llvm::json::Object> bench_training(const TrainingBench& bench, const BenchCloud& cloud);
/// Prints the heads of the table's columns.
void print_training_head();

}  // namespace minuet::tool
