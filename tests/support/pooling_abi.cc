#include "tests/support/pooling_abi.h"

#include <algorithm>

#include "tests/support/rounding.h"

namespace minuet::abi {

minuet_pooling_options pooling_of(const ConvolutionCase& test, minuet_reduction reduction) {
  minuet_pooling_options options = MINUET_POOLING_OPTIONS_INIT;
  options.ndim = test.ndim;
  options.dtype = abi_dtype(test.dtype);
  options.channels = test.in_channels;
  options.reduction = reduction;
  std::copy_n(test.kernel_size.begin(), test.ndim, options.kernel_size);
  std::copy_n(test.stride.begin(), test.ndim, options.stride);
  std::copy_n(test.dilation.begin(), test.ndim, options.dilation);
  options.dense_offsets = test.is_reached;
  std::copy_n(test.padding.begin(), test.ndim, options.padding);
  set_offsets(test.ndim, test.offsets, options);
  options.submanifold = test.kind == ConvolutionKind::Submanifold;
  options.transposed = test.transposed();
  return options;
}

Pooling::Pooling(Machine& machine, const minuet_pooling_options& options)
    : machine_(machine), options_(options) {
  minuet_plan* made = nullptr;
  status_ = minuet_plan_create_pooling(machine.context(), &options, &made);
  plan_.reset(made);
  if (status_ != MINUET_OK) return;
  check(minuet_plan_compile(made, machine.arch().c_str(), nullptr, nullptr));
  check(minuet_plan_load(made, machine.device()));
}

Execution Pooling::execution(minuet_queue* queue) const {
  minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
  options.queue = queue;
  minuet_execution* made = nullptr;
  check(minuet_execution_create(plan_.get(), machine_.device(), &options, &made));
  return {made, {minuet_execution_destroy}};
}

std::vector<char> Pooling::run(minuet_execution* execution, const std::vector<float>& features,
                               int64_t out_rows) const {
  DType dtype = DType::F32;
  for (const DType known : all_dtypes()) {
    if (abi_dtype(known) == options_.dtype) dtype = known;
  }
  const auto in_rows = static_cast<int64_t>(features.size()) / options_.channels;
  const Buffer input(machine_, encode(dtype, features));
  const Buffer output(machine_, out_rows * options_.channels * dtype_bytes(dtype));
  check(run_tensors(execution, {tensor(input, in_rows, options_.channels, dtype)},
                    tensor(output, out_rows, options_.channels, dtype)));
  return output.read<char>();
}

std::vector<char> Pooling::run(const Map& map, const std::vector<float>& features, int64_t out_rows) const {
  const Execution execution = this->execution();
  check(prepare_map(execution.get(), map.map.get()));
  return map.from_output(run(execution.get(), map.to_input(features), out_rows));
}

}  // namespace minuet::abi
