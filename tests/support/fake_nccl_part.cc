// A library that says it is a version of NCCL, and has nothing of it.
extern "C" int ncclGetVersion(int* version) {
  *version = FFDL_FAKE_NCCL_VERSION;
  return 0;
}
