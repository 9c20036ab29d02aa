#include "runtime/weights/weights_file.h"

#include <algorithm>
#include <set>

#include "codegen/base/json_text.h"
#include "llvm/ADT/STLExtras.h"

namespace minuet {
namespace {

bool calls_weights_kernels(WeightsOrder order) {
  return order == WeightsOrder::Minkowski || order == WeightsOrder::TorchSparse;
}

/// Returns the entry whose key is `name`. If there is none, returns the entry with the longest key that ends
/// in a dot and is a prefix of `name`, or null.
const std::pair<const std::string, std::string>* entry_of(const std::map<std::string, std::string>& names,
                                                          const std::string& name) {
  const auto own = names.find(name);
  if (own != names.end()) return &*own;
  for (std::size_t end = name.rfind('.'); end != std::string::npos && end > 0;
       end = name.rfind('.', end - 1)) {
    const auto above = names.find(name.substr(0, end + 1));
    if (above != names.end()) return &*above;
  }
  return nullptr;
}

}  // namespace

llvm::Expected<std::map<std::string, std::string>> parse_names(llvm::StringRef json) {
  const auto refuse = [](const std::string& why) {
    return make_error(
        StatusCode::InvalidArgument,
        "the option weights_map must be a JSON object, {{\"the file's name\": \"the network's name\", "
        "...}: {0}",
        why);
  };
  llvm::Expected<llvm::json::Value> value = parse_json(json);
  if (!value) return refuse(llvm::toString(value.takeError()));
  const llvm::json::Object* object = value->getAsObject();
  if (!object) return refuse("it is not an object");
  std::map<std::string, std::string> names;
  for (const auto& entry : *object) {
    const llvm::StringRef from = entry.first;
    const auto to = entry.second.getAsString();
    if (!to || to->empty() || from.empty()) return refuse("\"" + from.str() + "\" has no new name");
    if ((from.back() == '.') != (to->back() == '.')) {
      return refuse("\"" + from.str() + "\" and \"" + to->str() + "\" must both end in a dot, or neither");
    }
    names.emplace(from.str(), to->str());
  }
  return names;
}

llvm::Expected<WeightsFile> WeightsFile::open(llvm::StringRef path, WeightsOptions options) {
  WeightsFile file;
  MINUET_ASSIGN(file.file_, TensorFile::open(path, options.key));
  file.options_ = std::move(options);
  file.drop_module_prefix();
  llvm::Error error = file.check_weights_order_mark();
  if (!error) error = file.name_tensors();
  if (error) return annotate(std::move(error), ("weights file " + path).str());
  return file;
}

/// Sets the prefix "module." if all names of a checkpoint have it and the user neither gave a prefix nor maps
/// names that begin with it. PyTorch's DataParallel adds it to all names of a network.
void WeightsFile::drop_module_prefix() {
  const auto has_prefix = [](llvm::StringRef name) { return name.take_front(7) == "module."; };
  if (!file_.is_checkpoint() || !options_.prefix.empty()) return;
  for (const auto& [from, to] : options_.names) {
    if (has_prefix(from)) return;
  }
  const std::vector<std::string> names = file_.names();
  if (std::all_of(names.begin(), names.end(), has_prefix)) options_.prefix = "module.";
}

llvm::Error WeightsFile::check_weights_order_mark() {
  const auto mark = file_.metadata().find(kWeightsOrderMark);
  if (mark == file_.metadata().end()) return llvm::Error::success();
  llvm::Expected<WeightsOrder> marked = parse_weights_order(mark->second);
  if (!marked) return annotate(marked.takeError(), kWeightsOrderMark);
  if (options_.order_given && options_.order != *marked) {
    return make_error(StatusCode::InvalidArgument,
                      "the file was converted (its {0} is \"{1}\"), so it cannot be read with the option "
                      "weights_order \"{2}\": leave that option out or set it to \"{1}\"",
                      kWeightsOrderMark, mark->second, weights_order_name(options_.order));
  }
  options_.order = *marked;
  return llvm::Error::success();
}

llvm::Error WeightsFile::name_tensors() {
  std::set<std::string> unused_entries;
  for (const auto& entry : options_.names) unused_entries.insert(entry.first);
  for (const std::string& stored : file_.names()) {
    if (llvm::StringRef(stored).take_front(options_.prefix.size()) != options_.prefix) {
      outside_.push_back(stored);
      continue;
    }
    const std::string own = stored.substr(options_.prefix.size());
    if (const auto* entry = entry_of(options_.names, own)) unused_entries.erase(entry->first);
    const std::string name = renamed(own);
    const auto [place, is_new] = names_.emplace(name, stored);
    if (!is_new) {
      return make_error(
          StatusCode::InvalidArgument,
          "{0} gives \"{1}\" and \"{2}\" the same name \"{3}\": names must be distinct",
          options_.names_are_shipped ? "the weights map of the network" : "the option weights_map",
          place->second, stored, name);
    }
  }
  if (names_.empty() && !options_.prefix.empty()) {
    return make_error(StatusCode::InvalidArgument,
                      "the option weights_prefix is \"{0}\", but no tensor's name begins with it{1}: correct "
                      "or omit the prefix",
                      options_.prefix,
                      outside_.empty() ? "" : " (the first name is \"" + outside_.front() + "\")");
  }
  if (!unused_entries.empty() && !options_.names_are_shipped) {
    return make_error(
        StatusCode::InvalidArgument,
        "the entry \"{0}\" of the option weights_map applies to no tensor: correct or remove it",
        *unused_entries.begin());
  }
  return llvm::Error::success();
}

std::string WeightsFile::renamed(const std::string& stored) const {
  const auto* const entry = entry_of(options_.names, stored);
  if (entry == nullptr) return stored;
  return entry->second + (entry->first.back() == '.' ? stored.substr(entry->first.size()) : "");
}

std::string WeightsFile::expected_name(const std::string& name) const {
  for (const auto& [from, to] : options_.names) {
    if (to == name) return from;
    if (to.back() == '.' && llvm::StringRef(name).take_front(to.size()) == to)
      return from + name.substr(to.size());
  }
  return name;
}

const std::string* WeightsFile::find(const std::string& name) const {
  auto found = names_.find(name);
  const llvm::StringRef weight = ".weight";
  if (found == names_.end() && calls_weights_kernels(options_.order) &&
      llvm::StringRef(name).take_back(weight.size()) == weight) {
    found = names_.find(name.substr(0, name.size() - weight.size()) + ".kernel");
  }
  return found == names_.end() ? nullptr : &found->second;
}

llvm::Expected<const std::string*> WeightsFile::need(const std::string& name) const {
  if (const std::string* stored = find(name)) return stored;
  return no_tensor_error(path(), name);
}

std::vector<std::vector<int64_t>> WeightsFile::weight_shapes(const std::string& name,
                                                             const ConvolutionProblem& problem) const {
  const std::string* stored = find(name);
  std::vector<std::vector<int64_t>> shapes;
  for (const WeightLayout& layout : weight_layouts(options_.order, problem, stored ? *stored : name)) {
    shapes.emplace_back(layout.shape.begin(), layout.shape.end());
  }
  return shapes;
}

i32 WeightsFile::spconv_version(const std::string& name, const ConvolutionProblem& problem) const {
  const std::string* const stored = find(name);
  if (stored == nullptr) return 0;
  const std::vector<int64_t> shape = llvm::cantFail(file_.shape(*stored));
  const std::vector<WeightLayout> layouts = weight_layouts(options_.order, problem, *stored);
  bool is_ambiguous = false;
  const WeightLayout* const layout =
      find_layout(layouts, std::vector<i64>(shape.begin(), shape.end()), problem, is_ambiguous);
  return layout == nullptr || is_ambiguous || kernel_volume(problem) * group_inputs(problem) == 1
             ? 0
             : layout->spconv_version;
}

std::vector<std::vector<int64_t>> WeightsFile::vector_shapes(i64 channels) const {
  return minuet::vector_shapes(options_.order, channels);
}

llvm::Expected<std::vector<float>> WeightsFile::read_weight(const std::string& name,
                                                            const ConvolutionProblem& problem) const {
  MINUET_ASSIGN(const std::string* stored, need(name));
  MINUET_ASSIGN(const std::vector<int64_t> shape, file_.shape(*stored));
  std::vector<WeightLayout> layouts = weight_layouts(options_.order, problem, *stored);
  llvm::erase_if(layouts, [&](const WeightLayout& layout) {
    return known_spconv_version_ != 0 && layout.spconv_version != 0 &&
           layout.spconv_version != known_spconv_version_;
  });
  bool is_ambiguous = false;
  const std::vector<i64> wanted(shape.begin(), shape.end());
  const WeightLayout* fitting = find_layout(layouts, wanted, problem, is_ambiguous);
  if (fitting == nullptr) fitting = &layouts.front();
  if (is_ambiguous) {
    return make_error(StatusCode::InvalidArgument, "weights file {0}: \"{1}\": {2}", path(), *stored,
                      ambiguity_text(options_.order, shape_text(shape)));
  }
  MINUET_ASSIGN(
      const std::vector<float> values,
      file_.read(*stored, {fitting->shape.begin(), fitting->shape.end()}, options_.allow_non_finite));
  return to_minuet_order(*fitting, problem, values);
}

llvm::Expected<std::vector<float>> WeightsFile::read_vector(const std::string& name, i64 channels) const {
  MINUET_ASSIGN(const std::string* stored, need(name));
  MINUET_ASSIGN(const std::vector<int64_t> shape, file_.shape(*stored));
  for (const std::vector<int64_t>& possible : vector_shapes(channels)) {
    if (shape == possible) return file_.read(*stored, possible, options_.allow_non_finite);
  }
  // The shape does not fit, so this call returns an error that says why.
  return file_.read(*stored, {channels}, options_.allow_non_finite);
}

}  // namespace minuet
