#pragma once

// Includes the headers that a training program uses. Headers for tuning, scaling, launching and
// clusters are included by name.
#include "ffdl/checkpoint.h"           // IWYU pragma: export
#include "ffdl/comm/communicator.h"    // IWYU pragma: export
#include "ffdl/data/data_pipeline.h"   // IWYU pragma: export
#include "ffdl/data/data_source.h"     // IWYU pragma: export
#include "ffdl/data/sample_batch.h"    // IWYU pragma: export
#include "ffdl/data/sample_ledger.h"   // IWYU pragma: export
#include "ffdl/log.h"                  // IWYU pragma: export
#include "ffdl/ps/learner.h"           // IWYU pragma: export
#include "ffdl/ps/parameter_server.h"  // IWYU pragma: export
#include "ffdl/ps/update_rule.h"       // IWYU pragma: export
#include "ffdl/runtime.h"              // IWYU pragma: export
#include "ffdl/session.h"              // IWYU pragma: export
#include "ffdl/status.h"               // IWYU pragma: export
#include "ffdl/step_participant.h"     // IWYU pragma: export
#include "ffdl/store.h"                // IWYU pragma: export
#include "ffdl/types.h"                // IWYU pragma: export
#include "ffdl/version.h"              // IWYU pragma: export
