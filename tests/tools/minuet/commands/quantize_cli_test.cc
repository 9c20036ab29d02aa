// `minuet quantize`: what it writes, what it says of the errors, and what it refuses.
#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>

#include "runtime/weights/safetensors_writer.h"
#include "tests/support/random.h"
#include "tests/tools/folder.h"

namespace minuet::tool {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Tensors = std::map<std::string, FileTensor>;

/// Tensors of normal weights, and of batch norms near the identity.
class Weights {
 public:
  explicit Weights(uint64_t seed) : random_(seed) {}

  void add_convolution(const std::string& name, int64_t volume, int64_t in, int64_t out) {
    const double deviation = std::sqrt(2.0 / static_cast<double>(volume * in));
    add(name + ".weight", {volume, in, out}, 0, deviation);
  }
  void add_norm(const std::string& name, int64_t channels) {
    for (const char* part : {"weight", "running_var"}) add(name + "." + part, {channels}, 1, 0.05);
    for (const char* part : {"bias", "running_mean"}) add(name + "." + part, {channels}, 0, 0.05);
  }
  const Tensors& tensors() const { return tensors_; }

 private:
  void add(const std::string& name, std::vector<int64_t> shape, double mean, double deviation) {
    FileTensor tensor{std::move(shape), {}};
    size_t count = 1;
    for (const int64_t size : tensor.shape) count *= static_cast<size_t>(size);
    for (size_t i = 0; i < count; ++i) {
      tensor.values.push_back(static_cast<float>(mean + deviation * random_.normal()));
    }
    tensors_[name] = std::move(tensor);
  }

  Random random_;
  Tensors tensors_;
};

constexpr const char* kNetwork = R"({"name": "net", "ndim": 3, "in_channels": 4, "layers": [
    {"op": "block", "name": "stem", "out_channels": 16, "kernel_size": 3, "output": "x"},
    {"op": "block", "name": "down", "out_channels": 32, "kernel_size": 2, "stride": 2},
    {"op": "residual", "name": "r", "out_channels": 32},
    {"op": "residual", "name": "s", "out_channels": 16},
    {"op": "up", "name": "up", "out_channels": 16, "kernel_size": 2, "stride": 2, "onto": "x"},
    {"op": "concat", "with": "x"},
    {"op": "max_pool", "name": "pool", "kernel_size": 3},
    {"op": "block", "name": "last", "out_channels": 16, "kernel_size": 3, "activation": "none"},
    {"op": "linear", "name": "head", "out_channels": 8}]})";

Tensors tensors_of_network() {
  Weights weights(17);
  const auto add = [&](const std::string& conv, const std::string& norm, int64_t volume, int64_t in,
                       int64_t out) {
    weights.add_convolution(conv, volume, in, out);
    weights.add_norm(norm, out);
  };
  add("stem.conv", "stem.bn", 27, 4, 16);
  add("down.conv", "down.bn", 8, 16, 32);
  add("r.conv1", "r.bn1", 27, 32, 32);
  add("r.conv2", "r.bn2", 27, 32, 32);
  add("s.conv1", "s.bn1", 27, 32, 16);
  add("s.conv2", "s.bn2", 27, 16, 16);
  add("s.shortcut.conv", "s.shortcut.bn", 1, 32, 16);
  add("up.conv", "up.bn", 8, 16, 16);
  add("last.conv", "last.bn", 27, 32, 16);
  weights.add_convolution("head", 1, 16, 8);
  Tensors tensors = weights.tensors();
  tensors["head.bias"] = {{8}, {0, 1, -1, 0.5f, 0.25f, 2, -2, 0}};
  return tensors;
}

class QuantizeCli : public testing::Test {
 protected:
  QuantizeCli() {
    llvm::cantFail(write_safetensors_file(weights_, tensors_of_network()));
    Random random(5);
    std::string bytes;
    for (int i = 0; i < 3000; ++i) {
      // Points of two walls, and an intensity.
      const bool is_first = i % 2 == 0;
      const float u = static_cast<float>(random.uniform(0, 4)), v = static_cast<float>(random.uniform(0, 2));
      const float point[4] = {is_first ? u : 0, is_first ? 0 : u, v,
                              static_cast<float>(random.uniform(0, 1))};
      bytes.append(reinterpret_cast<const char*>(point), sizeof(point));
    }
    cloud_ = folder_.file("cloud.bin", bytes);
  }

  Finished quantize(const std::vector<std::string>& more) const {
    return minuet({"quantize", network_, "--weights", weights_, "--clouds", cloud_, "--device", "cpu"}, more);
  }
  std::vector<float> run(const std::string& network, const std::string& weights) const {
    const std::string features = folder_.path("features.npy");
    const Finished finished = minuet(
        {"run", cloud_, "--network", network, "--weights", weights, "--output", features, "--device", "cpu"},
        {});
    EXPECT_EQ(finished.code, 0) << finished.err;
    const std::string bytes = contents(features);
    const size_t header = bytes.find('\n') + 1;
    std::vector<float> values((bytes.size() - header) / sizeof(float));
    std::memcpy(values.data(), bytes.data() + header, values.size() * sizeof(float));
    return values;
  }
  static double relative_error(const std::vector<float>& wanted, const std::vector<float>& given) {
    double error = 0, norm = 0;
    for (size_t i = 0; i < wanted.size(); ++i) {
      error += std::pow(static_cast<double>(given[i]) - wanted[i], 2);
      norm += std::pow(static_cast<double>(wanted[i]), 2);
    }
    return std::sqrt(error / norm);
  }
  static std::map<std::string, llvm::json::Object> layers_of(const llvm::json::Object& report) {
    std::map<std::string, llvm::json::Object> layers;
    for (const llvm::json::Value& layer : *report.getArray("layers"))
      layers[layer.getAsObject()->getString("name")->str()] = *layer.getAsObject();
    return layers;
  }

  const Folder folder_;
  const std::string network_ = folder_.file("net.json", kNetwork);
  const std::string weights_ = folder_.path("w.safetensors");
  std::string cloud_;
};

TEST_F(QuantizeCli, WritesANetworkOfEightBits) {
  const std::string output = folder_.path("q.safetensors"), json = folder_.path("report.json");
  const Finished finished = quantize({"--output", output, "--json", json});
  ASSERT_EQ(finished.code, 0) << finished.err;
  EXPECT_THAT(finished.out, AllOf(HasSubstr("9 convolutions of 10 compute in 8 bits"),
                                  HasSubstr("output output: relative error"),
                                  HasSubstr(folder_.path("q.json") + "\n" + output + "\n")));
  const llvm::json::Object report = json_in(json);
  const auto layers = layers_of(report);
  ASSERT_EQ(layers.size(), 10u);
  EXPECT_EQ(layers.at("stem").getString("precision"), llvm::StringRef("float"));
  EXPECT_EQ(layers.at("s.shortcut").getString("precision"), llvm::StringRef("int8"));
  for (const auto& [name, layer] : layers) {
    EXPECT_GT(*layer.getNumber("range"), 0) << name;
    // The errors of layers add up. A wrong scale would make one of 0.3 and more.
    EXPECT_LT(*layer.getNumber("relative_error"), 0.08) << name;
    EXPECT_GT(*layer.getNumber("cosine"), 0.995) << name;
  }
  EXPECT_EQ(*layers.at("stem").getNumber("relative_error"), 0);
  EXPECT_GT(*layers.at("down").getNumber("relative_error"), 0);
  // The report's error is that of a run of what was written.
  const std::vector<float> wanted = run(network_, weights_), given = run(folder_.path("q.json"), output);
  ASSERT_EQ(given.size(), wanted.size());
  const double error = relative_error(wanted, given);
  EXPECT_NEAR(error, *report.getNumber("relative_error"), 1e-6 + 1e-3 * error);
  EXPECT_GT(error, 1e-4);
  EXPECT_LT(error, 0.08);
  // The weights are the same numbers.
  EXPECT_EQ(run(network_, output), wanted);
}

TEST_F(QuantizeCli, RangesFollowTheMethod) {
  std::map<std::string, std::map<std::string, llvm::json::Object>> reports;
  for (const char* const method : {"max", "percentile", "mse"}) {
    const Finished finished = quantize(
        {"--calibration", method, "--percentile", "98", "--output", folder_.path("q.json"), "--json", "-"});
    ASSERT_EQ(finished.code, 0) << finished.err;
    reports[method] = layers_of(json_of(finished.out));
  }
  for (const auto& [name, layer] : reports["max"]) {
    const double largest = *layer.getNumber("range");
    EXPECT_LT(*reports["percentile"].at(name).getNumber("range"), largest) << name;
    EXPECT_LE(*reports["mse"].at(name).getNumber("range"), largest) << name;
  }
}

TEST_F(QuantizeCli, ABudgetLeavesTheWorstLayersOut) {
  const auto error_of = [&](const std::vector<std::string>& more, llvm::json::Object& report) {
    std::vector<std::string> arguments{"--output", folder_.path("q.json"), "--json", folder_.path("r.json")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Finished finished = quantize(arguments);
    EXPECT_EQ(finished.code, 0) << finished.err;
    report = json_in(folder_.path("r.json"));
    return *report.getNumber("relative_error");
  };
  llvm::json::Object all, some;
  const double largest = error_of({}, all), budget = largest / 2;
  EXPECT_LE(error_of({"--error-budget", std::to_string(budget)}, some), budget);
  int int8 = 0;
  double worst_kept = 0, least_left = 1;
  for (const auto& [name, layer] : layers_of(some)) {
    if (!*layer.getBoolean("can_be_int8")) continue;
    const auto own = layer.getNumber("own_error");
    const bool is_int8 = layer.getString("precision") == llvm::StringRef("int8");
    int8 += is_int8 ? 1 : 0;
    if (!own) continue;
    if (is_int8) worst_kept = std::max(worst_kept, *own);
    if (!is_int8) least_left = std::min(least_left, *own);
  }
  EXPECT_GT(int8, 0);
  EXPECT_LT(int8, 9);
  // A budget that is large enough changes nothing.
  EXPECT_EQ(error_of({"--error-budget", std::to_string(2 * largest)}, some), largest);
}

/// A network whose scores decide which voxels its outputs have: 8 bits change some of the scores' signs.
TEST_F(QuantizeCli, ResultsWithOtherRowsHaveNoError) {
  const auto quantize_autoencoder = [&](const std::vector<std::string>& more) {
    const std::string json = folder_.path("rows.json");
    const Finished finished =
        minuet({"quantize", "shape_autoencoder", "--random-weights", "--clouds", cloud_, "--device", "cpu",
                "--voxel-size", "0.1", "--in-channels", "4", "--channels", "8,8,8,16,16,16,8,8,16,16,8",
                "--output", folder_.path("q.json"), "--json", json},
               more);
    EXPECT_EQ(finished.code, 0) << finished.err;
    return std::make_pair(finished.out, json_in(json));
  };
  const auto [out, report] = quantize_autoencoder({});
  EXPECT_THAT(out, AllOf(HasSubstr("output decoded: relative error none, cosine none"),
                         HasSubstr("note: 'decoded' has "),
                         HasSubstr(" in 8 bits, because the network chooses voxels by scores: no error\n")));
  EXPECT_FALSE(report.getArray("notes")->empty());
  EXPECT_EQ(report.get("relative_error")->kind(), llvm::json::Value::Null);
  EXPECT_EQ(layers_of(report).at("decoder.output").get("cosine")->kind(), llvm::json::Value::Null);
  EXPECT_GT(*layers_of(report).at("decoder.input").getNumber("relative_error"), 0);
  // Other rows are beyond every budget.
  const llvm::json::Object within = quantize_autoencoder({"--error-budget", "0.04"}).second;
  EXPECT_EQ(within.get("notes"), nullptr);
  EXPECT_LE(*within.getNumber("relative_error"), 0.04);
}

TEST_F(QuantizeCli, NamedLayersStayFloating) {
  const Finished finished =
      quantize({"--float", "r.conv1,last", "--output", folder_.path("q.json"), "--json", "-"});
  ASSERT_EQ(finished.code, 0) << finished.err;
  const auto layers = layers_of(json_of(finished.out));
  for (const char* const name : {"r.conv1", "last"})
    EXPECT_EQ(layers.at(name).getString("precision"), llvm::StringRef("float"));
  EXPECT_EQ(layers.at("r.conv2").getString("precision"), llvm::StringRef("int8"));
  for (const auto& [name, layer] : layers) EXPECT_LT(*layer.getNumber("relative_error"), 0.08) << name;
}

/// A network that has ranges already is calibrated in floating numbers, as the network that it was made of.
TEST_F(QuantizeCli, AQuantizedNetworkIsQuantizedAnew) {
  const std::string first = folder_.path("first.json"), second = folder_.path("second.json");
  ASSERT_EQ(quantize({"--output", first, "--calibration", "percentile", "--percentile", "60"}).code, 0);
  ASSERT_EQ(quantize({"--output", second}).code, 0);
  const Finished again = minuet({"quantize", first, "--weights", weights_, "--clouds", cloud_, "--device",
                                 "cpu", "--output", folder_.path("again.json")},
                                {});
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_NE(contents(first), contents(second));
  EXPECT_EQ(contents(folder_.path("again.json")), contents(second));
}

TEST_F(QuantizeCli, MistakesAreRefused) {
  const std::string output = folder_.path("q.safetensors");
  const auto refused = [&](const Finished& finished, const std::string& words) {
    EXPECT_EQ(finished.code, 2) << words;
    EXPECT_THAT(finished.err, HasSubstr(words));
    EXPECT_EQ(finished.err.find('\n'), finished.err.size() - 1) << finished.err;
  };
  refused(quantize({}), "--output");
  refused(quantize({"--output", folder_.path("q.onnx")}), "must end in .safetensors or .json");
  refused(quantize({"--output", weights_}), "would overwrite");
  refused(quantize({"--output", output, "--float", "none"}), "no such convolution: use stem, down");
  refused(quantize({"--output", output, "--calibration", "entropy"}), "is not one of max, percentile, mse");
  refused(quantize({"--output", output, "--percentile", "101"}), "--percentile");
  refused(quantize({"--output", output, "--error-budget", "0"}), "--error-budget");
  for (const char* const number : {"nan", "inf", "1e999"}) {
    const std::string words = "'" + std::string(number) + "' is not a finite number";
    refused(quantize({"--output", output, "--error-budget", number}), words);
    refused(quantize({"--output", output, "--percentile", number}), words);
    refused(minuet({"tune", "run", "--device", "cpu", "--network", network_, "--budget", number}, {}), words);
  }
  refused(quantize({"--output", output, "--range", "50,50,50,60,60,60"}), "no cloud has a voxel");
  const std::string missing = folder_.path("missing/r.json");
  refused(quantize({"--output", output, "--json", missing}), "missing");
  EXPECT_FALSE(std::filesystem::exists(output)) << "--json is opened before the work";
  const auto without_weights = [&](const std::vector<std::string>& more) {
    return minuet({"quantize", network_, "--clouds", cloud_, "--device", "cpu"}, more);
  };
  refused(without_weights({"--output", output}), "--random-weights allows them");
  refused(without_weights({"--output", output, "--random-weights"}), "name a .json file");
  EXPECT_EQ(without_weights({"--output", folder_.path("q.json"), "--random-weights"}).code, 0);
  refused(minuet({"quantize", network_, "--weights", weights_, "--output", output}, {}), "--clouds");
  EXPECT_THAT(minuet({"quantize", "--help"}, {}).out,
              AllOf(HasSubstr("Every convolution computes in 8 bits that can"),
                    testing::Not(HasSubstr("default: seeded random weights"))));
}

}  // namespace
}  // namespace minuet::tool
