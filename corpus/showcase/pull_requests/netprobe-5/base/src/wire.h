#ifndef WIRE_H
#define WIRE_H

#include <stddef.h>
#include <stdint.h>

#define PROBE_MAGIC 0x4E50
#define PROBE_VERSION 1
#define PROBE_HEADER_SIZE ((size_t)16)
#define PROBE_PAYLOAD_MAX 1024
#define PROBE_PACKET_MAX (PROBE_HEADER_SIZE + PROBE_PAYLOAD_MAX)

enum { PROBE_REQUEST = 1, PROBE_REPLY = 2 };

struct probe_packet {
    uint8_t type;
    uint32_t seq;
    uint32_t sent_us;
    char payload[PROBE_PAYLOAD_MAX + 1]; /* always terminated */
    uint16_t length;
};

/* Writes a packet to out and returns its size. */
size_t wire_encode(uint8_t *out, const struct probe_packet *packet);

/* Reads a packet of n bytes. Returns 0, or -1 when it is not valid. */
int wire_decode(const uint8_t *in, size_t n, struct probe_packet *packet);

#endif
