#pragma once

// Exports a symbol of a shared libffdl. All other symbols are hidden.
#define FFDL_API [[gnu::visibility("default")]]
