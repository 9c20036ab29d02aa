// Linear layers in files of Minuet's order: a matrix is [C_out, C_in], as torch.nn.Linear stores it.
#include <gmock/gmock.h>

#include <map>

#include "tests/support/network_abi.h"
#include "tests/support/rounding.h"
#include "tests/support/safetensors_writer.h"

namespace minuet::abi {
namespace {

using testing::HasSubstr;
using Tensors = std::map<std::string, FileTensor>;

/// One convolution of a kernel of one offset, from two channels to `out`.
class LinearWeights : public testing::Test {
 protected:
  void SetUp() override {
    std::string reason;
    cpu_ = Machine::open("cpu", reason);
    ASSERT_NE(cpu_, nullptr) << reason;
  }

  minuet_status create(int out, const FileTensor& weight, const std::string& name) {
    const TemporaryPath file("linear.safetensors");
    write_safetensors(file.path(), Tensors{{"a.conv." + name, weight}});
    NetworkSpec spec;
    spec.description = R"({"name": "n", "ndim": 3, "in_channels": 2, "layers": [
        {"op": "block", "name": "a", "out_channels": )" +
                       std::to_string(out) + R"(, "norm": "none", "activation": "none"}]})";
    spec.weights = file.path(), spec.weights_order = MINUET_WEIGHTS_MINUET;
    if (name != "weight") spec.weights_map = "{\"a.conv." + name + R"(": "a.conv.weight"})";
    return create_network(*cpu_, spec, network_);
  }

  void load() {
    check(minuet_plan_compile(network_.get(), cpu_->arch().c_str(), nullptr, nullptr));
    check(minuet_plan_load(network_.get(), cpu_->device()));
  }

  /// The outputs of a voxel whose features are 1 in a channel and 0 in the other, for both channels.
  std::vector<float> responses() {
    std::vector<float> all;
    for (const std::vector<float>& features : {std::vector<float>{1, 0}, std::vector<float>{0, 1}}) {
      const std::vector<float> output =
          decode(DType::F32, run_network(*cpu_, make_execution(*cpu_, network_.get()).get(), {0, 0, 0, 0},
                                         encode(DType::F32, features), DType::F32, 3, 2)
                                 .bytes);
      all.insert(all.end(), output.begin(), output.end());
    }
    return all;
  }

  Machine* cpu_ = nullptr;
  Plan network_{nullptr, {minuet_plan_destroy}};
};

TEST_F(LinearWeights, AreOutputsByInputs) {
  ASSERT_EQ(create(3, {{3, 2}, {1, 2, 3, 4, 5, 6}}, "weight"), MINUET_OK) << last_error();
  load();
  EXPECT_EQ(responses(), (std::vector<float>{1, 3, 5, 2, 4, 6}));
  ASSERT_EQ(create(3, {{1, 2, 3}, {1, 3, 5, 2, 4, 6}}, "weight"), MINUET_OK) << last_error();
  load();
  EXPECT_EQ(responses(), (std::vector<float>{1, 3, 5, 2, 4, 6}));
}

TEST_F(LinearWeights, AreOutputsByInputsIfTheyAreSquare) {
  ASSERT_EQ(create(2, {{2, 2}, {1, 2, 3, 4}}, "weight"), MINUET_OK) << last_error();
  load();
  EXPECT_EQ(responses(), (std::vector<float>{1, 3, 2, 4}));
}

/// The name is that of [C_in, C_out] in other engines.
TEST_F(LinearWeights, AreNotCalledKernel) {
  EXPECT_EQ(create(2, {{2, 2}, {1, 2, 3, 4}}, "kernel"), MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("has shape [2, 2], but the network needs [1, 2, 2]"));
  EXPECT_EQ(create(3, {{3, 2}, {1, 2, 3, 4, 5, 6}}, "kernel"), MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("has shape [3, 2], but the network needs [1, 2, 3]"));
}

TEST_F(LinearWeights, AreNotInputsByOutputs) {
  EXPECT_EQ(create(3, {{2, 3}, {1, 2, 3, 4, 5, 6}}, "weight"), MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("has shape [2, 3], but the network needs [1, 2, 3] or [3, 2]"));
}

}  // namespace
}  // namespace minuet::abi
