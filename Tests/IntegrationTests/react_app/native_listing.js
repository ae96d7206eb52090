// The phone around the listings of docs/react-native.md: the packages that they import, under the test's control. A line of
// standard input is a function's name and an argument as JSON; what the listings do on the phone goes out as a line.
import { createInterface } from "node:readline";
import { say, settings } from "./native_environment.js";

const handlers = {};
const on = (name, handler) => {
  handlers[name] = handler;
};
createInterface({ input: process.stdin }).on("line", (line) => {
  const [name, value] = JSON.parse(line);
  handlers[name](value);
});

export const Platform = { OS: settings.os };
export const AppState = { addEventListener: (_, handler) => on("appState", handler) };
export const NetInfo = { addEventListener: (handler) => on("netInfo", handler) };
export const CONSTANTS = { END_CALL_REASONS: { REMOTE_ENDED: 2, ANSWERED_ELSEWHERE: 4, MISSED: 6 } };
export const RNCallKeep = {
  addEventListener: on,
  displayIncomingCall: (...words) => say(`displays ${words.join(" ")}`),
  reportEndCallWithUUID: (uuid, reason) => say(`ends ${uuid} ${reason}`),
};
export const VoipPushNotification = {
  addEventListener: on,
  registerVoipToken: () => handlers.register("aa00"),
  RNVoipPushRemoteNotificationReceivedEvent: "RNVoipPushRemoteNotificationReceivedEvent",
  RNVoipPushRemoteNotificationsRegisteredEvent: "RNVoipPushRemoteNotificationsRegisteredEvent",
};
export const getMessaging = () => "messaging";
export const getToken = async () => "token";
export const onTokenRefresh = (_, handler) => on("token", handler);
export const setBackgroundMessageHandler = (_, handler) => on("pushed", handler);
export const onMessage = () => undefined;
export const { url, user } = settings;
export const device = "native";
export const fetchToken = () => "none";
export const report = ({ code, message }) => say(`reports ${code ?? message}`);
