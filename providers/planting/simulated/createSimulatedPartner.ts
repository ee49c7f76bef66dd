import type { PlantingStage, TimelineShape } from "../../../domain/planting/order.ts";
import type { PlantingFact } from "../../../domain/planting/fact.ts";
import type { PlantingPartner } from "../partner.ts";
import { simulateAllocated, simulatePlanted, simulateVerified } from "./simulatedFacts.ts";

/** What evidence calls the partner where no other name is set. */
export const SIMULATED_PARTNER_NAME = "Simulated planting partner";

/** How long after the stage before it each stage is reached. */
export type SimulatedDurations = {
  readonly allocationMs: number;
  readonly plantingMs: number;
  readonly verificationMs: number;
};

/**
 * A partner that plants nothing: it walks an order through its stages on a timetable, with made-up sites, crews, photos
 * and assessors that depend on the order alone. It keeps nothing, since each stage is timed from the one before it that is on
 * record.
 */
export const createSimulatedPartner = ({
  name,
  timeline,
  durations,
}: {
  readonly name: string;
  readonly timeline: TimelineShape;
  readonly durations: SimulatedDurations;
}): PlantingPartner => {
  const steps: readonly {
    readonly stage: PlantingStage;
    readonly afterMs: number;
    readonly simulate: (order: { publicId: string; treeCount: number }, at: Date) => PlantingFact;
  }[] =
    timeline === "allocations"
      ? [
          { stage: "allocated", afterMs: durations.allocationMs, simulate: simulateAllocated },
          { stage: "planted", afterMs: durations.plantingMs, simulate: simulatePlanted },
          {
            stage: "planted_and_verified",
            afterMs: durations.verificationMs,
            simulate: simulateVerified,
          },
        ]
      : [
          {
            stage: "planted_and_verified",
            afterMs: durations.allocationMs + durations.plantingMs + durations.verificationMs,
            simulate: simulateVerified,
          },
        ];
  return {
    kind: "simulated",
    name,
    timeline,
    isVerificationPolled: true,
    placeOrder: ({ publicId }) => Promise.resolve(`simulated/${publicId}`),
    fetchUpdates: ({ publicId, treeCount, createdAt, reached }, now) => {
      const instants = new Map(reached.map(({ stage, occurredAt }) => [stage, occurredAt]));
      let last = instants.get("funds_distributed") ?? createdAt;
      const facts: PlantingFact[] = [];
      for (const { stage, afterMs, simulate } of steps) {
        const due = instants.get(stage) ?? new Date(last.getTime() + afterMs);
        if (due > now) {
          return Promise.resolve({ facts, nextPollMs: due.getTime() - now.getTime() });
        }
        if (!instants.has(stage)) {
          facts.push(simulate({ publicId, treeCount }, due));
        }
        last = due;
      }
      return Promise.resolve({ facts, nextPollMs: null });
    },
  };
};
