// Rules that apply to every flag of every command.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "llvm/Support/Error.h"

namespace minuet::tool {

/// Checks the value of a flag that takes a count or a seed: digits only, and at most 2^64 - 1.
extern const CLI::Validator kWholeNumber;

/// Transforms the value of a flag that becomes an integer. Refuses other words, and drops leading zeros,
/// which CLI11 would read as octal.
extern const CLI::Validator kDecimal;

/// Checks the value of a flag that becomes a real number: refuses other words and changes nothing.
extern const CLI::Validator kNumber;

/// Adds a flag with a value. Help texts show `type` as its placeholder.
template <class T>
CLI::Option* add_value(CLI::App& app, const std::string& name, T& value, const std::string& type,
                       const std::string& help) {
  return app.add_option(name, value, help)->type_name(type);
}

/// Adds a flag that takes a whole number from `least` to `most`.
template <class T, class Number>
CLI::Option* add_count(CLI::App& app, const std::string& name, T& value, Number least, Number most,
                       const std::string& help) {
  return add_value(app, name, value, "N", help)->transform(kDecimal)->check(CLI::Range(least, most));
}

/// Adds a flag that takes one or more values, separated by commas.
template <class T>
CLI::Option* add_list(CLI::App& app, const std::string& name, std::vector<T>& values, const std::string& type,
                      const std::string& help) {
  return add_value(app, name, values, type, help)->delimiter(',')->allow_extra_args(false);
}

/// Makes `--flag ""` an error for every flag of the command and of its subcommands.
void refuse_empty_values(CLI::App& app);

/// Refuses command lines that CLI11 would accept: `--json=`; `--json --labels`, where a flag would be taken
/// as the value (a value that starts like a flag is given as `--json=--labels`); `--labels=no` for a flag
/// without a value; and `--channels 4,,8`, a list with an empty item.
llvm::Error check_values(const CLI::App& app, int count, const char* const* arguments);

/// Returns a text about the first unknown word with the most similar flag or command, for example
/// "'--voxelsize' is not known; is --voxel-size meant?".
std::string unknown_argument(const CLI::App& app);

}  // namespace minuet::tool
