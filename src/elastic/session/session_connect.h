#pragma once

#include "ffdl/session.h"

// Names the member of a session, and connects it to other members.
namespace ffdl::elastic {

// Returns the member of these options, with its address for other members.
Result<Member> named_member(const SessionOptions& options, const Store& store);

// Returns the options' factory, or one that calls connect_communicator() with the session's store.
// The watch's interrupt_check applies until the connection is made, that of the options all the
// time. A task connects, so `device` does not follow the calling thread. `store` must outlive the
// factory.
CommunicatorFactory make_factory(const SessionOptions& options, int device, Store& store);

}  // namespace ffdl::elastic
