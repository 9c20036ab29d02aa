#include "runtime/network/shipped_network.h"

#include "runtime/shipped_networks.h"

namespace minuet {

llvm::ArrayRef<ShippedNetwork> shipped_networks() { return kShippedNetworks; }

const ShippedNetwork* find_shipped_network(llvm::StringRef name) {
  for (const ShippedNetwork& network : kShippedNetworks) {
    if (name == network.name) return &network;
  }
  return nullptr;
}

llvm::Expected<llvm::StringRef> shipped_network(llvm::StringRef name) {
  if (const ShippedNetwork* const network = find_shipped_network(name)) return llvm::StringRef(network->json);
  std::string names;
  for (const ShippedNetwork& network : kShippedNetworks) {
    names += (names.empty() ? "" : ", ") + std::string(network.name);
  }
  return make_error(StatusCode::NotFound, "there is no network named \"{0}\"; the shipped networks are {1}",
                    name, names);
}

}  // namespace minuet
