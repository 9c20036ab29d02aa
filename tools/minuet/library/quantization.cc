#include "tools/minuet/library/quantization.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "minuet/quantize.h"
#include "tools/minuet/base/convert.h"
#include "tools/minuet/base/error.h"
#include "tools/minuet/library/networks.h"
#include "tools/minuet/library/outputs.h"
#include "tools/minuet/library/tensors.h"

namespace minuet::tool {
namespace {

constexpr llvm::StringRef kLayerOutput = "layer:";

/// Holds the outputs of a network for one cloud. Outputs of integers are empty, because they have no error.
using HostOutputs = std::vector<std::vector<float>>;

/// Returns the name of the layer whose result the output is, or nothing for an output of the network.
llvm::StringRef layer_of(const minuet_tensor_info& output) {
  llvm::StringRef name = output.name;
  return name.consume_front(kLayerOutput) ? name : llvm::StringRef();
}

/// Says why an output has no error.
std::string note_of_rows(const minuet_tensor_info& output, llvm::ArrayRef<float> reference,
                         llvm::ArrayRef<float> given) {
  const auto rows = [&](llvm::ArrayRef<float> values) {
    return static_cast<int64_t>(values.size()) / output.channels;
  };
  return llvm::formatv(
      "'{0}' has {1} in floating numbers and {2} in 8 bits, because the network chooses voxels "
      "by scores: no error",
      output.name, counted(rows(reference), "row"), rows(given));
}

/// Calls `call` with a buffer that is large enough for the text that it writes, and returns the text. The
/// first buffer is large enough for most networks, because a call may take long.
llvm::Expected<std::string> text_of(const std::function<minuet_status(char*, size_t, size_t*)>& call) {
  std::string text(size_t{1} << 18, '\0');
  size_t needed = 0;
  MINUET_TRY(check(call(text.data(), text.size(), &needed)));
  if (needed > text.size()) {
    text.resize(needed);
    MINUET_TRY(check(call(text.data(), text.size(), &needed)));
  }
  text.resize(needed - 1);  // The text ends with a zero character.
  return text;
}

/// Returns the range for a description, or an error if a description cannot have it. Results whose magnitudes
/// are all below the least range count as zeros.
llvm::Expected<double> checked_range(llvm::StringRef layer, double range, RangeMethod method) {
  if (range > MINUET_GREATEST_RANGE) {
    return bad_input(
        "the result of {0} has the range {1}, but ranges are at most {2}: check the weights and "
        "the clouds{3}",
        layer, digits(range), digits(MINUET_GREATEST_RANGE),
        method == RangeMethod::Maximum
            ? ", or give --calibration percentile, which leaves the largest numbers out"
            : "");
  }
  return range < MINUET_LEAST_RANGE ? 0 : range;
}

/// Says why no range was found, because a result has a number that is infinite or NaN.
llvm::Error refuse_result(const minuet_tensor_info& output, size_t cloud, size_t clouds) {
  const llvm::StringRef layer = layer_of(output);
  return bad_input(
      "{0} has numbers that are infinite or NaN{1}, so that it has no range: use another --dtype, or check "
      "the weights and the clouds",
      layer.empty() ? "the output '" + std::string(output.name) + "'" : "the result of " + layer.str(),
      clouds > 1 ? llvm::formatv(" on cloud {0} of {1}", cloud + 1, clouds).str() : "");
}

/// Runs a network on clouds.
class NetworkRun {
 public:
  /// `most_rows` is the number of voxels of the largest cloud.
  static llvm::Expected<NetworkRun> open(const Session& session, PlanHandle plan, minuet_dtype dtype,
                                         int64_t most_rows, bool needs_batch_size) {
    std::vector<KernelFacts> kernels;
    MINUET_TRY(compile_network(plan.get(), session.facts.arch, kernels));
    MINUET_TRY(check(minuet_plan_load(plan.get(), session.device.get())));
    ExecutionChoice choice;
    if (needs_batch_size) choice.batch_size = 1;
    MINUET_ASSIGN(ExecutionHandle execution,
                  open_execution(plan.get(), session.device.get(), most_rows, choice));
    MINUET_ASSIGN(Outputs outputs, Outputs::create(plan.get(), session.device.get(), choice.batch_size));
    return NetworkRun{session, std::move(plan), dtype, std::move(execution), std::move(outputs)};
  }

  const std::vector<minuet_tensor_info>& infos() const { return outputs_.infos(); }

  llvm::Expected<HostOutputs> run(const VoxelCloud& voxels) {
    MINUET_ASSIGN(const DeviceCloud cloud, upload_cloud(session_.device.get(), voxels, dtype_));
    MINUET_TRY(infer(execution_.get(), session_.device.get(), cloud, outputs_));
    HostOutputs values;
    for (size_t i = 0; i < infos().size(); ++i) {
      const minuet_element element = outputs_.arrays()[i].element;
      values.emplace_back();
      if (element == MINUET_ELEMENT_I32) continue;
      MINUET_ASSIGN(const std::vector<char> bytes, outputs_.read(i));
      values.back() = decode(bytes, dtype_of(element));
    }
    return values;
  }

 private:
  NetworkRun(const Session& session, PlanHandle plan, minuet_dtype dtype, ExecutionHandle execution,
             Outputs outputs)
      : session_(session),
        plan_(std::move(plan)),
        dtype_(dtype),
        execution_(std::move(execution)),
        outputs_(std::move(outputs)) {}

  const Session& session_;
  PlanHandle plan_;
  minuet_dtype dtype_;
  ExecutionHandle execution_;
  Outputs outputs_;
};

/// Opens the networks of a quantization.
class Quantizer {
 public:
  Quantizer(const Session& session, minuet_dtype dtype, const NetworkChoice& network,
            const std::vector<VoxelCloud>& clouds)
      : session_(session), dtype_(dtype), network_(network), clouds_(clouds) {}

  llvm::Error open() {
    minuet_plan_info info;
    MINUET_ASSIGN(plan_, open_network(session_.context.get(), network_, kDescribed, info));
    // The library's descriptions have these already.
    network_.channels.clear();
    network_.shape.clear();
    network_.in_channels = 0;
    // A network that computes in 8 bits already is taken without its precisions.
    std::vector<QuantizedLayer> none;
    MINUET_ASSIGN(const std::string floating, describe(none, {}));
    MINUET_ASSIGN(plan_, open(floating, kDescribed));
    return llvm::Error::success();
  }

  /// Returns the floating network.
  minuet_plan* plan() const { return plan_.get(); }
  const std::vector<VoxelCloud>& clouds() const { return clouds_; }
  int runs() const { return runs_; }

  llvm::Expected<PlanHandle> open(const std::string& description) const { return open(description, dtype_); }

  /// Makes a plan ready to run on the clouds.
  llvm::Expected<NetworkRun> load(PlanHandle plan) {
    ++runs_;
    int64_t rows = 1;
    for (const VoxelCloud& cloud : clouds_) rows = std::max(rows, cloud.count());
    return NetworkRun::open(session_, std::move(plan), dtype_, rows, network_.needs_batch_size);
  }

  /// Returns the description of a network with the results of all layers as outputs.
  static llvm::Expected<std::string> observe(minuet_plan* plan) {
    return text_of([&](char* buffer, size_t size, size_t* needed) {
      return minuet_plan_observe(plan, buffer, size, needed);
    });
  }

  /// Returns the description of the network in which the layers compute in 8 bits that are in `wanted` and
  /// can. Sets `is_int8` of all layers, and `reason` of those in `wanted` that cannot.
  llvm::Expected<std::string> describe(std::vector<QuantizedLayer>& layers,
                                       const std::set<std::string>& wanted) const {
    std::vector<const char*> names;
    std::vector<float> ranges;
    for (const QuantizedLayer& layer : layers) {
      names.push_back(layer.name.c_str());
      ranges.push_back(static_cast<float>(layer.range));
    }
    std::vector<int32_t> is_int8(layers.size());
    const minuet_floating_visitor keep_reason = [](int32_t number, const char* reason, void* user) {
      (*static_cast<std::vector<QuantizedLayer>*>(user))[static_cast<size_t>(number)].reason = reason;
    };
    MINUET_ASSIGN(std::string text, text_of([&](char* buffer, size_t size, size_t* needed) {
                    for (size_t i = 0; i < layers.size(); ++i) {
                      is_int8[i] = wanted.count(layers[i].name) != 0 ? 1 : 0;
                      layers[i].reason.clear();
                    }
                    return minuet_plan_quantize(plan_.get(), names.data(), ranges.data(), is_int8.data(),
                                                static_cast<int32_t>(names.size()), keep_reason, &layers,
                                                buffer, size, needed);
                  }));
    for (size_t i = 0; i < layers.size(); ++i) layers[i].is_int8 = is_int8[i] != 0;
    return text;
  }

 private:
  /// The plan that makes descriptions has this dtype, in which it has the numbers of the weights file. They
  /// decide whether sums of integers could overflow.
  static constexpr minuet_dtype kDescribed = MINUET_F32;

  llvm::Expected<PlanHandle> open(const std::string& description, minuet_dtype dtype) const {
    NetworkChoice choice = network_;
    choice.description = description;
    minuet_plan_info info;
    return open_network(session_.context.get(), choice, dtype, info);
  }

  const Session& session_;
  const minuet_dtype dtype_;
  NetworkChoice network_;
  const std::vector<VoxelCloud>& clouds_;
  PlanHandle plan_;
  int runs_ = 0;
};

/// Finds what depends on the error of the network's outputs.
class Search {
 public:
  Search(Quantizer& quantizer, const QuantizationChoice& choice, const std::function<void(std::string)>& say)
      : quantizer_(quantizer), choice_(choice), say_(say) {}

  /// Runs the floating network, and finds the ranges of all layers.
  llvm::Error calibrate(QuantizationReport& report) {
    say_("running the network in floating numbers");
    MINUET_ASSIGN(const std::vector<minuet_tensor_info> own, query_outputs(quantizer_.plan()));
    MINUET_ASSIGN(observed_text_, Quantizer::observe(quantizer_.plan()));
    MINUET_ASSIGN(PlanHandle plan, quantizer_.open(observed_text_));
    MINUET_ASSIGN(NetworkRun observed, quantizer_.load(std::move(plan)));
    const std::vector<minuet_tensor_info>& infos = observed.infos();
    std::vector<Magnitudes> magnitudes(infos.size());
    const std::vector<VoxelCloud>& clouds = quantizer_.clouds();
    for (size_t cloud = 0; cloud < clouds.size(); ++cloud) {
      MINUET_ASSIGN(HostOutputs values, observed.run(clouds[cloud]));
      // The layers come first, in their order, because an output follows from them.
      std::vector<size_t> order(infos.size());
      std::iota(order.begin(), order.end(), size_t{0});
      std::stable_partition(order.begin(), order.end(),
                            [&](size_t i) { return !layer_of(infos[i]).empty(); });
      for (const size_t i : order) {
        if (!magnitudes[i].add(values[i])) return refuse_result(infos[i], cloud, clouds.size());
      }
      // The network's own outputs come first. They may be results of layers, too.
      values.resize(own.size());
      references_.push_back(std::move(values));
    }
    for (const minuet_tensor_info& output : own)
      report.outputs.push_back({output.name, output.element != MINUET_ELEMENT_I32, {}});
    for (size_t i = 0; i < infos.size(); ++i) {
      const llvm::StringRef name = layer_of(infos[i]);
      if (name.empty()) continue;
      QuantizedLayer layer;
      layer.name = name.str();
      MINUET_ASSIGN(layer.range, checked_range(name, magnitudes[i].range(choice_.method, choice_.percentile),
                                               choice_.method));
      report.layers.push_back(std::move(layer));
    }
    return check_floating(report.layers);
  }

  /// Chooses the layers that compute in 8 bits.
  llvm::Error choose(QuantizationReport& report) {
    std::set<std::string> wanted;
    for (const QuantizedLayer& layer : report.layers) {
      if (!llvm::is_contained(choice_.floating, layer.name)) wanted.insert(layer.name);
    }
    MINUET_ASSIGN(report.description, quantizer_.describe(report.layers, wanted));
    for (QuantizedLayer& layer : report.layers) layer.can_be_int8 = layer.is_int8;
    MINUET_TRY(keep_budget(report, wanted));
    for (QuantizedLayer& layer : report.layers) {
      if (layer.is_int8 || !layer.reason.empty()) continue;
      layer.reason = wanted.count(layer.name) == 0
                         ? "--float names it"
                         : "its own error is among the largest, and --error-budget leaves such convolutions "
                           "floating";
    }
    return llvm::Error::success();
  }

  /// Leaves layers out until the error is within the budget, if there is one.
  llvm::Error keep_budget(QuantizationReport& report, const std::set<std::string>& wanted) {
    if (choice_.error_budget <= 0) return llvm::Error::success();
    MINUET_ASSIGN(const Difference all, error_of(report.description, nullptr));
    if (all.relative() <= choice_.error_budget) return llvm::Error::success();
    MINUET_TRY(find_own_errors(report.layers));
    return leave_out(report, wanted);
  }

  /// Compares the outputs, and the results of all layers, with those of the floating network.
  llvm::Error compare(QuantizationReport& report) {
    say_("comparing the results of all layers");
    MINUET_ASSIGN(report.all_outputs, error_of(report.description, &report));
    MINUET_ASSIGN(const PlanHandle quantized, quantizer_.open(report.description));
    MINUET_ASSIGN(const std::string observed_text, Quantizer::observe(quantized.get()));
    MINUET_ASSIGN(PlanHandle observed, quantizer_.open(observed_text));
    MINUET_ASSIGN(PlanHandle floating, quantizer_.open(observed_text_));
    MINUET_ASSIGN(NetworkRun one, quantizer_.load(std::move(floating)));
    MINUET_ASSIGN(NetworkRun other, quantizer_.load(std::move(observed)));
    std::map<llvm::StringRef, QuantizedLayer*> by_name;
    for (QuantizedLayer& layer : report.layers) by_name[layer.name] = &layer;
    std::map<llvm::StringRef, size_t> outputs;
    for (size_t i = 0; i < one.infos().size(); ++i) outputs[one.infos()[i].name] = i;
    for (const VoxelCloud& cloud : quantizer_.clouds()) {
      MINUET_ASSIGN(const HostOutputs wanted, one.run(cloud));
      MINUET_ASSIGN(const HostOutputs given, other.run(cloud));
      for (size_t i = 0; i < given.size(); ++i) {
        const auto found = by_name.find(layer_of(other.infos()[i]));
        if (found == by_name.end()) continue;
        found->second->difference.add(wanted[outputs.at(other.infos()[i].name)], given[i]);
      }
    }
    return llvm::Error::success();
  }

 private:
  llvm::Error check_floating(const std::vector<QuantizedLayer>& layers) const {
    for (const std::string& name : choice_.floating) {
      if (llvm::any_of(layers, [&](const QuantizedLayer& layer) { return layer.name == name; })) continue;
      std::string names;
      for (const QuantizedLayer& layer : layers) names += (names.empty() ? "" : ", ") + layer.name;
      return bad_input("--float names '{0}', but the network has no such convolution: use {1}", name, names);
    }
    return llvm::Error::success();
  }

  /// Compares the outputs of the network with this description with those of the floating one. `report` gets
  /// the difference of each output, unless it is null.
  llvm::Expected<Difference> error_of(const std::string& description, QuantizationReport* report) {
    MINUET_ASSIGN(PlanHandle plan, quantizer_.open(description));
    MINUET_ASSIGN(NetworkRun run, quantizer_.load(std::move(plan)));
    Difference all;
    for (size_t cloud = 0; cloud < references_.size(); ++cloud) {
      MINUET_ASSIGN(const HostOutputs values, run.run(quantizer_.clouds()[cloud]));
      for (size_t i = 0; i < values.size(); ++i) {
        all.add(references_[cloud][i], values[i]);
        if (report == nullptr) continue;
        QuantizationReport::Output& output = report->outputs[i];
        if (values[i].size() != references_[cloud][i].size() && output.difference.has_same_size)
          report->notes.push_back(note_of_rows(run.infos()[i], references_[cloud][i], values[i]));
        output.difference.add(references_[cloud][i], values[i]);
      }
    }
    return all;
  }

  /// Measures the error of each layer that can compute in 8 bits, with all others in floating numbers.
  llvm::Error find_own_errors(std::vector<QuantizedLayer>& layers) {
    for (size_t i = 0; i < layers.size(); ++i) {
      if (!layers[i].can_be_int8) continue;
      say_("measuring the error of " + layers[i].name + " alone");
      std::vector<QuantizedLayer> alone = layers;
      MINUET_ASSIGN(const std::string description, quantizer_.describe(alone, {layers[i].name}));
      if (!alone[i].is_int8) continue;
      MINUET_ASSIGN(const Difference difference, error_of(description, nullptr));
      layers[i].own_error = difference.relative();
    }
    return llvm::Error::success();
  }

  /// Leaves out the fewest layers with which the error is within the budget, those with the largest errors of
  /// their own first. More layers left out are taken to mean a smaller error.
  llvm::Error leave_out(QuantizationReport& report, const std::set<std::string>& wanted) {
    std::vector<const QuantizedLayer*> order;
    for (const QuantizedLayer& layer : report.layers) {
      if (layer.can_be_int8) order.push_back(&layer);
    }
    std::stable_sort(order.begin(), order.end(), [](const QuantizedLayer* a, const QuantizedLayer* b) {
      return a->own_error > b->own_error;
    });
    const auto describe_without = [&](size_t count) {
      std::set<std::string> kept = wanted;
      for (size_t i = 0; i < count; ++i) kept.erase(order[i]->name);
      return quantizer_.describe(report.layers, kept);
    };
    // Without `fails` layers the error is too large. Without `fits` layers it is not: then all are left out.
    size_t fails = 0, fits = order.size();
    while (fits - fails > 1) {
      const size_t middle = fails + (fits - fails) / 2;
      say_("leaving out " + counted(static_cast<int64_t>(middle), "layer"));
      MINUET_ASSIGN(const std::string description, describe_without(middle));
      MINUET_ASSIGN(const Difference difference, error_of(description, nullptr));
      (difference.relative() <= choice_.error_budget ? fits : fails) = middle;
    }
    MINUET_ASSIGN(report.description, describe_without(fits));
    return llvm::Error::success();
  }

  Quantizer& quantizer_;
  const QuantizationChoice& choice_;
  const std::function<void(std::string)>& say_;
  std::string observed_text_;
  std::vector<HostOutputs> references_;
};

}  // namespace

llvm::Expected<QuantizationReport> quantize_network(const Session& session, minuet_dtype dtype,
                                                    const NetworkChoice& network,
                                                    const std::vector<VoxelCloud>& clouds,
                                                    const QuantizationChoice& choice,
                                                    const std::function<void(std::string)>& say) {
  Quantizer quantizer(session, dtype, network, clouds);
  MINUET_TRY(quantizer.open());
  Search search(quantizer, choice, say);
  QuantizationReport report;
  MINUET_TRY(search.calibrate(report));
  MINUET_TRY(search.choose(report));
  MINUET_TRY(search.compare(report));
  const double error = report.all_outputs.relative();
  if (choice.error_budget > 0 && !(error <= choice.error_budget)) {
    return bad_input(
        "the relative error of the outputs is {0}, which is above --error-budget {1} even if all "
        "convolutions stay floating: give a larger budget, or another --dtype",
        real(error), real(choice.error_budget));
  }
  report.runs = quantizer.runs();
  return report;
}

}  // namespace minuet::tool
