#include "runtime/cpu/ops/dense.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "codegen/choose/ops/dense.h"
#include "runtime/cpu/copy_elements.h"
#include "runtime/engine/ops/dense.h"

namespace minuet {
namespace {

constexpr i64 kDenseCellsPerTask = 1024, kDenseRowsPerTask = 256;

i32 cell_of_row(i32 ndim, const CellGrid& grid, const i32* coordinate) {
  switch (ndim) {
    case 1:
      return cell_of<1>(grid, coordinate);
    case 2:
      return cell_of<2>(grid, coordinate);
    case 3:
      return cell_of<3>(grid, coordinate);
    default:
      return cell_of<4>(grid, coordinate);
  }
}

/// Gives the distances, in elements, between the channels and the cells of a batch item of a dense tensor.
struct Steps {
  i64 channel, cell;
};
Steps steps_of(const DenseProblem& problem, i64 cells) {
  return problem.layout.channels_last ? Steps{1, problem.channels} : Steps{cells, 1};
}

class ToDenseOp final : public CpuOp {
 public:
  explicit ToDenseOp(const ToDenseChoice& choice) : problem_(choice.problem), io_(choice.kernel.io) {}
  i64 scratch_words() const override { return 0; }

  /// Lists the row of each cell.
  llvm::Error prepare(const CpuCall& call, const OpRequest& given) override {
    const auto& request = static_cast<const DenseRequest&>(given);
    call.timed(&StageTimes::map, [&] {
      const CellGrid grid = make_grid(problem_.ndim, problem_.layout, request.batch_size);
      std::fill_n(request.cell_rows, i64{grid.batch} * grid.cells, -1);
      for (i32 row = 0; row < *request.output_count; ++row) {
        const i32* const coordinate = request.coordinates + i64{row} * (1 + problem_.ndim);
        const i32 cell = cell_of_row(problem_.ndim, grid, coordinate);
        if (cell >= 0) request.cell_rows[cell] = row;
      }
    });
    return llvm::Error::success();
  }

  llvm::Error run(const CpuCall& call, const OpRequest& given) override {
    const auto& request = static_cast<const DenseRequest&>(given);
    call.timed(&StageTimes::scatter, [&] {
      const i64 cells = cells_of(problem_.ndim, problem_.layout);
      const i64 tasks = (cells + kDenseCellsPerTask - 1) / kDenseCellsPerTask;
      call.pool.run(request.batch_size * tasks, [&](i64 task, i32) {
        const i64 b = task / tasks, first = task % tasks * kDenseCellsPerTask;
        copy_elements(io_, request, [&](auto& copier) {
          write_cells(request, cells, b, {first, std::min(cells, first + kDenseCellsPerTask)}, copier);
        });
      });
    });
    return llvm::Error::success();
  }

 private:
  /// Writes all channels of a range of cells of batch item b.
  template <class Copy>
  void write_cells(const DenseRequest& request, i64 cells, i64 b, std::pair<i64, i64> range,
                   Copy& copier) const {
    const i64 element = dtype_bytes(io_);
    const Steps steps = steps_of(problem_, cells);
    const i32* const rows = request.cell_rows + b * cells;
    char* const output = static_cast<char*>(request.output) + b * problem_.channels * cells * element;
    const char* const input = static_cast<const char*>(request.input);
    for (i64 c = 0; c < problem_.channels; ++c) {
      for (i64 cell = range.first; cell < range.second; ++cell) {
        char* const to = output + (c * steps.channel + cell * steps.cell) * element;
        if (rows[cell] < 0) {
          std::memset(to, 0, element);
        } else {
          copier.copy(to, input + (rows[cell] * request.input_ld + c) * element);
        }
      }
    }
  }

  const ToDenseProblem problem_;
  const DType io_;
};

class FromDenseOp final : public CpuOp {
 public:
  explicit FromDenseOp(const FromDenseChoice& choice) : problem_(choice.problem), io_(choice.kernel.io) {}
  i64 scratch_words() const override { return 0; }

  llvm::Error run(const CpuCall& call, const OpRequest& given) override {
    const auto& request = static_cast<const DenseRequest&>(given);
    call.timed(&StageTimes::gather, [&] {
      const i64 rows = request.pads_output ? request.output_rows : *request.output_count;
      const CellGrid grid = make_grid(problem_.ndim, problem_.layout, request.batch_size);
      call.pool.run((rows + kDenseRowsPerTask - 1) / kDenseRowsPerTask, [&](i64 task, i32) {
        const i64 first = task * kDenseRowsPerTask;
        copy_elements(io_, request, [&](auto& copier) {
          for (i64 row = first; row < std::min(rows, first + kDenseRowsPerTask); ++row) {
            write_row(request, grid, row, copier);
          }
        });
      });
    });
    return llvm::Error::success();
  }

 private:
  template <class Copy>
  void write_row(const DenseRequest& request, const CellGrid& grid, i64 row, Copy& copier) const {
    const i64 element = dtype_bytes(io_);
    const bool is_there = row < *request.output_count;
    const i32 cell =
        is_there ? cell_of_row(problem_.ndim, grid, request.coordinates + row * (1 + problem_.ndim)) : -1;
    char* const to = static_cast<char*>(request.output) + row * request.output_ld * element;
    if (cell < 0) {
      std::memset(to, 0, problem_.channels * element);
      return;
    }
    const Steps steps = steps_of(problem_, grid.cells);
    const i64 b = cell / grid.cells;
    const i64 first = b * problem_.channels * grid.cells + (cell - b * grid.cells) * steps.cell;
    const char* const input = static_cast<const char*>(request.input);
    for (i64 c = 0; c < problem_.channels; ++c) {
      copier.copy(to + c * element, input + (first + c * steps.channel) * element);
    }
  }

  const FromDenseProblem problem_;
  const DType io_;
};

}  // namespace

llvm::Expected<std::unique_ptr<CpuOp>> make_to_dense_op(const OpChoice& choice) {
  return std::make_unique<ToDenseOp>(choice.get<ToDenseChoice>());
}

llvm::Expected<std::unique_ptr<CpuOp>> make_from_dense_op(const OpChoice& choice) {
  return std::make_unique<FromDenseOp>(choice.get<FromDenseChoice>());
}

}  // namespace minuet
