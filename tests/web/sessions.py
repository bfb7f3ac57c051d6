"""Sessions of a service, for the browser's tests: one JSON object per line says what to do, and each
is answered with one.

    sessions.py ADDRESS [CA]

    {"open": NAME, "backends": [...], "token": ...}    a session, which may have to wait
    {"run": NAME}                                      loads a small model and runs it
    {"close": NAME}
    {"many": N, "backends": [...], "token": ...}       N sessions, one after the other
    {"queue": N, "backends": [...], "token": ...}      N sessions at once, which are left to themselves

All but the last give signs of life until they are closed, at the latest when the input ends.
"""
import json
import pathlib
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from service import SMALL, X, Client, Session

HEARTBEAT_S = 2


def main():
    address, ca = sys.argv[1], (sys.argv[2:] or [None])[0]
    clients, sessions = {}, {}
    lock = threading.Lock()
    ended = threading.Event()

    def client(order):
        token = order.get("token")
        if token not in clients:
            clients[token] = Client(address, token, ca)
        return clients[token]

    def create(order):
        reply = client(order).create(*order["backends"])
        assert reply.HasField("result_value"), reply
        return Session(client(order), reply.result_value.session_uuid, len(order["backends"]))

    def beat():
        while not ended.wait(HEARTBEAT_S):
            with lock:
                for name, session in list(sessions.items()):
                    try:
                        session.heartbeat()
                    except Exception:  # closed by somebody else, as tests do
                        del sessions[name]

    def do(order):
        if "many" in order:
            for _ in range(order["many"]):
                session = create(order)
                session.wait()
                session.close()
        elif "queue" in order:
            for _ in range(order["queue"]):
                create(order)
        elif "open" in order:
            sessions[order["open"]] = create(order)
        elif "run" in order:
            sessions[order["run"]].load(SMALL)
            sessions[order["run"]].infer([X])
        else:
            sessions.pop(order["close"]).close()

    threading.Thread(target=beat, daemon=True).start()
    for line in sys.stdin:
        with lock:
            try:
                do(json.loads(line))
                answer = {}
            except Exception as fault:
                answer = {"error": f"{type(fault).__name__}: {fault}"}
        print(json.dumps(answer), flush=True)
    ended.set()
    for session in sessions.values():
        session.close()


main()
