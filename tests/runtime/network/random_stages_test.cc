// Random networks of several stages on every device, against the fp64 oracle, and in capacity mode against
// exact mode. A network is a random chain of layers, a `prune` or `subdivide` by scores of its result, and
// another random chain on the level that this makes. Some networks take points, and give features of points.
// Rounding may change which rows are kept, so the oracle keeps those that the run's own scores keep.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <numeric>
#include <regex>

#include "tests/cases/random_networks.h"
#include "tests/runtime/execution/random_run.h"
#include "tests/runtime/execution/stages_rows.h"
#include "tests/support/compare.h"

namespace minuet::abi {
namespace {

using oracle::Axes;
using oracle::NetworkOutput;
using Op = oracle::NetworkLayer::Op;

constexpr int kNetworks = kSanitized ? 6 : 20;
constexpr int kLongNetworks = 1000;
constexpr int kCudaNetworks = 6;
// Most draws give a network that is run.
constexpr int kMostDraws = 20;
constexpr double kWorstElement = 6;
constexpr float kVoxelSize = 0.5f;

struct StagedCase {
  NetworkCase first, second;
  bool takes_points = false;
  Axes children{1, 1, 1, 1};  // All 1: prune.
  bool divides_channels = false;
  int top_k = 0;        // 0: by the threshold.
  float threshold = 0;  // It is chosen so that about half of the scores are above it.
  int64_t child_count() const { return int64_t{children[0]} * children[1] * children[2] * children[3]; }
};

/// The tensor strides of each layer's result.
std::vector<Axes> strides_of(const NetworkCase& network) {
  std::vector<Axes> strides;
  for (const oracle::NetworkLayer& layer : network.layers) {
    Axes stride = strides.empty() ? Axes{1, 1, 1, 1} : strides.back();
    const bool goes_back = layer.op == Op::Up || layer.op == Op::ChannelToSpace;
    for (size_t a = 0; a < stride.size(); ++a)
      stride[a] = goes_back ? strides[static_cast<size_t>(layer.skip)][a] : stride[a] * layer.stride[a];
    strides.push_back(stride);
  }
  return strides;
}

std::string number(float value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof(text), value).ptr};
}

std::string list(int ndim, const std::string& value) {
  std::string text;
  for (int a = 0; a < ndim; ++a) text += (a == 0 ? "[" : ", ") + value;
  return text + "]";
}

std::string between(const std::string& text, const std::string& begin, const std::string& end) {
  const size_t from = text.find(begin) + begin.size();
  return text.substr(from, text.find(end, from) - from);
}

/// The layers of a chain, whose names begin with `prefix`, and whose widths begin at `width`.
std::string layers_of(const NetworkCase& network, const std::string& prefix, size_t width) {
  std::string text = network.json(/*names_all=*/true);
  text = text.substr(text.find("\"layers\": [") + std::string("\"layers\": [").size());
  text = text.substr(0, text.rfind(']'));
  text = std::regex_replace(text, std::regex("\"(result|layer)([0-9]+)\""), "\"" + prefix + "$1$2\"");
  std::string moved;
  const std::regex widths("width\": ([0-9]+)");
  size_t done = 0;
  for (std::sregex_iterator at(text.begin(), text.end(), widths), end; at != end; ++at) {
    const auto from = static_cast<size_t>(at->position(1));
    moved += text.substr(done, from - done) + std::to_string(std::stoul(at->str(1)) + width);
    done = from + static_cast<size_t>(at->length(1));
  }
  return moved + text.substr(done);
}

std::string result_of(const NetworkCase& network, const std::string& prefix) {
  return "\"" + prefix + "result" + std::to_string(network.layers.size() - 1) + "\"";
}

std::string json_of(const StagedCase& test) {
  const NetworkCase &first = test.first, &second = test.second;
  const bool is_prune = test.child_count() == 1;
  std::string stride;
  for (int a = 0; a < first.ndim; ++a)
    stride += (a == 0 ? "" : ", ") + std::to_string(test.children[static_cast<size_t>(a)]);
  const std::string scores = R"({"op": "linear", "name": "scores", "out_channels": )" +
                             std::to_string(test.child_count()) + R"(, "output": "scores"})";
  const std::string rule = test.top_k > 0 ? R"("top_k": )" + std::to_string(test.top_k)
                                          : R"("threshold": )" + number(test.threshold);
  const std::string maker = R"({"op": ")" + std::string(is_prune ? "prune" : "subdivide") +
                            R"(", "input": )" + result_of(first, "a") + R"(, "by": "scores", )" + rule +
                            (is_prune ? ""
                                      : R"(, "stride": [)" + stride + R"(], "features": ")" +
                                            (test.divides_channels ? "channel_to_space" : "copy") + "\"") +
                            "}";
  std::string layers = layers_of(first, "a", 0) + ",\n" + scores + ",\n" + maker + ",\n" +
                       layers_of(second, "b", 2 * first.layers.size());
  std::string inputs = R"("in_channels": )" + std::to_string(first.in_channels);
  std::string outputs = R"("scores", )" + result_of(second, "b");
  if (test.takes_points) {
    inputs = R"("inputs": [{"name": "points", "channels": )" +
             std::to_string(std::max(first.ndim, first.in_channels)) + "}]";
    layers = R"({"op": "voxelize", "voxel_size": )" + list(first.ndim, number(kVoxelSize)) +
             R"(, "channels": )" + std::to_string(first.in_channels) + "},\n" + layers +
             R"(, {"op": "devoxelize", "blend": "corners", "output": "blended"})";
    outputs += R"(, "blended")";
  }
  const std::string widths =
      between(first.json(), "\"channels\": [", "]") + ", " + between(second.json(), "\"channels\": [", "]");
  return R"({"name": "random", "ndim": )" + std::to_string(first.ndim) + ", " + inputs +
         R"(, "channels": [)" + widths + R"(], "outputs": [)" + outputs + "],\n\"layers\": [" + layers + "]}";
}

/// A case without its second chain. Its top_k or threshold follows from its scores.
StagedCase draw_first(DType dtype, Random& random) {
  StagedCase test;
  test.first = draw_network(dtype, random.next());
  test.takes_points = random.below(3) == 0;
  const Axes stride = strides_of(test.first).back();
  for (size_t a = 0; a < static_cast<size_t>(test.first.ndim) && random.below(4) != 0; ++a)
    test.children[a] = stride[a] % 2 == 0 ? 2 : stride[a] % 3 == 0 ? 3 : 1;
  if (random.below(3) == 0) test.top_k = static_cast<int>(random.between(1, 30));
  return test;
}

/// The level that a chain ends on, or the level that is made of it.
struct MadeRows {
  std::vector<int32_t> coordinates;
  std::vector<double> features;
};

/// The numbers of a row and a child that scores [rows, children] keep.
std::vector<size_t> kept_by(const StagedCase& test, const std::vector<float>& scores,
                            const std::vector<int32_t>& coordinates) {
  return kept_of(scores, coordinates, test.children, test.threshold, test.top_k, test.first.ndim);
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
    std::vector<double> scores;
  };

  static oracle::VoxelRules rules_of(const StagedCase& test) {
    oracle::VoxelRules rules;
    std::fill_n(rules.size.begin(), 4, kVoxelSize);
    rules.channels = test.first.in_channels;
    return rules;
  }

  static void draw_input(Random& random, Problem& problem) {
    const NetworkCase& first = problem.test.first;
    problem.coordinates = first.coordinates();
    problem.features = oracle::draw_features(first.points * first.in_channels, first.seed);
    if (!problem.test.takes_points) return;
    constexpr double kExtents[] = {20, 4, 1.5, 1};
    problem.cloud = oracle::random_points_of(
        random, first.points, first.ndim, std::max(first.ndim, first.in_channels), kExtents[first.ndim - 1],
        first.batches > 1 ? first.batches : 0, /*is_wild=*/false);
    const oracle::Voxels voxels = oracle::voxels_of(problem.cloud, rules_of(problem.test));
    problem.coordinates = voxels.coordinates;
    problem.features = voxels.features;
  }

  static void score(Problem& problem) {
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

  /// Returns false if no second chain fits, or if the numbers do not fit the dtype.
  bool draw(uint64_t seed, Problem& problem) const {
    Random random(seed);
    StagedCase& test = problem.test = draw_first(dtype(), random);
    const NetworkCase& first = test.first;
    draw_input(random, problem);
    problem.of_first = oracle::Parameters(seed), problem.of_second = oracle::Parameters(seed + 1);
    problem.of_scores = oracle::Parameters(seed + 2);
    problem.first = oracle::evaluate(problem.of_first, first.ndim, first.in_channels, first.layers,
                                     problem.coordinates, problem.features);
    score(problem);
    std::vector<double> sorted = problem.scores;
    std::sort(sorted.begin(), sorted.end());
    if (!sorted.empty()) test.threshold = static_cast<float>(sorted[sorted.size() / 2]);
    problem.stride = strides_of(first).back();
    for (size_t a = 0; a < 4; ++a) problem.stride[a] /= test.children[a];
    test.divides_channels =
        problem.first.channels % test.child_count() == 0 && test.child_count() > 1 && random.below(2) == 0;
    const int64_t channels = problem.first.channels / (test.divides_channels ? test.child_count() : 1);
    for (int tries = 0; tries < 100; ++tries) {
      test.second = draw_network(dtype(), random.next());
      test.second.in_channels = static_cast<int>(channels);
      if (test.second.ndim == first.ndim && is_feasible(test.second)) break;
    }
    if (test.second.ndim != first.ndim || !is_feasible(test.second)) return false;
    const MadeRows rows{problem.first.coordinates, problem.first.features};
    const std::vector<size_t> kept = kept_by(test, narrowed(problem.scores), rows.coordinates);
    const NetworkOutput second = evaluate_second(problem, made_of(test, rows, kept, problem.stride));
    take_parameters(problem);
    constexpr double kMostInF16 = 1e4;
    return dtype() != DType::F16 || std::max(problem.first.largest, second.largest) < kMostInF16;
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
    const std::vector<size_t> kept = kept_by(test, values_of(scores), scores.coordinates);
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
  bool check_case(uint64_t seed) {
    Problem problem;
    if (!draw(seed, problem)) return false;
    const TemporaryPath file("random_stages.safetensors");
    write_safetensors(file.path(), problem.tensors);
    NetworkSpec spec;
    spec.description = json_of(problem.test), spec.dtype = dtype(), spec.weights = file.path();
    // Both modes choose the same kernels.
    spec.dataflow = MINUET_DATAFLOW_FUSED;
    SCOPED_TRACE(spec.description);
    const Plan plan = make_network(machine(), spec);
    const int64_t room =
        std::max<int64_t>({input_rows(problem), static_cast<int64_t>(problem.scores.size()), int64_t{1}}) + 3;
    const StagedRun exact = run(plan, execution_of(plan), problem, room, /*is_within=*/false);
    compare(problem, exact);
    const int32_t levels = info_of(plan.get()).levels;
    const Execution execution = execution_of(plan, MINUET_EXECUTION_OPTIONS_INIT,
                                             std::vector<int64_t>(static_cast<size_t>(levels), room));
    StagedRun within = run(plan, execution, problem, room, /*is_within=*/true);
    uint32_t status = ~0u;
    const std::vector<int32_t> counts = counts_of(execution, levels, status);
    EXPECT_EQ(status, 0u);
    cut(plan, counts, within);
    for (size_t i = 0; i < exact.outputs.size(); ++i) EXPECT_EQ(within.outputs[i], exact.outputs[i]) << i;
    return true;
  }
};

TEST_P(RandomStages, Networks) {
  const int count = long_tests_wanted()       ? kLongNetworks
                    : machine().is_cpu()      ? kNetworks
                    : machine().is_software() ? 2
                                              : kCudaNetworks;
  const uint64_t seed = announce_seed(count);
  for (int i = 0, ran = 0; ran < count; ++i) {
    ASSERT_LT(i, kMostDraws * count) << "only " << ran << " networks of seed " << seed << " could be run";
    const uint64_t own = case_seed(seed, 300 + static_cast<uint64_t>(dtype()), static_cast<uint64_t>(i));
    if (check_case(own)) ++ran;
    if (HasFailure()) FAIL() << "network " << i << " of seed " << seed;
  }
}

MINUET_INSTANTIATE_DEVICE_TEST(RandomStages);

}  // namespace
}  // namespace minuet::abi
