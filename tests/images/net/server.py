"""A server of the tests' own internet: TLS on two ports, HTTP on one. Says what it was asked for."""

import http.server
import ssl
import threading


class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/away":
            self.send_response(302)
            self.send_header("Location", "https://elsewhere.example.com/")
            self.end_headers()
            return
        body = f"served {self.headers.get('Host')}{self.path}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        pass


def serve(port: int, context: ssl.SSLContext | None) -> None:
    server = http.server.ThreadingHTTPServer(("0.0.0.0", port), Answer)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    print(f"listening on {port}", flush=True)
    server.serve_forever()


tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
tls.load_cert_chain("/server/certificate.pem", "/server/key.pem")
for each, its_context in ((80, None), (8443, tls)):
    threading.Thread(target=serve, args=(each, its_context), daemon=True).start()
serve(443, tls)
