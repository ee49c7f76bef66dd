import test from "ava";
import { DomainError } from "../../../runtime/errors.rules.ts";
import { decideStoreWrite, responseKey } from "../../../modules/stores/storeWrites.rules.ts";
import type {
  StoreLedger,
  StoreWriteDecision,
  StoreRegistrationWrite,
} from "../../../modules/stores/storeWrites.rules.ts";
import { createRandom } from "../../support/random.ts";
import type { Random } from "../../support/random.ts";

const STORE = {
  treePriceCents: 50,
  bottlePriceCents: 7,
  treePlanting: true,
  plasticRemoval: true,
  donations: true,
  lastRecordUs: 0,
};

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

const balancesOf = (cents: Readonly<Record<string, number>>): StoreLedger["balances"] =>
  new Map(Object.entries(cents).map(([id, balanceCents]) => [id, { ...STORE, balanceCents }]));

const ledgerOf = (
  balances: StoreLedger["balances"],
  responses: StoreLedger["responses"] = new Map(),
): StoreLedger => ({ balances, responses, limits: new Map() });

const NOW = new Date("2026-01-01T00:00:00Z");

const describeDecision = (decision: StoreWriteDecision): string => {
  switch (decision.kind) {
    case "accepted":
      return `accepted, ${decision.costCents} at ${decision.unitPriceCents}, ${decision.balanceCents} left`;
    case "replayed":
      return `replayed: ${decision.response.responseBody}`;
    case "rejected":
      return `${decision.error.code}: ${decision.error.message}`;
  }
};

/** Decides writes in their order. */
const decideAll = (
  batch: readonly StoreRegistrationWrite[],
  ledger: StoreLedger,
): readonly string[] =>
  batch.map((requested) => describeDecision(decideStoreWrite(requested, ledger, NOW)));

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
    const balances = balancesOf({ shop: balanceCents, other: 50 });
    const responses = new Map(
      stored.map(([key, requestHash]) => [
        responseKey({ accountId: "shop", mode: "live", operation: "plant", key }),
        { requestHash, responseBody: "first response", recordId: "first record" },
      ]),
    );

    t.deepEqual(decideAll(batch, ledgerOf(balances, responses)), expected);
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
  const error = t.throws(() => decideStoreWrite(write({}), ledgerOf(new Map()), NOW));
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

test("the writes of a batch never overspend, pay each key once and follow each other in time", (t) => {
  const random = createRandom(1);
  for (let round = 0; round < 300; round += 1) {
    const start = { shop: random.below(600), other: random.below(600), third: 0 };
    const ledger = ledgerOf(balancesOf(start));
    const times = new Map<string, string>();
    const paid = new Set<string>();
    const left = new Map<string, number>(Object.entries(start));
    for (let index = random.below(30); index > 0; index -= 1) {
      const requested = randomWrite(random, index);
      const { accountId, idempotency } = requested;
      const decision = decideStoreWrite(requested, ledger, NOW);
      if (decision.kind === "accepted") {
        const before = left.get(accountId) ?? 0;
        left.set(accountId, before - decision.costCents);
        t.is(decision.balanceCents, before - decision.costCents);
        t.true(decision.createdAt > (times.get(accountId) ?? ""));
        times.set(accountId, decision.createdAt);
      }
      const key = idempotency && responseKey({ ...requested, ...idempotency });
      if (key !== null) {
        t.false(decision.kind === "accepted" && paid.has(key));
        t.false(decision.kind === "replayed" && !paid.has(key));
        if (decision.kind === "accepted") {
          paid.add(key);
        }
      }
    }
    t.true([...left.values()].every((cents) => cents >= 0));
    t.deepEqual(
      [...ledger.balances].map(([id, { balanceCents }]) => [id, balanceCents]),
      [...left],
    );
  }
});
