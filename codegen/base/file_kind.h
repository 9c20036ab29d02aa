// Recognizes what a file is by its first bytes, for readers that were given another file than the one they
// read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "codegen/base/error.h"
#include "llvm/ADT/StringRef.h"

namespace minuet {

enum class FileKind : std::uint8_t {
  LfsPointer,  // the text that Git keeps in place of a large file
  ShardIndex,  // the JSON that names the parts of a checkpoint
  WebPage,     // HTML or XML
  TorchZip,    // what torch.save writes
  Pickle,      // what torch.save wrote before
  Zip,
  Compressed,  // gzip, bzip2, xz, zstd
  Hdf5,
  NumpyArray,
  Gguf,
  Onnx,
  Safetensors,
  Ply,
  Pcd,
  Las,  // LAS, LAZ, E57
  Picture,
  Document,
  Utf16,  // text of two bytes a character
  Json,
  Text,  // any other text
};

struct KnownFile {
  FileKind kind;
  /// Whether even a file of bare numbers does not begin so by chance.
  bool is_certain = false;
  std::string is;  ///< "a Git LFS pointer, which only stands for the file"
  std::vector<std::string>
      parts;  ///< The files that the index of a checkpoint in parts names, if it is whole.
};

/// Recognizes a file by its first 4096 bytes; the index of a checkpoint in parts may need all of them. Pure.
/// Nothing where the bytes are those of no known kind.
std::optional<KnownFile> identify_file(llvm::StringRef bytes);

/// Names the reader that was given a file, because it decides what can be done with a file of another kind.
enum class WantedFile : std::uint8_t {
  PointText,   // PLY and PCD
  PointBytes,  // .bin and .npy clouds
  Array,       // arrays that are no clouds: features, labels, coordinates
  Weights,
  Json,
  Bundle,
};

/// Returns "it is <what>, not <wanted_name>", and ": <advice>" where something can be done about it.
std::string other_file_text(const KnownFile& file, WantedFile wanted, llvm::StringRef wanted_name);

/// Returns InvalidArgument where the bytes are those of a known kind of file that is no JSON:
/// refuse_other_than_json(bytes, "a network description").
llvm::Error refuse_other_than_json(llvm::StringRef bytes, llvm::StringRef wanted_name);

}  // namespace minuet
