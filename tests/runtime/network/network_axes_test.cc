// Layers on levels that lack axes: what is refused, and the place of the error.
#include <gmock/gmock.h>

#include "tests/runtime/network/description_mistake.h"

namespace minuet {
namespace {

using testing::HasSubstr;

TEST(NetworkAxes, ErrorsHaveTheirPlace) {
  const std::string in = R"("in_channels": 4)", a = block("a", R"("output": "x")") + ",";
  const std::string cells = in + R"(, "shape": [32, 32, 16])";
  const std::string collapsed = R"({"op": "collapse", "name": "c", "axis": 2},)";
  const std::string pooled = R"({"op": "global_pool", "name": "p", "reduction": "max", "output": "g"},)";
  // A collapse of all axes leaves no axis, as a global pooling does.
  const std::string one_cell = in + R"(, "shape": [1, 1, 1])";
  const std::string flat =
      R"({"op": "collapse", "name": "i", "axis": 0}, {"op": "collapse", "name": "j", "axis": 1},)"
      R"({"op": "collapse", "name": "k", "axis": 2, "output": "c"},)";
  const std::string pooled_input =
      R"({"op": "global_pool", "name": "p", "input": "input", "reduction": "max", "output": "g"},)";
  const std::vector<Mistake> mistakes = {
      {a + R"({"op": "collapse", "name": "c"})", in, "layers[1].axis", "from 0 to 2"},
      {a + R"({"op": "collapse", "name": "c", "axis": 3})", in, "layers[1].axis", "from 0 to 2"},
      {a + R"({"op": "collapse", "name": "c", "axis": 2})", in, "layers[1].axis",
       "give the network a \"shape\""},
      {collapsed + R"({"op": "collapse", "name": "d", "axis": 2})", cells, "layers[1].axis",
       "no axis 2 any more"},
      {collapsed + R"({"op": "max_pool", "name": "d", "kernel_size": [3, 3, 3]})", cells,
       "layers[1].kernel_size", "has 3 numbers, but the level of the layer's input has 2 axes"},
      {collapsed + block("d", R"("rule": "reached", "padding": [1, 1, 0])"), cells, "layers[1].padding",
       "has 2 axes"},
      {collapsed + R"({"op": "max_pool", "name": "d", "kernel_size": [3]})", cells, "layers[1].kernel_size",
       "the network has 3 axes"},
      {a + R"({"op": "max_pool", "name": "d", "kernel_size": [3, 3]})", in, "layers[1].kernel_size",
       "the network has 3 axes"},
      {collapsed + R"({"op": "up", "name": "d", "out_channels": 4, "onto": "input", "stride": 2})", cells,
       "layers[1].onto", "has other axes than the layer's input"},
      {collapsed + R"({"op": "concat", "with": "input"})", cells, "layers[1].with", "same coordinate set"},
      {collapsed + R"({"op": "birds_eye", "image_axes": [0, 1]})", cells, "layers[1].input", "use to_dense"},
      {pooled + R"({"op": "upsample", "name": "d", "onto": "input"})", in, "layers[1].onto", "no way from"},
      {pooled + R"({"op": "upsample", "name": "d", "input": "input", "onto": "g"})", in, "layers[1].onto",
       "no way from"},
      {pooled + R"({"op": "space_to_channel", "name": "d", "stride": 2})", in, "layers[1].stride",
       "has no axes"},
      {pooled + R"({"op": "channel_to_space", "name": "d", "onto": "input"})", in, "layers[1].onto",
       "no way from"},
      {pooled + R"({"op": "max_pool", "name": "d", "kernel_size": 3})", in, "layers[1].kernel_size",
       "is 3, but the level of the layer's input has no axes"},
      {pooled + R"({"op": "max_pool", "name": "d", "stride": 2})", in, "layers[1].stride",
       "use the op linear"},
      {pooled + block("d", R"("rule": "reached")"), in, "layers[1].rule", "leave \"rule\" out"},
      {pooled + R"({"op": "residual", "name": "d", "out_channels": 4})", in, "layers[1].kernel_size",
       "has no axes"},
      {collapsed + R"({"op": "union", "name": "d", "with": "input"})", cells, "layers[1].with",
       "the same axes"},
      {pooled + R"({"op": "union", "name": "d", "with": "input"})", in, "layers[1].with", "the same axes"},
      {pooled + R"({"op": "to_dense"})", cells, "layers[1].input", "no grid of cells"},
      {pooled + R"({"op": "collapse", "name": "d", "axis": 0})", cells, "layers[1].axis",
       "no axis 0 any more"},
      {pooled + R"({"op": "global_pool", "name": "d", "reduction": "sum"})", in, "layers[1].input",
       "one row for each batch item already"},
      {pooled + R"({"op": "up", "name": "d", "out_channels": 4, "onto": "input"})", in, "layers[1].onto",
       "a row for each batch item"},
      {flat + pooled_input + R"({"op": "up", "name": "d", "input": "c", "out_channels": 4, "onto": "g"})",
       one_cell, "layers[4].onto", "a row for each batch item"},
      {flat + pooled_input + R"({"op": "up", "name": "d", "out_channels": 4, "onto": "c"})", one_cell,
       "layers[4].onto", "a row for each batch item"},
      {R"({"op": "global_pool", "name": "d"})", in, "layers[0].reduction", "is missing"},
      {R"({"op": "global_pool", "name": "d", "reduction": "mean"})", in, "layers[0].reduction",
       "use \"average\", \"max\" or \"sum\""},
      {R"({"op": "global_pool", "reduction": "max"})", in, "layers[0].name", "must be a name"},
  };
  for (const Mistake& mistake : mistakes) {
    const std::string text = error_of(mistake);
    EXPECT_THAT(text, HasSubstr(std::string(mistake.place) + ": ")) << mistake.layers;
    EXPECT_THAT(text, HasSubstr(mistake.words)) << mistake.layers;
  }
}

}  // namespace
}  // namespace minuet
