/* Write-combining buffers: where non-temporal stores wait until a line is whole. */
#include <string.h>

#include "internal.h"

static void close_buffer(struct cachesim *sim, struct cs_combiner *buffer)
{
    uint32_t bytes = 0;
    for (int i = 0; i < 4; i++)
        bytes += (uint32_t)__builtin_popcountll(buffer->mask[i]);
    if (bytes < 1u << sim->line_bits && !buffer->whole) {
        uint32_t origin = sim->origin;
        sim->origin = buffer->origin;
        if (!sim->masked)
            cs_memory_read(sim, cs_line_of(sim, buffer->line), buffer->line, 1, 0);
        sim->origin = origin;
        sim->partial_lines++;
    }
    cs_memory_write(sim, buffer->line);
    sim->non_temporal_lines++;
    buffer->line = 0;
    sim->combiners--;
}

static struct cs_combiner *open_buffer(struct cachesim *sim, uint32_t line)
{
    struct cs_combiner *chosen = NULL;
    for (uint32_t i = 0; i < CS_COMBINERS; i++) {
        struct cs_combiner *buffer = &sim->combiner[i];
        if (buffer->line == line)
            return buffer;
        if (!chosen || (chosen->line != 0 && (buffer->line == 0 || buffer->used < chosen->used)))
            chosen = buffer;
    }
    if (chosen->line != 0)
        close_buffer(sim, chosen);
    if (sim->trackers)
        cs_evade_close_line(sim, line);
    memset(chosen->mask, 0, sizeof chosen->mask);
    cs_page_of(sim, line)->stored |= UINT64_C(1) << cs_in_page(sim, line);
    chosen->whole = sim->do_->remove(sim, line, 0);
    chosen->line = line;
    chosen->origin = sim->origin;
    if (sim->origins)
        cs_origin_dirtied(sim, line);
    sim->combiners++;
    return chosen;
}

void cs_combine(struct cachesim *sim, uint64_t address, uint32_t bytes)
{
    uint32_t line = cs_label(sim, address >> CS_PAGE_BITS) << sim->page_line_bits | cs_in_page(sim, address >> sim->line_bits);
    uint32_t first = address & ((1u << sim->line_bits) - 1);
    cs_name_core(sim, line);
    struct cs_line *noted = sim->noted + cs_place(sim, line);
    struct cs_combiner *buffer = open_buffer(sim, line);
    uint64_t written[4] = {0};
    int full = 1;
    for (uint32_t word = 0; word < 1u << (sim->line_bits - 6); word++) {
        uint32_t low = word * 64, from = first > low ? first : low;
        uint32_t to = first + bytes < low + 64 ? first + bytes : low + 64;
        if (from < to)
            written[word] = UINT64_MAX >> (64 - (to - from)) << (from - low);
        buffer->mask[word] |= written[word];
        noted[word].touched |= written[word];
        full &= buffer->mask[word] == UINT64_MAX;
    }
    buffer->used = ++sim->clock;
    if (full)
        close_buffer(sim, buffer);
}

void cs_combine_close_line(struct cachesim *sim, uint32_t line)
{
    for (uint32_t i = 0; i < CS_COMBINERS; i++)
        if (sim->combiner[i].line == line)
            close_buffer(sim, &sim->combiner[i]);
}

int cs_combine_has(const struct cachesim *sim, uint32_t line)
{
    for (uint32_t i = 0; i < CS_COMBINERS; i++)
        if (sim->combiner[i].line == line)
            return 1;
    return 0;
}

void cs_combine_drain(struct cachesim *sim)
{
    if (!sim->combiners)
        return;
    for (uint32_t i = 0; i < CS_COMBINERS; i++)
        if (sim->combiner[i].line != 0)
            close_buffer(sim, &sim->combiner[i]);
}
