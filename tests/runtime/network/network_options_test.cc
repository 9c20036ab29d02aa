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

}  // namespace
}  // namespace minuet::abi
