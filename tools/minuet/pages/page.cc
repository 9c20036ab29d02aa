#include "tools/minuet/pages/page.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "codegen/base/json_text.h"
#include "llvm/Support/Base64.h"
#include "llvm/Support/FormatVariadic.h"

// Declares the hidden symbols at the start and the end of each embedded file, which files.c.in defines.
extern "C" {
#define MINUET_PAGE_FILE(symbol, name) extern const char symbol[], symbol##_end[];
#include "tools/minuet/pages/files.inc"
#undef MINUET_PAGE_FILE
}

namespace minuet::tool {
namespace {

constexpr double kMostSteps = 65534;
constexpr uint16_t kNoNumber = 65535;

struct File {
  const char *name, *begin, *end;
};

template <class T>
std::string base64(const std::vector<T>& values) {
  return llvm::encodeBase64(
      llvm::StringRef(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)));
}

}  // namespace

llvm::StringRef page_file(llvm::StringRef name) {
  static const File kFiles[] = {
#define MINUET_PAGE_FILE(symbol, name) {name, symbol, symbol##_end},
#include "tools/minuet/pages/files.inc"
#undef MINUET_PAGE_FILE
  };
  for (const File& file : kFiles) {
    if (name == file.name) return {file.begin, static_cast<size_t>(file.end - file.begin)};
  }
  return {};
}

std::string fill_page(llvm::StringRef file, const std::map<std::string, std::string>& values) {
  std::string page;
  llvm::StringRef rest = page_file(file);
  for (size_t mark = rest.find("{{"); mark != llvm::StringRef::npos; mark = rest.find("{{")) {
    const size_t end = rest.find("}}", mark);
    const llvm::StringRef name = rest.slice(mark + 2, end);
    const auto value = values.find(name.str());
    page += rest.take_front(mark).str() + (value == values.end() ? page_file(name).str() : value->second);
    rest = rest.drop_front(end + 2);
  }
  return page + rest.str();
}

std::string html_text(llvm::StringRef text) {
  std::string safe;
  for (const char c : text) {
    const char* const name = c == '&'   ? "&amp;"
                             : c == '<' ? "&lt;"
                             : c == '>' ? "&gt;"
                             : c == '"' ? "&quot;"
                                        : "";
    if (*name) {
      safe += name;
    } else {
      safe += c;
    }
  }
  return safe;
}

std::string script_json(const llvm::json::Value& value) {
  std::string safe;
  for (const char c : print_json(value)) {
    // The text "</script>" would end the script, and "<!--" would start a comment.
    if (c == '<') {
      safe += "\\u003c";
    } else {
      safe += c;
    }
  }
  return safe;
}

llvm::json::Object pack_numbers(const std::vector<double>& values) {
  double least = INFINITY, greatest = -INFINITY;
  bool are_whole = true;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    least = std::min(least, value);
    greatest = std::max(greatest, value);
    are_whole = are_whole && value == std::floor(value);
  }
  if (least > greatest) least = greatest = 0;
  const double range = greatest - least;
  const double step = range == 0 || (are_whole && range <= kMostSteps) ? 1 : range / kMostSteps;
  std::vector<uint16_t> steps;
  steps.reserve(values.size());
  for (const double value : values) {
    steps.push_back(std::isfinite(value) ? static_cast<uint16_t>(std::lround((value - least) / step))
                                         : kNoNumber);
  }
  return llvm::json::Object{{"least", least}, {"step", step}, {"bits", 16}, {"data", base64(steps)}};
}

llvm::json::Object pack_floats(const std::vector<double>& values) {
  const std::vector<float> floats(values.begin(), values.end());
  return llvm::json::Object{{"least", 0}, {"step", 1}, {"bits", 32}, {"data", base64(floats)}};
}

}  // namespace minuet::tool
