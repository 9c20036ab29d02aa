#include "tools/minuet/readers/wrong_file.h"

#include "codegen/file_kind.h"
#include "tools/minuet/error.h"

namespace minuet::tool {

llvm::Error wrong_file(llvm::StringRef bytes, const char* wanted, const char* why) {
  if (const std::optional<KnownFile> file = identify_file(bytes)) {
    return user_error(other_file_text(*file, wanted));
  }
  return bad_input("it is not {0} ({1})", wanted, why);
}

llvm::Error refuse_certain_other_file(llvm::StringRef bytes, const char* wanted) {
  const std::optional<KnownFile> file = identify_file(bytes);
  if (!file || !file->is_certain) return llvm::Error::success();
  return user_error(other_file_text(*file, wanted));
}

}  // namespace minuet::tool
