#include "codegen/error.h"

#include <cerrno>
#include <system_error>

#include "llvm/Support/raw_ostream.h"

namespace minuet {

char StatusError::ID = 0;

void StatusError::log(llvm::raw_ostream& stream) const {
  stream << message_;
  if (!detail_.empty()) stream << '\n' << detail_;
}

std::error_code StatusError::convertToErrorCode() const { return llvm::inconvertibleErrorCode(); }

void StatusError::annotate(llvm::StringRef phrase) { message_ = phrase.str() + ": " + message_; }

StatusError take_status(llvm::Error error) {
  StatusError status(StatusCode::Ok, "");
  llvm::handleAllErrors(
      std::move(error),
      [&](const StatusError& part) {
        // Of several errors the first decides the code; none of their words is lost.
        if (status.code() == StatusCode::Ok) {
          status = part;
        } else {
          status = StatusError(status.code(), status.message() + "; " + part.message(),
                               status.detail() + part.detail());
        }
      },
      [&](const llvm::ErrorInfoBase& part) {
        const bool first = status.code() == StatusCode::Ok;
        status =
            StatusError(first ? StatusCode::Internal : status.code(),
                        first ? part.message() : status.message() + "; " + part.message(), status.detail());
      });
  return status;
}

std::string errno_text(int error) { return std::error_code(error, std::generic_category()).message(); }

llvm::Error make_system_error(const std::string& what) {
  return make_error(StatusCode::FailedPrecondition, "{0}: {1}", what, errno_text(errno));
}

llvm::Error annotate(llvm::Error error, llvm::StringRef phrase) {
  if (!error) return error;
  StatusError status = take_status(std::move(error));
  status.annotate(phrase);
  return llvm::make_error<StatusError>(std::move(status));
}

}  // namespace minuet
