import ZIMCompat

func fields(_ error: ZIMError) -> [String: Any] { ["code": error.code.rawValue, "message": error.message] }

func fields(_ users: [ZIMCallUserInfo]) -> [[String: Any]] {
    users.map { ["userID": $0.userID, "state": $0.state.rawValue, "extendedData": $0.extendedData] }
}

func fields(_ users: [ZIMErrorUserInfo]) -> [[String: Any]] {
    users.map { ["userID": $0.userID, "reason": $0.reason] }
}

func fields(_ user: ZIMUserFullInfo) -> [String: Any] {
    [
        "userID": user.baseInfo.userID, "userName": user.baseInfo.userName, "userAvatarUrl": user.userAvatarUrl,
        "baseAvatarUrl": user.baseInfo.userAvatarUrl, "extendedData": user.extendedData,
    ]
}
