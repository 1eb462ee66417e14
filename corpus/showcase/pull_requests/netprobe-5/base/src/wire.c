#include "wire.h"

#include <string.h>

static void put_u16(uint8_t *p, uint16_t v)
{
    p[0] = (uint8_t)(v >> 8);
    p[1] = (uint8_t)v;
}

static void put_u32(uint8_t *p, uint32_t v)
{
    put_u16(p, (uint16_t)(v >> 16));
    put_u16(p + 2, (uint16_t)v);
}

static uint16_t get_u16(const uint8_t *p)
{
    return (uint16_t)(p[0] << 8 | p[1]);
}

static uint32_t get_u32(const uint8_t *p)
{
    return (uint32_t)get_u16(p) << 16 | get_u16(p + 2);
}

size_t wire_encode(uint8_t *out, const struct probe_packet *packet)
{
    put_u16(out, PROBE_MAGIC);
    out[2] = PROBE_VERSION;
    out[3] = packet->type;
    put_u32(out + 4, packet->seq);
    put_u32(out + 8, packet->sent_us);
    put_u16(out + 12, packet->length);
    put_u16(out + 14, 0);
    memcpy(out + PROBE_HEADER_SIZE, packet->payload, packet->length);
    return PROBE_HEADER_SIZE + packet->length;
}

int wire_decode(const uint8_t *in, size_t n, struct probe_packet *packet)
{
    if (n < PROBE_HEADER_SIZE || get_u16(in) != PROBE_MAGIC || in[2] != PROBE_VERSION) {
        return -1;
    }
    packet->type = in[3];
    packet->seq = get_u32(in + 4);
    packet->sent_us = get_u32(in + 8);
    packet->length = get_u16(in + 12);
    memcpy(packet->payload, in + PROBE_HEADER_SIZE, packet->length);
    packet->payload[packet->length] = '\0';
    return 0;
}
