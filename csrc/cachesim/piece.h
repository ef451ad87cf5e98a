/* What an access is to a line of 64 bytes. */
#ifndef COUNTEROOF_CACHESIM_PIECE_H
#define COUNTEROOF_CACHESIM_PIECE_H

#include <stdint.h>

/* An access that is no fence, to at least one byte; what covers several lines is cut into pieces. */
struct cachesim_piece {
    uint64_t key;  /* the line's number, and the kind in the low bits */
    uint64_t bits; /* the bytes of the line, of which the lowest is bit 0 */
};
#define CACHESIM_KIND_BITS 3u
#define CACHESIM_KIND_MASK ((1u << CACHESIM_KIND_BITS) - 1)

static inline struct cachesim_piece cachesim_piece(uint64_t address, uint32_t bytes, uint32_t kind) /* within a line */
{
    return (struct cachesim_piece){address >> 6 << CACHESIM_KIND_BITS | kind, UINT64_MAX >> (64 - bytes) << (address & 63)};
}

/* Bytes that are touched are side by side. */
static inline uint64_t cachesim_piece_address(struct cachesim_piece piece)
{
    return (piece.key >> CACHESIM_KIND_BITS << 6) + (uint32_t)__builtin_ctzll(piece.bits);
}

static inline uint32_t cachesim_piece_bytes(struct cachesim_piece piece)
{
    return (uint32_t)__builtin_popcountll(piece.bits);
}

#endif
