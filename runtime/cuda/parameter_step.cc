#include "runtime/cuda/parameter_step.h"

#include <algorithm>
#include <iterator>

namespace minuet {
namespace {

/// Limits the grid, so that a thread processes several items if there are many: finding its first job costs
/// about as much as an item. Several waves of blocks even out the end of a launch.
constexpr i64 kBlocksPerMultiprocessorOfJobs = 20;

}  // namespace

template <class Params, class Spec, class Job, class ItemsOf>
llvm::Error ParameterStep::launch(std::optional<Kernel<Params>>& kernel, const Spec& spec,
                                  llvm::ArrayRef<Job> jobs, const ItemsOf& items_of) {
  if (jobs.empty()) return llvm::Error::success();
  MINUET_TRY(launcher_.mark(Stage::Other));
  if (!kernel) {
    MINUET_ASSIGN(kernel, launcher_.device().kernel(spec));
  }
  Params params = {};
  while (!jobs.empty()) {
    const llvm::ArrayRef<Job> now = jobs.take_front(std::size(params.jobs));
    jobs = jobs.drop_front(now.size());
    std::copy(now.begin(), now.end(), params.jobs);
    params.count = static_cast<i32>(now.size());
    for (std::size_t i = 0; i < now.size(); ++i) params.starts[i + 1] = params.starts[i] + items_of(now[i]);
    const i64 blocks = stride_grid(params.starts[now.size()], kernel->needs.threads,
                                   launcher_.multiprocessors(), kBlocksPerMultiprocessorOfJobs);
    MINUET_TRY(launcher_.launch(*kernel, blocks, params));
  }
  return llvm::Error::success();
}

llvm::Error ParameterStep::copy(llvm::ArrayRef<ParameterCopy> jobs) {
  return launch(copy_, CopyParametersSpec{}, jobs, copy_pieces);
}

llvm::Error ParameterStep::fold(llvm::ArrayRef<BatchNormFold> jobs) {
  return launch(fold_, FoldBatchNormsSpec{}, jobs, [](const BatchNormFold& job) { return job.channels; });
}

llvm::Error ParameterStep::make_images(llvm::ArrayRef<WeightImageJob> jobs) {
  if (jobs.empty()) return llvm::Error::success();
  MakeWeightImagesSpec spec;
  spec.element_bytes = dtype_bytes(jobs.front().layout.io);
  return launch(images_, spec, jobs, image_items);
}

}  // namespace minuet
