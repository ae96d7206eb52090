"""A bot that answers calls and verifies the token for its room (docs/media.md). Python's standard library is enough.
BELLWIRE=http://127.0.0.1:8080 python3 bot.py BOT SERVER-TOKEN-FILE WEBHOOK-SECRET-FILE LIVEKIT-KEY-FILE CERTIFICATE KEY
A webhook tells the bot of its calls, at ADDRESS (127.0.0.1) and PORT (8443) with HTTPS, and REST answers them."""
import base64, hashlib, hmac, json, os, ssl, sys, time  # noqa: E401
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.error import HTTPError
from urllib.request import Request, urlopen

BOT, (TOKEN, WEBHOOK, LIVEKIT) = sys.argv[1], [open(path).read().replace(":", " ", 1).split() for path in sys.argv[2:5]]


def decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def claims(token: str) -> dict:
    """Returns the claims of a token. Raises an error unless the media server admits the holder of the token."""
    message, _, signature = token.rpartition(".")
    read = json.loads(decoded(message.split(".")[1]))
    expected = hmac.digest(LIVEKIT[1].encode(), message.encode(), hashlib.sha256)
    if not hmac.compare_digest(expected, decoded(signature)) or read["iss"] != LIVEKIT[0]:
        raise ValueError("the token is not signed with this key")
    if not read["nbf"] <= time.time() < read["exp"]:
        raise ValueError("the token is not valid now")
    return read


def answer(call: str) -> dict:
    """Accepts a call. Returns where its room is: a LiveKit client takes `url` and `token` as they are."""
    headers = {"Authorization": f"Bearer {TOKEN[0]}"}
    url, body = f"{os.environ['BELLWIRE']}/v1/calls/{call}/accept", json.dumps({"userID": BOT}).encode()
    try:
        session = json.load(urlopen(Request(url, body, headers))).get("mediaSession")
    except HTTPError as refusal:
        return {"call": call, "refused": json.load(refusal)["code"]}
    if session is None:
        return {"call": call, "refused": "noMedia"}  # no media server is named for the call's `media`
    read = claims(session["token"])
    return {"url": session["url"], "room": read["video"]["room"], "identity": read["sub"]}


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body, of = self.rfile.read(int(self.headers["content-length"])), self.headers
        message = f"{of['webhook-id']}.{of['webhook-timestamp']}.".encode() + body
        key = base64.b64decode(WEBHOOK[0].removeprefix("whsec_"))
        expected = "v1," + base64.b64encode(hmac.digest(key, message, hashlib.sha256)).decode()
        genuine = any(hmac.compare_digest(expected, given) for given in of["webhook-signature"].split())
        self.send_response(204 if genuine else 401)
        self.end_headers()
        call = json.loads(body)["data"].get("call", {}) if genuine else {}
        if any(member["userID"] == BOT and member["state"] == "inviting" for member in call.get("members", [])):
            print(json.dumps(answer(call["callID"])), flush=True)


server = ThreadingHTTPServer((os.environ.get("ADDRESS", "127.0.0.1"), int(os.environ.get("PORT", 8443))), Receiver)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(*sys.argv[5:7])
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
