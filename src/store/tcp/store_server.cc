#include <utility>

#include "ffdl/store.h"
#include "net/address.h"
#include "store/tcp/server.h"

namespace ffdl {

class StoreServer::Impl {
 public:
  explicit Impl(std::unique_ptr<store::Server> server) : server_(std::move(server)) {}
  std::string url() const { return "tcp://" + server_->address().text(); }
  std::string secret() const { return server_->secret(); }

 private:
  std::unique_ptr<store::Server> server_;
};

Result<std::unique_ptr<StoreServer>> StoreServer::start(const StoreServerOptions& options,
                                                        Runtime& runtime) {
  FFDL_ASSIGN_OR_RETURN(const net::Address address, net::parse_address(options.address));
  FFDL_ASSIGN_OR_RETURN(auto server, store::Server::start({.folder = options.folder,
                                                           .address = address,
                                                           .secret = options.secret,
                                                           .makes_secret = options.makes_secret},
                                                          runtime));
  return std::unique_ptr<StoreServer>(new StoreServer(std::make_unique<Impl>(std::move(server))));
}

StoreServer::StoreServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
StoreServer::~StoreServer() = default;

std::string StoreServer::url() const { return impl_->url(); }
std::string StoreServer::secret() const { return impl_->secret(); }

}  // namespace ffdl
