#include "runtime/cpu/ops/pooling_gradient.h"

#include <algorithm>
#include <cstring>

#include "codegen/choose/ops/pooling_gradient.h"
#include "runtime/engine/ops/pooling_gradient.h"

namespace minuet {
namespace {

constexpr i64 kGradientRowsPerTask = 256;

class PoolingGradientOp final : public CpuOp {
 public:
  explicit PoolingGradientOp(const PoolingGradientChoice& choice)
      : spec_(choice.pool), volume_(kernel_volume(choice.problem)) {}

  /// The scratch memory holds one row of the gradient of the output and one of that of the input.
  i64 scratch_words() const override { return (2 * i64{spec_.channels} + 63) / 64 * 64; }

  llvm::Error run(const CpuCall& call, const OpRequest& given) override {
    const auto& request = static_cast<const PoolingGradientRequest&>(given);
    MINUET_TRY(check_rows(request, volume_));
    call.timed(&StageTimes::gather, [&] {
      const i64 rows = *request.output_count;
      if (spec_.reduction == Reduction::Average) count_inputs(request, rows);
      call.pool.run((rows + kGradientRowsPerTask - 1) / kGradientRowsPerTask, [&](i64 task, i32 slot) {
        float* const scratch = call.scratch + slot * call.scratch_words;
        const i64 end = std::min(rows, (task + 1) * kGradientRowsPerTask);
        for (i64 row = task * kGradientRowsPerTask; row < end; ++row) {
          run_row(call, request, rows, row, scratch);
        }
      });
      const i64 element = dtype_bytes(spec_.io);
      for (i64 row = rows; row < request.output_rows && request.pads_output; ++row) {
        std::memset(static_cast<char*>(request.output) + row * request.output_ld * element, 0,
                    spec_.channels * element);
      }
    });
    return llvm::Error::success();
  }

 private:
  /// Counts the inputs of each output of the pooling. `rows` is the number of its inputs.
  void count_inputs(const PoolingGradientRequest& request, i64 rows) const {
    std::fill_n(request.counts, request.input_rows, 0u);
    for (i64 entry = 0; entry < volume_ * rows; ++entry) {
      const i32 output = request.view.rows[entry];
      if (output >= 0) ++request.counts[output];
    }
  }

  /// Adds what row `from` of the gradient of the output passes on to the input with the number `number`.
  void add_row(const PoolingGradientRequest& request, i64 from, i32 number, const float* gradient,
               float* sums) const {
    if (spec_.reduction == Reduction::Max) {
      const i32* const winners =
          static_cast<const i32*>(request.operands[0].data) + from * request.operands[0].ld;
      for (i32 c = 0; c < spec_.channels; ++c) {
        if (winners[c] == number) sums[c] += gradient[c];
      }
    } else if (spec_.reduction == Reduction::Average) {
      const auto count = static_cast<float>(request.counts[from]);
      for (i32 c = 0; c < spec_.channels; ++c) sums[c] += gradient[c] / count;
    } else {
      for (i32 c = 0; c < spec_.channels; ++c) sums[c] += gradient[c];
    }
  }

  /// Computes the gradient of input row `row`. `rows` is the number of these rows, which is also the number
  /// of entries per offset in the table request.view.rows. Offsets are read in ascending order, as on the
  /// GPU.
  void run_row(const CpuCall& call, const PoolingGradientRequest& request, i64 rows, i64 row,
               float* scratch) const {
    const i64 element = dtype_bytes(spec_.io);
    float *const gradient = scratch, *const sums = scratch + spec_.channels;
    std::fill_n(sums, spec_.channels, 0.0f);
    const i32 number = request.output_numbers ? request.output_numbers[row] : static_cast<i32>(row);
    for (i64 k = 0; k < volume_; ++k) {
      const i64 from = request.view.rows ? request.view.rows[k * rows + row] : row;
      if (from < 0) continue;
      call.kernels.widen(spec_.io,
                         static_cast<const char*>(request.input) + from * request.input_ld * element,
                         gradient, spec_.channels);
      add_row(request, from, number, gradient, sums);
    }
    char* const target = static_cast<char*>(request.output) + row * request.output_ld * element;
    const bool finite = call.kernels.narrow(spec_.io, sums, target, spec_.channels);
    if (!finite) __atomic_store_n(request.overflow, request.overflow_mark, __ATOMIC_RELAXED);
  }

  const PoolGradientSpec spec_;
  const i64 volume_;
};

}  // namespace

llvm::Expected<std::unique_ptr<CpuOp>> make_pooling_gradient_op(const OpChoice& choice) {
  return std::make_unique<PoolingGradientOp>(choice.get<PoolingGradientChoice>());
}

}  // namespace minuet
