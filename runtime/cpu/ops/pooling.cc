#include "runtime/cpu/ops/pooling.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "codegen/choose/ops/pooling.h"

namespace minuet {

void join_inputs(Reduction reduction, const float* inputs, float* values, i64 channels) {
  for (i64 c = 0; c < channels; ++c) {
    if (reduction != Reduction::Max) {
      values[c] += inputs[c];
    } else if (inputs[c] > values[c] || inputs[c] != inputs[c]) {
      values[c] = inputs[c];
    }
  }
}

namespace {

constexpr i64 kRowsPerTask = 256;

class PoolingOp final : public CpuOp {
 public:
  explicit PoolingOp(const PoolChoice& choice) : spec_(choice.pool), volume_(kernel_volume(choice.problem)) {}

  /// The scratch memory holds one input row and one output row.
  i64 scratch_words() const override { return (2 * i64{spec_.channels} + 63) / 64 * 64; }

  llvm::Error run(const CpuCall& call, const OpRequest& given) override {
    const auto& request = static_cast<const NeighbourRequest&>(given);
    MINUET_TRY(check_rows(request, volume_));
    call.timed(&StageTimes::gather, [&] {
      const i64 rows = *request.output_count;
      call.pool.run((rows + kRowsPerTask - 1) / kRowsPerTask, [&](i64 task, i32 slot) {
        float* const scratch = call.scratch + slot * call.scratch_words;
        for (i64 r = task * kRowsPerTask; r < std::min(rows, (task + 1) * kRowsPerTask); ++r) {
          if (spec_.io == DType::U8) {
            pool_integers<std::uint8_t>(request, rows, r);
          } else if (spec_.io == DType::S8) {
            pool_integers<std::int8_t>(request, rows, r);
          } else {
            pool_row(call, request, rows, r, scratch);
          }
        }
      });
      const i64 element = dtype_bytes(spec_.io), pitch = request.output_ld * element;
      for (i64 r = rows; r < request.output_rows && request.pads_output; ++r) {
        std::memset(static_cast<char*>(request.output) + r * pitch, 0, spec_.channels * element);
        if (spec_.winners) std::fill_n(winners_of(request, r), spec_.channels, -1);
      }
    });
    return llvm::Error::success();
  }

 private:
  static i32* winners_of(const NeighbourRequest& request, i64 row) {
    return request.winners + row * request.winners_ld;
  }

  /// Joins the inputs of row `source` to the maxima, and stores `source` for the channels in which it wins.
  /// The first of several equal inputs, or of several NaN, stays.
  void join_winners(float* values, const float* inputs, i32 source, i32* winners) const {
    for (i32 c = 0; c < spec_.channels; ++c) {
      const bool is_first_nan = inputs[c] != inputs[c] && values[c] == values[c];
      if (!(inputs[c] > values[c]) && !is_first_nan) continue;
      values[c] = inputs[c];
      winners[c] = source;
    }
  }

  /// Computes the maxima of one output row of 8-bit integers. `rows` is as in pool_row().
  template <class Integer>
  void pool_integers(const NeighbourRequest& request, i64 rows, i64 row) const {
    Integer* const target = static_cast<Integer*>(request.output) + row * request.output_ld;
    bool is_first = true;
    for (i64 k = 0; k < volume_; ++k) {
      const i64 source = request.view.rows ? request.view.rows[k * rows + row] : row;
      if (source < 0) continue;
      const Integer* const from = static_cast<const Integer*>(request.input) + source * request.input_ld;
      for (i32 c = 0; c < spec_.channels; ++c) target[c] = is_first ? from[c] : std::max(target[c], from[c]);
      is_first = false;
    }
    if (is_first) std::fill_n(target, spec_.channels, Integer{0});
  }

  /// Computes one output row. `rows` is the number of output rows, which is also the number of entries per
  /// offset in the table request.view.rows. Offsets are read in ascending order, as on the GPU.
  void pool_row(const CpuCall& call, const NeighbourRequest& request, i64 rows, i64 row,
                float* scratch) const {
    const i64 element = dtype_bytes(spec_.io);
    float *const inputs = scratch, *const values = scratch + spec_.channels;
    std::fill_n(values, spec_.channels, 0.0f);
    i32* const winners = spec_.winners ? winners_of(request, row) : nullptr;
    if (winners) std::fill_n(winners, spec_.channels, -1);
    i64 found = 0;
    for (i64 k = 0; k < volume_; ++k) {
      const i64 source = request.view.rows ? request.view.rows[k * rows + row] : row;
      if (source < 0) continue;
      const char* const from = static_cast<const char*>(request.input) + source * request.input_ld * element;
      call.kernels.widen(spec_.io, from, found == 0 ? values : inputs, spec_.channels);
      if (winners) {
        const i32 number = request.input_numbers ? request.input_numbers[source] : static_cast<i32>(source);
        if (found == 0) std::fill_n(winners, spec_.channels, number);
        if (found > 0) join_winners(values, inputs, number, winners);
      } else if (found > 0) {
        join_inputs(spec_.reduction, inputs, values, spec_.channels);
      }
      ++found;
    }
    if (spec_.reduction == Reduction::Average && found > 1) {
      for (i32 c = 0; c < spec_.channels; ++c) values[c] /= static_cast<float>(found);
    }
    char* const target = static_cast<char*>(request.output) + row * request.output_ld * element;
    const bool finite = call.kernels.narrow(spec_.io, values, target, spec_.channels);
    if (!finite) __atomic_store_n(request.overflow, request.overflow_mark, __ATOMIC_RELAXED);
  }

  const PoolSpec spec_;
  const i64 volume_;
};

}  // namespace

llvm::Expected<std::unique_ptr<CpuOp>> make_pooling_op(const OpChoice& choice) {
  return std::make_unique<PoolingOp>(choice.get<PoolChoice>());
}

}  // namespace minuet
