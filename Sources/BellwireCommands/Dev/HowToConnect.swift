import SignalingProtocol

/// The instructions that `bellwire dev` prints after its start.
enum HowToConnect {
    static func text(port: Int, topics: Topics, _ gateway: DevGateway) -> String {
        let bellwire = CommandLine.arguments.first ?? "bellwire"
        let root = topics.root
        let flag = topics == .standard ? "" : " --topic-root \(root)"
        return """

            Up. Call from another terminal:

              \(bellwire) listen --as bob --broker mqtt://127.0.0.1:\(port)\(flag)
              \(bellwire) call bob --as alice --broker mqtt://127.0.0.1:\(port)\(flag)

            The call is over with its answer; with --mode advanced both stay in the call until someone hangs up (h).

            Watch everything:

              mosquitto_sub -p \(port) -v -t '\(root)/#'

            Be a phone in ten lines of Python (python3 -m venv .venv && .venv/bin/pip install paho-mqtt), then call carol:

              import json, paho.mqtt.client as mqtt
              phone = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, "carol/py", protocol=mqtt.MQTTv5)
              send = lambda **m: phone.publish("\(root)/up/carol/py", json.dumps(m), qos=1)
              def on_message(_, __, message):
                  event = json.loads(message.payload); print(event.get("event", event["type"]), event.get("callID", ""))
                  if event["type"] == "event": send(type="ack", callID=event["callID"], revision=event["revision"])
                  if event.get("event") == "call.invited": send(type="call.accept", id="a" + event["callID"][:60], callID=event["callID"])
              presence = lambda text: ("\(root)/presence/carol/py", text)
              phone.on_message, phone.on_connect = on_message, lambda *_: (phone.subscribe([("\(root)/down/carol", 1), ("\(root)/down/carol/py", 1)]), phone.publish(*presence('{"online":true}')))
              phone.will_set(*presence('{"online":false,"reason":"lost"}')); phone.connect("127.0.0.1", \(port)); phone.loop_forever()

            Be a backend, and make bob's phone ring (docs/backend.md):

              curl http://127.0.0.1:\(gateway.port)/v1/calls -H "Authorization: Bearer $(cat \(gateway.tokenFile))" \\
                -d '{"inviter":"shop","invitees":["bob"]}'

            Ctrl-C or SIGTERM stops everything.
            """
    }
}
