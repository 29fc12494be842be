"""Member ids of simulated members, in the form in which brokers and clients generate them."""

import random
import uuid

from kgm.model.uuids import uuid_text


def new_classic_member_id(prefix: str, chance: random.Random) -> str:
    """A member id as a broker generates it for the classic protocol: the client id (or the group instance id) and a
    random UUID."""
    return f"{prefix}-{uuid.UUID(int=chance.getrandbits(128), version=4)}"


def new_consumer_member_id(chance: random.Random) -> str:
    """A member id as a client or a broker generates it for the consumer protocol: a random UUID in base64
    (KIP-1082)."""
    while True:
        text = uuid_text(chance.getrandbits(128).to_bytes(16))
        if not text.startswith("-"):
            return text
