#!/usr/bin/env python3
"""A polite client of a server limited by Tallystick. Python 3, standard library only.

    with a server of cases:  clienttest python3 polite.py [SOLVER]

It shares no code with the library, only docs/wire.md; SOLVER is the folder of solve.py. It
keeps tokens in memory, by origin and policy, and waits and works within caps.
"""

import base64
import http.client
import json
import os
import sys
import time
from urllib.parse import urlsplit

MAX_WORK, MAX_WAIT, MAX_PROOFS, MAX_SENDS = 1 << 24, 30, 3, 6


def key(token):
    """Return what an older token must share to be replaced: the policy, and whose tally it is."""
    payload = token.split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    return claims["aud"], claims.get("fam") or claims.get("sub")


class Client:
    def __init__(self, solve):
        self.solve = solve
        self.tokens = {}  # by origin, and then by key, the newest last

    def shown(self, origin):
        """Return the tokens to show: of each policy the last four."""
        kept = self.tokens.get(origin, {})
        for policy in {policy for policy, _ in kept}:
            for old in [k for k in kept if k[0] == policy][:-4]:
                del kept[old]
        return list(kept.values())

    def send(self, method, url, body, proof):
        """Send once, and keep the tokens of the answer."""
        parts = urlsplit(url)
        origin = (parts.scheme, parts.netloc)
        connection = http.client.HTTPConnection(parts.netloc, timeout=300)
        try:
            connection.putrequest(method, parts.path + "?" + parts.query)
            for token in self.shown(origin):
                connection.putheader("Tallystick-Token", token)
            if proof:
                connection.putheader("Tallystick-Proof", proof)
            connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            response = connection.getresponse()
            response.read()
        finally:
            connection.close()
        for token in response.headers.get_all("Tallystick-Token", []):
            kept = self.tokens.setdefault(origin, {})
            kept.pop(key(token), None)
            kept[key(token)] = token
        return response

    def request(self, method, url, body=b""):
        """Send, and after refusals work or wait and send again, within the caps."""
        proof, proofs, waited = None, 0, 0
        for _ in range(MAX_SENDS):
            response = self.send(method, url, body, proof)
            challenge = response.headers.get("Tallystick-Challenge")
            wait = int(response.headers.get("Retry-After", "0"))
            if challenge:
                proof = None  # without one it was not looked at, or is good for the same again
            if response.status in (403, 429) and challenge and proofs < MAX_PROOFS:
                try:
                    proof, proofs = self.solve(challenge.split(";")[0], MAX_WORK), proofs + 1
                    continue
                except ValueError:  # too dear, or not to be read
                    pass
            repeatable = response.status == 429 or response.status == 503 and method in ("GET", "HEAD", "PUT", "DELETE")
            if not repeatable or not wait or waited + wait > MAX_WAIT:
                return response
            time.sleep(wait)
            waited += wait
        return response


def main():
    sys.path.insert(0, sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__)))
    from solve import solve

    server = urlsplit(os.environ["CLIENTTEST_URL"])
    connection = http.client.HTTPConnection(server.netloc, timeout=300)
    connection.request("GET", "/cases")
    cases = json.load(connection.getresponse())
    client = Client(solve)
    for case in cases:
        for request in case["requests"]:
            try:
                client.request(request["method"], request["url"], request["body"].encode())
            except (OSError, http.client.HTTPException):
                pass  # the next request follows


if __name__ == "__main__":
    main()
