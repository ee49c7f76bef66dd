/*
 * A checkout that plants a tree for each order. Run it as often as you like: an order is planted once.
 *
 * IMPACT_URL=http://127.0.0.1:8080 IMPACT_API_KEY=… node checkout.ts
 */
import { createImpactClient, ImpactApiError, ImpactError } from "impact-tracking-client";

type Order = { readonly id: string; readonly campaign: string; readonly trees: number };

const impact = createImpactClient({
  baseUrl: process.env["IMPACT_URL"] ?? "http://127.0.0.1:8080",
  apiKey: process.env["IMPACT_API_KEY"] ?? "",
  // A customer waits: try for some seconds, and leave the rest to a job.
  timeoutMs: 3_000,
  maxRetries: 2,
});

/** Returns whether the order is settled; if not, plant it again later, with the same order. */
const plantForOrder = async ({ id, campaign, trees }: Order): Promise<boolean> => {
  try {
    const { tree_details: details } = await impact.registerTrees(
      { count: trees, attribution: campaign, metadata: { order: id } },
      // From the order, not random: the same after a crash, a double click or a second delivery of the order.
      { idempotencyKey: `order-${id}` },
    );
    console.log(`Order ${id}: planted as ${details[0]?.id}`);
    return true;
  } catch (error) {
    // Only a 400 is about the order. Others, such as a 403 for an old key or for a reached limit of the day, are over when
    // their cause is, and the order is not.
    if (error instanceof ImpactApiError && error.status === 400) {
      console.error(`Order ${id}: refused: ${error.message} (request ${error.requestId})`);
      return true;
    }
    if (error instanceof ImpactError) {
      console.error(`Order ${id}: not known to be planted: ${error.message}`);
      return false;
    }
    throw error;
  }
};

const order = { id: "1003", campaign: "spring-sale", trees: 3 };
process.exitCode = (await plantForOrder(order)) ? 0 : 1;
