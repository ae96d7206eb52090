#pragma once
#include <mosquitto.h>
#include <mqtt_protocol.h>

/* There only where libmosquitto was built with TLS. */
int bellwire_mosquitto_start_openssl(uint64_t options, const void *settings)
    __asm__("OPENSSL_init_crypto") __attribute__((weak));

/* Once per process, before all else. OpenSSL takes itself apart when the process exits, also under threads that still use
   it: not here (OPENSSL_INIT_NO_ATEXIT). */
static inline void bellwire_mosquitto_start(void) {
    if (bellwire_mosquitto_start_openssl) bellwire_mosquitto_start_openssl(0x00080000, NULL);
    mosquitto_lib_init();
}

/* What the broker gives as its reason, to be freed; NULL when it gives none. */
static inline char *bellwire_mosquitto_reason(const mosquitto_property *properties) {
    char *text = NULL;
    mosquitto_property_read_string(properties, MQTT_PROP_REASON_STRING, &text, false);
    return text;
}
