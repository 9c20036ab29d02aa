// Defines checks and parsers for the values of flags, which all commands use.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "llvm/Support/Error.h"

namespace minuet::tool {

/// Checks that the value of a flag, for example a seed, has only digits and is at most 2^64 - 1.
extern const CLI::Validator kWholeNumber;

/// Transforms the value of a flag that takes an integer. Refuses other words, and drops leading zeros,
/// because CLI11 would read a number with leading zeros as octal.
extern const CLI::Validator kDecimal;

/// Refuses the value of a flag if it is not a finite number, and changes nothing otherwise.
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

/// Makes an empty value, as in `--flag ""`, an error for every flag of the command and of its subcommands.
void refuse_empty_values(CLI::App& app);

/// Refuses four kinds of command lines that CLI11 would accept. In `--json=` the value is empty. In
/// `--json --labels` CLI11 would take the second flag as the value; a user who wants this value writes
/// `--json=--labels`. In `--labels=no` a flag that takes no value has one. In `--channels 4,,8` the list has
/// an empty item.
llvm::Error check_values(const CLI::App& app, int count, const char* const* arguments);

/// Returns a text that names the first unknown word and suggests the most similar flag or command, for
/// example "'--voxelsize' is not known; is --voxel-size meant?".
std::string unknown_argument(const CLI::App& app);

}  // namespace minuet::tool
