// What holds for every flag of every command.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace minuet::tool {

/// `--flag ""` is an error, for every flag of the command and of those below it.
void refuse_empty_values(CLI::App& app);

/// What was not understood, and the flag or command nearest to it: "'--voxelsize' is not known; is
/// --voxel-size meant?".
std::string unknown_argument(const CLI::App& app);

}  // namespace minuet::tool
