// Random networks of several stages on every device, against the fp64 oracle, and in capacity mode against
// exact mode. A network is a random chain of layers, an op that makes a level of its result, and another
// random chain on this level. The op is a `prune` or `subdivide` by scores or by a mask, or a `from_dense`
// with a new level. Some networks take points, and give features of points. Rounding may change which rows
// are kept, so the oracle keeps those that the run's own scores keep. A failure is shrunk.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/cases/random_stages.h"
#include "tests/runtime/execution/random_run.h"
#include "tests/runtime/execution/stages_rows.h"
#include "tests/support/compare.h"

namespace minuet::abi {
namespace {

using oracle::Axes;
using oracle::NetworkOutput;

constexpr int kNetworks = kSanitized ? 6 : 100;
constexpr int kLongNetworks = 1000;
constexpr int kCudaNetworks = 6;
// Most draws give a network that is run.
constexpr int kMostDraws = 20;
constexpr double kWorstElement = 6;

/// The level that a chain ends on, or the level that is made of it.
struct MadeRows {
  std::vector<int32_t> coordinates;
  std::vector<double> features;
};

/// The rows of a level, or of the cells of a dense tensor, that have a number that is not 0, in the order of
/// the cells.
std::vector<size_t> cells_of(const std::vector<float>& features, const std::vector<int32_t>& coordinates,
                             int ndim) {
  const size_t rows = coordinates.size() / static_cast<size_t>(1 + ndim);
  const size_t channels = features.size() / std::max<size_t>(rows, 1);
  std::vector<size_t> kept;
  for (const int32_t row : ascending_rows(coordinates, ndim)) {
    const float* const own = features.data() + static_cast<size_t>(row) * channels;
    if (std::any_of(own, own + channels, [](float value) { return value != 0; }))
      kept.push_back(static_cast<size_t>(row));
  }
  return kept;
}

/// The numbers of a row and a child that scores [rows, children], or a mask, keep.
std::vector<size_t> kept_by(const StagedCase& test, const std::vector<float>& scores,
                            const std::vector<uint8_t>& mask, const std::vector<int32_t>& coordinates) {
  if (test.maker == Maker::Cells) return cells_of(scores, coordinates, test.first.ndim);
  if (test.maker != Maker::Mask) {
    return kept_of(scores, coordinates, test.children, test.threshold,
                   test.maker == Maker::Best ? test.top_k : 0, test.first.ndim);
  }
  std::vector<size_t> kept;
  for (size_t i = 0; i < mask.size(); ++i) {
    if (mask[i] != 0) kept.push_back(i);
  }
  return kept;
}

/// The rows that are kept, or children of them, at their coordinates divided by the tensor stride.
MadeRows made_of(const StagedCase& test, const MadeRows& rows, const std::vector<size_t>& kept,
                 const Axes& stride) {
  const auto ndim = static_cast<size_t>(test.first.ndim), children = static_cast<size_t>(test.child_count());
  const size_t channels = rows.features.size() / std::max<size_t>(rows.coordinates.size() / (1 + ndim), 1);
  const size_t width = test.divides_channels ? channels / children : channels;
  MadeRows made;
  for (const size_t candidate : kept) {
    const size_t row = candidate / children;
    size_t child = candidate % children;
    std::vector<int32_t> cell(1 + ndim, rows.coordinates[row * (1 + ndim)]);
    for (size_t a = ndim; a-- > 0; child /= static_cast<size_t>(test.children[a])) {
      const auto step = static_cast<int32_t>(child % static_cast<size_t>(test.children[a]));
      cell[1 + a] = rows.coordinates[row * (1 + ndim) + 1 + a] / stride[a] + step;
    }
    made.coordinates.insert(made.coordinates.end(), cell.begin(), cell.end());
    const size_t from = row * channels + (test.divides_channels ? candidate % children * width : 0);
    for (size_t c = 0; c < width; ++c) made.features.push_back(rows.features[from + c]);
  }
  return made;
}

std::vector<float> narrowed(const std::vector<double>& values) { return {values.begin(), values.end()}; }

class RandomStages : public StagesTest {
 protected:
  /// What the oracle needs, and the parameters that it has drawn.
  struct Problem {
    StagedCase test;
    oracle::PointCloud cloud;
    std::vector<int32_t> coordinates;
    std::vector<float> features;
    Axes stride{1, 1, 1, 1};  // of the level that is made
    std::map<std::string, FileTensor> tensors;
    oracle::Parameters of_first{0}, of_second{0}, of_scores{0};
    NetworkOutput first;
    std::vector<double> scores;  // of Cells: the features of the first chain
    std::vector<uint8_t> mask;   // [rows of the first chain's result, children]
  };

  static oracle::VoxelRules rules_of(const StagedCase& test) {
    oracle::VoxelRules rules;
    std::fill_n(rules.size.begin(), 4, kStagedVoxelSize);
    rules.channels = test.first.in_channels;
    return rules;
  }

  static void draw_input(Problem& problem) {
    const NetworkCase& first = problem.test.first;
    Random random(first.seed);
    problem.coordinates = first.coordinates();
    problem.features = oracle::draw_features(first.points * first.in_channels, first.seed);
    if (problem.test.maker == Maker::Cells) move_into_shape(problem);
    if (!problem.test.takes_points) return;
    constexpr double kExtents[] = {20, 4, 1.5, 1};
    problem.cloud = oracle::random_points_of(
        random, first.points, first.ndim, std::max(first.ndim, first.in_channels), kExtents[first.ndim - 1],
        first.batches > 1 ? first.batches : 0, problem.test.is_wild);
    // A feature that is not finite would spread to all results. A point with such a position has no voxel.
    const auto columns = static_cast<size_t>(problem.cloud.columns);
    for (size_t i = 0; i < problem.cloud.points.size(); ++i) {
      float& value = problem.cloud.points[i];
      const bool is_position = i % columns < static_cast<size_t>(first.ndim);
      if (!is_position && !(std::abs(value) <= kExtents[0])) value = 0;
    }
    const oracle::Voxels voxels = oracle::voxels_of(problem.cloud, rules_of(problem.test));
    problem.coordinates = voxels.coordinates;
    problem.features = voxels.features;
  }

  /// Moves the cloud to the corner of the smallest shape that holds it.
  static void move_into_shape(Problem& problem) {
    const auto width = static_cast<size_t>(1 + problem.test.first.ndim);
    for (size_t a = 1; a < width; ++a) {
      int32_t least = INT32_MAX, greatest = INT32_MIN;
      for (size_t i = a; i < problem.coordinates.size(); i += width) {
        least = std::min(least, problem.coordinates[i]);
        greatest = std::max(greatest, problem.coordinates[i]);
      }
      if (least > greatest) least = greatest = 0;
      for (size_t i = a; i < problem.coordinates.size(); i += width) problem.coordinates[i] -= least;
      problem.test.shape[a - 1] = greatest - least + 1;
    }
  }
  /// Returns true unless the dense tensor of Maker::Cells would be large.
  static bool has_few_cells(const Problem& problem) {
    constexpr double kMostNumbers = 1e6;
    if (problem.test.maker != Maker::Cells) return true;
    double numbers = static_cast<double>(problem.test.first.batches * problem.first.channels);
    for (int a = 0; a < problem.test.first.ndim; ++a) numbers *= problem.test.shape[static_cast<size_t>(a)];
    return numbers <= kMostNumbers;
  }

  static void score(Problem& problem) {
    problem.scores = problem.first.features;
    if (problem.test.maker == Maker::Cells) return;
    problem.scores.clear();
    const int64_t in = problem.first.channels, out = problem.test.child_count();
    const std::vector<float>& weight = problem.of_scores.weight("scores.weight", 1, in, out, 1);
    const std::vector<float>& bias = problem.of_scores.vector("scores.bias", out, 0, 0.5);
    const std::vector<double>& features = problem.first.features;
    for (size_t at = 0; at < features.size(); at += static_cast<size_t>(in)) {
      for (int64_t o = 0; o < out; ++o) {
        double sum = static_cast<double>(bias[static_cast<size_t>(o)]);
        for (int64_t i = 0; i < in; ++i)
          sum += features[at + static_cast<size_t>(i)] *
                 static_cast<double>(weight[static_cast<size_t>(i * out + o)]);
        problem.scores.push_back(sum);
      }
    }
  }

  static NetworkOutput evaluate_second(Problem& problem, const MadeRows& made) {
    const NetworkCase& second = problem.test.second;
    return oracle::evaluate(problem.of_second, second.ndim, second.in_channels, second.layers,
                            made.coordinates, narrowed(made.features));
  }

  /// Evaluates the first chain, and sets what follows from its result: scores, the mask, the threshold.
  static Problem begin(const StagedCase& test) {
    Problem problem;
    problem.test = test;
    const NetworkCase& first = test.first;
    draw_input(problem);
    problem.of_first = oracle::Parameters(first.seed), problem.of_second = oracle::Parameters(first.seed + 1);
    problem.of_scores = oracle::Parameters(first.seed + 2);
    problem.first = oracle::evaluate(problem.of_first, first.ndim, first.in_channels, first.layers,
                                     problem.coordinates, problem.features);
    score(problem);
    std::vector<double> sorted = problem.scores;
    std::sort(sorted.begin(), sorted.end());
    if (!sorted.empty()) problem.test.threshold = static_cast<float>(sorted[sorted.size() / 2]);
    Random random(first.seed + 3);
    for (size_t i = 0; i < problem.scores.size(); ++i)
      problem.mask.push_back(static_cast<uint8_t>(random.below(2) == 0 ? 0 : 1 + random.below(255)));
    problem.stride = strides_of(first).back();
    for (size_t a = 0; a < 4; ++a) problem.stride[a] /= test.children[a];
    return problem;
  }
  static int64_t made_channels(const Problem& problem) {
    return problem.first.channels / (problem.test.divides_channels ? problem.test.child_count() : 1);
  }
  /// Evaluates the second chain. Returns false for a case that is not run: its parts do not fit together, or
  /// its numbers do not fit the dtype.
  bool finish(Problem& problem) const {
    StagedCase& test = problem.test;
    test.second.in_channels = static_cast<int>(made_channels(problem));
    const Axes stride = strides_of(test.first).back();
    for (size_t a = 0; a < 4; ++a) {
      if (stride[a] % test.children[a] != 0) return false;
    }
    if (!is_feasible(test.first) || !is_feasible(test.second) || test.second.ndim != test.first.ndim ||
        !has_few_cells(problem) ||
        (test.divides_channels && problem.first.channels % test.child_count() != 0)) {
      return false;
    }
    const MadeRows rows{problem.first.coordinates, problem.first.features};
    const std::vector<size_t> kept = kept_by(test, narrowed(problem.scores), problem.mask, rows.coordinates);
    const NetworkOutput second = evaluate_second(problem, made_of(test, rows, kept, problem.stride));
    take_parameters(problem);
    constexpr double kMostInF16 = 1e4;
    return dtype() != DType::F16 || std::max(problem.first.largest, second.largest) < kMostInF16;
  }
  StagedCase draw(uint64_t seed) const {
    Random random(seed);
    StagedCase test = draw_first(dtype(), random);
    const Problem problem = begin(test);
    test.divides_channels =
        problem.first.channels % test.child_count() == 0 && test.child_count() > 1 && random.below(2) == 0;
    const int64_t channels = problem.first.channels / (test.divides_channels ? test.child_count() : 1);
    for (int tries = 0; tries < 100; ++tries) {
      test.second = draw_network(dtype(), random.next());
      test.second.in_channels = static_cast<int>(channels);
      if (test.second.ndim == test.first.ndim && is_feasible(test.second)) break;
    }
    return test;
  }

  static void take_parameters(Problem& problem) {
    for (const auto& [name, tensor] : problem.of_first.all()) problem.tensors["a" + name] = tensor;
    for (const auto& [name, tensor] : problem.of_second.all()) problem.tensors["b" + name] = tensor;
    problem.tensors.insert(problem.of_scores.all().begin(), problem.of_scores.all().end());
  }

  int64_t input_rows(const Problem& problem) const {
    return problem.test.takes_points
               ? problem.cloud.count()
               : static_cast<int64_t>(problem.coordinates.size()) / (1 + problem.test.first.ndim);
  }

  /// With more room than rows, capacity mode is meant, where the number of rows is on the device.
  StagedRun run(const Plan& plan, const Execution& execution, const Problem& problem, int64_t room,
                bool is_within) {
    Arrays arrays;
    if (problem.test.takes_points) {
      arrays = arrays_of(plan, problem.cloud, is_within ? room : problem.cloud.count());
    } else {
      const int64_t rows = input_rows(problem), channels = problem.test.first.in_channels;
      const std::vector<int32_t> count{static_cast<int32_t>(rows)};
      check(is_within ? minuet_execution_prepare_on_device(
                            execution.get(),
                            put(problem.coordinates, (1 + problem.test.first.ndim) * room).integers(),
                            put(count, 1).integers(), nullptr)
                      : prepare(machine(), execution.get(), problem.coordinates, problem.test.first.ndim));
      const int64_t given = is_within ? room : rows;
      arrays.inputs.push_back(
          array_of(put(stored(problem.features), given * channels * dtype_bytes(dtype())).data(),
                   {given, channels}, element()));
      if (problem.test.maker == Maker::Mask) {
        const int64_t children = problem.test.child_count();
        const int64_t of_mask = is_within ? room : static_cast<int64_t>(problem.mask.size()) / children;
        arrays.inputs.push_back(
            array_of(put(problem.mask, of_mask * children).data(), {of_mask, children}, MINUET_ELEMENT_U8));
      }
    }
    arrays.outputs.clear(), arrays.made.clear();
    add_outputs(plan, room, arrays);
    if (!is_within && problem.test.takes_points) arrays.outputs.back().shape[0] = problem.cloud.count();
    if (!is_within && !problem.test.takes_points) shape_outputs(execution, arrays);
    check(run_arrays(execution.get(), arrays.inputs, arrays.outputs));
    return read(plan, execution, arrays);
  }

  void expect_right(const std::vector<float>& given, const std::vector<double>& wanted, double largest,
                    const char* what) const {
    ASSERT_EQ(given.size(), wanted.size()) << what;
    const double bound = kWorstElement * error_bound(dtype(), true) * largest;
    for (size_t i = 0; i < given.size(); ++i) {
      ASSERT_TRUE(std::abs(static_cast<double>(given[i]) - wanted[i]) <= bound)
          << what << ": " << given[i] << " where " << wanted[i] << " is expected within " << bound
          << ", number " << i;
    }
  }

  /// The rows of the first chain's result in the order in which the run has them.
  static MadeRows in_order_of(const Problem& problem, const std::vector<int32_t>& coordinates) {
    const int ndim = problem.test.first.ndim;
    const std::vector<int32_t> places = inverse(ascending_rows(coordinates, ndim));
    const std::vector<int32_t> own = ascending_rows(problem.first.coordinates, ndim);
    return {take_rows(take_rows(problem.first.coordinates, own), places),
            take_rows(take_rows(problem.first.features, own), places)};
  }

  /// Compares a run with the oracle, which keeps the rows that the run has kept.
  void compare(Problem& problem, const StagedRun& run) {
    const StagedCase& test = problem.test;
    const int ndim = test.first.ndim;
    const NetworkRun& scores = run.outputs[0];
    ASSERT_EQ(ascending(scores, ndim).coordinates, ascending(problem.first.coordinates, ndim));
    const double of_features = largest_of(problem.features);
    const double largest = problem.first.largest + largest_of(narrowed(problem.scores)) + of_features;
    const std::vector<int32_t> own = ascending_rows(problem.first.coordinates, ndim);
    expect_right(decode(dtype(), ascending(scores, ndim).bytes), take_rows(problem.scores, own), largest,
                 "scores");
    const MadeRows rows = in_order_of(problem, scores.coordinates);
    const std::vector<size_t> kept = kept_by(test, values_of(scores), problem.mask, scores.coordinates);
    NetworkOutput second = evaluate_second(problem, made_of(test, rows, kept, problem.stride));
    for (size_t i = 0; i < second.coordinates.size(); ++i) {
      const size_t axis = i % static_cast<size_t>(1 + ndim);
      if (axis > 0) second.coordinates[i] *= problem.stride[axis - 1];
    }
    const std::vector<int32_t> order = ascending_rows(second.coordinates, ndim);
    const NetworkRun last = ascending(run.outputs[1], ndim);
    ASSERT_EQ(last.coordinates, take_rows(second.coordinates, order));
    expect_right(decode(dtype(), last.bytes), take_rows(second.features, order), largest + second.largest,
                 "features");
    if (!test.takes_points) return;
    std::vector<int32_t> strides;
    for (size_t a = 0; a < 4; ++a) strides.push_back(problem.stride[a] * strides_of(test.second).back()[a]);
    expect_right(values_of(run.outputs[2]),
                 oracle::blended(problem.cloud, rules_of(test), false, strides, second.coordinates,
                                 narrowed(second.features), static_cast<int>(second.channels)),
                 largest + second.largest, "features of points");
  }

  static double largest_of(const std::vector<float>& values) {
    double largest = 0;
    for (const float value : values) largest = std::max(largest, std::abs(static_cast<double>(value)));
    return largest;
  }

  /// Returns false for a network that is not run.
  bool run_case(const StagedCase& test) {
    Problem problem = begin(test);
    if (!finish(problem)) return false;
    const TemporaryPath file("random_stages.safetensors");
    write_safetensors(file.path(), problem.tensors);
    NetworkSpec spec;
    spec.description = json_of(problem.test), spec.dtype = dtype(), spec.weights = file.path();
    spec.dataflow = MINUET_DATAFLOW_FUSED;
    SCOPED_TRACE(spec.description);
    const Plan plan = make_network(machine(), spec);
    minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
    if (test.maker == Maker::Cells) options.batch_size = test.first.batches;
    const int64_t room =
        std::max<int64_t>({input_rows(problem), static_cast<int64_t>(problem.scores.size()), int64_t{1}}) + 3;
    const StagedRun exact = run(plan, execution_of(plan, options), problem, room, /*is_within=*/false);
    compare(problem, exact);
    const int32_t levels = info_of(plan.get()).levels;
    const Execution execution =
        execution_of(plan, options, std::vector<int64_t>(static_cast<size_t>(levels), room));
    StagedRun within = run(plan, execution, problem, room, /*is_within=*/true);
    uint32_t status = ~0u;
    const std::vector<int32_t> counts = counts_of(execution, levels, status);
    EXPECT_EQ(status, 0u);
    cut(plan, counts, within);
    // A GPU chooses kernels by the capacities, so that sums of fp32 may be rounded otherwise.
    compare(problem, within);
    if (!machine().is_cpu()) return true;
    for (size_t i = 0; i < exact.outputs.size(); ++i) EXPECT_EQ(within.outputs[i], exact.outputs[i]) << i;
    return true;
  }
  /// A prune by scores of one linear layer.
  StagedCase plain() const {
    StagedCase test;
    test.first.dtype = test.second.dtype = dtype();
    test.first.layers = test.second.layers = {oracle::NetworkLayer{}};
    test.first.points = test.second.points = 9;
    return test;
  }
};

TEST_P(RandomStages, Networks) {
  const int count = case_count(machine().is_cpu()        ? kNetworks
                               : machine().is_software() ? 2
                                                         : kCudaNetworks,
                               kLongNetworks);
  const uint64_t seed = announce_seed(count);
  for (int i = 0, ran = 0; ran < count; ++i) {
    ASSERT_LT(i, kMostDraws * count) << "only " << ran << " networks of seed " << seed << " could be run";
    const StagedCase test =
        draw(case_seed(seed, 300 + static_cast<uint64_t>(dtype()), static_cast<uint64_t>(i)));
    bool was_run = false;
    const auto run = [&](const StagedCase& each) { was_run = run_case(each); };
    const auto simpler = [](const StagedCase& each) { return simpler_cases(each); };
    if (!passes_or_shrinks<StagedCase>(test, run, simpler, plain())) {
      FAIL() << "network " << i << " of seed " << seed;
    }
    if (was_run) ++ran;
  }
}

MINUET_INSTANTIATE_DEVICE_TEST(RandomStages);

}  // namespace
}  // namespace minuet::abi
