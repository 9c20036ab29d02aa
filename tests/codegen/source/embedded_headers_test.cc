#include "codegen/source/embedded_headers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "codegen/source/emit.h"
#include "codegen/source/keys.h"
#include "tests/codegen/fakes.h"

namespace minuet {
namespace {

using testing::HasSubstr;

std::vector<std::string> names_for(const std::string& text) {
  std::vector<std::string> names;
  for (const Header& header : llvm::cantFail(headers_for(text))) names.push_back(header.name.str());
  return names;
}

bool has_prefix(const std::vector<std::string>& names, const std::string& prefix) {
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& name) { return name.compare(0, prefix.size(), prefix) == 0; });
}

TEST(EmbeddedHeaders, R03_OursAreTheFilesOfTheTreeByteForByte) {
  std::string text;
#define MINUET_KERNEL_ROW(name, header, Spec, Params, sm, ...) text += "#include \"" header "\"\n";
#include "kernels_templates/kernels.inc"
  int checked = 0;
  for (const Header& header : llvm::cantFail(headers_for(text))) {
    if (header.name.take_front(18) != "kernels_templates/") continue;
    EXPECT_EQ(header.text.str(), contents(MINUET_SOURCE_DIR "/" + header.name.str())) << header.name.str();
    EXPECT_EQ(header.text.data()[header.text.size()], '\0') << "NVRTC wants C strings";
    EXPECT_EQ(header.name.data()[header.name.size()], '\0');
    ++checked;
  }
  EXPECT_GE(checked, 24);
}

/// As the build names and digests them.
std::string digest_of(const std::vector<Header>& headers) {
  FieldHasher hasher;
  for (const Header& header : headers) hasher.add(header.name, header.text);
  return hasher.hex();
}

TEST(EmbeddedHeaders, R03_TheToolkitsInAKeyAreTheBytesThatAreEmbedded) {
  const std::string text = "#include <cuda_fp16.h>\n";
  std::vector<Header> headers = llvm::cantFail(headers_for(text));
  EXPECT_EQ(header_digest(text), FieldHasher().add("cuda", digest_of(headers)).hex());
  std::string changed = headers[0].text.str();
  changed.back() ^= 1;
  headers[0].text = changed;
  EXPECT_NE(header_digest(text), FieldHasher().add("cuda", digest_of(headers)).hex());
}

/// What the build's tool would have keys know of a toolkit with these texts in a.cuh, b.cuh, which that
/// includes, and c.cuh, which nobody includes.
std::string toolkit_digest(const std::vector<std::string>& texts) {
  const TemporaryFolder folder;
  write_text(folder / "a.cuh", "#include \"b.cuh\"\n" + texts[0]);
  write_text(folder / "b.cuh", texts[1]);
  write_text(folder / "c.cuh", texts[2]);
  const std::string command =
      llvm::formatv("{0} {1}/blob {1}/index {1}/d toolkit {1} {1} a.cuh", MINUET_EMBED_HEADERS, folder.path())
          .str();
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
  return contents(folder / "index");
}

TEST(EmbeddedHeaders, R03_AByteOfAHeaderOfTheToolkitIsAnotherDigest) {
  const std::string digest = toolkit_digest({"int a;\n", "int b;\n", "int c;\n"});
  EXPECT_EQ(toolkit_digest({"int a;\n", "int b;\n", "int c;\n"}), digest);
  EXPECT_NE(toolkit_digest({"int A;\n", "int b;\n", "int c;\n"}), digest);
  EXPECT_NE(toolkit_digest({"int a;\n", "int B;\n", "int c;\n"}), digest);
  EXPECT_EQ(toolkit_digest({"int a;\n", "int b;\n", "int C;\n"}), digest);
}

TEST(EmbeddedHeaders, R03_NoIncludeLeavesTheEmbeddedSet) {
  for (const char* line : {"#include \"/etc/passwd\"\n", " # include </usr/include/stdio.h>\n",
                           "#include \"../x.h\"\n", "#include \"kernels_templates/../../x.h\"\n"}) {
    const StatusError status = take_status(headers_for(line).takeError());
    EXPECT_EQ(status.code(), StatusCode::InvalidArgument) << line;
    EXPECT_THAT(status.message(), HasSubstr("only embedded headers"));
  }
  EXPECT_THAT(names_for("// #include \"/etc/passwd\"\nint include;\n"), testing::IsEmpty());
}

TEST(EmbeddedHeaders, R29_AKernelPaysForWhatItIncludes) {
  const std::vector<std::string> plain = names_for(emit(UniqueSpec{}).text);
  EXPECT_TRUE(has_prefix(plain, "kernels_templates/map/unique.h"));
  EXPECT_FALSE(has_prefix(plain, "kernels_templates/gmas/")) << "of ours only what it includes";
  EXPECT_FALSE(has_prefix(plain, "cub/"));
  EXPECT_FALSE(has_prefix(plain, "cuda_"));
  const std::vector<std::string> half = names_for(emit(GatherSpec{}).text);
  EXPECT_FALSE(has_prefix(half, "cub/"));
  EXPECT_LT(half.size(), 60u);
  const std::vector<std::string> scan = names_for(emit(ScanSpec{}).text);
  EXPECT_TRUE(has_prefix(scan, "cub/agent/agent_scan.cuh"));
  EXPECT_TRUE(has_prefix(scan, "cuda_fp16.h"));
  std::vector<std::string> sorted = scan;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(std::adjacent_find(sorted.begin(), sorted.end()), sorted.end()) << "no header twice";
}

TEST(EmbeddedHeaders, IncludeLinesAreFoundAsWritten) {
  EXPECT_THAT(
      included_names(
          "#include <a/b.h>\n  #  include \"c.h\" // x\n//#include <d>\n#include MACRO\nx\n#include <e"),
      testing::ElementsAre("a/b.h", "c.h"));
  EXPECT_THAT(included_names(""), testing::IsEmpty());
}

TEST(EmbeddedHeaders, ReportsCanQuoteThem) {
  names_for(emit(GatherSpec{}).text);
  EXPECT_THAT(unpacked_header("kernels_templates/gmas/gather.h").str(), HasSubstr("gather"));
  EXPECT_EQ(unpacked_header("nothing.h"), "");
}

}  // namespace
}  // namespace minuet
