#include "bindings/scaling/steering.h"

#include <cmath>
#include <utility>

#include "bindings/base/type_name.h"

namespace py = pybind11;

namespace ffdl::python {
namespace {

class PythonPolicy final : public ElasticPolicy {
 public:
  PythonPolicy(py::object policy, std::shared_ptr<Raised> raised)
      : policy_(std::move(policy)), raised_(std::move(raised)) {}

  SizeDecision decide(const Observation& observation) const override {
    SizeDecision decision = {observation.workers, "the policy has raised an exception"};
    raised_->in([&] {
      const py::object said = policy_.attr("decide")(observation);
      if (!py::isinstance<SizeDecision>(said)) {
        const std::string what = "decide() has returned " + py::repr(said).cast<std::string>() +
                                 "; return a SizeDecision";
        PyErr_SetString(PyExc_TypeError, what.c_str());
        throw py::error_already_set();
      }
      decision = said.cast<SizeDecision>();
    });
    return decision;
  }

 private:
  const py::object policy_;
  const std::shared_ptr<Raised> raised_;
};

}  // namespace

std::shared_ptr<const ElasticPolicy> policy_of(const py::object& given,
                                               const std::shared_ptr<Raised>& raised) {
  if (py::isinstance<PolicyHandle>(given)) return given.cast<PolicyHandle&>().policy;
  if (py::hasattr(given, "decide")) return std::make_shared<PythonPolicy>(given, raised);
  throw py::type_error("take a policy: it is of type " + type_name(given) +
                       "; give an ElasticPolicy, or an object with decide(observation)");
}

double seconds_of(Duration time) { return std::chrono::duration<double>(time).count(); }

Duration duration_of(const char* name, double seconds) {
  if (!(std::abs(seconds) < 9e9)) {
    raise_invalid_argument("'" + std::string(name) + "' is " + std::to_string(seconds) +
                           " s; give seconds");
  }
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

JobStore::JobStore(const char* doing, py::object given_store, std::optional<std::string> given_job)
    : given(std::move(given_store)) {
  if (!given.is_none() && !py::isinstance<Store>(given)) {
    throw py::type_error(std::string(doing) + ": 'store' is " +
                         py::repr(given).cast<std::string>() +
                         "; give a Store, e.g. ffdl.open_store(url)");
  }
  const auto told = given.is_none() ? take(job_environment()) : std::optional<JobEnvironment>();
  if (given.is_none() && !told) {
    raise_invalid_argument(std::string(doing) +
                           ": there is no store, and FFDL_STORE is not set; start the program by "
                           "'ffdl run', or give a store");
  }
  if (told) {
    own = take(without_lock([&] {
      return open_store(told->store_url, system_runtime(), {.secret = told->store_secret});
    }));
  }
  used = told ? own.get() : given.cast<Store*>();
  job = given_job.value_or(told ? told->job : JobEnvironment{}.job);
}

}  // namespace ffdl::python
