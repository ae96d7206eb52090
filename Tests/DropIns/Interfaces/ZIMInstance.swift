import ZIMCompat

/// `ZIM` without its calls, with the callbacks' names as apps write them.
func useZIM(_ handler: any ZIMEventHandler) {
    var configuration = BellwireConfiguration(broker: "mqtts://mqtt.example.com")
    configuration.device = "phone"
    configuration.topicRoot += ""
    configuration.tokenProvider = { userID in userID }
    ZIM.configure(configuration)
    let app = ZIMAppConfig()
    (app.appID, app.appSign) = (1 as UInt32, "sign")
    let created: ZIM? = ZIM.create(with: app)
    let version: String = ZIM.getVersion()
    guard let zim = ZIM.shared(), zim === created, !version.isEmpty else { return }
    zim.setEventHandler(handler)
    zim.setEventHandler(nil)
    logIn(zim)
    useUsers(zim)
    zim.logout()
    zim.destroy()
}

private func logIn(_ zim: ZIM) {
    let user = ZIMUserInfo()
    (user.userID, user.userName, user.userAvatarUrl) = ("alice", "Alice", "https://example.com/a.png")
    let loggedIn: ZIMLoggedInCallback = { (error: ZIMError) in use(error.code, error.message) }
    zim.login(with: user, token: "", callback: loggedIn)
    let config = ZIMLoginConfig()
    (config.userName, config.token, config.customStatus, config.isOfflineLogin) = ("Alice", "", "", false)
    zim.login(with: "alice", config: config, callback: nil)
    let renewed: ZIMTokenRenewedCallback = { (token: String, error: ZIMError) in use(token, error) }
    zim.renewToken("token", callback: renewed)
    let uploaded: ZIMLogUploadedCallback = { (error: ZIMError) in use(error) }
    zim.uploadLog(with: uploaded)
}

private func useUsers(_ zim: ZIM) {
    let config = ZIMUsersInfoQueryConfig()
    config.isQueryFromServer = true
    let queried: ZIMUsersInfoQueriedCallback = {
        (users: [ZIMUserFullInfo], errors: [ZIMErrorUserInfo], error: ZIMError) in
        for user in users { use(user.baseInfo.userID, user.userAvatarUrl, user.extendedData) }
        for user in errors { use(user.userID, user.reason as UInt32) }
        use(error)
    }
    zim.queryUsersInfo(by: ["bob"], config: config, callback: queried)
    let renamed: ZIMUserNameUpdatedCallback = { (name: String, error: ZIMError) in use(name, error) }
    zim.updateUserName("Al", callback: renamed)
    let shown: ZIMUserAvatarUrlUpdatedCallback = { (url: String, error: ZIMError) in use(url, error) }
    zim.updateUserAvatarUrl("https://example.com/b.png", callback: shown)
    let extended: ZIMUserExtendedDataUpdatedCallback = { (data: String, error: ZIMError) in use(data, error) }
    zim.updateUserExtendedData("{}", callback: extended)
}

/// Takes values, so that no value stands unused.
func use(_ values: Any...) {}
