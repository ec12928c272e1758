#pragma once

#include <string>
#include <string_view>

namespace ffdl::base {

// Returns true for text that Python's strict decoder accepts: no surrogates, no overlong forms, no
// code point above U+10FFFF.
bool is_utf8(std::string_view text);

// Returns text of other processes in a form that is safe for a terminal or a log. Control
// characters, bytes that are not UTF-8, and characters that change the order of others become
// escapes such as \n, \x1b or \u{202e}. So no text can move the cursor, forge a line or hide one.
std::string printable(std::string_view text);

}  // namespace ffdl::base
