#include "runtime/network/description_place.h"

#include <utility>

namespace minuet {
namespace {

// Begins and ends the place in the message of an error that is on its way out.
constexpr char kMark = '\x01';

/// Splits a message into its place, which may be empty, and its text.
std::pair<std::string, std::string> split(const std::string& message) {
  if (message.empty() || message.front() != kMark) return {"", message};
  const std::size_t end = message.find(kMark, 1);
  return {message.substr(1, end - 1), message.substr(end + 1)};
}

llvm::Error make(const StatusError& status, const std::string& place, const std::string& text) {
  return llvm::make_error<StatusError>(status.code(), kMark + place + kMark + text, status.detail());
}

}  // namespace

llvm::Error at(llvm::StringRef step, llvm::Error error) {
  if (!error || step.empty()) return error;
  const StatusError status = take_status(std::move(error));
  const auto [place, text] = split(status.message());
  const bool needs_dot = !place.empty() && place.front() != '[';
  return make(status, step.str() + (needs_dot ? "." : "") + place, text);
}

std::string element(llvm::StringRef list, std::size_t index) {
  return list.str() + "[" + std::to_string(index) + "]";
}

llvm::Error about(llvm::StringRef subject, llvm::Error error) {
  if (!error) return error;
  const StatusError status = take_status(std::move(error));
  const auto [place, text] = split(status.message());
  return make(status, place, subject.str() + ": " + text);
}

llvm::Error with_place(llvm::Error error) {
  if (!error) return error;
  const StatusError status = take_status(std::move(error));
  const auto [place, text] = split(status.message());
  return llvm::make_error<StatusError>(status.code(), place.empty() ? text : place + ": " + text,
                                       status.detail());
}

}  // namespace minuet
