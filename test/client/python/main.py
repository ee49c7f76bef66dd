"""Uses the Python clients that openapi-python-client generates, and prints what they returned as JSON."""

import datetime
import importlib
import json
import os
import pkgutil
import sys

import standalone
import store
from standalone import AuthenticatedClient, models
from standalone.api.charities import donate, refund_donation, search_charities
from standalone.api.events import list_events
from standalone.api.evidence import read_evidence_summary, read_tree_evidence
from standalone.api.trees import list_trees, refund_trees, register_trees, register_trees_in_batch
from standalone.api.usage import read_usage
from store import AuthenticatedClient as StoreClient
from store import models as store_models
from store.api.donations import donate as donate_for_store
from store.api.impact import evidence, impact_stats
from store.api.store import refund, verify_key
from store.api.trees import list_trees as list_store_trees
from store.api.trees import plant_trees

COUNT = 3_000_000_000
TODAY = datetime.datetime.now(datetime.timezone.utc).date()

# What use_standalone does is this many events.
RECORDED_EVENTS = 6


def use_standalone(url, key):
    client = AuthenticatedClient(base_url=url, token=key, prefix="")
    metadata = models.Metadata.from_dict({"order": "1001"})
    registration = models.NewTreeRegistration(count=COUNT, attribution="autumn", metadata=metadata)
    registered = register_trees.sync(client=client, body=registration, idempotency_key="order-1001")
    replayed = register_trees.sync(client=client, body=registration, idempotency_key="order-1001")
    large = registered.tree_details[0].id
    other = register_trees.sync(client=client, body=models.NewTreeRegistration(count=5)).tree_details[0].id
    found = list_trees.sync(
        client=client,
        attribution_key="autumn",
        created_at=TODAY - datetime.timedelta(days=1),
        end_at=TODAY + datetime.timedelta(days=1),
        metadata='{"order":"1001"}',
    )
    batch = register_trees_in_batch.sync(
        client=client,
        atomic=False,
        body=models.NewTreeRegistrationBatch(
            items=[models.NewTreeRegistration(count=1), models.NewTreeRegistration(count=0)]
        ),
    )
    refunded = refund_trees.sync(client=client, body=models.NewTreeRefund(id=other, count=2, reason="returned"))
    charity = search_charities.sync(client=client, name="red cross", page_size=1).charities[0]
    donation = donate.sync(client=client, body=models.NewDonation(amount_cents=500, ein=charity.ein))
    donation_refund = refund_donation.sync(client=client, body=models.NewDonationRefund(id=donation.donation_id))
    # The feed waits for open transactions of other databases on the server.
    events = []
    while len(events) < RECORDED_EVENTS:
        events = list_events.sync(client=client, limit=100).events
    stages = {
        stage.value: [
            type(milestone.evidence).__name__
            for milestone in read_tree_evidence.sync(large, client=client, evidence_stage=stage).timeline
            if milestone.evidence
        ]
        for stage in models.ReadTreeEvidenceEvidenceStage
    }
    stranger = AuthenticatedClient(base_url=url, token="unknown", prefix="")
    return {
        "total": registered.total_planted_trees,
        "replayed": replayed.tree_details[0].id == large,
        "found": [[each.count, each.metadata["order"]] for each in found.tree_details],
        "batch": [type(result).__name__ for result in batch.results],
        "refunded": [refunded.refunded_trees, refunded.total_planted_trees],
        "donated": [donation.amount_cents, donation.charity_name == charity.name, donation.total_donations],
        "donation_refunded": donation_refund.refund_details[0].refunded,
        "events": [type(event).__name__ for event in events],
        "counted": [event.data.count for event in events if isinstance(event, models.RegistrationCreatedEvent)],
        "evidence": read_tree_evidence.sync(large, client=client).timeline[0].evidence.count,
        "stages": stages,
        "summary": read_evidence_summary.sync(client=client).summary.countries == [],
        "usage": read_usage.sync(large, client=client).state.value,
        "unknown_key": register_trees.sync(client=stranger, body=registration).error,
        "invalid": register_trees.sync(client=client, body=models.NewTreeRegistration(count=0)).error,
        "not_found": read_tree_evidence.sync("unknown", client=client).error,
    }


def open_store(url, key, domain):
    headers = {"shop_name": domain}
    return StoreClient(base_url=url, token=key, prefix="", auth_header_name="api_key", headers=headers)


def use_store(url, key, domain):
    client = open_store(url, key, domain)
    for number in (1, 2, 3):
        record = store_models.NewTreeRecord(trees=number, customer_name="Ann Lee", order_id=f"#{number}")
        for _ in range(2):
            receipt = plant_trees.sync(client=client, body=record, idempotency_key=f"order-{number}")
    donation = donate_for_store.sync(
        client=client,
        body=store_models.NewStoreDonation(charity_id="53-0196605", amount_dollars=1234567.89, customer_name="Ann Lee"),
    )
    pages, cursor = [], None
    while cursor != "":
        page = list_store_trees.sync(
            client=client, customer_name="ann", limit=2, **({} if cursor is None else {"after_created_at": cursor})
        )
        pages.append([tree.count for tree in page.trees])
        cursor = page.next_cursor
    reversal = store_models.NewStoreRefund(type_=store_models.NewStoreRefundType.TREE, quantity=4)
    reversed_trees = refund.sync(client=client, body=reversal)
    stats = impact_stats.sync(client=client, customer="Ann Lee")
    stranger = open_store(url, key, "unknown.example.com")
    return {
        "verified": verify_key.sync(client=client).features.tree_planting,
        "planted": [receipt.trees_planted, receipt.order_id],
        "donated": donation.amount,
        "pages": pages,
        "reversed": reversed_trees.count,
        "stats": [stats.trees, stats.donations],
        "evidence": evidence.sync(client=client).timeline[0].evidence.count,
        "unknown_store": verify_key.sync(client=stranger).code.value,
    }


for package in (standalone, store):
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)

json.dump(
    {
        "standalone": use_standalone(os.environ["IMPACT_URL"], os.environ["IMPACT_API_KEY"]),
        "store": use_store(
            os.environ["IMPACT_STORE_URL"], os.environ["IMPACT_STORE_KEY"], os.environ["IMPACT_STORE_DOMAIN"]
        ),
    },
    sys.stdout,
)
