#pragma once
#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>
#include <mosquitto.h>
#include <mosquitto_broker.h>
#include <mosquitto_plugin.h>
#include <mqtt_protocol.h>

/// Logs a text by mosquitto_log_printf. Swift cannot call that function, because of its variable argument list.
static inline void bellwire_broker_log(int level, const char *text) { mosquitto_log_printf(level, "%s", text); }
