#include "runtime/execution/ops/points.h"

#include <algorithm>

#include "codegen/choose/ops/points.h"

namespace minuet {
namespace {

i64 most_voxels(const OpChoice& choice, const LeadingSizes& sizes) {
  const i64 limit = choice.get<VoxelizeChoice>().problem.most_voxels;
  return limit > 0 ? std::min(limit, sizes.input_rows) : sizes.input_rows;
}

i64 voxelize_bytes(Engine& engine, const OpChoice& choice, const LeadingSizes& sizes) {
  return engine.points().workspace_bytes(choice.get<VoxelizeChoice>(), sizes.input_rows);
}

llvm::Error make_voxels(Engine& engine, const LeadingRequest& given) {
  VoxelizeChoice choice = given.choice->get<VoxelizeChoice>();
  choice.problem.batch_size = given.batch_size;
  VoxelizeRequest request;
  request.choice = &choice;
  request.points = given.points;
  request.workspace = given.workspace;
  request.capacity = given.to.capacity;
  request.coordinates = given.to.coordinates;
  request.features = given.output.data;
  request.features_ld = given.output.ld;
  request.rows = given.to.sources;
  request.counts = given.to.count;
  request.status = given.to.status;
  return engine.points().voxelize(request);
}

bool blends(const OpChoice& choice) { return choice.get<DevoxelizeChoice>().problem.blends(); }

i64 devoxelize_bytes(Engine& engine, const OpChoice& choice, const LeadingSizes& sizes) {
  return engine.points().workspace_bytes(choice.get<DevoxelizeChoice>(), sizes.output_rows, sizes.input_rows);
}

llvm::Error give_to_points(Engine& engine, const LeadingRequest& given) {
  const LeadingInput& voxels = given.inputs.front();
  DevoxelizeRequest request;
  request.choice = &given.choice->get<DevoxelizeChoice>();
  request.points = given.points;
  if (blends(*given.choice)) {
    request.coordinates = voxels.coordinates;
  } else {
    request.rows = given.from->sources;
  }
  request.row_count = voxels.count;
  request.most_rows = voxels.matrix.rows;
  request.features = voxels.matrix.data;
  request.output = given.output.data;
  request.workspace = given.workspace;
  return engine.points().devoxelize(request);
}

}  // namespace

LeadingFamily voxelize_family() {
  LeadingFamily family{VoxelizeChoice::kKind};
  family.reads_coordinates = [](const OpChoice&) { return false; };
  family.most_rows = most_voxels;
  family.workspace_bytes = voxelize_bytes;
  family.make = make_voxels;
  family.makes_output = [](const OpChoice&) { return true; };
  return family;
}

LeadingFamily devoxelize_family() {
  LeadingFamily family{DevoxelizeChoice::kKind};
  family.reads_coordinates = blends;
  family.reads = [](const OpChoice& choice) { return RootArrays{.sources = !blends(choice)}; };
  family.workspace_bytes = devoxelize_bytes;
  family.makes_output = [](const OpChoice&) { return false; };
  family.load = give_to_points;
  return family;
}

}  // namespace minuet
