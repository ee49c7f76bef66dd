import type { PlantingStage } from "../order.rules.ts";
import type { TimelineShape } from "../../../runtime/config/partnerKinds.rules.ts";
import type { PlantingFact } from "../fact.rules.ts";
import type { PlantingPartner } from "../partner.ts";
import { simulateAllocated, simulatePlanted, simulateVerified } from "./simulatedFacts.ts";

export const SIMULATED_PARTNER_NAME = "Simulated planting partner";

/** The time from the previous stage to each stage. */
export type SimulatedDurations = {
  readonly allocationMs: number;
  readonly plantingMs: number;
  readonly verificationMs: number;
};

type Step = {
  readonly stage: PlantingStage;
  readonly afterMs: number;
  readonly simulate: (order: { publicId: string; treeCount: number }, at: Date) => PlantingFact;
};

const stepsOf = (
  timeline: TimelineShape,
  { allocationMs, plantingMs, verificationMs }: SimulatedDurations,
): readonly Step[] =>
  timeline === "allocations"
    ? [
        { stage: "allocated", afterMs: allocationMs, simulate: simulateAllocated },
        { stage: "planted", afterMs: plantingMs, simulate: simulatePlanted },
        { stage: "planted_and_verified", afterMs: verificationMs, simulate: simulateVerified },
      ]
    : [
        {
          stage: "planted_and_verified",
          afterMs: allocationMs + plantingMs + verificationMs,
          simulate: simulateVerified,
        },
      ];

/**
 * A partner that plants nothing. It takes an order through its stages on a schedule, with made-up sites, crews, photos and
 * assessors that depend on the order alone. It is stateless: each stage is timed from the recorded previous one.
 */
export const createSimulatedPartner = ({
  name,
  timeline,
  durations,
}: {
  readonly name: string;
  readonly timeline: TimelineShape;
  readonly durations: SimulatedDurations;
}): PlantingPartner => ({
  kind: "simulated",
  name,
  timeline,
  isVerificationPolled: true,
  placeOrder: ({ publicId }) => Promise.resolve(`simulated/${publicId}`),
  fetchUpdates: ({ publicId, treeCount, createdAt, reached, timeline: shape }, { now }) => {
    const reachedAt = new Map(reached.map(({ stage, occurredAt }) => [stage, occurredAt]));
    let last = reachedAt.get("funds_distributed") ?? createdAt;
    const facts: PlantingFact[] = [];
    for (const { stage, afterMs, simulate } of stepsOf(shape, durations)) {
      const due = reachedAt.get(stage) ?? new Date(last.getTime() + afterMs);
      if (due > now) {
        return Promise.resolve({ facts, nextPollMs: due.getTime() - now.getTime() });
      }
      if (!reachedAt.has(stage)) {
        facts.push(simulate({ publicId, treeCount }, due));
      }
      last = due;
    }
    return Promise.resolve({ facts, nextPollMs: null });
  },
});
