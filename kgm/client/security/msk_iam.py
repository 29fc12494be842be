"""IAM on Amazon MSK: a bearer token that is a signed request, created here from AWS credentials by Amazon's library.

MSK's IAM listener also accepts it through OAUTHBEARER, so `AWS_MSK_IAM`, which only Amazon's Java library speaks, is
not needed: a client.properties file for that library works unchanged. Credentials come from where every AWS tool looks
for them (environment, profile, the machine's role); the region comes from the brokers' names, or AWS_REGION."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Generator, Mapping
from functools import partial
from typing import Any

from kgm.client.security import oauth
from kgm.client.security.jaas import Jaas
from kgm.client.security.oauth import Token, Tokens
from kgm.client.transport.deadline import Deadline
from kgm.model.distribution import install_command
from kgm.model.errors import AuthenticationError, UsageError

_REGION = re.compile(r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.(?:amazonaws\.com(?:\.cn)?|api\.aws)")


class MskLogin:
    """OAUTHBEARER with IAM tokens."""

    name = "OAUTHBEARER"
    who = "the AWS credentials"

    def __init__(self, jaas: Jaas | None) -> None:
        """Raises UsageError without the library."""
        self._options = {} if jaas is None else dict(jaas.options)
        self.secrets: tuple[str, ...] = ()
        self._tokens: dict[str, Tokens] = {}
        _library()

    def exchange(self, deadline: Deadline, host: str) -> Generator[bytes, bytes, None]:
        """Raises AuthenticationError without credentials, UsageError without a region."""
        region = region_of(host, os.environ)
        if region not in self._tokens:
            self._tokens[region] = Tokens(lambda _: self._sign(region), {}, "Amazon's signer")
        token = self._tokens[region].get(deadline).value
        self.secrets = (token,)
        yield from oauth.exchange(token, self._tokens[region].extensions)

    def _sign(self, region: str) -> Token:
        from botocore.exceptions import BotoCoreError, ClientError

        signer = _library()
        role, profile = self._options.get("awsRoleArn"), self._options.get("awsProfileName")
        if role:
            sign = partial(
                signer.generate_auth_token_from_role_arn, region, role, self._options.get("awsRoleSessionName", "kgm")
            )
        elif profile:
            sign = partial(signer.generate_auth_token_from_profile, region, profile)
        else:
            sign = partial(signer.generate_auth_token, region)
        try:
            value, expires_at_ms = sign()
        except (BotoCoreError, ClientError) as error:
            raise _no_credentials(str(error)) from None
        except AttributeError:  # the signer gets None if no source has credentials
            raise _no_credentials("no credentials were found") from None
        return Token(value=value, expires_at=time.monotonic() + expires_at_ms / 1000 - time.time())


def _no_credentials(why: str) -> AuthenticationError:
    return AuthenticationError(
        "a token for IAM cannot be signed; no broker was asked", facts=(why,), hint="aws sts get-caller-identity"
    )


def region_of(host: str, environment: Mapping[str, str]) -> str:
    """The AWS region of an MSK broker. Raises UsageError if neither its name nor the environment gives it."""
    found = _REGION.search(host.lower().rstrip("."))
    region = found[1] if found else environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")
    if not region:
        raise UsageError(f"the name of broker {host} does not have an AWS region", hint="set AWS_REGION")
    return region


def _library() -> Any:
    try:
        from aws_msk_iam_sasl_signer import MSKAuthTokenProvider
    except ImportError:
        raise UsageError("IAM on Amazon MSK needs an extra", hint=install_command("msk")) from None
    return MSKAuthTokenProvider
