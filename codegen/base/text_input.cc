#include "codegen/base/text_input.h"

namespace minuet {
namespace {

constexpr llvm::StringLiteral kBlanks = " \t\v\f";
constexpr llvm::StringLiteral kBlanksAndLineEnds = " \t\v\f\r\n";

bool has_lone_returns(llvm::StringRef text) {
  const std::size_t first = text.find_first_of("\r\n");
  return first != llvm::StringRef::npos && text[first] == '\r' && text.substr(first + 1, 1) != "\n";
}

}  // namespace

TextCursor::TextCursor(llvm::StringRef text)
    : rest_(without_byte_order_mark(text)), line_ends_(has_lone_returns(rest_) ? "\r\n" : "\n") {}

std::optional<llvm::StringRef> TextCursor::line() {
  if (rest_.empty()) return std::nullopt;
  const std::size_t end = rest_.find_first_of(line_ends_);
  const llvm::StringRef line = rest_.substr(0, end);
  rest_ = end == llvm::StringRef::npos ? llvm::StringRef() : rest_.drop_front(end + 1);
  return line.rtrim('\r');
}

llvm::StringRef TextCursor::row() {
  while (const std::optional<llvm::StringRef> next = line()) {
    if (!next->trim().empty()) return *next;
  }
  return {};
}

llvm::StringRef TextCursor::token() {
  rest_ = rest_.ltrim(kBlanksAndLineEnds);
  const llvm::StringRef token = rest_.substr(0, rest_.find_first_of(kBlanksAndLineEnds));
  rest_ = rest_.drop_front(token.size());
  return token;
}

bool TextCursor::is_at_line_end() const {
  const llvm::StringRef next = rest_.ltrim(kBlanks);
  return next.empty() || next.front() == '\r' || next.front() == '\n';
}

}  // namespace minuet
