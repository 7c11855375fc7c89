// Whether arithmetic has lost digits to numbers that were too small, or too large, by the flags of
// the processor.
#pragma once

#if defined(__x86_64__) || defined(_M_X64)
#include <xmmintrin.h>
#else
#include <cfenv>
#endif

namespace VS_NS {

#if defined(__x86_64__) || defined(_M_X64)
constexpr unsigned kUnderflow = 0x0018;  // of MXCSR: overflow, too
inline void forget_underflow() { _mm_setcsr(_mm_getcsr() & ~kUnderflow); }
inline bool underflow() { return (_mm_getcsr() & kUnderflow) != 0; }
#else
inline void forget_underflow() { std::feclearexcept(FE_UNDERFLOW | FE_OVERFLOW); }
inline bool underflow() { return std::fetestexcept(FE_UNDERFLOW | FE_OVERFLOW) != 0; }
#endif

}  // namespace VS_NS
