// Adds places to the errors of a network's description, for example "layers[3].kernel_size: ...".
//
// An error collects its place on its way out of the functions that read or build parts of the description.
// Each of them adds the step that leads to its part, so the innermost step is added first.
#pragma once

#include <string>

#include "codegen/base/error.h"

namespace minuet {

/// Prepends a step to the place of an error, for example "kernel_size", "[3]" or "layers". Does nothing to
/// success, or if the step is empty.
llvm::Error at(llvm::StringRef step, llvm::Error error);
template <class T>
llvm::Expected<T> at(llvm::StringRef step, llvm::Expected<T> value) {
  if (value) return value;
  return at(step, value.takeError());
}

/// Returns the step to an element of a list, for example "layers[3]".
std::string element(llvm::StringRef list, std::size_t index);

/// Prepends `subject: ` to the text of an error, behind its place. Does nothing to success.
llvm::Error about(llvm::StringRef subject, llvm::Error error);

/// Returns the error as the caller gets it, with the text "PLACE: TEXT". Does nothing to success.
llvm::Error with_place(llvm::Error error);

}  // namespace minuet
