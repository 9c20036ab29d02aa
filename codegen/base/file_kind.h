// Recognizes the kind of a file by its first bytes, so that a reader can explain why it cannot read the file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "codegen/base/error.h"
#include "llvm/ADT/StringRef.h"

namespace minuet {

enum class FileKind : std::uint8_t {
  LfsPointer,  ///< The file has the text that Git LFS stores in place of a large file.
  ShardIndex,  ///< The file is JSON and names the parts of a sharded checkpoint.
  WebPage,     ///< The file is HTML or XML.
  TorchZip,    ///< The file has the zip format of torch.save.
  Pickle,      ///< The file has the older pickle format of torch.save.
  Zip,
  Compressed,  ///< The file is compressed by gzip, bzip2, xz or zstd.
  Hdf5,
  NumpyArray,
  Gguf,
  Onnx,
  Safetensors,
  Ply,
  Pcd,
  Las,  ///< The file is a point cloud in LAS, LAZ or E57.
  Picture,
  Document,
  Utf16,
  Json,
  Text,  ///< The file is any other text.
};

struct KnownFile {
  FileKind kind;
  /// Is true if a file of raw numbers is very unlikely to begin with the same bytes by chance.
  bool is_certain = false;
  std::string is;  ///< Describes the file, such as "a PLY file".
  /// Holds the file names in the index of a sharded checkpoint, or is empty if the index is incomplete.
  std::vector<std::string> parts;
};

/// Recognizes a file by its bytes. The first 4096 bytes are enough for every kind, except that the parts of a
/// ShardIndex can only be listed if `bytes` is the whole file. Returns std::nullopt if the kind is unknown.
/// The function is pure.
std::optional<KnownFile> identify_file(llvm::StringRef bytes);

/// Names the kind of file that a reader needs, which determines the advice about a file of another kind.
enum class WantedFile : std::uint8_t {
  PointText,   ///< The reader needs a point cloud in PLY or PCD.
  PointBytes,  ///< The reader needs a point cloud in a .bin or .npy file.
  Array,       ///< The reader needs an array, such as features, labels or coordinates.
  Weights,
  Json,
  Bundle,
};

/// Returns "it is <description>, not <wanted_name>", followed by ": <advice>" if there is advice for a file
/// of this kind.
std::string other_file_text(const KnownFile& file, WantedFile wanted, llvm::StringRef wanted_name);

/// Returns InvalidArgument if the bytes belong to a known kind of file other than JSON, and success
/// otherwise. The message calls the needed file `wanted_name`, for example "a network description".
llvm::Error refuse_other_than_json(llvm::StringRef bytes, llvm::StringRef wanted_name);

}  // namespace minuet
