#include "tools/minuet/cloud/readers/wrong_file.h"

#include "codegen/base/json_text.h"
#include "llvm/ADT/StringExtras.h"
#include "tools/minuet/base/error.h"
#include "tools/minuet/cloud/readers/scalar.h"

namespace minuet::tool {
namespace {

constexpr size_t kShownBytes = 16;

/// Returns the first bytes in quotes. Bytes that are not printable ASCII become hexadecimal codes such as
/// \x1b.
std::string start_of(llvm::StringRef bytes) {
  std::string text = "'";
  for (const char c : bytes.take_front(kShownBytes)) {
    const auto code = static_cast<unsigned char>(c);
    if (llvm::isPrint(c)) {
      text += c;
    } else {
      text += {'\\', 'x', llvm::hexdigit(code >> 4, /*LowerCase=*/true), llvm::hexdigit(code & 15, true)};
    }
  }
  return text + (bytes.size() > kShownBytes ? "...'" : "'");
}

}  // namespace

llvm::Error wrong_file(llvm::StringRef bytes, const ReadKind& kind, llvm::StringRef line) {
  const std::optional<KnownFile> file = identify_file(bytes);
  if (file && file->kind != kind.kind) return user_error(other_file_text(*file, kind.wanted, kind.name));
  return bad_input("it is not {0}: it begins with {1}", kind.name, start_of(line));
}

llvm::Error refuse_other_than_rows(llvm::StringRef bytes, bool must_be_certain) {
  const std::optional<KnownFile> file = identify_file(bytes);
  if (!file || (must_be_certain && !file->is_certain)) return llvm::Error::success();
  return user_error(other_file_text(*file, WantedFile::PointBytes, "a file of float32 rows"));
}

llvm::Expected<std::string> read_json_text(const std::string& path, const char* wanted) {
  MINUET_ASSIGN(const auto file, read_file(path));
  const llvm::StringRef text = file->getBuffer();
  if (llvm::Error error = refuse_other_than_json(text, wanted)) {
    return in_file(path, as_user_error(std::move(error)));
  }
  const size_t zero = text.find('\0');
  if (zero == llvm::StringRef::npos) return text.str();
  return bad_input("'{0}' is not JSON text: byte {1} of it is zero; remove all bytes that are not text", path,
                   zero);
}

llvm::Expected<llvm::json::Value> read_json(const std::string& path, const char* wanted) {
  MINUET_ASSIGN(const std::string text, read_json_text(path, wanted));
  llvm::Expected<llvm::json::Value> value = parse_json(text);
  if (!value) return bad_input("'{0}' is not JSON: {1}", path, llvm::toString(value.takeError()));
  return value;
}

}  // namespace minuet::tool
