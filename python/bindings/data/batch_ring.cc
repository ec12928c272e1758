#include "ffdl/data/batch_ring.h"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bindings/base/arrays.h"
#include "bindings/base/foreign_array.h"
#include "bindings/base/record.h"
#include "bindings/base/status.h"
#include "bindings/base/waiting.h"
#include "bindings/bindings.h"

namespace py = pybind11;

namespace ffdl::python {
namespace {

constexpr const char* kSamples = "samples";

struct RingHandle {
  std::unique_ptr<BatchRing> ring;
  SampleFormat format;
  bool busy = false;
};

struct ConsumerHandle {
  std::unique_ptr<BatchConsumer> consumer;
  bool busy = false;
};

// A batch in Python. Arrays over its memory keep this object, and so the batch.
struct BatchHandle {
  std::shared_ptr<const DataBatch> batch;
  SampleFormat format;
};

// The bytes of an object of bytes, or of a contiguous array in the host's memory, while this object
// lives.
class Bytes {
 public:
  explicit Bytes(const py::object& object) {
    if (!py::isinstance<py::bytes>(object) && !py::isinstance<py::array>(object)) {
      take_array(object);  // a tensor may have a buffer that is not its elements
    } else if (PyObject_GetBuffer(object.ptr(), &buffer_, PyBUF_SIMPLE) != 0) {
      const py::error_already_set error;
      refuse_array(kSamples, py::str(error.value()).cast<std::string>() +
                                 "; give a C-contiguous one, e.g. by numpy.ascontiguousarray(x)");
    }
  }
  ~Bytes() { PyBuffer_Release(&buffer_); }
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;

  std::span<const std::byte> span() const {
    static constexpr std::byte kNowhere{};  // an empty buffer may have a null address
    if (array_ && array_->count > 0) {
      const auto size = array_->count * static_cast<uint64_t>(array_->item_bytes);
      return {static_cast<const std::byte*>(array_->data), size};
    }
    if (buffer_.len == 0) return {&kNowhere, 0};
    return {static_cast<const std::byte*>(buffer_.buf), static_cast<size_t>(buffer_.len)};
  }

 private:
  void take_array(const py::object& object) {
    array_ = host_array(object, kSamples);
    if (!array_->contiguous) {
      refuse_array(kSamples, "not C-contiguous; give a contiguous one, e.g. x.contiguous()");
    }
  }

  Py_buffer buffer_{};  // empty where the other is set
  std::optional<ForeignArray> array_{};
};

// The samples of a batch in the objects from Python, which stay valid as long as this object.
struct GivenSamples {
  std::vector<std::span<const std::byte>> places{};
  uint64_t skipped = 0;
  std::deque<Bytes> memory{};

  void add_rows(const py::object& rows) {
    const auto bytes = memory.emplace_back(rows).span();
    const size_t count = foreign_array(rows, kSamples).lengths[0];
    const size_t each = count == 0 ? 0 : bytes.size() / count;
    for (size_t i = 0; i < count; ++i) places.push_back(bytes.subspan(i * each, each));
  }
  void add_each(const py::iterable& samples) {
    for (const py::handle sample : samples) {
      if (sample.is_none()) {
        ++skipped;
      } else {
        const auto object = py::reinterpret_borrow<py::object>(sample);
        places.push_back(memory.emplace_back(object).span());
      }
    }
  }
};

void put_batch(RingHandle& handle, const py::object& samples,
               const std::vector<SampleRange>& ranges, const py::object& indices,
               double timeout_s) {
  const Exclusive one_thread(handle.busy);
  if (py::isinstance<py::bytes>(samples) || py::isinstance<py::bytearray>(samples)) {
    refuse_array(kSamples, "bytes or a bytearray is one sample; give a list of samples");
  }
  GivenSamples given;
  if (is_array(samples)) {
    given.add_rows(samples);
  } else {
    given.add_each(py::reinterpret_borrow<py::iterable>(samples));
  }
  for (const auto& sample : given.places) {
    if (handle.format.is_fixed && sample.size() != handle.format.bytes) {
      raise_invalid_argument("put a batch: a sample of " + std::to_string(sample.size()) +
                             " bytes, but the ring was created for samples of " +
                             std::to_string(handle.format.bytes) +
                             " bytes; create the ring with the format of your samples");
    }
  }
  DataBatch batch;
  batch.ranges = ranges;
  const Numbers numbers(indices);
  batch.indices = numbers.span();
  batch.samples = given.places;
  batch.skipped = given.skipped;
  check(wait(timeout_s, [&](Time deadline) { return handle.ring->put(batch, deadline); }));
}

py::array read_only(const py::dtype& dtype, std::vector<py::ssize_t> shape, const std::byte* data,
                    const py::object& owner) {
  py::array array(dtype, std::move(shape), {}, data, owner);
  array.attr("setflags")(py::arg("write") = false);
  return array;
}

// Returns the samples in place: one array if the ring fixes the size of samples, else one array of
// bytes for each sample.
py::object samples_of(const py::object& self) {
  const auto& handle = self.cast<const BatchHandle&>();
  const DataBatch& batch = *handle.batch;
  if (handle.format.is_fixed) {
    const py::dtype dtype(handle.format.dtype);
    std::vector<py::ssize_t> shape = {static_cast<py::ssize_t>(batch.samples.size())};
    shape.insert(shape.end(), handle.format.shape.begin(), handle.format.shape.end());
    py::ssize_t bytes = dtype.itemsize();
    for (const py::ssize_t size : shape) bytes *= size;
    if (static_cast<size_t>(bytes) == batch.bytes.size()) {
      return read_only(dtype, std::move(shape), batch.bytes.data(), self);
    }
  }
  py::list samples;
  for (const auto& sample : batch.samples) {
    samples.append(read_only(py::dtype::of<uint8_t>(), {static_cast<py::ssize_t>(sample.size())},
                             sample.data(), self));
  }
  return samples;
}

py::array batch_indices(const BatchHandle& handle) {
  const std::span<const uint64_t> indices = handle.batch->indices;
  return py::array_t<int64_t>(static_cast<py::ssize_t>(indices.size()),
                              reinterpret_cast<const int64_t*>(indices.data()));
}

std::unique_ptr<BatchHandle> next_batch(ConsumerHandle& handle, double timeout_s) {
  const Exclusive one_thread(handle.busy);
  auto batch =
      take(wait(timeout_s, [&](Time deadline) { return handle.consumer->next(deadline); }));
  if (batch == nullptr) return nullptr;
  return std::make_unique<BatchHandle>(std::move(batch), handle.consumer->format());
}

void bind_ring(py::module_& module) {
  const BatchRingOptions defaults;
  py::class_<RingHandle>(
      module, "BatchRing",
      R"(Batches that one process reads and other processes of this host use in place.

    ring = ffdl.BatchRing.create(source.format)
    start_others(ring.place)              # a text, such as for an argument of a process
    for numbers in batches_of(source):
        ring.put(source.read(numbers), indices=numbers)
    ring.finish()

Each consumer receives every batch that is put while it is attached, in this order. stats: a
BatchRingStats. The memory has no name and is freed with its last user. One thread at a time; not
for a forked child. Lets other threads run, and ends on Ctrl-C. The header is
ffdl/data/batch_ring.h.)")
      .def_static(
          "create",
          [](const std::optional<SampleFormat>& format, uint32_t slots, uint64_t slot_bytes,
             uint32_t consumers_max, uint32_t consumers) {
            const SampleFormat known = format.value_or(SampleFormat());
            auto ring = take(without_lock([&] {
              return BatchRing::create(known, {slots, slot_bytes, consumers_max, consumers});
            }));
            return std::make_unique<RingHandle>(std::move(ring), known);
          },
          py::arg("format") = py::none(), py::kw_only(), py::arg("slots") = defaults.slots,
          py::arg("slot_bytes") = defaults.slot_bytes,
          py::arg("consumers_max") = defaults.consumers_max,
          py::arg("consumers") = defaults.consumers,
          R"(Creates a ring of `slots` slots of `slot_bytes` bytes, all of which are reserved.

format: of the samples, as DataSource.format returns it; None: bytes of different sizes.
slot_bytes: the bytes of a batch's samples, 16 for each of them, 24 for each range, and 128.
consumers: the first put() waits until that many are attached. Raises InvalidArgument, Exhausted
(memory).)")
      .def_property_readonly("place", [](const RingHandle& handle) { return handle.ring->place(); })
      .def_property_readonly("stats", [](const RingHandle& handle) { return handle.ring->stats(); })
      .def(
          "put", &put_batch, py::arg("samples"), py::kw_only(),
          py::arg("ranges") = std::vector<SampleRange>(),
          py::arg("indices") = std::vector<uint64_t>(), py::arg("timeout_s") = kDefaultTimeoutS,
          R"(Copies a batch into the ring: an array [n, ...], or a list of bytes, arrays or tensors.

None in the list counts as a skipped sample, as in DataSource.read(). Raises Timeout, without
effect, InvalidArgument (more than a slot has room for; samples of another size; after finish()),
Cancelled (in a forked child).)")
      .def(
          "wait_used",
          [](RingHandle& handle, double timeout_s) {
            const Exclusive one_thread(handle.busy);
            check(wait(timeout_s, [&](Time deadline) { return handle.ring->wait_used(deadline); }));
          },
          py::arg("timeout_s") = kDefaultTimeoutS,
          "Waits until all consumers have used the batches: requested the next one, or dropped\n"
          "it. Raises Timeout, and once PeerLost if a consumer that had not is gone.")
      .def(
          "finish", [](RingHandle& handle) { handle.ring->finish(); },
          "Ends the batches. Without it consumers get PeerLost when the ring is destroyed.");
}

void bind_consumer(py::module_& module) {
  py::class_<BatchHandle>(
      module, "DataBatch",
      R"(A batch in place. Its slot is free again when this object and its arrays are destroyed.

samples: an array [n, *shape] if all have the same size, else a list of arrays of bytes. All are
read-only and in the shared memory.
ranges, indices: as they were put.
skipped: the number of skipped samples.
number: the number of the batch among all that were put, from 0.)")
      .def_property_readonly("number",
                             [](const BatchHandle& handle) { return handle.batch->number; })
      .def_property_readonly("ranges",
                             [](const BatchHandle& handle) { return handle.batch->ranges; })
      .def_property_readonly("indices", &batch_indices)
      .def_property_readonly("skipped",
                             [](const BatchHandle& handle) { return handle.batch->skipped; })
      .def_property_readonly("samples", &samples_of);
  py::class_<ConsumerHandle>(module, "BatchConsumer",
                             R"(Uses the batches of a BatchRing, in another process or in the same.

    consumer = ffdl.BatchConsumer.attach(place)
    while (batch := consumer.next()) is not None:
        compute_gradients(batch.samples)

format: of the samples, as given to the ring. One thread at a time; not for a forked child. Lets
other threads run, and ends on Ctrl-C.)")
      .def_static(
          "attach",
          [](const std::string& place) {
            return std::make_unique<ConsumerHandle>(
                take(without_lock([&] { return BatchConsumer::attach(place); })));
          },
          py::arg("place"),
          "Receives the batches that are put from now on. Raises InvalidArgument (no place of a\n"
          "ring), Unavailable (its process is gone, or of another user or pid namespace),\n"
          "Conflict (the ring is gone), Exhausted (consumers_max are attached).")
      .def_property_readonly("format",
                             [](const ConsumerHandle& handle) { return handle.consumer->format(); })
      .def("next", &next_batch, py::arg("timeout_s") = kDefaultTimeoutS,
           "Returns the next DataBatch; None after the last. Raises Timeout, PeerLost\n"
           "(the reading process is gone; its earlier batches are returned first), Corrupt,\n"
           "Cancelled (in a forked child).");
}

}  // namespace

void bind_batch_ring(py::module_& module) {
  Record<BatchRingStats>(module, "BatchRingStats",
                         R"(Statistics of a BatchRing.

batches: put.
waited: of these, put() calls that waited for a consumer or a slot.
consumers: attached.
abandoned: batches that a consumer had not used when it left or died, for each such consumer.)")
      .field("batches", &BatchRingStats::batches)
      .field("waited", &BatchRingStats::waited)
      .field("consumers", &BatchRingStats::consumers)
      .field("abandoned", &BatchRingStats::abandoned);
  bind_ring(module);
  bind_consumer(module);
}

}  // namespace ffdl::python
