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
  EXPECT_THAT(
      finished.out,
      AllOf(HasSubstr("9 convolutions of 10 compute in 8 bits"), HasSubstr("output output: relative error"),
            HasSubstr("floating: stem, because it reads the network's input"),
            HasSubstr("written: " + folder_.path("q.json") + ", " + output + ", " + json),
            HasSubstr("run it with: minuet run " + cloud_ + " --network " + folder_.path("q.json") +
                      " --weights " + output + " --device cpu\n")));
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
  EXPECT_EQ(*report.getInteger("int8_convolutions"), 9);
}

/// `run` and `bench` say that a network computes in 8 bits.
TEST_F(QuantizeCli, ARunSaysThatItComputesInEightBits) {
  const std::string quantized = folder_.path("q.json"), json = folder_.path("run.json");
  ASSERT_EQ(quantize({"--output", quantized}).code, 0);
  const auto run_network = [&](const std::string& network) {
    return minuet({"run", cloud_, "--network", network, "--weights", weights_, "--device", "cpu"},
                  {"--json", json});
  };
  EXPECT_THAT(run_network(quantized).out,
              AllOf(HasSubstr("9 convolutions of 10 compute in 8 bits\n"), HasSubstr("fused, 8 bits\n")));
  const llvm::json::Object report = json_in(json);
  EXPECT_EQ(*report.getInteger("convolutions"), 10);
  EXPECT_EQ(*report.getInteger("int8_convolutions"), 9);
  const auto layers = layers_of(report);
  EXPECT_EQ(layers.at("stem").get("precision"), nullptr);
  EXPECT_EQ(layers.at("down").getString("precision"), llvm::StringRef("int8"));
  EXPECT_THAT(run_network(network_).out, testing::Not(HasSubstr("8 bits")));
  EXPECT_EQ(*json_in(json).getInteger("int8_convolutions"), 0);
  const Finished bench = minuet({"bench", "--network", quantized, "--cloud", cloud_, "--device", "cpu",
                                 "--variants", "1", "--output", json},
                                {});
  ASSERT_EQ(bench.code, 0) << bench.err;
  EXPECT_THAT(bench.out, HasSubstr("9 convolutions of 10 compute in 8 bits\n"));
  EXPECT_EQ(*json_in(json).getInteger("int8_convolutions"), 9);
}

/// The command that is printed runs a network in its grid: without its --range, `run` refuses the network.
TEST_F(QuantizeCli, ThePrintedCommandHasTheGrid) {
  const std::string network = folder_.file("grid.json", R"({"name": "grid", "ndim": 3, "in_channels": 4,
    "shape": [40, 40, 20], "layers": [
    {"op": "block", "name": "a", "out_channels": 8, "kernel_size": 3},
    {"op": "block", "name": "b", "out_channels": 8, "kernel_size": 3, "activation": "none"}]})");
  Weights weights(3);
  weights.add_convolution("a.conv", 27, 4, 8), weights.add_norm("a.bn", 8);
  weights.add_convolution("b.conv", 27, 8, 8), weights.add_norm("b.bn", 8);
  llvm::cantFail(write_safetensors_file(weights_, weights.tensors()));
  const std::string output = folder_.path("my grid.safetensors");
  const Finished finished =
      minuet({"quantize", network, "--weights", weights_, "--clouds", cloud_, "--device", "cpu", "--range",
              "0,0,0,4,4,2", "--voxel-size", "0.1", "--output", output},
             {});
  ASSERT_EQ(finished.code, 0) << finished.err;
  const std::string start = "run it with: minuet ";
  const size_t place = finished.out.find(start);
  ASSERT_NE(place, std::string::npos) << finished.out;
  const std::string line = finished.out.substr(place + start.size());
  EXPECT_THAT(line, AllOf(HasSubstr("'" + output + "'"), HasSubstr("--range 0,0,0,4,4,2 --voxel-size 0.1")));
  std::vector<std::string> words;
  std::string word;
  bool is_quoted = false;
  for (const char c : line) {
    if (c == '\'') {
      is_quoted = !is_quoted;
    } else if ((c == ' ' && !is_quoted) || c == '\n') {
      words.push_back(std::exchange(word, ""));
    } else {
      word += c;
    }
  }
  const Finished run = minuet(words, {});
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("1 convolution of 2 computes in 8 bits\n"));
}

/// The sums of a layer of so many equal weights could overflow, so that it keeps floating numbers.
TEST_F(QuantizeCli, LayersWhoseSumsCouldOverflowStayFloating) {
  const std::string network = folder_.file("large.json", R"({"name": "large", "ndim": 3, "in_channels": 4,
    "layers": [
    {"op": "linear", "name": "a", "out_channels": 2500, "bias": false, "activation": "relu"},
    {"op": "block", "name": "b", "out_channels": 1, "kernel_size": 3, "norm": "none"},
    {"op": "block", "name": "c", "out_channels": 1, "kernel_size": 3, "norm": "none"}]})");
  Tensors tensors;
  tensors["a.weight"] = {{1, 4, 2500}, std::vector<float>(4 * 2500, 0.1f)};
  tensors["b.conv.weight"] = {{27, 2500, 1}, std::vector<float>(27 * 2500, 0.01f)};
  tensors["c.conv.weight"] = {{27, 1, 1}, std::vector<float>(27, 0.1f)};
  llvm::cantFail(write_safetensors_file(weights_, tensors));
  const std::string output = folder_.path("q.safetensors"), json = folder_.path("r.json");
  const Finished finished =
      minuet({"quantize", network, "--weights", weights_, "--clouds", cloud_, "--device", "cpu",
              "--voxel-size", "0.4", "--output", output, "--json", json},
             {});
  ASSERT_EQ(finished.code, 0) << finished.err;
  EXPECT_THAT(finished.out, HasSubstr("floating: b, because a sum of output channel 0 could reach "));
  const auto layers = layers_of(json_in(json));
  EXPECT_EQ(layers.at("b").getString("precision"), llvm::StringRef("float"));
  EXPECT_THAT(layers.at("b").getString("reason")->str(),
              HasSubstr("sums of 32-bit integers are at most 2147"));
  EXPECT_EQ(layers.at("c").getString("precision"), llvm::StringRef("int8"));
  EXPECT_EQ(layers.at("c").get("reason"), nullptr);
  EXPECT_EQ(run(folder_.path("q.json"), output).size(), run(network, weights_).size());
}

/// Results without a range stop the command, before it has written anything.
TEST_F(QuantizeCli, ResultsWithoutARangeAreRefused) {
  const std::string output = folder_.path("none.safetensors");
  const auto refused = [&](float weight, const std::string& words) {
    Tensors tensors = tensors_of_network();
    for (float& value : tensors["down.conv.weight"].values) value *= weight;
    llvm::cantFail(write_safetensors_file(weights_, tensors));
    const Finished finished = quantize({"--output", output, "--dtype", "fp32"});
    EXPECT_EQ(finished.code, 2);
    EXPECT_THAT(finished.err, HasSubstr(words));
    EXPECT_FALSE(std::filesystem::exists(output));
  };
  refused(1e32f, "the result of down has the range ");
  refused(1e32f, ", but ranges are at most 1e+30: check the weights and the clouds, or give --calibration");
  refused(1e38f, "the result of down has numbers that are infinite or NaN, so that it has no range: use");
}

/// Results that are zeros, or as good as zeros, have no range, and the layers behind them stay floating.
TEST_F(QuantizeCli, ResultsOfTinyNumbersHaveNoRange) {
  Tensors tensors = tensors_of_network();
  for (const char* const part : {"weight", "bias"}) {
    for (float& value : tensors[std::string("r.bn1.") + part].values) value *= 1e-35f;
  }
  llvm::cantFail(write_safetensors_file(weights_, tensors));
  const Finished finished = quantize({"--output", folder_.path("q.json"), "--dtype", "fp32"});
  ASSERT_EQ(finished.code, 0) << finished.err;
  EXPECT_THAT(finished.out,
              HasSubstr("floating: r.conv2, because it reads the result of \"r.conv1\", which has "
                        "no \"output_range\"\n"));
}

TEST_F(QuantizeCli, WritesAPage) {
  const std::string json = folder_.path("results/q.json"), page = folder_.path("q.html"),
                    report = folder_.path("report.html");
  std::filesystem::create_directory(folder_.path("results"));
  const Finished finished =
      quantize({"--output", folder_.path("q.json"), "--json", json, "--page", page, "--float", "last"});
  if (finished.err.find("install it (apt-get install libjs-d3") != std::string::npos)
    GTEST_SKIP() << "this minuet was built without libjs-d3";
  ASSERT_EQ(finished.code, 0) << finished.err;
  EXPECT_THAT(contents(page), AllOf(HasSubstr("in 8 bits</title>"), HasSubstr("\"--float names it\""),
                                    HasSubstr("Relative error by layer"), HasSubstr("Cosine by layer")));
  const Finished shown = minuet({"report", folder_.path("results"), "--output", report}, {});
  ASSERT_EQ(shown.code, 0) << shown.err;
  EXPECT_THAT(contents(report), HasSubstr("Relative error by layer"));
}

TEST_F(QuantizeCli, RangesFollowTheMethod) {
  std::map<std::string, std::map<std::string, llvm::json::Object>> reports;
  for (const std::string method : {"max", "percentile", "mse"}) {
    std::vector<std::string> more{"--calibration", method, "--output", folder_.path("q.json"), "--json", "-"};
    if (method == "percentile") more.insert(more.end(), {"--percentile", "98"});
    const Finished finished = quantize(more);
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
    if (is_int8) {
      EXPECT_EQ(layer.get("reason"), nullptr) << name;
    } else {
      EXPECT_EQ(
          layer.getString("reason"),
          llvm::StringRef("its own error is among the largest, and --error-budget leaves such convolutions "
                          "floating"))
          << name;
    }
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

/// An output that is the result of a layer has its error as an output, and as a layer. An output of integers
/// has none.
TEST_F(QuantizeCli, ResultsOfLayersMayBeOutputs) {
  std::string text = kNetwork;
  text.insert(text.rfind("}]}"), R"(, "output": "y"}, {"op": "argmax", "output": "labels")");
  text.insert(text.find("\"layers\""), R"("outputs": ["layer:r.conv2", "labels", "y"], )");
  const std::string json = folder_.path("report.json");
  const Finished finished = minuet({"quantize", folder_.file("outputs.json", text), "--weights", weights_,
                                    "--clouds", cloud_, "--device", "cpu"},
                                   {"--output", folder_.path("q.json"), "--json", json});
  ASSERT_EQ(finished.code, 0) << finished.err;
  const llvm::json::Object report = json_in(json);
  const auto layers = layers_of(report);
  ASSERT_EQ(layers.size(), 10u);
  const llvm::json::Array& outputs = *report.getArray("outputs");
  ASSERT_EQ(outputs.size(), 2u);
  const llvm::json::Object &of_layer = *outputs[0].getAsObject(), &last = *outputs[1].getAsObject();
  EXPECT_EQ(of_layer.getString("name"), llvm::StringRef("layer:r.conv2"));
  EXPECT_EQ(last.getString("name"), llvm::StringRef("y"));
  EXPECT_EQ(of_layer.getNumber("relative_error"), layers.at("r.conv2").getNumber("relative_error"));
  EXPECT_GT(*of_layer.getNumber("relative_error"), 0);
  EXPECT_LT(*last.getNumber("relative_error"), 0.08);
  EXPECT_EQ(report.getArray("notes"), nullptr);
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
  refused(quantize({"--output", output, "--percentile", "98"}), "give that, or leave --percentile out");
  refused(minuet({"quantize", "shape_autoencoder", "--random-weights", "--clouds", cloud_, "--device", "cpu"},
                 {"--output", folder_.path("q.json"), "--in-channels", "6"}),
          "the network takes 6 input channels, but the cloud '");
  refused(quantize({"--output", output, "--error-budget", "0"}), "--error-budget");
  for (const char* const number : {"nan", "inf", "1e999"}) {
    const std::string words = "'" + std::string(number) + "' is not a finite number";
    refused(quantize({"--output", output, "--error-budget", number}), words);
    refused(quantize({"--output", output, "--percentile", number}), words);
    refused(minuet({"tune", "run", "--device", "cpu", "--network", network_, "--budget", number}, {}), words);
  }
  refused(quantize({"--output", output, "--range", "50,50,50,60,60,60"}), "no cloud has a voxel");
  refused(quantize({"--output", output, "--page", folder_.path("q.pdf")}), "must end in .html");
  refused(quantize({"--output", output, "--page", folder_.path("missing/q.html")}), "missing");
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
