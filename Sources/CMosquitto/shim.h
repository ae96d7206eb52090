#pragma once
#include <mosquitto.h>
#include <mqtt_protocol.h>
#include <sys/eventfd.h>

/* A descriptor that one thread writes to end another one's poll(). Its flags are macros that Swift does not see. */
static inline int bellwire_wake_descriptor(void) { return eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC); }
