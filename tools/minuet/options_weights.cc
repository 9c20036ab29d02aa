#include "tools/minuet/options_weights.h"

#include "tools/minuet/error.h"
#include "tools/minuet/options_caches.h"

namespace minuet::tool {
namespace {

constexpr const char* kConvertFooter = R"(
Reads IN as `minuet run --weights IN --weights-order ORDER` would, with the same checks, and writes what the
network takes from it: float32, in Minuet's order and by Minuet's names, so that later runs need no flag but
--weights. OUT is there whole or not at all.

names.json is {"name in the file": "name in the network", ...}; where both end in a dot, all names below are
renamed. share/doc/minuet/networks/WEIGHTS.md tells how each engine orders weights, and what cannot be carried over.

Examples:
  minuet weights convert minkunet.safetensors ours.safetensors --from minkowski --map names.json
  minuet weights convert second.safetensors ours.safetensors --from spconv --network second.json \
      --weights-prefix backbone_3d. --allow-unused)";

CLI::Option* add_order(CLI::App& app, const std::string& flags, NetworkChoice& choice) {
  return app
      .add_option(
          flags, choice.weights_order,
          "who stored the weights: minuet, minkowski, torchsparse, spconv (indices z, y, x) or spconv-xyz")
      ->type_name("ORDER");
}

void add_names(CLI::App& app, const std::string& map_flags, NetworkChoice& choice) {
  app.add_option("--weights-prefix", choice.weights_prefix,
                 "what all names of the file begin with, such as module.")
      ->type_name("PREFIX");
  app.add_option(map_flags, choice.weights_map,
                 "JSON file: {\"name in the file\": \"name in the network\", ...}")
      ->type_name("names.json");
  app.add_flag("--allow-unused", choice.allow_unused, "the file may have tensors that no layer uses");
  app.add_flag("--allow-non-finite-parameters", choice.allow_non_finite_parameters,
               "infinite and NaN parameters, and weights past the range of the dtype, are taken as they are");
}

}  // namespace

void add_weights(CLI::App& app, NetworkChoice& choice) {
  app.add_option("--weights", choice.weights,
                 "safetensors file; default: seeded random weights, which give no meaning to an output")
      ->type_name("FILE");
  add_order(app, "--weights-order", choice)
      ->description(
          "who stored the weights: minuet, minkowski, torchsparse, "
          "spconv (indices z, y, x) or spconv-xyz; default: as the "
          "network says, else minuet");
  add_names(app, "--weights-map", choice);
}

void add_weights_command(CLI::App& weights, Arguments& arguments) {
  weights.require_subcommand(1);
  CLI::App* const convert =
      weights.add_subcommand("convert", "Another engine's weights into a file of Minuet's");
  convert->footer(kConvertFooter);
  NetworkChoice& choice = arguments.network;
  convert->add_option("IN", choice.weights, "safetensors file")->required()->type_name("FILE");
  convert->add_option("OUT", arguments.output, "safetensors file to write")->required()->type_name("FILE");
  add_order(*convert, "--from,--weights-order", choice)->required();
  add_names(*convert, "--map,--weights-map", choice);
  convert
      ->add_option("--network", choice.network,
                   "whose weights they are: minkunet42, sparseresnet21d, or a JSON file "
                   "(share/doc/minuet/networks/README.md)")
      ->capture_default_str()
      ->type_name("NAME|FILE");
  add_channels(*convert, arguments);
}

llvm::Error check_weights_flags(const NetworkChoice& choice) {
  if (!choice.weights.empty()) return llvm::Error::success();
  if (!choice.weights_order.empty() || !choice.weights_prefix.empty() || !choice.weights_map.empty() ||
      choice.allow_unused || choice.allow_non_finite_parameters) {
    return bad_input(
        "--weights-order, --weights-prefix, --weights-map, --allow-unused and --allow-non-finite-parameters "
        "need --weights");
  }
  return llvm::Error::success();
}

}  // namespace minuet::tool
