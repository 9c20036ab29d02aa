// Weights as other engines store them: every tap is told from every other, and each file is written by loops
// in the order that the engine's own documents and sources give (runtime/network/networks/WEIGHTS.md).
#include <gmock/gmock.h>

#include <array>
#include <fstream>
#include <map>

#include "tests/support/contents.h"
#include "tests/support/network_abi.h"
#include "tests/support/random.h"
#include "tests/support/rounding.h"
#include "tests/support/safetensors_writer.h"

namespace minuet::abi {
namespace {

using testing::HasSubstr;
using Axes3 = std::array<int, 3>;
using Tensors = std::map<std::string, FileTensor>;

constexpr int kIn = 2, kOut = 3;

/// What in[p + (x, y, z)], channel i, gives to out[p], channel o: small whole numbers, all different.
float tap(int x, int y, int z, int i, int o) {
  return static_cast<float>(1000 + 1 * (x + 5) + 16 * (y + 5) + 256 * (z + 5) + 4096 * i + 8192 * o);
}

/// The offsets of an axis of size K, in ascending order.
std::vector<int> offsets(int size) {
  std::vector<int> values;
  for (int k = 0; k < size; ++k) values.push_back(k - (size - 1) / 2);
  return values;
}

void push_matrix(std::vector<float>& values, int x, int y, int z) {
  for (int i = 0; i < kIn; ++i)
    for (int o = 0; o < kOut; ++o) values.push_back(tap(x, y, z, i, o));
}

/// [V, C_in, C_out], x slowest: Minuet's, and TorchSparse's where V is even.
FileTensor z_fastest(const Axes3& size) {
  FileTensor tensor{{size[0] * size[1] * size[2], kIn, kOut}, {}};
  for (int x : offsets(size[0]))
    for (int y : offsets(size[1]))
      for (int z : offsets(size[2])) push_matrix(tensor.values, x, y, z);
  return tensor;
}

/// [V, C_in, C_out], x fastest: MinkowskiEngine's, and TorchSparse's where V is odd.
FileTensor x_fastest(const Axes3& size) {
  FileTensor tensor{{size[0] * size[1] * size[2], kIn, kOut}, {}};
  for (int z : offsets(size[2]))
    for (int y : offsets(size[1]))
      for (int x : offsets(size[0])) push_matrix(tensor.values, x, y, z);
  return tensor;
}

/// [C_out, K_z, K_y, K_x, C_in]: spconv's, for indices of batch, z, y, x.
FileTensor spconv_zyx(const Axes3& size) {
  FileTensor tensor{{kOut, size[2], size[1], size[0], kIn}, {}};
  for (int o = 0; o < kOut; ++o)
    for (int z : offsets(size[2]))
      for (int y : offsets(size[1]))
        for (int x : offsets(size[0]))
          for (int i = 0; i < kIn; ++i) tensor.values.push_back(tap(x, y, z, i, o));
  return tensor;
}

/// The same for indices of batch, x, y, z.
FileTensor spconv_xyz(const Axes3& size) {
  FileTensor tensor{{kOut, size[0], size[1], size[2], kIn}, {}};
  for (int o = 0; o < kOut; ++o)
    for (int x : offsets(size[0]))
      for (int y : offsets(size[1]))
        for (int z : offsets(size[2]))
          for (int i = 0; i < kIn; ++i) tensor.values.push_back(tap(x, y, z, i, o));
  return tensor;
}

/// Batch norm that changes nothing but the last bits.
void add_identity(Tensors& tensors, const std::string& name, int channels) {
  for (const char* part : {"weight", "bias", "running_mean", "running_var"}) {
    const bool one = std::string(part) == "weight" || std::string(part) == "running_var";
    tensors[name + "." + part] = {{channels}, std::vector<float>(channels, one ? 1.0f : 0.0f)};
  }
}

/// A convolution from kIn to kIn channels that copies its centre, or its one tap at the output's own place.
FileTensor copies(int volume, int at) {
  FileTensor tensor{{volume, kIn, kIn}, std::vector<float>(static_cast<size_t>(volume * kIn * kIn), 0.0f)};
  for (int i = 0; i < kIn; ++i) tensor.values[static_cast<size_t>((at * kIn + i) * kIn + i)] = 1;
  return tensor;
}

std::string axes_text(const Axes3& axes) {
  return "[" + std::to_string(axes[0]) + "," + std::to_string(axes[1]) + "," + std::to_string(axes[2]) + "]";
}

/// One block, from kIn to kOut channels.
std::string one_block(const Axes3& size, const Axes3& stride = {1, 1, 1}, const std::string& more = "") {
  return R"({"name": "n", "ndim": 3, "in_channels": 2, "channels": [3, 2], )" + more +
         R"("layers": [{"op": "block", "name": "a", "width": 0, "kernel_size": )" + axes_text(size) +
         R"(, "stride": )" + axes_text(stride) + "}]}";
}

/// Every place of a box with the origin inside, as far as `reach`, and of a second batch item none.
std::vector<int32_t> box(int least, int most) {
  std::vector<int32_t> coordinates;
  for (int x = least; x <= most; ++x)
    for (int y = least; y <= most; ++y)
      for (int z = least; z <= most; ++z) coordinates.insert(coordinates.end(), {0, x, y, z});
  return coordinates;
}

class WeightsOrder : public testing::Test {
 protected:
  void SetUp() override {
    std::string reason;
    cpu_ = Machine::open("cpu", reason);
    ASSERT_NE(cpu_, nullptr) << reason;
  }

  NetworkSpec spec(const std::string& description, const std::string& path, minuet_weights_order order) {
    NetworkSpec spec;
    spec.description = description;
    spec.weights = path;
    spec.weights_order = order;
    return spec;
  }

  minuet_status create(const std::string& description, const Tensors& tensors, minuet_weights_order order) {
    const TemporaryPath file("order.safetensors");
    write_safetensors(file.path(), tensors);
    Plan network(nullptr, {minuet_plan_destroy});
    return create_network(*cpu_, spec(description, file.path(), order), network);
  }

  /// The output for features that are 1 in channel i of the row `at` and 0 elsewhere.
  std::vector<float> response(minuet_plan* network, const std::vector<int32_t>& points, size_t at, int i) {
    std::vector<float> features(points.size() / 4 * kIn, 0.0f);
    features[at * kIn + static_cast<size_t>(i)] = 1;
    return decode(DType::F32, run_network(*cpu_, make_execution(*cpu_, network).get(), points,
                                          encode(DType::F32, features), DType::F32, 3, kIn)
                                  .bytes);
  }

  /// A submanifold layer of that file is the one that `tap` tells of.
  void expect_submanifold(const Axes3& size, Tensors tensors, minuet_weights_order order,
                          const std::string& more = "") {
    SCOPED_TRACE(axes_text(size) + " " + std::to_string(order));
    add_identity(tensors, "a.bn", kOut);
    const TemporaryPath file("order.safetensors");
    write_safetensors(file.path(), tensors);
    const Plan network = make_network(*cpu_, spec(one_block(size, {1, 1, 1}, more), file.path(), order));
    const std::vector<int32_t> points = box(-2, 2);
    size_t source = 0;
    while (points[4 * source + 1] != 0 || points[4 * source + 2] != 0 || points[4 * source + 3] != 0)
      ++source;
    for (int i = 0; i < kIn; ++i) {
      const std::vector<float> output = response(network.get(), points, source, i);
      for (size_t row = 0; row < points.size() / 4; ++row) {
        // The source, at the origin, as the output at `row` sees it.
        const Axes3 seen{-points[4 * row + 1], -points[4 * row + 2], -points[4 * row + 3]};
        bool inside = true;
        for (int a = 0; a < 3; ++a) inside &= seen[a] >= -(size[a] - 1) / 2 && seen[a] <= size[a] / 2;
        for (int o = 0; o < kOut; ++o) {
          const float expected = inside ? tap(seen[0], seen[1], seen[2], i, o) : 0;
          ASSERT_NEAR(output[row * kOut + static_cast<size_t>(o)], expected, 0.4)
              << "offset " << seen[0] << " " << seen[1] << " " << seen[2] << ", " << i << " -> " << o;
        }
      }
    }
  }

  /// A step down with kernel and stride 2, or 1 on an axis: eight points, one output.
  void expect_down(const Axes3& size, Tensors tensors, minuet_weights_order order) {
    SCOPED_TRACE(axes_text(size) + " " + std::to_string(order));
    add_identity(tensors, "a.bn", kOut);
    const TemporaryPath file("order.safetensors");
    write_safetensors(file.path(), tensors);
    const Plan network = make_network(*cpu_, spec(one_block(size, size), file.path(), order));
    std::vector<int32_t> points;
    for (int x : offsets(size[0]))
      for (int y : offsets(size[1]))
        for (int z : offsets(size[2])) points.insert(points.end(), {0, x - 4, y + 2, z});
    for (size_t row = 0; row < points.size() / 4; ++row) {
      for (int i = 0; i < kIn; ++i) {
        const std::vector<float> output = response(network.get(), points, row, i);
        ASSERT_EQ(output.size(), static_cast<size_t>(kOut));
        for (int o = 0; o < kOut; ++o) {
          EXPECT_NEAR(output[static_cast<size_t>(o)],
                      tap(points[4 * row + 1] + 4, points[4 * row + 2] - 2, points[4 * row + 3], i, o), 0.4);
        }
      }
    }
  }

  /// A transposed step: the coarse cell's features are those of its first corner, and each fine cell gets
  /// them through the tap that leads there.
  void expect_up(Tensors tensors, minuet_weights_order order, const FileTensor& one, const FileTensor& down,
                 const std::string& called) {
    SCOPED_TRACE(order);
    tensors["a.conv." + called] = one;
    tensors["d.conv." + called] = down;
    add_identity(tensors, "a.bn", kIn);
    add_identity(tensors, "d.bn", kIn);
    add_identity(tensors, "u.bn", kOut);
    const TemporaryPath file("order.safetensors");
    write_safetensors(file.path(), tensors);
    const Plan network =
        make_network(*cpu_, spec(R"({"name": "n", "ndim": 3, "in_channels": 2, "channels": [3, 2], "layers": [
        {"op": "block", "name": "a", "width": 1, "save": "s"},
        {"op": "block", "name": "d", "width": 1, "kernel_size": 2, "stride": 2},
        {"op": "up", "name": "u", "width": 0, "kernel_size": 2, "stride": 2, "onto": "s"}]})",
                                 file.path(), order));
    const std::vector<int32_t> points = box(0, 1);
    for (int i = 0; i < kIn; ++i) {
      const std::vector<float> output = response(network.get(), points, 0, i);
      for (size_t row = 0; row < points.size() / 4; ++row) {
        for (int o = 0; o < kOut; ++o) {
          EXPECT_NEAR(output[row * kOut + static_cast<size_t>(o)],
                      tap(points[4 * row + 1], points[4 * row + 2], points[4 * row + 3], i, o), 0.4);
        }
      }
    }
  }

  void expect_refused(const std::string& layer, minuet_weights_order order, const std::string& words) {
    const std::string description =
        R"({"name": "n", "ndim": 3, "in_channels": 2, "channels": [3, 2], "layers": [)" + layer + "]}";
    EXPECT_EQ(create(description, {}, order), MINUET_INVALID_ARGUMENT);
    EXPECT_THAT(last_error(), HasSubstr(words));
    EXPECT_THAT(last_error(), HasSubstr(": a: ")) << "which layer it is";
  }

  Machine* cpu_ = nullptr;
};

TEST_F(WeightsOrder, Minuet) {
  for (const Axes3& size : {Axes3{3, 3, 3}, {3, 1, 5}, {2, 3, 4}}) {
    expect_submanifold(size, {{"a.conv.weight", z_fastest(size)}}, MINUET_WEIGHTS_MINUET);
    expect_submanifold(size, {{"a.conv.weight", z_fastest(size)}}, MINUET_WEIGHTS_AS_DESCRIBED);
  }
  expect_down({2, 2, 2}, {{"a.conv.weight", z_fastest({2, 2, 2})}}, MINUET_WEIGHTS_MINUET);
  expect_up({{"u.conv.weight", z_fastest({2, 2, 2})}}, MINUET_WEIGHTS_MINUET, copies(1, 0), copies(8, 0),
            "weight");
}

TEST_F(WeightsOrder, Minkowski) {
  for (const Axes3& size : {Axes3{3, 3, 3}, {3, 1, 5}, {2, 3, 2}, {2, 2, 2}}) {
    expect_submanifold(size, {{"a.conv.kernel", x_fastest(size)}}, MINUET_WEIGHTS_MINKOWSKI);
    expect_submanifold(size, {{"a.conv.weight", x_fastest(size)}}, MINUET_WEIGHTS_MINKOWSKI);
  }
  expect_down({2, 2, 2}, {{"a.conv.kernel", x_fastest({2, 2, 2})}}, MINUET_WEIGHTS_MINKOWSKI);
  expect_down({1, 1, 2}, {{"a.conv.kernel", x_fastest({1, 1, 2})}}, MINUET_WEIGHTS_MINKOWSKI);
  FileTensor matrix = copies(1, 0);  // of one offset: [C_in, C_out]
  matrix.shape.erase(matrix.shape.begin());
  expect_up({{"u.conv.kernel", x_fastest({2, 2, 2})}}, MINUET_WEIGHTS_MINKOWSKI, matrix, copies(8, 0),
            "kernel");
}

TEST_F(WeightsOrder, TorchSparse) {
  for (const Axes3& size : {Axes3{3, 3, 3}, {3, 1, 5}}) {  // 27 and 15 offsets: odd
    expect_submanifold(size, {{"a.conv.kernel", x_fastest(size)}}, MINUET_WEIGHTS_TORCHSPARSE);
  }
  for (const Axes3& size : {Axes3{2, 2, 2}, {2, 1, 2}}) {
    expect_submanifold(size, {{"a.conv.kernel", z_fastest(size)}}, MINUET_WEIGHTS_TORCHSPARSE);
  }
  expect_down({2, 2, 2}, {{"a.conv.kernel", z_fastest({2, 2, 2})}}, MINUET_WEIGHTS_TORCHSPARSE);
  FileTensor matrix = copies(1, 0);
  matrix.shape.erase(matrix.shape.begin());
  expect_up({{"u.conv.kernel", z_fastest({2, 2, 2})}}, MINUET_WEIGHTS_TORCHSPARSE, matrix, copies(8, 0),
            "kernel");
}

TEST_F(WeightsOrder, Spconv) {
  for (const Axes3& size : {Axes3{3, 3, 3}, {3, 1, 5}}) {
    expect_submanifold(size, {{"a.conv.weight", spconv_zyx(size)}}, MINUET_WEIGHTS_SPCONV);
    expect_submanifold(size, {{"a.conv.weight", spconv_xyz(size)}}, MINUET_WEIGHTS_SPCONV_XYZ);
  }
  expect_down({2, 2, 2}, {{"a.conv.weight", spconv_zyx({2, 2, 2})}}, MINUET_WEIGHTS_SPCONV);
  expect_down({1, 1, 2}, {{"a.conv.weight", spconv_zyx({1, 1, 2})}}, MINUET_WEIGHTS_SPCONV);
  expect_down({1, 1, 2}, {{"a.conv.weight", spconv_xyz({1, 1, 2})}}, MINUET_WEIGHTS_SPCONV_XYZ);
  FileTensor one = copies(1, 0), down{{kIn, 2, 2, 2, kIn}, std::vector<float>(kIn * 8 * kIn, 0.0f)};
  one.shape = {kIn, 1, 1, 1, kIn};
  for (size_t c = 0; c < kIn; ++c) down.values[c * 8 * kIn + c] = 1;  // the first tap of each output
  expect_up({{"u.conv.weight", spconv_zyx({2, 2, 2})}}, MINUET_WEIGHTS_SPCONV, one, down, "weight");
}

/// A kernel of one offset is a matrix in most engines, and a linear layer may stand for it.
TEST_F(WeightsOrder, KernelsOfOneOffset) {
  FileTensor in_out = z_fastest({1, 1, 1}), out_in{{kOut, kIn}, {}}, linear = spconv_zyx({1, 1, 1});
  const FileTensor spconv{linear.shape, in_out.values};  // Shape and memory disagree.
  in_out.shape = {kIn, kOut};
  for (int o = 0; o < kOut; ++o)
    for (int i = 0; i < kIn; ++i) out_in.values.push_back(tap(0, 0, 0, i, o));
  for (const minuet_weights_order order : {MINUET_WEIGHTS_MINKOWSKI, MINUET_WEIGHTS_TORCHSPARSE}) {
    expect_submanifold({1, 1, 1}, {{"a.conv.kernel", in_out}}, order);
    expect_submanifold({1, 1, 1}, {{"a.conv.weight", in_out}}, order);
    expect_submanifold({1, 1, 1}, {{"a.conv.weight", out_in}}, order);
    expect_submanifold({1, 1, 1}, {{"a.conv.kernel", z_fastest({1, 1, 1})}}, order);
    EXPECT_EQ(create(one_block({1, 1, 1}), {{"a.conv.kernel", out_in}}, order), MINUET_INVALID_ARGUMENT);
    EXPECT_THAT(last_error(), HasSubstr("has shape [3, 2], but the network needs [1, 2, 3] or [2, 3]"));
  }
  for (const minuet_weights_order order : {MINUET_WEIGHTS_SPCONV_XYZ, MINUET_WEIGHTS_SPCONV2_XYZ_LINEAR}) {
    const FileTensor& stored = order == MINUET_WEIGHTS_SPCONV_XYZ ? spconv : linear;
    for (const FileTensor& weight : {stored, out_in})
      expect_submanifold({1, 1, 1}, {{"a.conv.weight", weight}}, order);
  }
}

TEST_F(WeightsOrder, TheDescriptionMaySayItAndTheOptionSaysItLast) {
  const Tensors tensors{{"a.conv.weight", x_fastest({3, 1, 5})}};
  expect_submanifold({3, 1, 5}, tensors, MINUET_WEIGHTS_AS_DESCRIBED, R"("weights_order": "minkowski", )");
  expect_submanifold({3, 1, 5}, tensors, MINUET_WEIGHTS_MINKOWSKI, R"("weights_order": "spconv", )");
  EXPECT_EQ(create(one_block({3, 3, 3}, {1, 1, 1}, R"("weights_order": "tf", )"), tensors, 0),
            MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(),
              HasSubstr("\"tf\": use one of minuet, minkowski, torchsparse, spconv, spconv-xyz"));
  for (const minuet_weights_order order : {-1, 12}) {
    EXPECT_EQ(create(one_block({3, 3, 3}), tensors, order), MINUET_INVALID_ARGUMENT);
    EXPECT_THAT(last_error(), HasSubstr("weights_order"));
  }
}

/// In these layers the engine computes something else, whatever the weights.
TEST_F(WeightsOrder, WhatDoesNotCarryOverIsRefused) {
  const auto block = [](const char* size, const char* stride, const char* dilation = "1") {
    return std::string(R"({"op": "block", "name": "a", "width": 0, "kernel_size": )") + size +
           R"(, "stride": )" + stride + R"(, "dilation": )" + dilation + "}";
  };
  expect_refused(block("4", "1"), MINUET_WEIGHTS_MINKOWSKI, "from 0 to 3, Minuet's from -1 to 2 (axis 0)");
  expect_refused(block("[3, 3, 6]", "[1, 1, 2]"), MINUET_WEIGHTS_MINKOWSKI, "(axis 2)");
  for (const auto& [order, engine] : {std::pair{MINUET_WEIGHTS_SPCONV, "spconv"},
                                      {MINUET_WEIGHTS_SPCONV_XYZ, "spconv"},
                                      {MINUET_WEIGHTS_TORCHSPARSE, "TorchSparse"}}) {
    const std::string makes = std::string(engine) + " makes an output wherever a strided kernel reaches";
    expect_refused(block("3", "2"), order, makes);
    expect_refused(block("1", "2"), order, makes);
    expect_refused(block("4", "4"), order, makes);
    expect_refused(block("[1, 1, 3]", "[1, 1, 2]"), order, "(axis 2)");
    expect_refused(block("[2, 2, 3]", "[2, 2, 1]"), order, "(axis 2)");
    expect_refused(block("2", "2", "2"), order, makes);
  }
  expect_refused(block("2", "1"), MINUET_WEIGHTS_SPCONV, "no submanifold kernel of even size");
  expect_refused(block("3", "1", "2"), MINUET_WEIGHTS_TORCHSPARSE, "ignores a dilation (2");
  expect_refused(block("4", "1"), MINUET_WEIGHTS_TORCHSPARSE, "kmap_mode");
  expect_refused(block("[2, 3, 1]", "1"), MINUET_WEIGHTS_TORCHSPARSE, "kernel of size 3 (axis 1)");
}

/// A head has as many classes as its weight has outputs, in whatever order that is.
TEST_F(WeightsOrder, AHeadOfAnotherEngine) {
  const std::string description = R"({"name": "n", "ndim": 3, "in_channels": 2, "channels": [2], "layers": [
      {"op": "block", "name": "a", "width": 0}, {"op": "head", "name": "h"}]})";
  Tensors tensors{{"a.conv.kernel", copies(1, 0)},
                  {"h.kernel", {{2, 5}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}}},
                  {"h.bias", {{1, 5}, {0.5, 0.5, 0.5, 0.5, 0.5}}}};
  add_identity(tensors, "a.bn", 2);
  const TemporaryPath file("head.safetensors");
  write_safetensors(file.path(), tensors);
  const Plan network = make_network(*cpu_, spec(description, file.path(), MINUET_WEIGHTS_MINKOWSKI));
  EXPECT_THAT(response(network.get(), {0, 7, 7, 7}, 0, 1),
              testing::Pointwise(testing::FloatNear(1e-4f), {5.5f, 6.5f, 7.5f, 8.5f, 9.5f}));
  tensors["h.kernel"].shape = {10};
  EXPECT_EQ(create(description, tensors, MINUET_WEIGHTS_MINKOWSKI), MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("\"h.kernel\" has shape [10], but a head for 2 channels"));
}

/// A small segmenter as MinkowskiEngine would have it, below a prefix and by other names.
TEST_F(WeightsOrder, ConvertedOnceItGivesTheSameBits) {
  const std::string description =
      R"({"name": "n", "ndim": 3, "in_channels": 2, "channels": [2, 3], "layers": [
      {"op": "block", "name": "a", "width": 0, "kernel_size": 3, "save": "s"},
      {"op": "block", "name": "d", "width": 1, "kernel_size": 2, "stride": 2},
      {"op": "up", "name": "u", "width": 0, "kernel_size": 2, "stride": 2, "onto": "s"},
      {"op": "concat", "with": "s"}, {"op": "head", "name": "h"}]})";
  Random random(7);
  Tensors tensors;
  const auto draw = [&](const std::string& name, std::vector<int64_t> shape) {
    FileTensor tensor{std::move(shape), {}};
    int64_t count = 1;
    for (const int64_t size : tensor.shape) count *= size;
    for (int64_t i = 0; i < count; ++i) tensor.values.push_back(static_cast<float>(random.uniform(0.1, 1)));
    tensors["net." + name] = tensor;
  };
  draw("a.conv.kernel", {27, 2, 2}), draw("down.kernel", {8, 2, 3}), draw("u.conv.kernel", {8, 3, 2});
  draw("final.kernel", {4, 5}), draw("final.bias", {1, 5});
  for (const auto& [name, channels] : {std::pair{"a.bn.", 2}, {"down_bn.bn.", 3}, {"u.bn.", 2}}) {
    for (const char* part : {"weight", "bias", "running_mean", "running_var"})
      draw(name + std::string(part), {channels});
  }
  tensors["net.a.bn.num_batches_tracked"] = {{}, {3}};
  const TemporaryPath from("from.safetensors"), to("to.safetensors"), again("again.safetensors");
  write_safetensors(from.path(), tensors);
  NetworkSpec theirs = spec(description, from.path(), MINUET_WEIGHTS_MINKOWSKI);
  theirs.weights_prefix = "net.";
  theirs.weights_map = R"({"down.kernel": "d.conv.kernel", "down_bn.bn.": "d.bn.", "final.": "h."})";
  minuet_network_options options = network_options(theirs);
  check(minuet_weights_convert(&options, to.path().c_str()));

  const std::vector<int32_t> points = box(-2, 2);
  std::vector<float> features;
  for (size_t i = 0; i < points.size() / 4 * kIn; ++i)
    features.push_back(static_cast<float>(random.uniform(0, 1)));
  const auto run = [&](const NetworkSpec& spec) {
    const Plan network = make_network(*cpu_, spec);
    return run_network(*cpu_, make_execution(*cpu_, network.get()).get(), points,
                       encode(DType::F32, features), DType::F32, 3, kIn);
  };
  const NetworkSpec ours = spec(description, to.path(), MINUET_WEIGHTS_MINUET);
  EXPECT_EQ(run(ours).channels, 5);
  EXPECT_EQ(run(ours), run(theirs));
  options = network_options(ours);
  check(minuet_weights_convert(&options, again.path().c_str()));
  EXPECT_EQ(contents(again.path()), contents(to.path()));
}

/// The order that the description names is the order of the file before it was converted: [27, C_in, C_out]
/// is the shape of both.
TEST_F(WeightsOrder, AConvertedFileSaysItsOrderAndIsNotPermutedAgain) {
  Tensors tensors{{"a.conv.kernel", x_fastest({3, 3, 3})}};
  add_identity(tensors, "a.bn", kOut);
  const TemporaryPath from("from.safetensors"), to("to.safetensors"), again("again.safetensors"),
      unmarked("unmarked.safetensors");
  write_safetensors(from.path(), tensors);
  const std::string description = one_block({3, 3, 3}, {1, 1, 1}, R"("weights_order": "minkowski", )");
  const auto convert = [&](const std::string& input, const std::string& output, minuet_weights_order order) {
    const NetworkSpec read = spec(description, input, order);
    const minuet_network_options options = network_options(read);
    return minuet_weights_convert(&options, output.c_str());
  };
  const auto run = [&](const std::string& path, minuet_weights_order order) {
    const Plan network = make_network(*cpu_, spec(description, path, order));
    return response(network.get(), box(-1, 1), 13, 0);
  };
  ASSERT_EQ(convert(from.path(), to.path(), MINUET_WEIGHTS_AS_DESCRIBED), MINUET_OK) << last_error();
  EXPECT_THAT(contents(to.path()), HasSubstr(R"("__metadata__":{"minuet.weights_order":"minuet"})"));
  const std::vector<float> right = run(from.path(), MINUET_WEIGHTS_AS_DESCRIBED);
  EXPECT_EQ(run(to.path(), MINUET_WEIGHTS_AS_DESCRIBED), right);
  EXPECT_EQ(run(to.path(), MINUET_WEIGHTS_MINUET), right);
  tensors["a.conv.weight"] = z_fastest({3, 3, 3});
  tensors.erase("a.conv.kernel");
  write_safetensors(unmarked.path(), tensors);
  EXPECT_NE(run(unmarked.path(), MINUET_WEIGHTS_AS_DESCRIBED), right) << "only the mark tells";

  ASSERT_EQ(convert(to.path(), again.path(), MINUET_WEIGHTS_AS_DESCRIBED), MINUET_OK) << last_error();
  EXPECT_EQ(contents(again.path()), contents(to.path()));
  const std::string once = contents(to.path());
  for (const minuet_weights_order order : {MINUET_WEIGHTS_MINKOWSKI, MINUET_WEIGHTS_TORCHSPARSE,
                                           MINUET_WEIGHTS_SPCONV, MINUET_WEIGHTS_SPCONV_XYZ}) {
    const std::string words =
        "the file was converted (its minuet.weights_order is \"minuet\"), so it cannot be read with the "
        "option "
        "weights_order \"";
    EXPECT_EQ(convert(to.path(), again.path(), order), MINUET_INVALID_ARGUMENT) << order;
    EXPECT_THAT(last_error(), HasSubstr(words));
    EXPECT_EQ(contents(again.path()), once);
    Plan network(nullptr, {minuet_plan_destroy});
    EXPECT_EQ(create_network(*cpu_, spec(description, to.path(), order), network), MINUET_INVALID_ARGUMENT);
    EXPECT_THAT(last_error(), HasSubstr(words));
  }
  llvm::cantFail(
      write_safetensors_file(unmarked.path(), tensors, {{"format", "pt"}, {"minuet.weights_order", "tf"}}));
  EXPECT_EQ(convert(unmarked.path(), again.path(), 0), MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("minuet.weights_order: there is no weights order \"tf\""));
}

TEST_F(WeightsOrder, AFailedConversionLeavesWhatWasThere) {
  Tensors tensors{{"a.conv.kernel", x_fastest({3, 3, 3})}};
  add_identity(tensors, "a.bn", kOut);
  const TemporaryPath from("from.safetensors"), to("to.safetensors");
  write_safetensors(from.path(), tensors);
  std::ofstream(to.path()) << "mine";
  const std::string description = one_block({3, 3, 3});
  NetworkSpec theirs = spec(description, from.path(), MINUET_WEIGHTS_MINUET);
  const auto convert = [&](const std::string& output) {
    const minuet_network_options options = network_options(theirs);
    return minuet_weights_convert(&options, output.c_str());
  };
  EXPECT_EQ(convert(to.path()), MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(),
              HasSubstr("\"a.conv.weight\" (there is \"a.conv.kernel\": see the option weights_order)"));
  EXPECT_EQ(contents(to.path()), "mine");
  theirs.weights_order = MINUET_WEIGHTS_MINKOWSKI;
  EXPECT_EQ(convert(from.path()), MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("is the weights file itself"));
  EXPECT_EQ(convert("/nowhere/to.safetensors"), MINUET_FAILED_PRECONDITION);
  EXPECT_THAT(last_error(), HasSubstr("/nowhere/to.safetensors"));
  EXPECT_EQ(convert(to.path()), MINUET_OK) << last_error();
  EXPECT_NE(contents(to.path()), "mine");
  EXPECT_EQ(minuet_weights_convert(nullptr, to.path().c_str()), MINUET_INVALID_ARGUMENT);
  theirs.weights.clear();
  theirs.weights_order = 0;
  EXPECT_EQ(convert(to.path()), MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("weights_path"));
}

}  // namespace
}  // namespace minuet::abi
