package org.bellwire.machine

import org.bellwire.Welcome

/* A new token before the current token ends (docs/protocol.md, section 1, Tokens). The app is not told. */

/**
 * The time before the end of a token at which the machine asks for another token, in milliseconds. A token with a life
 * of less than twice this time is renewed in the middle of its life.
 */
private const val RENEWAL_MARGIN = 60_000L

/**
 * The shortest pause before a renewal, in milliseconds. A provider that returns the same token until its end must not
 * make the device reconnect all the time.
 */
private const val LEAST_PAUSE = 1_000L

/**
 * The pause after a warning of the broker, in milliseconds. Tokens with a life of less than a minute cause a warning
 * with each connection.
 */
private const val RENEWAL_PAUSE = 5_000L

/** The longest life of a token that the machine takes into account, in milliseconds: 34 years. */
private const val LONGEST_LIFE = 1L shl 40

/**
 * Sets the time of the renewal. The service sends the token's end and the time of the welcome, both by its own clock.
 */
internal fun MachineState.setTokenRenewal(welcome: Welcome, now: Long) {
    if (!configuration.renewsTokens || welcome.tokenExpiresAt == null) return
    // The value is clamped so that the pause is never too short and the sum never too large, whatever the service
    // sends.
    val life = (welcome.tokenExpiresAt - welcome.serverTime).coerceIn(0, LONGEST_LIFE)
    tokenRenewal = now + maxOf(life - RENEWAL_MARGIN, life / 2, LEAST_PAUSE)
}

/**
 * Handles the broker's warning, a minute before the token's end. The warning is only news when the welcome had no end
 * of the token.
 */
internal fun MachineState.tokenWillExpire(now: Long): List<Action> {
    if (configuration.renewsTokens && tokenRenewal == null && link == Link.SUBSCRIBED) tokenRenewal = now + RENEWAL_PAUSE
    return emptyList()
}

internal fun MachineState.tokenRenewalDue(now: Long): List<Action> {
    if (link != Link.SUBSCRIBED || (tokenRenewal ?: Long.MAX_VALUE) > now) return emptyList()
    tokenRenewal = null
    return listOf(Action.RenewToken)
}
