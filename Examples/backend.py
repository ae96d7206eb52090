"""A backend that calls a user for a shop, hears by webhooks who answered, and hangs up.
python3 Examples/backend.py USER: reads from the environment
  BELLWIRE  the gateway, such as http://127.0.0.1:8080     TOKEN    a token of the role server
  SECRET    the file with the endpoint's whsec_ secret     PORT     where webhooks arrive
  CERT, KEY the files of this backend's certificate (webhooks come by HTTPS alone)"""
import base64, hashlib, hmac, json, os, ssl, sys, threading, time, urllib.request, uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ENV = os.environ
KEY = base64.b64decode(open(ENV["SECRET"]).read().split()[0].removeprefix("whsec_"))
received: set[str] = set()  # a backend keeps these ids in a table
lock, over = threading.Lock(), threading.Event()

def rest(path: str, **body) -> dict:
    """Asks the gateway. The key makes a repeated request safe."""
    headers = {"Authorization": "Bearer " + ENV["TOKEN"], "Idempotency-Key": uuid.uuid4().hex}
    request = urllib.request.Request(ENV["BELLWIRE"] + "/v1" + path, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=15) as answer:
        return json.load(answer)

def is_genuine(headers, body: bytes) -> bool:
    """Whether the webhook has the deployment's signature (Standard Webhooks) and is at most five minutes old."""
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    expected = "v1," + base64.b64encode(hmac.digest(KEY, signed, hashlib.sha256)).decode()
    is_fresh = abs(time.time() - int(headers["webhook-timestamp"])) < 300
    return is_fresh and any(hmac.compare_digest(each, expected) for each in headers["webhook-signature"].split())

class Webhooks(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        genuine = is_genuine(self.headers, body)
        self.send_response(204 if genuine else 401)
        self.end_headers()
        with lock:
            is_new = genuine and self.headers["webhook-id"] not in received
            received.add(self.headers["webhook-id"])
        if is_new: happened(json.loads(body))

    def log_message(self, *_) -> None: pass

def happened(event: dict) -> None:
    data = event["data"]
    if data.get("call", {}).get("inviter") != "shop": return  # another backend's call, or a call of phones
    for change in data.get("changes", []): print(event["type"], change["userID"], change["state"], flush=True)
    if any(change["state"] == "accepted" and change["userID"] != "shop" for change in data.get("changes", [])):
        rest(f"/calls/{data['callID']}/end", userID="shop", reason="done")
    if event["type"] == "call.ended": over.set()

server = ThreadingHTTPServer(("127.0.0.1", int(ENV["PORT"])), Webhooks)
context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
context.load_cert_chain(ENV["CERT"], ENV["KEY"])
server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
threading.Thread(target=server.serve_forever, daemon=True).start()
print("call", rest("/calls", inviter="shop", invitees=[sys.argv[1]], mode="advanced")["callID"], flush=True)
over.wait()
