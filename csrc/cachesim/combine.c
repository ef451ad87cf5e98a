/* Write-combining buffers: where non-temporal stores wait until a line is whole. */
#include <string.h>

#include "internal.h"

static void close_buffer(struct cachesim *sim, struct cs_combiner *buffer)
{
    struct cs_page *page = cs_page(sim, buffer->line);
    uint32_t in_page = cs_in_page(sim, buffer->line), bytes = 0;
    for (int i = 0; i < 4; i++)
        bytes += (uint32_t)__builtin_popcountll(buffer->mask[i]);
    if (bytes < 1u << sim->line_bits && !buffer->whole) {
        uint32_t origin = sim->front.origin;
        sim->front.origin = buffer->origin;
        cs_memory_read(sim, page, in_page, 1);
        sim->front.origin = origin;
        sim->partial_lines++;
    }
    cs_memory_write(sim, page->line | in_page);
    sim->non_temporal_lines++;
    buffer->line = CS_NONE;
    sim->combiners--;
}

static struct cs_combiner *open_buffer(struct cachesim *sim, uint64_t line)
{
    struct cs_combiner *chosen = NULL;
    for (uint32_t i = 0; i < CS_COMBINERS; i++) {
        struct cs_combiner *buffer = &sim->combiner[i];
        if (buffer->line == line)
            return buffer;
        if (!chosen || (chosen->line != CS_NONE && (buffer->line == CS_NONE || buffer->used < chosen->used)))
            chosen = buffer;
    }
    if (chosen->line != CS_NONE)
        close_buffer(sim, chosen);
    memset(chosen->mask, 0, sizeof chosen->mask);
    struct cs_page *page = cs_page(sim, line);
    page->stored |= UINT64_C(1) << cs_in_page(sim, line);
    chosen->whole = sim->do_->remove(sim, page->line | cs_in_page(sim, line), 0);
    chosen->line = line;
    chosen->origin = sim->front.origin;
    if (sim->origins)
        cs_origin_dirtied(sim, page, cs_in_page(sim, line));
    sim->combiners++;
    return chosen;
}

void cs_combine(struct cachesim *sim, uint64_t address, uint32_t bytes)
{
    uint64_t line = address >> sim->line_bits;
    struct cs_combiner *buffer = open_buffer(sim, line);
    uint32_t first = address & ((1u << sim->line_bits) - 1);
    int full = 1;
    for (uint32_t word = 0; word < 1u << (sim->line_bits - 6); word++) {
        uint32_t low = word * 64, from = first > low ? first : low;
        uint32_t to = first + bytes < low + 64 ? first + bytes : low + 64;
        if (from < to)
            buffer->mask[word] |= (to - from == 64 ? UINT64_MAX : (UINT64_C(1) << (to - from)) - 1) << (from - low);
        full &= buffer->mask[word] == UINT64_MAX;
    }
    buffer->used = ++sim->clock;
    if (full)
        close_buffer(sim, buffer);
}

void cs_combine_close_line(struct cachesim *sim, uint64_t virtual_line)
{
    for (uint32_t i = 0; i < CS_COMBINERS; i++)
        if (sim->combiner[i].line == virtual_line)
            close_buffer(sim, &sim->combiner[i]);
}

void cs_combine_drain(struct cachesim *sim)
{
    if (!sim->combiners)
        return;
    for (uint32_t i = 0; i < CS_COMBINERS; i++)
        if (sim->combiner[i].line != CS_NONE)
            close_buffer(sim, &sim->combiner[i]);
}
