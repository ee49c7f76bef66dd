import type { TimelineShape } from "../../../runtime/config/partnerKinds.rules.ts";
import type { PlantingFact } from "../fact.rules.ts";
import type { PlantingPartner } from "../partner.ts";
import { simulateAllocated, simulatePlanted, simulateVerified } from "./simulatedFacts.ts";

export const SIMULATED_PARTNER_NAME = "Simulated planting partner";

/** The stages of each timeline, with how many steps after the previous one. */
const STAGES = {
  allocations: [
    { stage: "allocated", steps: 1, simulate: simulateAllocated },
    { stage: "planted", steps: 1, simulate: simulatePlanted },
    { stage: "planted_and_verified", steps: 1, simulate: simulateVerified },
  ],
  sessions: [{ stage: "planted_and_verified", steps: 3, simulate: simulateVerified }],
} as const;

/**
 * A partner that plants nothing. It takes an order through its stages on a schedule, with made-up sites, crews, photos and
 * assessors that depend on the order alone. It is stateless: each stage is timed from the recorded previous one.
 * @param stepMs the time from one stage of allocations to the next
 */
export const createSimulatedPartner = (
  name: string,
  timeline: TimelineShape,
  stepMs: number,
): PlantingPartner => ({
  kind: "simulated",
  name,
  timeline,
  isVerificationPolled: true,
  placeOrder: ({ publicId }) => Promise.resolve(`simulated/${publicId}`),
  fetchUpdates: ({ publicId, treeCount, createdAt, reached, timeline: shape }, { now }) => {
    const reachedAt = new Map(reached.map(({ stage, occurredAt }) => [stage, occurredAt]));
    let last = reachedAt.get("funds_distributed") ?? createdAt;
    const facts: PlantingFact[] = [];
    for (const { stage, steps, simulate } of STAGES[shape]) {
      const due = reachedAt.get(stage) ?? new Date(last.getTime() + steps * stepMs);
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
