#ifndef UTIL_H
#define UTIL_H

#include <stdint.h>

/* Microseconds of the monotonic clock, wrapping around. */
uint32_t now_us(void);

/* Prints a warning to standard error, in colour on a terminal. */
void warn_line(const char *format, ...);

#endif
