#pragma once

// FFDL_API marks what a shared libffdl shows to its users; everything else is hidden.
#define FFDL_API [[gnu::visibility("default")]]
