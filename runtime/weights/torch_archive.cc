#include "runtime/weights/torch_archive.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Endian.h"
#include "runtime/weights/list_text.h"

namespace minuet {
namespace {

// An untyped storage counts bytes. Quantized and other types cannot be parameters.
constexpr TorchType kTypes[] = {{"FloatStorage", "float32", "F32", 4},
                                {"HalfStorage", "float16", "F16", 2},
                                {"BFloat16Storage", "bfloat16", "BF16", 2},
                                {"DoubleStorage", "float64", "F64", 8},
                                {"LongStorage", "int64", "I64", 8},
                                {"IntStorage", "int32", "I32", 4},
                                {"ShortStorage", "int16", "I16", 2},
                                {"CharStorage", "int8", "I8", 1},
                                {"ByteStorage", "uint8", "U8", 1},
                                {"BoolStorage", "bool", "BOOL", 1},
                                {"ComplexFloatStorage", "complex64", "C64", 8},
                                {"ComplexDoubleStorage", "complex128", "C128", 16},
                                {"UntypedStorage", "", "U8", 1}};

// torch.save wrote this number, the lowest byte first, in front of the pickles of the older form.
constexpr llvm::StringLiteral kMagic = "\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";
constexpr std::int64_t kProtocol = 1001;

llvm::Error wrong_storage(llvm::StringRef key, const char* why) {
  return make_error(StatusCode::InvalidArgument, "its storage \"{0}\" {1}", shown_name(key), why);
}

/// Returns the class of storages that a node names, or "" if it is none of PyTorch's.
llvm::StringRef storage_class(const Pickle& pickle, const PickleNode& node) {
  if (node.kind != PickleKind::Global) return "";
  const llvm::StringRef module = pickle.part(node, 0).text;
  const bool is_torch = module == "torch" || module == "torch.cuda" || module == "torch.storage";
  return is_torch ? pickle.part(node, 1).text : "";
}

/// Returns true for the node of a storage. Other objects outside the pickle, such as the source code of a
/// module, are no storages.
bool names_storage(const Pickle& pickle, const PickleNode& node) {
  if (node.kind != PickleKind::Persistent) return false;
  const PickleNode& name = pickle.part(node, 0);
  return name.kind == PickleKind::Tuple && !name.parts.empty() && pickle.part(name, 0).text == "storage";
}

/// Reads one of the pickles that the older form has one behind the other, and drops it from `rest`.
llvm::Expected<Pickle> next_pickle(llvm::StringRef& rest) {
  MINUET_ASSIGN(Pickle pickle, read_pickle(rest));
  rest = rest.drop_front(pickle.bytes);
  return pickle;
}

/// Returns true if the description of the system that wrote the file says that it stores the highest byte of
/// numbers first.
bool is_big_endian(const Pickle& system) {
  const std::vector<std::uint32_t>& parts = system.at(system.root).parts;
  for (std::size_t i = 0; i + 1 < parts.size(); i += 2) {
    const PickleNode& value = system.at(parts[i + 1]);
    if (system.at(parts[i]).text == "little_endian") return value.integer == 0;
  }
  return false;
}

llvm::Error refuse_big_endian() {
  return make_error(StatusCode::InvalidArgument,
                    "it stores the highest byte of each number first: load it in Python and save it again on "
                    "a machine that stores the lowest byte first");
}

}  // namespace

const TorchType* find_torch_dtype(llvm::StringRef dtype) {
  const auto* const found = llvm::find_if(kTypes, [&](const TorchType& type) { return type.dtype == dtype; });
  return found == std::end(kTypes) || dtype.empty() ? nullptr : found;
}

llvm::Expected<TorchStorage> read_storage(const Pickle& pickle, const PickleNode& node) {
  if (!names_storage(pickle, node))
    return make_error(StatusCode::InvalidArgument, "it has {0} in place of a storage",
                      describe(pickle, node));
  const PickleNode& name = pickle.part(node, 0);
  TorchStorage storage;
  const bool has_parts = name.parts.size() >= 5 && pickle.part(name, 2).kind == PickleKind::Text &&
                         pickle.part(name, 4).kind == PickleKind::Integer;
  if (!has_parts || pickle.part(name, 4).integer < 0)
    return make_error(StatusCode::InvalidArgument, "it has a storage without a key and a size");
  storage.key = pickle.part(name, 2).text;
  storage.elements = static_cast<std::uint64_t>(pickle.part(name, 4).integer);
  const llvm::StringRef wanted = storage_class(pickle, pickle.part(name, 1));
  for (const TorchType& type : kTypes) {
    if (wanted == type.storage) storage.type = &type;
  }
  if (storage.type == nullptr) {
    return make_error(StatusCode::InvalidArgument, "its storage \"{0}\" is of another type: {1}",
                      shown_name(storage.key), describe(pickle, pickle.part(name, 1)));
  }
  if (name.parts.size() > 5 && pickle.part(name, 5).kind != PickleKind::None)
    return wrong_storage(storage.key, "is a part of another one, as torch before 0.4 wrote it");
  return storage;
}

llvm::Expected<TorchArchive> TorchArchive::open(llvm::StringRef bytes) {
  TorchArchive archive;
  if (bytes.take_front(2) == "PK") {
    MINUET_TRY(archive.open_zip(bytes));
  } else {
    MINUET_TRY(archive.open_pickles(bytes));
  }
  return archive;
}

llvm::Error TorchArchive::open_zip(llvm::StringRef bytes) {
  MINUET_ASSIGN(zip_, ZipArchive::open(bytes));
  for (const std::string& name : zip_->names()) {
    const auto [folder, file] = llvm::StringRef(name).split('/');
    if (file != "data.pkl") continue;
    if (!folder_.empty())
      return make_error(StatusCode::InvalidArgument, "its zip archive has two folders with data.pkl");
    folder_ = folder.str() + "/";
  }
  if (folder_.empty())
    return make_error(StatusCode::InvalidArgument,
                      "its zip archive has no data.pkl, so torch.save did not write it");
  if (zip_->has(folder_ + "constants.pkl")) {
    return make_error(StatusCode::InvalidArgument,
                      "it is a TorchScript archive: load it with torch.jit.load and save its state_dict() "
                      "with torch.save");
  }
  if (zip_->has(folder_ + "byteorder")) {
    MINUET_ASSIGN(const llvm::StringRef order, zip_->read(folder_ + "byteorder"));
    if (order != "little") return refuse_big_endian();
  }
  MINUET_ASSIGN(const llvm::StringRef object, zip_->read(folder_ + "data.pkl"));
  MINUET_ASSIGN(object_, read_pickle(object));
  if (object_.bytes == object.size()) return llvm::Error::success();
  return make_error(StatusCode::InvalidArgument, "its data.pkl has {0} bytes behind the pickle",
                    object.size() - object_.bytes);
}

llvm::Error TorchArchive::open_pickles(llvm::StringRef bytes) {
  llvm::StringRef rest = bytes;
  MINUET_ASSIGN(const Pickle magic, next_pickle(rest));
  const PickleNode& number = magic.at(magic.root);
  if (number.kind != PickleKind::LongInteger || number.text != kMagic) {
    return make_error(
        StatusCode::InvalidArgument,
        "it is a pickle of {0}, which torch.save did not write: save the tensors by their names "
        "with torch.save or with safetensors' save_file",
        describe(magic, number));
  }
  MINUET_ASSIGN(const Pickle protocol, next_pickle(rest));
  if (protocol.at(protocol.root).integer != kProtocol)
    return make_error(StatusCode::InvalidArgument, "its protocol of torch.save is not {0}", kProtocol);
  MINUET_ASSIGN(const Pickle system, next_pickle(rest));
  if (is_big_endian(system)) return refuse_big_endian();
  MINUET_ASSIGN(object_, next_pickle(rest));
  MINUET_ASSIGN(const Pickle keys, next_pickle(rest));
  return read_storages(keys, rest);
}

/// Finds the storages, which lie one behind the other in the order of `keys`. Each begins with the number of
/// its elements. How large they are is known only from the pickle, which names them all.
llvm::Error TorchArchive::read_storages(const Pickle& keys, llvm::StringRef rest) {
  for (const PickleNode& node : object_.nodes) {
    if (!names_storage(object_, node)) continue;
    MINUET_ASSIGN(const TorchStorage storage, read_storage(object_, node));
    PlacedStorage& placed = storages_[storage.key.str()];
    if (placed.storage.type == nullptr) placed.storage = storage;
    if (placed.storage.type != storage.type || placed.storage.elements != storage.elements)
      return wrong_storage(storage.key, "has two types or sizes");
  }
  for (const std::uint32_t index : keys.at(keys.root).parts) {
    const llvm::StringRef key = keys.at(index).text;
    const auto found = storages_.find(key.str());
    if (found == storages_.end()) return wrong_storage(key, "belongs to no tensor");
    PlacedStorage& placed = found->second;
    if (placed.is_placed) return wrong_storage(key, "is there twice");
    if (rest.size() < sizeof(std::uint64_t)) return wrong_storage(key, "is missing: the file is truncated");
    const std::uint64_t elements = llvm::support::endian::read64le(rest.data());
    if (elements != placed.storage.elements)
      return wrong_storage(key, "has another size than its tensors say");
    rest = rest.drop_front(sizeof elements);
    const auto element = static_cast<std::uint64_t>(placed.storage.type->bytes);
    if (elements > rest.size() / element) return wrong_storage(key, "ends past the end of the file");
    placed.bytes = rest.take_front(elements * element);
    placed.is_placed = true;
    rest = rest.drop_front(elements * element);
  }
  if (rest.empty()) return llvm::Error::success();
  return make_error(StatusCode::InvalidArgument, "its last {0} bytes belong to no storage", rest.size());
}

llvm::Expected<llvm::StringRef> TorchArchive::bytes_of(const TorchStorage& storage) {
  llvm::StringRef bytes;
  if (zip_) {
    const std::string name = folder_ + "data/" + storage.key.str();
    if (!zip_->has(name)) return wrong_storage(storage.key, "is missing in its zip archive");
    MINUET_ASSIGN(bytes, zip_->read(name));
  } else {
    const auto found = storages_.find(storage.key.str());
    if (found == storages_.end() || !found->second.is_placed)
      return wrong_storage(storage.key, "is missing in the file");
    bytes = found->second.bytes;
  }
  const auto element = static_cast<std::uint64_t>(storage.type->bytes);
  if (bytes.size() % element == 0 && bytes.size() / element == storage.elements) return bytes;
  return make_error(StatusCode::InvalidArgument,
                    "its storage \"{0}\" has {1} bytes, but its tensors need {2} elements of {3} bytes",
                    shown_name(storage.key), bytes.size(), storage.elements, element);
}

}  // namespace minuet
