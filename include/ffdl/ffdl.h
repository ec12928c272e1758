#pragma once

// Everything public, for those who prefer one include.
#include "ffdl/averaging_learner.h"   // IWYU pragma: export
#include "ffdl/cluster_simulator.h"   // IWYU pragma: export
#include "ffdl/communicator.h"        // IWYU pragma: export
#include "ffdl/data_pipeline.h"       // IWYU pragma: export
#include "ffdl/data_source.h"         // IWYU pragma: export
#include "ffdl/diagnose.h"            // IWYU pragma: export
#include "ffdl/export.h"              // IWYU pragma: export
#include "ffdl/job_planner.h"         // IWYU pragma: export
#include "ffdl/job_status.h"          // IWYU pragma: export
#include "ffdl/launch_environment.h"  // IWYU pragma: export
#include "ffdl/launcher.h"            // IWYU pragma: export
#include "ffdl/learner.h"             // IWYU pragma: export
#include "ffdl/listener.h"            // IWYU pragma: export
#include "ffdl/log.h"                 // IWYU pragma: export
#include "ffdl/membership.h"          // IWYU pragma: export
#include "ffdl/memory_placement.h"    // IWYU pragma: export
#include "ffdl/micro_batch_sum.h"     // IWYU pragma: export
#include "ffdl/operation.h"           // IWYU pragma: export
#include "ffdl/operation_queue.h"     // IWYU pragma: export
#include "ffdl/parameter_server.h"    // IWYU pragma: export
#include "ffdl/partition_ledger.h"    // IWYU pragma: export
#include "ffdl/plan_files.h"          // IWYU pragma: export
#include "ffdl/runtime.h"             // IWYU pragma: export
#include "ffdl/scaling_model.h"       // IWYU pragma: export
#include "ffdl/session.h"             // IWYU pragma: export
#include "ffdl/shared_memory.h"       // IWYU pragma: export
#include "ffdl/sparse_gradient.h"     // IWYU pragma: export
#include "ffdl/status.h"              // IWYU pragma: export
#include "ffdl/step_participant.h"    // IWYU pragma: export
#include "ffdl/store.h"               // IWYU pragma: export
#include "ffdl/store_server.h"        // IWYU pragma: export
#include "ffdl/supervisor.h"          // IWYU pragma: export
#include "ffdl/types.h"               // IWYU pragma: export
#include "ffdl/update_rule.h"         // IWYU pragma: export
#include "ffdl/version.h"             // IWYU pragma: export
