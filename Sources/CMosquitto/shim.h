#pragma once
#include <mosquitto.h>
#include <mqtt_protocol.h>

/* OpenSSL's initialization. The symbol is weak, because the function exists only where libmosquitto was built with TLS.
   */
int bellwire_mosquitto_start_openssl(uint64_t options, const void *settings)
    __asm__("OPENSSL_init_crypto") __attribute__((weak));

/* Must be called once per process, before all other functions of libmosquitto. By default OpenSSL frees its state when
   the process exits, even while threads still use OpenSSL; with OPENSSL_INIT_NO_ATEXIT (0x00080000) OpenSSL keeps its
   state. */
static inline void bellwire_mosquitto_start(void) {
    if (bellwire_mosquitto_start_openssl) bellwire_mosquitto_start_openssl(0x00080000, NULL);
    mosquitto_lib_init();
}

/* Returns the broker's reason, to be freed by the caller; NULL without a reason. */
static inline char *bellwire_mosquitto_reason(const mosquitto_property *properties) {
    char *text = NULL;
    mosquitto_property_read_string(properties, MQTT_PROP_REASON_STRING, &text, false);
    return text;
}
