#include "runtime/cuda/parameter_step.h"

#include <algorithm>
#include <iterator>

namespace minuet {

template <class Params, class Spec, class Job, class ItemsOf>
llvm::Error ParameterStep::launch(const Spec& spec, llvm::ArrayRef<Job> jobs, const ItemsOf& items_of) {
  if (jobs.empty()) return llvm::Error::success();
  MINUET_TRY(launcher_.mark(Stage::Other));
  MINUET_ASSIGN(const Kernel<Params> kernel, launcher_.device().kernel(spec));
  Params params = {};
  constexpr std::size_t kMost = std::size(Params{}.jobs);
  while (!jobs.empty()) {
    const llvm::ArrayRef<Job> now = jobs.take_front(kMost);
    jobs = jobs.drop_front(now.size());
    std::copy(now.begin(), now.end(), params.jobs);
    params.count = static_cast<i32>(now.size());
    i64 items = 0;
    for (const Job& job : now) items += items_of(job);
    MINUET_TRY(launcher_.launch_stride(kernel, items, params));
  }
  return llvm::Error::success();
}

llvm::Error ParameterStep::copy(llvm::ArrayRef<ParameterCopy> jobs) {
  return launch<CopyParametersParams>(CopyParametersSpec{}, jobs, copy_pieces);
}

llvm::Error ParameterStep::fold(llvm::ArrayRef<BatchNormFold> jobs) {
  return launch<FoldBatchNormsParams>(FoldBatchNormsSpec{}, jobs,
                                      [](const BatchNormFold& job) { return job.channels; });
}

llvm::Error ParameterStep::make_images(llvm::ArrayRef<WeightImageJob> jobs) {
  if (jobs.empty()) return llvm::Error::success();
  MakeWeightImagesSpec spec;
  spec.element_bytes = dtype_bytes(jobs.front().layout.io);
  return launch<MakeWeightImagesParams>(
      spec, jobs, [](const WeightImageJob& job) { return fused_image_bytes(job.layout) / 16; });
}

}  // namespace minuet
