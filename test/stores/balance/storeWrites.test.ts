import test from "ava";
import { DomainError } from "../../../runtime/errors.rules.ts";
import {
  decideStoreWrite,
  enterStoreWrite,
  responseKey,
} from "../../../modules/stores/storeWrites.rules.ts";
import type {
  StoreBalance,
  StoreLedger,
  StoreWriteDecision,
  StoreRegistrationWrite,
} from "../../../modules/stores/storeWrites.rules.ts";
import { createRandom } from "../../support/random.ts";
import type { Random } from "../../support/random.ts";

const prices = { tree: 50, bottle: 7 };
const features = { treePlanting: true, plasticRemoval: true, donations: true };

const write = (
  given: Partial<StoreRegistrationWrite> & { readonly key?: string; readonly body?: string },
) => {
  const { key, body = "asked", ...rest } = given;
  const requested: StoreRegistrationWrite = {
    recordId: "record",
    customerName: null,
    customerEmail: null,
    customerId: null,
    orderId: null,
    notes: null,
    accountId: "shop",
    mode: "live",
    operation: "plant",
    kind: "tree",
    count: 1,
    isLimited: false,
    idempotency: key === undefined ? null : { key, requestHash: body },
    responseBody: "response",
    ...rest,
  };
  return requested;
};

const balancesOf = (
  ...cents: readonly (readonly [string, number])[]
): ReadonlyMap<string, StoreBalance> =>
  new Map(
    cents.map(([accountId, balanceCents]) => [
      accountId,
      { balanceCents, prices, ...features, lastRecordUs: 0 },
    ]),
  );

/** What decides about a batch of which nothing is decided yet. */
const ledgerOf = (
  balances: ReadonlyMap<string, StoreBalance>,
  responses: StoreLedger["responses"] = new Map(),
): StoreLedger => ({
  balances: new Map(balances),
  responses: new Map(responses),
  limits: new Map(),
});

/** A decision, and what the balance is after it if it is accepted. */
type Decided = { readonly decision: StoreWriteDecision; readonly balanceCents: number };

const NOW = new Date("2026-01-01T00:00:00Z");

/** Decides writes in their order and enters what is accepted. */
const decideAll = (
  batch: readonly StoreRegistrationWrite[],
  ledger: StoreLedger,
): readonly Decided[] =>
  batch.map((requested) => {
    const decision = decideStoreWrite(requested, ledger);
    const { balanceCents } =
      decision.kind === "accepted"
        ? enterStoreWrite(requested, ledger, -decision.costCents, NOW)
        : { balanceCents: 0 };
    return { decision, balanceCents };
  });

const describeDecision = ({ decision, balanceCents }: Decided): string => {
  switch (decision.kind) {
    case "accepted":
      return `accepted, ${decision.costCents} at ${decision.unitPriceCents}, ${balanceCents} left`;
    case "replayed":
      return `${decision.response.replayed ? "replayed" : "new"}: ${decision.response.responseBody}`;
    case "rejected":
      return `${decision.error.code}: ${decision.error.message}`;
  }
};

const REUSED = "request_invalid: Idempotency-Key: was used before with another request body";
const exhausted = (needed: string, left: string): string =>
  `balance_insufficient: top-up balance exhausted: $${needed} needed, $${left} left`;

const decides = test.macro({
  exec: (
    t,
    {
      balanceCents,
      batch,
      stored = [],
    }: {
      readonly balanceCents: number;
      readonly batch: readonly StoreRegistrationWrite[];
      readonly stored?: readonly (readonly [string, string])[];
    },
    expected: readonly string[],
  ) => {
    const balances = balancesOf(["shop", balanceCents], ["other", 50]);
    const responses = new Map(
      stored.map(([key, requestHash]) => [
        responseKey({ accountId: "shop", mode: "live", operation: "plant", key }),
        { requestHash, responseBody: "first response", recordId: "first record" },
      ]),
    );

    const decided = decideAll(batch, ledgerOf(balances, responses));
    t.deepEqual(decided.map(describeDecision), expected);
  },
  title: (title = "") => title,
});

test("an empty batch decides nothing", decides, { balanceCents: 0, batch: [] }, []);
test(
  "a balance can be spent to the last cent",
  decides,
  { balanceCents: 100, batch: [write({ count: 2 })] },
  ["accepted, 100 at 50, 0 left"],
);
test(
  "a write that costs a cent more than the balance is rejected with both amounts",
  decides,
  { balanceCents: 99, batch: [write({ count: 2 })] },
  [exhausted("1.00", "0.99")],
);
test(
  "a rejected write leaves the balance for later writes",
  decides,
  { balanceCents: 60, batch: [write({ count: 2 }), write({}), write({})] },
  [exhausted("1.00", "0.60"), "accepted, 50 at 50, 10 left", exhausted("0.50", "0.10")],
);
test(
  "each kind has its price",
  decides,
  { balanceCents: 57, batch: [write({ kind: "bottle", operation: "plastic" }), write({})] },
  ["accepted, 7 at 7, 50 left", "accepted, 50 at 50, 0 left"],
);
test(
  "a test write is free, even with an empty balance",
  decides,
  { balanceCents: 0, batch: [write({ mode: "test", count: 1000 }), write({})] },
  ["accepted, 0 at 0, 0 left", exhausted("0.50", "0.00")],
);
test(
  "no balance covers the largest count",
  decides,
  {
    balanceCents: Number.MAX_SAFE_INTEGER,
    batch: [write({ kind: "bottle", count: Number.MAX_SAFE_INTEGER }), write({})],
  },
  [
    exhausted("630,503,947,831,869.37", "90,071,992,547,409.91"),
    `accepted, 50 at 50, ${Number.MAX_SAFE_INTEGER - 50} left`,
  ],
);
test(
  "each account has its own balance",
  decides,
  { balanceCents: 50, batch: [write({}), write({ accountId: "other" }), write({})] },
  ["accepted, 50 at 50, 0 left", "accepted, 50 at 50, 0 left", exhausted("0.50", "0.00")],
);
test(
  "a known key gets its stored response and costs nothing",
  decides,
  { balanceCents: 0, stored: [["a", "asked"]], batch: [write({ key: "a", responseBody: "new" })] },
  ["replayed: first response"],
);
test(
  "a known key with another request is rejected",
  decides,
  { balanceCents: 50, stored: [["a", "other"]], batch: [write({ key: "a" }), write({})] },
  [REUSED, "accepted, 50 at 50, 0 left"],
);
test(
  "a key that comes twice in a batch gets the first response and is paid once",
  decides,
  {
    balanceCents: 60,
    batch: [write({ key: "a", responseBody: "one" }), write({ key: "a", responseBody: "two" })],
  },
  ["accepted, 50 at 50, 10 left", "replayed: one"],
);
test(
  "a key that comes again in a batch with another request is rejected and keeps its response",
  decides,
  {
    balanceCents: 60,
    batch: [
      write({ key: "a", responseBody: "one" }),
      write({ key: "a", body: "other" }),
      write({ key: "a" }),
    ],
  },
  ["accepted, 50 at 50, 10 left", REUSED, "replayed: one"],
);
test(
  "the key of a rejected write can be used again, also for another request",
  decides,
  {
    balanceCents: 50,
    batch: [write({ key: "a", count: 2 }), write({ key: "a", body: "less" }), write({ key: "a" })],
  },
  [exhausted("1.00", "0.50"), "accepted, 50 at 50, 0 left", REUSED],
);
test(
  "keys are scoped to account, mode and operation",
  decides,
  {
    balanceCents: 57,
    batch: [
      write({ key: "a" }),
      write({ key: "a", accountId: "other" }),
      write({ key: "a", mode: "test" }),
      write({ key: "a", operation: "plastic", kind: "bottle" }),
    ],
  },
  [
    "accepted, 50 at 50, 7 left",
    "accepted, 50 at 50, 0 left",
    "accepted, 0 at 0, 7 left",
    "accepted, 7 at 7, 0 left",
  ],
);
test(
  "writes without a key are never replayed; an empty key is a key",
  decides,
  { balanceCents: 200, batch: [write({}), write({}), write({ key: "" }), write({ key: "" })] },
  [
    "accepted, 50 at 50, 150 left",
    "accepted, 50 at 50, 100 left",
    "accepted, 50 at 50, 50 left",
    "replayed: response",
  ],
);

test("an account without a balance is a bug, not a DomainError", (t) => {
  const error = t.throws(() => decideStoreWrite(write({}), ledgerOf(balancesOf(["other", 50]))));
  t.false(error instanceof DomainError);
  t.is(error?.message, "Account shop has no balance.");
});

const randomWrite = (random: Random, index: number): StoreRegistrationWrite => {
  const kind = random.pick(["tree", "bottle"] as const);
  return write({
    accountId: random.pick(["shop", "other", "third"]),
    mode: random.pick(["live", "live", "test"] as const),
    kind,
    operation: kind === "tree" ? "plant" : "plastic",
    count: 1 + random.below(4),
    responseBody: `response ${index}`,
    ...random.pick([{}, { key: "a" }, { key: "b" }, { key: "b", body: "other" }]),
  });
};

for (const seed of [1, 2, 3]) {
  test(`each write of a batch is decided as if it had come alone (seed ${seed})`, (t) => {
    const random = createRandom(seed);
    const kinds = new Set<string>();
    for (let round = 0; round < 300; round += 1) {
      const batch = Array.from({ length: random.below(30) }, (_, index) =>
        randomWrite(random, index),
      );
      const start = balancesOf(
        ["shop", random.below(600)],
        ["other", random.below(600)],
        ["third", 0],
      );

      const balances = new Map(start);
      const responses = new Map<
        string,
        { requestHash: string; responseBody: string; recordId: string }
      >();
      const alone = batch.flatMap((requested) => {
        const decided = decideAll([requested], ledgerOf(balances, responses));
        for (const { decision, balanceCents } of decided) {
          kinds.add(decision.kind);
          if (decision.kind === "accepted") {
            const { accountId, idempotency, responseBody } = requested;
            balances.set(accountId, { prices, balanceCents, ...features, lastRecordUs: 0 });
            if (idempotency) {
              const { key, requestHash } = idempotency;
              responses.set(responseKey({ ...requested, key }), {
                requestHash,
                responseBody,
                recordId: requested.recordId,
              });
            }
          }
        }
        return decided;
      });

      t.deepEqual(
        decideAll(batch, ledgerOf(start)).map(describeDecision),
        alone.map(describeDecision),
      );
      t.true([...balances.values()].every(({ balanceCents }) => balanceCents >= 0));
    }
    t.deepEqual([...kinds].toSorted(), ["accepted", "rejected", "replayed"]);
  });
}
