// What holds for every flag of every command.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "llvm/Support/Error.h"

namespace minuet::tool {

/// Checks a flag that takes a count or a seed: digits only, and what 64 bits hold.
extern const CLI::Validator kWholeNumber;

/// Transforms the value of a flag that becomes an integer: refuses other words, and drops leading zeros, by
/// which CLI11 knows octal numbers.
extern const CLI::Validator kDecimal;

/// Transforms the value of a flag that becomes a real number: refuses other words and changes nothing.
extern const CLI::Validator kNumber;

/// Adds a flag with a value, which help texts call `type`.
template <class T>
CLI::Option* add_value(CLI::App& app, const std::string& name, T& value, const std::string& type,
                       const std::string& help) {
  return app.add_option(name, value, help)->type_name(type);
}

/// Adds a flag with a whole number from `least` to `most`.
template <class T, class Number>
CLI::Option* add_count(CLI::App& app, const std::string& name, T& value, Number least, Number most,
                       const std::string& help) {
  return add_value(app, name, value, "N", help)->transform(kDecimal)->check(CLI::Range(least, most));
}

/// Adds a flag with one or more values, by commas.
template <class T>
CLI::Option* add_list(CLI::App& app, const std::string& name, std::vector<T>& values, const std::string& type,
                      const std::string& help) {
  return add_value(app, name, values, type, help)->delimiter(',')->allow_extra_args(false);
}

/// `--flag ""` is an error, for every flag of the command and of those below it.
void refuse_empty_values(CLI::App& app);

/// `--json=` and `--json --labels`, which would take the next word whatever it is, and `--channels 4,,8`: of
/// lists by commas no item may be empty. A value that begins as a flag does is given as `--json=--labels`.
/// Refuses `--labels=no` too.
llvm::Error check_values(const CLI::App& app, int count, const char* const* arguments);

/// What was not understood, and the flag or command nearest to it: "'--voxelsize' is not known; is
/// --voxel-size meant?".
std::string unknown_argument(const CLI::App& app);

}  // namespace minuet::tool
