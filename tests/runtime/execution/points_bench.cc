// points_bench CLOUD COMMIT: times voxelizing and devoxelizing the points of a cloud at 0.1 m. Prints JSON
// for tools/bench/results: each as one graph, by the GPU's clock, and without a graph by the host's, until
// all is enqueued and until all is done. Pillars of 0.16 x 0.16 x 4 m and the worst case, all points in one
// voxel, are timed too. All take turns, so that a change of clocks meets all alike. The voxels and pillars
// are compared with those of plain loops. The largest voxel of each says whether the points were sorted.
#include <chrono>
#include <functional>

#include "include/minuet/points.h"
#include "kernels_templates/shared/point_kernels.h"
#include "tests/runtime/execution/bench_times.h"
#include "tests/support/point_oracle.h"
#include "tools/minuet/cloud/readers/cloud.h"

namespace minuet::abi {
namespace {

constexpr int kWarm = 10, kTimed = 60, kChannels = 4;

using Clock = std::chrono::steady_clock;
using PointOp = Handle<minuet_point_op>;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

struct Way {
  const char* name;
  std::function<void()> enqueue;
  std::unique_ptr<CapturedGraph> graph = nullptr;
  std::vector<double> replay = {}, enqueued = {}, done = {};
};

using Size = std::array<float, 3>;
constexpr Size kVoxel{0.1f, 0.1f, 0.1f}, kPillar{0.16f, 0.16f, 4}, kAll{1e6f, 1e6f, 1e6f};

/// Where the cells of an axis begin. One cell of a size that is larger than the cloud holds all points.
float low_of(float size) { return size > 1000 ? -size / 2 : 0; }

/// An op that voxelizes, with memory for a cloud.
class VoxelizeRun {
 public:
  VoxelizeRun(Machine& machine, const Buffer& points, int64_t most, const Size& size)
      : machine_(machine),
        coordinates(machine, most * 16),
        features(machine, most * kChannels * 4),
        rows(machine, most * 4),
        counts(machine, 4 * MINUET_VOXELIZE_COUNTS) {
    minuet_voxelize_options options = MINUET_VOXELIZE_OPTIONS_INIT;
    options.channels = kChannels;
    for (int axis = 0; axis < 3; ++axis) {
      const float length = size[static_cast<size_t>(axis)];
      options.voxel_size[axis] = length, options.low[axis] = low_of(length);
    }
    minuet_point_op* made = nullptr;
    check(minuet_voxelize_create(machine.context(), &options, &made));
    op_.reset(made);
    check(minuet_point_op_load(made, machine.device()));
    int64_t bytes = 0;
    check(minuet_voxelize_bytes(made, machine.arch().c_str(), most, &bytes));
    workspace_ = std::make_unique<Buffer>(machine, bytes);
    given_.points = static_cast<const float*>(points.data()), given_.points_ld = 4;
    given_.most = given_.capacity = most;
    given_.workspace = workspace_->data(), given_.workspace_bytes = bytes;
    given_.coordinates = static_cast<int32_t*>(coordinates.data()), given_.features = features.data();
    given_.point_rows = static_cast<int32_t*>(rows.data());
    given_.counts = static_cast<int32_t*>(counts.data());
  }
  void enqueue(void* stream) const { check(minuet_voxelize(op_.get(), machine_.device(), &given_, stream)); }
  int64_t workspace_bytes() const { return workspace_->bytes(); }
  /// Which of both ways the kernels took, after a run.
  llvm::json::Object way() const {
    std::vector<int64_t> points_of(static_cast<size_t>(counts.read<int32_t>().front()));
    for (const int32_t row : rows.read<int32_t>()) {
      if (row >= 0) ++points_of[static_cast<size_t>(row)];
    }
    const int64_t largest = points_of.empty() ? 0 : *std::max_element(points_of.begin(), points_of.end());
    return llvm::json::Object{{"voxels", static_cast<int64_t>(points_of.size())},
                              {"largest_voxel", largest},
                              {"is_sorted", largest > kUnsortedPoints}};
  }

 private:
  Machine& machine_;
  PointOp op_{nullptr, {minuet_point_op_destroy}};
  std::unique_ptr<Buffer> workspace_;
  minuet_voxelize_arguments given_ = MINUET_VOXELIZE_ARGUMENTS_INIT;

 public:
  Buffer coordinates, features, rows, counts;
};

/// An op that devoxelizes the voxels of a run.
class DevoxelizeRun {
 public:
  DevoxelizeRun(Machine& machine, const Buffer& points, int64_t most, const VoxelizeRun& voxels,
                minuet_point_blend blend)
      : machine_(machine), output_(machine, most * kChannels * 4) {
    minuet_devoxelize_options options = MINUET_DEVOXELIZE_OPTIONS_INIT;
    options.channels = kChannels, options.blend = blend;
    const bool is_nearest = blend == MINUET_BLEND_NEAREST;
    for (int axis = 0; axis < 3 && !is_nearest; ++axis) options.voxel_size[axis] = 0.1f;
    minuet_point_op* made = nullptr;
    check(minuet_devoxelize_create(machine.context(), &options, &made));
    op_.reset(made);
    check(minuet_point_op_load(made, machine.device()));
    int64_t bytes = 0;
    check(minuet_devoxelize_bytes(made, machine.arch().c_str(), most, most, &bytes));
    workspace_ = std::make_unique<Buffer>(machine, std::max<int64_t>(bytes, 16));
    given_.most = given_.most_rows = most;
    if (is_nearest) {
      given_.point_rows = voxels.rows.integers();
    } else {
      given_.points = static_cast<const float*>(points.data()), given_.points_ld = 4;
      given_.coordinates = voxels.coordinates.integers();
    }
    given_.row_count = voxels.counts.integers();
    given_.features = voxels.features.data(), given_.output = output_.data();
    given_.workspace = workspace_->data(), given_.workspace_bytes = workspace_->bytes();
  }
  void enqueue(void* stream) const {
    check(minuet_devoxelize(op_.get(), machine_.device(), &given_, stream));
  }

 private:
  Machine& machine_;
  PointOp op_{nullptr, {minuet_point_op_destroy}};
  Buffer output_;
  std::unique_ptr<Buffer> workspace_;
  minuet_devoxelize_arguments given_ = MINUET_DEVOXELIZE_ARGUMENTS_INIT;
};

void time(Machine& machine, const Stream& stream, Way& way, bool counts) {
  const double replay = time_by_events(machine, stream, *way.graph);
  const Clock::time_point start = Clock::now();
  way.enqueue();
  const double enqueued = milliseconds_since(start);
  check(minuet_device_synchronize(machine.device(), stream.get()));
  const double done = milliseconds_since(start);
  if (!counts) return;
  way.replay.push_back(replay), way.enqueued.push_back(enqueued), way.done.push_back(done);
}

/// Returns whether coordinates, features, rows and counts are those of plain loops, bit by bit.
bool has_equal_bits(const oracle::PointCloud& cloud, const Size& size, const VoxelizeRun& run) {
  oracle::VoxelRules rules;
  std::copy(size.begin(), size.end(), rules.size.begin());
  const oracle::Voxels expected = oracle::voxels_of(cloud, rules);
  const auto begins_with = [](const auto& all, const auto& wanted) {
    return std::equal(wanted.begin(), wanted.end(), all.begin());
  };
  return begins_with(run.coordinates.read<int32_t>(), expected.coordinates) &&
         begins_with(run.features.read<float>(), expected.features) &&
         begins_with(run.rows.read<int32_t>(), expected.rows) &&
         begins_with(run.counts.read<int32_t>(), expected.counts);
}

llvm::json::Object measure(Machine& machine, const oracle::PointCloud& cloud) {
  const Stream stream(machine);
  stream.make_current();
  const int64_t most = cloud.count();
  const Buffer points(machine, cloud.points);
  const VoxelizeRun voxelize(machine, points, most, kVoxel), pillars(machine, points, most, kPillar),
      one_voxel(machine, points, most, kAll);
  const DevoxelizeRun nearest(machine, points, most, voxelize, MINUET_BLEND_NEAREST);
  const DevoxelizeRun linear(machine, points, most, voxelize, MINUET_BLEND_CENTRES);
  std::vector<Way> ways;
  ways.push_back({"voxelize", [&] { voxelize.enqueue(stream.get()); }});
  ways.push_back({"voxelize_pillars", [&] { pillars.enqueue(stream.get()); }});
  ways.push_back({"voxelize_in_one_voxel", [&] { one_voxel.enqueue(stream.get()); }});
  ways.push_back({"devoxelize_nearest", [&] { nearest.enqueue(stream.get()); }});
  ways.push_back({"devoxelize_linear", [&] { linear.enqueue(stream.get()); }});
  for (Way& way : ways) {
    way.enqueue();
    check(minuet_device_synchronize(machine.device(), stream.get()));
    way.graph = std::make_unique<CapturedGraph>(stream.get(), way.enqueue);
  }
  for (int i = -kWarm; i < kTimed; ++i) {
    for (Way& way : ways) time(machine, stream, way, i >= 0);
  }
  llvm::json::Object results{
      {"points", most},
      {"voxels", voxelize.counts.read<int32_t>().front()},
      {"workspace_bytes", voxelize.workspace_bytes()},
      {"has_equal_bits", has_equal_bits(cloud, kVoxel, voxelize) && has_equal_bits(cloud, kPillar, pillars)},
      {"voxelize_way", voxelize.way()},
      {"voxelize_pillars_way", pillars.way()},
      {"voxelize_in_one_voxel_way", one_voxel.way()}};
  for (Way& way : ways) {
    results[way.name] = llvm::json::Object{{"replay_gpu", summary(way.replay)},
                                           {"enqueued", summary(way.enqueued)},
                                           {"done", summary(way.done)}};
  }
  return results;
}

void bench(const std::string& path, const std::string& commit) {
  Machine& machine = open_gpu();
  oracle::PointCloud cloud;
  for (const tool::Point& point : llvm::cantFail(tool::read_cloud(path, {})).points) {
    for (const double number : point) cloud.points.push_back(static_cast<float>(number));
  }
  llvm::json::Object results = measure(machine, cloud);
  results["cloud"] = path;
  print_results(machine, commit, std::move(results));
}

}  // namespace
}  // namespace minuet::abi

int main(int count, char** arguments) {
  if (count != 3) {
    std::fprintf(stderr, "usage: points_bench CLOUD COMMIT\n");
    return 2;
  }
  return minuet::abi::exit_status_of([&] { minuet::abi::bench(arguments[1], arguments[2]); });
}
