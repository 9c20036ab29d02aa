// Weights of both major versions of spconv. weights_order_test.cc has the order of the elements in 2.x.
#include <gmock/gmock.h>

#include <array>
#include <map>

#include "tests/support/contents.h"
#include "tests/support/network_abi.h"
#include "tests/support/safetensors_writer.h"

namespace minuet::abi::spconv {
namespace {

using testing::HasSubstr;
using Axes3 = std::array<int, 3>;
using Tensors = std::map<std::string, FileTensor>;

constexpr int kIn = 2, kOut = 3;

/// [C_out, kernel, C_in], all elements different.
FileTensor stored_by_2(const Axes3& size) {
  FileTensor tensor{{kOut, size[0], size[1], size[2], kIn}, {}};
  for (int i = 0; i < kOut * size[0] * size[1] * size[2] * kIn; ++i)
    tensor.values.push_back(static_cast<float>(i + 1));
  return tensor;
}

/// The same in the layout of spconv 1.x, [kernel, C_in, C_out]. Both versions read the memory of a kernel of
/// one offset as [C_in, C_out].
FileTensor stored_by_1(const FileTensor& second) {
  const int64_t out = second.shape[0], in = second.shape[4];
  const int64_t volume = second.shape[1] * second.shape[2] * second.shape[3];
  FileTensor first{{second.shape[1], second.shape[2], second.shape[3], in, out}, second.values};
  if (volume == 1) return first;
  for (int64_t k = 0; k < volume; ++k)
    for (int64_t i = 0; i < in; ++i)
      for (int64_t o = 0; o < out; ++o)
        first.values[static_cast<size_t>((k * in + i) * out + o)] =
            second.values[static_cast<size_t>((o * volume + k) * in + i)];
  return first;
}

std::string axes_text(const Axes3& axes) {
  return "[" + std::to_string(axes[0]) + "," + std::to_string(axes[1]) + "," + std::to_string(axes[2]) + "]";
}

std::string one_block(const Axes3& size) {
  return R"({"name": "n", "ndim": 3, "in_channels": 2, "layers": [{"op": "block", "name": "a", "norm": "none",
      "out_channels": 3, "kernel_size": )" +
         axes_text(size) + "}]}";
}

class WeightsSpconv : public testing::Test {
 protected:
  void SetUp() override {
    std::string reason;
    cpu_ = Machine::open("cpu", reason);
    ASSERT_NE(cpu_, nullptr) << reason;
  }

  static NetworkSpec spec(const std::string& description, const std::string& path,
                          minuet_weights_order order) {
    NetworkSpec spec;
    spec.description = description;
    spec.weights = path;
    spec.weights_order = order;
    return spec;
  }

  minuet_status create(const std::string& description, const Tensors& tensors, minuet_weights_order order) {
    const TemporaryPath file("spconv.safetensors");
    write_safetensors(file.path(), tensors);
    Plan network(nullptr, {minuet_plan_destroy});
    return create_network(*cpu_, spec(description, file.path(), order), network);
  }

  /// The file as it is in Minuet's order.
  static std::string converted(const std::string& description, const FileTensor& weight,
                               minuet_weights_order order) {
    const TemporaryPath from("from.safetensors"), to("to.safetensors");
    write_safetensors(from.path(), {{"a.conv.weight", weight}});
    const NetworkSpec read = spec(description, from.path(), order);
    const minuet_network_options options = network_options(read);
    check(minuet_weights_convert(&options, to.path().c_str()));
    return contents(to.path());
  }

  Machine* cpu_ = nullptr;
};

/// The shape tells 1.x from 2.x, and the orders with a version take only theirs.
TEST_F(WeightsSpconv, OfBothVersions) {
  for (const Axes3& size : {Axes3{3, 3, 3}, {3, 1, 5}, {1, 1, 1}}) {
    const Axes3 mirrored{size[2], size[1], size[0]};
    for (const bool is_zyx : {true, false}) {
      SCOPED_TRACE(axes_text(size) + (is_zyx ? " z, y, x" : " x, y, z"));
      const std::string network = one_block(is_zyx ? mirrored : size);
      const FileTensor second = stored_by_2(size), first = stored_by_1(second);
      const minuet_weights_order either = is_zyx ? MINUET_WEIGHTS_SPCONV : MINUET_WEIGHTS_SPCONV_XYZ;
      const std::string wanted = converted(network, second, either);
      EXPECT_EQ(converted(network, first, either), wanted);
      EXPECT_EQ(converted(network, first, is_zyx ? MINUET_WEIGHTS_SPCONV1 : MINUET_WEIGHTS_SPCONV1_XYZ),
                wanted);
      EXPECT_EQ(converted(network, second, is_zyx ? MINUET_WEIGHTS_SPCONV2 : MINUET_WEIGHTS_SPCONV2_XYZ),
                wanted);
    }
  }
  const FileTensor second = stored_by_2({3, 3, 3});
  const std::string network = one_block({3, 3, 3});
  EXPECT_EQ(create(network, {{"a.conv.weight", stored_by_1(second)}}, MINUET_WEIGHTS_SPCONV2),
            MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("has shape [3, 3, 3, 2, 3], but the network needs [3, 3, 3, 3, 2]"));
  EXPECT_EQ(create(network, {{"a.conv.weight", second}}, MINUET_WEIGHTS_SPCONV1), MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("has shape [3, 3, 3, 3, 2], but the network needs [3, 3, 3, 2, 3]"));
}

/// The weight as a network without axis `axis` of the kernel stores it.
FileTensor without_axis(FileTensor tensor, int axis, bool is_first) {
  tensor.shape.erase(tensor.shape.begin() + axis + (is_first ? 0 : 1));
  return tensor;
}

/// A layer below a collapse is one of a network with one axis fewer, whose weights have no axis there.
TEST_F(WeightsSpconv, WithoutAnAxisOfSizeOne) {
  const Axes3 sizes[] = {{1, 3, 5}, {3, 1, 5}, {3, 5, 1}, {1, 1, 3}, {3, 1, 1}, {1, 5, 1}, {1, 1, 1}};
  for (const Axes3& size : sizes) {
    const Axes3 mirrored{size[2], size[1], size[0]};
    for (const bool is_zyx : {true, false}) {
      const std::string network = one_block(is_zyx ? mirrored : size);
      const FileTensor second = stored_by_2(size), first = stored_by_1(second);
      const minuet_weights_order either = is_zyx ? MINUET_WEIGHTS_SPCONV : MINUET_WEIGHTS_SPCONV_XYZ,
                                 of_1 = is_zyx ? MINUET_WEIGHTS_SPCONV1 : MINUET_WEIGHTS_SPCONV1_XYZ,
                                 of_2 = is_zyx ? MINUET_WEIGHTS_SPCONV2 : MINUET_WEIGHTS_SPCONV2_XYZ;
      const std::string wanted = converted(network, second, either);
      for (int axis = 0; axis < 3; ++axis) {
        if (size[static_cast<size_t>(axis)] != 1) continue;
        SCOPED_TRACE(axes_text(size) + (is_zyx ? " z, y, x " : " x, y, z ") + std::to_string(axis));
        const FileTensor flat_2 = without_axis(second, axis, false), flat_1 = without_axis(first, axis, true);
        for (const minuet_weights_order order : {either, of_2})
          EXPECT_EQ(converted(network, flat_2, order), wanted);
        for (const minuet_weights_order order : {either, of_1})
          EXPECT_EQ(converted(network, flat_1, order), wanted);
        EXPECT_EQ(create(network, {{"a.conv.weight", flat_2}}, of_1), MINUET_INVALID_ARGUMENT);
        EXPECT_EQ(create(network, {{"a.conv.weight", flat_1}}, of_2), MINUET_INVALID_ARGUMENT);
      }
    }
  }
}

/// A layer of two axes may have been one of a network with one axis. There is no network without axes.
TEST_F(WeightsSpconv, WithoutAnAxisOfTwoOrOne) {
  const auto network = [](const std::string& size, int ndim) {
    return R"({"name": "n", "ndim": )" + std::to_string(ndim) +
           R"(, "in_channels": 2, "layers": [{"op": "block",
        "name": "a", "norm": "none", "out_channels": 3, "kernel_size": )" +
           size + "}]}";
  };
  FileTensor second = stored_by_2({5, 1, 1});
  FileTensor first = stored_by_1(second);
  for (const std::string size : {"[5, 1]", "[1, 5]"}) {
    second.shape =
        size == "[5, 1]" ? std::vector<int64_t>{kOut, 5, 1, kIn} : std::vector<int64_t>{kOut, 1, 5, kIn};
    const std::string wanted = converted(network(size, 2), second, MINUET_WEIGHTS_SPCONV_XYZ);
    second.shape = {kOut, 5, kIn};
    first.shape = {5, kIn, kOut};
    for (const FileTensor& flat : {second, first}) {
      EXPECT_EQ(converted(network(size, 2), flat, MINUET_WEIGHTS_SPCONV_XYZ), wanted);
      EXPECT_EQ(converted(network(size, 2), flat, MINUET_WEIGHTS_SPCONV), wanted);
    }
  }
  FileTensor matrix{{kIn, kOut}, {1, 2, 3, 4, 5, 6}};
  EXPECT_EQ(create(network("1", 1), {{"a.conv.weight", matrix}}, MINUET_WEIGHTS_SPCONV1),
            MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("has shape [2, 3]"));
  matrix.shape = {kOut, kIn};  // That of a linear layer.
  EXPECT_EQ(create(network("1", 1), {{"a.conv.weight", matrix}}, MINUET_WEIGHTS_SPCONV1), MINUET_OK)
      << last_error();
}

/// Where 3 channels come in and go out of a kernel of 3, the shape does not tell the version: another weight
/// of the file does, or the option has to.
TEST_F(WeightsSpconv, SpconvAsksWhereTheShapeDoesNotTell) {
  const std::string b = R"({"op": "block", "name": "b", "width": 0, "kernel_size": 3, "norm": "none"})";
  const auto network = [&](int in, const std::string& layers) {
    return R"({"name": "n", "ndim": 3, "channels": [3, 2], "in_channels": )" + std::to_string(in) +
           R"(, "layers": [)" + layers + "]}";
  };
  const FileTensor cube{{3, 3, 3, 3, 3}, std::vector<float>(243, 0.5f)}, zyx = stored_by_2({3, 3, 3});
  EXPECT_EQ(create(network(3, b), {{"b.conv.weight", cube}}, MINUET_WEIGHTS_SPCONV), MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("with the option weights_order \"spconv2\" or \"spconv1\""));
  EXPECT_EQ(create(network(3, b), {{"b.conv.weight", cube}}, MINUET_WEIGHTS_SPCONV_XYZ),
            MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("with the option weights_order \"spconv2-xyz\" or \"spconv1-xyz\""));
  for (minuet_weights_order order = MINUET_WEIGHTS_SPCONV1; order <= MINUET_WEIGHTS_SPCONV2_XYZ; ++order)
    EXPECT_EQ(create(network(3, b), {{"b.conv.weight", cube}}, order), MINUET_OK) << last_error();
  const std::string a = R"({"op": "block", "name": "a", "width": 0, "kernel_size": 3, "norm": "none"}, )";
  for (const FileTensor& first : {zyx, stored_by_1(zyx)}) {
    const Tensors tensors{{"a.conv.weight", first}, {"b.conv.weight", cube}};
    EXPECT_EQ(create(network(2, a + b), tensors, MINUET_WEIGHTS_SPCONV), MINUET_OK) << last_error();
  }
  const std::string c = R"(, {"op": "block", "name": "c", "width": 1, "kernel_size": 1, "norm": "none"})";
  const Tensors mixed{{"a.conv.weight", zyx},
                      {"b.conv.weight", cube},
                      {"c.conv.weight", {{1, 1, 1, 3, 2}, std::vector<float>(6, 1.0f)}}};
  EXPECT_EQ(create(network(2, a + b + c), mixed, MINUET_WEIGHTS_SPCONV), MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("one version must have stored all of them"));
}

/// The same holds for a weight that lacks an axis of size 1.
TEST_F(WeightsSpconv, SpconvAsksWhereAFlatShapeDoesNotTell) {
  const std::string network =
      R"({"name": "n", "ndim": 3, "in_channels": 3, "layers": [{"op": "block", "name": "a",
      "norm": "none", "out_channels": 3, "kernel_size": [3, 3, 1]}]})";
  const Tensors tensors{{"a.conv.weight", {{3, 3, 3, 3}, std::vector<float>(81, 0.5f)}}};
  EXPECT_EQ(create(network, tensors, MINUET_WEIGHTS_SPCONV), MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("its shape [3, 3, 3, 3] may be spconv 2.x's"));
  for (const minuet_weights_order order : {MINUET_WEIGHTS_SPCONV1, MINUET_WEIGHTS_SPCONV2})
    EXPECT_EQ(create(network, tensors, order), MINUET_OK) << last_error();
}

/// Strided and inverse layers carry over with the rule of a dense convolution only.
TEST_F(WeightsSpconv, StridedLayersNeedTheRuleReached) {
  const auto network = [](const std::string& more) {
    return R"({"name": "n", "ndim": 3, "in_channels": 2, "layers": [{"op": "block", "name": "a", "norm": "none",
        "out_channels": 3, "kernel_size": 3, "stride": 2)" +
           more + "}]}";
  };
  const Tensors tensors{{"a.conv.weight", stored_by_2({3, 3, 3})}};
  EXPECT_EQ(create(network(R"(, "rule": "reached", "padding": 1)"), tensors, MINUET_WEIGHTS_SPCONV),
            MINUET_OK)
      << last_error();
  EXPECT_EQ(create(network(""), tensors, MINUET_WEIGHTS_SPCONV), MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("describe a SparseConv3d with \"rule\": \"reached\""));
  EXPECT_EQ(create(network(R"(, "rule": "reached")"), tensors, MINUET_WEIGHTS_TORCHSPARSE),
            MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("TorchSparse's strided layers"));
}

}  // namespace
}  // namespace minuet::abi::spconv
