import { readFile } from "node:fs/promises";
import test from "ava";
import {
  decideNextStep,
  withoutProcessor,
} from "../../../modules/billing/sending/decideNextStep.rules.ts";
import type {
  AttemptOutcome,
  NextStep,
} from "../../../modules/billing/sending/decideNextStep.rules.ts";
import {
  decideReopenAfterCheck,
  decideRetry,
  decideRetryAfterCheck,
  requireDelivered,
} from "../../../modules/billing/reconciliation/decideRetry.rules.ts";
import { decideLateRejection } from "../../../modules/billing/processorEvents/processorEvents.rules.ts";
import { DomainError } from "../../../runtime/errors.rules.ts";
import {
  isFailed,
  METER_EVENT_STATES,
  stateAtSealing,
} from "../../../modules/billing/meterEvents.rules.ts";
import type { MeterEventState } from "../../../modules/billing/meterEvents.rules.ts";
import {
  lastSealableSecond,
  MAXIMUM_QUANTITY,
  meterEventIdentifierStem,
  minuteOf,
} from "../../../modules/billing/usage.rules.ts";
import { secondOf } from "../../../runtime/durations.rules.ts";
import {
  currentCallsPerSecond,
  lowerCallRate,
  reserveCalls,
} from "../../../modules/billing/sending/callRate.rules.ts";

const NOW = new Date("2026-05-15T12:00:00Z");
const NEVER_HELD = { isHeld: false, releasedAt: null };
const DAY_MS = 24 * 60 * 60 * 1000;

const before = (ms: number): Date => new Date(NOW.getTime() - ms);

const OUTCOMES: readonly AttemptOutcome[] = [
  { kind: "delivered" },
  { kind: "duplicate", reason: "" },
  { kind: "conflict", reason: "" },
  { kind: "absent" },
  { kind: "partial", acceptedQuantity: 1 },
  { kind: "retry", reason: "", outcomeUnknown: true },
  { kind: "rejected", reason: "" },
  { kind: "misconfigured", reason: "" },
  { kind: "early", reason: "", afterMs: 1 },
  { kind: "unclear", reason: "" },
];

const stateAfter = (step: NextStep): MeterEventState =>
  step.kind === "settled" ? step.state : "sending";

/** Every state that an attempt can leave an event in, for all ages and outcomes. */
const statesAfterAttempts = (): readonly MeterEventState[] =>
  [false, true].flatMap((outcomeUnknown) =>
    [null, NOW].flatMap((inDoubtSince) =>
      [0, 40 * DAY_MS].flatMap((ageMs) => {
        const event = {
          processor: "stripe" as const,
          second: before(ageMs).getTime() / 1000,
          attempts: 1,
          firstAttemptAt: before(DAY_MS),
          outcomeUnknown,
          inDoubtSince,
        };
        return [
          withoutProcessor(event),
          ...[null, ...OUTCOMES].map((outcome) => decideNextStep(event, outcome, NOW)),
        ].map(stateAfter);
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

/** Every state that a retry can move an event to. A rejected event never has an unknown outcome. */
const statesAfterRetry = (state: MeterEventState): readonly MeterEventState[] =>
  (state === "rejected" ? [false] : [false, true]).flatMap((outcomeUnknown) => {
    const event = { id: 1n, state, outcomeUnknown };
    return ([null, "delivered", "absent"] as const)
      .flatMap((assumed) => unlessRefused(() => decideRetry(event, assumed)))
      .flatMap((decision) =>
        decision === "check"
          ? OUTCOMES.flatMap((outcome) =>
              unlessRefused(() => decideRetryAfterCheck(event, outcome, null)),
            )
          : [decision],
      )
      .map(({ state: next }) => next);
  });

/** Every state that a rejection after acceptance can move an event to. */
const statesAfterLateRejection = (state: MeterEventState): readonly MeterEventState[] =>
  [null, "ii_1"]
    .flatMap((settlementReference) =>
      [false, true].map((outcomeUnknown) =>
        decideLateRejection(
          { state, outcomeUnknown, sealedAt: NOW, settlementReference },
          NEVER_HELD,
        ),
      ),
    )
    .filter((next) => next !== null && next !== "wait");

/** Every state that reopening can move an event to. */
const statesAfterReopening = (state: MeterEventState): readonly MeterEventState[] =>
  OUTCOMES.flatMap((outcome) =>
    unlessRefused(() => {
      requireDelivered({ id: 1n, state });
      return decideReopenAfterCheck({ id: 1n }, outcome, null);
    }),
  );

const transitionsOfTheCode = (): ReadonlySet<string> =>
  new Set([
    ...[0n, 5n].flatMap((quantity) =>
      [false, true].map((held) => `[*] --> ${stateAtSealing({ held, quantity })}`),
    ),
    ...statesAfterAttempts().flatMap((state) =>
      // The first attempt moves the event to `sending`, whatever follows.
      state === "sending" ? ["sealed --> sending"] : [`sending --> ${state}`],
    ),
    ...METER_EVENT_STATES.flatMap((state) =>
      [
        ...statesAfterRetry(state),
        ...statesAfterLateRejection(state),
        ...statesAfterReopening(state),
      ].map((next) => `${state} --> ${next}`),
    ),
    ...METER_EVENT_STATES.filter(isFailed).map((state) => `${state} --> waived`),
    "held --> waived",
    // A retry of their usage, or the comparison after a restore.
    "held --> superseded",
    // The comparison after a restore.
    "[*] --> blocked",
    "sealed --> blocked",
    // The move to Stripe.
    "sealed --> superseded",
    "void --> superseded",
  ]);

/** The arrows of the state diagram, without their labels and without the ends. */
const transitionsOfTheDiagram = async (): Promise<readonly string[]> => {
  const page = await readFile(new URL("../../../docs/billing.md", import.meta.url), "utf8");
  const diagram = /```mermaid\nstateDiagram-v2\n(?<body>[^`]*)```/u.exec(page)?.groups?.["body"];
  return (diagram ?? "")
    .split("\n")
    .map((line) => line.split(":")[0]?.trim() ?? "")
    .filter((line) => line.includes("-->") && !line.endsWith("[*]"));
};

test("the state diagram in docs/billing.md has exactly the transitions of the code", async (t) => {
  const drawn = await transitionsOfTheDiagram();

  t.deepEqual(drawn.toSorted(), [...transitionsOfTheCode()].toSorted());
});

test("a late rejection of an event that was sealed before a hold ended blocks it, however late it was delivered", (t) => {
  const delivered = {
    state: "delivered",
    outcomeUnknown: false,
    settlementReference: null,
  } as const;

  const decide = (sealedAt: Date, holds: Parameters<typeof decideLateRejection>[1]) =>
    decideLateRejection({ ...delivered, sealedAt }, holds);

  t.is(decide(before(1), { isHeld: false, releasedAt: NOW }), "blocked");
  t.is(decide(NOW, { isHeld: false, releasedAt: before(1) }), "rejected");
  t.is(decide(NOW, { isHeld: true, releasedAt: before(1) }), "blocked");
  t.is(decide(NOW, NEVER_HELD), "rejected");
});

const SECOND = 1_800_000_000;
test("a time belongs to the second in which it lies, up to the last millisecond", (t) => {
  t.is(secondOf(new Date(SECOND * 1000 - 1)), SECOND - 1);
  t.is(secondOf(new Date(SECOND * 1000)), SECOND);
  t.is(secondOf(new Date(SECOND * 1000 + 999)), SECOND);
});

test("a second may be sealed two seconds after its end, not a millisecond earlier", (t) => {
  t.is(lastSealableSecond(new Date(SECOND * 1000 - 1)), SECOND - 4);
  t.is(lastSealableSecond(new Date(SECOND * 1000)), SECOND - 3);
  t.is(lastSealableSecond(new Date(SECOND * 1000 + 999)), SECOND - 3);
  t.is(lastSealableSecond(new Date(SECOND * 1000 + 1000)), SECOND - 2);
});

test("sealings of different seconds and streams never have the same identifier", (t) => {
  const stream = { accountId: "a", mode: "live", kind: "tree" } as const;
  const stems = [
    meterEventIdentifierStem(stream, 1),
    meterEventIdentifierStem({ ...stream, accountId: "b" }, 1),
    meterEventIdentifierStem({ ...stream, mode: "test" }, 1),
    meterEventIdentifierStem({ ...stream, kind: "bottle" }, 1),
    meterEventIdentifierStem(stream, 2),
    meterEventIdentifierStem(stream, 11),
  ];
  t.is(stems[0], "u1:a:live:tree:1:");
  const identifiers = stems.flatMap((stem) => [`${stem}1`, `${stem}2`, `${stem}11`]);
  t.is(new Set(identifiers).size, identifiers.length);
});

test("a second belongs to the minute that starts at a whole multiple of 60 seconds", (t) => {
  t.deepEqual(minuteOf(SECOND), { start: SECOND, end: SECOND + 60 });
  t.deepEqual(minuteOf(SECOND + 59), { start: SECOND, end: SECOND + 60 });
  t.deepEqual(minuteOf(SECOND + 60), { start: SECOND + 60, end: SECOND + 120 });
});

test("the largest quantity is the last number of 15 digits", (t) => {
  t.is(String(MAXIMUM_QUANTITY).length, 15);
  t.is(String(MAXIMUM_QUANTITY + 1).length, 16);
});

const FULL = {
  callsPerSecond: 1000,
  maximumCallsPerSecond: 1000,
  secondsSinceChange: 60,
  reservedSeconds: -60,
};

test("calls are reserved a second ahead at most, after those that others have reserved", (t) => {
  t.deepEqual(reserveCalls(FULL, 2000), {
    calls: 1000,
    startsInSeconds: 0,
    intervalSeconds: 0.001,
  });
  t.deepEqual(reserveCalls({ ...FULL, reservedSeconds: 0.9 }, 2000), {
    calls: 100,
    startsInSeconds: 0.9,
    intervalSeconds: 0.001,
  });
  t.is(reserveCalls({ ...FULL, reservedSeconds: 1 }, 1).calls, 0);
});

test("the longest reservation, of a call at the lowest rate, is respected whatever the rate is now", (t) => {
  const slow = { ...FULL, callsPerSecond: 1, secondsSinceChange: 0, reservedSeconds: 0.99 };
  const { calls, startsInSeconds, intervalSeconds } = reserveCalls(slow, 10);
  const reservedSeconds = startsInSeconds + calls * intervalSeconds;

  t.is(reservedSeconds, 1.99);
  t.is(reserveCalls({ ...FULL, reservedSeconds }, 1).calls, 0);
});

test("a reservation that no worker can have made is from before the clock was set back, and is ignored", (t) => {
  for (const reservedSeconds of [2.1, 9, 3600]) {
    t.deepEqual(reserveCalls({ ...FULL, reservedSeconds }, 2000), reserveCalls(FULL, 2000));
  }
});

test("no more calls are reserved than wanted", (t) => {
  t.is(reserveCalls(FULL, 3).calls, 3);
});

test("one call is reserved even at the lowest rate", (t) => {
  const slow = { ...FULL, callsPerSecond: 1, secondsSinceChange: 0 };
  t.deepEqual(reserveCalls(slow, 10), { calls: 1, startsInSeconds: 0, intervalSeconds: 1 });
});

test("a rejected call lowers the rate every 1.5 seconds at most, and never below one call", (t) => {
  t.is(lowerCallRate(FULL), 700);
  t.is(lowerCallRate({ ...FULL, callsPerSecond: 700, secondsSinceChange: 1.4 }), null);
  t.is(lowerCallRate({ ...FULL, callsPerSecond: 1, secondsSinceChange: 1.5 }), 1);
});

test("a lowered rate rises by a tenth a second up to the maximum, whatever the clock does", (t) => {
  const lowered = { ...FULL, callsPerSecond: 500 };
  t.is(Math.round(currentCallsPerSecond({ ...lowered, secondsSinceChange: 1 })), 550);
  t.is(currentCallsPerSecond({ ...lowered, secondsSinceChange: 1e9 }), 1000);
  t.is(currentCallsPerSecond({ ...lowered, secondsSinceChange: -3600 }), 500);
});

test("another maximum counts immediately", (t) => {
  t.is(currentCallsPerSecond({ ...FULL, maximumCallsPerSecond: 25 }), 25);
  t.is(currentCallsPerSecond({ ...FULL, maximumCallsPerSecond: 5000 }), 5000);
});
