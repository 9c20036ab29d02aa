#include "codegen/base/error.h"

#include <gtest/gtest.h>

namespace minuet {
namespace {

llvm::Error fail() { return make_error(StatusCode::OutOfRange, "axis {0} needs {1} bits", 2, 33); }

llvm::Expected<int> half(int value) {
  if (value % 2 != 0) return make_error(StatusCode::InvalidArgument, "{0} is odd", value);
  return value / 2;
}

llvm::Expected<int> quarter(int value) {
  MINUET_ASSIGN(const int once, half(value));
  MINUET_ASSIGN(const int twice, half(once));
  return twice;
}

TEST(Error, CarriesCodeMessageAndDetail) {
  const StatusError status =
      take_status(llvm::make_error<StatusError>(StatusCode::Internal, "what", "the log"));
  EXPECT_EQ(status.code(), StatusCode::Internal);
  EXPECT_EQ(status.message(), "what");
  EXPECT_EQ(status.detail(), "the log");
  EXPECT_EQ(take_status(llvm::Error::success()).code(), StatusCode::Ok);
}

TEST(Error, AnnotatePutsPhrasesInFront) {
  const StatusError status = take_status(annotate(annotate(fail(), "pack"), "coordinate set"));
  EXPECT_EQ(status.code(), StatusCode::OutOfRange);
  EXPECT_EQ(status.message(), "coordinate set: pack: axis 2 needs 33 bits");
  EXPECT_FALSE(annotate(llvm::Error::success(), "nothing"));
}

TEST(Error, JoinedErrorsKeepTheFirstCodeAndAllWords) {
  const StatusError status = take_status(
      llvm::joinErrors(fail(), llvm::createStringError(llvm::inconvertibleErrorCode(), "somebody else's")));
  EXPECT_EQ(status.code(), StatusCode::OutOfRange);
  EXPECT_EQ(status.message(), "axis 2 needs 33 bits; somebody else's");
}

TEST(Error, AssignReturnsTheErrorOrGoesOn) {
  EXPECT_EQ(llvm::cantFail(quarter(12)), 3);
  EXPECT_EQ(take_status(quarter(6).takeError()).message(), "3 is odd");
}

}  // namespace
}  // namespace minuet
