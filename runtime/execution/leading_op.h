// Declares how an execution of several stages runs the layers that lead from one stage to another
// (ProgramStage::leading). They make the root of a stage from points or features, and bring tensors onto it.
#pragma once

#include <optional>
#include <vector>

#include "codegen/choose/candidates.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/tensor.h"

namespace minuet {

/// Names arrays of RootRows.
struct RootArrays {
  bool sources = false, parents = false;
};

/// Describes the rows of a level that is the root of a stage, in device memory that the execution owns. The
/// arrays that no layer reads (LeadingFamily::reads) are null.
struct RootRows {
  i64 capacity = 0;
  i32* coordinates = nullptr;  // Has the shape [capacity, 1 + ndim]. It is null for a level of points.
  // Holds, for each row of the level, the number of the candidate that it was made of (SelectRequest). For
  // voxels, it holds the voxel of each point instead, or -1.
  i32* sources = nullptr;
  // Holds, for each row of a level that is made of rows of another level, that row. A source is a number of a
  // row and a child.
  i32* parents = nullptr;
  // Points to the number of rows. If the rows are voxels of points, it is the first of kPointCounts words.
  i32* count = nullptr;
  // Receives kStatus... bits (map_kernels.h). If they are not 0, there are no rows.
  u32* status = nullptr;
};

/// Describes a matrix that a layer reads, whose rows are those of a level of the stage before.
struct LeadingInput {
  Tensor matrix;
  const i32* count = nullptr;        // Points to the number of rows. Null means all rows.
  const i32* coordinates = nullptr;  // Has the shape [rows, 1 + ndim]. Only some families need it.
};

struct LeadingRequest {
  const OpChoice* choice = nullptr;
  // Holds the layer's input, followed by its further inputs (ProgramLayer::operands).
  std::vector<LeadingInput> inputs;
  // Holds the points that the network takes. It has no points if it takes none.
  PointArray points = {};
  i32 batch_size = 0;              // Holds the number of batch items, or 0 if the caller has not declared it.
  const RootRows* from = nullptr;  // The root of the stage before. It is null if that is a level of points.
  RootRows to;
  Tensor output;     // Has to.capacity rows, which follow one another.
  i32 permute = -1;  // Holds the engine's number of LeadingFamily::gather.
  void* workspace = nullptr;
};

/// Holds the numbers of rows for which a layer needs memory.
struct LeadingSizes {
  i64 input_rows = 0, output_rows = 0, batch_size = 0;
};

/// Represents one row of the table of families in leading_ops.cc.
struct LeadingFamily {
  const OpFamily& family;
  // Says whether the op reads the coordinates of its first input's rows.
  bool (*reads_coordinates)(const OpChoice& choice) = nullptr;
  // Returns the arrays that the op reads, which are those of LeadingRequest::from if the op leads to points,
  // and otherwise those of LeadingRequest::to. Null means none.
  RootArrays (*reads)(const OpChoice& choice) = nullptr;
  // Returns the kernel that `load` copies rows with, if there is one. Null means none.
  std::optional<PermuteRowsSpec> (*gather)(const OpChoice& choice) = nullptr;
  // Returns an error if the op cannot have so many rows. Null means that `make` checks it.
  llvm::Error (*check)(const OpChoice& choice, const LeadingSizes& sizes) = nullptr;
  // Returns the largest number of rows of the level that the op makes. Null means that it makes none.
  i64 (*most_rows)(const OpChoice& choice, const LeadingSizes& sizes) = nullptr;
  i64 (*workspace_bytes)(Engine& engine, const OpChoice& choice, const LeadingSizes& sizes) = nullptr;
  // Makes the rows of a level. Null means that the op makes none.
  llvm::Error (*make)(Engine& engine, const LeadingRequest& request) = nullptr;
  // Returns true if `make` writes the output too.
  bool (*makes_output)(const OpChoice& choice) = nullptr;
  // Writes the output, unless `make` does. It runs after `make` of the layer that makes the level.
  llvm::Error (*load)(Engine& engine, const LeadingRequest& request) = nullptr;
};

/// Returns the family of a candidate that leads to a stage, or an Internal error if the table has none.
llvm::Expected<const LeadingFamily*> find_leading_family(const OpChoice& choice);

}  // namespace minuet
