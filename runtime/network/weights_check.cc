#include "runtime/network/weights_check.h"

#include <algorithm>
#include <map>
#include <set>

#include "runtime/network/weights_fields.h"
#include "runtime/program/ops/convolution.h"

namespace minuet {
namespace {

std::string count_text(std::size_t count) {
  return std::to_string(count) + (count == 1 ? " tensor" : " tensors");
}

class WeightsCheck {
 public:
  WeightsCheck(WeightsFile& file, const Program& program)
      : file_(file), program_(program), fields_(file, program) {}

  llvm::Error run() {
    for (const ProgramLayer& layer : program_.layers) {
      const ConvolutionProblem* const problem = convolution_of(layer);
      if (problem != nullptr) {
        if (llvm::Error error = check_carries_over(file_.options().order, *problem)) {
          add_foreign(layer.name, take_status(std::move(error)).message());
        }
      }
      look_for(layer, problem);
    }
    check_spconv_versions();
    find_unused();
    if (foreign_.empty() && missing_.empty() && misshapen_.empty() && unused_.empty()) {
      return llvm::Error::success();
    }
    return llvm::make_error<StatusError>(StatusCode::InvalidArgument, message(), detail());
  }

 private:
  void add_foreign(const std::string& layer, const std::string& reason) {
    const auto same =
        std::find_if(foreign_.begin(), foreign_.end(), [&](const auto& one) { return one.first == reason; });
    if (same == foreign_.end()) {
      foreign_.push_back({reason, {layer}});
    } else {
      same->second.push_back(layer);
    }
  }

  /// Looks for the layer's parameters. `problem` is null if the layer is no convolution, so that it has no
  /// weight.
  void look_for(const ProgramLayer& layer, const ConvolutionProblem* problem) {
    for (const ParameterName& parameter : parameter_names(layer)) {
      needed_.insert(parameter.name);
      const std::string* stored = file_.find(parameter.name);
      if (!stored) {
        missing_.push_back(parameter.name);
        continue;
      }
      used_.insert(*stored);
      const std::vector<int64_t> shape = llvm::cantFail(file_.shape(*stored));
      const bool is_weight = parameter.role == ParameterRole::Weight;
      const auto shapes = is_weight ? file_.weight_shapes(parameter.name, *problem)
                                    : file_.vector_shapes(parameter.shape.front());
      if (std::find(shapes.begin(), shapes.end(), shape) != shapes.end()) {
        if (is_weight) {
          if (const i32 version = file_.spconv_version(parameter.name, *problem))
            by_version_[version].push_back(quoted(*stored));
        }
        continue;
      }
      is_rearranged_ |= is_weight && element_count(shape) == element_count(shapes.front());
      std::string needs;
      for (const auto& possible : shapes) needs += (needs.empty() ? "" : " or ") + shape_text(possible);
      misshapen_.push_back(quoted(*stored) + " has shape " + shape_text(shape) + ", but the network needs " +
                           needs);
    }
    if (!layer.batch_norm.empty()) pass_over_counter(layer.batch_norm);
    for (const AffineNames& affine : layer.affines) {
      if (!affine.batch_norm.empty()) pass_over_counter(affine.batch_norm);
    }
  }

  /// PyTorch stores num_batches_tracked with every batch norm. Inference does not need this tensor, which is
  /// therefore not reported as unused.
  void pass_over_counter(const std::string& batch_norm) {
    if (const std::string* stored = file_.find(batch_norm + ".num_batches_tracked")) used_.insert(*stored);
  }

  /// Finds out which version of spconv stored the file, and reports weights whose shapes are those of
  /// spconv 1.x beside weights whose shapes are those of 2.x. No version of spconv stores both, so some of
  /// them are not the layers' weights.
  void check_spconv_versions() {
    if (by_version_.size() == 1) file_.set_spconv_version(by_version_.begin()->first);
    if (by_version_.size() < 2) return;
    misshapen_.push_back("the shapes of " + list_text(by_version_[1]) +
                         " are spconv 1.x's [kernel, C_in, C_out], but those of " +
                         list_text(by_version_[2]) +
                         " are spconv 2.x's [C_out, kernel, C_in]: one version must have stored all of them");
  }

  void find_unused() {
    const bool allowed = file_.options().allow_unused;
    // Holds the prefixes of needed parameters, for example "a.conv" for "a.conv.weight".
    std::set<std::string> parts;
    for (const std::string& name : needed_) parts.insert(llvm::StringRef(name).rsplit('.').first.str());
    // If the description gives a layer no batch norm, or a layer norm no parameters, the prefix that these
    // would have is added too.
    for (const ProgramLayer& layer : program_.layers) {
      parts.insert(layer.origin.batch_norm);
      parts.insert(layer.bare_norms.begin(), layer.bare_norms.end());
    }
    for (const auto& [name, stored] : file_.names()) {
      if (used_.count(stored) != 0) continue;
      // A tensor beside a parameter, for example the bias of a layer that is described without one, must not
      // be ignored, because that would change the result of the layer.
      const bool is_beside = parts.count(llvm::StringRef(name).rsplit('.').first.str()) != 0;
      if (!allowed || is_beside) unused_.push_back(stored);
      if (is_beside) adjacent_unused_.insert(stored);
    }
    if (!allowed) unused_.insert(unused_.end(), file_.outside().begin(), file_.outside().end());
    std::sort(unused_.begin(), unused_.end());
  }

  /// Returns the unused tensor whose name is most similar to `name` if a typing error may explain the
  /// difference. Otherwise returns an empty string.
  std::string nearest(const std::string& name) const {
    unsigned least = static_cast<unsigned>(std::max<std::size_t>(2, name.size() / 5)) + 1;
    std::string nearest;
    for (const auto& [other, stored] : file_.names()) {
      if (used_.count(stored) != 0) continue;
      const unsigned distance = llvm::StringRef(other).edit_distance(name, /*AllowReplacements=*/true, least);
      if (distance >= least) continue;
      least = distance;
      nearest = stored;
    }
    return nearest;
  }

  std::string hint(const std::string& name) const {
    const auto [layer, part] = llvm::StringRef(name).rsplit('.');
    const std::string kernel = layer.str() + ".kernel";
    if (part == "weight" && file_.names().count(kernel))
      return " (there is " + quoted(kernel) + ": see the option weights_order)";
    const std::string near = nearest(name);
    return near.empty() ? "" : " (there is " + quoted(near) + ")";
  }

  /// For each prefix of the tensor name `stored` whose removal leaves the name of a parameter of the network,
  /// adds 1 to found[prefix]. Ignores tensors that a layer uses.
  void add_prefixes(const std::string& stored, std::map<std::string, std::size_t>& found) const {
    if (used_.count(stored) != 0) return;
    for (std::size_t dot = stored.find('.'); dot != std::string::npos; dot = stored.find('.', dot + 1)) {
      if (needed_.count(file_.renamed(stored.substr(dot + 1)))) ++found[stored.substr(0, dot + 1)];
    }
  }

  /// Returns the prefix whose removal from tensor names gives the most parameter names of the network. If no
  /// prefix gives more than are found now, returns an empty string. `matches` receives the number of names
  /// that are found.
  std::string better_prefix(std::size_t& matches) const {
    std::map<std::string, std::size_t> found;
    for (const auto& [name, stored] : file_.names()) add_prefixes(stored, found);
    for (const std::string& stored : file_.outside()) add_prefixes(stored, found);
    std::string best;
    matches = needed_.size() - missing_.size();
    for (const auto& [prefix, count] : found) {
      if (count <= matches) continue;
      matches = count;
      best = prefix;
    }
    return best;
  }

  std::string missing_text() const {
    std::vector<std::string> names;
    for (const std::string& name : missing_) {
      // A shipped weights map renames the tensors of the network's authors, so the user knows only their
      // names.
      const std::string expected = file_.options().names_are_shipped ? file_.expected_name(name) : name;
      names.push_back(quoted(expected) + (names.size() < kMostListed ? hint(name) : ""));
    }
    return count_text(names.size()) + (names.size() == 1 ? " is" : " are") + " missing: " + list_text(names);
  }

  /// Returns the quoted names of the unused tensors, except for those that begin with `prefix` if it is not
  /// empty. If `beside` is true, these are the tensors beside parameters of a layer, otherwise all others.
  /// Two tensors are beside each other if their names are equal up to the last dot.
  std::vector<std::string> unused_names(const std::string& prefix, bool beside) const {
    std::vector<std::string> names;
    for (const std::string& name : unused_) {
      const bool is_explained = !prefix.empty() && name.compare(0, prefix.size(), prefix) == 0;
      if (!is_explained && adjacent_unused_.count(name) == (beside ? 1 : 0)) names.push_back(quoted(name));
    }
    return names;
  }

  std::string unused_text(const std::string& prefix) const {
    std::vector<std::string> beside = unused_names(prefix, true), others = unused_names(prefix, false);
    const auto text_of = [](const std::vector<std::string>& names, const char* if_one, const char* if_more) {
      if (names.empty()) return std::string();
      return "no layer uses " + count_text(names.size()) + ": " + list_text(names) +
             (names.size() == 1 ? if_one : if_more);
    };
    // If there are other mistakes, the unused tensors are probably missing parameters under other names. The
    // message then does not say which of them the option allow_unused ignores.
    if (!foreign_.empty() || !missing_.empty() || !misshapen_.empty()) {
      beside.insert(beside.end(), others.begin(), others.end());
      std::sort(beside.begin(), beside.end());
      return text_of(beside, "", "");
    }
    const std::string refused = text_of(
        beside,
        "; it belongs to a layer that uses other parameters, so ignoring it would change the layer's result",
        "; they belong to layers that use other parameters, so ignoring them would change the layers' "
        "results");
    const std::string passed =
        text_of(others, "; the option allow_unused ignores it", "; the option allow_unused ignores them");
    return refused + (refused.empty() || passed.empty() ? "" : "; ") + passed;
  }

  std::string message() const {
    std::vector<std::string> parts;
    if (!foreign_.empty()) {
      std::vector<std::string> reasons;
      for (const auto& [reason, layers] : foreign_) reasons.push_back(list_text(layers) + ": " + reason);
      parts.push_back(list_text(reasons, "; "));
    }
    std::size_t matches = 0;
    const std::string prefix = better_prefix(matches);
    if (!prefix.empty()) {
      parts.push_back(
          llvm::formatv("{0} of {1} tensors have \"{2}\" in front of their names: the option "
                        "weights_prefix \"{2}\" strips it",
                        matches, needed_.size(), prefix));
    } else if (!missing_.empty()) {
      parts.push_back(missing_text());
    }
    if (!misshapen_.empty()) parts.push_back(list_text(misshapen_, "; "));
    if (is_rearranged_)
      parts.push_back("if another engine stored the weights, name that engine with the option weights_order");
    parts.push_back(unused_text(prefix));
    parts.push_back(fields_.text());
    std::string text;
    for (const std::string& part : parts) text += (text.empty() || part.empty() ? "" : "; ") + part;
    return text;
  }

  /// Returns the detail of the error, which has one line per mistake.
  std::string detail() const {
    std::string text;
    for (const auto& [reason, layers] : foreign_) {
      for (const std::string& layer : layers)
        text += "cannot be carried over: " + layer + ": " + reason + "\n";
    }
    for (const std::string& name : missing_) text += "missing: " + quoted(name) + "\n";
    for (const std::string& what : misshapen_) text += "of another shape: " + what + "\n";
    for (const std::string& name : unused_) text += "unused: " + quoted(name) + "\n";
    for (const std::string& line : fields_.lines()) text += line + "\n";
    return text;
  }

  WeightsFile& file_;
  const Program& program_;
  // Finds out which fields of the network's description should be changed to fit the file.
  const WeightsFields fields_;
  // `needed_` contains the names of the network's parameters, and `used_` those of the tensors in the file
  // that the network reads.
  std::set<std::string> needed_, used_;
  // Holds the reasons why the weights of layers cannot be used, each with the names of these layers.
  std::vector<std::pair<std::string, std::vector<std::string>>> foreign_;
  std::vector<std::string> missing_, misshapen_, unused_;
  // Lists the weights in the file whose shapes tell the major version of spconv, by version.
  std::map<i32, std::vector<std::string>> by_version_;
  // Holds the names in the file of the unused tensors that are beside parameters of a layer.
  std::set<std::string> adjacent_unused_;
  // The flag is true if a weight has the right number of elements but another shape.
  bool is_rearranged_ = false;
};

}  // namespace

namespace {

[[gnu::cold]] std::vector<ParameterName> names_of_chain(const ProgramLayer& layer) {
  std::vector<ParameterName> names;
  for (std::size_t i = 0; i < layer.affines.size(); ++i) {
    const AffineNames& affine = layer.affines[i];
    if (affine.factor != 0) continue;
    const auto add_vector = [&](const std::string& name, ParameterRole role) {
      const i64 channels = layer.problem.kind().shape(layer.problem).in_channels;
      names.push_back({name, role, {channels}, static_cast<i32>(i)});
    };
    if (affine.batch_norm.empty()) {
      add_vector(affine.scale, ParameterRole::Scale);
      add_vector(affine.shift, ParameterRole::Shift);
      continue;
    }
    if (affine.is_affine) {
      add_vector(affine.batch_norm + ".weight", ParameterRole::NormWeight);
      add_vector(affine.batch_norm + ".bias", ParameterRole::NormBias);
    }
    add_vector(affine.batch_norm + ".running_mean", ParameterRole::NormMean);
    add_vector(affine.batch_norm + ".running_var", ParameterRole::NormVariance);
  }
  return names;
}

}  // namespace

std::vector<ParameterName> parameter_names(const ProgramLayer& layer) {
  if (convolution_of(layer) == nullptr) return names_of_chain(layer);
  const ConvolutionProblem& problem = *convolution_of(layer);
  const ConvolutionProblem forward = forward_of(problem);
  std::vector<ParameterName> names{{layer.weight,
                                    ParameterRole::Weight,
                                    {kernel_volume(forward), group_inputs(forward), forward.out_channels}}};
  const auto add_vector = [&](const std::string& name, ParameterRole role) {
    names.push_back({name, role, {problem.out_channels}});
  };
  if (!layer.bias.empty()) add_vector(layer.bias, ParameterRole::Bias);
  if (!layer.scale.empty()) {
    add_vector(layer.scale, ParameterRole::NormWeight);
    add_vector(layer.shift, ParameterRole::NormBias);
  }
  if (layer.batch_norm.empty()) return names;
  if (layer.is_affine) {
    add_vector(layer.batch_norm + ".weight", ParameterRole::NormWeight);
    add_vector(layer.batch_norm + ".bias", ParameterRole::NormBias);
  }
  add_vector(layer.batch_norm + ".running_mean", ParameterRole::NormMean);
  add_vector(layer.batch_norm + ".running_var", ParameterRole::NormVariance);
  return names;
}

llvm::Error check_weights(WeightsFile& file, const Program& program) {
  if (llvm::Error error = WeightsCheck(file, program).run()) {
    return annotate(std::move(error), "weights file " + file.path());
  }
  return llvm::Error::success();
}

}  // namespace minuet
