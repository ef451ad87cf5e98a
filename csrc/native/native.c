/* The version of the interface between counteroof and its compiled part. */
#include "native/native.h"

int native_abi(void) { return 1; }
