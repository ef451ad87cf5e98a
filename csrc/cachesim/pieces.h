/* Accesses in order. Where most of the last ones missed, what the next ones will need is fetched ahead of them. */

#define AHEAD 24u

/* What is needed first: the number of the page. */
static INLINE void fetch_label(const struct cachesim *sim, uint64_t address)
{
    uint64_t number = address >> CS_PAGE_BITS;
    const uint32_t *leaf = number >> (CS_DIRECTORY_BITS + CS_LEAF_BITS) ? NULL : sim->directory[number >> CS_LEAF_BITS];
    if (leaf)
        __builtin_prefetch(&leaf[number & ((1u << CS_LEAF_BITS) - 1)]);
}

/* Then where the page lies, and what is known of the line. */
static INLINE void fetch_page(const struct cachesim *sim, uint64_t address)
{
    uint32_t label = cs_label_seen(sim, address >> CS_PAGE_BITS);
    __builtin_prefetch(&sim->frames[label]);
    __builtin_prefetch(&sim->noted[cs_chunk(sim, label, address >> 6 & 63)], 1);
}

/* Then the sets, once the page is there. */
static INLINE void fetch_sets(const struct cachesim *sim, uint64_t address)
{
    if (defers(sim)) /* level 2 is small, and the last level fetches by itself */
        return;
    uint32_t label = cs_label_seen(sim, address >> CS_PAGE_BITS);
    if (!label)
        return;
    uint32_t line = label << PAGE_LINE_BITS | IN_PAGE(address >> LINE_BITS);
    for (uint32_t k = 1; k < LEVELS; k++)
        for (uint32_t block = 0; block < BLOCKS(k); block++)
            __builtin_prefetch(tags_of(sim, k, line) + block * CS_BLOCK, 1);
}

/* Then what has to make room in level 2, and its place in level 3. */
static INLINE void fetch_victim(const struct cachesim *sim, uint64_t address, int set)
{
    if (defers(sim))
        return;
    uint32_t label = cs_label_seen(sim, address >> CS_PAGE_BITS);
    if (!SHAPE || !label)
        return;
    uint32_t line = label << PAGE_LINE_BITS | IN_PAGE(address >> LINE_BITS);
    uint32_t victim = tags_of(sim, 1, line)[sim->level[1].last] & CS_LINE;
    if (!set)
        __builtin_prefetch(&sim->frames[victim >> PAGE_LINE_BITS]);
    else
        for (uint32_t block = 0; block < BLOCKS(2); block++)
            __builtin_prefetch(tags_of(sim, 2, victim) + block * CS_BLOCK, 1);
}

/*
 * Which line was last asked for in each set of level 1 (or in one of several), in this call: it is in front of its set, and
 * asking for it again changes nothing but what is counted and noted, unless it is stored to for the first time.
 */
struct latest {
    uint64_t key[64]; /* by the low bits of the line's number: that of a load of it, or of a store to it; CS_NONE: not known */
    uint64_t *touched[64];
    uint64_t removals; /* when this was so */
    uint64_t unknown;  /* CS_NONE if the level is so that it cannot be said, else 0 */
    uint32_t mask;
};

static INLINE void forget(const struct cachesim *sim, struct latest *latest)
{
    latest->removals = sim->removals;
    memset(latest->key, 0xff, sizeof latest->key);
}

static INLINE void prepare(const struct cachesim *sim, struct latest *latest)
{
    const struct cs_level *level = &sim->level[0];
    forget(sim, latest);
    latest->mask = level->set_mask & 63;
    latest->unknown = IN_ORDER(0) && (SHAPE || (level->index == CS_INDEX_POWER && !level->fold)) ? 0 : CS_NONE;
}

static NOINLINE void piece_odd(struct cachesim *sim, struct latest *latest, struct cachesim_piece piece, uint32_t place)
{
    sim->asked--; /* it is counted where it is made */
    access_any(sim, cachesim_piece_address(piece), cachesim_piece_bytes(piece), piece.key & CACHESIM_KIND_MASK);
    latest->key[place] = CS_NONE;
}

static INLINE void piece(struct cachesim *sim, struct latest *latest, struct cachesim_piece piece, uint32_t origin)
{
    uint64_t line_number = piece.key >> CACHESIM_KIND_BITS;
    uint32_t place = line_number & latest->mask;
    /* Kind 0 is a load, which finds what was loaded or stored to; kind 1 a store, which finds what was stored to. */
    if (latest->key[place] - piece.key <= 1) {
        if (piece.bits & ~*latest->touched[place])
            *latest->touched[place] |= piece.bits;
        return;
    }
    uint32_t kind = piece.key & CACHESIM_KIND_MASK;
    sim->origin = origin;
    if (__builtin_expect(kind > CS_STORE && kind != CS_PREFETCH, 0)) {
        piece_odd(sim, latest, piece, place);
    } else {
        uint32_t label = cs_label(sim, line_number >> (CS_PAGE_BITS - 6)), line = label << 6 | (line_number & 63);
        uint64_t *noted = &sim->noted[place_of(sim, line)].touched;
        if (__builtin_expect(sim->evades, 0)) {
            sim->offset = (uint32_t)__builtin_ctzll(piece.bits);
            sim->size = cachesim_piece_bytes(piece);
        }
        uint64_t touched = kind == CS_PREFETCH ? *noted : note_piece(sim, line, piece.bits, kind);
        ask(sim, tags_of(sim, 0, line), line, kind == CS_STORE);
        latest->touched[place] = noted;
        if (__builtin_expect(sim->trackers, 0)) /* level 1 may lack it, and a tracker wants to know */
            latest->key[place] = CS_NONE;
        else if (kind != CS_PREFETCH)
            latest->key[place] = piece.key | latest->unknown;
        else /* as one that loads it, if that is noted already */
            latest->key[place] = touched ? (piece.key - CS_PREFETCH) | latest->unknown : CS_NONE;
    }
    if (__builtin_expect(sim->removals != latest->removals, 0))
        forget(sim, latest);
}

/* How much goes beyond what the host's near caches know of. What waits for the last level is not known to miss it yet. */
static INLINE uint64_t far_misses(const struct cachesim *sim)
{
    return sim->level[LEVELS - (defers(sim) ? 2 : 1)].misses;
}

static NOINLINE void pieces_ahead(struct cachesim *sim, const struct cachesim_piece *made, const uint32_t *origins, uint64_t n)
{
    struct latest latest;
    prepare(sim, &latest);
    uint64_t first = n < 2 * AHEAD ? n : 2 * AHEAD;
    for (uint64_t i = 0; i < first; i++)
        fetch_page(sim, cachesim_piece_address(made[i]));
    for (uint64_t i = 0; i < first / 2; i++)
        fetch_sets(sim, cachesim_piece_address(made[i]));
    for (uint64_t i = 0; i < n; i++) {
        if (i + 3 * AHEAD < n)
            fetch_label(sim, cachesim_piece_address(made[i + 3 * AHEAD]));
        if (i + 2 * AHEAD < n)
            fetch_page(sim, cachesim_piece_address(made[i + 2 * AHEAD]));
        if (i + AHEAD < n)
            fetch_sets(sim, cachesim_piece_address(made[i + AHEAD]));
        if (i + AHEAD / 2 < n)
            fetch_victim(sim, cachesim_piece_address(made[i + AHEAD / 2]), 0);
        if (i + AHEAD / 4 < n)
            fetch_victim(sim, cachesim_piece_address(made[i + AHEAD / 4]), 1);
        piece(sim, &latest, made[i], origins ? origins[i] : 0);
    }
}

static NOINLINE void pieces_in_turn(struct cachesim *sim, const struct cachesim_piece *made, const uint32_t *origins, uint64_t n)
{
    struct latest latest;
    prepare(sim, &latest);
    if (origins)
        for (uint64_t i = 0; i < n; i++)
            piece(sim, &latest, made[i], origins[i]);
    else
        for (uint64_t i = 0; i < n; i++)
            piece(sim, &latest, made[i], 0);
}

static NOINLINE void pieces(struct cachesim *sim, const struct cachesim_piece *made, const uint32_t *origins, uint64_t n)
{
    uint64_t missed_before = far_misses(sim), sample = n < 16 ? n : 16;
    sim->asked += n;
    pieces_in_turn(sim, made, origins, sample);
    made += sample;
    origins += origins ? sample : 0;
    if (far_misses(sim) - missed_before >= 3)
        pieces_ahead(sim, made, origins, n - sample);
    else
        pieces_in_turn(sim, made, origins, n - sample);
}
