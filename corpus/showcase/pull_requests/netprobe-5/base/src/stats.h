#ifndef STATS_H
#define STATS_H

#include <stdint.h>

struct stats {
    uint32_t sent;
    uint32_t received;
    uint32_t min_us;
    uint32_t max_us;
    uint64_t sum_us;
    uint64_t jitter_sum_us;
    uint32_t last_us;
};

void stats_sent(struct stats *s);
void stats_received(struct stats *s, uint32_t rtt_us);
uint32_t stats_average(const struct stats *s);
uint32_t stats_jitter(const struct stats *s);

#endif
