#include "runtime/weights/list_text.h"

#include <algorithm>

#include "llvm/Support/JSON.h"

namespace minuet {

std::string list_text(const std::vector<std::string>& items, const char* between) {
  std::string text;
  const std::size_t shown = std::min(items.size(), kMostListed);
  for (std::size_t i = 0; i < shown; ++i) text += (i ? between : "") + items[i];
  if (items.size() > shown) text += " and " + std::to_string(items.size() - shown) + " more";
  return text;
}

std::string shown_name(llvm::StringRef name) {
  std::string shown = llvm::json::fixUTF8(name.take_front(100));
  std::replace_if(
      shown.begin(), shown.end(), [](char character) { return static_cast<unsigned char>(character) < ' '; },
      '?');
  return shown;
}

}  // namespace minuet
