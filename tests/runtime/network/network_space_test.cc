// The ops space_to_channel and channel_to_space: what is refused, and the place of the error.
#include <gmock/gmock.h>

#include "tests/runtime/network/description_mistake.h"

namespace minuet {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(NetworkSpace, ErrorsHaveTheirPlace) {
  const std::string in = R"("in_channels": 4)";
  const std::string b =
      block("a", R"("output": "x")") + "," + block("b", R"("stride": 2, "output": "y")") + ",";
  const auto down = [&](const std::string& fields) {
    return b + R"({"op": "space_to_channel", "name": "c")" + fields + "}";
  };
  const auto up = [&](const std::string& fields) {
    return b + R"({"op": "channel_to_space", "name": "c", )" + fields + "}";
  };
  const std::vector<Mistake> mistakes = {
      {down(""), in, "layers[2].stride", "\"stride\" is missing"},
      {down(R"(, "stride": 1)"), in, "layers[2].stride", "the stride is 1 on every axis"},
      {down(R"(, "stride": [2, 2])"), in, "layers[2].stride", "give one number per axis"},
      {down(R"(, "stride": 64)"), in, "layers[2].stride",
       "262144 children of 8 channels, but at most 65536 channels side by side"},
      {down(R"(, "stride": 128)"), in, "layers[2].stride",
       "the stride gives a coarser cell more than 1048576 children of 8 channels"},
      {down(R"(, "stride": 2, "kernel_size": 3)"), in, "layers[2].kernel_size",
       "not a field of the op space_to_channel"},
      {up(R"("onto": "z")"), in, "layers[2].onto", "no earlier layer saves"},
      {up(R"("onto": "y")"), in, "layers[2].onto",
       "\"y\" has the tensor stride of the layer's input, so each cell would be its own only child"},
      {up(R"("input": "x", "onto": "y")"), in, "layers[2].onto", "is 1, which is no multiple of 2"},
      {b + R"({"op": "max_pool", "name": "c", "stride": 3},
              {"op": "channel_to_space", "name": "d", "onto": "y"})",
       in, "layers[3].onto", "not a multiple of 27"},
      {b + R"({"op": "max_pool", "name": "c", "kernel_size": 1, "stride": 64},
              {"op": "channel_to_space", "name": "d", "onto": "y"})",
       in, "layers[3].onto", "8 channels, which are not a multiple of 262144, the number of cells of \"y\""},
      {b + R"({"op": "max_pool", "name": "c", "kernel_size": 1, "stride": 128},
              {"op": "channel_to_space", "name": "d", "onto": "y"})",
       in, "layers[3].onto", "not a multiple of more than 1048576"},
      // The collapsed axis has 2 cells, which are no children. 8 channels are a multiple of 2.
      {block("a", R"("output": "x")") + R"(, {"op": "collapse", "name": "c", "axis": 2},
              {"op": "channel_to_space", "name": "d", "onto": "x"})",
       in + R"(, "shape": [32, 32, 2])", "layers[2].onto", "\"x\" has an axis that the layer's input lacks"},
  };
  for (const Mistake& mistake : mistakes) {
    EXPECT_THAT(error_of(mistake), AllOf(HasSubstr(mistake.place), HasSubstr(mistake.words)));
  }
}

}  // namespace
}  // namespace minuet
