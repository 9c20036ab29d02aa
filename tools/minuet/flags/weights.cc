#include <CLI/CLI.hpp>

#include "tools/minuet/base/error.h"
#include "tools/minuet/flags/flags.h"
#include "tools/minuet/flags/rules.h"

namespace minuet::tool {
namespace {

constexpr const char* kConvertFooter = R"(
Reads IN as `minuet run --weights IN --weights-order ORDER` does, with the same checks. Writes the tensors that
the network uses as float32, in Minuet's order and with Minuet's names, so that later runs need only --weights.
OUT is written whole or not at all.

names.json is {"name in the file": "name in the network", ...}. If both names end in a dot, all names that start
with the first are renamed. share/doc/minuet/networks/WEIGHTS.md describes how each engine orders weights, and
what cannot be converted, and how the tensors of a PyTorch checkpoint are found.

Examples:
  minuet weights convert minkunet.safetensors ours.safetensors --from minkowski --map names.json
  minuet weights convert second.safetensors ours.safetensors --from spconv --network second.json \
      --weights-prefix backbone_3d. --allow-unused
  minuet weights convert second.pth ours.safetensors --from spconv --network voxel_backbone_8x \
      --weights-key model_state --weights-prefix backbone_3d. --allow-unused)";

CLI::Option* add_order(CLI::App& app, const std::string& flags, NetworkChoice& choice,
                       const std::string& otherwise) {
  return add_value(
      app, flags, choice.weights_order, "ORDER",
      "engine that stored the weights: minuet, minkowski, torchsparse, spconv (indices z, y, x) "
      "or spconv-xyz; spconv1, spconv1-xyz, spconv2 and spconv2-xyz name the version of spconv too; "
      "spconv2-linear and spconv2-xyz-linear are for files whose 1x1 layers are linear layers" +
          otherwise);
}

void add_names(CLI::App& app, const std::string& map_flags, NetworkChoice& choice) {
  add_value(
      app, "--weights-key", choice.weights_key, "KEY",
      "dict of a PyTorch checkpoint that has the tensors, for example model_state, or ema/state_dict for "
      "a dict in a dict; default: the root, or the only usual key that has tensors");
  add_value(app, "--weights-prefix", choice.weights_prefix, "PREFIX",
            "prefix, with its dot, to remove from the names in the file, for example \"module.\"; tensors "
            "without it count as unused");
  add_value(app, map_flags, choice.weights_map, "names.json",
            "JSON file: {\"name in the file\": \"name in the network\", ...}");
  app.add_flag("--allow-unused", choice.allow_unused, "accept tensors that no layer uses");
  app.add_flag("--allow-non-finite-parameters", choice.allow_non_finite_parameters,
               "accept infinite and NaN parameters, and weights beyond the range of the dtype, as they are");
}

}  // namespace

void add_weights(CLI::App& app, NetworkChoice& choice) {
  add_value(
      app, "--weights", choice.weights, "FILE",
      "safetensors file or PyTorch checkpoint (.pth); default: seeded random weights, with which the output "
      "means nothing");
  add_order(app, "--weights-order", choice, "; default: the order that the network names, otherwise minuet");
  add_names(app, "--weights-map", choice);
}

void add_weights_command(CLI::App& weights, Arguments& arguments) {
  weights.require_subcommand(1);
  CLI::App& convert =
      *weights.add_subcommand("convert", "Convert another engine's weights into a file for Minuet");
  convert.footer(kConvertFooter);
  NetworkChoice& choice = arguments.network;
  add_value(convert, "IN", choice.weights, "FILE", "safetensors file or PyTorch checkpoint to read")
      ->required();
  add_value(convert, "OUT", arguments.output, "FILE", "safetensors file to write")->required();
  add_order(convert, "--from,--weights-order", choice, "")->required();
  add_names(convert, "--map,--weights-map", choice);
  add_network_name(convert, choice)
      ->description(
          "network of the weights: name of a shipped network (minuet run --list-networks), or a JSON file "
          "(share/doc/minuet/networks/README.md)");
  add_channels(convert, choice);
}

llvm::Error check_weights_flags(const NetworkChoice& choice) {
  if (!choice.weights.empty()) return llvm::Error::success();
  if (!choice.weights_order.empty() || !choice.weights_key.empty() || !choice.weights_prefix.empty() ||
      !choice.weights_map.empty() || choice.allow_unused || choice.allow_non_finite_parameters) {
    return bad_input(
        "--weights-order, --weights-key, --weights-prefix, --weights-map, --allow-unused and "
        "--allow-non-finite-parameters need --weights");
  }
  return llvm::Error::success();
}

}  // namespace minuet::tool
