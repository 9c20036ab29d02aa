#include "runtime/network/quantize_description.h"

#include <algorithm>
#include <map>
#include <set>

#include "llvm/ADT/STLExtras.h"
#include "minuet/quantize.h"
#include "runtime/network/precisions.h"

namespace minuet {
namespace {

/// Returns the fields of a convolution in the description.
ConvolutionFields& fields_of(NetworkDescription& network, const LayerOrigin& origin) {
  LayerDescription& layer =
      *llvm::find_if(network.layers, [&](const LayerDescription& each) { return each.name == origin.layer; });
  if (origin.part.empty()) return layer.fields;
  const llvm::ArrayRef<const char*> names = part_names(layer.op);
  const auto* const part = llvm::find(names, origin.part);
  return layer.parts[static_cast<std::size_t>(part - names.begin())];
}

/// Sets the fields of a block that belong to all of its convolutions from those of its convolutions.
void settle_block(LayerDescription& layer) {
  if (layer.parts.empty()) return;
  ConvolutionFields& shortcut = layer.parts.back();
  const ConvolutionFields& last = layer.parts[layer.parts.size() - 2];
  layer.fields.output_range = last.output_range;
  layer.fields.is_int8 = llvm::all_of(llvm::ArrayRef(layer.parts).drop_back(),
                                      [](const ConvolutionFields& fields) { return fields.is_int8; });
  if (!layer.has_shortcut_fields) shortcut.is_int8 = layer.fields.is_int8;
}

/// Makes every convolution one of floating numbers without a range.
void clear_precisions(NetworkDescription& network) {
  const auto clear = [](ConvolutionFields& fields) { fields.is_int8 = false, fields.output_range = 0; };
  for (LayerDescription& layer : network.layers) {
    clear(layer.fields);
    llvm::for_each(layer.parts, clear);
  }
}

/// Changes the precisions of the convolutions in a description.
class Quantization {
 public:
  Quantization(NetworkDescription network, const Program& program) : network_(std::move(network)) {
    for (const ProgramLayer& layer : program.layers) {
      const ConvolutionProblem* const problem = convolution_of(layer);
      if (problem == nullptr) continue;
      layers_[layer.name] = {layer.origin, problem->groups};
      // The fields of a shortcut that is the input itself must not be printed.
      if (layer.origin.part == "shortcut") {
        for (LayerDescription& each : network_.layers)
          each.has_shortcut_fields |= each.name == layer.origin.layer;
      }
    }
  }

  llvm::Error set(LayerPrecision& precision) {
    precision.reason.clear();
    const auto found = layers_.find(precision.layer);
    if (found == layers_.end()) {
      return make_error(StatusCode::InvalidArgument, "the network has no convolution \"{0}\"",
                        precision.layer);
    }
    if (!given_.insert(precision.layer).second) {
      return make_error(StatusCode::InvalidArgument, "the convolution \"{0}\" is listed twice",
                        precision.layer);
    }
    if (found->second.groups > 1 && precision.is_int8) {
      precision.is_int8 = false;
      precision.reason = "it has groups, and kernels with groups compute in floating numbers";
    }
    ConvolutionFields& fields = fields_of(network_, found->second.origin);
    fields.is_int8 = precision.is_int8;
    // The fp32 number nearest to the greatest range is above it.
    fields.output_range = std::min(static_cast<double>(precision.range), MINUET_GREATEST_RANGE);
    return llvm::Error::success();
  }

  /// Lets a convolution compute in floating numbers. Its range stays.
  void clear(const std::string& layer) { fields_of(network_, layers_.at(layer).origin).is_int8 = false; }

  NetworkDescription description() const {
    NetworkDescription settled = network_;
    llvm::for_each(settled.layers, settle_block);
    return settled;
  }

 private:
  struct Layer {
    LayerOrigin origin;
    i32 groups = 1;
  };

  NetworkDescription network_;
  std::map<std::string, Layer> layers_;
  std::set<std::string> given_;
};

/// Returns true if an input or a saved result has this name.
bool is_result(const NetworkDescription& network, llvm::StringRef name) {
  return llvm::any_of(network.inputs, [&](const InputDescription& input) { return input.name == name; }) ||
         llvm::any_of(network.layers, [&](const LayerDescription& layer) { return layer.save == name; });
}

/// Names the only output of a network whose description does not.
void name_output(NetworkDescription& network) {
  if (!network.outputs.empty()) return;
  LayerDescription& last = network.layers.back();
  if (last.save.empty()) {
    std::string name = kUsualOutput;
    while (is_result(network, name)) name += "_";
    last.save = name;
  }
  network.outputs = {last.save};
}

}  // namespace

llvm::Expected<NetworkDescription> observe_network(const NetworkDescription& network,
                                                   const Program& program) {
  NetworkDescription observed = network;
  name_output(observed);
  for (const ProgramLayer& layer : program.layers) {
    if (convolution_of(layer) == nullptr) continue;
    const std::string name = kLayerOutput + layer.name;
    if (is_result(network, name)) {
      return make_error(StatusCode::InvalidArgument,
                        "a result or an input is called \"{0}\", which is the name of the result of the "
                        "convolution \"{1}\": rename it",
                        name, layer.name);
    }
    if (!llvm::is_contained(observed.outputs, name)) observed.outputs.push_back(name);
  }
  return observed;
}

llvm::Expected<NetworkDescription> quantize_network(const NetworkDescription& network,
                                                    const HeadChannels& head_channels,
                                                    llvm::MutableArrayRef<LayerPrecision> precisions,
                                                    FindWeightFaults find_weight_faults) {
  NetworkDescription floating = network;
  clear_precisions(floating);
  MINUET_ASSIGN(const Program program, build_program(floating, DType::F16, head_channels));
  Quantization quantization(std::move(floating), program);
  std::map<std::string, LayerPrecision*> by_name;
  for (LayerPrecision& precision : precisions) {
    MINUET_TRY(quantization.set(precision));
    by_name[precision.layer] = &precision;
  }
  const auto leave_floating = [&](PrecisionFault& fault) {
    LayerPrecision& precision = *by_name.at(fault.layer);
    precision.is_int8 = false, precision.reason = std::move(fault.reason);
    quantization.clear(precision.layer);
  };
  // Each round takes 8 bits from a convolution, so there are no more rounds than convolutions.
  for (;;) {
    NetworkDescription quantized = quantization.description();
    MINUET_ASSIGN(std::optional<PrecisionFault> fault, find_precision_fault(quantized, head_channels));
    if (fault) {
      leave_floating(*fault);
      continue;
    }
    MINUET_ASSIGN(const Program made, build_program(quantized, DType::F16, head_channels));
    MINUET_ASSIGN(std::vector<PrecisionFault> faults, find_weight_faults(made));
    if (faults.empty()) return quantized;
    llvm::for_each(faults, leave_floating);
  }
}

}  // namespace minuet
