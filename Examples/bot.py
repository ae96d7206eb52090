"""A bot that answers every call, greets the inviter with a message, and leaves the call after some seconds.
python3 Examples/bot.py [USER [SECONDS]]: needs paho-mqtt; reads BROKER and BELLWIRE_TOKEN from the environment."""
import json, os, secrets, sys, time
from urllib.parse import urlsplit
import paho.mqtt.client as mqtt

USER, STAY = (sys.argv[1:] + ["bot"])[0], float((sys.argv[2:] + ["10"])[0])
BROKER = urlsplit(os.environ.get("BROKER", "mqtt://127.0.0.1:1883"))
UP, DOWN, PRESENCE = (f"bellwire/v1/{kind}/{USER}" for kind in ("up", "down", "presence"))

def serve() -> None:
    """Serves one broker connection, with a session of its own, until the connection is lost."""
    bot = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, f"{USER}/bot", protocol=mqtt.MQTTv5)
    session, unanswered, leave_at = secrets.token_hex(8), {}, {}
    def send(topic: str, **message) -> None:
        bot.publish(f"{topic}/bot", json.dumps(message), qos=1)
    def ask(topic: str, **message) -> None:
        """Sends a message, and again until its answer: the service serves a repeated request once."""
        unanswered[message.get("id", "presence")] = (topic, message)
        send(topic, **message)
    def follow(call: dict) -> None:
        name, me = call["callID"], next(member for member in call["members"] if member["userID"] == USER)
        if call["state"] != "ended" and me["state"] in ("inviting", "notYetReceived", "received"):
            ask(UP, type="call.accept", id=f"accept-{name[:50]}", callID=name)
        if call["state"] != "ended" and (me["state"], me.get("device")) == ("accepted", "bot"):
            leave_at.setdefault(name, time.monotonic() + STAY)
        else: leave_at.pop(name, None)

    def on_message(_client, _data, packet) -> None:
        message = json.loads(packet.payload)
        if message["type"] in ("event", "message"):
            send(UP, type="ack", **{key: message[key] for key in ("callID", "revision", "messageID") if key in message})
        asked = unanswered.pop("presence" if message["type"] == "welcome" else message.get("id"), None)
        if asked and message.get("ok") and asked[1]["type"] == "call.accept":
            call = message["call"]
            print("answered", call["inviter"], flush=True)
            ask(UP, type="message.send", id=f"greet-{call['callID'][:50]}", to=call["inviter"], data="Hello, I am a bot.")
        for call in [*message.get("calls", []), *([message["call"]] if "call" in message else [])]: follow(call)

    bot.on_message, bot.on_connect = on_message, lambda *_: bot.subscribe([(DOWN, 1), (f"{DOWN}/bot", 1)])
    bot.on_subscribe = lambda *_: ask(PRESENCE, online=True, session=session)
    bot.will_set(f"{PRESENCE}/bot", json.dumps({"online": False, "reason": "lost", "session": session}), qos=1)
    bot.username_pw_set(USER, os.environ.get("BELLWIRE_TOKEN"))
    bot.connect(BROKER.hostname, BROKER.port or 1883)
    due, beats = time.monotonic(), 0
    while bot.loop(timeout=1) == mqtt.MQTT_ERR_SUCCESS:
        if time.monotonic() < due: continue
        due, beats = due + 2, beats + 1
        if beats % 120 == 0: ask(PRESENCE, online=True, session=session)  # an idle device renews its presence
        for topic, message in list(unanswered.values()): send(topic, **message)
        for name, end in list(leave_at.items()):
            if time.monotonic() < end: send(UP, type="call.heartbeat", callID=name)
            else: ask(UP, type="call.quit", id=f"quit-{name[:50]}", callID=name)

while True:
    try: serve()
    except OSError as problem: print(problem, flush=True)
    time.sleep(1)
