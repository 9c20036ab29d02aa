#include "runtime/weights/foreign_weights.h"

#include "codegen/base/file_kind.h"

namespace minuet {

llvm::Error refuse_foreign_weights(llvm::StringRef bytes) {
  const std::optional<KnownFile> file = identify_file(bytes);
  if (!file || file->kind == FileKind::Safetensors) return llvm::Error::success();
  return make_error(
      StatusCode::InvalidArgument, "{0}",
      other_file_text(*file, WantedFile::Weights, "a safetensors file or a PyTorch checkpoint"));
}

}  // namespace minuet
