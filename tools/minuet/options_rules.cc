#include "tools/minuet/options_rules.h"

#include <CLI/CLI.hpp>

#include "llvm/ADT/StringRef.h"

namespace minuet::tool {
namespace {

/// The command that was named, down to its last subcommand.
const CLI::App& innermost(const CLI::App& app) {
  const std::vector<CLI::App*> parsed = app.get_subcommands();
  return parsed.empty() ? app : innermost(*parsed.back());
}

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

}  // namespace

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

std::string unknown_argument(const CLI::App& app) {
  const std::vector<std::string> left = app.remaining(true);
  const std::string word = left.empty() ? "" : left.front();
  const llvm::StringRef name = llvm::StringRef(word).split('=').first;
  std::string nearest;
  unsigned least = 0;
  for (const std::string& known : known_words(innermost(app), name.startswith("-"))) {
    const unsigned distance = name.edit_distance(known);
    const bool is_start = name.size() > 4 && llvm::StringRef(known).startswith(name);
    if (distance > name.size() / 3 + 1 && !is_start) continue;  // another word
    if (!nearest.empty() && distance >= least) continue;
    least = distance;
    nearest = known;
  }
  return "'" + word + "' is not known" + (nearest.empty() ? "" : "; is " + nearest + " meant?");
}

}  // namespace minuet::tool
