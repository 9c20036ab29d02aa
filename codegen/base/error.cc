#include "codegen/base/error.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

#include "codegen/base/c_locale.h"
#include "codegen/base/number_text.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

template <>
struct llvm::format_provider<minuet::ErrorValue> {
  static void format(const minuet::ErrorValue& value, llvm::raw_ostream& stream, llvm::StringRef style) {
    value.print(stream, style);
  }
};

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
        // If there are several errors, the first one sets the code, and their messages and details are
        // joined.
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

void ErrorValue::print(llvm::raw_ostream& stream, llvm::StringRef style) const {
  switch (kind_) {
    case Kind::Signed:
      return llvm::format_provider<long long>::format(signed_, stream, style);
    case Kind::Unsigned:
      return llvm::format_provider<unsigned long long>::format(static_cast<unsigned long long>(signed_),
                                                               stream, style);
    case Kind::Real:
      return llvm::format_provider<Real>::format(real(real_), stream, style);
    case Kind::Text:
      return llvm::format_provider<llvm::StringRef>::format(text_, stream, style);
  }
}

llvm::Error make_error(StatusCode code, const char* format, std::initializer_list<ErrorValue> values) {
  std::array<ErrorValue, kMostErrorValues> v;
  std::copy(values.begin(), values.end(), v.begin());
  return llvm::make_error<StatusError>(
      code, llvm::formatv(format, v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8]).str());
}

std::string system_text(const std::error_code& error) {
  const CLocale c_locale;
  return error.message();
}

std::string errno_text(int error) { return system_text(std::error_code(error, std::generic_category())); }

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
