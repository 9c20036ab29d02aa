// Faults behind the points of a PLY file are warnings, and the points stay strict.
#include "tests/tools/minuet/cloud/bytes.h"
#include "tests/tools/minuet/cloud/ply_headers.h"
#include "tools/minuet/cloud/readers/ply.h"

namespace minuet::tool {
namespace {

using testing::AllOf;
using testing::HasSubstr;

struct RestCase {
  const char* behind;  ///< lines of the header behind the vertices
  std::string body;    ///< behind the vertices
  const char* says;
};

std::string warning_of(const std::string& file) {
  llvm::Expected<Cloud> cloud = read_ply(file);
  if (!cloud) return "error: " + llvm::toString(cloud.takeError());
  EXPECT_EQ(cloud->points.size(), 2u);
  return cloud->warnings.empty() ? "" : cloud->warnings.front();
}

constexpr const char* kFace = "element face 2\nproperty list uchar int i\n";

TEST(PlyReader, FaultsBehindTheVerticesAreWarnings) {
  const RestCase cases[] = {
      {kFace, "2 0 1\n1 0\n", ""},
      {kFace, "2 0 1\n", "row 1 of 2 of element 'face'"},
      {kFace, "2 0 1\n3 0\n", "row 1 of 2 of element 'face', property 'i'"},
      {kFace, "2 0 1\n1.5 0\n", "'1.5' is not a number of the type"},
      {kFace, "2 0 1\n-1 0\n", "'-1' is not a number of the type"},
      {kFace, "2 0 1\n1 0\n1 1\n", "more data follow than the 2 rows of element 'face'"},
      {kFace, "", "promises 2 rows of element 'face'"},
      {"element edge 1\nproperty float128 a\nproperty float128 a\n", "1 2\n", ""},
      {"element face 1\nproperty list float128 int i\n", "1 0\n",
       "the type of the list's length is not known"},
  };
  for (const RestCase& one : cases) {
    SCOPED_TRACE(one.behind + one.body);
    const std::string header =
        replaced(vertex_header(2, kXyz), "end_header\n", one.behind + std::string("end_header\n"));
    const std::string warning = warning_of(header + "1 2 3\n4 5 6\n" + one.body);
    if (*one.says) {
      EXPECT_THAT(warning, AllOf(HasSubstr("the points are read"), HasSubstr(one.says)));
    } else {
      EXPECT_EQ(warning, "");
    }
  }
}

TEST(PlyReader, FaultsBehindBinaryVerticesAreWarnings) {
  for (const bool big : {false, true}) {
    const std::string header =
        replaced(vertex_header(2, kXyz, big ? "binary_big_endian" : "binary_little_endian"), "end_header\n",
                 kFace + std::string("end_header\n"));
    std::string points;
    for (int i = 1; i <= 6; ++i) points += packed(static_cast<float>(i), big);
    const std::string face = '\1' + packed(7, big);
    EXPECT_EQ(warning_of(header + points + face + face), "");
    EXPECT_THAT(warning_of(header + points + face), HasSubstr("row 1 of 2 of element 'face'"));
    EXPECT_THAT(warning_of(header + points + face + "\3"), HasSubstr("row 1 of 2 of element 'face'"));
    EXPECT_THAT(warning_of(header + points + face + face + "\n"), HasSubstr("more data follow"));
    EXPECT_THAT(warning_of(header + points.substr(1)), testing::StartsWith("error: "));
    EXPECT_THAT(warning_of(replaced(header, "int i", "float128 i") + points + face + face),
                HasSubstr("the type 'float128' is not known"));
    EXPECT_THAT(warning_of(header + points + face),
                HasSubstr("or the number of points in the header is wrong: "));
  }
}

/// Rows of four numbers under a header of three, and the like: what follows the vertices is not what is
/// wrong.
TEST(PlyReader, VerticesStayStrict) {
  const auto error = [](const std::string& behind, const std::string& body) {
    return error_of(
        read_ply(replaced(vertex_header(2, kXyz), "end_header\n", behind + "end_header\n") + body));
  };
  EXPECT_THAT(error(kFace, "1 2 3 9\n4 5 6 9\n2 0 1\n1 0\n"), HasSubstr("the points are not one per line"));
  EXPECT_THAT(error(kFace, "1 2\n4 5\n2 0 1\n2 0 1\n"), HasSubstr("the points are not one per line"));
  EXPECT_THAT(error(kFace, "1\n2\n3\n4\n5\n6\n9\n"), HasSubstr("the points are not one per line"));
  EXPECT_THAT(error(kFace, "1 2 3\n4 five 6\n2 0 1\n1 0\n"), HasSubstr("'five'"));
  EXPECT_THAT(error("", "1 2 3\n4 5 6\n7\n"),
              HasSubstr("more data follow than the 2 rows of element 'vertex'"));
  EXPECT_THAT(error("element face 0\nproperty list uchar int i\n", "1 2 3\n4 5 6\n7 8 9\n"),
              HasSubstr("more data follow"));
  EXPECT_EQ(error(kFace, "1 2 3 4 5 6 2 0 1 1 0"), "");
}

constexpr const char* kTooLarge = "so the number of points in the header may be too large";
constexpr const char* kTooSmall = "so the number of points in the header may be too small";
constexpr const char* kEdges =
    "element edge 1\nproperty int a\nproperty int b\nproperty uchar c\nproperty uchar d\n";

/// The header of the file may count its points wrongly. Triangles are rows of four numbers, as points with an
/// intensity are.
struct CountCase {
  int points;          ///< that the header promises
  std::string behind;  ///< lines of the header behind the points
  std::string body;
  const char* says;  ///< in the error; empty: there is a warning or nothing
  const char* warns = "";
};

std::vector<CountCase> count_cases() {
  const std::string two = "0.5 1 2 3\n4 5 6 1\n", triangles = "3 0 1 2\n3 1 2 0\n";
  const std::string faces = kFace, edges = kEdges, none = "element none 0\nproperty int a\n";
  return {
      {2, faces, two + triangles, ""},
      // Too many points are promised: the last of them are rows of what follows.
      {3, faces, two + triangles, kTooLarge},
      {4, faces, two + triangles, kTooLarge},
      {3, none + faces, two + triangles, kTooLarge},
      {3, faces + edges, two + triangles + "1 0 7 7\n", kTooLarge},
      {3, edges + faces, two + "1 0 7 7\n" + triangles, kTooLarge},
      {3, "element normal 2\nproperty float a\nproperty float b\nproperty float c\nproperty float d\n",
       two + "0.5 0.5 0 1\n1 0 0 0\n", kTooLarge},
      // Too few are promised: points stand where other rows should.
      {1, faces, two + triangles, kTooSmall},
      {1, faces, "1 2 3 4\n1.5 5 6 1\n" + triangles, kTooSmall},
      {1, faces, "1 2 3 4\n-1 5 6 1\n" + triangles, kTooSmall},
      {1, faces, two + "3 7 8 9\n" + triangles, kTooSmall},
      {1, none + faces, two + triangles, kTooSmall},
      {1, faces + edges, two + triangles + "1 0 7 7\n", kTooSmall},
      {0, faces, "", "", "promises 2 rows of element 'face'"},
      // The points are good, and what follows them is not.
      {2, faces, two, "", "truncated"},
      {2, faces, two + "3 0 1 2\n", "", "row 1 of 2 of element 'face'"},
      {2, faces, two + "3 0 1 2\n9 0 1 2\n", "", "row 1 of 2 of element 'face'"},
      {2, faces, two + "9 0 1 2\n3 0 1 2\n", "", "row 0 of 2 of element 'face'"},
      {2, faces, two + triangles + "3 0 1 2\n", "", "more data follow"},
      {2, faces, two + triangles + "abc\n", "", "more data follow"},
      {2, faces, two + "4 0 1 2 3\n4 0 1 2 3\n4 0 1 2 3\n", "", "more data follow"},
      {2, faces, two + "3 0 1 2\nabc 0 1 2\n", "", "'abc' is not a number"},
      {2, faces, "0.5 1 2 3\n3 5 6 1\n" + triangles + "3 0 1 2\n", "", "more data follow"},
      {2, "element edge 1\nproperty float128 a\n", two + "1 2\n", "", "more data follow"},
      {2, "element nothing 3\n", two + "\n", ""},
      {2, "element nothing 3\n", two + "1 2\n", "", "more data follow"},
      {2, "element nothing 3\n", two + "1 2 3 4\n", kTooSmall},
  };
}

TEST(PlyReader, AWrongNumberOfPoints) {
  for (const char* line_end : {"\n", "\r\n", "\r"}) {
    for (const CountCase& one : count_cases()) {
      const std::string header =
          replaced(vertex_header(one.points, kXyzi), "end_header\n", one.behind + "end_header\n");
      const std::string file = replaced(header + one.body, "\n", line_end);
      SCOPED_TRACE(file);
      llvm::Expected<Cloud> cloud = read_ply(file);
      if (*one.says) {
        EXPECT_THAT(error_of(std::move(cloud)), HasSubstr(one.says));
        continue;
      }
      ASSERT_TRUE(!!cloud) << llvm::toString(cloud.takeError());
      EXPECT_EQ(cloud->points.size(), static_cast<size_t>(one.points));
      const std::string warning = cloud->warnings.empty() ? "" : cloud->warnings.front();
      EXPECT_EQ(warning.empty(), !*one.warns) << warning;
      EXPECT_THAT(warning, HasSubstr(one.warns));
    }
  }
}

}  // namespace
}  // namespace minuet::tool
