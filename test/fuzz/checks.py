"""Checks of the responses to generated requests, with the exceptions that a JSON Schema cannot express.

They replace three checks of Schemathesis: `positive_data_acceptance`, `negative_data_rejection` and
`missing_required_header`. A request that is valid by its schema may be rejected with the messages of EXCEPTIONS, and with
no other.
"""

import re
from urllib.parse import parse_qs, urlsplit

import schemathesis
from schemathesis.core.failures import AcceptedNegativeData
from schemathesis.core.parameters import ParameterLocation
from schemathesis.generation.meta import CoveragePhaseData, CoverageScenario
from schemathesis.specs.openapi.checks import negative_data_rejection

EXCEPTIONS = {
    "a range has a longest length": r"from: with the interval \w+, at most \d+ days can be counted in one request",
    "a time zone must exist": r"time_zone: must be the name of a time zone, such as Europe/Berlin",
    "filters that exclude each other": r"without_attribution: excludes attribution(_key)?",
    "a filter that needs another one": r"metadata_value: requires metadata_key",
    "a page starts after a record of the list": r"(starting_)?after: is not the id of a \w+ in this list",
    "names of one value must agree": r"[\w, :-]+ are aliases; their values must match",
    "a header and a field must agree": r"idempotency_key: must equal the header Idempotency-Key if both are given",
    "a key belongs to its first request": r"Idempotency-Key: was used before with another request body|idempotency_key: belongs to the refund of another \w+",
    "an item of a batch may name no record": r"failed to find (tree|bottle) registration|donation not found",
    "what is left of a record limits a refund": r"count: only \d+ can still be refunded|\w+ registration is already fully refunded",
    "what is left of a customer's records limits a reversal": r"quantity: (only [\d,]+ of the|no) matching \w+ remains? to be reversed(; a customer's name must match as a whole)?",
    "a reversal is limited in records": r"quantity: (one call can reverse units of at most|at most \d+ donations can be reversed in one call).*",
    "a certificate of an order lists few records": r"order_id: has more than \d+ records; .*",
    "an account's limits": r"\w+: must be at most \d+, this account's limit for one day",
    "a setting of the account": r"fractional_count: fractional counting is not enabled for this organization",
    "a payment leads back to a URL": r"(success|cancel)_url: must be an https or http URL",
    "payments need Stripe and a production key": r"payments are not set up here; .*|test keys spend nothing, .*",
    "an EIN has nine digits": r"ein: must be nine digits such as .*",
    "a charity must be named and exist": r"one of ein and nonprofit_id is required|no charity found for the .*|ein and nonprofit_id do not agree: .*",
    "a donation has an amount under one of its names": r"amount_dollars: required",
    "a filter of metadata is JSON": r"metadata: must (be (valid JSON|a JSON object)|have at most \d+ pairs)",
    "a webhook is sent to a public https URL": r"url: (must (be a URL|begin with|not have) .*|the host must have a public address; .*)",
    "an endpoint's state limits what can be done": r"the webhook endpoint is disabled; .*|the maximum of \d+ webhook endpoints is reached; .*",
    "events are recovered by their id, or since a time of some days": r"since: required|since: must be a time of the last \d+ days",
    "metadata is limited in bytes and levels": r"metadata.*: must (be at most \d+ bytes as JSON|not be nested deeper than \d+ levels).*",
    "texts in metadata can be stored": r"metadata.*: must be well-formed Unicode without NUL characters( in its name)?",
    "headers are UTF-8": r"[\w-]+: must be well-formed UTF-8",
    "a name that JavaScript reserves": r"metadata.*__proto__: is not an allowed name|the body is not a valid JSON object: Object contains forbidden prototype property",
}

KEY_HEADERS = ("Authorization", "api_key", "shop_name")

ACCEPTED = re.compile("|".join(EXCEPTIONS.values()), re.DOTALL)


def messages_of(response):
    """The messages of a 400: those of the rejected items of a batch, or the only one."""
    body = response.json()
    return [each["error"] for each in body["errors"]] if "errors" in body else [body["error"]]


def is_partial_batch(response, case):
    """Whether a batch was to record what is valid, and some items were rejected."""
    query = parse_qs(urlsplit(response.request.url).query)
    return case.path.endswith("/batch") and query.get("atomic") == ["false"] and response.json().get("failed", 0) > 0


@schemathesis.check
def accepts_valid_requests(ctx, response, case):
    """A request that its schema accepts is not a 400, unless an exception explains it."""
    if response.status_code != 400 or case.meta is None or not case.meta.generation.mode.is_positive:
        return
    for message in messages_of(response):
        if not ACCEPTED.fullmatch(message) and not all(map(ACCEPTED.fullmatch, message.split("; "))):
            raise AssertionError(f"Rejected though its schema accepts it: {message}")


def is_sent_blank(response, case):
    """Whether the invalid part of the request is query parameters that were sent empty or not at all."""
    invalid = [location for location, component in case.meta.components.items() if component.mode.is_negative]
    data = case.meta.phase.data
    names = {data.parameter, *(mutation.parameter for mutation in data.mutations)} - {None}
    # Without its empty parameters.
    sent = parse_qs(urlsplit(response.request.url).query)
    return invalid == [ParameterLocation.QUERY] and names != set() and names.isdisjoint(sent)


def has_null_field(case):
    """Whether the body, or an item of a batch, has a null, which for an optional field is the same as no field."""
    body = case.body if isinstance(case.body, dict) else {}
    items = body.get("items")
    objects = [body, *(items if isinstance(items, list) else [])]
    return any(None in each.values() for each in objects if isinstance(each, dict))


def is_large_limit(response):
    """Whether a page has a number, or is to have more records, beyond 64 bits: it is empty, or as large as a page may be."""
    query = parse_qs(urlsplit(response.request.url).query)
    given = [value for name in ("limit", "first", "page", "page_size") for value in query.get(name, [])]
    return any(value.isdecimal() and int(value) >= 2**63 for value in given)


REFUSALS = (410, 413)
"""Statuses of invalid requests beside those that Schemathesis expects: an unknown event, and a body that is too long."""


@schemathesis.check
def rejects_invalid_requests(ctx, response, case):
    """A request that its schema rejects is not accepted. An invalid value such as [] is sent as an empty parameter,
    which is valid. A batch may record its valid items."""
    try:
        negative_data_rejection(ctx, response, case)
    except AcceptedNegativeData:
        if response.status_code in REFUSALS:
            return
        is_valid = is_sent_blank(response, case) or has_null_field(case) or is_large_limit(response)
        if not is_valid and not is_partial_batch(response, case):
            raise


@schemathesis.check
def rejects_missing_key(ctx, response, case):
    """A missing key is what the contract says: 401 on the store interface and for the dashboard's URL, else 403."""
    if case.meta is None or not isinstance(case.meta.phase.data, CoveragePhaseData):
        return
    data = case.meta.phase.data
    if data.scenario is not CoverageScenario.MISSING_PARAMETER or data.parameter not in KEY_HEADERS:
        return
    expected = 403 if data.parameter == "Authorization" and case.path != "/dashboard_url" else 401
    if response.status_code != expected:
        raise AssertionError(f"Without the header {data.parameter}: {response.status_code}, not {expected}")
