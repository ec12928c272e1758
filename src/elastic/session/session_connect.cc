#include "elastic/session/session_connect.h"

#include <functional>

#include "base/errors.h"

namespace ffdl::elastic {

Result<Member> named_member(const SessionOptions& options, const Store& store) {
  Member self = options.self;
  if (!self.address.empty()) return self;
  FFDL_ASSIGN_OR_RETURN(self.address, own_address(store, options.communicator));
  return self;
}

CommunicatorFactory make_factory(const SessionOptions& options, int device, Store& store) {
  if (options.connect) return options.connect;
  CommunicatorOptions communicator = options.communicator;
  communicator.device = device;
  return [communicator, &store](const World& world, Time deadline, const ConnectWatch& watch) {
    CommunicatorOptions mine = communicator;
    mine.interrupt_check = [look = watch.interrupt_check,
                            asked = communicator.interrupt_check]() -> Status {
      FFDL_RETURN_IF_ERROR(look());
      return asked ? asked() : Status();
    };
    mine.unreached = watch.unreached;
    return connect_communicator(world, store, deadline, mine);
  };
}

}  // namespace ffdl::elastic
