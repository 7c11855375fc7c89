// Numbers too small for the normal range: a processor may take a hundred times as long over them.
#pragma once

#include <cstdint>

#include "simd/level.h"

#if defined(__x86_64__) || defined(_M_X64)
#include <xmmintrin.h>
#endif

namespace VS_NS {

// While one lives, its thread takes such numbers for zeros, operands and results, or for what they
// are; whatever the thread did before, and does again afterwards.
class Subnormals {
  public:
    explicit Subnormals(bool zeros)
        : before_(read()), now_(zeros ? before_ | kZeros : before_ & ~kZeros) {
        if (now_ != before_) write(now_);
    }
    ~Subnormals() {
        if (now_ != before_) write(before_);
    }
    Subnormals(const Subnormals&) = delete;
    Subnormals& operator=(const Subnormals&) = delete;

  private:
#if defined(__x86_64__) || defined(_M_X64)
    using Word = unsigned;
    static constexpr Word kZeros = 0x8040;  // of MXCSR
    static Word read() { return _mm_getcsr(); }
    static void write(Word word) { _mm_setcsr(word); }
#elif defined(__aarch64__) && defined(__GNUC__)
    using Word = uint64_t;
    static constexpr Word kZeros = Word{1} << 24;  // of FPCR
    static Word read() {
        Word word;
        __asm__ __volatile__("mrs %0, fpcr" : "=r"(word));
        return word;
    }
    static void write(Word word) { __asm__ __volatile__("msr fpcr, %0" : : "r"(word)); }
#else
    using Word = unsigned;
    static constexpr Word kZeros = 0;
    static Word read() { return 0; }
    static void write(Word) {}
#endif
    const Word before_, now_;
};

}  // namespace VS_NS
