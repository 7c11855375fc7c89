// The logarithm of 2, and of e to base 2.
#pragma once

namespace vs {

constexpr double kLn2 = 0.693147180559945309417, kLog2e = 1.442695040888963407;
// What kLn2 rounds away; and ln 2 in two parts, of which small whole numbers times the first are
// exact.
constexpr double kLn2Rest = 2.31904681384629955842e-17;
constexpr double kLn2High = 0.693147180369123816490, kLn2Low = 1.908214929270587816e-10;

}  // namespace vs
