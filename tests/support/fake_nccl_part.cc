// A library that reports a version of NCCL and has none of its functions.
extern "C" int ncclGetVersion(int* version) {
  *version = FFDL_FAKE_NCCL_VERSION;
  return 0;
}
