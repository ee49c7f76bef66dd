import { waiveUsage } from "../../../../services/billing/repair/waiveUsage.ts";
import type { CliContext } from "../../../context.ts";
import { openChange } from "../../../operator.ts";
import type { ReasonedOptions } from "../../../operator.ts";
import { printResults, requireSuccess, runForEach } from "./reportResults.ts";

export const waiveEvents = async (
  context: CliContext,
  ids: readonly bigint[],
  { json, ...operator }: ReasonedOptions,
): Promise<void> => {
  const { io } = context;
  const deps = await openChange(context, operator);
  const results = await runForEach(io, ids, "waived", async (id) => {
    await waiveUsage(deps, id, operator.reason);
    return "waived";
  });
  printResults(io, results, json === true);
  requireSuccess(results, "waived");
};
