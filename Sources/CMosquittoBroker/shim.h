#pragma once
#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>
#include <mosquitto.h>
#include <mosquitto_broker.h>
#include <mosquitto_plugin.h>
#include <mqtt_protocol.h>

/// The same with its text in one piece: Swift does not call functions with variable arguments.
static inline void bellwire_broker_log(int level, const char *text) { mosquitto_log_printf(level, "%s", text); }
