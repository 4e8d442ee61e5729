// Ranks of one host read each other's device memory, as GPUs do over NVLink. The bytes of all
// device memory of a process lie in a file without a name (memory.c). Its peers open this file
// through /proc, and map it. A message then says where its data lie, and the receiver takes them
// from there. Where a peer cannot open the file, as in another container, messages hold copies of
// the data. The memory of a rank that has died stays until its peers have ended the communicator.
#include "comm.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

void cpu_offer_memory(struct peer *self) {
    struct cpu_heap heap = cpu_heap();
    struct stat s;
    if (heap.file >= 0 && !fstat(heap.file, &s))
        self->memory = (struct peer_memory){heap.file, s.st_dev, s.st_ino, heap.bytes};
}

// Returns the peer's device memory, or NULL. A peer that is a thread of this process sends copies:
// mapping this memory again for each of many devices would take all addresses.
static const char *map(const struct peer *peer) {
    const struct peer_memory *offered = &peer->memory;
    char path[48];
    struct stat s;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", peer->pid, offered->file);
    // In another namespace, this may be the path of another process, or of none.
    if (peer->pid == getpid() || !offered->bytes || stat(path, &s) || s.st_dev != offered->device ||
        s.st_ino != offered->inode)
        return NULL;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    void *memory = mmap(NULL, offered->bytes, PROT_READ, MAP_SHARED | MAP_NORESERVE, file, 0);
    cpu_close(&file);
    if (memory == MAP_FAILED)
        return NULL;
    // A core dump would fill the peer's whole file, and a child would keep its memory.
    madvise(memory, offered->bytes, MADV_DONTDUMP);
    madvise(memory, offered->bytes, MADV_DONTFORK);
    return memory;
}

void cpu_map_peers(struct ncclComm *c) {
    int mapped = 1;
    for (int p = 0; p < c->ranks && mapped; p++)
        if (c->channels[p].seat && p != c->rank)
            mapped = (c->channels[p].memory = map(&c->peers[p])) != NULL;
    c->seat->reads_peers = mapped;
    if (!mapped)
        cpu_unmap_peers(c);
}

void cpu_unmap_peers(struct ncclComm *c) {
    for (int p = 0; c->channels && p < c->ranks; p++) {
        if (c->channels[p].memory)
            munmap((void *)c->channels[p].memory, c->peers[p].memory.bytes);
        c->channels[p].memory = NULL;
    }
}

// A small message is faster as a copy, because its sender need not wait for the receiver. An
// all-reduce in place with one phase even needs copies: a rank writes its result while its peers
// may still read its numbers.
int cpu_may_lend(const struct channel *ch, const void *data, size_t bytes, uint64_t *offset) {
    struct cpu_heap heap = cpu_heap();
    *offset = (uint64_t)((uintptr_t)data - heap.views);
    return bytes > SMALL_BYTES && ch->seat->reads_peers && *offset < heap.bytes;
}
