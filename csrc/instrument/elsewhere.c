/* Other architectures: the engine says that it is not there. */
#if !defined(__x86_64__)
#include <stddef.h>
#include <stdint.h>

#include "instrument/instrument.h"

int instrument_supported(void) { return 0; }
uint32_t instrument_xsave_size(void) { return 0; }
void instrument_offsets(struct instrument_layout *layout) { (void)layout; }
int instrument_start(uint64_t (*translate)(uint64_t), struct cachesim *model) { (void)translate; (void)model; return -1; }
int instrument_stop(void) { return -4; }
uint64_t instrument_map(uint64_t near, uint64_t bytes) { (void)near; (void)bytes; return 0; }
uint64_t instrument_read_code(uint64_t address, uint8_t *out, uint64_t bytes) { (void)address; (void)out; (void)bytes; return 0; }
void instrument_write(uint64_t address, const uint8_t *code, uint64_t bytes) { (void)address; (void)code; (void)bytes; }
void instrument_patch(uint64_t site, int32_t relative) { (void)site; (void)relative; }
int64_t instrument_add_block(const struct instrument_block *block, const struct instrument_access *accesses,
                             const struct instrument_lanes *lanes, const uint32_t *places,
                             const struct instrument_borrowed *borrowed, const struct instrument_change *changes,
                             const struct instrument_loop_register *loop_registers, const uint8_t *code) {
    (void)block; (void)accesses; (void)lanes; (void)places; (void)borrowed; (void)changes; (void)loop_registers; (void)code;
    return -1;
}
void instrument_publish(uint32_t block) { (void)block; }
int instrument_watch(uint64_t guest, uint64_t bytes) { (void)guest; (void)bytes; return -2; }
int instrument_revive(uint32_t block) { (void)block; return 0; }
uint64_t instrument_take_stale(uint32_t *out, uint64_t room) { (void)out; (void)room; return 0; }
uint64_t instrument_unloads(void) { return 0; }
void instrument_forget(void) {}
uint64_t instrument_entry(uint64_t function) { (void)function; return 0; }
int instrument_call(uint64_t function, const struct run_frame *frame, uint64_t *result, double *float_result,
                    struct instrument_fault *fault) {
    (void)function; (void)frame; (void)result; (void)float_result; (void)fault;
    return -1;
}
int instrument_gave_up(struct instrument_fault *fault) { (void)fault; return 0; }
uint32_t instrument_consumer_thread(uint32_t number) { (void)number; return 0; }
int instrument_stop_thread(uint32_t thread, uint64_t *frames, uint32_t room, uint64_t *stack) {
    (void)thread; (void)frames; (void)room; (void)stack;
    return -1;
}
int instrument_decide(uint32_t take) { (void)take; return -1; }
int instrument_drain(void) { return -4; }
void instrument_reset(void) {}
uint32_t instrument_threads(void) { return 0; }
uint32_t instrument_threads_lost(void) { return 0; }
uint32_t instrument_inside(uint32_t thread) { (void)thread; return 0; }
int64_t instrument_block_counts(uint32_t thread, uint64_t *out, uint64_t blocks) { (void)thread; (void)out; (void)blocks; return -4; }
uint64_t instrument_lane_count(uint32_t thread, uint32_t block, uint32_t group) { (void)thread; (void)block; (void)group; return 0; }
int64_t instrument_partials(struct instrument_partial *out, uint64_t room) { (void)out; (void)room; return 0; }
uint64_t instrument_accesses_seen(void) { return 0; }
void instrument_attribute(uint32_t on) { (void)on; }
int instrument_watch_strides(const struct run_range *arrays, uint32_t count) { (void)arrays; (void)count; return -4; }
uint32_t instrument_block_strides(uint32_t block, struct instrument_strides *out, uint32_t room) {
    (void)block; (void)out; (void)room;
    return 0;
}
void instrument_trace(struct instrument_touch *out, uint64_t room) { (void)out; (void)room; }
uint64_t instrument_traced(void) { return 0; }
uint64_t instrument_accesses_merged(void) { return 0; }
void instrument_cut_plainly(uint32_t on) { (void)on; }
#endif
