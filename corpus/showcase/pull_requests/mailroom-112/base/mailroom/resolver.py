"""From aliases to the people who get a mail."""

import dataclasses
import logging

log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Recipient:
    address: str
    language: str


class Resolver:
    def __init__(self, directory):
        self._directory = directory

    def resolve(self, message):
        recipients = []
        for alias in message.aliases:
            user = self._directory.lookup(message.tenant, alias)
            if user is None:
                log.warning("message %d: no active user %s", message.id, alias)
                continue
            preferences = self._directory.preferences(user.id)
            if preferences.get("mail") != "off":
                recipients.append(Recipient(user.address, preferences.get("language", "en")))
        return recipients
