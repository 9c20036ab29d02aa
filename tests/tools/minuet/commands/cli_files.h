// The files that the table of command lines names: good ones in every form, and broken ones.
#pragma once

#include <string>

namespace minuet::tool {

/// Writes all of them into the folder.
void make_cli_files(const std::string& folder);
/// The part of them that other programs, editors and downloads could have left; the others have to be there.
void make_odd_cli_files(const std::string& folder);

}  // namespace minuet::tool
