#pragma once

#include <string>

#include "ffdl/status.h"

// Handles the secret of a store that is found by its folder. The file `secret` of the folder
// contains 32 random bytes as hexadecimal digits, and only its owner may read it.
namespace ffdl::store {

// Returns an empty text if the folder has no secret. Errors: kUnavailable (the file cannot be read,
// or other users may have written or read it), kCorrupt (it contains no secret).
Result<std::string> read_folder_secret(const std::string& folder);

// Makes the secret if there is none. The caller holds the folder's lock. Errors: as
// read_folder_secret().
Result<std::string> make_folder_secret(const std::string& folder);

}  // namespace ffdl::store
