#include "runtime/cpu/ops/global_pooling.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "codegen/choose/ops/global_pooling.h"
#include "runtime/cpu/ops/pooling.h"
#include "runtime/engine/ops/global_pooling.h"

namespace minuet {
namespace {

/// Pools the rows of each piece of the list, and then combines the pieces of each item, as the kernels do
/// (kernels_templates/shared/global_pool_kernels.h). The first [batch_size] words of
/// GlobalPoolRequest::places hold the end of the rows of each item, because one thread lists them.
class GlobalPoolingOp final : public CpuOp {
 public:
  explicit GlobalPoolingOp(const GlobalPoolChoice& choice) : spec_(choice.pool), ndim_(choice.problem.ndim) {}

  /// The scratch memory holds one input row and one result.
  i64 scratch_words() const override { return (2 * i64{spec_.channels} + 63) / 64 * 64; }

  /// Lists the rows by batch item.
  llvm::Error prepare(const CpuCall& call, const OpRequest& given) override {
    const auto& request = static_cast<const GlobalPoolRequest&>(given);
    if (!request.makes_list || request.item_rows == nullptr) return llvm::Error::success();
    call.timed(&StageTimes::map, [&] {
      u32* const next = request.places;
      const auto for_each_row = [&](auto visit) {
        for (i32 row = 0; row < *request.input_count; ++row) {
          const i32 item = request.coordinates[i64{row} * (1 + ndim_)];
          if (item >= 0 && item < request.batch_size) visit(item, row);
        }
      };
      std::fill_n(next, request.batch_size, 0u);
      for_each_row([&](i32 item, i32) { ++next[item]; });
      u32 before = 0;
      for (i32 item = 0; item < request.batch_size; ++item) before += std::exchange(next[item], before);
      for_each_row([&](i32 item, i32 row) { request.item_rows[next[item]++] = row; });
    });
    return llvm::Error::success();
  }

  llvm::Error run(const CpuCall& call, const OpRequest& given) override {
    const auto& request = static_cast<const GlobalPoolRequest&>(given);
    call.timed(&StageTimes::gather, [&] {
      const i64 items = *request.output_count, rows = items == 0 ? 0 : end_of(request, items - 1);
      call.pool.run(pieces_of(rows), [&](i64 piece, i32 slot) {
        pool_piece(call, request, piece, rows, call.scratch + slot * call.scratch_words);
      });
      call.pool.run(request.pads_output ? request.output_rows : items, [&](i64 item, i32 slot) {
        join_pieces(call, request, item, rows_of_piece(rows), call.scratch + slot * call.scratch_words);
      });
    });
    return llvm::Error::success();
  }

 private:
  static i64 end_of(const GlobalPoolRequest& request, i64 item) {
    return request.item_rows ? request.places[item] : *request.input_count;
  }
  static i64 begin_of(const GlobalPoolRequest& request, i64 item) {
    return item == 0 ? 0 : end_of(request, item - 1);
  }

  void begin_row(float* values) const {
    const float neutral = spec_.reduction == Reduction::Max ? -std::numeric_limits<float>::infinity() : 0.0f;
    std::fill_n(values, spec_.channels, neutral);
  }

  /// Writes the result of an item of `count` rows.
  void write(const CpuCall& call, const GlobalPoolRequest& request, i64 item, i64 count,
             float* values) const {
    if (spec_.reduction == Reduction::Average) {
      for (i32 c = 0; c < spec_.channels; ++c) values[c] /= static_cast<float>(count);
    }
    char* const target =
        static_cast<char*>(request.output) + item * request.output_ld * dtype_bytes(spec_.io);
    if (!call.kernels.narrow(spec_.io, values, target, spec_.channels)) {
      __atomic_store_n(request.overflow, request.overflow_mark, __ATOMIC_RELAXED);
    }
  }

  float* partial_of(const GlobalPoolRequest& request, i64 piece, bool is_first_of_item) const {
    return request.partials + (2 * piece + (is_first_of_item ? 1 : 0)) * spec_.channels;
  }

  /// Pools the rows of each item in a piece of the list of `all` rows.
  void pool_piece(const CpuCall& call, const GlobalPoolRequest& request, i64 piece, i64 all,
                  float* scratch) const {
    float *const inputs = scratch, *const values = scratch + spec_.channels;
    const i64 first = piece * rows_of_piece(all), last = std::min(all, first + rows_of_piece(all));
    i64 item = 0;
    if (request.item_rows) {
      // This is the first item whose rows end behind the beginning of the piece.
      item = std::upper_bound(request.places, request.places + *request.output_count, first) - request.places;
    }
    for (i64 position = first; position < last; ++item) {
      const i64 begin = begin_of(request, item), item_end = end_of(request, item);
      const i64 end = std::min(item_end, last);
      if (position >= end) continue;
      begin_row(values);
      for (; position < end; ++position) {
        const i64 row = request.item_rows ? request.item_rows[position] : position;
        const char* const from =
            static_cast<const char*>(request.input) + row * request.input_ld * dtype_bytes(spec_.io);
        call.kernels.widen(spec_.io, from, inputs, spec_.channels);
        join_inputs(spec_.reduction, inputs, values, spec_.channels);
      }
      if (begin >= first && item_end <= last) {
        write(call, request, item, item_end - begin, values);
      } else {
        std::copy_n(values, spec_.channels, partial_of(request, piece, begin >= first));
      }
    }
  }

  /// Writes output row `item`, unless its rows lie in one piece of `each` rows, which has written it.
  void join_pieces(const CpuCall& call, const GlobalPoolRequest& request, i64 item, i64 each,
                   float* values) const {
    const bool has_item = item < *request.output_count;
    const i64 begin = has_item ? begin_of(request, item) : 0, end = has_item ? end_of(request, item) : 0;
    if (begin == end) {
      const i64 element = dtype_bytes(spec_.io);
      std::memset(static_cast<char*>(request.output) + item * request.output_ld * element, 0,
                  spec_.channels * element);
      return;
    }
    const i64 last = (end - 1) / each;
    if (begin / each == last) return;
    begin_row(values);
    for (i64 piece = begin / each; piece <= last; ++piece) {
      join_inputs(spec_.reduction, partial_of(request, piece, begin >= piece * each), values, spec_.channels);
    }
    write(call, request, item, end - begin, values);
  }

  const PoolItemsSpec spec_;
  const i32 ndim_;
};

}  // namespace

llvm::Expected<std::unique_ptr<CpuOp>> make_global_pooling_op(const OpChoice& choice) {
  return std::make_unique<GlobalPoolingOp>(choice.get<GlobalPoolChoice>());
}

}  // namespace minuet
