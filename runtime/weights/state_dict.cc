#include "runtime/weights/state_dict.h"

#include <algorithm>
#include <optional>

#include "runtime/weights/list_text.h"
#include "runtime/weights/torch_tensors.h"

namespace minuet {
namespace {

constexpr const char* kUsualKeys[] = {"model_state", "state_dict", "model_state_dict", "model", "net"};

using Entries = std::vector<std::pair<const PickleNode*, const PickleNode*>>;

/// Adds the entries of a list of pairs, from which Python 2 makes an OrderedDict.
bool add_pairs(const Pickle& pickle, const PickleNode& list, Entries& entries) {
  if (list.kind != PickleKind::List) return false;
  for (std::size_t i = 0; i < list.parts.size(); ++i) {
    const PickleNode& pair = pickle.part(list, i);
    const bool is_pair = pair.kind == PickleKind::List || pair.kind == PickleKind::Tuple;
    if (!is_pair || pair.parts.size() != 2) return false;
    entries.emplace_back(&pickle.part(pair, 0), &pickle.part(pair, 1));
  }
  return true;
}

/// Returns the entries of a dict or an OrderedDict, and nullopt for other nodes.
std::optional<Entries> entries_of(const Pickle& pickle, const PickleNode& node) {
  Entries entries;
  std::size_t first = 0;
  if (node.kind == PickleKind::Call &&
      global_name(pickle, pickle.part(node, 0)) == "collections.OrderedDict") {
    const PickleNode& arguments = pickle.part(node, 1);
    const bool has_pairs = arguments.parts.size() == 1;
    if (arguments.kind != PickleKind::Tuple || arguments.parts.size() > 1) return std::nullopt;
    if (has_pairs && !add_pairs(pickle, pickle.part(arguments, 0), entries)) return std::nullopt;
    first = kPartsOfCall;
  } else if (node.kind != PickleKind::Dict) {
    return std::nullopt;
  }
  for (std::size_t i = first; i + 1 < node.parts.size(); i += 2)
    entries.emplace_back(&pickle.part(node, i), &pickle.part(node, i + 1));
  return entries;
}

bool is_number(const PickleNode& node) {
  return node.kind == PickleKind::Bool || node.kind == PickleKind::Integer || node.kind == PickleKind::Real;
}

const PickleNode* find_value(const Entries& entries, llvm::StringRef key) {
  const PickleNode* found = nullptr;
  for (const auto& [name, value] : entries) {
    if (name->kind == PickleKind::Text && name->text == key)
      found = value;  // As in Python, the last one counts.
  }
  return found;
}

bool has_tensor(const Pickle& pickle, const Entries& entries) {
  return std::any_of(entries.begin(), entries.end(),
                     [&](const auto& entry) { return is_torch_tensor(pickle, *entry.second); });
}

/// Lists the keys of a dict for messages, each with what is there.
std::string keys_text(const Pickle& pickle, const Entries& entries) {
  std::vector<std::string> keys;
  for (const auto& [name, value] : entries) {
    if (keys.size() >= kMostListed) {  // The message only counts the others.
      keys.emplace_back();
      continue;
    }
    std::string what = describe(pickle, *value);
    if (is_torch_tensor(pickle, *value)) what = "a tensor";
    if (const std::optional<Entries> inner = entries_of(pickle, *value))
      what = has_tensor(pickle, *inner) ? "a dict of tensors" : "a dict";
    const std::string text =
        name->kind == PickleKind::Text ? quoted(shown_name(name->text)) : describe(pickle, *name);
    keys.push_back(text + " (" + what + ")");
  }
  return keys.empty() ? "it has no keys" : "its keys are " + list_text(keys);
}

llvm::Expected<StateDict> find_by_key(const Pickle& pickle, Entries entries, llvm::StringRef path) {
  for (llvm::StringRef rest = path; !rest.empty();) {
    const auto [key, below] = rest.split('/');
    const PickleNode* const value = find_value(entries, key);
    std::optional<Entries> found = value ? entries_of(pickle, *value) : std::nullopt;
    if (!found) {
      return make_error(StatusCode::InvalidArgument,
                        "the option weights_key is \"{0}\", but \"{1}\" is {2}: {3}", path, key,
                        value ? "not a dict" : "not a key of its dict", keys_text(pickle, entries));
    }
    entries = std::move(*found);
    rest = below;
  }
  return StateDict{path.str(), std::move(entries)};
}

}  // namespace

llvm::Expected<StateDict> find_state_dict(const Pickle& pickle, llvm::StringRef key) {
  const PickleNode& root_node = pickle.at(pickle.root);
  const std::optional<Entries> root = entries_of(pickle, root_node);
  if (!root) {
    return make_error(
        StatusCode::InvalidArgument,
        "it holds {0} and not a dict of tensors: save the module's state_dict() with torch.save",
        is_torch_tensor(pickle, root_node) ? "one tensor" : describe(pickle, root_node));
  }
  if (!key.empty()) return find_by_key(pickle, *root, key);
  const bool has_one = has_tensor(pickle, *root);
  const bool has_tensors_only = std::all_of(root->begin(), root->end(), [&](const auto& entry) {
    return is_number(*entry.second) || is_torch_tensor(pickle, *entry.second);
  });
  StateDict found;
  int count = 0;
  for (const char* const usual : kUsualKeys) {
    const PickleNode* const value = find_value(*root, usual);
    std::optional<Entries> entries = value ? entries_of(pickle, *value) : std::nullopt;
    if (!entries || !has_tensor(pickle, *entries)) continue;
    ++count;
    found = {usual, std::move(*entries)};
  }
  if (has_one && (has_tensors_only || count == 0)) return StateDict{"", *root};
  if (count == 1) return found;
  return make_error(
      StatusCode::InvalidArgument, "it has {0}; name one with the option weights_key: {1}",
      count == 0 ? "no dict of tensors at its root or under a usual key" : "several dicts of tensors",
      keys_text(pickle, *root));
}

}  // namespace minuet
