// Large blocks of memory come in large pages, where the system has them: a block that is touched
// for the first time is cleared by the system, page by page.
#pragma once

#include <cstdint>
#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace vs {

inline void prefer_large_pages(void* p, int64_t bytes) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    constexpr intptr_t kPage = intptr_t{1} << 21;
    const intptr_t first = (reinterpret_cast<intptr_t>(p) + kPage - 1) & ~(kPage - 1);
    const intptr_t last =
        (reinterpret_cast<intptr_t>(p) + static_cast<intptr_t>(bytes)) & ~(kPage - 1);
    if (last > first) {
        (void)madvise(reinterpret_cast<void*>(first), static_cast<unsigned long>(last - first),
                      MADV_HUGEPAGE);
    }
#else
    (void)p;
    (void)bytes;
#endif
}

}  // namespace vs
