import test from "ava";
import { DomainError } from "../../domain/errors.ts";
import { answerName, decideBatch } from "../../domain/stores/storeWrites.ts";
import type { Funds, StoreDecision, StoreImpact } from "../../domain/stores/storeWrites.ts";
import { createRandom } from "../support/random.ts";
import type { Random } from "../support/random.ts";

const prices = { tree: 50, bottle: 7 };

const write = (given: Partial<StoreImpact> & { readonly key?: string; readonly body?: string }) => {
  const { key, body = "asked", ...rest } = given;
  const impact: StoreImpact = {
    accountId: "shop",
    mode: "live",
    operation: "plant",
    kind: "tree",
    count: 1,
    idempotency: key === undefined ? null : { key, requestHash: body },
    answer: "answer",
    ...rest,
  };
  return impact;
};

const fundsOf = (...balances: readonly (readonly [string, number])[]): ReadonlyMap<string, Funds> =>
  new Map(balances.map(([accountId, balanceCents]) => [accountId, { balanceCents, prices }]));

/** What is told of a decision: the balance after it, the answer again, or the refusal. */
const tell = (decision: StoreDecision<StoreImpact>): string => {
  switch (decision.kind) {
    case "accepted":
      return `accepted, ${decision.costCents} at ${decision.unitPriceCents}, ${decision.balanceCents} left`;
    case "replayed":
      return `${decision.answer.replayed ? "again" : "anew"}: ${decision.answer.answer}`;
    case "refused":
      return `${decision.error.code}: ${decision.error.message}`;
  }
};

const REUSED = "request_invalid: Idempotency-Key: was used before with another request body";
const exhausted = (needed: string, left: string): string =>
  `balance_insufficient: top-up balance exhausted: ${needed} USD needed, ${left} USD left`;

const decides = test.macro({
  exec: (
    t,
    {
      balanceCents,
      batch,
      kept = [],
    }: {
      readonly balanceCents: number;
      readonly batch: readonly StoreImpact[];
      readonly kept?: readonly (readonly [string, string])[];
    },
    expected: readonly string[],
  ) => {
    const funds = fundsOf(["shop", balanceCents], ["other", 50]);
    const answers = new Map(
      kept.map(([key, requestHash]) => [
        answerName({ accountId: "shop", mode: "live", operation: "plant", key }),
        { requestHash, answer: "first answer" },
      ]),
    );
    const before = structuredClone({ funds, answers });

    t.deepEqual(decideBatch(batch, funds, answers).map(tell), expected);
    t.deepEqual({ funds, answers }, before);
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
  "a cent too little is refused with what it lacks",
  decides,
  { balanceCents: 99, batch: [write({ count: 2 })] },
  [exhausted("1.00", "0.99")],
);
test(
  "a refused write leaves the balance to those after it",
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
  "a test write costs nothing, whatever is left",
  decides,
  { balanceCents: 0, batch: [write({ mode: "test", count: 1000 }), write({})] },
  ["accepted, 0 at 0, 0 left", exhausted("0.50", "0.00")],
);
test(
  "no balance is enough for the largest count",
  decides,
  {
    balanceCents: Number.MAX_SAFE_INTEGER,
    batch: [write({ kind: "bottle", count: Number.MAX_SAFE_INTEGER }), write({})],
  },
  [
    exhausted(
      `${String(Number.MAX_SAFE_INTEGER * 7).slice(0, -2)}.${String(Number.MAX_SAFE_INTEGER * 7).slice(-2)}`,
      "90071992547409.91",
    ),
    `accepted, 50 at 50, ${Number.MAX_SAFE_INTEGER - 50} left`,
  ],
);
test(
  "accounts have each their own balance",
  decides,
  { balanceCents: 50, batch: [write({}), write({ accountId: "other" }), write({})] },
  ["accepted, 50 at 50, 0 left", "accepted, 50 at 50, 0 left", exhausted("0.50", "0.00")],
);
test(
  "a key that is on record gets its answer again and costs nothing",
  decides,
  { balanceCents: 0, kept: [["a", "asked"]], batch: [write({ key: "a", answer: "new" })] },
  ["again: first answer"],
);
test(
  "a key that is on record with something else is refused",
  decides,
  { balanceCents: 50, kept: [["a", "other"]], batch: [write({ key: "a" }), write({})] },
  [REUSED, "accepted, 50 at 50, 0 left"],
);
test(
  "a key that comes twice gets the first one's answer and pays once",
  decides,
  {
    balanceCents: 60,
    batch: [write({ key: "a", answer: "one" }), write({ key: "a", answer: "two" })],
  },
  ["accepted, 50 at 50, 10 left", "again: one"],
);
test(
  "a key that comes twice with something else is refused the second time and keeps its answer",
  decides,
  {
    balanceCents: 60,
    batch: [
      write({ key: "a", answer: "one" }),
      write({ key: "a", body: "other" }),
      write({ key: "a" }),
    ],
  },
  ["accepted, 50 at 50, 10 left", REUSED, "again: one"],
);
test(
  "a key whose write was refused may be used again, with something else too",
  decides,
  {
    balanceCents: 50,
    batch: [write({ key: "a", count: 2 }), write({ key: "a", body: "less" }), write({ key: "a" })],
  },
  [exhausted("1.00", "0.50"), "accepted, 50 at 50, 0 left", REUSED],
);
test(
  "a key is another one in another account, mode or operation",
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
  "writes without a key are never repeats, nor is an empty key",
  decides,
  { balanceCents: 200, batch: [write({}), write({}), write({ key: "" }), write({ key: "" })] },
  [
    "accepted, 50 at 50, 150 left",
    "accepted, 50 at 50, 100 left",
    "accepted, 50 at 50, 50 left",
    "again: answer",
  ],
);

test("an account without a balance is a fault and no refusal", (t) => {
  const error = t.throws(() => decideBatch([write({})], fundsOf(["other", 50]), new Map()));
  t.false(error instanceof DomainError);
  t.is(error?.message, "Account shop has no balance.");
});

const randomWrite = (random: Random, index: number): StoreImpact => {
  const kind = random.pick(["tree", "bottle"] as const);
  return write({
    accountId: random.pick(["shop", "other", "third"]),
    mode: random.pick(["live", "live", "test"] as const),
    kind,
    operation: kind === "tree" ? "plant" : "plastic",
    count: 1 + random.below(4),
    answer: `answer ${index}`,
    ...random.pick([{}, { key: "a" }, { key: "b" }, { key: "b", body: "other" }]),
  });
};

for (const seed of [1, 2, 3]) {
  test(`a batch is decided as if each write had come alone (seed ${seed})`, (t) => {
    const random = createRandom(seed);
    const kinds = new Set<string>();
    for (let round = 0; round < 300; round += 1) {
      const batch = Array.from({ length: random.below(30) }, (_, index) =>
        randomWrite(random, index),
      );
      const start = fundsOf(
        ["shop", random.below(600)],
        ["other", random.below(600)],
        ["third", 0],
      );

      const funds = new Map(start);
      const answers = new Map<string, { requestHash: string; answer: string }>();
      const alone = batch.flatMap((impact) => {
        const decisions = decideBatch([impact], funds, answers);
        for (const decision of decisions) {
          kinds.add(decision.kind);
          if (decision.kind === "accepted") {
            const { accountId, idempotency, answer } = impact;
            funds.set(accountId, { prices, balanceCents: decision.balanceCents });
            if (idempotency) {
              const { key, requestHash } = idempotency;
              answers.set(answerName({ ...impact, key }), { requestHash, answer });
            }
          }
        }
        return decisions;
      });

      t.deepEqual(decideBatch(batch, start, new Map()).map(tell), alone.map(tell));
      t.true([...funds.values()].every(({ balanceCents }) => balanceCents >= 0));
    }
    t.deepEqual([...kinds].toSorted(), ["accepted", "refused", "replayed"]);
  });
}
