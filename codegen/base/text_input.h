// Splits text input into lines and words. Readers of text use this code, so that they treat byte order marks,
// line ends and blanks alike.
#pragma once

#include <optional>

#include "llvm/ADT/StringRef.h"

namespace minuet {

/// Some editors write this mark at the start of UTF-8 text.
inline constexpr llvm::StringLiteral kByteOrderMark = "\xef\xbb\xbf";

/// Returns the text after a leading byte order mark, or the whole text if there is none.
inline llvm::StringRef without_byte_order_mark(llvm::StringRef text) {
  text.consume_front(kByteOrderMark);
  return text;
}

/// Iterates over the lines and words of a text, and skips a byte order mark at its start.
///
/// A line ends with "\n" or "\r\n". In a text whose first line ends with a lone "\r", lines end with "\r" or
/// "\n". Only the first line decides this, because binary data may follow a header, and a "\n" after the
/// header's last "\r" may belong to the data. Words are separated by blanks and line ends of any kind.
class TextCursor {
 public:
  explicit TextCursor(llvm::StringRef text);

  /// Returns the next line without its line end, or std::nullopt at the end of the text.
  std::optional<llvm::StringRef> line();
  /// Returns the next line that is not blank, or an empty string at the end of the text.
  llvm::StringRef row();
  /// Returns the next word, or an empty string at the end of the text.
  llvm::StringRef token();
  /// Returns true if only blanks remain before the end of the line or of the text.
  bool is_at_line_end() const;
  /// Returns the remaining text.
  llvm::StringRef rest() const { return rest_; }

 private:
  llvm::StringRef rest_;
  llvm::StringRef line_ends_;  ///< Holds the characters that end a line.
};

}  // namespace minuet
