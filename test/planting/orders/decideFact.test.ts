import test from "ava";
import { decideFact, latestStage, PLANTING_STAGES } from "../../../domain/planting/order.ts";
import type {
  FactDecision,
  PlantingStage,
  ReachedStage,
  TimelineShape,
} from "../../../domain/planting/order.ts";

const DAY_MS = 24 * 60 * 60 * 1000;
const START_MS = Date.UTC(2026, 4, 1);

const fact = (stage: PlantingStage, afterMs = 0, digest = `${stage}/${afterMs}`): ReachedStage => ({
  stage,
  occurredAt: new Date(START_MS + afterMs),
  digest,
});

const decides = test.macro({
  exec: (
    t,
    timeline: TimelineShape,
    reached: readonly ReachedStage[],
    given: ReachedStage,
    expected: FactDecision,
  ) => {
    t.deepEqual(decideFact(timeline, reached, given), expected);
    t.deepEqual(decideFact(timeline, reached.toReversed(), given), expected);
  },
  title: (title = "") => title,
});

const accepted = { state: "accepted" } as const;
const waiting = { state: "waiting" } as const;
const distributed = fact("funds_distributed");
const allocated = fact("allocated");
const planted = fact("planted");
const verified = fact("planted_and_verified");

test(
  "an order's first fact is that it has the funds",
  decides,
  "allocations",
  [],
  distributed,
  accepted,
);
test("so it is for partners with sessions", decides, "sessions", [], distributed, accepted);

for (const [timeline, stage, needed] of [
  ["allocations", "allocated", ["funds_distributed"]],
  ["allocations", "planted", ["funds_distributed", "allocated"]],
  ["allocations", "planted_and_verified", ["funds_distributed", "allocated"]],
  ["sessions", "allocated", ["funds_distributed"]],
  ["sessions", "planted", ["funds_distributed", "allocated"]],
  ["sessions", "planted_and_verified", ["funds_distributed"]],
] as const) {
  const others = PLANTING_STAGES.filter((other) => other !== stage);
  const reachedBy = (stages: readonly PlantingStage[]) => stages.map((other) => fact(other));
  test(`${stage} of ${timeline} takes ${needed.join(" and ")}, and nothing else`, (t) => {
    t.deepEqual(decideFact(timeline, reachedBy(needed), fact(stage)), accepted);
    for (const missing of needed) {
      const reached = reachedBy(others.filter((other) => other !== missing));
      t.deepEqual(decideFact(timeline, reached, fact(stage)), waiting, missing);
    }
  });
}

test(
  "a fact that is on record is repeated, whatever it now lacks",
  decides,
  "allocations",
  [planted],
  planted,
  { state: "repeated" },
);
test(
  "the same instant with other details contradicts",
  decides,
  "allocations",
  [distributed, allocated],
  fact("allocated", 0, "other"),
  { state: "contradiction", reason: "allocated is already recorded with different details" },
);
test(
  "other details contradict before anything is missing or dated wrongly",
  decides,
  "allocations",
  [planted],
  fact("planted", -9 * DAY_MS),
  { state: "contradiction", reason: "planted is already recorded with different details" },
);
test(
  "what lacks an earlier stage waits, however wrongly it is dated",
  decides,
  "allocations",
  [distributed],
  fact("planted", -9 * DAY_MS),
  waiting,
);
test(
  "a day before an earlier stage says nothing",
  decides,
  "allocations",
  [distributed],
  fact("allocated", -DAY_MS),
  accepted,
);
test(
  "a millisecond more contradicts",
  decides,
  "allocations",
  [distributed],
  fact("allocated", -DAY_MS - 1),
  {
    state: "contradiction",
    reason:
      "allocated is dated 2026-04-29T23:59:59.999Z, but funds_distributed 2026-05-01T00:00:00.000Z",
  },
);
test(
  "a day after a later stage says nothing",
  decides,
  "allocations",
  [distributed, allocated, verified],
  fact("planted", DAY_MS),
  accepted,
);
test(
  "a millisecond later contradicts",
  decides,
  "allocations",
  [distributed, allocated, verified],
  fact("planted", DAY_MS + 1),
  {
    state: "contradiction",
    reason:
      "planted is dated 2026-05-02T00:00:00.001Z, but planted_and_verified 2026-05-01T00:00:00.000Z",
  },
);
test(
  "years after an earlier stage and before a later one are as good",
  decides,
  "allocations",
  [distributed, allocated, fact("planted_and_verified", 2000 * DAY_MS)],
  fact("planted", 1000 * DAY_MS),
  accepted,
);
test(
  "every earlier stage counts, not the last one alone",
  decides,
  "allocations",
  [fact("funds_distributed", 5 * DAY_MS), fact("allocated", 4 * DAY_MS)],
  fact("planted", 3.5 * DAY_MS),
  {
    state: "contradiction",
    reason:
      "planted is dated 2026-05-04T12:00:00.000Z, but funds_distributed 2026-05-06T00:00:00.000Z",
  },
);

const permute = <Item>(items: readonly Item[]): readonly (readonly Item[])[] =>
  items.length === 0
    ? [[]]
    : items.flatMap((item) =>
        permute(items.filter((other) => other !== item)).map((rest) => [item].concat(rest)),
      );

/** Takes facts as they come; whenever one takes effect those that wait are looked at again. */
const takeAll = (timeline: TimelineShape, facts: readonly ReachedStage[]) => {
  const reached: ReachedStage[] = [];
  const waits: ReachedStage[] = [];
  const take = (given: ReachedStage): void => {
    const { state } = decideFact(timeline, reached, given);
    if (state === "waiting") {
      waits.push(given);
    } else if (state === "accepted") {
      reached.push(given);
      for (const again of waits.splice(0)) {
        take(again);
      }
    }
  };
  for (const given of facts) {
    take(given);
  }
  return { reached, waits };
};

for (const [timeline, stages] of [
  ["allocations", PLANTING_STAGES],
  ["sessions", PLANTING_STAGES],
  ["sessions", ["funds_distributed", "planted_and_verified"]],
] as const) {
  test(`${stages.length} facts of ${timeline} end the same in every order, each told twice`, (t) => {
    for (const facts of permute(stages.map((stage, index) => fact(stage, index * DAY_MS)))) {
      const { reached, waits } = takeAll(timeline, [...facts, ...facts]);
      t.deepEqual(waits, []);
      t.is(reached.length, stages.length);
      t.is(latestStage(reached.map(({ stage }) => stage)), "planted_and_verified");
    }
  });
}

test("the latest stage is the furthest of them, in whatever order they are told", (t) => {
  t.is(latestStage([]), "created");
  PLANTING_STAGES.forEach((stage, index) => {
    const reached = PLANTING_STAGES.slice(0, index + 1);
    t.is(latestStage(reached), stage);
    t.is(latestStage(reached.toReversed()), stage);
    t.is(latestStage([stage]), stage);
  });
});
