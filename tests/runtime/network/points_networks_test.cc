// The shipped networks that take points and give labels of points, on every device and in every dtype,
// against plain loops in float64.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "tests/runtime/execution/stages_fixture.h"
#include "tests/runtime/network/named_chain.h"
#include "tests/support/compare.h"
#include "tests/support/segmentation_oracle.h"

namespace minuet::abi {
namespace {

using Op = oracle::NetworkLayer::Op;
using Tensors = std::map<std::string, FileTensor>;

constexpr uint64_t kPointsSeed = 6161;
constexpr int64_t kVoxels = kSanitized ? 60 : 300;
constexpr int64_t kClasses = 19;
constexpr float kSize = 0.05f;
const std::vector<int32_t> kNarrowWidths = {8, 8, 8, 12, 16, 16, 12, 8, 8};
const std::vector<int32_t> kWideWidths = {32, 32, 64, 128, 256, 256, 128, 96, 96};

/// One to three points in each voxel of a scene, and some points that have no place.
oracle::PointCloud draw_points(int64_t voxels) {
  const std::vector<int32_t> cells = make_scene(voxels, kPointsSeed);
  Random random(kPointsSeed);
  oracle::PointCloud cloud;
  for (int round = 0; round < 3; ++round) {
    for (size_t at = 0; at < cells.size(); at += 4) {
      if (round > 0 && random.below(2) == 0) continue;
      for (size_t a = 1; a < 4; ++a) {
        // The scene's middle is moved, so that some cells are negative.
        const float cell = static_cast<float>(cells[at + a] - 20);
        cloud.points.push_back((cell + static_cast<float>(random.uniform(0.1, 0.9))) * kSize);
      }
      if (random.below(50) == 0)
        cloud.points[cloud.points.size() - 2] = std::numeric_limits<float>::quiet_NaN();
      cloud.points.push_back(static_cast<float>(random.uniform(0, 1)));
      cloud.batch.push_back(cells[at]);
    }
  }
  return cloud;
}

oracle::VoxelRules rules() {
  oracle::VoxelRules rules;
  std::fill_n(rules.size.begin(), 3, kSize);
  return rules;
}

/// A network on a cloud, evaluated once in float64 for every dtype and device.
struct Reference {
  explicit Reference(int64_t voxels)
      : cloud(draw_points(voxels)), voxels(oracle::voxels_of(cloud, rules())) {}
  oracle::PointCloud cloud;
  oracle::Voxels voxels;
  std::vector<double> scores;  // [points, kClasses]
  Tensors tensors;
};

Reference minkunet(const std::vector<int32_t>& widths, int64_t voxels) {
  Reference one(voxels);
  oracle::Parameters parameters(kPointsSeed);
  const oracle::NetworkOutput output = oracle::minkunet(
      parameters, {widths, {2, 3, 4, 6, 2, 2, 2, 2}}, one.voxels.coordinates, one.voxels.features, kClasses);
  for (const int32_t row : one.voxels.rows) {
    for (int64_t c = 0; c < kClasses; ++c)
      one.scores.push_back(row < 0 ? 0 : output.features[static_cast<size_t>(row * kClasses + c)]);
  }
  one.tensors = oracle::in_minkowski(parameters);
  return one;
}

/// Features of points.
struct Features {
  int64_t channels = 0;
  std::vector<double> values;
};

Features linear(oracle::Parameters& parameters, const Features& x, const std::string& name, int64_t out) {
  const std::vector<float>& weight = parameters.weight(name + ".weight", 1, x.channels, out, 1);
  const std::vector<float>& bias = parameters.vector(name + ".bias", out, 0, 0.5);
  Features y{out, {}};
  for (size_t at = 0; at < x.values.size(); at += static_cast<size_t>(x.channels)) {
    for (int64_t o = 0; o < out; ++o) {
      double sum = static_cast<double>(bias[static_cast<size_t>(o)]);
      for (int64_t i = 0; i < x.channels; ++i)
        sum += x.values[at + static_cast<size_t>(i)] *
               static_cast<double>(weight[static_cast<size_t>(i * out + o)]);
      y.values.push_back(sum);
    }
  }
  return y;
}

/// A linear layer, a batch norm and a ReLU.
Features transform(oracle::Parameters& parameters, const Features& x, const std::string& name, int64_t out) {
  Features y = linear(parameters, x, name + ".linear", out);
  const std::vector<float>& weight = parameters.vector(name + ".bn.weight", out, 1, 0.3);
  const std::vector<float>& bias = parameters.vector(name + ".bn.bias", out, 0.1, 0.3);
  const std::vector<float>& mean = parameters.vector(name + ".bn.running_mean", out, 0, 0.3);
  const std::vector<float>& variance = parameters.vector(name + ".bn.running_var", out, 2, 0.9);
  for (size_t i = 0; i < y.values.size(); ++i) {
    const size_t c = i % static_cast<size_t>(out);
    const double centred = y.values[i] - static_cast<double>(mean[c]);
    const double normed = centred / std::sqrt(static_cast<double>(variance[c]) + 1e-5);
    y.values[i] = std::max(normed * static_cast<double>(weight[c]) + static_cast<double>(bias[c]), 0.0);
  }
  return y;
}

/// The U-Net of SPVCNN. `wanted` receives the numbers of the layers that points read.
NamedChain unet(const std::vector<int32_t>& c, std::vector<int>& wanted) {
  NamedChain chain;
  const oracle::Axes three{3, 3, 3, 1}, two{2, 2, 2, 1};
  std::vector<int> x, y;
  const auto residuals = [&](const std::string& name, int width) {
    for (const char* const number : {"0", "1"}) {
      chain.add({.op = Op::Residual, .channels = width, .kernel_size = three}, name + ".residual." + number);
    }
  };
  int last = 0;
  for (const char* const name : {"stem.0", "stem.1"})
    last = chain.add({.channels = c[0], .kernel_size = three}, name);
  x.push_back(last);
  for (size_t i = 0; i < 4; ++i) {
    const std::string name = "encoder." + std::to_string(i);
    last = chain.add({.channels = c[i], .kernel_size = two, .stride = two}, name + ".down");
    residuals(name, c[i + 1]);
    x.push_back(last + 2);
  }
  for (size_t i = 0; i < 4; ++i) {
    const std::string name = "decoder." + std::to_string(i);
    last =
        chain.add({.op = Op::Up, .channels = c[i + 5], .kernel_size = two, .stride = two, .skip = x[3 - i]},
                  name + ".up");
    chain.add({.op = Op::Concat, .skip = x[3 - i]});
    residuals(name, c[i + 5]);
    y.push_back(last + 3);
  }
  wanted = {x[0], x[4], y[1], y[3]};
  return chain;
}

Reference spvcnn(const std::vector<int32_t>& widths, int64_t voxels) {
  Reference one(voxels);
  oracle::Parameters parameters(kPointsSeed), of_points(kPointsSeed + 1);
  std::vector<int> wanted;
  const NamedChain chain = unet(widths, wanted);
  const std::vector<oracle::NetworkOutput> outputs =
      chain.evaluate(parameters, 4, one.voxels.coordinates, one.voxels.features, wanted);
  const int32_t strides[] = {1, 16, 4, 1};
  std::vector<Features> blended;
  for (size_t i = 0; i < 4; ++i) {
    const oracle::NetworkOutput& output = outputs[i];
    blended.push_back({output.channels,
                       oracle::blended(one.cloud, rules(), false, std::vector<int32_t>(4, strides[i]),
                                       output.coordinates, {output.features.begin(), output.features.end()},
                                       static_cast<int>(output.channels))});
  }
  Features z = blended[0];
  for (size_t i = 1; i < 4; ++i) {
    const Features own =
        transform(of_points, z, "points." + std::to_string(i - 1), widths[std::array{0, 4, 6, 8}[i]]);
    z = blended[i];
    for (size_t at = 0; at < z.values.size(); ++at) z.values[at] += own.values[at];
  }
  one.scores = linear(of_points, z, "classifier", kClasses).values;
  chain.take_parameters(parameters, one.tensors);
  one.tensors.insert(of_points.all().begin(), of_points.all().end());
  return one;
}

class PointsNetworks : public StagesTest {
 protected:
  NetworkSpec spec_of(const std::string& name, const std::vector<int32_t>& widths, const std::string& file) {
    NetworkSpec spec{name, widths, dtype(), file};
    return spec;
  }

  void check_network(const std::string& name, const std::vector<int32_t>& widths, const Reference& one) {
    const TemporaryPath file(name + ".safetensors");
    write_safetensors(file.path(), one.tensors);
    const Plan plan = make_network(machine(), spec_of(name, widths, file.path()));
    const Execution execution = execution_of(plan);
    const Arrays arrays = arrays_of(plan, one.cloud, one.cloud.count());
    check(run_arrays(execution.get(), arrays.inputs, arrays.outputs));
    const StagedRun run = read(plan, execution, arrays);
    ASSERT_EQ(run.outputs.size(), 2u);
    ASSERT_EQ(run.outputs[0].rows, one.cloud.count());
    ASSERT_EQ(run.outputs[0].channels, kClasses);
    const std::vector<float> scores = values_of(run.outputs[0]);
    EXPECT_TRUE(is_close(scores, one.scores, kClasses, error_bound(dtype(), true)));
    EXPECT_EQ(labels_of(run), greatest(scores));
    int32_t counts[6] = {};
    check(minuet_execution_read_points(execution.get(), counts, 6, nullptr));
    for (size_t i = 0; i < 4; ++i) EXPECT_EQ(counts[i], one.voxels.counts[i]) << i;
    EXPECT_GT(counts[3], 0) << "points that are not finite";
  }

  /// Capacity mode gives the same bits as exact mode.
  void check_within(const std::string& name, const std::vector<int32_t>& widths, const Reference& one) {
    const TemporaryPath file(name + ".safetensors");
    write_safetensors(file.path(), one.tensors);
    NetworkSpec spec = spec_of(name, widths, file.path());
    // Both modes choose the same kernels.
    spec.dataflow = MINUET_DATAFLOW_FUSED;
    const Plan plan = make_network(machine(), spec);
    const int64_t count = one.cloud.count(), room = count + 30;
    const int32_t levels = info_of(plan.get()).levels;
    ASSERT_EQ(levels, 6);
    const Execution exact = execution_of(plan),
                    within = execution_of(plan, MINUET_EXECUTION_OPTIONS_INIT, std::vector<int64_t>(6, room));
    const Arrays of_exact = arrays_of(plan, one.cloud, count), of_within = arrays_of(plan, one.cloud, room);
    check(run_arrays(exact.get(), of_exact.inputs, of_exact.outputs));
    check(run_arrays(within.get(), of_within.inputs, of_within.outputs));
    uint32_t status = ~0u;
    const std::vector<int32_t> counts = counts_of(within, levels, status);
    EXPECT_EQ(status, 0u);
    EXPECT_EQ(counts[2], static_cast<int32_t>(one.voxels.coordinates.size() / 4));
    const StagedRun wanted = read(plan, exact, of_exact);
    StagedRun run = read(plan, within, of_within);
    run.outputs.resize(1);  // the rows of labels behind the points are -1 and not 0
    cut(plan, counts, run);
    EXPECT_EQ(run.outputs[0], wanted.outputs[0]);
    std::vector<int32_t> labels = of_within.made[1]->read<int32_t>();
    for (size_t i = static_cast<size_t>(count); i < static_cast<size_t>(room); ++i) EXPECT_EQ(labels[i], -1);
    labels.resize(static_cast<size_t>(count));
    EXPECT_EQ(labels, labels_of(wanted));
  }

 private:
  static std::vector<int32_t> labels_of(const StagedRun& run) {
    const std::vector<char>& bytes = run.outputs[1].bytes;
    std::vector<int32_t> labels(bytes.size() / 4);
    std::memcpy(labels.data(), bytes.data(), bytes.size());
    return labels;
  }
  /// The number of each row's greatest score.
  static std::vector<int32_t> greatest(const std::vector<float>& scores) {
    std::vector<int32_t> labels;
    for (auto row = scores.begin(); row != scores.end(); row += kClasses)
      labels.push_back(static_cast<int32_t>(std::max_element(row, row + kClasses) - row));
    return labels;
  }
};

const Reference& narrow_minkunet() {
  static const Reference one = minkunet(kNarrowWidths, kVoxels);
  return one;
}
const Reference& narrow_spvcnn() {
  static const Reference one = spvcnn(kNarrowWidths, kVoxels);
  return one;
}

TEST_P(PointsNetworks, MinkUNet34C) { check_network("minkunet34c_points", kNarrowWidths, narrow_minkunet()); }
TEST_P(PointsNetworks, MinkUNet34CWithinCapacities) {
  check_within("minkunet34c_points", kNarrowWidths, narrow_minkunet());
}
TEST_P(PointsNetworks, PointBranchOfSPVCNN) {
  check_network("spvcnn_point_branch", kNarrowWidths, narrow_spvcnn());
}
TEST_P(PointsNetworks, PointBranchOfSPVCNNWithinCapacities) {
  check_within("spvcnn_point_branch", kNarrowWidths, narrow_spvcnn());
}

/// The descriptions' own widths are the authors'.
TEST_P(PointsNetworks, AtTheAuthorsWidths) {
  if (machine().is_software()) {
    GTEST_SKIP() << "takes long on the software device; narrow networks take the same paths";
  }
  if (kSanitized) GTEST_SKIP() << "takes long under a sanitizer; narrow networks take the same paths";
  check_network("minkunet34c_points", {}, minkunet(kWideWidths, 40));
  check_network("spvcnn_point_branch", {}, spvcnn(kWideWidths, 40));
}

MINUET_INSTANTIATE_DEVICE_TEST(PointsNetworks);

}  // namespace
}  // namespace minuet::abi
