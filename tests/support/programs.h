#pragma once

namespace ffdl {

// The programs and libraries of this build that tests start or load, as full paths; empty where
// they are not built. They are no macros: a compiler's cache then serves other folders too.
extern const char* const kFfdlProgram;
extern const char* const kMemberWorker;
extern const char* const kRoleWorker;
extern const char* const kSampleWorker;
extern const char* const kSteeredWorker;
extern const char* const kDigitsProgram;
extern const char* const kNlcProgram;
extern const char* const kFakeNccl;
extern const char* const kFakeNcclWithoutGrow;
extern const char* const kFakeNcclOld;
extern const char* const kFakeNcclBroken;
extern const char* const kFakeCudnn;
extern const char* const kFakeCudnnOld;

}  // namespace ffdl
