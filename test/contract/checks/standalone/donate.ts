import { z } from "zod";
import { atOnce, checksOf, unique } from "../../check.ts";
import type { Check } from "../../check.ts";
import { expect, NO_OBJECTS, rejects } from "../../expectations.ts";
import { digitsOf, donationsOf, EIN, readDonated, UNKNOWN_EIN } from "./donations.ts";

const PATH = "/charities/donate";
const { contract, decision } = checksOf(`POST ${PATH}`, donationsOf);
const subscribe = checksOf("POST /charities/subscribe", donationsOf);

/** Donations of a dollar to a charity, with these fields. */
const gifts = (...fields: readonly object[]) => ({
  bodies: fields.map((given) => Object.assign({ amount_cents: 100, ein: EIN }, given)),
});

const withCents = (cents: unknown) => ({ amount_cents: cents, amount: 100 });

const subscribed = z.looseObject({ success: z.boolean(), message: z.string() });

export const donateChecks: readonly Check[] = [
  contract("records a donation with the contract's fields", async (t) => {
    const attribution = unique("donation");
    const metadata = { order: "A-1", nested: { n: 1 } };
    const { record } = await t.donate({ amount_cents: 1234, attribution, metadata });
    expect.fields(record, { amount_cents: 1234, attribution, metadata, refunded: false });
    expect.equal("ein", digitsOf(record.ein), digitsOf(EIN));
  }),
  contract("a charity is named by ein, by nonprofit_id or by both", async (t) => {
    const { charities } = await t.search({ ein: EIN });
    const nonprofitId = charities[0]?.nonprofit_id ?? "";
    for (const given of [
      {},
      { ein: undefined, nonprofit_id: nonprofitId },
      { nonprofit_id: nonprofitId },
    ]) {
      const { record } = await t.donate(given);
      expect.fields(record, { nonprofit_id: nonprofitId, ein: charities[0]?.ein });
    }
  }),
  contract("charity_name is kept if given and filled in if not", async (t) => {
    const { charities } = await t.search({ ein: EIN });
    expect.equal("filled in", (await t.donate()).charity_name, charities[0]?.name);
    const given = await t.donate({ charity_name: "Our favourite" });
    expect.equal("given", given.charity_name, "Our favourite");
  }),
  contract("idempotency_key is returned if given", async (t) => {
    const key = unique("key");
    const { record } = await t.donate({ idempotency_key: key });
    expect.equal("idempotency_key", record.idempotency_key, key);
    expect.that(!(await t.donate()).record.idempotency_key, "none without one", record);
  }),
  contract("an amount_cents that is not an integer above 0 is a 400", async (t) => {
    const before = await t.donate();
    const wrong = [0, -1, 1.5, "100", "", true, null, [], {}, undefined];
    await rejects(PATH, gifts(...wrong.map(withCents)), /amount_cents/u)(t);
    expect.equal("total_donations", (await t.donate()).total_donations, before.total_donations + 1);
  }),
  contract(
    "neither ein nor nonprofit_id is a 400",
    rejects(
      PATH,
      gifts(
        { ein: undefined },
        { ein: undefined, charity_name: "Red Cross" },
        { ein: null },
        { ein: "", nonprofit_id: "" },
      ),
    ),
  ),
  contract(
    "a charity that does not exist is a 400",
    rejects(
      PATH,
      gifts(
        ...[UNKNOWN_EIN, "12345", "not an ein"].map((ein) => ({ ein })),
        ...[unique("none"), "../x"].map((id) => ({ ein: undefined, nonprofit_id: id })),
      ),
    ),
  ),
  contract("a body that is not a JSON object is a 400", rejects(PATH, { bodies: NO_OBJECTS })),
  contract(
    "wrong types of the optional fields are a 400",
    rejects(
      PATH,
      gifts(
        { metadata: "x" },
        { metadata: [] },
        { attribution: {} },
        { charity_name: [] },
        { idempotency_key: {} },
      ),
    ),
  ),
  contract("a repeated idempotency_key returns the first donation, with a header", async (t) => {
    const names = { attribution: unique("replay"), idempotency_key: unique("key") };
    const body = { amount_cents: 700, ein: EIN, ...names };
    const first = await t.service.organization().post(PATH, body);
    const created = readDonated(first);
    const isReplayed = first.headers.get("idempotent-replayed") === "true";
    expect.that(!isReplayed, "the first response is no replay", "true");
    for (const repeated of [body, { ...body, amount_cents: 1, attribution: "other" }]) {
      const replay = await t.service.organization().post(PATH, repeated);
      expect.equal("Idempotent-Replayed", replay.headers.get("idempotent-replayed"), "true");
      expect.equal("donation", readDonated(replay).record, created.record);
      expect.equal("total_donations", readDonated(replay).total_donations, created.total_donations);
    }
    const { total_items: items } = await t.listDonations({ attribution: body.attribution });
    expect.equal("donations", items, 1);
  }),
  contract("overlapping requests with one idempotency_key record one donation", async (t) => {
    const body = { attribution: unique("race"), idempotency_key: unique("key") };
    const ids = await atOnce(15, async () => (await t.donate(body)).donation_id);
    expect.equal("ids", new Set(ids).size, 1);
    const listed = await t.listDonations({ attribution: body.attribution });
    expect.equal("donations", listed.total_items, 1);
  }),
  contract("another organization's idempotency_key is unrelated", async (t) => {
    const body = { idempotency_key: unique("key") };
    const own = await t.donate(body);
    const other = await t.donate(body, "otherTest");
    expect.that(own.donation_id !== other.donation_id, "ids must differ", other.donation_id);
  }),
  contract("a live donation before the subscription is a 400", async (t) => {
    const client = t.service.organization("unsubscribedProd");
    const answer = await client.post(PATH, { amount_cents: 100, ein: EIN });
    expect.error(answer, 400, /donation subscription not active/u);
  }),
  subscribe.contract("provisions the subscription, then live donations succeed", async (t) => {
    const answer = await t.service.organization("prod").post("/charities/subscribe");
    expect.equal("success", expect.body(answer, subscribed).success, true);
    const { donation_id: id } = await t.donate({ amount_cents: 100 }, "prod");
    expect.equal("live donation with the test key", (await t.refundDonation({ id })).status, 404);
    expect.status(await t.refundDonation({ id }, "prod"), 200);
  }),
  subscribe.contract("may be repeated, and works with the test key", async (t) => {
    for (const body of [undefined, undefined, {}]) {
      expect.body(await t.service.organization().post("/charities/subscribe", body), subscribed);
    }
  }),
  decision("an EIN may lack its dash or be a number, and null is none", async (t) => {
    const { charities } = await t.search({ ein: EIN });
    const byId = { ein: null, nonprofit_id: charities[0]?.nonprofit_id };
    for (const given of [{ ein: digitsOf(EIN) }, { ein: Number(digitsOf(EIN)) }, byId]) {
      expect.equal("ein", (await t.donate(given)).ein, EIN);
    }
  }),
  decision("an EIN with a typographic hyphen is accepted or explained", async (t) => {
    for (const hyphen of ["\u2010", "\u2011", "\u2013", " "]) {
      const body = { amount_cents: 100, ein: EIN.replace("-", hyphen) };
      const answer = await t.service.organization().post(PATH, body);
      if (answer.status === 200) {
        expect.equal("ein", digitsOf(readDonated(answer).ein), digitsOf(EIN));
      } else {
        expect.error(answer, 400, /nine digits/u);
      }
    }
  }),
  decision("unknown fields, query parameters and null are ignored", async (t) => {
    const none = { attribution: null, metadata: null, charity_name: null, idempotency_key: null };
    const body = { amount_cents: 100, ein: EIN, foo: 1, ...none };
    readDonated(await t.service.organization().post(`${PATH}?amount_cents=9&foo=1`, body));
  }),
  decision(
    "a misspelt idempotency_key is a 400 that names the right one",
    rejects(PATH, gifts({ idempotencyKey: "x" }), /\bidempotency_key\b/u),
  ),
];
