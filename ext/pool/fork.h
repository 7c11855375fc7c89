// A fork copies one thread and all locks: what the others held would stay locked in the child.
#pragma once

namespace vs {

// Makes the pool, the gate and the buffers survive every fork from now on; once per process.
// Throws bad_alloc.
void survive_forks();

}  // namespace vs
