#include "core/scratch.h"

#include <cstdlib>

#include "core/large_pages.h"

namespace vs {

Scratch::Scratch() = default;
Scratch::~Scratch() { release(0); }

void* Scratch::take(int64_t bytes) {
    bytes = (bytes + 63) & ~static_cast<int64_t>(63);
    for (; current_ < n_blocks_; ++current_) {
        Block& b = blocks_[current_];
        if (b.used + bytes <= b.size) {
            void* p = b.data + b.used;
            b.used += bytes;
            return p;
        }
        if (current_ + 1 == n_blocks_) break;
        blocks_[current_ + 1].used = 0;
    }
    if (!grow(bytes)) return nullptr;
    blocks_[current_].used = bytes;
    return blocks_[current_].data;
}

void Scratch::reset() {
    current_ = 0;
    if (n_blocks_ > 0) blocks_[0].used = 0;
    failed = false;
}

Scratch::Mark Scratch::mark() const {
    return {current_, n_blocks_ > 0 ? blocks_[current_].used : 0};
}

void Scratch::rewind(Mark m) {
    if (n_blocks_ == 0) return;
    current_ = m.block;
    blocks_[current_].used = m.used;
}

int64_t Scratch::release(int64_t keep) {
    int64_t total = 0, left = 0;
    int kept = 0;
    for (int i = 0; i < n_blocks_; ++i) {
        total += blocks_[i].size;
        if (total <= keep) {
            left = total;
            blocks_[kept++] = blocks_[i];
        } else {
            std::free(blocks_[i].raw);
        }
    }
    n_blocks_ = kept;
    reset();
    return left;
}

bool Scratch::grow(int64_t bytes) {
    if (n_blocks_ == kMaxBlocks) return !(failed = true);
    int64_t size = n_blocks_ > 0 ? 2 * blocks_[n_blocks_ - 1].size : (int64_t{1} << 18);
    if (size > (int64_t{1} << 26)) size = int64_t{1} << 26;
    if (size < bytes) size = bytes;
    char* raw = static_cast<char*>(std::malloc(static_cast<size_t>(size) + 64));
    if (raw == nullptr) return !(failed = true);
    char* data = reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(raw) + 63) &
                                         ~static_cast<uintptr_t>(63));
    prefer_large_pages(data, size);
    blocks_[n_blocks_] = {raw, data, size, 0};
    current_ = n_blocks_++;
    return true;
}

}  // namespace vs
