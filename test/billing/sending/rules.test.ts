import { readFile } from "node:fs/promises";
import test from "ava";
import {
  decideNextStep,
  decideResult,
  stateAtSealing,
} from "../../../modules/billing/sending/decideNextStep.rules.ts";
import type { AttemptOutcome } from "../../../modules/billing/sending/decideNextStep.rules.ts";
import {
  decideRetry,
  isClosedAlready,
} from "../../../modules/billing/reconciliation/repairUsage.rules.ts";
import { decideLateRefusal } from "../../../modules/billing/processorEvents/processorEvents.rules.ts";
import { DomainError } from "../../../runtime/errors.rules.ts";
import { FAILURES, METER_EVENT_STATES } from "../../../modules/billing/meterEvents.rules.ts";
import type { MeterEventState } from "../../../modules/billing/meterEvents.rules.ts";
import { lastSealableSecond, PROCESSORS } from "../../../modules/billing/usage.rules.ts";
import { createCallRate } from "../../../modules/billing/sending/createCallRate.ts";
import { SEALED } from "../meterEvent.ts";

const NOW = new Date("2026-05-15T12:00:00Z");
const DAY_MS = 24 * 60 * 60 * 1000;

const before = (ms: number): Date => new Date(NOW.getTime() - ms);

const OUTCOMES: readonly AttemptOutcome[] = [
  { kind: "delivered" },
  { kind: "duplicate", reason: "" },
  { kind: "conflict", reason: "" },
  { kind: "retry", reason: "", outcomeUnknown: true },
  { kind: "rejected", reason: "" },
  { kind: "misconfigured", reason: "" },
];

const BOOLEANS = [false, true];

const statesAtSealing = (): readonly MeterEventState[] =>
  [0, 5].flatMap((quantity) =>
    PROCESSORS.flatMap((processor) =>
      [null, "1"].flatMap((waitsFor) =>
        BOOLEANS.map(
          (isUsageClosed) => stateAtSealing({ quantity, processor, waitsFor, isUsageClosed }).state,
        ),
      ),
    ),
  );

/** Every state that an attempt can leave an event in, for all ages and outcomes. */
const statesAfterAttempts = (): readonly MeterEventState[] =>
  BOOLEANS.flatMap((mayBeDelivered) =>
    [null, NOW].flatMap((askingSince) =>
      [0, 40 * DAY_MS].flatMap((ageMs) => {
        const event = {
          ...SEALED,
          second: before(ageMs).getTime() / 1000,
          attempts: 1,
          firstAttemptAt: before(DAY_MS),
          mayBeDelivered,
          askingSince,
        };
        return [
          decideNextStep(event, NOW),
          ...OUTCOMES.map((outcome) => decideResult(event, outcome)),
        ].map((step) => (step.kind === "settled" ? step.state : "pending"));
      }),
    ),
  );

/** Returns what `decide` decides, or nothing if it refuses to. */
const unlessRefused = <Decision>(decide: () => Decision): readonly Decision[] => {
  try {
    return [decide()];
  } catch (error) {
    if (error instanceof DomainError) {
      return [];
    }
    throw error;
  }
};

/** Every state that a retry can move an event to. */
const statesAfterRetry = (state: MeterEventState): readonly MeterEventState[] =>
  FAILURES.flatMap((failure) =>
    BOOLEANS.flatMap((mayBeDelivered) =>
      ([null, "delivered", "absent"] as const)
        .flatMap((answer) =>
          unlessRefused(() =>
            decideRetry({ ...SEALED, state, failure, mayBeDelivered }, null, answer),
          ),
        )
        .map((retry) => (retry === "record" ? "delivered" : "pending")),
    ),
  );

/** Every state that a refusal after acceptance can move an event to. */
const statesAfterLateRefusal = (state: MeterEventState): readonly MeterEventState[] =>
  [null, "ii_1"]
    .map((documentReference) =>
      decideLateRefusal({ ...SEALED, state, firstAttemptAt: NOW, documentReference }, NOW),
    )
    .filter((next) => next !== null && next !== "wait");

/** The state that closing moves an event to. Late usage stays delivered. */
const statesAfterClosing = (state: MeterEventState): readonly MeterEventState[] =>
  unlessRefused(() => isClosedAlready({ ...SEALED, state }, null)).flatMap((isClosed) =>
    isClosed ? [] : (["closed"] as const),
  );

const transitionsOfTheCode = (): ReadonlySet<string> =>
  new Set([
    ...statesAtSealing().map((state) => `[*] --> ${state}`),
    ...[
      ...statesAfterAttempts().map((next) => ["pending", next]),
      ...METER_EVENT_STATES.flatMap((state) =>
        [
          ...statesAfterRetry(state),
          ...statesAfterLateRefusal(state),
          ...statesAfterClosing(state),
        ].map((next) => [state, next]),
      ),
      // The processor's sums: it has the event, it lacks it, or they do not show which. A failed one is found there, too.
      ["pending", "delivered"],
      ["pending", "failed"],
      ["failed", "delivered"],
      // The usage of a refund is delivered.
      ["failed", "pending"],
    ].flatMap(([from, to]) => (from === to ? [] : [`${from} --> ${to}`])),
  ]);

/** The arrows of the state diagram without their labels. One to or from a group of states stands for each of them. */
const readDiagram = async () => {
  const page = await readFile(new URL("../../../docs/billing.md", import.meta.url), "utf8");
  const body = /```mermaid\nstateDiagram-v2\n(?<body>[^`]*)```/u.exec(page)?.groups?.["body"] ?? "";
  const groups = new Map(
    Array.from(body.matchAll(/state (\w+) \{([^}]*)\}/gu), ([, name = "", members = ""]) => [
      name,
      METER_EVENT_STATES.filter((state) => members.includes(state)),
    ]),
  );
  const arrows = Array.from(body.matchAll(/(\S+) --> (\w+)/gu), ([, from = "", to = ""]) => ({
    from,
    to,
  }));
  const membersOf = (name: string): readonly string[] => groups.get(name) ?? [name];
  const transitions = arrows.flatMap(({ from, to }) =>
    membersOf(from).flatMap((state) => membersOf(to).map((next) => `${state} --> ${next}`)),
  );
  return { arrows, transitions };
};

test("the state diagram in docs/billing.md has exactly the transitions of the code, in at most ten arrows", async (t) => {
  const { arrows, transitions } = await readDiagram();

  t.deepEqual(transitions.toSorted(), [...transitionsOfTheCode()].toSorted());
  t.true(arrows.length <= 10);
});

test("a late refusal of a history that was lost does not concern an event that was sent later", (t) => {
  const decide = (firstAttemptAt: Date) =>
    decideLateRefusal({ ...SEALED, state: "delivered", firstAttemptAt }, NOW);

  t.is(decide(new Date(NOW.getTime() + 5 * 60_000)), "failed");
  t.is(decide(new Date(NOW.getTime() + 5 * 60_000 + 1)), null);
});

const SECOND = 1_800_000_000;

test("a second may be sealed two seconds after its end, not a millisecond earlier", (t) => {
  t.is(lastSealableSecond(new Date(SECOND * 1000 - 1)), SECOND - 4);
  t.is(lastSealableSecond(new Date(SECOND * 1000)), SECOND - 3);
  t.is(lastSealableSecond(new Date(SECOND * 1000 + 999)), SECOND - 3);
  t.is(lastSealableSecond(new Date(SECOND * 1000 + 1000)), SECOND - 2);
});

/** A rate whose clock the test advances, in seconds. */
const rateOf = (maximum: number, maximumRunning = Infinity) => {
  let nowMs = 0;
  const rate = createCallRate(maximum, maximumRunning, () => nowMs);
  return {
    ...rate,
    /** Returns how many of the calls begin now. The others give up. */
    begin: async (wanted: number): Promise<number> => {
      const calls = Array.from({ length: wanted }, () => rate.take());
      rate.end();
      return (await Promise.all(calls)).filter(Boolean).length;
    },
    pass: (seconds: number) => {
      nowMs += seconds * 1000;
    },
  };
};

const isAbout = (calls: number, expected: number): boolean => Math.abs(calls - expected) <= 2;

test("calls begin at the rate, those of 0.4 seconds together, and one even at the lowest rate", async (t) => {
  const { begin, pass } = rateOf(10);
  t.is(await begin(100), 4);
  t.is(await begin(1), 0);
  pass(0.1);
  t.is(await begin(100), 1);
  pass(10);
  t.is(await begin(100), 4);
  t.is(await rateOf(0.25).begin(10), 1);
});

test("a call that was not made gives its share of the rate back, and one that goes on keeps its place", async (t) => {
  const { begin, giveBack, pass } = rateOf(10, 5);
  t.is(await begin(9), 4);
  giveBack(false);
  t.is(await begin(9), 1);
  pass(1);
  t.is(await begin(9), 1);
  pass(1);
  t.is(await begin(9), 0);
  giveBack(true);
  t.is(await begin(9), 1);
});

test("a rejected call lowers the rate every 1.5 seconds at most, which rises by a tenth a second up to the maximum", async (t) => {
  const { begin, lower, pass } = rateOf(1000);
  lower();
  lower();
  t.true(isAbout(await begin(5000), 280));
  pass(1);
  t.true(isAbout(await begin(5000), 308));
  lower();
  pass(60);
  t.true(isAbout(await begin(5000), 400));
  for (let round = 0; round < 100; round += 1) {
    lower();
    pass(1.5);
  }
  t.true((await begin(5000)) >= 1);
});
