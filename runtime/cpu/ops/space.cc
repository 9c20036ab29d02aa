#include "runtime/cpu/ops/space.h"

#include <algorithm>

#include "codegen/choose/ops/space.h"
#include "runtime/cpu/copy_elements.h"

namespace minuet {
namespace {

constexpr i64 kSpaceRowsPerTask = 256;

/// Holds what both ops share: a loop over the output rows, of which each task computes some.
class SpaceOp : public CpuOp {
 public:
  i64 scratch_words() const override { return 0; }

 protected:
  SpaceOp(DType io, i64 channels, i64 volume) : io_(io), channels_(channels), volume_(volume) {}

  i64 bytes(i64 elements) const { return elements * dtype_bytes(io_); }
  i64 channels() const { return channels_; }
  i64 volume() const { return volume_; }

  /// Calls write_row(row, to, copier) for each output row of the cloud, which begins at `to`, and sets the
  /// `out_channels` channels of the padding rows to 0.
  template <class WriteRow>
  llvm::Error run_rows(const CpuCall& call, const NeighbourRequest& request, i64 out_channels,
                       double StageTimes::*stage, const WriteRow& write_row) const {
    MINUET_TRY(check_rows(request, volume_));
    call.timed(stage, [&] {
      const i64 count = *request.output_count, rows = request.pads_output ? request.output_rows : count;
      call.pool.run((rows + kSpaceRowsPerTask - 1) / kSpaceRowsPerTask, [&](i64 task, i32) {
        const i64 first = task * kSpaceRowsPerTask;
        copy_elements(io_, request, [&](auto& copier) {
          for (i64 row = first; row < std::min(rows, first + kSpaceRowsPerTask); ++row) {
            char* const to = static_cast<char*>(request.output) + bytes(row * request.output_ld);
            if (row < count) {
              write_row(row, to, copier);
            } else {
              std::memset(to, 0, bytes(out_channels));
            }
          }
        });
      });
    });
    return llvm::Error::success();
  }

  /// Returns the input row of output row `row` at offset k, or -1.
  static i64 source_of(const NeighbourRequest& request, i64 k, i64 row) {
    return request.view.rows[k * *request.output_count + row];
  }
  const char* input_at(const NeighbourRequest& request, i64 row) const {
    return static_cast<const char*>(request.input) + bytes(row * request.input_ld);
  }

 private:
  const DType io_;
  const i64 channels_, volume_;
};

class SpaceToChannelOp final : public SpaceOp {
 public:
  explicit SpaceToChannelOp(const SpaceToChannelSpec& spec) : SpaceOp(spec.io, spec.channels, spec.volume) {}

  llvm::Error run(const CpuCall& call, const OpRequest& given) override {
    const auto& request = static_cast<const NeighbourRequest&>(given);
    return run_rows(call, request, channels() * volume(), &StageTimes::gather,
                    [&](i64 row, char* to, auto& copier) {
                      for (i64 k = 0; k < volume(); ++k, to += bytes(channels())) {
                        const i64 source = source_of(request, k, row);
                        if (source < 0) {
                          std::memset(to, 0, bytes(channels()));
                        } else {
                          copier.copy(to, input_at(request, source), channels());
                        }
                      }
                    });
  }
};

class ChannelToSpaceOp final : public SpaceOp {
 public:
  explicit ChannelToSpaceOp(const ChannelToSpaceSpec& spec) : SpaceOp(spec.io, spec.channels, spec.volume) {}

  llvm::Error run(const CpuCall& call, const OpRequest& given) override {
    const auto& request = static_cast<const NeighbourRequest&>(given);
    return run_rows(call, request, channels(), &StageTimes::scatter, [&](i64 row, char* to, auto& copier) {
      i64 k = 0;
      while (k < volume() && source_of(request, k, row) < 0) ++k;
      if (k == volume()) {
        std::memset(to, 0, bytes(channels()));
      } else {
        const char* const parent = input_at(request, source_of(request, k, row));
        copier.copy(to, parent + bytes(k * channels()), channels());
      }
    });
  }
};

}  // namespace

llvm::Expected<std::unique_ptr<CpuOp>> make_space_to_channel_op(const OpChoice& choice) {
  return std::make_unique<SpaceToChannelOp>(choice.get<SpaceToChannelChoice>().kernel);
}

llvm::Expected<std::unique_ptr<CpuOp>> make_channel_to_space_op(const OpChoice& choice) {
  return std::make_unique<ChannelToSpaceOp>(choice.get<ChannelToSpaceChoice>().kernel);
}

}  // namespace minuet
