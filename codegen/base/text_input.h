// Text that people and other programs write: byte order marks, line ends and blanks are understood here
// alone.
#pragma once

#include <optional>

#include "llvm/ADT/StringRef.h"

namespace minuet {

/// The mark that some editors put in front of text in UTF-8.
inline constexpr llvm::StringLiteral kByteOrderMark = "\xef\xbb\xbf";

/// The text behind a byte order mark, or the whole text where there is none.
inline llvm::StringRef without_byte_order_mark(llvm::StringRef text) {
  text.consume_front(kByteOrderMark);
  return text;
}

/// Walks over the lines and the words of a text, and over a byte order mark in front of it.
///
/// A line ends with "\n" or "\r\n", or, in a text whose first line ends with "\r" alone, with "\r" or "\n".
/// The first line decides, because binary data may follow a header: a "\n" behind the header's last "\r" may
/// belong to the data. Words stand between blanks and line ends of any kind.
class TextCursor {
 public:
  explicit TextCursor(llvm::StringRef text);

  /// The next line without its end, or nothing at the end of the text.
  std::optional<llvm::StringRef> line();
  /// The next line that is not blank; empty at the end of the text.
  llvm::StringRef row();
  /// The next word; empty at the end of the text.
  llvm::StringRef token();
  /// Whether only blanks stand between here and the end of the line or of the text.
  bool is_at_line_end() const;
  /// The text that is left.
  llvm::StringRef rest() const { return rest_; }

 private:
  llvm::StringRef rest_;
  llvm::StringRef line_ends_;  ///< The characters that end a line.
};

}  // namespace minuet
