#include "ffdl/comm/micro_batch_sum.h"

#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/base/buffers.h"
#include "bindings/base/status.h"
#include "bindings/base/waiting.h"
#include "bindings/bindings.h"
#include "bindings/comm/communicator_handle.h"

namespace py = pybind11;

namespace ffdl::python {
namespace {

MicroBatchOptions options_like(const Elements& gradient, std::vector<uint64_t> shares,
                               ReduceOp op) {
  MicroBatchOptions options{
      .shares = std::move(shares), .count = 0, .op = op, .device = gradient.device};
  for (const Buffer& buffer : gradient.buffers) {
    options.dtype = buffer.dtype;
    options.count += buffer.count;
  }
  return options;
}

// The contents of a Python MicroBatchSum. The communicator outlives the sum.
class SumHandle {
 public:
  SumHandle(py::object communicator, const py::object& like, std::vector<uint64_t> shares,
            ReduceOp op, double timeout_s)
      : communicator_(std::move(communicator)), handle_(communicator_.cast<CommunicatorHandle&>()) {
    const Exclusive one_thread(handle_.busy);
    const Time deadline = deadline_after(timeout_s);
    const Elements gradient = elements_to_read(like, "like", Memory::kAny);
    handle_.expect_reach(gradient);
    is_on_device_ = gradient.device.has_value();
    const MicroBatchOptions options = options_like(gradient, std::move(shares), op);
    check(run_operations(handle_, [&]() -> Status {
      auto made = MicroBatchSum::create(*handle_.communicator, options, deadline);
      if (made.ok()) sum_ = std::move(made).value();
      return made.status();
    }));
  }

  uint64_t begin() const { return sum_->begin(); }
  uint64_t end() const { return sum_->end(); }

  void add(const py::object& gradient) {
    const Exclusive one_thread(handle_.busy);
    const Elements given = elements_to_read(gradient, "gradient", Memory::kAny);
    expect_side(given);
    check(without_lock([&] { return sum_->add(given.buffers); }));
  }

  void clear() {
    const Exclusive one_thread(handle_.busy);
    sum_->clear();
  }

  void finish(const py::object& out, double timeout_s, std::optional<double> weight) {
    const Exclusive one_thread(handle_.busy);
    const Time deadline = deadline_after(timeout_s);
    const Elements result = elements_to_write(out, "out", Memory::kAny);
    expect_side(result);
    check(run_operations(handle_, [&] { return sum_->finish(result.buffers, deadline, weight); }));
  }

 private:
  void expect_side(const Elements& elements) const {
    handle_.expect_reach(elements);
    if (elements.buffers.empty() || elements.device.has_value() == is_on_device_) return;
    raise_invalid_argument(std::string("add up micro-batches: an array is in the ") +
                           (is_on_device_ ? "host's memory, and 'like' in a GPU's"
                                          : "memory of a GPU, and 'like' in the host's") +
                           "; put both into the same memory");
  }

  const py::object communicator_;
  CommunicatorHandle& handle_;
  bool is_on_device_ = false;
  std::unique_ptr<MicroBatchSum> sum_;
};

}  // namespace

void bind_micro_batch_sum(py::module_& module) {
  const auto share_out = [](uint64_t micro_batches, int ranks) {
    if (ranks >= 1) return even_shares(micro_batches, ranks);
    raise_invalid_argument("divide " + std::to_string(micro_batches) + " micro-batches among " +
                           std::to_string(ranks) + " ranks; give 1 rank or more");
  };
  module.def("even_shares", share_out, py::arg("micro_batches"), py::arg("ranks"),
             "Returns shares as even as possible: if it does not divide, the first ranks\n"
             "have one more.");
  py::class_<SumHandle>(
      module, "MicroBatchSum",
      R"(Reduces the gradients of a step's micro-batches to the same bits on any number of ranks.

    shares = ffdl.even_shares(8, communicator.size)
    total = ffdl.MicroBatchSum(communicator, gradient, shares=shares)
    for i in range(total.begin, total.end):
        compute_gradient_of(micro_batch(step, i), gradient)
        total.add(gradient)
    total.finish(gradient)

The fixed tree is over the micro-batches instead of the ranks, so the bits do not depend on the
ranks or their shares. Each micro-batch must itself be computed alike on every rank.
like: an array, or a list of them, with as many elements of the dtype as each gradient. It is in the
memory of gradients and results. That may be a GPU's, with a communicator that can access it.
shares: the number of micro-batches of a step that each rank computes, by rank, the same at all
ranks.
Every rank creates it between the same operations. It uses the communicator, from one thread at a
time. Raises the errors of operations; InvalidArgument if options differ between the ranks. The
header is ffdl/comm/micro_batch_sum.h.)")
      .def(py::init<py::object, const py::object&, std::vector<uint64_t>, ReduceOp, double>(),
           py::arg("communicator"), py::arg("like"), py::kw_only(), py::arg("shares"),
           py::arg("op") = ReduceOp::kMean, py::arg("timeout_s") = kDefaultTimeoutS)
      .def_property_readonly("begin", &SumHandle::begin)
      .def_property_readonly("end", &SumHandle::end)
      .def("add", &SumHandle::add, py::arg("gradient"),
           R"(Adds the gradient of the next micro-batch, in order. It may be changed afterwards.

In a GPU's memory the default stream adds it, before any later work on that stream. Another
stream that changes the gradient must wait for the default stream.)")
      .def("clear", &SumHandle::clear,
           R"(Drops the gradients that this rank added in this step.

Add all of them again before finish().)")
      .def("finish", &SumHandle::finish, py::arg("out"), py::arg("timeout_s") = kDefaultTimeoutS,
           py::kw_only(), py::arg("weight") = py::none(),
           R"(Ends the step: `out` of every rank becomes the reduction of all micro-batches.

weight: the divisor of a mean in place of the number of micro-batches, such as the tokens of all;
the same at all ranks. After a failure the step is lost, and `out` is undefined.)");
}

}  // namespace ffdl::python
