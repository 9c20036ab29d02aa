#include "tools/minuet/readers/wrong_file.h"

#include "codegen/base/file_kind.h"
#include "tools/minuet/error.h"

namespace minuet::tool {
namespace {

/// A cloud of another kind than its name says needs another name.
std::string text_of(KnownFile file, const char* wanted) {
  if (file.kind == FileKind::Ply) file.advice = "end its name in .ply";
  if (file.kind == FileKind::Pcd) file.advice = "end its name in .pcd";
  if (file.kind == FileKind::NumpyArray) file.advice = "end its name in .npy";
  return other_file_text(file, wanted);
}

}  // namespace

llvm::Error wrong_file(llvm::StringRef bytes, const char* wanted, const char* why) {
  if (const std::optional<KnownFile> file = identify_file(bytes)) {
    return user_error(text_of(*file, wanted));
  }
  return bad_input("it is not {0} ({1})", wanted, why);
}

llvm::Error refuse_certain_other_file(llvm::StringRef bytes, const char* wanted) {
  const std::optional<KnownFile> file = identify_file(bytes);
  if (!file || !file->is_certain) return llvm::Error::success();
  return user_error(text_of(*file, wanted));
}

}  // namespace minuet::tool
