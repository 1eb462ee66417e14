#undef NDEBUG
#include "../src/wire.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static void round_trip(void)
{
    uint8_t buffer[PROBE_PACKET_MAX];
    struct probe_packet in = {.type = PROBE_REPLY, .seq = 70000, .sent_us = 5, .length = 5};
    struct probe_packet out;

    memcpy(in.payload, "hello", 5);
    assert(wire_encode(buffer, &in) == PROBE_HEADER_SIZE + 5);
    assert(wire_decode(buffer, PROBE_HEADER_SIZE + 5, &out) == 0);
    assert(out.type == PROBE_REPLY);
    assert(out.seq == 70000);
    assert(out.length == 5);
    assert(strcmp(out.payload, "hello") == 0);
}

static void short_header(void)
{
    uint8_t buffer[PROBE_PACKET_MAX] = {0x4E, 0x50, 1, 2};
    struct probe_packet out;

    assert(wire_decode(buffer, 4, &out) == -1);
}

int main(void)
{
    round_trip();
    short_header();
    puts("wire: ok");
    return 0;
}
