// What custom calls refuse of pyramids of networks. Results of networks are tested from Python.
#include <gtest/gtest.h>

#include "minuet/minuet.hpp"
#include "runtime/bindings/xla/minuet_xla.h"
#include "tests/runtime/bindings/xla/made_up_xla.h"

namespace minuet_xla::testing {
namespace {

// The number that an attribute begins with, for pyramids of networks.
enum Kind : std::int64_t { kOfNetwork = 1, kOfTraining = 2 };

class NetworkCalls : public ::testing::Test {
 protected:
  void SetUp() override {
    xla_ = &fresh_xla();
    ASSERT_EQ(outcome_of(minuet_xla_register(made_up_api())).message, "");
  }

  // The bytes of a network of one linear layer in three dimensions.
  std::vector<unsigned char> plan_bytes() const {
    minuet_network_options options = MINUET_NETWORK_OPTIONS_INIT;
    options.description = R"({"name": "n", "ndim": 3, "in_channels": 4,
                              "layers": [{"op": "linear", "name": "a", "out_channels": 5}]})";
    options.without_values = 1;
    options.dataflow = MINUET_DATAFLOW_FUSED;
    minuet_plan* made = nullptr;
    minuet::check(minuet_plan_create_network(context_.get(), &options, &made));
    const minuet::Plan plan = minuet::Plan::take(made);
    std::size_t size = 0;
    minuet::check(
        minuet_plan_serialize(plan.get(), nullptr, 0, MINUET_SERIALIZE_WITHOUT_VALUES, nullptr, 0, &size));
    std::vector<unsigned char> bytes(size);
    minuet::check(minuet_plan_serialize(plan.get(), nullptr, 0, MINUET_SERIALIZE_WITHOUT_VALUES, bytes.data(),
                                        size, &size));
    return bytes;
  }

  // Fills in the attributes of a pyramid of that network: one level whose coordinates are kept.
  Site& describe(Site& site, Kind kind, std::int64_t ndim) const {
    std::vector<std::int64_t> numbers = {1, kind, ndim, 0, 0};
    numbers.insert(numbers.end(), 10, 0);  // No bounds.
    numbers.insert(numbers.end(), {1, 1, 64, 0});
    site.bytes("plan", plan_bytes()).integers("pyramid", numbers);
    if (kind == kOfTraining) site.integers("training", {1, 1, 0, 0}).real("momentum", 0.1);
    return site;
  }

  const minuet::Context context_;
  MadeUpXla* xla_ = nullptr;
};

TEST_F(NetworkCalls, TheNumberOfAxesIsThatOfTheNetwork) {
  for (const Kind kind : {kOfNetwork, kOfTraining}) {
    Site right(xla_->find("minuet_pyramid", "Host"));
    EXPECT_EQ(describe(right, kind, 3).instantiate().message, "");
    Site wrong(xla_->find("minuet_pyramid", "Host"));
    const Outcome outcome = describe(wrong, kind, 2).instantiate();
    EXPECT_EQ(outcome.code, XLA_FFI_Error_Code_INVALID_ARGUMENT);
    EXPECT_NE(outcome.message.find("ndim is 2, but the network has 3 axes"), std::string::npos)
        << outcome.message;
  }
}

TEST_F(NetworkCalls, CoordinatesOfUnknownSizeAreRefused) {
  for (const Kind kind : {kOfNetwork, kOfTraining}) {
    Site site(xla_->find("minuet_coordinates", "Host"));
    const Outcome outcome = describe(site, kind, 3).integer("level", 0).instantiate();
    EXPECT_EQ(outcome.code, XLA_FFI_Error_Code_INVALID_ARGUMENT);
    EXPECT_NE(outcome.message.find("the pyramid is of a network"), std::string::npos) << outcome.message;
  }
}

}  // namespace
}  // namespace minuet_xla::testing
