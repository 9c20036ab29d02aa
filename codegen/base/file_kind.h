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
  LfsPointer,  ///< the text that Git LFS stores in place of a large file
  ShardIndex,  ///< the JSON file that names the parts of a checkpoint
  WebPage,     ///< HTML or XML
  TorchZip,    ///< the zip format of torch.save
  Pickle,      ///< the older pickle format of torch.save
  Zip,
  Compressed,  ///< gzip, bzip2, xz, zstd
  Hdf5,
  NumpyArray,
  Gguf,
  Onnx,
  Safetensors,
  Ply,
  Pcd,
  Las,  ///< LAS, LAZ, E57
  Picture,
  Document,
  Utf16,  ///< text with two bytes per character
  Json,
  Text,  ///< any other text
};

struct KnownFile {
  FileKind kind;
  /// True if a file of raw numbers is very unlikely to begin with the same bytes by chance.
  bool is_certain = false;
  std::string is;  ///< a description, such as "a PLY file"
  std::vector<std::string>
      parts;  ///< the file names in the index of a sharded checkpoint; empty if the index is incomplete
};

/// Recognizes a file by its bytes; the first 4096 are enough for every kind, except that listing the parts of
/// a ShardIndex needs the whole file. Returns nothing if the kind is unknown. Pure.
std::optional<KnownFile> identify_file(llvm::StringRef bytes);

/// The kind of file that a reader needs. It determines the advice about a file of another kind.
enum class WantedFile : std::uint8_t {
  PointText,   ///< PLY and PCD clouds
  PointBytes,  ///< .bin and .npy clouds
  Array,       ///< arrays that are not clouds: features, labels, coordinates
  Weights,
  Json,
  Bundle,
};

/// Returns "it is <description>, not <wanted_name>", followed by ": <advice>" if there is advice for this
/// kind.
std::string other_file_text(const KnownFile& file, WantedFile wanted, llvm::StringRef wanted_name);

/// Returns InvalidArgument if the bytes belong to a known kind of file other than JSON, and success
/// otherwise. `wanted_name` is for the message, such as "a network description".
llvm::Error refuse_other_than_json(llvm::StringRef bytes, llvm::StringRef wanted_name);

}  // namespace minuet
