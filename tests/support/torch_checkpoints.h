// Checks that a network takes the same weights from a PyTorch checkpoint as from a safetensors file.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <string>

#include "tests/support/contents.h"
#include "tests/support/network_abi.h"
#include "tests/support/safetensors_writer.h"
#include "tests/support/torch_writer.h"

namespace minuet::abi {

/// Returns what the network takes from a weights file, as the bytes of a converted file, or the error.
inline std::string converted_weights(NetworkSpec spec, const std::string& path) {
  spec.weights = path;
  const TemporaryPath file("converted.safetensors");
  const minuet_network_options options = network_options(spec);
  if (minuet_weights_convert(&options, file.path().c_str()) != MINUET_OK) return last_error();
  return contents(file.path());
}

/// Expects that the network takes the same weights from the tensors in both forms of torch.save, as a state
/// dict and inside of a trainer's checkpoint, as from a safetensors file.
inline void expect_torch_checkpoints(const NetworkSpec& spec,
                                     const std::map<std::string, FileTensor>& tensors) {
  const TemporaryPath safetensors("weights.safetensors");
  write_safetensors(safetensors.path(), tensors);
  const std::string expected = converted_weights(spec, safetensors.path());
  ASSERT_GT(expected.size(), 10000u) << expected;
  const auto in_checkpoint = [](const std::string& dict) {
    return torch::dict({{"epoch", torch::integer(80)}, {"state_dict", dict}});
  };
  for (const torch::Form form : {torch::Form::Zip, torch::Form::Old}) {
    for (const bool is_nested : {false, true}) {
      const TemporaryPath file("weights.pth");
      std::ofstream(file.path(), std::ios::binary)
          << torch::checkpoint(tensors, form, is_nested ? +in_checkpoint : nullptr);
      EXPECT_TRUE(converted_weights(spec, file.path()) == expected)
          << (form == torch::Form::Zip ? "zip" : "old form") << (is_nested ? ", nested" : "");
    }
  }
}

}  // namespace minuet::abi
