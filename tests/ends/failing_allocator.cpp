// A preloaded library whose allocators fail on demand, when the package's native code asks.
//
// Counted are allocations made by valuesparse's extension modules, and those that the C++ library
// makes for them. Python, numpy and the system are left alone.
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <link.h>
#include <string.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>

extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
void __libc_free(void*);
}

namespace {

struct Range {
    uintptr_t begin, end;
};

constexpr int kMost = 64;
Range g_ours[kMost], g_library[kMost];
int g_n_ours = 0, g_n_library = 0;
std::atomic<bool> g_armed{false};
std::atomic<long> g_count{0}, g_fail_at{-1}, g_failed{0};
thread_local bool t_looking = false;

int look(dl_phdr_info* info, size_t, void*) {
    const char* name = info->dlpi_name ? info->dlpi_name : "";
    const bool ours = strstr(name, "/valuesparse/_") != nullptr;
    const bool library = strstr(name, "libstdc++") != nullptr;
    if (!ours && !library) return 0;
    for (int i = 0; i < info->dlpi_phnum; ++i) {
        const auto& p = info->dlpi_phdr[i];
        if (p.p_type != PT_LOAD || !(p.p_flags & PF_X)) continue;
        const Range r{info->dlpi_addr + p.p_vaddr, info->dlpi_addr + p.p_vaddr + p.p_memsz};
        if (ours && g_n_ours < kMost) g_ours[g_n_ours++] = r;
        if (library && g_n_library < kMost) g_library[g_n_library++] = r;
    }
    return 0;
}

bool within(const Range* ranges, int n, const void* at) {
    const uintptr_t x = reinterpret_cast<uintptr_t>(at);
    for (int i = 0; i < n; ++i) {
        if (x >= ranges[i].begin && x < ranges[i].end) return true;
    }
    return false;
}

// Whether the C++ library was called by us, however deep it is.
bool for_us() {
    if (t_looking) return false;
    t_looking = true;
    void* frames[24];
    const int n = backtrace(frames, 24);
    t_looking = false;
    bool inside = false;
    for (int i = 0; i < n; ++i) {
        if (within(g_ours, g_n_ours, frames[i])) return true;
        const bool library = within(g_library, g_n_library, frames[i]);
        if (inside && !library) return false;
        inside = inside || library;
    }
    return false;
}

bool fails(const void* caller) {
    if (!g_armed.load(std::memory_order_relaxed) || t_looking) return false;
    if (!within(g_ours, g_n_ours, caller)) {
        if (!within(g_library, g_n_library, caller) || !for_us()) return false;
    }
    if (g_count.fetch_add(1) != g_fail_at.load()) return false;
    g_failed.fetch_add(1);
    return true;
}

void* get(size_t size, size_t align, const void* caller) {
    if (fails(caller)) return nullptr;
    return align ? __libc_memalign(align, size) : __libc_malloc(size ? size : 1);
}

void* get_or_throw(size_t size, size_t align, const void* caller) {
    void* p = get(size, align, caller);
    if (!p) throw std::bad_alloc();
    return p;
}

}  // namespace

#define CALLER __builtin_return_address(0)

extern "C" {
// Fails the allocation number `at` from now on; -1: only counts.
void vs_arm(long at) {
    void* frames[1];
    backtrace(frames, 1);  // its first call loads a library
    g_n_ours = g_n_library = 0;
    dl_iterate_phdr(look, nullptr);
    g_count = 0;
    g_failed = 0;
    g_fail_at = at;
    g_armed = true;
}
// Returns how many there were.
long vs_disarm(void) {
    g_armed = false;
    return g_count;
}
long vs_failed(void) { return g_failed; }

void* malloc(size_t n) {
    if (fails(CALLER)) return errno = ENOMEM, nullptr;
    return __libc_malloc(n);
}
void* calloc(size_t n, size_t each) {
    if (fails(CALLER)) return errno = ENOMEM, nullptr;
    return __libc_calloc(n, each);
}
void* realloc(void* p, size_t n) {
    if (fails(CALLER)) return errno = ENOMEM, nullptr;
    return __libc_realloc(p, n);
}
int posix_memalign(void** p, size_t align, size_t n) {
    if (fails(CALLER)) return ENOMEM;
    *p = __libc_memalign(align, n);
    return *p ? 0 : ENOMEM;
}
void* aligned_alloc(size_t align, size_t n) {
    if (fails(CALLER)) return errno = ENOMEM, nullptr;
    return __libc_memalign(align, n);
}
}

void* operator new(size_t n) { return get_or_throw(n, 0, CALLER); }
void* operator new[](size_t n) { return get_or_throw(n, 0, CALLER); }
void* operator new(size_t n, std::align_val_t a) {
    return get_or_throw(n, static_cast<size_t>(a), CALLER);
}
void* operator new[](size_t n, std::align_val_t a) {
    return get_or_throw(n, static_cast<size_t>(a), CALLER);
}
void* operator new(size_t n, const std::nothrow_t&) noexcept { return get(n, 0, CALLER); }
void* operator new[](size_t n, const std::nothrow_t&) noexcept { return get(n, 0, CALLER); }
void* operator new(size_t n, std::align_val_t a, const std::nothrow_t&) noexcept {
    return get(n, static_cast<size_t>(a), CALLER);
}
void* operator new[](size_t n, std::align_val_t a, const std::nothrow_t&) noexcept {
    return get(n, static_cast<size_t>(a), CALLER);
}
void operator delete(void* p) noexcept { __libc_free(p); }
void operator delete[](void* p) noexcept { __libc_free(p); }
void operator delete(void* p, size_t) noexcept { __libc_free(p); }
void operator delete[](void* p, size_t) noexcept { __libc_free(p); }
void operator delete(void* p, std::align_val_t) noexcept { __libc_free(p); }
void operator delete[](void* p, std::align_val_t) noexcept { __libc_free(p); }
void operator delete(void* p, size_t, std::align_val_t) noexcept { __libc_free(p); }
void operator delete[](void* p, size_t, std::align_val_t) noexcept { __libc_free(p); }
