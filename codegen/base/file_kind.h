// What a file is by its first bytes, for readers that were given another file than the one they read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

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
  Las,
  Utf16,  // text of two bytes a character
  Json,
};

struct KnownFile {
  FileKind kind;
  /// Whether even a file of bare numbers does not begin so by chance.
  bool is_certain = false;
  std::string is;      ///< "a Git LFS pointer, which only stands for the file"
  std::string advice;  ///< "fetch the file with `git lfs pull`"; may be empty.
};

/// Pure, and content with the file's first 4096 bytes, except that the names of all shards need the whole of
/// an index. Nothing where the bytes are those of no known kind.
std::optional<KnownFile> identify_file(llvm::StringRef bytes);

/// "it is <what>, not <wanted>: <advice>"
std::string other_file_text(const KnownFile& file, llvm::StringRef wanted);

/// InvalidArgument where the bytes are those of a known kind of file, unless it is the one that is wanted:
/// refuse_other_file(bytes, FileKind::Json, "a network description").
llvm::Error refuse_other_file(llvm::StringRef bytes, FileKind wanted, llvm::StringRef wanted_name);

}  // namespace minuet
