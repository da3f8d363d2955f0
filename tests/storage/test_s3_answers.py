"""What an S3 server has answered, in words."""

import pytest

from tierledger.storage.s3_answers import answer_in

AROUND = (
    "Server returned non-2xx status code: 403 Forbidden: <?xml version='1.0'?><Error>{}</Error>"
)


@pytest.mark.parametrize(
    ("body", "answer"),
    [
        (
            "<Code>SignatureDoesNotMatch</Code><Message>Forbidden</Message>",
            "SignatureDoesNotMatch: the secret is not the one of this key",
        ),
        (
            "<Code>AccessDenied</Code><Message>not &quot;s3:PutObject&quot;</Message>",
            'AccessDenied: not "s3:PutObject"',
        ),
        ("<Code>Odd</Code>", "Odd"),
        ("<Message>without a code</Message>", None),
    ],
)
def test_an_answer_is_its_code_and_what_that_means(body: str, answer: str | None) -> None:
    assert answer_in(AROUND.format(body)) == answer
