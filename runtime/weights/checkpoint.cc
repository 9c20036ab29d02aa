#include "runtime/weights/checkpoint.h"

#include "codegen/base/file_kind.h"
#include "llvm/Support/JSON.h"
#include "runtime/weights/list_text.h"
#include "runtime/weights/state_dict.h"
#include "runtime/weights/torch_tensors.h"

namespace minuet {
namespace {

constexpr std::size_t kLongestName = 4096;
// The name of the pickle is searched in this part of a zip archive, where its directory is.
constexpr std::size_t kDirectoryBytes = 1u << 16;
constexpr std::size_t kTarMarkAt = 257;

bool is_tar(llvm::StringRef bytes) { return bytes.substr(kTarMarkAt, 5) == "ustar"; }

/// Returns true for the count of batches of a batch norm, which inference does not need.
bool is_batch_count(llvm::StringRef name, const PickleNode& value) {
  return value.kind == PickleKind::Integer && name.rsplit('.').second == "num_batches_tracked";
}

llvm::Error refuse_values(const StateDict& dict, const std::vector<std::string>& values) {
  return make_error(
      StatusCode::InvalidArgument, "{0} has other values than tensors: {1}; {2}",
      dict.path.empty() ? "its root dict" : "its dict " + quoted(dict.path), list_text(values),
      "name another dict with the option weights_key, or save a state_dict() that has none of them");
}

llvm::Expected<StoredTensors> read_dict(TorchArchive& archive, const StateDict& dict) {
  StoredTensors stored;
  stored.is_checkpoint = true;
  std::vector<std::string> others;
  for (const auto& [key, value] : dict.entries) {
    if (key->kind != PickleKind::Text || key->text.size() > kLongestName || !llvm::json::isUTF8(key->text)) {
      return make_error(StatusCode::InvalidArgument,
                        "a key in the dict of tensors is not a text of at most {0} bytes in UTF-8",
                        kLongestName);
    }
    const std::string name = key->text.str();
    if (is_batch_count(name, *value)) continue;
    if (!is_torch_tensor(archive.object(), *value)) {
      // Only the first few are described, because the message counts the others.
      others.push_back(others.size() < kMostListed
                           ? quoted(name) + " is " + describe(archive.object(), *value)
                           : std::string());
      continue;
    }
    llvm::Expected<StoredTensor> tensor = read_torch_tensor(archive, *value);
    if (!tensor) return annotate(tensor.takeError(), "tensor " + quoted(name));
    if (!stored.tensors.emplace(name, std::move(*tensor)).second)
      return make_error(StatusCode::InvalidArgument, "the name \"{0}\" is in its dict twice", name);
  }
  if (!others.empty()) return refuse_values(dict, others);
  if (!stored.tensors.empty()) return stored;
  return make_error(StatusCode::InvalidArgument, "its dict \"{0}\" has no tensors", dict.path);
}

}  // namespace

bool is_checkpoint_file(llvm::StringRef bytes) {
  const std::optional<KnownFile> file = identify_file(bytes);
  if (file && file->kind == FileKind::Safetensors) return false;
  if (file && file->kind == FileKind::Zip) return bytes.take_back(kDirectoryBytes).contains("/data.pkl");
  return is_tar(bytes) || (file && (file->kind == FileKind::TorchZip || file->kind == FileKind::Pickle));
}

llvm::Expected<StoredTensors> read_checkpoint(llvm::StringRef bytes, llvm::StringRef key) {
  if (is_tar(bytes)) {
    return make_error(
        StatusCode::InvalidArgument,
        "it is a tar archive: unpack it, or, if torch.save wrote it before version 0.1.10, load "
        "it in Python and save it again with a newer PyTorch");
  }
  MINUET_ASSIGN(TorchArchive archive, TorchArchive::open(bytes));
  MINUET_ASSIGN(const StateDict dict, find_state_dict(archive.object(), key));
  return read_dict(archive, dict);
}

}  // namespace minuet
