#include "tools/minuet/library/replay.h"

#include <algorithm>

#include "tools/minuet/base/clock.h"
#include "tools/minuet/base/convert.h"
#include "tools/minuet/base/error.h"
#include "tools/minuet/cloud/input.h"
#include "tools/minuet/library/tensors.h"

namespace minuet::tool {
namespace {

/// The bounds of each axis exceed the extent of the clouds by 1/kRoom of it on each side.
constexpr int kRoom = 8;

llvm::Error copy_to(minuet_device* device, const DeviceBuffer& target, const void* source, size_t bytes) {
  if (bytes == 0) return llvm::Error::success();
  return check(minuet_device_copy(device, target.get(), source, static_cast<int64_t>(bytes), 0));
}

/// Returns the inputs of a network that takes points after the points: no batch indices, and the count.
std::vector<minuet_array> points_arrays(void* count) {
  minuet_array batch = {}, number = {};
  batch.rank = number.rank = 1;
  batch.element = number.element = MINUET_ELEMENT_I32;
  number.shape[0] = 1;
  number.data = count;
  return {batch, number};
}

}  // namespace

struct Replay::CapacityExecution {
  ExecutionHandle execution;
  DeviceBuffer coordinates, features, count;
  Outputs outputs;
  minuet_tensor input;
  std::unique_ptr<CudaGraph> graph;  // The graph is null on the CPU.
  // Holds no batch indices, and the number of points, for a network that takes points.
  std::vector<minuet_array> of_points;

  llvm::Error prepare(void* stream) {
    if (!of_points.empty()) return llvm::Error::success();
    return check(minuet_execution_prepare_on_device(execution.get(),
                                                    static_cast<const int32_t*>(coordinates.get()),
                                                    static_cast<const int32_t*>(count.get()), stream));
  }
  llvm::Error enqueue(void* stream) {
    MINUET_TRY(prepare(stream));
    return tool::enqueue(execution.get(), input, of_points, outputs, stream);
  }
};

Replay::Replay(minuet_plan* network, const minuet_plan_info& info, minuet_device* device,
               const DeviceFacts& facts, minuet_dtype dtype, const ExecutionChoice& choice)
    : network_(network), info_(info), device_(device), facts_(facts), dtype_(dtype), choice_(choice) {}
Replay::~Replay() = default;

llvm::Error Replay::learn(const VoxelCloud& cloud) {
  MINUET_ASSIGN(inputs_, query_inputs(network_));
  MINUET_TRY(infer_exactly(cloud).takeError());
  MINUET_TRY(learn_from_last(cloud));
  fitted_.reset();  // The next infer() creates a new execution with the capacities learned here.
  return llvm::Error::success();
}

llvm::Expected<double> Replay::infer_exactly(const VoxelCloud& cloud) {
  if (!exact_) {
    MINUET_ASSIGN(exact_, open_execution(network_, device_, cloud.count(), choice_));
  }
  MINUET_ASSIGN(const DeviceCloud uploaded, upload_cloud(device_, cloud, dtype_));
  MINUET_ASSIGN(Outputs outputs, Outputs::create(network_, device_, choice_.batch_size));
  const Clock::time_point start = Clock::now();
  MINUET_TRY(tool::infer(exact_.get(), device_, uploaded, outputs));
  return milliseconds_since(start);
}

/// Widens capacities and bounds to fit `cloud`, which must be the last cloud that exact_ prepared.
llvm::Error Replay::learn_from_last(const VoxelCloud& cloud) {
  std::vector<int64_t> wanted(static_cast<size_t>(info_.levels));
  MINUET_TRY(
      check(minuet_execution_suggest_capacities(exact_.get(), kCapacityFactor, wanted.data(), info_.levels)));
  capacities_.resize(wanted.size(), 0);
  for (size_t l = 0; l < wanted.size(); ++l) capacities_[l] = std::max(capacities_[l], wanted[l]);
  const size_t fields = cloud.holds_points ? 0 : static_cast<size_t>(1 + cloud.ndim);
  for (size_t f = 0; f < fields && cloud.count() > 0; ++f) {
    int32_t least = cloud.coordinates[f], greatest = least;
    for (size_t i = f; i < cloud.coordinates.size(); i += fields) {
      least = std::min(least, cloud.coordinates[i]);
      greatest = std::max(greatest, cloud.coordinates[i]);
    }
    const int64_t room = f == 0 ? 0 : (int64_t{greatest} - least) / kRoom + 1;
    const auto inside = [](int64_t value) {
      return static_cast<int32_t>(std::clamp<int64_t>(value, INT32_MIN, INT32_MAX));
    };
    if (least_.size() == f) least_.push_back(least), greatest_.push_back(greatest);
    least_[f] = std::min(least_[f], inside(least - room));
    greatest_[f] = std::max(greatest_[f], inside(greatest + room));
  }
  return llvm::Error::success();
}

llvm::Error Replay::fit() {
  fitted_.reset();
  minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
  MINUET_TRY(fill_execution_options(choice_, options));
  options.level_capacity = capacities_.data();
  options.level_count = info_.levels;
  // The shape of a network's input and the batch size bound the coordinates already. A network that takes
  // points makes coordinates that only the device knows.
  const bool takes_points = tool::takes_points(inputs_);
  if (choice_.batch_size == 0 && !takes_points) {
    options.has_bounds = 1;
    std::copy(least_.begin(), least_.end(), options.least);
    std::copy(greatest_.begin(), greatest_.end(), options.greatest);
  }
  minuet_execution* execution = nullptr;
  MINUET_TRY(check(minuet_execution_create(network_, device_, &options, &execution)));
  ExecutionHandle owned(execution);
  const int64_t most = capacities_[0], fields = static_cast<int64_t>(least_.size());
  const auto allocate = [&](int64_t rows, int64_t bytes) {
    return DeviceBuffer::allocate(device_, static_cast<size_t>(rows * bytes));
  };
  MINUET_ASSIGN(DeviceBuffer coordinates, allocate(most, 4 * fields));
  const minuet_dtype dtype = takes_points ? MINUET_F32 : dtype_;
  MINUET_ASSIGN(DeviceBuffer features, allocate(most, int64_t{info_.in_channels} * dtype_bytes(dtype)));
  const int32_t none = 0;
  MINUET_ASSIGN(DeviceBuffer count, DeviceBuffer::upload(device_, &none, sizeof none));
  MINUET_ASSIGN(Outputs outputs, Outputs::create(network_, device_, choice_.batch_size));
  MINUET_TRY(outputs.fit(capacities_));
  std::unique_ptr<CapacityExecution> fitted(new CapacityExecution{std::move(owned),
                                                                  std::move(coordinates),
                                                                  std::move(features),
                                                                  std::move(count),
                                                                  std::move(outputs),
                                                                  {},
                                                                  nullptr,
                                                                  {}});
  fitted->input = dense_tensor(fitted->features.get(), most, info_.in_channels, dtype);
  if (takes_points) fitted->of_points = points_arrays(fitted->count.get());
  if (!facts_.is_cpu()) {
    const auto enqueue = [&](void* stream) { return fitted->enqueue(stream); };
    MINUET_ASSIGN(fitted->graph, CudaGraph::capture(facts_, enqueue));
    // The first launch uploads the graph to the GPU, so it happens here, with no voxels, and is not timed.
    MINUET_TRY(fitted->graph->replay());
  }
  fitted_ = std::move(fitted);
  return llvm::Error::success();
}

/// Copies the cloud to the device. Rows past the capacity are left out, but the count includes them.
llvm::Error Replay::put(const VoxelCloud& cloud) {
  const minuet_dtype dtype = cloud.holds_points ? MINUET_F32 : dtype_;
  MINUET_ASSIGN(const std::vector<char> encoded, encode_features(cloud, dtype));
  const auto rows = static_cast<size_t>(std::min(cloud.count(), capacities_[0]));
  const auto count = static_cast<int32_t>(cloud.count());
  const size_t row_bytes = static_cast<size_t>(info_.in_channels) * dtype_bytes(dtype);
  if (!cloud.holds_points)
    MINUET_TRY(copy_to(device_, fitted_->coordinates, cloud.coordinates.data(), rows * 4 * least_.size()));
  MINUET_TRY(copy_to(device_, fitted_->features, encoded.data(), rows * row_bytes));
  MINUET_TRY(copy_to(device_, fitted_->count, &count, sizeof count));
  return check(minuet_device_synchronize(device_, nullptr));
}

llvm::Expected<ReplayResult> Replay::infer(const VoxelCloud& cloud) {
  if (!fitted_) MINUET_TRY(fit());
  MINUET_TRY(put(cloud));
  ReplayResult result;
  const Clock::time_point start = Clock::now();
  if (fitted_->graph) {
    MINUET_TRY(fitted_->graph->replay());
  } else {
    MINUET_TRY(fitted_->enqueue(nullptr));
    MINUET_TRY(check(minuet_device_synchronize(device_, nullptr)));
  }
  result.ms = milliseconds_since(start);
  std::vector<int32_t> counts(static_cast<size_t>(1 + info_.levels));
  MINUET_TRY(check(minuet_execution_read_cloud(fitted_->execution.get(), &result.status, counts.data(),
                                               1 + info_.levels, nullptr)));
  const int32_t level = voxel_level(cloud.holds_points);
  // The first count is that of the rows that were given.
  result.voxels = cloud.holds_points ? counts[1 + static_cast<size_t>(level)] : cloud.count();
  if (result.status == 0) return result;
  MINUET_ASSIGN(const double exact_ms, infer_exactly(cloud));
  result.ms += exact_ms;
  if (cloud.holds_points) {
    MINUET_ASSIGN(result.voxels, count_voxels(exact_.get(), level));
  }
  MINUET_TRY(learn_from_last(cloud));
  fitted_.reset();
  return result;
}

std::string status_text(uint32_t status) {
  static constexpr struct {
    uint32_t bit;
    const char* text;
  } kBits[] = {{MINUET_CLOUD_OUT_OF_BOUNDS, "voxels outside the bounds"},
               {MINUET_CLOUD_NEGATIVE_BATCH, "a negative batch index"},
               {MINUET_CLOUD_DUPLICATE, "several equal voxels"},
               {MINUET_CLOUD_PAST_CAPACITY, "too many voxels"},
               {MINUET_CLOUD_KEY_TOO_NARROW, "coordinates too large for the sort keys"},
               {MINUET_CLOUD_TOO_FAR, "voxels too far from the origin"},
               {MINUET_CLOUD_INDEX_FULL, "too many voxels far from each other"},
               {MINUET_CLOUD_OUTSIDE_KEYS, "voxels outside the range of an index"}};
  std::string text;
  for (const auto& [bit, meaning] : kBits) {
    if ((status & bit) != 0) text += (text.empty() ? "" : ", ") + std::string(meaning);
  }
  return text;
}

}  // namespace minuet::tool
