// Opens files of torch.save: the zip form, and the older form of several pickles with the storages behind
// them. A file has one pickled object, whose tensors name storages, and the bytes of the storages.
#pragma once

#include <map>
#include <optional>

#include "runtime/weights/pickle.h"
#include "runtime/weights/zip_archive.h"

namespace minuet {

/// Describes an element type by its names in PyTorch and in safetensors files.
struct TorchType {
  const char* storage;  // Names the class of its storages, for example "FloatStorage".
  const char* dtype;    // Names the type in PyTorch, for example "float32".
  const char* type;     // Names the type in safetensors files, for example "F32".
  int bytes;            // Counts the bytes of an element.
};
/// Returns the type of this dtype of PyTorch, or null.
const TorchType* find_torch_dtype(llvm::StringRef dtype);

/// Describes a storage as the pickle names it.
struct TorchStorage {
  const TorchType* type = nullptr;
  llvm::StringRef key;
  std::uint64_t elements = 0;
};
/// Reads the name of a storage from a Persistent node.
llvm::Expected<TorchStorage> read_storage(const Pickle& pickle, const PickleNode& node);

class TorchArchive {
 public:
  /// Returns InvalidArgument if the file is damaged or in no form of torch.save, or if its numbers are stored
  /// with the highest byte first. The archive points into `bytes`.
  static llvm::Expected<TorchArchive> open(llvm::StringRef bytes);

  const Pickle& object() const { return object_; }
  /// Returns the bytes of a storage. Returns InvalidArgument if it is missing, damaged, or not of the size
  /// that the pickle gives it.
  llvm::Expected<llvm::StringRef> bytes_of(const TorchStorage& storage);

 private:
  llvm::Error open_zip(llvm::StringRef bytes);
  llvm::Error open_pickles(llvm::StringRef bytes);
  llvm::Error read_storages(const Pickle& keys, llvm::StringRef rest);

  Pickle object_;
  std::optional<ZipArchive> zip_;  // Has no value for the older form.
  std::string folder_;             // Holds the folder in the zip archive, with its slash.
  struct PlacedStorage {
    TorchStorage storage;
    llvm::StringRef bytes;
    bool is_placed = false;  // Says whether the file has the storage.
  };
  std::map<std::string, PlacedStorage> storages_;  // Has the storages of the older form by their keys.
};

}  // namespace minuet
