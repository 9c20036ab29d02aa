#include "tools/minuet/flags/rules.h"

#include <charconv>
#include <cmath>
#include <optional>

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringRef.h"
#include "tools/minuet/base/error.h"
#include "tools/minuet/cloud/readers/scalar.h"

namespace minuet::tool {
namespace {

/// Returns the innermost subcommand that the user named, or `app` if there is none.
const CLI::App& innermost(const CLI::App& app) {
  const std::vector<CLI::App*> parsed = app.get_subcommands();
  return parsed.empty() ? app : innermost(*parsed.back());
}

/// Returns the option that `--flag`, `-f` or `--flag=value` names, or null if there is none.
const CLI::Option* named_option(const CLI::App& command, llvm::StringRef word) {
  if (word.take_front(1) != "-") return nullptr;
  return command.get_option_no_throw(word.split('=').first.str());
}

/// Returns the long flags of the command if `flags` is true, and otherwise its subcommands.
std::vector<std::string> known_words(const CLI::App& app, bool flags) {
  std::vector<std::string> words;
  if (!flags) {
    for (const CLI::App* command : app.get_subcommands({})) words.push_back(command->get_name());
    return words;
  }
  for (const CLI::Option* option : app.get_options({})) {
    for (const std::string& name : option->get_lnames()) words.push_back("--" + name);
  }
  return words;
}

/// Returns an error text such as "'abc' is not a number". It has a hint if a mistake such as a decimal comma
/// is probable.
std::string parse_error(llvm::StringRef text) {
  return llvm::toString(parse_value(text, Scalar::F64).takeError());
}

}  // namespace

const CLI::Validator kWholeNumber(
    [](const std::string& text) {
      uint64_t value = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
      const bool is_whole = error == std::errc() && end == text.data() + text.size();
      return is_whole ? std::string() : "'" + text + "' is not a whole number from 0 to 2^64 - 1";
    },
    "");

const CLI::Validator kNumber(
    [](std::string& text) {
      // An empty text is no error here, because refuse_empty_values() refuses it.
      if (text.empty()) return std::string();
      const std::optional<double> value = parse_double(text);
      if (!value) return parse_error(text);
      return std::isfinite(*value) ? std::string() : "'" + text + "' is not a finite number";
    },
    "");

const CLI::Validator kDecimal(
    [](std::string& text) {
      const llvm::StringRef digits = llvm::StringRef(text).ltrim('-');
      // An empty text is no error here, because refuse_empty_values() refuses it.
      if (text.empty()) return std::string();
      if (digits.empty() || text.size() > digits.size() + 1 ||
          digits.find_first_not_of("0123456789") != llvm::StringRef::npos) {
        const bool is_other_number = parse_double(text) || llvm::isDigit(text.front());
        return is_other_number ? "'" + text + "' is not a whole number in decimal" : parse_error(text);
      }
      if (text.size() < 2 || text[0] != '0') return std::string();
      const size_t first = text.find_first_not_of('0');
      text.erase(0, first == std::string::npos ? text.size() - 1 : first);
      return std::string();
    },
    "");

void refuse_empty_values(CLI::App& app) {
  for (CLI::Option* option : app.get_options({})) {
    if (option->get_items_expected_max() == 0) continue;
    option->check(
        [](const std::string& value) {
          return value.empty() ? std::string("its value is empty") : std::string();
        },
        "");
  }
  for (CLI::App* command : app.get_subcommands({})) refuse_empty_values(*command);
}

llvm::Error check_values(const CLI::App& app, int count, const char* const* arguments) {
  const CLI::App* command = &app;
  for (int i = 1; i < count; ++i) {
    const llvm::StringRef word = arguments[i];
    const auto below = command->get_subcommands([&](const CLI::App* one) { return word == one->get_name(); });
    if (!below.empty()) command = below.front();
    const CLI::Option* const option = named_option(*command, word);
    if (!option) continue;
    const auto [flag, attached] = word.split('=');
    const bool is_attached = flag.size() < word.size();
    if (option->get_items_expected_max() == 0) {
      if (is_attached) return bad_input("{0} takes no value", flag);
      continue;
    }
    if (is_attached && attached.empty()) return bad_input("{0}: its value is empty", flag);
    if (!is_attached && ++i == count) break;
    const llvm::StringRef value = is_attached ? attached : arguments[i];
    if (!is_attached && (value.take_front(2) == "--" || named_option(*command, value))) {
      return bad_input("{0} has no value, because a flag follows ({1})", flag, value);
    }
    if (option->get_delimiter() != ',') continue;
    if (value.contains(",,") || value.take_front(1) == "," || value.take_back(1) == ",")
      return bad_input("{0} '{1}' has an empty item: remove the extra comma", flag, value);
  }
  return llvm::Error::success();
}

std::string unknown_argument(const CLI::App& app) {
  const std::vector<std::string> left = app.remaining(true);
  const std::string word = left.empty() ? "" : left.front();
  const llvm::StringRef name = llvm::StringRef(word).split('=').first;
  std::string nearest;
  unsigned least = 0;
  for (const std::string& known : known_words(innermost(app), name.take_front(1) == "-")) {
    const unsigned distance = name.edit_distance(known);
    const bool is_start = name.size() > 4 && llvm::StringRef(known).take_front(name.size()) == name;
    // A known word that differs this much is not suggested.
    if (distance > name.size() / 3 + 1 && !is_start) continue;
    if (!nearest.empty() && distance >= least) continue;
    least = distance;
    nearest = known;
  }
  return "'" + word + "' is not known" + (nearest.empty() ? "" : "; is " + nearest + " meant?");
}

}  // namespace minuet::tool
