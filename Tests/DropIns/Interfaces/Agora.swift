import AgoraSignalClient

/// CallAPI's channel, and Bellwire's own additions to the channel.
func useSignalClient(_ listener: any ISignalClientListener, _ watcher: any ICallRtmManagerListener) {
    var configuration = BellwireConfiguration(broker: "mqtts://mqtt.example.com")
    configuration.device = "phone"
    configuration.topicRoot += ""
    configuration.tokenProvider = { userID in userID }
    let client = BellwireSignalClient(configuration: configuration, userId: "1")
    client.delegate = watcher
    client.messageTimeout = 10 as Int
    client.login { error in use(error == nil, client.isConnected as Bool) }
    client.renewToken("token")
    let channel: any ISignalClient = client
    channel.addListener(listener: listener)
    channel.sendMessage(userId: "2", message: "hello", completion: nil)
    channel.sendMessage(userId: "2", message: "hello") { error in use(error == nil) }
    channel.removeListener(listener: listener)
    client.logout()
}

func useTokens(_ watcher: any ICallRtmManagerListener, _ listener: any ISignalClientListener) {
    watcher.onConnected()
    watcher.onDisconnected()
    watcher.onTokenPrivilegeWillExpire(channelName: "")
    listener.onMessageReceive(message: "")
}

func useErrors() -> [Int] {
    use(SignalClientError.domain)
    return [
        SignalClientError.invalidUserId, SignalClientError.notLoggedIn, SignalClientError.notDelivered,
        SignalClientError.tooLarge, SignalClientError.tooManyMessages, SignalClientError.refused,
        SignalClientError.notConnected, SignalClientError.tokenExpired, SignalClientError.invalidConfiguration,
    ]
}
