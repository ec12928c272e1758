#include "ffdl/store_server.h"

#include <utility>

#include "net/address.h"
#include "store/server.h"

namespace ffdl {

class StoreServer::Impl {
 public:
  explicit Impl(std::unique_ptr<store::Server> server) : server_(std::move(server)) {}
  std::string url() const { return "tcp://" + server_->address().text(); }

 private:
  std::unique_ptr<store::Server> server_;
};

Result<std::unique_ptr<StoreServer>> StoreServer::start(const StoreServerOptions& options,
                                                        Runtime& runtime) {
  FFDL_ASSIGN_OR_RETURN(const net::Address address, net::parse_address(options.address));
  FFDL_ASSIGN_OR_RETURN(
      auto server,
      store::Server::start({.folder = options.folder, .address = address, .secret = options.secret},
                           runtime));
  return std::unique_ptr<StoreServer>(new StoreServer(std::make_unique<Impl>(std::move(server))));
}

StoreServer::StoreServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
StoreServer::~StoreServer() = default;

std::string StoreServer::url() const { return impl_->url(); }

}  // namespace ffdl
