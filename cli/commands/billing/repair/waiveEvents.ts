import { waiveUsage } from "../../../../services/billing/repair/waiveUsage.ts";
import type { Context } from "../../../context.ts";
import { actorOf } from "../../../operator.ts";
import { CommandError, describeError, EXIT, exitCodeOf } from "../../../exitCodes.ts";
import { printJson, printTable } from "../../../output/print.ts";

export type WaiveOptions = { readonly reason: string; readonly as?: string; readonly json?: true };

type Result = {
  readonly id: string;
  readonly result: "waived" | "failed";
  readonly reason: string | null;
};

/** Waives each event separately: one that cannot be waived does not stop the others. */
export const waiveEvents = async (
  { io, connections, clock }: Context,
  ids: readonly bigint[],
  { reason, as, json }: WaiveOptions,
): Promise<void> => {
  const deps = { db: await connections.database(), clock, actor: actorOf({ as, reason }) };
  const results: Result[] = [];
  const exitCodes: number[] = [];
  for (const id of ids) {
    try {
      await waiveUsage(deps, id, reason);
      results.push({ id: String(id), result: "waived", reason: null });
    } catch (error) {
      results.push({ id: String(id), result: "failed", reason: describeError(error) });
      exitCodes.push(exitCodeOf(error));
    }
  }
  if (json) {
    printJson(io, results);
  } else {
    printTable(
      io,
      ["id", "result", "reason"],
      results.map(({ id, result, reason: why }) => [id, result, why]),
    );
  }
  if (exitCodes.length > 0) {
    throw new CommandError(
      exitCodes.length === ids.length && exitCodes.every((code) => code === EXIT.notFound)
        ? EXIT.notFound
        : EXIT.failed,
      `${exitCodes.length} of ${ids.length} could not be waived.`,
    );
  }
};
