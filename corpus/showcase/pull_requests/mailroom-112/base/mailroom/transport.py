"""Ways to hand a mail over."""

import email.message
import smtplib


class RelayTransport:
    def __init__(self, relay):
        self._host, _, port = relay.partition(":")
        self._port = int(port or 25)

    def send(self, address, language, subject, body):
        mail = email.message.EmailMessage()
        mail["To"] = address
        mail["Subject"] = subject
        mail["Content-Language"] = language
        mail.set_content(body)
        with smtplib.SMTP(self._host, self._port, timeout=10) as relay:
            relay.send_message(mail, from_addr="mailroom@localhost")


class MemoryTransport:
    def __init__(self):
        self.sent = []

    def send(self, address, language, subject, body):
        self.sent.append((address, language, subject, body))
