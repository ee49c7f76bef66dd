import { readFile } from "node:fs/promises";
import test from "ava";
import { decideNextStep, withoutProcessor } from "../../../domain/billing/decideNextStep.ts";
import type { AttemptOutcome, NextStep } from "../../../domain/billing/decideNextStep.ts";
import {
  decideReopenAfterCheck,
  decideRetry,
  decideRetryAfterCheck,
  requireDelivered,
} from "../../../domain/billing/repair/decideRetry.ts";
import { decideLateRejection } from "../../../domain/billing/processorEvents.ts";
import { DomainError } from "../../../domain/errors.ts";
import {
  isFailed,
  METER_EVENT_STATES,
  stateAtSealing,
} from "../../../domain/billing/meterEvents.ts";
import type { MeterEventState } from "../../../domain/billing/meterEvents.ts";

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
