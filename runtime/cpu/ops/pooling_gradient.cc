#include "runtime/cpu/ops/pooling_gradient.h"

#include <algorithm>
#include <cstring>

#include "codegen/choose/ops/pooling_gradient.h"
#include "runtime/engine/ops/pooling_gradient.h"

namespace minuet {
namespace {

constexpr i64 kGradientRowsPerTask = 256, kEntriesPerTask = 16384;

/// Calls work(first, end, slot) for ranges of at most `per_task` numbers that make up [0, count).
template <class Work>
void for_tasks(ThreadPool& pool, i64 count, i64 per_task, const Work& work) {
  pool.run((count + per_task - 1) / per_task,
           [&](i64 task, i32 slot) { work(task * per_task, std::min(count, (task + 1) * per_task), slot); });
}

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
      if (spec_.reduction == Reduction::Average) count_inputs(call, request, rows);
      const i64 all_rows = request.pads_output ? std::max(rows, request.output_rows) : rows;
      const i64 element = dtype_bytes(spec_.io);
      for_tasks(call.pool, all_rows, kGradientRowsPerTask, [&](i64 first, i64 end, i32 slot) {
        float* const scratch = call.scratch + slot * call.scratch_words;
        for (i64 row = first; row < std::min(end, rows); ++row) run_row(call, request, rows, row, scratch);
        for (i64 row = std::max(first, rows); row < end; ++row) {
          std::memset(static_cast<char*>(request.output) + row * request.output_ld * element, 0,
                      spec_.channels * element);
        }
      });
    });
    return llvm::Error::success();
  }

 private:
  /// Counts the inputs of each output of the pooling. `rows` is the number of its inputs.
  void count_inputs(const CpuCall& call, const PoolingGradientRequest& request, i64 rows) const {
    for_tasks(call.pool, request.input_rows, kEntriesPerTask, [&](i64 first, i64 end, i32 /*slot*/) {
      std::fill(request.counts + first, request.counts + end, 0u);
    });
    for_tasks(call.pool, volume_ * rows, kEntriesPerTask, [&](i64 first, i64 end, i32 /*slot*/) {
      for (i64 entry = first; entry < end; ++entry) {
        const i32 output = request.view.rows[entry];
        // Entries of different tasks may count for the same output.
        if (output >= 0) __atomic_fetch_add(&request.counts[output], 1u, __ATOMIC_RELAXED);
      }
    });
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
