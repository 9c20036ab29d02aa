// Checkpoints of both forms: types, views, the choice of the dict, and everything that is refused.
#include "runtime/weights/checkpoint.h"

#include <gmock/gmock.h>

#include <cstring>
#include <fstream>

#include "runtime/weights/tensor_file.h"
#include "tests/support/safetensors_writer.h"
#include "tests/support/torch_writer.h"

namespace minuet {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using torch::Form;
using torch::Storage;
using Values = std::vector<float>;
using Sizes = std::vector<std::int64_t>;

template <class Element>
std::string raw(const std::vector<Element>& elements) {
  return std::string(reinterpret_cast<const char*>(elements.data()), elements.size() * sizeof(Element));
}

/// A storage of the floats 0, 1, 2 and so on.
Storage counting(std::int64_t count, const std::string& key = "0") {
  Values values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(static_cast<float>(i));
  return {key, raw(values), count};
}

class Checkpoint : public testing::TestWithParam<Form> {
 protected:
  std::string file_of(const std::string& root, const std::vector<Storage>& storages) const {
    const std::string pickle = torch::pickle(root);
    return GetParam() == Form::Zip ? torch::zip_form(pickle, storages) : torch::old_form(pickle, storages);
  }
  std::string storage(const std::string& type, std::int64_t elements, const std::string& key = "0") const {
    return torch::storage(type, key, elements, GetParam() == Form::Old);
  }
  std::string floats(std::int64_t elements, const std::string& key = "0") const {
    return storage("FloatStorage", elements, key);
  }
  /// A tensor of two elements at the start of a storage of two.
  std::string pair() const { return torch::tensor(floats(2), 0, {2}, {1}); }

  static llvm::Expected<TensorFile> open(const std::string& bytes, const std::string& key = "") {
    const TemporaryPath file("some.pth");
    std::ofstream(file.path(), std::ios::binary) << bytes;
    return TensorFile::open(file.path(), key);
  }
  static std::string error_of(const std::string& bytes, const std::string& key = "") {
    llvm::Expected<TensorFile> file = open(bytes, key);
    return file ? "" : llvm::toString(file.takeError());
  }
  /// The tensor "t" alone.
  std::string error_of_tensor(const std::string& tensor, const std::vector<Storage>& storages) const {
    return error_of(file_of(torch::dict({{"t", tensor}}), storages));
  }
  std::string error_of_view(std::int64_t offset, const Sizes& shape, const Sizes& strides) const {
    return error_of_tensor(torch::tensor(floats(12), offset, shape, strides), {counting(12)});
  }
  Values read(const std::string& tensor, const std::vector<Storage>& storages, const Sizes& shape) const {
    llvm::Expected<TensorFile> file = open(file_of(torch::dict({{"t", tensor}}), storages));
    EXPECT_TRUE(static_cast<bool>(file)) << (file ? "" : llvm::toString(file.takeError()));
    if (!file) return {};
    llvm::Expected<Values> values = file->read("t", shape);
    EXPECT_TRUE(static_cast<bool>(values)) << (values ? "" : llvm::toString(values.takeError()));
    return values ? *values : Values();
  }
  Values view(std::int64_t offset, const Sizes& shape, const Sizes& strides) const {
    return read(torch::tensor(floats(12), offset, shape, strides), {counting(12)}, shape);
  }
};

INSTANTIATE_TEST_SUITE_P(Forms, Checkpoint, testing::Values(Form::Zip, Form::Old),
                         [](const auto& info) { return info.param == Form::Zip ? "zip" : "old"; });

TEST_P(Checkpoint, EveryTypeThatCanBeRead) {
  const std::vector<std::uint16_t> halves{0x3c00, 0xc000}, brains{0x3f80, 0xc000};
  const std::tuple<const char*, std::string> types[] = {{"FloatStorage", raw(Values{1, -2})},
                                                        {"DoubleStorage", raw(std::vector<double>{1, -2})},
                                                        {"HalfStorage", raw(halves)},
                                                        {"BFloat16Storage", raw(brains)}};
  for (const auto& [type, bytes] : types) {
    SCOPED_TRACE(type);
    const std::string tensor = torch::tensor(storage(type, 2), 0, {2}, {1});
    EXPECT_THAT(read(tensor, {{"0", bytes, 2}}, {2}), ElementsAre(1, -2));
    EXPECT_THAT(read(torch::parameter(tensor), {{"0", bytes, 2}}, {2}), ElementsAre(1, -2));
  }
}

/// As those of safetensors files: a network that needs one of them says that it cannot be read.
TEST_P(Checkpoint, TypesThatAreThereButCannotBeRead) {
  const std::tuple<const char*, const char*, std::size_t> types[] = {
      {"LongStorage", "I64", 8},        {"IntStorage", "I32", 4}, {"ShortStorage", "I16", 2},
      {"CharStorage", "I8", 1},         {"ByteStorage", "U8", 1}, {"BoolStorage", "BOOL", 1},
      {"ComplexFloatStorage", "C64", 8}};
  for (const auto& [type, name, bytes] : types) {
    SCOPED_TRACE(type);
    const std::string tensor = torch::tensor(storage(type, 2), 0, {2}, {1});
    const TensorFile file =
        llvm::cantFail(open(file_of(torch::dict({{"t", tensor}}), {{"0", std::string(2 * bytes, '\1'), 2}})));
    EXPECT_THAT(file.names(), ElementsAre("t"));
    EXPECT_THAT(llvm::toString(file.read("t", {2}).takeError()),
                HasSubstr("is of type \"" + std::string(name) + "\"; F64, F32, F16 and BF16 can be read"));
  }
  EXPECT_THAT(error_of_tensor(torch::tensor(storage("QInt8Storage", 2), 0, {2}, {1}), {{"0", "ab", 2}}),
              HasSubstr("is of another type: the Python name torch.QInt8Storage"));
}

TEST_P(Checkpoint, TensorsOfUntypedStorages) {
  const auto tensor = [&](const std::string& dtype) {
    return torch::call(torch::global("torch._utils", "_rebuild_tensor_v3"),
                       {storage("UntypedStorage", 8), torch::integer(0), torch::tuple_of({2}),
                        torch::tuple_of({1}), torch::boolean(false), torch::dict({}), dtype});
  };
  const std::vector<Storage> storages{{"0", raw(Values{3, 4}), 8}};
  EXPECT_THAT(read(tensor(torch::global("torch", "float32")), storages, {2}), ElementsAre(3, 4));
  for (const std::string& dtype :
       {torch::global("torch", "float8_e5m2"), torch::none(), torch::global("os", "system")})
    EXPECT_THAT(error_of_tensor(tensor(dtype), storages), HasSubstr("it has no dtype that can be read"));
  EXPECT_THAT(error_of_tensor(tensor(torch::global("torch", "float64")), storages),
              HasSubstr("reach past the end of its storage of 1 elements"));
}

TEST_P(Checkpoint, TensorsByTypeWithAttributes) {
  const std::string inner =
      torch::tuple({floats(2), torch::integer(0), torch::tuple_of({2}), torch::tuple_of({1})});
  const auto tensor = [&](const std::string& function, const std::string& type) {
    return torch::call(torch::global("torch._tensor", "_rebuild_from_type_v2"),
                       {function, type, inner, torch::dict({{"note", torch::text("mine")}})});
  };
  const std::string rebuild = torch::global("torch._utils", "_rebuild_tensor_v2"),
                    parameter = torch::global("torch.nn.parameter", "Parameter");
  EXPECT_THAT(read(tensor(rebuild, parameter), {counting(2)}, {2}), ElementsAre(0, 1));
  for (const std::string& wrong :
       {tensor(torch::global("os", "system"), parameter), tensor(rebuild, torch::global("mine", "Tensor"))})
    EXPECT_THAT(error_of(file_of(torch::dict({{"p", pair()}, {"t", wrong}}), {counting(2)})),
                HasSubstr("\"t\" is the Python object torch._tensor._rebuild_from_type_v2"));
}

TEST_P(Checkpoint, Views) {
  EXPECT_THAT(view(0, {2, 6}, {6, 1}), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
  EXPECT_THAT(view(3, {2, 2}, {2, 1}), ElementsAre(3, 4, 5, 6));
  EXPECT_THAT(view(0, {3, 4}, {1, 3}), ElementsAre(0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11));
  EXPECT_THAT(view(1, {2, 1, 2}, {6, 1, 2}), ElementsAre(1, 3, 7, 9));
  EXPECT_THAT(view(11, {}, {}), ElementsAre(11));
  EXPECT_THAT(view(4, {1, 1}, {99999, 0}), ElementsAre(4));  // no step is made along these axes
  EXPECT_THAT(view(0, {0, 5}, {5, 1}), ElementsAre());
  EXPECT_THAT(view(0, {2, 3}, {1, 4}), ElementsAre(0, 4, 8, 1, 5, 9));
}

TEST_P(Checkpoint, TensorsMayShareAStorage) {
  const std::string root = torch::dict({{"all", torch::tensor(floats(12), 0, {12}, {1})},
                                        {"end", torch::tensor(floats(12), 10, {2}, {1})},
                                        {"same", torch::tensor(floats(12), 0, {12}, {1})}});
  const TensorFile file = llvm::cantFail(open(file_of(root, {counting(12)})));
  EXPECT_THAT(llvm::cantFail(file.read("end", {2})), ElementsAre(10, 11));
  EXPECT_EQ(llvm::cantFail(file.read("all", {12})), llvm::cantFail(file.read("same", {12})));
}

TEST_P(Checkpoint, ViewsThatLeaveTheStorageAreRefused) {
  for (const auto& [offset, shape, strides] :
       std::vector<std::tuple<std::int64_t, Sizes, Sizes>>{{1, {12}, {1}},
                                                           {0, {13}, {1}},
                                                           {12, {}, {}},
                                                           {0, {2, 2}, {11, 1}},
                                                           {0, {2}, {INT64_MAX}},
                                                           {INT64_MAX, {1}, {1}},
                                                           {0, {3, 3}, {INT64_MAX / 2, INT64_MAX / 2}},
                                                           {0, {INT64_MAX}, {1}}})
    EXPECT_THAT(
        error_of_view(offset, shape, strides),
        AllOf(HasSubstr("tensor \"t\": its shape"), HasSubstr("past the end of its storage of 12 elements")));
  EXPECT_THAT(error_of_view(0, {INT64_MAX, 3}, {1, 1}), HasSubstr("has too many elements"));
  EXPECT_THAT(error_of_view(-1, {1}, {1}), HasSubstr("its offset or the number of its strides is wrong"));
  EXPECT_THAT(error_of_view(0, {1, 1}, {1}), HasSubstr("its offset or the number of its strides is wrong"));
  EXPECT_THAT(error_of_view(0, {-1}, {1}), HasSubstr("its shape is not a tuple of at most 64 numbers"));
  EXPECT_THAT(error_of_view(11, {2}, {-1}), HasSubstr("its stride is not a tuple of at most 64 numbers"));
  EXPECT_THAT(error_of_view(0, Sizes(65, 1), Sizes(65, 1)), HasSubstr("at most 64 numbers"));
}

/// Else a file of a few bytes could name a tensor of any size.
TEST_P(Checkpoint, ViewsWhoseElementsOverlapAreRefused) {
  for (const auto& [shape, strides] : std::vector<std::pair<Sizes, Sizes>>{
           {{1000000}, {0}}, {{2, 3}, {1, 1}}, {{3, 3}, {2, 1}}, {{2, 2, 2}, {1, 1, 4}}, {{4, 2}, {0, 1}}})
    EXPECT_THAT(error_of_view(0, shape, strides), HasSubstr("save a contiguous() copy of the tensor"));
}

TEST_P(Checkpoint, StoragesThatAreWrongAreRefused) {
  const std::string tensor = torch::tensor(floats(12), 0, {12}, {1});
  EXPECT_THAT(error_of_tensor(tensor, {counting(12, "1")}),
              HasSubstr(GetParam() == Form::Zip ? "\"0\" is missing in its zip archive"
                                                : "\"1\" belongs to no tensor"));
  EXPECT_THAT(error_of_tensor(tensor, {}), HasSubstr("its storage \"0\" is missing in"));
  for (const std::int64_t count : {11, 13, 0}) {
    EXPECT_THAT(error_of_tensor(tensor, {counting(count)}),
                HasSubstr(GetParam() == Form::Zip ? "but its tensors need 12 elements of 4 bytes"
                                                  : "has another size than its tensors say"));
  }
  for (const std::string& wrong :
       {torch::none(), torch::tuple({}) + "Q", torch::text("0") + "Q",
        torch::tuple({torch::text("storage")}) + "Q",
        torch::tuple({torch::text("module"), torch::none(), torch::none()}) + "Q"}) {
    EXPECT_NE(error_of_tensor(torch::tensor(wrong, 0, {1}, {1}), {}), "") << wrong;
  }
  const std::string negative = storage("FloatStorage", -1);
  EXPECT_THAT(error_of_tensor(torch::tensor(negative, 0, {1}, {1}), {}),
              HasSubstr("without a key and a size"));
  const std::string part =
      torch::tuple({torch::text("storage"), torch::global("torch", "FloatStorage"), torch::text("0"),
                    torch::text("cpu"), torch::integer(12), torch::tuple_of({1, 2})}) +
      "Q";
  EXPECT_THAT(error_of_tensor(torch::tensor(part, 0, {1}, {1}), {counting(12)}),
              HasSubstr("is a part of another one, as torch before 0.4 wrote it"));
  // The state and the items of a call could change what it makes.
  for (const std::string& changed :
       {pair() + torch::dict({}) + "b", pair() + torch::none() + torch::none() + "s"}) {
    EXPECT_THAT(error_of(file_of(torch::dict({{"p", pair()}, {"t", changed}}), {counting(2)})),
                HasSubstr("\"t\" is the Python object torch._utils._rebuild_tensor_v2"));
    EXPECT_THAT(
        error_of(file_of(torch::dict({{"p", pair()}, {"t", torch::parameter(changed)}}), {counting(2)})),
        HasSubstr("\"t\" is the Python object torch._utils._rebuild_parameter"));
  }
  // A tensor whose signs are to be changed has metadata.
  const auto with_metadata = [&](const std::string& metadata) {
    return torch::call(torch::global("torch._utils", "_rebuild_tensor_v2"),
                       {floats(2), torch::integer(0), torch::tuple_of({2}), torch::tuple_of({1}),
                        torch::none(), torch::none(), metadata});
  };
  EXPECT_THAT(error_of_tensor(with_metadata(torch::dict({{"neg", torch::integer(1)}})), {counting(2)}),
              HasSubstr("it has metadata"));
  EXPECT_THAT(read(with_metadata(torch::dict({})), {counting(2)}, {2}), ElementsAre(0, 1));
  EXPECT_THAT(read(with_metadata(torch::none()), {counting(2)}, {2}), ElementsAre(0, 1));
  const std::string few = torch::call(torch::global("torch._utils", "_rebuild_tensor_v2"), {floats(2)});
  EXPECT_THAT(error_of_tensor(few, {counting(2)}), HasSubstr("it is not as torch.save writes tensors"));
}

TEST_P(Checkpoint, TheRootIsTakenIfItsValuesAreTensors) {
  for (const std::string& root : {torch::dict({{"a", pair()}}), torch::ordered_dict({{"a", pair()}}),
                                  torch::dict({{"a", pair()}, {"bn.num_batches_tracked", torch::integer(7)}}),
                                  // Python 2 wrote an OrderedDict as a list of pairs.
                                  torch::call(torch::global("collections", "OrderedDict"),
                                              {torch::list({torch::list({torch::text("a"), pair()})})})})
    EXPECT_THAT(llvm::cantFail(open(file_of(root, {counting(2)}))).names(), ElementsAre("a"));
}

TEST_P(Checkpoint, UsualKeys) {
  const std::string tensors = torch::ordered_dict({{"a", pair()}});
  const std::string optimizer = torch::dict({{"state", torch::dict({})}});
  const std::string it = torch::call(torch::global("argparse", "Namespace"), {}) + torch::dict({}) + "b";
  for (const char* key : {"model_state", "state_dict", "model_state_dict", "model", "net"}) {
    const std::string root = torch::dict({{"epoch", torch::integer(80)},
                                          {"it", it},
                                          {"best", torch::tensor(floats(2), 0, {}, {})},
                                          {key, tensors},
                                          {"optimizer_state", optimizer},
                                          {"version", torch::text("0.5")}});
    EXPECT_THAT(llvm::cantFail(open(file_of(root, {counting(2)}))).names(), ElementsAre("a")) << key;
    EXPECT_THAT(llvm::cantFail(open(file_of(root, {counting(2)}), key)).names(), ElementsAre("a")) << key;
  }
}

TEST_P(Checkpoint, TheKeyNamesOneOfSeveral) {
  const std::string tensors = torch::dict({{"a", pair()}}), others = torch::dict({{"b", pair()}});
  const std::string root =
      torch::dict({{"model", tensors},
                   {"net", others},
                   {"ema", torch::dict({{"state_dict", others}, {"n", torch::integer(1)}})}});
  const std::string bytes = file_of(root, {counting(2)});
  EXPECT_THAT(error_of(bytes),
              HasSubstr("it has several dicts of tensors; name one with the option weights_key: its "
                        "keys are \"model\" (a dict of tensors), \"net\" (a dict of tensors), "
                        "\"ema\" (a dict)"));
  EXPECT_THAT(llvm::cantFail(open(bytes, "net")).names(), ElementsAre("b"));
  EXPECT_THAT(llvm::cantFail(open(bytes, "ema/state_dict")).names(), ElementsAre("b"));
  EXPECT_THAT(error_of(bytes, "ema"),
              HasSubstr("its dict \"ema\" has other values than tensors: \"state_dict\" is a "
                        "dict, \"n\" is a number"));
  EXPECT_THAT(
      error_of(bytes, "modl"),
      HasSubstr("the option weights_key is \"modl\", but \"modl\" is not a key of its dict: its keys are "));
  EXPECT_THAT(error_of(bytes, "ema/n"), HasSubstr("but \"n\" is not a dict: its keys are \"state_dict\""));
  EXPECT_THAT(error_of(bytes, "/"), HasSubstr("is not a key"));
}

TEST_P(Checkpoint, OtherRootsAreRefused) {
  EXPECT_THAT(error_of(file_of(pair(), {counting(2)})),
              HasSubstr("it holds one tensor and not a dict of tensors"));
  EXPECT_THAT(error_of(file_of(torch::list({}), {})), HasSubstr("it holds a list"));
  EXPECT_THAT(
      error_of(file_of(torch::call(torch::global("pcdet.models", "SECOND"), {}), {})),
      HasSubstr("it holds the Python object pcdet.models.SECOND and not a dict of tensors: save the module's "
                "state_dict()"));
  EXPECT_THAT(error_of(file_of(torch::dict({}), {})), HasSubstr("it has no keys"));
  EXPECT_THAT(
      error_of(file_of(torch::dict({{"weights", torch::dict({{"a", pair()}})}}), {counting(2)})),
      HasSubstr("no dict of tensors at its root or under a usual key; name one with the option weights_key: "
                "its keys are \"weights\" (a dict of tensors)"));
}

/// Python would call these; here they are in the way only where they lie among the tensors.
TEST_P(Checkpoint, NothingIsCalled) {
  const std::string evil = torch::call(torch::global("os", "system"), {torch::text("touch /tmp/called")});
  const std::string tensors = torch::dict({{"a", pair()}});
  EXPECT_EQ(error_of(file_of(torch::dict({{"model", tensors}, {"evil", evil}}), {counting(2)})), "");
  EXPECT_THAT(
      error_of(file_of(torch::dict({{"a", pair()}, {"evil", evil}}), {counting(2)})),
      HasSubstr("its root dict has other values than tensors: \"evil\" is the Python object os.system"));
  EXPECT_THAT(error_of(file_of(evil, {})), HasSubstr("it holds the Python object os.system"));
}

TEST_P(Checkpoint, NamesThatAreWrongAreRefused) {
  EXPECT_THAT(error_of(file_of(torch::dict({{"a", pair()}, {"a", pair()}}), {counting(2)})),
              HasSubstr("the name \"a\" is in its dict twice"));
  for (const std::string& name : {std::string("\xff"), std::string(5000, 'a')})
    EXPECT_THAT(error_of(file_of(torch::dict({{name, pair()}}), {counting(2)})),
                HasSubstr("is not a text of at most"));
  const std::string by_number = "}(" + torch::integer(0) + pair() + "u";
  EXPECT_THAT(error_of(file_of(by_number, {counting(2)})), HasSubstr("is not a text of at most"));
}

TEST_P(Checkpoint, CutOffItIsRefused) {
  const std::string bytes = file_of(torch::dict({{"a", pair()}}), {counting(2)});
  ASSERT_EQ(error_of(bytes), "");
  for (std::size_t size = 40; size < bytes.size(); size += 7)
    EXPECT_NE(error_of(bytes.substr(0, size)), "") << size;
  EXPECT_NE(error_of(bytes + "x"), "");
}

TEST(CheckpointFile, FormsThatAreRefused) {
  const auto error_of = [](const std::string& bytes) {
    EXPECT_TRUE(is_checkpoint_file(bytes)) << bytes;
    return llvm::toString(read_checkpoint(bytes, "").takeError());
  };
  const std::string pickle = torch::pickle(torch::dict({}));
  EXPECT_THAT(error_of(pickle), HasSubstr("it is a pickle of a dict, which torch.save did not write"));
  EXPECT_THAT(error_of(torch::old_form(pickle, {}, /*is_little_endian=*/false)), HasSubstr("highest byte"));
  std::vector<torch::ZipEntry> big = torch::zip_entries(pickle, {});
  big[1].bytes = "big";
  EXPECT_THAT(error_of(torch::zip(big)), HasSubstr("it stores the highest byte of each number first"));
  std::vector<torch::ZipEntry> script = torch::zip_entries(pickle, {});
  script.push_back({"archive/constants.pkl", "x"});
  EXPECT_THAT(error_of(torch::zip(script)), HasSubstr("it is a TorchScript archive"));
  EXPECT_THAT(error_of(torch::zip({{"a/data.pkl", pickle}, {"b/data.pkl", pickle}})),
              HasSubstr("two folders"));
  EXPECT_THAT(error_of(torch::zip({{"data.pkl", pickle}})), HasSubstr("has no data.pkl"));
  EXPECT_THAT(error_of(torch::zip({{"a/data.pkl", pickle + "x"}})),
              HasSubstr("has 1 bytes behind the pickle"));
  std::string tar(512, '\0');
  tar.replace(257, 5, "ustar");
  EXPECT_THAT(error_of(tar),
              HasSubstr("it is a tar archive: unpack it, or, if torch.save wrote it before version 0.1.10"));
  std::string protocol = torch::old_form(pickle, {});
  protocol.replace(protocol.find("M\xe9\x03"), 3, "M\xe8\x03");
  EXPECT_THAT(error_of(protocol), HasSubstr("its protocol of torch.save is not 1001"));
}

/// The pickle need not be near the start of the archive.
TEST(CheckpointFile, EntriesInAnyOrderAndFolder) {
  std::vector<torch::ZipEntry> entries = torch::zip_entries(
      torch::pickle(
          torch::dict({{"t", torch::tensor(torch::storage("FloatStorage", "0", 2000), 0, {2000}, {1})}})),
      {counting(2000)}, "second_epoch:80");
  std::swap(entries[0], entries[2]);
  const std::string bytes = torch::zip(entries);
  ASSERT_TRUE(is_checkpoint_file(bytes));
  EXPECT_EQ(llvm::cantFail(read_checkpoint(bytes, "")).tensors.size(), 1u);
}

TEST(CheckpointFile, AKeyIsForCheckpointsOnly) {
  const TemporaryPath file("w.safetensors");
  write_safetensors(file.path(), {{"a", {{1}, {2}}}});
  EXPECT_THAT(llvm::toString(TensorFile::open(file.path(), "model").takeError()),
              HasSubstr("the option weights_key is \"model\", but the file is not a PyTorch checkpoint"));
}

}  // namespace
}  // namespace minuet
