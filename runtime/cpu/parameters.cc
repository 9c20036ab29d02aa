#include "runtime/cpu/parameters.h"

#include <algorithm>
#include <vector>

#include "kernels_templates/shared/elements.h"
#include "runtime/weights/rounding.h"

namespace minuet {
namespace {

// A task converts at most this many consecutive elements of a target.
constexpr i64 kElementsPerTask = 1 << 15;

float load_element(ArrayElement element, const void* source, i64 index) {
  switch (element) {
    case ArrayElement::F32:
      return static_cast<const float*>(source)[index];
    case ArrayElement::F16:
      return Element<DType::F16>::load(static_cast<const u16*>(source)[index]);
    case ArrayElement::BF16:
      return Element<DType::BF16>::load(static_cast<const u16*>(source)[index]);
    case ArrayElement::F64:
      return static_cast<float>(static_cast<const double*>(source)[index]);
  }
  return 0;
}

/// Returns the place of element `index` of the target in the source, in elements.
i64 source_of(const ParameterCopy& job, i64 index) {
  i64 place = 0;
  for (i32 axis = job.rank - 1; axis >= 0; --axis) {
    place += index % job.shape[axis] * job.strides[axis];
    index /= job.shape[axis];
  }
  return place;
}

void convert(const ParameterCopy& job, i64 first, i64 count) {
  const i32 last = job.rank - 1;
  const i64 row = job.shape[last], stride = job.strides[last];
  std::vector<float> values(static_cast<std::size_t>(count));
  for (i64 i = 0; i < count;) {
    // The elements of one row of the last axis are equally far apart in the source.
    const i64 end = std::min(count, i + row - (first + i) % row);
    for (i64 place = source_of(job, first + i); i < end; ++i, place += stride) {
      values[i] = load_element(job.element, job.source, place);
    }
  }
  if (job.master) std::copy(values.begin(), values.end(), job.master + first);
  round_values(job.dtype, values.data(), values.size(), values.data());
  store_values(job.storage, values.data(), values.size(),
               static_cast<char*>(job.target) + first * dtype_bytes(job.storage));
}

}  // namespace

llvm::Error CpuParameters::copy(llvm::ArrayRef<ParameterCopy> jobs) {
  for (const ParameterCopy& job : jobs) {
    const i64 elements = job.elements;
    pool_.run((elements + kElementsPerTask - 1) / kElementsPerTask, [&](i64 task, i32) {
      const i64 first = task * kElementsPerTask;
      convert(job, first, std::min(kElementsPerTask, elements - first));
    });
  }
  return llvm::Error::success();
}

llvm::Error CpuParameters::fold(llvm::ArrayRef<BatchNormFold> jobs) {
  for (const BatchNormFold& job : jobs) {
    for (i64 c = 0; c < job.channels; ++c) fold_batch_norm(job, c);
  }
  return llvm::Error::success();
}

llvm::Error CpuParameters::make_images(llvm::ArrayRef<WeightImageJob> jobs) {
  if (jobs.empty()) return llvm::Error::success();
  return make_error(StatusCode::Internal, "the CPU device reads weights in their own order, not from images");
}

}  // namespace minuet
