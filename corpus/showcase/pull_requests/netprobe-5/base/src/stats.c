#include "stats.h"

void stats_sent(struct stats *s)
{
    s->sent++;
}

void stats_received(struct stats *s, uint32_t rtt_us)
{
    if (s->received == 0 || rtt_us < s->min_us) {
        s->min_us = rtt_us;
    }
    if (rtt_us > s->max_us) {
        s->max_us = rtt_us;
    }
    if (s->received > 0) {
        s->jitter_sum_us += rtt_us > s->last_us ? rtt_us - s->last_us : s->last_us - rtt_us;
    }
    s->last_us = rtt_us;
    s->sum_us += rtt_us;
    s->received++;
}

uint32_t stats_average(const struct stats *s)
{
    return s->received ? (uint32_t)(s->sum_us / s->received) : 0;
}

uint32_t stats_jitter(const struct stats *s)
{
    return s->received > 1 ? (uint32_t)(s->jitter_sum_us / (s->received - 1)) : 0;
}
