import test from "ava";
import type { StoredFact } from "../../../modules/planting/facts.sql.ts";
import {
  decideFact,
  decideFacts,
  latestStage,
  PLANTING_STAGES,
} from "../../../modules/planting/order.rules.ts";
import type {
  FactDecision,
  PlantingStage,
  ReachedStage,
} from "../../../modules/planting/order.rules.ts";

const DAY_MS = 24 * 60 * 60 * 1000;
const START_MS = Date.UTC(2026, 4, 1);

const fact = (stage: PlantingStage, afterMs = 0): ReachedStage => ({
  stage,
  occurredAt: new Date(START_MS + afterMs),
});

const accepted = { state: "accepted", reason: null } as const;
const waiting = { state: "waiting", reason: null } as const;
const distributed = fact("funds_distributed");
const allocated = fact("allocated");
const planted = fact("planted");
const verified = fact("planted_and_verified");

for (const [timeline, stage, needed] of [
  ["allocations", "funds_distributed", []],
  ["sessions", "funds_distributed", []],
  ["allocations", "allocated", ["funds_distributed"]],
  ["allocations", "planted", ["funds_distributed", "allocated"]],
  ["allocations", "planted_and_verified", ["funds_distributed", "allocated"]],
  ["sessions", "allocated", ["funds_distributed"]],
  ["sessions", "planted", ["funds_distributed", "allocated"]],
  ["sessions", "planted_and_verified", ["funds_distributed"]],
] as const) {
  const others = PLANTING_STAGES.filter((other) => other !== stage);
  const reachedBy = (stages: readonly PlantingStage[]) => stages.map((other) => fact(other));
  test(`${stage} of ${timeline} requires ${needed.join(" and ") || "nothing"}, and nothing else`, (t) => {
    t.deepEqual(decideFact(timeline, reachedBy(needed), fact(stage)), accepted);
    for (const missing of needed) {
      const reached = reachedBy(others.filter((other) => other !== missing));
      t.deepEqual(decideFact(timeline, reached, fact(stage)), waiting, missing);
    }
  });
}

const contradicts = (reason: string): FactDecision => ({ state: "contradiction", reason });
const isDated = (stage: string, date: string, other: string, otherDate: string): FactDecision =>
  contradicts(`${stage} is dated ${date}, but ${other} ${otherDate}`);

for (const [title, reached, given, expected] of [
  [
    "different details at the same time are a contradiction",
    [distributed, allocated],
    fact("allocated"),
    contradicts("allocated is already recorded with different details"),
  ],
  [
    "different details are reported before missing stages and wrong dates",
    [planted],
    fact("planted", -9 * DAY_MS),
    contradicts("planted is already recorded with different details"),
  ],
  [
    "a fact without an earlier stage waits, even if its date is wrong",
    [distributed],
    fact("planted", -9 * DAY_MS),
    waiting,
  ],
  [
    "a day before an earlier stage is tolerated",
    [distributed],
    fact("allocated", -DAY_MS),
    accepted,
  ],
  [
    "a day and a millisecond before an earlier stage is a contradiction",
    [distributed],
    fact("allocated", -DAY_MS - 1),
    isDated(
      "allocated",
      "2026-04-29T23:59:59.999Z",
      "funds_distributed",
      "2026-05-01T00:00:00.000Z",
    ),
  ],
  [
    "a day after a later stage is tolerated",
    [distributed, allocated, verified],
    fact("planted", DAY_MS),
    accepted,
  ],
  [
    "a day and a millisecond after a later stage is a contradiction",
    [distributed, allocated, verified],
    fact("planted", DAY_MS + 1),
    isDated(
      "planted",
      "2026-05-02T00:00:00.001Z",
      "planted_and_verified",
      "2026-05-01T00:00:00.000Z",
    ),
  ],
  [
    "years after an earlier stage and before a later one are accepted",
    [distributed, allocated, fact("planted_and_verified", 2000 * DAY_MS)],
    fact("planted", 1000 * DAY_MS),
    accepted,
  ],
  [
    "a date is compared with every earlier stage, not only the last",
    [fact("funds_distributed", 5 * DAY_MS), fact("allocated", 4 * DAY_MS)],
    fact("planted", 3.5 * DAY_MS),
    isDated("planted", "2026-05-04T12:00:00.000Z", "funds_distributed", "2026-05-06T00:00:00.000Z"),
  ],
] as const satisfies readonly (readonly [
  string,
  readonly ReachedStage[],
  ReachedStage,
  FactDecision,
])[]) {
  test(title, (t) => {
    t.deepEqual(decideFact("allocations", reached, given), expected);
    t.deepEqual(decideFact("allocations", reached.toReversed(), given), expected);
  });
}

const permute = <Item>(items: readonly Item[]): readonly (readonly Item[])[] =>
  items.length === 0
    ? [[]]
    : items.flatMap((item) =>
        permute(items.filter((other) => other !== item)).map((rest) => [item].concat(rest)),
      );

let lastId = 0;
const inState = (state: StoredFact["state"], given: ReachedStage) => ({
  ...given,
  state,
  id: (lastId += 1),
});

for (const [timeline, stages] of [
  ["allocations", PLANTING_STAGES],
  ["sessions", PLANTING_STAGES],
  ["sessions", ["funds_distributed", "planted_and_verified"]],
] as const) {
  test(`${stages.length} facts of ${timeline} all take effect, in whatever order they came`, (t) => {
    for (const given of permute(stages.map((stage, index) => fact(stage, index * DAY_MS)))) {
      const facts = given.map((each) => inState("waiting", each));
      const states = [...decideFacts(timeline, facts).values()];
      t.deepEqual(
        states,
        stages.map(() => accepted),
      );
    }
  });
}

const later = fact("allocated", 5 * DAY_MS);

for (const [title, facts, expected] of [
  [
    "a fact in effect stays, whatever contradicts it",
    [
      inState("contradiction", later),
      inState("accepted", distributed),
      inState("accepted", allocated),
    ],
    ["contradiction", "accepted", "accepted"],
  ],
  [
    "facts in effect wait when one that they need is missing",
    [inState("accepted", distributed), inState("accepted", planted), inState("accepted", verified)],
    ["accepted", "waiting", "waiting"],
  ],
  [
    "the latest contradiction takes effect when the fact is withdrawn, and those that it contradicts do not",
    [
      inState("accepted", distributed),
      inState("accepted", planted),
      inState("withdrawn", allocated),
      inState("contradiction", fact("allocated", DAY_MS)),
      inState("contradiction", later),
    ],
    ["accepted", "contradiction", undefined, "contradiction", "accepted"],
  ],
] as const) {
  test(title, (t) => {
    const decided = decideFacts("allocations", facts);
    t.deepEqual(
      facts.map(({ id }) => decided.get(id)?.state),
      expected,
    );
  });
}

test("the latest stage is the furthest one, in any order", (t) => {
  t.is(latestStage([]), "created");
  PLANTING_STAGES.forEach((stage, index) => {
    const reached = PLANTING_STAGES.slice(0, index + 1);
    t.is(latestStage(reached), stage);
    t.is(latestStage(reached.toReversed()), stage);
    t.is(latestStage([stage]), stage);
  });
});
