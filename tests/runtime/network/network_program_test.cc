#include "runtime/network/network_program.h"
#include "runtime/network/shipped_network.h"
#include "runtime/program/ops/convolution.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace minuet {
namespace {

Program shipped(const char* name, i32 head = 0) {
  llvm::StringRef json = llvm::cantFail(shipped_network(name));
  const NetworkDescription description = llvm::cantFail(parse_network(json));
  return llvm::cantFail(
      build_program(description, DType::F16, [&](const std::string&, i32) { return head; }));
}

std::string error_of(const std::string& json) {
  llvm::Expected<NetworkDescription> description = parse_network(json);
  if (!description) return take_status(description.takeError()).message();
  llvm::Expected<Program> program =
      build_program(*description, DType::F32, [](const std::string&, i32) { return 0; });
  return program ? "" : take_status(program.takeError()).message();
}

std::string with_layers(const std::string& layers) {
  return R"({"name": "n", "ndim": 3, "in_channels": 4, "channels": [8, 16], "layers": [)" + layers + "]}";
}

TEST(NetworkProgram, DescriptionsThatAnotherEditorSaved) {
  const std::string text =
      "{\"name\": \"n\", \"ndim\": 3, \"in_channels\": 4, \"channels\": [4],\n\"layers\": "
      "[{\"op\": \"block\", \"name\": \"a\", \"width\": 0, \"kernel_size\": 3}]}\n";
  EXPECT_EQ(error_of(text), "");
  EXPECT_EQ(error_of("\xef\xbb\xbf" + text), "");
  std::string returns = text;
  std::replace(returns.begin(), returns.end(), '\n', '\r');
  EXPECT_EQ(error_of(returns), "");
}

TEST(NetworkProgram, OtherFilesThanDescriptionsAreNamed) {
  const std::pair<std::string, const char*> files[] = {
      {"version https://git-lfs.github.com/spec/v1\noid sha256:26d0\n", "`git lfs pull`"},
      {"<!DOCTYPE html><html></html>", "a web page (HTML or XML), not a network description"},
      {R"({"metadata": {}, "weight_map": {"a": "m-1.safetensors"}})", "the index of a checkpoint in parts"},
      {"\x80\x02}q\x01(X\x01", "a PyTorch checkpoint"},
      {"Entry not found", "text that begins 'Entry not found', not a network description"},
      {std::string("\xff\xfe{\0", 4), "save it as UTF-8"}};
  for (const auto& [bytes, says] : files) {
    EXPECT_NE(error_of(bytes).find(says), std::string::npos) << error_of(bytes);
    EXPECT_EQ(error_of(bytes).find("network description: it is "), 0u);
  }
}

TEST(NetworkProgram, MinkUNet42HasTheShapeOfThePaper) {
  const Program program = shipped("minkunet42");
  EXPECT_EQ(program.levels.size(), 5u);
  EXPECT_EQ(program.levels[4].tensor_stride, (AxisArray{16, 16, 16, 1}));
  int k3 = 0, k2 = 0, k1 = 0, convolutions = 0, shortcuts = 0;
  for (const MapSpec& map : program.maps) {
    k3 += map.kernel_size[0] == 3;
    k2 += map.kernel_size[0] == 2;
    k1 += map.is_identity();
  }
  EXPECT_EQ(k3, 5);
  EXPECT_EQ(k2, 4) << "the up-steps use the down-steps' maps";
  for (const ProgramLayer& layer : program.layers) {
    const bool shortcut = layer.name.size() > 9 && layer.name.substr(layer.name.size() - 9) == ".shortcut";
    (shortcut ? shortcuts : convolutions) += 1;
    EXPECT_EQ(shortcut, program.maps[layer.map].is_identity());
  }
  EXPECT_EQ(convolutions, 42);
  EXPECT_EQ(shortcuts, 7);
  EXPECT_GT(k1, 0);
  EXPECT_EQ(program.tensors[program.outputs[0]].level, 0);
  EXPECT_EQ(program.tensors[program.outputs[0]].channels, 96);
}

TEST(NetworkProgram, SparseResNet21DEndsOnItsLastLevel) {
  const Program program = shipped("sparseresnet21d");
  EXPECT_EQ(program.layers.size(), 21u);
  EXPECT_EQ(program.levels.back().tensor_stride, (AxisArray{8, 8, 16, 1}));
  EXPECT_EQ(program.tensors[program.outputs[0]].level, 4);
  i64 guard[kMaxDim], period[kMaxDim];
  layout_needs(program, guard, period);
  EXPECT_EQ(guard[2], 8);
  EXPECT_EQ(period[2], 16);
}

TEST(NetworkProgram, AHeadIsThereWhereTheWeightsHaveOne) {
  const Program program = shipped("minkunet42", 20);
  EXPECT_EQ(program.layers.back().name, "head");
  EXPECT_EQ(program.tensors[program.outputs[0]].channels, 20);
  EXPECT_EQ(program.layers.back().bias, "head.bias");
}

TEST(NetworkProgram, AHeadThatSaysItsClassesIsThereWithoutWeights) {
  const NetworkDescription description = llvm::cantFail(parse_network(with_layers(
      R"({"op": "block", "name": "a", "width": 0}, {"op": "head", "name": "h", "classes": 19, "save": "s"},
         {"op": "block", "name": "b", "width": 1}, {"op": "concat", "with": "s"})")));
  const Program program =
      llvm::cantFail(build_program(description, DType::F16, [](const std::string& head, i32) {
        ADD_FAILURE() << "nobody had to ask about " << head;
        return 3;
      }));
  EXPECT_EQ(convolution_of(program.layers[1])->out_channels, 19);
  EXPECT_EQ(program.tensors[program.outputs[0]].channels, 16 + 19);
}

TEST(NetworkProgram, HeadsAreAskedForOneByOne) {
  const NetworkDescription description = llvm::cantFail(parse_network(with_layers(
      R"({"op": "block", "name": "a", "width": 1}, {"op": "head", "name": "h"}, {"op": "head", "name": "i"})")));
  std::string asked;
  const auto classes = [&](const std::string& head, i32 in_channels) {
    asked += head + std::to_string(in_channels) + " ";
    return head == "h" ? 0 : 7;
  };
  EXPECT_EQ(llvm::cantFail(build_program(description, DType::F16, classes)).layers.size(), 2u);
  EXPECT_EQ(asked, "h16 i16 ");
}

/// Where storages lie for levels of so many rows each, in elements; their end is the last.
std::vector<i64> stacked(const Program& program, const std::vector<i64>& rows) {
  std::vector<i64> begin(program.storages.size() + 1);
  const auto end_of = [&](i32 number) {
    const StorageSpec& storage = program.storages[number];
    return begin[number] + rows[storage.level] * storage.ld;
  };
  for (const i32 number : program.stack) {
    for (const i32 below : program.storages[number].below) {
      begin[number] = std::max(begin[number], end_of(below));
    }
    begin.back() = std::max(begin.back(), end_of(number));
  }
  return begin;
}

/// A sweep's, a surface's, and what a cloud has whose voxels lie apart.
const std::vector<std::vector<i64>> kRowsOfLevels = {
    {7748, 4516, 2068, 816, 300}, {6400, 1600, 400, 100, 25}, {1000, 1000, 1000, 1000, 1000}};

/// No two tensors that are alive at once may share bytes.
TEST(NetworkProgram, StoragesThatAreInUseTogetherLieApart) {
  for (const char* name : {"minkunet42", "sparseresnet21d"}) {
    const Program program = shipped(name);
    const auto storage_of = [&](i32 tensor) { return program.tensors[tensor].storage; };
    for (const std::vector<i64>& rows : kRowsOfLevels) {
      const std::vector<i64> begin = stacked(program, rows);
      std::vector<i32> holders(begin.back(), -1);  // the storage that was written last
      const auto expect_held = [&](i32 tensor, const std::string& by) {
        const i32 storage = storage_of(tensor);
        const i64 elements = rows[program.storages[storage].level] * program.storages[storage].ld;
        const auto first = holders.begin() + begin[storage];
        EXPECT_EQ(std::count(first, first + elements, storage), elements)
            << by << " reads memory that another tensor took";
      };
      const auto write = [&](i32 tensor) {
        const i32 storage = storage_of(tensor);
        const i64 elements = rows[program.storages[storage].level] * program.storages[storage].ld;
        std::fill_n(holders.begin() + begin[storage], elements, storage);
      };
      write(program.inputs[0]);
      for (const ProgramLayer& layer : program.layers) {
        write(layer.output);
        // Also after the write: input and output are in use at once.
        expect_held(layer.input, layer.name);
        if (layer.residual >= 0) expect_held(layer.residual, layer.name);
      }
      expect_held(program.outputs[0], "the caller");
    }
  }
}

/// Memory of a run is what its largest layer needs beside what later ones read, whatever the levels' rows.
TEST(NetworkProgram, StoragesLieAsDenseAsTheyCan) {
  for (const char* name : {"minkunet42", "sparseresnet21d"}) {
    const Program program = shipped(name);
    for (const std::vector<i64>& rows : kRowsOfLevels) {
      i64 least = 0;
      for (i32 layer = -1; layer <= static_cast<i32>(program.layers.size()); ++layer) {
        i64 in_use = 0;
        for (const StorageSpec& storage : program.storages) {
          const bool is_used = storage.first <= layer && layer <= storage.last;
          in_use += is_used ? rows[storage.level] * storage.ld : 0;
        }
        least = std::max(least, in_use);
      }
      EXPECT_EQ(stacked(program, rows).back(), least) << name << ", " << rows[1] << " rows of level 1";
    }
  }
}

TEST(NetworkDescription, MistakesAreNamed) {
  EXPECT_NE(error_of("{").find("not JSON"), std::string::npos);
  EXPECT_NE(error_of(with_layers("")).find("at least one layer"), std::string::npos);
  EXPECT_NE(error_of(with_layers(R"({"op": "max_pool", "name": "p", "width": 0})")).find("\"width\""),
            std::string::npos)
      << "a pooling has its input's channels";
  EXPECT_NE(error_of(with_layers(R"({"op": "sum_pool", "name": "p", "stride": 0})")).find("\"stride\""),
            std::string::npos);
  EXPECT_NE(error_of(with_layers(R"({"op": "generative_up", "name": "p"})")).find("\"width\""),
            std::string::npos);
  EXPECT_NE(error_of(with_layers(R"({"op": "pool", "name": "p"})")).find("\"pool\" is unknown"),
            std::string::npos);
  EXPECT_NE(error_of(with_layers(R"({"op": "block", "name": "a", "width": 2})")).find("width"),
            std::string::npos);
  EXPECT_NE(error_of(with_layers(R"({"op": "block", "name": "a", "width": 0, "kernel_size": 0})"))
                .find("kernel_size"),
            std::string::npos);
  EXPECT_NE(error_of(with_layers(R"({"op": "block", "name": "a", "width": 0, "knel": 3})")).find("knel"),
            std::string::npos);
  EXPECT_NE(error_of(with_layers(R"({"op": "up", "name": "u", "width": 0, "onto": "s"})"))
                .find("saves its output as \"s\""),
            std::string::npos);
  EXPECT_EQ(error_of(with_layers(R"({"op": "block", "name": "a", "width": 0, "kernel_size": [1, 2, 3]})")),
            "");
  EXPECT_NE(error_of(with_layers(R"({"op": "head", "name": "h"})")).find("only a head without weights"),
            std::string::npos);
  EXPECT_NE(error_of(with_layers(R"({"op": "head", "name": "h", "classes": 0})")).find("\"classes\""),
            std::string::npos);
}

TEST(NetworkDescription, AConcatenationIsNoWiderThanAnyTensor) {
  std::string layers;
  for (int i = 0; i < 3; ++i) {
    layers += llvm::formatv(R"({{"op": "block", "name": "b{0}", "width": 0, "save": "b{0}"},)", i).str();
  }
  layers += R"({"op": "block", "name": "c", "width": 0}, {"op": "concat", "with": "b0"})";
  const std::string wide =
      R"({"name": "n", "ndim": 3, "in_channels": 4, "channels": [32768], "layers": [)" + layers;
  EXPECT_EQ(error_of(wide + "]}"), "");
  const std::string error = error_of(wide + R"(, {"op": "concat", "with": "b1"}]})");
  EXPECT_NE(error.find("\"b1\" has 98304 channels; at most 65536"), std::string::npos) << error;
}

}  // namespace
}  // namespace minuet
