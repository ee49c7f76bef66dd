import type { DatabasePool } from "slonik";
import { listPlantingOrders } from "../../db/planting/orders.ts";
import type { Kind, Mode } from "../../domain/accounts/accounts.ts";
import type { PlantingOrder, TimelineShape } from "../../domain/planting/order.ts";
import type { PlantingFact } from "../../domain/planting/fact.ts";
import {
  pollPlantingOrder,
  placePlantingOrder,
} from "../../services/planting/pollPlantingOrder.ts";
import { createPlantingOrders } from "../../services/planting/createPlantingOrders.ts";
import type { EvidenceDependencies } from "../../services/planting/cacheEvidence.ts";
import { recordPlantingFacts } from "../../services/planting/recordPlantingFacts.ts";
import { createRegistrationWriter } from "../../services/registrations/registrationWriter.ts";
import { createTestOrganization, registrationOf } from "../support/factories.ts";
import { createMovableClock } from "../support/movableClock.ts";
import { createTestPlanting } from "../support/planting.ts";

const NEVER = new AbortController().signal;

/** What an operator reports who has passed an order on. */
export const handedOver = (publicId: string, at: Date): PlantingFact => ({
  stage: "funds_distributed",
  occurred_at: at.toISOString(),
  partner_reference: publicId,
});

export type PlantingSetup = Awaited<ReturnType<typeof setUpPlanting>>;

/** An organization whose trees are planted by the simulated partner on a clock that the test moves. */
export const setUpPlanting = async (
  db: DatabasePool,
  {
    timeline = "allocations",
    partner = "simulated",
    name = "Test Organization",
    start = "2026-05-01T10:00:00.000Z",
  }: {
    readonly timeline?: TimelineShape;
    readonly partner?: "simulated" | "manual";
    readonly name?: string;
    readonly start?: string;
  } = {},
) => {
  const clock = createMovableClock(start);
  const planting = createTestPlanting({ partner, timeline });
  const organization = await createTestOrganization(db, { clock, name });
  const writer = createRegistrationWriter({ db, clock });
  const deps: EvidenceDependencies & { readonly db: DatabasePool } = {
    db,
    clock,
    planting,
    publicBaseUrl: () => "https://impact.example",
  };
  const orders = async (): Promise<readonly PlantingOrder[]> =>
    (await listPlantingOrders(db, { accountId: organization.id, limit: 1000 })).toReversed();
  return {
    clock,
    deps,
    organization,
    orders,
    register: async (
      count: number,
      { mode = "live", kind = "tree" }: { readonly mode?: Mode; readonly kind?: Kind } = {},
    ): Promise<string> => {
      const { registration } = await writer.register(
        registrationOf(organization.id, {
          mode,
          kind,
          count,
          fractionalCount: 0.5,
          attribution: "spring",
        }),
      );
      return registration.id;
    },
    createOrders: (registrationsPerOrder?: number): Promise<number> =>
      createPlantingOrders(deps, NEVER, registrationsPerOrder),
    /** Hands every order over, as its workflow or, to the manual partner, an operator would. */
    place: async (): Promise<void> => {
      for (const { id, publicId, partner: kind } of await orders()) {
        await placePlantingOrder(deps, id, NEVER);
        if (kind === "manual") {
          await recordPlantingFacts(deps, id, [handedOver(publicId, clock.now())], "operator");
        }
      }
    },
    /** Lets time pass and looks at every order, as their workflows would. */
    pass: async (durationMs: number): Promise<void> => {
      clock.set(new Date(clock.now().getTime() + durationMs).toISOString());
      for (const { id } of await orders()) {
        await pollPlantingOrder(deps, id, NEVER);
      }
    },
  };
};
