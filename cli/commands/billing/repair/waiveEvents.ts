import { waiveUsage } from "../../../../services/billing/repair/waiveUsage.ts";
import type { Context } from "../../../context.ts";
import { actorOf } from "../../../operator.ts";
import type { ReasonedOptions } from "../../../operator.ts";
import { printResults, requireSuccess, runForEach } from "./reportResults.ts";

export const waiveEvents = async (
  { io, connections, clock }: Context,
  ids: readonly bigint[],
  { json, ...operator }: ReasonedOptions,
): Promise<void> => {
  const deps = { db: await connections.database(), clock, actor: actorOf(operator) };
  const results = await runForEach(io, ids, "waived", async (id) => {
    await waiveUsage(deps, id, operator.reason);
    return "waived";
  });
  printResults(io, results, json === true);
  requireSuccess(results, "waived");
};
