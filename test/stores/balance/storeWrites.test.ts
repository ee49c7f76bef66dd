import test from "ava";
import { DomainError } from "../../../runtime/errors.rules.ts";
import { decideStoreWrite, isNew, responseKey } from "../../../modules/stores/storeWrites.rules.ts";
import type {
  StoreLedger,
  StoreRegistrationWrite,
} from "../../../modules/stores/storeWrites.rules.ts";
import { createRandom } from "../../support/random.ts";
import type { Random } from "../../support/random.ts";
import { plantingOf } from "./storeWriteScene.ts";

const STORE = {
  treePriceCents: 50,
  bottlePriceCents: 7,
  treePlanting: true,
  plasticRemoval: true,
  donations: true,
  lastRecordUs: 0,
};

const write = ({
  accountId = "shop",
  key,
  body = "asked",
  ...given
}: Partial<StoreRegistrationWrite> & { readonly key?: string; readonly body?: string }) =>
  plantingOf(accountId, { ...given, ...(key === undefined ? {} : { key, requestHash: body }) });

const balancesOf = (cents: Readonly<Record<string, number>>): StoreLedger["balances"] =>
  new Map(Object.entries(cents).map(([id, balanceCents]) => [id, { ...STORE, balanceCents }]));

const ledgerOf = (balances: StoreLedger["balances"]): StoreLedger => ({
  balances,
  responses: new Map(),
  limits: new Map(),
  refusals: [],
});

const NOW = new Date("2026-01-01T00:00:00Z");

const describeOutcome = (outcome: ReturnType<typeof decideStoreWrite>): string => {
  if (outcome instanceof DomainError) {
    return `${outcome.code}: ${outcome.message}`;
  }
  return isNew(outcome)
    ? `accepted for ${-outcome.amountCents}, ${outcome.balanceCents} left`
    : `replayed: ${outcome.responseBody}`;
};

const exhausted = (needed: string, left: string): string =>
  `balance_insufficient: top-up balance exhausted: $${needed} needed, $${left} left`;

type Case = readonly [
  title: string,
  balanceCents: number,
  batch: readonly StoreRegistrationWrite[],
  expected: readonly string[],
];

const CASES: readonly Case[] = [
  [
    "a rejected write leaves the balance for later writes",
    99,
    [write({ count: 2 }), write({}), write({})],
    [exhausted("1.00", "0.99"), "accepted for 50, 49 left", exhausted("0.50", "0.49")],
  ],
  [
    "no balance covers the largest count",
    Number.MAX_SAFE_INTEGER,
    [write({ kind: "bottle", count: Number.MAX_SAFE_INTEGER }), write({})],
    [
      exhausted("630,503,947,831,869.37", "90,071,992,547,409.91"),
      `accepted for 50, ${Number.MAX_SAFE_INTEGER - 50} left`,
    ],
  ],
  [
    "keys are scoped to account, mode and operation",
    57,
    [
      write({ key: "a" }),
      write({ key: "a", accountId: "other" }),
      write({ key: "a", mode: "test" }),
      write({ key: "a", operation: "plastic", kind: "bottle" }),
    ],
    [
      "accepted for 50, 7 left",
      "accepted for 50, 0 left",
      "accepted for 0, 7 left",
      "accepted for 7, 0 left",
    ],
  ],
];

for (const [title, balanceCents, batch, expected] of CASES) {
  test(title, (t) => {
    const ledger = ledgerOf(balancesOf({ shop: balanceCents, other: 50 }));

    const outcomes = batch.map((requested) => decideStoreWrite(requested, ledger, NOW));

    t.deepEqual(outcomes.map(describeOutcome), expected);
  });
}

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
      const outcome = decideStoreWrite(requested, ledger, NOW);
      const isAccepted = isNew(outcome);
      if (isNew(outcome)) {
        const before = left.get(accountId) ?? 0;
        left.set(accountId, before + outcome.amountCents);
        t.is(outcome.balanceCents, before + outcome.amountCents);
        t.true(outcome.createdAt > (times.get(accountId) ?? ""));
        times.set(accountId, outcome.createdAt);
      }
      const key = idempotency && responseKey({ ...requested, ...idempotency });
      if (key !== null) {
        t.false(isAccepted && paid.has(key));
        t.false(!isAccepted && !(outcome instanceof DomainError) && !paid.has(key));
        if (isAccepted) {
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
