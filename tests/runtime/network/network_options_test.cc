// What minuet_plan_create_network answers to options that do not fit.
#include <gmock/gmock.h>

#include <functional>

#include "tests/support/network_abi.h"
#include "tests/support/network_oracle.h"

namespace minuet::abi {
namespace {

using testing::HasSubstr;

const std::vector<int32_t> kWidths = {8, 8, 16, 24, 32, 32, 24, 16, 16};

/// Creating a network with these options, changed from good ones, is refused.
void expect_no_network(minuet_status status, const std::string& words,
                       const std::function<void(minuet_network_options&)>& change) {
  std::string reason;
  Machine* cpu = Machine::open("cpu", reason);
  ASSERT_NE(cpu, nullptr) << reason;
  minuet_network_options options = MINUET_NETWORK_OPTIONS_INIT;
  options.name = "minkunet42";
  options.channels = kWidths.data();
  options.channel_count = static_cast<int32_t>(kWidths.size());
  change(options);
  minuet_plan* network = nullptr;
  EXPECT_EQ(minuet_plan_create_network(cpu->context(), &options, &network), status) << words;
  EXPECT_EQ(network, nullptr);
  EXPECT_THAT(last_error(), HasSubstr(words));
  minuet_plan_destroy(network);
}

TEST(NetworkOptions, EachMistakeIsNamed) {
  expect_no_network(MINUET_NOT_FOUND, "sparseresnet21d", [](auto& options) { options.name = "resnet50"; });
  expect_no_network(MINUET_INVALID_ARGUMENT, "9", [](auto& options) { options.channel_count = 8; });
  expect_no_network(MINUET_INVALID_ARGUMENT, "channel", [](auto& options) { options.channel_count = -1; });
  expect_no_network(MINUET_INVALID_ARGUMENT, "channel_count is 0 and channels is not null",
                    [](auto& options) { options.channel_count = 0; });
  expect_no_network(MINUET_INVALID_ARGUMENT, "channel_count is 9 and channels is null",
                    [](auto& options) { options.channels = nullptr; });
  static const std::vector<int32_t> zero = {8, 8, 16, 0, 32, 32, 24, 16, 16};
  expect_no_network(MINUET_INVALID_ARGUMENT, "0", [](auto& options) { options.channels = zero.data(); });
  expect_no_network(MINUET_INVALID_ARGUMENT, "description",
                    [](auto& options) { options.description = "{}"; });
  expect_no_network(MINUET_INVALID_ARGUMENT, "description", [](auto& options) { options.name = nullptr; });
  expect_no_network(MINUET_INVALID_ARGUMENT, "JSON", [](auto& options) {
    options.name = nullptr;
    options.description = "{\"name\": ";
  });
  expect_no_network(MINUET_INVALID_ARGUMENT, "dtype",
                    [](auto& options) { options.dtype = static_cast<minuet_dtype>(17); });
  expect_no_network(MINUET_INVALID_ARGUMENT, "axes", [](auto& options) { options.ndim = 5; });
  static const std::vector<int32_t> cells = {8, 8, 1 << 25};
  expect_no_network(MINUET_INVALID_ARGUMENT, "shape has 2 axes, but the description of minkunet42 has 3",
                    [](auto& options) { options.shape = cells.data(), options.shape_count = 2; });
  expect_no_network(MINUET_INVALID_ARGUMENT, "shape has 33554432 cells on axis 2",
                    [](auto& options) { options.shape = cells.data(), options.shape_count = 3; });
  expect_no_network(MINUET_INVALID_ARGUMENT, "shape_count is 0 and shape is not null",
                    [](auto& options) { options.shape = cells.data(); });
  expect_no_network(MINUET_INVALID_ARGUMENT, "shape_count is 3 and shape is null",
                    [](auto& options) { options.shape_count = 3; });
  for (const int32_t channels : {-1, 65537}) {
    expect_no_network(MINUET_INVALID_ARGUMENT, "in_channels is " + std::to_string(channels),
                      [=](auto& options) { options.in_channels = channels; });
  }
  expect_no_network(MINUET_INVALID_ARGUMENT, "struct_size", [](auto& options) { options.struct_size = 0; });
  expect_no_network(MINUET_INVALID_ARGUMENT, "ext", [](auto& options) { options.ext = &options; });
}

TEST(NetworkOptions, WeightsThatDoNotFitAreNamed) {
  expect_no_network(MINUET_NOT_FOUND, "/nowhere/w.safetensors",
                    [](auto& options) { options.weights_path = "/nowhere/w.safetensors"; });
  oracle::Parameters parameters(5);
  oracle::minkunet42(parameters, kWidths, {0, 0, 0, 0}, {1, 1, 1, 1});
  const TemporaryPath file("fitting.safetensors");
  write_safetensors(file.path(), parameters.all());
  static const std::vector<int32_t> wider = {8, 8, 16, 24, 32, 32, 24, 16, 24};
  expect_no_network(MINUET_INVALID_ARGUMENT, "decoder.3.up.conv.weight", [&](auto& options) {
    options.channels = wider.data();
    options.weights_path = file.path().c_str();
  });
  std::map<std::string, FileTensor> incomplete = parameters.all();
  incomplete.erase("encoder.1.residual.0.bn2.running_var");
  const TemporaryPath missing("incomplete.safetensors");
  write_safetensors(missing.path(), incomplete);
  expect_no_network(MINUET_INVALID_ARGUMENT, "encoder.1.residual.0.bn2.running_var",
                    [&](auto& options) { options.weights_path = missing.path().c_str(); });
}

/// The shipped networks are listed in order, and each has what its files have.
TEST(NetworkOptions, ShippedNetworksAreListed) {
  std::vector<std::string> names;
  for (int32_t i = 0; i < 16; ++i) {
    minuet_shipped_network_info info{};
    info.struct_size = sizeof(info);
    ASSERT_EQ(minuet_query_shipped_network(i, &info), MINUET_OK) << last_error();
    names.emplace_back(info.name);
    EXPECT_THAT(info.description, HasSubstr("\"name\": \"" + names.back() + "\""));
    EXPECT_FALSE(std::string(info.summary).empty());
    EXPECT_EQ(info.weights_map != nullptr, i >= 2 && i < 14);
    EXPECT_EQ(std::string(info.description).find("\"weights_order\"") != std::string::npos, i >= 2 && i < 14);
    const bool is_detector = i >= 8 && i < 12;
    EXPECT_EQ(info.voxel_size[0] > 0, is_detector);
    EXPECT_EQ(info.extra_cells[2], is_detector ? 1 : 0);
  }
  EXPECT_EQ(names, (std::vector<std::string>{
                       "minkunet42", "sparseresnet21d", "minkunet14a", "minkunet18a", "minkunet34a",
                       "minkunet34c", "spunet34", "softgroup_unet", "voxel_backbone_8x",
                       "voxel_res_backbone_8x", "bevfusion_encoder", "voxelnext", "octformer_block",
                       "minkunet34c_points", "spvcnn_point_branch", "shape_autoencoder"}));
  for (const int32_t index : {-1, 16}) {
    minuet_shipped_network_info info{};
    info.struct_size = sizeof(info);
    EXPECT_EQ(minuet_query_shipped_network(index, &info), MINUET_OUT_OF_RANGE);
    EXPECT_THAT(last_error(), HasSubstr("there are 16 shipped networks"));
  }
}

}  // namespace
}  // namespace minuet::abi
